//! Where the records of a file are, and the turn that each belongs to: with these, a search shows a
//! hit without reading the whole file.
//!
//! They are derived from the file, like everything here, and are made when the file is first read
//! or when a search first needs them. Invariant: places count only as long as the file is the one
//! that they were made from.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use transcript::conversation::Conversation;
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
    /// Its turn of the live conversation, from 1.
    pub(crate) turn: Option<u64>,
}

/// The places of all records of a file, as bytes: for each, the gap before it, its length, the
/// lines since the record before, and its turn or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(Vec<u8>);

impl Places {
    pub(crate) fn of(conversation: &Conversation) -> Places {
        let mut turns: Vec<u64> = vec![0; conversation.table.rows().len()];
        for (number, turn) in (1..).zip(&conversation.turns().live) {
            for row in rows_of(conversation, turn) {
                let known = &mut turns[row.index()];
                if *known == 0 {
                    *known = number;
                }
            }
        }
        let mut bytes = Vec::with_capacity(turns.len() * 6);
        let (mut end, mut line) = (0, 0);
        for (row, turn) in conversation.table.rows().iter().zip(turns) {
            let gap = row.offset.wrapping_sub(end);
            for number in [gap, row.len, row.line.wrapping_sub(line), turn] {
                push(&mut bytes, number);
            }
            (end, line) = (row.offset + row.len, row.line);
        }
        Places(bytes)
    }

    /// All places, in the order of the records.
    pub(crate) fn list(&self) -> Vec<RecordPlace> {
        let mut bytes = self.0.as_slice();
        let (mut end, mut line) = (0_u64, 0_u64);
        let mut next = || {
            let mut number = || pull(&mut bytes);
            let [gap, len, lines, turn] = [number()?, number()?, number()?, number()?];
            let offset = end.wrapping_add(gap);
            line = line.wrapping_add(lines);
            end = offset.wrapping_add(len);
            Some(RecordPlace { offset, len, line, turn: Some(turn).filter(|turn| *turn > 0) })
        };
        std::iter::from_fn(&mut next).collect()
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
    /// The places of the records of a file, if they are known and it is still the same.
    pub(crate) fn places_of(&self, file: i64) -> rusqlite::Result<Option<Places>> {
        self.connection
            .prepare_cached(
                "SELECT place.records FROM place JOIN file ON file = number AND place.size = file.size \
                 AND place.modified = file.modified AND place.inode = file.inode WHERE number = ?",
            )?
            .query_row([file], |row| row.get(0).map(Places))
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
