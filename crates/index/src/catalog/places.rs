//! Where the records of a file are, and the turn that each belongs to: with these, a search shows a
//! hit without reading the whole file.
//!
//! They are derived from the file, like everything here, and are made when the file is first read
//! or when a search first needs them; if the file grew since, from its end ([`grown`]). Invariant:
//! places count only as long as the file is the one that they were made from.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use transcript::conversation::Conversation;
use transcript::conversation::agents::sidechains;
use transcript::conversation::table::RowId;
use transcript::conversation::turn::{Step, Turn};

use super::list::Stamp;
use super::store::integer;
use super::varint::{pull, push};
use super::{Catalog, PATIENCE};

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The number of its line.
    pub(crate) line: u64,
    pub(crate) of: Part,
}

/// The part of a conversation that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A turn of the live conversation, from 1.
    Turn(u64),
    /// The sub-agent in the same file whose first record is in this line.
    Side(u64),
    /// An abandoned branch, or what belongs to no turn.
    Other,
}

impl Part {
    /// As a number.
    fn code(self) -> u64 {
        match self {
            Part::Turn(turn) => turn << 1,
            Part::Side(line) => line << 1 | 1,
            Part::Other => 0,
        }
    }

    fn of_code(code: u64) -> Part {
        match (code >> 1, code & 1) {
            (0, _) => Part::Other,
            (turn, 0) => Part::Turn(turn),
            (line, _) => Part::Side(line),
        }
    }
}

/// The places of all records of a file, as bytes: for each, the gap before it, its length, the
/// lines since the record before, and what it is a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(Vec<u8>);

/// What is known of the places of a file.
#[derive(Clone, Debug)]
pub(crate) enum KnownPlaces {
    /// All of them.
    All(Places),
    /// Those up to this size: the file grew since.
    UpTo(Places, u64),
}

impl Places {
    pub(crate) fn of(conversation: &Conversation) -> Places {
        let table = &conversation.table;
        let mut parts: Vec<Part> = vec![Part::Other; table.rows().len()];
        for (number, turn) in (1..).zip(&conversation.turns().live) {
            for row in rows_of(conversation, turn) {
                let part = &mut parts[row.index()];
                if *part == Part::Other {
                    *part = Part::Turn(number);
                }
            }
        }
        for side in sidechains(conversation) {
            for row in conversation.rows(&side.chains) {
                parts[row.index()] = Part::Side(side.line);
            }
        }
        table
            .rows()
            .iter()
            .zip(parts)
            .map(|(row, of)| RecordPlace { offset: row.offset, len: row.len, line: row.line, of })
            .collect()
    }

    /// All places, in the order of the records.
    pub(crate) fn list(&self) -> Vec<RecordPlace> {
        let mut bytes = self.0.as_slice();
        let (mut end, mut line) = (0_u64, 0_u64);
        let mut next = || {
            let mut number = || pull(&mut bytes);
            let [gap, len, lines, of] = [number()?, number()?, number()?, number()?];
            let offset = end.wrapping_add(gap);
            line = line.wrapping_add(lines);
            end = offset.wrapping_add(len);
            Some(RecordPlace { offset, len, line, of: Part::of_code(of) })
        };
        std::iter::from_fn(&mut next).collect()
    }
}

impl FromIterator<RecordPlace> for Places {
    fn from_iter<I: IntoIterator<Item = RecordPlace>>(places: I) -> Places {
        let places = places.into_iter();
        let mut bytes = Vec::with_capacity(places.size_hint().0 * 6);
        let (mut end, mut before) = (0, 0);
        for RecordPlace { offset, len, line, of } in places {
            let (gap, lines) = (offset.wrapping_sub(end), line.wrapping_sub(before));
            for number in [gap, len, lines, of.code()] {
                push(&mut bytes, number);
            }
            (end, before) = (offset + len, line);
        }
        Places(bytes)
    }
}

/// The records of a turn.
fn rows_of(conversation: &Conversation, turn: &Turn) -> Vec<RowId> {
    let table = &conversation.table;
    let mut rows = Vec::new();
    for step in &turn.steps {
        match step {
            Step::Said(row) | Step::Event(row) => rows.push(*row),
            Step::Orphan(block) => rows.push(table.block(*block).row),
            Step::Answer { blocks, .. } => {
                for block in blocks {
                    rows.push(table.block(*block).row);
                    rows.extend(
                        conversation.pairs.of(*block).map(|result| table.block(result).row),
                    );
                }
            }
        }
    }
    rows
}

/// Writes the places of a file of this stamp. Two plain statements: see `store::add`.
pub(super) fn write(
    db: &Connection,
    file: i64,
    stamp: Stamp,
    places: &Places,
) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM place WHERE file = ?")?.execute([file])?;
    db.prepare_cached(
        "INSERT INTO place (file, size, modified, inode, records) VALUES (?, ?, ?, ?, ?)",
    )?
    .execute(params![
        file,
        integer(stamp.size),
        stamp.modified,
        stamp.inode.cast_signed(),
        places.0
    ])?;
    Ok(())
}

impl Catalog {
    /// What is known of the places of a file's records.
    pub(crate) fn places_of(&self, file: i64) -> rusqlite::Result<Option<KnownPlaces>> {
        self.connection
            .prepare_cached(
                "SELECT place.records, place.size, place.size = file.size AND place.modified = \
                 file.modified FROM place JOIN file ON file = number AND place.inode = file.inode \
                 AND place.size <= file.size WHERE number = ?",
            )?
            .query_row([file], |row| {
                let (places, size) = (Places(row.get(0)?), row.get::<_, i64>(1)?.cast_unsigned());
                let is_all: bool = row.get(2)?;
                Ok(if is_all { KnownPlaces::All(places) } else { KnownPlaces::UpTo(places, size) })
            })
            .optional()
    }

    /// Keeps places that a search had to make, unless somebody else is writing.
    pub(crate) fn keep_places(&self, made: &[(i64, Places)]) -> rusqlite::Result<()> {
        let db = &self.connection;
        db.busy_timeout(Duration::ZERO)?;
        for (file, places) in made {
            // Without them the next search makes them again.
            let _ = stamp_of(db, *file).and_then(|stamp| write(db, *file, stamp, places));
        }
        db.busy_timeout(PATIENCE)
    }
}

/// What the catalog knows of a file.
fn stamp_of(db: &Connection, file: i64) -> rusqlite::Result<Stamp> {
    db.prepare_cached("SELECT size, modified, inode FROM file WHERE number = ?")?.query_row(
        [file],
        |row| {
            let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
            Ok(Stamp { size: number(0)?, modified: row.get(1)?, inode: number(2)? })
        },
    )
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
