//! Reads only the part of a file that a client would send from.
//!
//! After a compaction, nothing before it is sent, except what the compaction keeps verbatim. So the
//! end of the file is enough if it is certain that the rest would change nothing: no record after
//! the boundary has a parent before it, and no earlier record names the leaf. If that is not
//! certain, the whole file is read.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::thread;

use hashbrown::HashSet;
use memchr::memmem;

use super::rules::Rules;
use super::tree::{Tree, is_message};
use crate::conversation::Conversation;
use crate::conversation::table::Id;
use crate::error::AtPath;
use crate::format::entry::Kind;
use crate::format::file::{Backward, Body};
use crate::format::json::Json;

/// A conversation with everything that a client would send. If the end of the file is enough, the
/// rest is not read. The conversation is not linked: its graph and its pairs are empty, because
/// nothing that is sent depends on them.
pub fn open(path: &Path, rules: Rules) -> crate::Result<Conversation> {
    // Clients that continue from the newest record have to see all times.
    if rules.leaf_is_last()
        && let Some(cut) = find_cut(path)?
        && let Some(conversation) = from(path, rules, &cut)?
    {
        return Ok(conversation);
    }
    Conversation::open_unlinked(path, 0)
}

/// Offsets of the last compaction, and of the first record that it needs.
struct Cut {
    boundary: u64,
    start: u64,
}

/// Searches backwards from the end of a file for the last compaction and the records that it keeps.
fn find_cut(path: &Path) -> crate::Result<Option<Cut>> {
    let file = files::open(path).at(path)?;
    let mut lines = Backward::new(&file)?;
    let named = memmem::Finder::new(BOUNDARY);
    let mut cut: Option<(u64, Vec<String>)> = None;
    let near = file.metadata()?.len().saturating_sub(NEAR);
    let mut is_near = true;
    while let Some(line) = lines.next_line()? {
        let Body::Held(bytes) = line.body else { return Ok(None) };
        match &mut cut {
            None => {
                // Most sessions have no compaction. Searching the rest of the file at once finds
                // that out faster.
                if is_near && line.offset < near {
                    is_near = false;
                    if !holds(path, BOUNDARY, line.offset + line.len)? {
                        return Ok(None);
                    }
                }
                if named.find(bytes).is_none() {
                    continue;
                }
                let entry = line.records().find_map(|record| record.entry);
                let Some(entry) = entry.filter(|entry| {
                    entry.kind() == Kind::System
                        && entry.subtype().as_deref() == Some("compact_boundary")
                }) else {
                    continue;
                };
                let metadata = entry.get("compactMetadata");
                let get = |outer: &str, name: &str| {
                    metadata.and_then(|metadata| metadata.get(outer)?.get(name))
                };
                let messages =
                    get("preservedMessages", "uuids").into_iter().flat_map(Json::elements);
                let mut wanted: Vec<String> =
                    messages.filter_map(|uuid| Some(uuid.text()?.into_owned())).collect();
                if wanted.is_empty() {
                    let ends = ["headUuid", "tailUuid"].map(|name| get("preservedSegment", name));
                    wanted.extend(
                        ends.into_iter()
                            .flatten()
                            .filter_map(|uuid| Some(uuid.text()?.into_owned())),
                    );
                }
                if wanted.is_empty() {
                    return Ok(Some(Cut { boundary: line.offset, start: line.offset }));
                }
                cut = Some((line.offset, wanted));
            }
            Some((boundary, wanted)) => {
                for entry in line.records().filter_map(|record| record.entry) {
                    if let Some(uuid) = entry.uuid() {
                        wanted.retain(|wanted| *wanted != uuid);
                    }
                }
                if wanted.is_empty() {
                    return Ok(Some(Cut { boundary: *boundary, start: line.offset }));
                }
                if *boundary - line.offset > FARTHEST {
                    return Ok(None);
                }
            }
        }
    }
    Ok(None)
}

const BOUNDARY: &[u8] = b"\"compact_boundary\"";

/// At least this much of the end of a file is searched line by line.
const NEAR: u64 = 4 << 20;

/// How far before a compaction the records that it keeps are searched for.
const FARTHEST: u64 = 32 << 20;

/// The end of a file, if that is enough.
fn from(path: &Path, rules: Rules, cut: &Cut) -> crate::Result<Option<Conversation>> {
    let conversation = Conversation::open_unlinked(path, cut.start)?;
    let table = &conversation.table;
    let ids: HashSet<Id> = table.rows().iter().filter_map(|row| row.uuid).collect();
    let known = |id| ids.contains(&id);
    let behind = table.rows().iter().filter(|row| row.offset > cut.boundary && row.uuid.is_some());
    let hangs_before =
        behind.into_iter().any(|row| row.parent.is_some_and(|parent| !known(parent)));
    let names_before = table.named_leaf.is_some_and(|leaf| !known(leaf));
    if hangs_before || names_before {
        return Ok(None);
    }
    // A leaf may be named only in the part that was not read.
    if table.named_leaf.is_none() && holds(path, b"last-prompt", cut.start)? {
        return Ok(None);
    }
    let mut notes = Vec::new();
    let chain = Tree::new(table, rules, &mut notes).chain(None, &mut notes);
    let is_cut = notes.iter().any(|note| {
        matches!(note, super::Note::Compacted { boundary } if table.row(*boundary).offset == cut.boundary)
    });
    // If nothing is said after the compaction, it matters what was said before.
    let is_said = chain.is_ok_and(|chain| chain.rows.iter().any(|row| is_message(table.row(*row))));
    Ok((is_said && is_cut).then_some(conversation))
}

/// Whether a name occurs in the first `end` bytes of a file. Both halves are searched in parallel.
fn holds(path: &Path, name: &[u8], end: u64) -> crate::Result<bool> {
    let middle = end / 2;
    thread::scope(|scope| {
        let other =
            scope.spawn(|| has_name(path, name, middle.saturating_sub(name.len() as u64)..end));
        let first = has_name(path, name, 0..middle);
        let second = other.join().unwrap_or(Ok(true));
        Ok(first? || second?)
    })
}

/// Whether a name occurs in that part of a file.
fn has_name(path: &Path, name: &[u8], part: Range<u64>) -> crate::Result<bool> {
    let mut file = files::open(path).at(path)?;
    file.seek(SeekFrom::Start(part.start))?;
    let finder = memmem::Finder::new(name);
    let mut source = file.take(part.end - part.start);
    let mut buffer = vec![0; 1 << 18];
    let mut held = 0;
    loop {
        let count = source.read(&mut buffer[held..])?;
        if count == 0 {
            return Ok(false);
        }
        let filled = held + count;
        if finder.find(&buffer[..filled]).is_some() {
            return Ok(true);
        }
        // The name may span two reads.
        held = filled.min(name.len() - 1);
        buffer.copy_within(filled - held..filled, 0);
    }
}
