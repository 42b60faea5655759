//! Writes a changed session, line by line.
//!
//! Goes through the rows of the table in file order. What is not changed is copied as it is, with
//! everything between records, unless the change removes such scraps. Several pieces of the file
//! are processed in parallel and written one after the other. Invariants: how many pieces wait to
//! be written is bounded, and records that are too long to hold are streamed; nothing is written
//! except to the given output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;

use memchr::memchr;

use super::edit::Edit;
use super::ids::Renames;
use super::{Change, Scraps};
use crate::conversation::table::{Row, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Entry;
use crate::format::file::{Body, From, Lines};
use crate::format::limit::READ_BLOCK;
use crate::format::threads;

/// How many records were kept, dropped, altered and added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Written {
    /// Records that are unchanged, apart from new ids.
    pub kept: u64,
    /// Records that were removed.
    pub dropped: u64,
    /// Records that were changed.
    pub altered: u64,
    /// Records that are new.
    pub added: u64,
    /// How many bytes were written.
    #[serde(skip)]
    pub bytes: u64,
}

/// Writes a table's file with a change applied.
pub(super) fn write(
    table: &Table,
    file: &File,
    change: &Change,
    ids: Option<&Renames>,
    out: &mut dyn Write,
) -> crate::Result<Written> {
    let mut writing = Writing::new(table, file, change, ids, Some(out));
    writing.all()?;
    Ok(writing.done)
}

struct Writing<'a> {
    table: &'a Table,
    change: &'a Change,
    ids: Option<&'a Renames>,
    source: Source<'a>,
    /// The output; `None` to keep everything in memory.
    out: Option<&'a mut dyn Write>,
    /// Bytes of the file that are still to be copied unchanged.
    pending: Range<u64>,
    /// Bytes that are to be written next.
    ready: Vec<u8>,
    done: Written,
    /// The last byte that was written is a newline.
    is_ended: bool,
}

/// A file that is read in blocks.
struct Source<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
    /// Where the last requested range ended.
    end: u64,
    /// Nothing is read ahead behind this offset.
    last: u64,
}

impl Source<'_> {
    /// Some bytes of the file: at most [`HELD_LINE`](crate::format::limit::HELD_LINE).
    fn get(&mut self, range: Range<u64>) -> crate::Result<&[u8]> {
        let inside = |source: &Self| {
            let start = usize::try_from(range.start.checked_sub(source.start)?).ok()?;
            let end = start + usize::try_from(range.end - range.start).ok()?;
            (end <= source.bytes.len()).then_some(start..end)
        };
        let found = if let Some(found) = inside(self) {
            found
        } else {
            // If most of the file is skipped, little is read ahead.
            let is_next = range.start >= self.end && range.start < self.end + AHEAD as u64;
            (self.start, self.end) = (range.start, range.end);
            let ahead = if is_next { 2 * READ_BLOCK } else { AHEAD };
            let rest = usize::try_from(self.last.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let wanted = wanted.max(ahead.min(rest));
            let before = std::mem::take(&mut self.bytes);
            self.bytes = From::new(self.file, range.start).read_up_to(wanted, before)?;
            inside(self).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file was truncated while it was read",
                )
            })?
        };
        Ok(&self.bytes[found])
    }
}

impl<'a> Writing<'a> {
    fn new(
        table: &'a Table,
        file: &'a File,
        change: &'a Change,
        ids: Option<&'a Renames>,
        out: Option<&'a mut dyn Write>,
    ) -> Self {
        Writing {
            table,
            change,
            ids,
            source: Source { file, start: 0, bytes: Vec::new(), end: 0, last: u64::MAX },
            out,
            pending: 0..0,
            ready: Vec::new(),
            done: Written::default(),
            is_ended: true,
        }
    }

    fn all(&mut self) -> crate::Result<()> {
        let count = u32::try_from(self.table.rows().len()).unwrap_or(u32::MAX);
        self.behind(Some(&self.change.start))?;
        let mut next = 0;
        while next < count {
            let pieces = self.held(next..count);
            next = pieces.last().map_or(next, |piece| piece.end);
            self.pieces(&pieces)?;
            if next < count && !self.is_held(next) {
                self.rows(next..next + 1)?;
                next += 1;
            }
        }
        let (at, before) = self.before(count);
        self.gap(at..self.table.end.max(at), before)?;
        let has_more = !self.change.end.is_empty() || self.change.graft.is_some();
        if has_more && !self.is_ended_now()? {
            self.put(b"\n")?;
        }
        for line in &self.change.end {
            self.done.added += 1;
            self.add(line)?;
        }
        self.flush_pending()?;
        self.flush()
    }

    /// Where the record before `at` ends, and which record that is.
    fn before(&self, at: u32) -> (u64, Option<RowId>) {
        let Some(before) = at.checked_sub(1).map(RowId) else { return (0, None) };
        let row = self.table.row(before);
        (row.offset + row.len, Some(before))
    }

    /// Whether a record, and the gap before it, are short enough to hold in memory.
    fn is_held(&self, at: u32) -> bool {
        let row = self.table.row(RowId(at));
        !row.is_long() && row.offset - self.before(at).0 <= GAP
    }

    /// The next records that are short enough to hold, in pieces.
    fn held(&self, rest: Range<u32>) -> Vec<Range<u32>> {
        let offset = |at: u32| self.table.row(RowId(at)).offset;
        let mut pieces: Vec<Range<u32>> = Vec::new();
        for at in rest.take_while(|at| self.is_held(*at)) {
            match pieces.last_mut() {
                Some(piece) if offset(at) - offset(piece.start) < PIECE => {
                    piece.end = at + 1;
                }
                _ => pieces.push(at..at + 1),
            }
        }
        pieces
    }

    /// Processes several pieces in parallel; each is written while the next ones are processed.
    fn pieces(&mut self, pieces: &[Range<u32>]) -> crate::Result<()> {
        let (table, file, change, ids) = (self.table, self.source.file, self.change, self.ids);
        let make = |at: usize| {
            let mut writing = Writing::new(table, file, change, ids, None);
            // No more than the piece is read, and hardly ever more is written.
            let [from, to] = [pieces[at].start, pieces[at].end].map(|at| writing.before(at).0);
            writing.source.last = to;
            writing.ready.reserve(usize::try_from(to - from).unwrap_or_default());
            let done = writing.rows(pieces[at].clone());
            done.map(|()| (writing.ready, writing.done))
        };
        let count = threads::count();
        threads::in_order_within(
            WAITING,
            pieces.len(),
            count,
            make,
            |_, piece: crate::Result<_>| {
                let (bytes, done): (Vec<u8>, Written) = piece?;
                // Written without another copy.
                self.flush()?;
                self.ready = bytes;
                self.flush()?;
                self.done.kept += done.kept;
                self.done.dropped += done.dropped;
                self.done.altered += done.altered;
                self.done.added += done.added;
                Ok::<(), crate::Error>(())
            },
        )
    }

    /// Writes some records, with the gap before each.
    fn rows(&mut self, range: Range<u32>) -> crate::Result<()> {
        for at in range {
            let row = self.table.row(RowId(at));
            let (end, before) = self.before(at);
            self.gap(end..row.offset, before)?;
            self.row(RowId(at), row)?;
        }
        self.flush_pending()
    }

    /// Writes the bytes between two records, and the lines that are added there.
    fn gap(&mut self, range: Range<u64>, before: Option<RowId>) -> crate::Result<()> {
        // If a dropped record was alone on its line, the end of the line is dropped too.
        let is_dropped = before
            .is_some_and(|row| self.change.goes(row) && self.table.row(row).placed.is_alone());
        let added = before.and_then(|row| self.change.behind.get(&row));
        // After a record on its own line, a single byte can only be the newline.
        let is_plain = range.end - range.start == 1
            && before.is_some_and(|row| self.table.row(row).placed.is_alone());
        let near = if is_plain {
            b"\n"
        } else {
            self.source.get(range.start..range.end.min(range.start + GAP))?
        };
        let is_all = near.len() as u64 == range.end - range.start;
        let is_blank = is_all && near.iter().all(u8::is_ascii_whitespace);
        let line_end = memchr(b'\n', near).map(|at| at as u64 + 1);
        let is_scrap = self.change.scraps == Scraps::Go && !is_blank;
        let cut =
            if is_scrap { range.end } else { line_end.map_or(range.end, |end| range.start + end) };
        if !is_dropped && !is_scrap {
            self.scrap(range.start..cut, is_blank)?;
        }
        let has_end = line_end.is_some() && !is_scrap;
        let wants_end = added.is_some() || self.change.scraps == Scraps::Go;
        if before.is_some() && !is_dropped && !has_end && wants_end {
            self.put(b"\n")?;
        }
        self.behind(added)?;
        self.scrap(cut..range.end, is_blank)
    }

    /// Copies bytes that are not a record, without the secrets in them.
    fn scrap(&mut self, range: Range<u64>, is_blank: bool) -> crate::Result<()> {
        let Some(cover) = self.change.cover().filter(|_| !is_blank) else {
            return self.copy(range);
        };
        let mut at = range.start;
        for (place, placeholder) in cover.places(self.source.file, range.clone())? {
            self.copy(at..place.start)?;
            self.put(placeholder.as_bytes())?;
            at = place.end;
        }
        self.copy(at..range.end)
    }

    fn behind(&mut self, added: Option<&Vec<Vec<u8>>>) -> crate::Result<()> {
        for line in added.into_iter().flatten() {
            self.done.added += 1;
            self.add(line)?;
        }
        Ok(())
    }

    /// Writes a new line. Ids that it refers to are still old ones.
    fn add(&mut self, line: &[u8]) -> crate::Result<()> {
        self.flush_pending()?;
        let shown = self.change.cover().and_then(|cover| cover.line(line));
        let line = shown.as_deref().unwrap_or(line);
        match (self.ids, Entry::parse(line)) {
            (Some(ids), Some(entry)) => ids.map_record(entry.kind(), line, &[], &mut self.ready),
            _ => self.ready.extend_from_slice(line),
        }
        self.ready.push(b'\n');
        self.flush_if_full()
    }

    fn row(&mut self, id: RowId, row: &Row) -> crate::Result<()> {
        if self.change.goes(id) {
            self.done.dropped += 1;
            return Ok(());
        }
        let range = row.offset..row.offset + row.len;
        let edit = self.change.edits.get(&id);
        if row.is_long() {
            return self.long(row, edit);
        }
        let covering = self.change.covering.as_ref();
        let shown = match covering {
            Some(covering) if edit.is_none() => {
                covering.record(row, self.source.get(range.clone())?)
            }
            _ => None,
        };
        if let Some(shown) = shown {
            self.done.altered += 1;
            self.flush_pending()?;
            self.changed(id, &shown, self.ids);
            return self.flush_if_full();
        }
        match (edit, self.ids) {
            (None, None) => {
                self.done.kept += 1;
                return self.copy(range);
            }
            (None, Some(ids)) => {
                self.done.kept += 1;
                self.flush_pending()?;
                let signed = self.signed(id);
                let bytes = self.source.get(range)?;
                ids.map_record(row.kind, bytes, &signed, &mut self.ready);
            }
            (Some(edit), ids) => {
                self.flush_pending()?;
                let bytes = self.source.get(range)?;
                let changed = match edit.apply_to_parent(bytes) {
                    Some(changed) => changed,
                    None => Table::see(bytes, |entry| edit.apply(entry))?,
                };
                let shown = covering.and_then(|covering| covering.record(row, &changed));
                let changed = shown.unwrap_or(changed);
                if changed == bytes {
                    self.done.kept += 1;
                } else {
                    self.done.altered += 1;
                }
                self.changed(id, &changed, ids);
            }
        }
        self.flush_if_full()
    }

    /// Writes a record that was changed.
    fn changed(&mut self, id: RowId, changed: &[u8], ids: Option<&Renames>) {
        match ids {
            None => self.ready.extend_from_slice(changed),
            Some(ids) => {
                let is_signed = !self.signed(id).is_empty();
                let entry = is_signed.then(|| Entry::parse(changed)).flatten();
                let signed = entry.as_ref().map(signed_in).unwrap_or_default();
                ids.map_record(self.table.row(id).kind, changed, &signed, &mut self.ready);
            }
        }
    }

    /// The ranges of thinking in a record.
    fn signed(&self, id: RowId) -> Vec<Range<usize>> {
        let parts = self.table.blocks_of(id).filter(|part| is_signed(self.table.block(*part).kind));
        parts.filter_map(|part| self.table.range(part)).collect()
    }

    /// Writes a record that is too long to hold: the places to change are found in its condensed
    /// form.
    fn long(&mut self, row: &Row, edit: Option<&Edit>) -> crate::Result<()> {
        let limited = From::new(self.source.file, row.offset).take(row.len);
        let mut lines = Lines::from(limited, row.offset, 0);
        // Each range with its replacement; `None` if it stays unchanged, including its ids.
        let mut places: Vec<(Range<u64>, Option<Vec<u8>>)> = Vec::new();
        while let Some(line) = lines.next_line()? {
            let Body::Condensed(digest) = line.body else { continue };
            let Some(entry) = line.records().find_map(|record| record.entry) else { continue };
            let place = |range: &Range<usize>| {
                let start = row.offset + digest.place(range.start);
                let end = range.end.checked_sub(1).filter(|_| !range.is_empty());
                start..end.map_or(start, |last| row.offset + digest.place(last) + 1)
            };
            let edits = edit.map(|edit| edit.splices(&entry, true)).unwrap_or_default();
            for (range, value) in edits.list() {
                let mut mapped = Vec::new();
                match self.ids {
                    Some(ids) => ids.map_value(value, &mut mapped),
                    None => mapped.clone_from(value),
                }
                places.push((place(range), Some(mapped)));
            }
            if let Some(ids) = self.ids {
                let taken: Vec<Range<u64>> =
                    places.iter().map(|(range, _)| range.clone()).collect();
                let is_free = |range: &Range<u64>| {
                    taken.iter().all(|other| range.end <= other.start || range.start >= other.end)
                };
                let odd = ids.members_of(entry.raw());
                let odd =
                    odd.list().iter().map(|(range, value)| (place(range), Some(value.clone())));
                let signed = signed_in(&entry).into_iter().map(|range| (place(&range), None));
                places.extend(odd.chain(signed).filter(|(range, _)| is_free(range)));
            }
            break;
        }
        let mut is_covered = false;
        if let Some(cover) = self.change.cover() {
            let is_free = |range: &Range<u64>| {
                places.iter().all(|(other, _)| range.end <= other.start || range.start >= other.end)
            };
            let hidden = cover.places(self.source.file, row.offset..row.offset + row.len)?;
            let hidden: Vec<_> = hidden.into_iter().filter(|(range, _)| is_free(range)).collect();
            is_covered = !hidden.is_empty();
            places.extend(hidden.into_iter().map(|(range, text)| (range, Some(text.into_bytes()))));
        }
        places.sort_by_key(|(range, _)| (range.start, range.end));
        if edit.is_some() || is_covered {
            self.done.altered += 1;
        } else {
            self.done.kept += 1;
        }
        let mut at = row.offset;
        for (range, value) in places {
            self.copy(at..range.start)?;
            match value {
                Some(value) => self.put(&value)?,
                None => self.copy_raw(range.clone())?,
            }
            at = range.end;
        }
        self.copy(at..row.offset + row.len)
    }

    /// Copies bytes of the file unchanged, including their ids.
    fn copy_raw(&mut self, range: Range<u64>) -> crate::Result<()> {
        self.flush_pending()?;
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + READ_BLOCK as u64);
            let bytes = self.source.get(at..end)?;
            self.ready.extend_from_slice(bytes);
            at = end;
            self.flush_if_full()?;
        }
        Ok(())
    }

    /// Copies bytes of the file unchanged, except for new ids.
    fn copy(&mut self, range: Range<u64>) -> crate::Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        if self.pending.end == range.start && !self.pending.is_empty() {
            self.pending.end = range.end;
        } else {
            self.flush_pending()?;
            self.pending = range;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> crate::Result<()> {
        self.flush_pending()?;
        self.ready.extend_from_slice(bytes);
        self.flush_if_full()
    }

    fn is_ended_now(&mut self) -> crate::Result<bool> {
        self.flush_pending()?;
        self.flush()?;
        Ok(self.is_ended)
    }

    fn flush_pending(&mut self) -> crate::Result<()> {
        let range = std::mem::take(&mut self.pending);
        let mut at = range.start;
        // An id may span two blocks: then it is read as part of the second.
        while at < range.end {
            let end = range.end.min(at + READ_BLOCK as u64);
            let mut used = end;
            let bytes = self.source.get(at..end)?;
            match self.ids {
                None => self.ready.extend_from_slice(bytes),
                Some(_) if end < range.end => {
                    let near = bytes.len().saturating_sub(OVERLAP);
                    let cut = bytes[near..].iter().rposition(|byte| !is_of_id(*byte));
                    let cut = cut.map_or(bytes.len(), |cut| near + cut + 1);
                    used = at + cut as u64;
                    map_bytes(self.ids, &bytes[..cut], &mut self.ready);
                }
                Some(_) => map_bytes(self.ids, bytes, &mut self.ready),
            }
            at = used;
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn flush_if_full(&mut self) -> crate::Result<()> {
        if self.ready.len() >= READ_BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> crate::Result<()> {
        if let Some(last) = self.ready.last() {
            self.is_ended = *last == b'\n';
        }
        if let Some(out) = &mut self.out {
            out.write_all(&self.ready)?;
            self.done.bytes += self.ready.len() as u64;
            self.ready.clear();
        }
        Ok(())
    }
}

/// How much of the file is one piece, and how many of them wait for each thread to be written.
const PIECE: u64 = 256 << 10;
const WAITING: usize = 4;

/// How much of a gap between records is examined; a longer gap is damage.
const GAP: u64 = 1 << 16;

/// How much is read ahead if a record does not follow the previous one.
const AHEAD: usize = 4 << 10;

/// Longer than an id.
const OVERLAP: usize = 64;

fn is_of_id(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'-'
}

fn map_bytes(ids: Option<&Renames>, bytes: &[u8], out: &mut Vec<u8>) {
    match ids {
        Some(ids) => ids.map(bytes, &[], out),
        None => out.extend_from_slice(bytes),
    }
}

fn is_signed(kind: BlockKind) -> bool {
    matches!(kind, BlockKind::Thinking | BlockKind::RedactedThinking)
}

pub(super) fn signed_in(entry: &Entry<'_>) -> Vec<Range<usize>> {
    let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
    let signed = blocks.filter(|block| is_signed(block.kind()));
    signed.filter_map(|block| super::splice::range_of(block.json().raw(), entry.raw())).collect()
}
