//! Reads a long file in parts, in parallel, and joins them.
//!
//! Each part is read as if it were a file: its ids, rows and blocks have numbers of their own.
//! Invariant: the result equals that of reading the file in one go.

use std::fs::File;
use std::io::Read;
use std::mem;
use std::sync::Mutex;

use memchr::memchr;

use super::read::{Reading, Watch};
use super::{
    Answer, AnswerId, BlockId, BlockRow, Boundary, Id, ReportedUsage, Row, RowId, Started,
    StartedBy, Table,
};
use crate::format::file::{From, Lines};
use crate::format::limit::{HELD_LINE, PART, READ_BLOCK};
use crate::format::threads::{self, lock};

impl Table {
    /// Reads a file from byte offset `start`, where a line begins, and shows each line and record
    /// to `watch`. Several threads read a long file.
    pub(crate) fn read_file(
        file: &File,
        start: u64,
        watch: &mut impl Watch,
    ) -> crate::Result<Table> {
        let end = file.metadata()?.len();
        let threads = threads::count();
        // More parts than threads, so that none waits long for another.
        let most = if threads == 1 { 1 } else { 6 * threads as u64 };
        let count = most.min(end.saturating_sub(start) / PART).max(1);
        Table::read_parts(file, [start, end], count, threads, watch)
    }

    /// Reads a file in `count` parts with that many threads.
    fn read_parts(
        file: &File,
        [start, end]: [u64; 2],
        count: u64,
        threads: usize,
        watch: &mut impl Watch,
    ) -> crate::Result<Table> {
        let mut bounds = vec![start];
        for part in 1..count {
            let from = start + (end - start) / count * part;
            match line_after(file, from)? {
                Some(found) if Some(&found) > bounds.last() => bounds.push(found),
                _ => {}
            }
        }
        // The last part reaches to the end, wherever that is by then.
        bounds.push(u64::MAX);
        if bounds.len() == 2 {
            return Table::read_watched(Lines::from(From::new(file, start), start, 0), watch);
        }
        let slots: Vec<Slot<_>> = bounds[1..].iter().map(|_| Slot::default()).collect();
        let watches = Mutex::new(slots.iter().map(|_| watch.another()).collect::<Vec<_>>());
        let whole = Mutex::new(Whole { slots: &slots, taken: 0, reading: Ok(None), watch });
        threads::each(slots.len(), threads, |at| {
            // There is one for each part, and they are all alike.
            let Some(part_watch) = lock(&watches).pop() else { return };
            let part = read_part(file, bounds[at], bounds[at + 1], part_watch);
            *lock(&slots[at]) = Some(part);
            // If another thread is joining parts already, this one reads the next part.
            if let Ok(mut whole) = whole.try_lock() {
                whole.take();
            }
        });
        let mut whole = lock(&whole);
        whole.take();
        let reading = mem::replace(&mut whole.reading, Ok(None));
        Ok(reading?.unwrap_or_default().finish())
    }
}

/// The parts that were joined so far.
struct Whole<'a, W> {
    slots: &'a [Slot<W>],
    taken: usize,
    reading: crate::Result<Option<Reading>>,
    watch: &'a mut W,
}

impl<W: Watch> Whole<'_, W> {
    /// Joins the next parts, as far as they were read.
    fn take(&mut self) {
        while let Some(part) = self.slots.get(self.taken).and_then(|slot| lock(slot).take()) {
            self.taken += 1;
            match (&mut self.reading, part) {
                (Ok(whole), Ok((behind, seen))) => {
                    self.watch.append(seen, whole.as_ref().map_or(0, |whole| whole.table.lines));
                    match whole {
                        Some(whole) => whole.append(behind),
                        None => *whole = Some(behind.with_room(self.slots.len())),
                    }
                }
                (Ok(_), Err(error)) => self.reading = Err(error),
                (Err(_), _) => {}
            }
        }
    }
}

/// A part, once it was read.
type Slot<W> = Mutex<Option<crate::Result<(Reading, W)>>>;

fn read_part<W: Watch>(
    file: &File,
    start: u64,
    end: u64,
    mut watch: W,
) -> crate::Result<(Reading, W)> {
    let lines = Lines::from(From::new(file, start).take(end - start), start, 0);
    Ok((Reading::read(lines, &mut watch)?, watch))
}

/// The offset of the first line that begins after a byte; `None` if none begins within `HELD_LINE`
/// bytes.
fn line_after(file: &File, from: u64) -> crate::Result<Option<u64>> {
    let mut reader = From::new(file, from);
    let mut buffer = vec![0; READ_BLOCK];
    let mut passed = 0;
    while passed < HELD_LINE as u64 {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        if let Some(at) = memchr(b'\n', &buffer[..count]) {
            return Ok(Some(from + passed + at as u64 + 1));
        }
        passed += count as u64;
    }
    Ok(None)
}

/// Converts the numbers of one part to those of the whole.
struct Numbers {
    ids: Vec<Option<Id>>,
    rows: u32,
    parts: u32,
    lines: u64,
    answers: Vec<AnswerId>,
}

impl Numbers {
    fn id(&self, id: Option<Id>) -> Option<Id> {
        id.and_then(|id| self.ids[id.index()])
    }

    fn row(&self, row: RowId) -> RowId {
        RowId(row.0.saturating_add(self.rows))
    }

    fn usage(&self, mut usage: ReportedUsage) -> ReportedUsage {
        for id in [&mut usage.tier, &mut usage.speed, &mut usage.geo] {
            *id = self.id(*id);
        }
        usage
    }
}

impl Reading {
    /// Reserves memory for that many parts like this one, so that growing step by step does not
    /// copy everything again and again.
    fn with_room(mut self, parts: usize) -> Reading {
        let table = &mut self.table;
        table.ids.reserve(table.ids.len() * (parts - 1));
        table.rows.reserve(table.rows.len() * (parts - 1));
        table.parts.reserve(table.parts.len() * (parts - 1));
        self.first.reserve(self.first.len() * (parts - 1));
        self
    }

    /// Appends the next part.
    pub(super) fn append(&mut self, behind: Reading) {
        let ids = behind.table.ids.all().map(|text| self.table.ids.keep(text)).collect();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut numbers = Numbers {
            ids,
            rows: number(self.table.rows.len()),
            parts: number(self.table.parts.len()),
            lines: self.table.lines,
            answers: Vec::with_capacity(behind.table.answers.len()),
        };
        let Reading { table, running, is_told, headless, seen, text_hashes, queue, .. } = behind;
        for (id, answer) in (0..).map(AnswerId).zip(table.answers) {
            self.append_answer(answer, headless == Some(id), &mut numbers);
        }
        if is_told {
            self.running = running.map(|answer| numbers.answers[answer.0 as usize]);
            self.is_told = true;
        }
        let repeats = self.append_rows(table.rows, &numbers);
        self.append_parts(table.parts, &repeats, &numbers);
        self.append_others(
            Table { rows: Vec::new(), parts: Vec::new(), answers: Vec::new(), ..table },
            &numbers,
        );
        self.seen.extend(seen.into_iter().filter_map(|id| numbers.id(Some(id))));
        self.text_hashes
            .extend(text_hashes.into_iter().map(|(hash, row)| (hash, numbers.row(row))));
        self.queue.extend(queue.into_iter().map(|(row, queued)| (numbers.row(row), queued)));
    }

    fn append_answer(&mut self, answer: Answer, is_headless: bool, numbers: &mut Numbers) {
        let answer = Answer {
            id: numbers.id(answer.id),
            model: numbers.id(answer.model),
            request: numbers.id(answer.request),
            stop: numbers.id(answer.stop),
            first: numbers.row(answer.first),
            usage: answer.usage.map(|usage| numbers.usage(usage)),
            ..answer
        };
        let known = match answer.id {
            Some(id) => self.answers.get(&id).copied(),
            None if is_headless => self.running,
            None => None,
        };
        let id =
            known.unwrap_or(AnswerId(u32::try_from(self.table.answers.len()).unwrap_or(u32::MAX)));
        if let Some(name) = answer.id {
            self.answers.insert(name, id);
        }
        match self.table.answers.get_mut(id.0 as usize) {
            Some(known) => known.append(answer),
            None => self.table.answers.push(answer),
        }
        numbers.answers.push(id);
    }

    /// Appends the rows of the next part. For each that has the id of an earlier row, and was not
    /// known to repeat one, returns that row.
    fn append_rows(&mut self, rows: Vec<Row>, numbers: &Numbers) -> Vec<Option<RowId>> {
        let mut repeats = Vec::with_capacity(rows.len());
        for (at, row) in (numbers.rows..).map(RowId).zip(rows) {
            let uuid = numbers.id(row.uuid);
            let first = uuid.and_then(|uuid| self.first.get(&uuid).copied());
            repeats.push(first.filter(|_| !row.is_repeat));
            if let Some(uuid) = uuid {
                self.first.entry(uuid).or_insert(at);
            }
            self.table.rows.push(Row {
                line: row.line + numbers.lines,
                uuid,
                parent: numbers.id(row.parent),
                session: numbers.id(row.session),
                message: numbers.id(row.message),
                answer: row.answer.map(|answer| numbers.answers[answer.0 as usize]),
                blocks: row.blocks.saturating_add(numbers.parts),
                is_repeat: row.is_repeat || first.is_some(),
                ..row
            });
        }
        repeats
    }

    fn append_parts(&mut self, parts: Vec<BlockRow>, repeats: &[Option<RowId>], numbers: &Numbers) {
        for part in parts {
            let repeated = repeats[part.row.index()];
            let row = numbers.row(part.row);
            let is_answer = self.table.row(row).answer.is_some();
            let is_there = |first| self.table.has_part(first, part.hash);
            let is_repeat = part.is_repeat || (!is_answer && repeated.is_some_and(is_there));
            let (id, name) = (numbers.id(part.id), numbers.id(part.name));
            self.table.parts.push(BlockRow { row, id, name, is_repeat, ..part });
        }
    }

    fn append_others(&mut self, behind: Table, numbers: &Numbers) {
        let table = &mut self.table;
        for boundary in behind.boundaries {
            table.boundaries.push(renumbered(boundary, numbers));
        }
        for started in behind.started {
            let Some(agent) = numbers.id(Some(started.agent)) else { continue };
            // Of progress records, the first one counts.
            if started.by == StartedBy::Progress && self.seen.contains(&agent) {
                continue;
            }
            let (row, call) = (numbers.row(started.row), numbers.id(started.call));
            table.started.push(Started { row, agent, call, by: started.by });
        }
        let block = |block: BlockId| BlockId(block.0.saturating_add(numbers.parts));
        table.prompts.extend(behind.prompts.into_iter().map(|(call, hash)| (block(call), hash)));
        let durations = behind.durations.into_iter();
        table.durations.extend(durations.map(|(row, taken)| (numbers.row(row), taken)));
        let forks = behind.forked_from.into_iter();
        table
            .forked_from
            .extend(forks.filter_map(|(row, id)| Some((numbers.row(row), numbers.id(Some(id))?))));
        table.named_leaf = numbers.id(behind.named_leaf).or(table.named_leaf);
        let null = behind.null_line.map(|line| line + numbers.lines);
        table.null_line = table.null_line.or(null);
        // After a long last line, the next part is empty.
        table.end = table.end.max(behind.end);
        table.damaged += behind.damaged;
        table.bare += behind.bare;
        table.lines += behind.lines;
    }
}

fn renumbered(boundary: Boundary, numbers: &Numbers) -> Boundary {
    let messages = boundary.messages.map(|mut kept| {
        kept.anchor = numbers.id(kept.anchor);
        kept.uuids = kept.uuids.into_iter().filter_map(|id| numbers.id(Some(id))).collect();
        kept
    });
    let segment = boundary.segment.and_then(|mut kept| {
        kept.anchor = numbers.id(kept.anchor);
        kept.head = numbers.id(Some(kept.head))?;
        kept.tail = numbers.id(Some(kept.tail))?;
        Some(kept)
    });
    Boundary {
        row: numbers.row(boundary.row),
        logical_parent: numbers.id(boundary.logical_parent),
        messages,
        segment,
        ..boundary
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
pub(super) mod tests;
