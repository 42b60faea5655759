//! Erases a session from a target, and proves it.
//!
//! Invariant: what is there is found by listing, not by what we remember; nothing of another
//! session is deleted.

use crate::LakeError;
use crate::push::is_uuid;
use crate::schema::TABLES;
use crate::target::{Target, Versions, is_part};

/// What was erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The objects that were found and deleted.
    pub objects: Vec<String>,
    /// What a second listing still found.
    pub left: Vec<String>,
    /// Whether the target keeps old versions of them.
    pub versions: Versions,
}

/// Deletes all objects of a session, whichever machine pushed them. `machine` is the name of this
/// one.
pub fn erase(target: &Target, session: &str, machine: &str) -> Result<Erased, LakeError> {
    let objects = find(target, session, machine)?;
    let mut versions = match objects.iter().find(|key| !is_part(file_name(key))) {
        Some(key) => target.versions(key)?,
        None => Versions::Gone,
    };
    for key in &objects {
        target.delete(key)?;
    }
    if target.only_marks() && !objects.is_empty() {
        versions = Versions::Kept;
    }
    Ok(Erased { left: find(target, session, machine)?, objects, versions })
}

fn find(target: &Target, session: &str, machine: &str) -> Result<Vec<String>, LakeError> {
    let mut found = Vec::new();
    for table in &TABLES {
        let listed = target.list(table.name, &|name| is_of(name, session, machine))?;
        found.extend(listed.into_iter().map(|one| one.key));
    }
    Ok(found)
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// Whether an object is one of a session. Its name is that of a machine, a hyphen, and that of the
/// session. Both may contain hyphens: unless the session's name is a UUID, only machines without a
/// hyphen, and this one, are sure. UUIDs are the same in capitals.
fn is_of(name: &str, session: &str, machine: &str) -> bool {
    let name = if is_part(name) { name[1..].trim_end_matches(".part") } else { name };
    let stem = name.strip_suffix(".parquet").unwrap_or_default();
    let Some((before, found)) =
        stem.len().checked_sub(session.len()).and_then(|at| stem.split_at_checked(at))
    else {
        return false;
    };
    let Some(before) = before.strip_suffix('-').filter(|before| !before.is_empty()) else {
        return false;
    };
    if is_uuid(session) {
        return found.eq_ignore_ascii_case(session);
    }
    found == session && (before == machine || !before.contains('-'))
}

#[cfg(test)]
#[path = "erase_tests.rs"]
mod tests;
