//! The places of a file that grew since they were made: only its end is read.
//!
//! A session that is still being written is found by most searches of those who write it, and may
//! be long. Invariant: these places are those that reading the whole file gives; where what was
//! appended may change what is before it, there are none.

use std::path::Path;

use transcript::conversation::Conversation;
use transcript::conversation::graph::Link;
use transcript::conversation::table::RowId;
use transcript::format::entry::Kind;
use transcript::format::input::Input;

use super::places::{Part, Places, RecordPlace};

/// How many known records are read again: what they belong to must be what it was.
const AGAIN: usize = 128;

/// The places of a file of which they are known up to a size; `None` if all of it has to be read.
pub(crate) fn grown(known: &Places, size: u64, path: &Path) -> transcript::Result<Option<Places>> {
    from_end(known, size, path, AGAIN)
}

/// The same, with so many records that are read again.
fn from_end(
    known: &Places,
    size: u64,
    path: &Path,
    count: usize,
) -> transcript::Result<Option<Places>> {
    let mut places = known.list();
    places.retain(|place| place.offset.saturating_add(place.len) <= size);
    let Some(start) = start(&places, count) else { return Ok(None) };
    let found = read_on(&places, start, path)?;
    let opens = found.as_ref().is_some_and(|new| last_turn(new) > last_turn(&places));
    // What was said behind the last prompt may come ahead of the next one.
    let last = Part::Turn(last_turn(&places));
    let first = places.iter().position(|place| place.of == last).unwrap_or(start);
    let found = match opens && first < start {
        true if first == 0 || !begins_line(&places, first) => None,
        true => read_on(&places, first, path)?,
        false => found,
    };
    Ok(found.map(|new| places.iter().copied().chain(new).collect()))
}

/// The places of the records behind known ones, read from one of these on.
fn read_on(
    list: &[RecordPlace],
    start: usize,
    path: &Path,
) -> transcript::Result<Option<Vec<RecordPlace>>> {
    let (again, first) = (&list[start..], list[start]);
    let conversation = Conversation::open_from(path, first.offset)?;
    let read = Places::of(&conversation).list();
    let Some(turns) = again.iter().zip(&read).find_map(|(old, new)| turns_before(old.of, new.of))
    else {
        return Ok(None);
    };
    let place = |new: &RecordPlace| {
        let of = match new.of {
            Part::Turn(turn) => Part::Turn(turn + turns),
            of => of,
        };
        RecordPlace { line: new.line + first.line - 1, of, ..*new }
    };
    let is_same = read.len() >= again.len()
        && again.iter().zip(&read).all(|(old, new)| *old == place(new))
        && goes_on(&conversation, again.len());
    Ok(is_same.then(|| read[again.len()..].iter().map(place).collect()))
}

/// The last turn of these records; 0 if they are in none.
fn last_turn(list: &[RecordPlace]) -> u64 {
    let turns = list.iter().filter_map(|place| match place.of {
        Part::Turn(turn) => Some(turn),
        Part::Side(_) | Part::Other => None,
    });
    turns.max().unwrap_or(0)
}

fn begins_line(list: &[RecordPlace], at: usize) -> bool {
    list[at - 1].line < list[at].line
}

/// The record from which the file is read: one that begins a line and is in a turn, some before the
/// last one.
fn start(places: &[RecordPlace], count: usize) -> Option<usize> {
    let last = places.len().checked_sub(count)?;
    let fits = |at: &usize| {
        matches!(places[*at].of, Part::Turn(_)) && places[*at - 1].line < places[*at].line
    };
    (1..=last).rev().take(count).find(fits)
}

/// How many turns are before what was read, by a record of it.
fn turns_before(old: Part, new: Part) -> Option<u64> {
    match (old, new) {
        (Part::Turn(old), Part::Turn(new)) => old.checked_sub(new),
        _ => None,
    }
}

/// Whether the records from that one on only continue those before them.
fn goes_on(conversation: &Conversation, from: usize) -> bool {
    let Conversation { table, graph, pairs, .. } = conversation;
    let is_new = |row: RowId| row.index() >= from;
    let follows = |row: RowId| {
        let known = table.row(row);
        let is_linked = match graph.link(row) {
            Link::Parent(_) => true,
            Link::Aside(_) => !matches!(known.kind, Kind::User | Kind::Assistant),
            _ => false,
        };
        let mut results = table.blocks_of(row).filter(|block| table.block(*block).kind.is_result());
        is_linked
            && !known.is_sidechain
            && known.input != Some(Input::Summary)
            && results.all(|result| pairs.of(result).is_some())
    };
    table.damaged == 0
        && !table.boundaries.iter().any(|boundary| is_new(boundary.row))
        && table.numbered().filter(|(row, _)| is_new(*row)).all(|(row, _)| follows(row))
}

#[cfg(test)]
#[path = "grown_tests.rs"]
mod tests;
