//! Where a rule goes that the user allows always: a settings file, or this session only.
//!
//! The engine writes the file, as for a host. Invariant: the first place is the one that is taken
//! if the user says no more.

use std::path::PathBuf;
use std::sync::Arc;

use agent::tool::Site;
use agent::trust::{Trust, TrustList};

/// What is said of a file that is not obeyed yet.
const LATER: &str = " (in other sessions once this folder is trusted: /trust)";
/// How long the list of trusted folders can be.
const LONGEST: u64 = 1 << 20;

/// How the engine calls the places, the usual one first.
const PLACES: [&str; 4] = ["localSettings", "projectSettings", "userSettings", "session"];

/// A place: how the engine calls it, and how people do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RulePlace {
    pub(super) destination: &'static str,
    pub(super) label: String,
}

/// Where the rules of a session can go, and whether they count there.
#[derive(Clone)]
pub(super) struct RulePlaces {
    pub(super) site: Arc<Site>,
    /// The list of trusted folders.
    pub(super) trusted: Option<PathBuf>,
}

impl RulePlaces {
    /// The places that can be chosen. An administrator may have closed the files.
    pub(super) fn all(&self) -> Vec<RulePlace> {
        let site = &self.site;
        let is_trusted = self.is_trusted();
        let place = |destination: &'static str| {
            let file = site.permission_files.iter().find(|file| file.destination == destination);
            let label = match file {
                Some(file) => {
                    let path = file.path.strip_prefix(&site.root).unwrap_or(&file.path);
                    let later = if file.is_in_project && !is_trusted { LATER } else { "" };
                    format!("{}{later}", path.display())
                }
                None if destination == "session" => "this session only".to_owned(),
                None => return None,
            };
            Some(RulePlace { destination, label })
        };
        PLACES.into_iter().filter_map(place).collect()
    }

    /// Whether the settings in the session's folder count, which may have changed meanwhile.
    fn is_trusted(&self) -> bool {
        let text = self.trusted.as_ref().and_then(|list| files::read_text(list, LONGEST).ok());
        let list = text.and_then(|text| TrustList::parse(&text).ok()).unwrap_or_default();
        list.covers(&self.site.root, self.site.home.as_deref()) == Trust::Trusted
    }
}
