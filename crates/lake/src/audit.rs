//! What is wrong with a target, or with what this machine has in it.
//!
//! Invariant: an audit changes nothing, except for one object that it writes and deletes to see
//! whether it may.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::parquet::MAGIC;
use crate::push::{is_uuid, object_name};
use crate::reader::{LONGEST_FOOTER, Reader};
use crate::schema::TABLES;
use crate::sheet::{Object, short_hash};
use crate::state::State;
use crate::target::{Stored, Target, is_part};
use crate::{LakeError, Trouble};

/// What there is in a target, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Objects of all machines.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Machines that pushed something.
    pub machines: u64,
    /// Sessions of this machine.
    pub sessions: u64,
    /// What is wrong, a sentence each; at most 20.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

/// How many problems are listed.
const MOST: usize = 20;

impl Audit {
    fn wrong(&mut self, text: String) {
        if self.problems.len() < MOST {
            self.problems.push(text);
        } else {
            self.more += 1;
        }
    }
}

/// Looks at a target: whether it can be listed and written to, and whether what this machine has
/// pushed is there, whole, and once. Of objects in a folder, also whether they are what was pushed.
/// `former` are other names under which this machine has pushed to it.
pub fn audit(
    target: &Target,
    state: &State,
    machine: &str,
    former: &[String],
) -> Result<Audit, LakeError> {
    let mut audit = Audit::default();
    if let Target::Folder(folder) = target
        && !folder.is_dir()
    {
        let what = format!("there is no folder `{}`", folder.display());
        let why = "the first push makes it".to_owned();
        return Err(LakeError::Store { what, why, trouble: Trouble::Refused });
    }
    for name in former {
        audit.wrong(format!(
            "this machine was called `{name}`: what it pushed under that name is still there, too"
        ));
    }
    let mut machines = BTreeSet::new();
    // The days of this machine's objects, with their sizes, by table and name.
    let mut ours: BTreeMap<(&str, String), Vec<(String, u64)>> = BTreeMap::new();
    let mut broken = BTreeSet::new();
    for table in &TABLES {
        for Stored { key, size } in target.list(table.name, &|_| true)? {
            let mut parts = key.rsplit('/');
            let (name, day) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            // Engines keep theirs there, such as the log of a Delta table; no view reads it.
            if name.starts_with('_') || day.starts_with('_') {
                continue;
            }
            if is_part(name) {
                let is_ours = name.strip_prefix('.').is_some_and(|name| is_of(name, machine));
                let whose = if is_ours { "" } else { ", or is being written by another machine" };
                audit.wrong(format!("`{key}` was left by a push that was stopped{whose}"));
                continue;
            }
            let Some(stem) = name.strip_suffix(".parquet") else { continue };
            audit.objects += 1;
            audit.bytes += size;
            machines.extend(machine_of(stem, machine).map(str::to_owned));
            if let Target::Folder(folder) = target
                && !is_whole(&folder.join(&key))
            {
                audit.wrong(format!("`{key}` is not a whole Parquet file"));
                broken.insert(key.clone());
            }
            if is_of(stem, machine) {
                let place = ours.entry((table.name, name.to_owned())).or_default();
                place.push((day.to_owned(), size));
            }
        }
    }
    audit.machines = machines.len() as u64;
    for ((table, name), days) in &ours {
        if let [(first, _), (second, _), ..] = days.as_slice() {
            audit.wrong(format!("`{table}/…/{name}` is there twice: in {first} and in {second}"));
        }
    }
    let mut records: Vec<_> = state.records().filter(|record| !record.is_erased()).collect();
    records.sort_by(|one, other| one.session.cmp(&other.session));
    for record in records {
        audit.sessions += 1;
        let name = object_name(machine, &record.name());
        for (table, (hash, size)) in &record.objects {
            let found = TABLES.iter().find(|known| known.name == table);
            let found = found.and_then(|known| ours.get(&(known.name, name.clone())));
            let found = found.and_then(|days| days.iter().find(|(day, _)| *day == record.day));
            let key = format!("{table}/{}/{name}", record.day);
            match found {
                None => audit.wrong(format!("`{key}` was pushed and is gone")),
                Some((_, there)) if there != size => {
                    audit.wrong(format!("`{key}` has {there} bytes, and {size} were pushed"));
                }
                Some(_) => {
                    if let Target::Folder(folder) = target
                        && !broken.contains(&key)
                        && hash_of(&folder.join(&key)).is_ok_and(|found| found != *hash)
                    {
                        audit.wrong(format!("`{key}` has other bytes than were pushed"));
                    }
                }
            }
        }
    }
    // Not seen by engines: names that begin with an underscore are hidden.
    let probe = format!("_quipu-check-{machine}");
    target.put(&probe, &mut Object::probe()?)?;
    target.delete(&probe)?;
    Ok(audit)
}

/// Whether the name of an object begins with that of a machine.
fn is_of(name: &str, machine: &str) -> bool {
    name.strip_prefix(machine).is_some_and(|rest| rest.starts_with('-'))
}

/// The machine in the name of an object; `None` if the name can be read in several ways, as that of
/// another machine's session whose name is no UUID.
fn machine_of<'a>(stem: &'a str, machine: &'a str) -> Option<&'a str> {
    let other = || {
        let (before, session) = stem.split_at_checked(stem.len().checked_sub(36)?)?;
        before.strip_suffix('-').filter(|_| is_uuid(session))
    };
    if is_of(stem, machine) { Some(machine) } else { other() }
}

/// Whether a file begins and ends as Parquet does, and says at its end what is in it.
fn is_whole(path: &Path) -> bool {
    let read = || -> std::io::Result<bool> {
        let mut file: File = files::open(path)?;
        let size = file.metadata()?.len();
        let (mut start, mut end) = ([0; 4], [0; 8]);
        file.read_exact(&mut start)?;
        file.seek(SeekFrom::End(-8))?;
        file.read_exact(&mut end)?;
        let (footer, magic) = end.split_at(4);
        let footer = footer.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        if start != MAGIC || magic != MAGIC || footer + 12 > size || footer > LONGEST_FOOTER {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(size - 8 - footer))?;
        let mut described = MAGIC.to_vec();
        file.read_to_end(&mut described)?;
        Ok(Reader::open(&described).is_some())
    };
    read().unwrap_or(false)
}

/// The hash of a file, as that of its object.
fn hash_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher) = (files::open(path)?, Sha256::new());
    std::io::copy(&mut file, &mut hasher)?;
    Ok(short_hash(hasher))
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
