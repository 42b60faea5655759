//! The secrets of a session, wherever in its files they stand.
//!
//! Invariants: a link that leads out of the home is not followed; a file that belongs to the
//! session and cannot be read is passed over, the session's own is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::belongings::its_own;
use super::home_folders;
use super::{Agent, Belonging, Session, Thing};
use crate::format::secret::{Form, Redactor, Values, survey, survey_name};

/// Looks through a session and everything that belongs to it alone: whoever hides these secrets
/// hides each wherever it stands, not only where a rule recognizes it.
pub fn secrets(
    session: &Session,
    agents: Vec<Agent>,
    redactor: &Redactor,
) -> crate::Result<Values> {
    find_secrets(session, agents, redactor).map(|found| found.values)
}

/// The secrets of a session, and where they were seen.
#[derive(Debug, Default)]
pub struct FoundSecrets {
    /// What they are.
    pub values: Values,
    /// What its transcript and those of its sub-agents have of them, as `check` reports it.
    pub seen: Vec<(PathBuf, SeenKinds)>,
}

/// Secrets of a file by kind: how many, and the line of the first.
pub type SeenKinds = BTreeMap<String, (u64, u64)>;

/// Like [`secrets`], for callers that also report where they are.
pub fn find_secrets(
    session: &Session,
    agents: Vec<Agent>,
    redactor: &Redactor,
) -> crate::Result<FoundSecrets> {
    let (mut values, mut seen) = (Values::default(), Vec::new());
    let roots = roots(session);
    for (number, one) in its_own(session, agents).into_iter().enumerate() {
        if number > 0 && obstacle(&one.path, &roots).is_some() {
            continue;
        }
        match look(&one, redactor, &mut values) {
            Ok(kinds) if matches!(one.thing, Thing::Transcript | Thing::Agent) => {
                seen.push((one.path.clone(), kinds));
            }
            Err(error) if number == 0 => return Err(error),
            _ => {}
        }
        let inside = one.path.strip_prefix(session.folder()).ok();
        for name in inside.into_iter().flat_map(Path::components) {
            let name = name.as_os_str().to_string_lossy();
            survey_name(&name, redactor, None, &mut values);
        }
    }
    Ok(FoundSecrets { values, seen })
}

fn look(one: &Belonging, redactor: &Redactor, values: &mut Values) -> crate::Result<SeenKinds> {
    let file = files::open(&one.path)?;
    let found = survey(&file, one.thing.form(&one.path), redactor, None, values)?;
    let mut kinds = SeenKinds::new();
    for sighting in found.seen {
        kinds.entry(sighting.kind).or_insert((0, sighting.line)).0 += 1;
    }
    Ok(kinds)
}

impl Thing {
    /// What such a file contains.
    pub fn form(self, path: &Path) -> Form {
        match self {
            Thing::Transcript | Thing::Agent | Thing::History => Form::Lines,
            Thing::AgentMeta | Thing::Todos | Thing::IndexRow => Form::Json,
            _ => match path.extension().and_then(|ending| ending.to_str()) {
                Some("jsonl") => Form::Lines,
                Some("json") => Form::Json,
                _ => Form::Text,
            },
        }
    }
}

/// The folders that contain what belongs to a session. Each of them may be a link that the user
/// made.
pub fn roots(session: &Session) -> Vec<PathBuf> {
    let Some(project) = session.path.parent() else { return Vec::new() };
    let mut roots = vec![project.to_owned()];
    if let Some(home) = project.parent().and_then(Path::parent) {
        roots.extend(home_folders::names().map(|name| home.join(name)));
        if project.parent().is_some_and(|folder| folder.ends_with("projects")) {
            roots.extend([home.to_owned(), home.join("projects")]);
        }
    }
    roots.iter().filter_map(|root| fs::canonicalize(root).ok()).collect()
}

/// Why a file cannot be read or copied as one of a session.
pub fn obstacle(path: &Path, roots: &[PathBuf]) -> Option<&'static str> {
    let Ok(real) = fs::canonicalize(path) else { return Some("a broken link") };
    if !roots.iter().any(|root| real.starts_with(root)) {
        return Some("a link that leads out of the home");
    }
    let is_file = fs::metadata(&real).is_ok_and(|found| found.is_file());
    (!is_file).then_some("not a regular file")
}
