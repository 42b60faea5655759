//! Erases a session from a target, and proves it.
//!
//! Invariant: what is there is found by listing, not by what we remember; nothing of another
//! session is deleted. The name of an object is that of a machine, a hyphen, and that of a session,
//! and both may contain hyphens: so the object itself is asked whose it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::LakeError;
use crate::push::{hashed_name, is_uuid, plain_name};
use crate::reader::Reader;
use crate::schema::TABLES;
use crate::target::{Target, Versions, is_part};

/// What was erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The objects that were found and deleted.
    pub objects: Vec<String>,
    /// What a second listing still found.
    pub left: Vec<String>,
    /// Objects that may be of the session, or of another one whose name ends like it: they do not
    /// say whose they are, and were not deleted.
    pub unclear: Vec<String>,
    /// Whether the target keeps old versions of them.
    pub versions: Versions,
}

/// Deletes all objects of a session, whichever machine pushed them. `machine` is the name of this
/// one.
pub fn erase(target: &Target, session: &str, machine: &str) -> Result<Erased, LakeError> {
    let Found { objects, .. } = find(target, session, machine)?;
    let mut versions = match objects.iter().find(|key| !is_part(file_name(key))) {
        Some(key) => target.versions(key)?,
        // Old versions are not listed.
        None => target.unseen_versions(),
    };
    for key in &objects {
        target.delete(key)?;
    }
    if target.only_marks() && !objects.is_empty() {
        versions = Versions::Kept;
    }
    let left = find(target, session, machine)?;
    Ok(Erased { objects, left: left.objects, unclear: left.unclear, versions })
}

/// Objects of a session.
#[derive(Default)]
struct Found {
    objects: Vec<String>,
    unclear: Vec<String>,
}

fn find(target: &Target, session: &str, machine: &str) -> Result<Found, LakeError> {
    // All objects whose names may be read so, by name.
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for table in &TABLES {
        let listed = target.list(table.name, &|name| Reading::of(name, session).is_some())?;
        for key in listed.into_iter().map(|stored| stored.key) {
            named.entry(plain(file_name(&key)).to_owned()).or_default().push(key);
        }
    }
    let mut found = Found::default();
    for (name, keys) in named {
        let Some(reading) = Reading::of(&name, session) else { continue };
        let whose = match reading {
            Reading::Sure => Some(true),
            Reading::Machine(before) => match whose(target, &keys)? {
                Some(id) => Some(is_same(&id, session)),
                // It was left by a push that was stopped, or another program wrote it.
                None if is_uuid(session) || before == machine => Some(true),
                None if !before.contains('-') => Some(true),
                None => None,
            },
        };
        match whose {
            Some(true) => found.objects.extend(keys),
            Some(false) => {}
            None => found.unclear.extend(keys),
        }
    }
    Ok(found)
}

/// The session that objects of one name are of: the first of them that has a row says so.
fn whose(target: &Target, keys: &[String]) -> Result<Option<String>, LakeError> {
    // That of `sessions` always has one.
    let order: BTreeSet<(bool, &String)> =
        keys.iter().map(|key| (!key.starts_with("sessions/"), key)).collect();
    for (_, key) in order.into_iter().filter(|(_, key)| !is_part(file_name(key))) {
        let bytes = target.get(key)?;
        let reader = bytes.as_deref().and_then(Reader::open);
        let ids = reader.and_then(|reader| reader.texts("session_id"));
        if let Some(id) = ids.and_then(|ids| ids.into_iter().next()) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// The name of an object, also of one that is being written.
fn plain(name: &str) -> &str {
    if is_part(name) { name[1..].trim_end_matches(".part") } else { name }
}

/// UUIDs are the same in capitals.
fn is_same(id: &str, session: &str) -> bool {
    id == session || is_uuid(session) && id.eq_ignore_ascii_case(session)
}

/// How the name of an object can be that of a session's.
#[derive(Debug, PartialEq, Eq)]
enum Reading<'a> {
    /// It can be nothing else.
    Sure,
    /// If a machine has this name.
    Machine(&'a str),
}

impl Reading<'_> {
    fn of<'a>(name: &'a str, session: &str) -> Option<Reading<'a>> {
        let stem = plain(name).strip_suffix(".parquet")?;
        let before = |wanted: &str| {
            let (before, found) = stem.split_at_checked(stem.len().checked_sub(wanted.len())?)?;
            let before = before.strip_suffix('-').filter(|before| !before.is_empty())?;
            is_same(found, wanted).then_some(before)
        };
        // An id that may be a secret is in no name.
        if before(&hashed_name(session)).is_some() {
            return Some(Reading::Sure);
        }
        before(&plain_name(session)).map(Reading::Machine)
    }
}

#[cfg(test)]
#[path = "erase_tests.rs"]
mod tests;
