//! Where a rule goes that the user allows always: a settings file, or this session only.
//!
//! The engine writes the file, as for a host. Invariant: the first place is the one that is taken
//! if the user says no more.

use agent::tool::Site;

/// How the engine calls the places, the usual one first.
const PLACES: [&str; 4] = ["localSettings", "projectSettings", "userSettings", "session"];

/// A place: how the engine calls it, and how people do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RulePlace {
    pub(super) destination: &'static str,
    pub(super) label: String,
}

/// The places that can be chosen in a session. An administrator may have closed the files.
pub(super) fn places(site: &Site) -> Vec<RulePlace> {
    let place = |destination: &'static str| {
        let file = site.permission_files.iter().find(|file| file.destination == destination);
        let label = match file {
            Some(file) => {
                let path = file.path.strip_prefix(&site.root).unwrap_or(&file.path);
                path.display().to_string()
            }
            None if destination == "session" => "this session only".to_owned(),
            None => return None,
        };
        Some(RulePlace { destination, label })
    };
    PLACES.into_iter().filter_map(place).collect()
}
