//! What is wrong with a target, or with what this machine has in it.
//!
//! Invariant: an audit changes nothing, except for one object that it writes and deletes to see
//! whether it may.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::LakeError;
use crate::push::object_name;
use crate::schema::TABLES;
use crate::sheet::Object;
use crate::state::State;
use crate::target::{Stored, Target, is_part};

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
/// pushed is there, whole, and once.
pub fn audit(target: &Target, state: &State, machine: &str) -> Result<Audit, LakeError> {
    let mut audit = Audit::default();
    let mut machines = BTreeSet::new();
    // The days of this machine's objects, with their sizes, by table and name.
    let mut ours: BTreeMap<(&str, String), Vec<(String, u64)>> = BTreeMap::new();
    for table in &TABLES {
        for Stored { key, size } in target.list(table.name, &|_| true)? {
            let mut parts = key.rsplit('/');
            let (name, day) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            // Engines keep theirs there, such as the log of a Delta table; no view reads it.
            if name.starts_with('_') || day.starts_with('_') {
                continue;
            }
            if is_part(name) {
                audit.wrong(format!("`{key}` was left by a push that was stopped; push again"));
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
            }
            if stem.strip_prefix(machine).is_some_and(|rest| rest.starts_with('-')) {
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
        let name = object_name(machine, &record.session);
        for (table, (_, size)) in &record.objects {
            let found = TABLES.iter().find(|known| known.name == table);
            let found = found.and_then(|known| ours.get(&(known.name, name.clone())));
            let found = found.and_then(|days| days.iter().find(|(day, _)| *day == record.day));
            let key = format!("{table}/{}/{name}", record.day);
            match found {
                None => audit.wrong(format!("`{key}` was pushed and is gone")),
                Some((_, there)) if there != size => {
                    audit.wrong(format!("`{key}` has {there} bytes, and {size} were pushed"));
                }
                Some(_) => {}
            }
        }
    }
    // Not seen by engines: names that begin with an underscore are hidden.
    let probe = format!("_quipu-check-{machine}");
    target.put(&probe, &mut Object::probe()?)?;
    target.delete(&probe)?;
    Ok(audit)
}

/// The machine in the name of an object; `None` if the name can be read in several ways, as that of
/// another machine's session whose name is no UUID.
fn machine_of<'a>(stem: &'a str, machine: &'a str) -> Option<&'a str> {
    let is_own = stem.strip_prefix(machine).is_some_and(|rest| rest.starts_with('-'));
    let other = || {
        let (machine, session) = stem.split_at_checked(stem.len().checked_sub(37)?)?;
        let is_sign = |at: usize, sign: char| match at {
            0 | 9 | 14 | 19 | 24 => sign == '-',
            _ => sign.is_ascii_hexdigit(),
        };
        session.char_indices().all(|(at, sign)| is_sign(at, sign)).then_some(machine)
    };
    if is_own { Some(machine) } else { other() }
}

/// Whether a file begins and ends as Parquet does.
fn is_whole(path: &Path) -> bool {
    let read = || -> std::io::Result<bool> {
        let mut file: File = files::open(path)?;
        let (mut start, mut end) = ([0; 4], [0; 4]);
        file.read_exact(&mut start)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut end)?;
        Ok(&start == b"PAR1" && &end == b"PAR1")
    };
    read().unwrap_or(false)
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
