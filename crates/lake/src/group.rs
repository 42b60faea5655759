//! The sessions of a ledger, and the calls of the API that each of them contains.
//!
//! A session is all files with its id, in whatever project: a folder that was copied contains the
//! same sessions again, and they share their objects. Invariants: a call is one row of a session;
//! it is not a copy in exactly one session, the one that the ledger says it belongs to.

use std::collections::BTreeMap;

use transcript::conversation::usage::Ledger;

/// A session.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its files, as indices into [`Ledger::sources`].
    pub files: Vec<usize>,
    /// Its calls of the API, in the order of the ledger.
    pub(crate) calls: Vec<GroupCall>,
}

/// A call of the API in a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupCall {
    /// As an index into [`Ledger::entries`].
    pub(crate) entry: usize,
    /// The file of this session that contains it, as an index into [`Ledger::sources`].
    pub(crate) file: usize,
    /// Another session had it first.
    pub(crate) is_copy: bool,
}

/// All sessions of a ledger, by their ids.
pub fn groups(ledger: &Ledger) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    // The session of each file.
    let mut of_file = Vec::with_capacity(ledger.sources.len());
    for (at, source) in ledger.sources.iter().enumerate() {
        let id = source.session.as_str();
        let number = *ids.entry(id).or_insert_with(|| {
            groups.push(Group { id: id.to_owned(), ..Group::default() });
            groups.len() - 1
        });
        groups[number].files.push(at);
        of_file.push(number);
    }
    for (at, entry) in ledger.entries.iter().enumerate() {
        let first = of_file[entry.source];
        groups[first].calls.push(GroupCall { entry: at, file: entry.source, is_copy: false });
        let mut seen = vec![first];
        for copy in &entry.copies {
            let number = of_file[*copy];
            if !seen.contains(&number) {
                seen.push(number);
                groups[number].calls.push(GroupCall { entry: at, file: *copy, is_copy: true });
            }
        }
    }
    groups.sort_by(|one, other| one.id.cmp(&other.id));
    groups
}
