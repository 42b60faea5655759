//! The sessions of a ledger, and the calls of the API that each of them contains.
//!
//! A session is all files with its id, in whatever project: a folder that was copied contains the
//! same sessions again, and they share their objects. Invariants: a call is one row of a session;
//! it is not a copy in exactly one session, the one that the ledger says it belongs to. If the
//! client has deleted that session, what was pushed of it stays in the lake, so its calls do not
//! become those of a copy; if it was erased from the lake, they do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use transcript::conversation::usage::Ledger;

use crate::state::{Record, State};

/// A session.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its files, as indices into [`Ledger::sources`].
    pub files: Vec<usize>,
    /// Its calls of the API, in the order of the ledger.
    pub(crate) calls: Vec<GroupCall>,
    /// If it has or had files of sub-agents: what stands for each of its files, and its calls.
    pub(crate) prints: Vec<u64>,
    /// It was pushed, and only files of its sub-agents are left: in the lake, it stays as it was.
    pub(crate) is_remainder: bool,
    /// It was pushed, and since then files went and nothing else changed: it stays as it was, too.
    pub(crate) is_thinned: bool,
}

/// A call of the API in a session.
#[derive(Clone, Debug)]
pub(crate) struct GroupCall {
    /// As an index into [`Ledger::entries`].
    pub(crate) entry: usize,
    /// The file of this session that contains it, as an index into [`Ledger::sources`].
    pub(crate) file: usize,
    /// The session that had it first, if it is a copy.
    pub(crate) owner: Option<Arc<str>>,
}

impl Group {
    /// Whether a session's own transcript is among its files.
    pub(crate) fn has_transcript(&self, ledger: &Ledger) -> bool {
        self.files.iter().any(|file| !ledger.sources[*file].is_agent)
    }

    /// Stands for each call that is its own.
    pub(crate) fn own_calls(&self, ledger: &Ledger) -> Vec<u64> {
        let calls = self.calls.iter().filter(|call| call.owner.is_none());
        calls.map(|call| print(&ledger.entries[call.entry].message.id)).collect()
    }

    /// Stands for each file as it is now, and the calls that are this file's.
    fn prints(&self, ledger: &Ledger) -> Vec<u64> {
        let mut hashers: BTreeMap<usize, Sha256> = BTreeMap::new();
        for number in &self.files {
            let path = &ledger.sources[*number].path;
            let found = std::fs::metadata(path).ok();
            let modified = found.as_ref().and_then(|found| found.modified().ok());
            let len = found.as_ref().map_or(0, std::fs::Metadata::len);
            let hasher = hashers.entry(*number).or_default();
            hasher.update(format!("{}\0{len}\0{modified:?}\0", path.display()));
        }
        for call in &self.calls {
            let hasher = hashers.entry(call.file).or_default();
            hasher.update(&ledger.entries[call.entry].message.id);
            hasher.update([0, u8::from(call.owner.is_some())]);
        }
        hashers.into_values().map(|hasher| start_of(&hasher.finalize())).collect()
    }

    /// Whether files of it have gone since it was pushed, and the others are as they were. The
    /// client deletes old files one by one: those of sub-agents before that of the session.
    fn has_only_lost(&self, known: &Record) -> bool {
        (1..known.files.len()).contains(&self.prints.len())
            && self.prints.iter().all(|print| known.files.contains(print))
    }
}

/// Stands for a call.
pub(crate) fn print(id: &str) -> u64 {
    start_of(&Sha256::digest(id))
}

fn start_of(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |start| u64::from_le_bytes(*start))
}

/// All sessions of a ledger, by their ids.
pub fn groups(ledger: &Ledger, state: &State) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    // The session of each file.
    let mut of_file = Vec::with_capacity(ledger.sources.len());
    for (at, source) in ledger.sources.iter().enumerate() {
        let id = source.session.as_str();
        let number = *ids.entry(id).or_insert_with(|| {
            groups.push(Group { id: id.to_owned(), ..Group::default() });
            names.push(Arc::from(id));
            groups.len() - 1
        });
        groups[number].files.push(at);
        of_file.push(number);
    }
    let is_erased = |number: usize| state.of(&names[number]).is_some_and(Record::is_erased);
    let is_erased: Vec<bool> = (0..groups.len()).map(is_erased).collect();
    for (at, entry) in ledger.entries.iter().enumerate() {
        // The sessions that contain it, with a file of each; the first had it first.
        let mut held: Vec<(usize, usize)> = vec![(of_file[entry.source], entry.source)];
        for copy in &entry.copies {
            if held.iter().all(|(number, _)| *number != of_file[*copy]) {
                held.push((of_file[*copy], *copy));
            }
        }
        let first = held.iter().map(|(number, _)| *number).find(|number| !is_erased[*number]);
        let first = first.unwrap_or(held[0].0);
        for (number, file) in held {
            let owner = (number != first).then(|| Arc::clone(&names[first]));
            groups[number].calls.push(GroupCall { entry: at, file, owner });
        }
    }
    keep_owners(&mut groups, &ids, (ledger, state));
    groups.sort_by(|one, other| one.id.cmp(&other.id));
    groups
}

/// What was pushed of sessions that the client has deleted stays theirs. `ids` has the places of
/// groups.
fn keep_owners(
    groups: &mut [Group],
    ids: &BTreeMap<&str, usize>,
    (ledger, state): (&Ledger, &State),
) {
    for group in groups.iter_mut() {
        let known = state.of(&group.id);
        let had = known.is_some_and(|known| known.has_transcript);
        group.is_remainder = had && !group.has_transcript(ledger);
        let had_agents = known.is_some_and(|known| !known.files.is_empty());
        if had_agents || group.files.iter().any(|file| ledger.sources[*file].is_agent) {
            group.prints = group.prints(ledger);
            group.is_thinned = known.is_some_and(|known| group.has_only_lost(known));
        }
    }
    // What stays in the lake as it was: sessions that are gone, and what is left of some.
    let is_there = |session: &str| {
        let group = ids.get(session).map(|number| &groups[*number]);
        group.is_some_and(|group| !group.is_remainder && !group.is_thinned)
    };
    let gone = state.records().filter(|known| !known.is_erased() && !is_there(&known.session));
    let owners: HashMap<u64, Arc<str>> = gone
        .flat_map(|known| {
            let session: Arc<str> = Arc::from(known.session.as_str());
            known.calls.iter().map(move |call| (*call, Arc::clone(&session)))
        })
        .collect();
    if owners.is_empty() {
        return;
    }
    for group in groups {
        for call in group.calls.iter_mut().filter(|call| call.owner.is_none()) {
            let owner = owners.get(&print(&ledger.entries[call.entry].message.id));
            call.owner = owner.filter(|owner| ***owner != *group.id).map(Arc::clone);
        }
    }
}

/// The other sessions in the lake that have calls which a chosen one has too: which of them a call
/// belongs to may have changed.
pub(crate) fn relatives<'g>(
    groups: &'g [Group],
    chosen: &[&Group],
    (ledger, state): (&Ledger, &State),
) -> Vec<&'g Group> {
    let calls = chosen.iter().flat_map(|group| &group.calls).map(|call| call.entry);
    let shared: HashSet<usize> =
        calls.filter(|call| !ledger.entries[*call].copies.is_empty()).collect();
    if shared.is_empty() || chosen.len() == groups.len() {
        return Vec::new();
    }
    let chosen: HashSet<&str> = chosen.iter().map(|group| group.id.as_str()).collect();
    let is_relative = |group: &&Group| {
        !chosen.contains(group.id.as_str())
            && state.of(&group.id).is_some_and(|known| !known.is_erased())
            && group.calls.iter().any(|call| shared.contains(&call.entry))
    };
    groups.iter().filter(is_relative).collect()
}
