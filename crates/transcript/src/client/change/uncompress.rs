//! The history from before a compaction, whoever made it.
//!
//! A compaction of ours is taken out exactly: the lines that it added go, and the record that hung
//! on its summary gets its parent back, so the file is what it was, byte for byte. Of a client's,
//! the boundary, the summary and what the client wrote along with them go, and what follows hangs
//! on the last record before it. Under a budget, the summary stays, and turns from before it are
//! put behind it: the newest, or those that were asked for. Invariant: no other record is changed.

use std::ops::RangeInclusive;

use hashbrown::{HashMap, HashSet};
use thiserror::Error;

use super::compress::records::{MARK, MARK_OF_BOUNDARY};
use super::compress::{is_link, starts};
use super::splice::To;
use super::{Change, Restores, Subject};
use crate::conversation::Conversation;
use crate::conversation::table::{Id, Row, RowId};
use crate::format::content::Message;
use crate::format::entry::{Entry, Kind};
use crate::format::input::Input;
use crate::format::json::{Json, quote};
use crate::format::time::Time;

/// How much of the history comes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncompress {
    /// Which compactions are undone.
    pub which: Which,
    /// How many tokens the messages may have afterwards: the summary stays, and the newest turns
    /// before it come back as far as they fit. `None` for no limit.
    pub to: Option<u64>,
    /// These turns come back, and the summary stays.
    pub turns: Vec<RangeInclusive<u64>>,
}

/// Which compactions are undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The last one.
    #[default]
    Last,
    /// All of them.
    All,
}

/// Why nothing comes back.
#[derive(Debug, Error)]
pub enum UncompressError {
    /// There is no compaction.
    #[error("this conversation has not been compacted")]
    Never,
    /// Nothing is before it.
    #[error("the file has nothing from before the compaction")]
    NothingBefore,
    /// No such turn.
    #[error("no turn before the compaction has one of these numbers: there are {0}")]
    NoTurn(usize),
    /// Nothing fits.
    #[error(
        "no turn fits: the messages are ~{tokens} tokens already, and the newest turn before \
             the compaction is ~{turn}"
    )]
    Full {
        /// How many tokens are sent now.
        tokens: u64,
        /// How many the newest turn has.
        turn: u64,
    },
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

/// Plans the history from before a compaction.
pub fn uncompress(subject: &Subject, what: &Uncompress) -> Result<Change, UncompressError> {
    let conversation = subject.conversation();
    let live = conversation.live();
    let path: Vec<RowId> = conversation.rows(&live).collect();
    let mut found = Vec::new();
    for at in 0..path.len() {
        if conversation.table.boundary(path[at]).is_some() {
            found.push(CompactionRun::read(conversation, &path, at)?);
        }
    }
    if found.is_empty() {
        return Err(UncompressError::Never);
    }
    if what.to.is_some() || !what.turns.is_empty() {
        return bring_back(subject, &path, &found, what);
    }
    let from = match what.which {
        Which::Last => found.len() - 1,
        Which::All => 0,
    };
    let mut change = Change::new(conversation);
    let mut instead: HashMap<Id, Option<RowId>> = HashMap::new();
    let mut last = None;
    for run in &found[from..] {
        let Some(before) = run.before(conversation, &path, &found) else {
            return Err(UncompressError::NothingBefore);
        };
        run.take_out(conversation, &path, before, &mut change, &mut instead)?;
        let is_end = path[run.end..].iter().all(|row| !is_link(conversation, *row));
        last = Some(before).filter(|_| is_end && run.ours.is_none());
    }
    reconnect(conversation, &mut change, &instead)?;
    if let Some(last) = last {
        newest(conversation, last, &mut change);
    }
    let is_client = found[from..].iter().any(|run| run.ours.is_none());
    change.restores = if is_client { Restores::No } else { Restores::Yes };
    let count = found.len() - from;
    let compactions =
        if count == 1 { "1 compaction".to_owned() } else { format!("{count} compactions") };
    let by = if is_client { "" } else { ", made by quipu" };
    change.did(
        None,
        Some(conversation.table.row(found[from].boundary).line),
        format!("undone: {compactions}{by}"),
    );
    Ok(change)
}

/// A compaction on the path, with what the client wrote along with it.
#[derive(Debug)]
struct CompactionRun {
    boundary: RowId,
    /// Where it is on the path.
    at: usize,
    end: usize,
    summary: Option<RowId>,
    ours: Option<OurMark>,
}

/// What a boundary of ours says.
#[derive(Clone, Debug, Default)]
struct OurMark {
    /// The id of the first record that stayed.
    first: Option<String>,
    /// Its parent as it was written, unless that is the logical parent.
    parent: Option<String>,
}

impl CompactionRun {
    fn read(
        conversation: &Conversation,
        path: &[RowId],
        at: usize,
    ) -> crate::Result<CompactionRun> {
        let table = &conversation.table;
        let ours = conversation.look(path[at], mark)?;
        let is_summary = |row: &RowId| table.row(*row).input == Some(Input::Summary);
        let mut end = at + 1;
        while let Some(row) = path.get(end) {
            let known = table.row(*row);
            let belongs = match (known.kind, known.input) {
                _ if is_summary(row) => true,
                _ if ours.is_some() => false,
                (_, Some(Input::Command)) => conversation.look(*row, is_compact)?,
                (_, Some(Input::Preface)) => match path.get(end + 1) {
                    Some(next) if table.row(*next).input == Some(Input::Command) => {
                        conversation.look(*next, is_compact)?
                    }
                    _ => false,
                },
                (_, Some(Input::Output)) => path[..end]
                    .last()
                    .is_some_and(|before| table.row(*before).input == Some(Input::Command)),
                (Kind::Attachment, None) => true,
                (Kind::Assistant, _) => known.answer.is_some_and(|answer| table.is_filler(answer)),
                _ => false,
            };
            if !belongs || table.boundary(*row).is_some() {
                break;
            }
            end += 1;
        }
        let summary = path[at..end].iter().copied().find(is_summary);
        Ok(CompactionRun { boundary: path[at], at, end, summary, ours })
    }

    /// The last record before it that is none of a compaction.
    fn before(
        &self,
        conversation: &Conversation,
        path: &[RowId],
        all: &[CompactionRun],
    ) -> Option<RowId> {
        let is_part =
            |at: usize| all.iter().any(|run| run.at < self.at && (run.at..run.end).contains(&at));
        let mut earlier = (0..self.at).rev().filter(|at| !is_part(*at)).map(|at| path[at]);
        let before = earlier.find(|row| is_link(conversation, *row))?;
        // A client that sums up only the end of a conversation names the record before that end.
        let table = &conversation.table;
        let is_main = |(row, known): &(RowId, &Row)| {
            let is_message = matches!(known.kind, Kind::User | Kind::Assistant | Kind::Attachment);
            is_message && !known.is_sidechain && is_link(conversation, *row)
        };
        let rows = table.numbered().rev().skip_while(|(row, _)| *row >= self.boundary);
        let last = rows.into_iter().find(is_main).map(|(row, _)| row);
        Some(last.filter(|last| is_below(conversation, *last, before)).unwrap_or(before))
    }

    /// Its records: those that are marked, or those on the path.
    fn records(&self, conversation: &Conversation, path: &[RowId]) -> crate::Result<Vec<RowId>> {
        if self.ours.is_none() {
            return Ok(path[self.at..self.end].to_vec());
        }
        let table = &conversation.table;
        marked(
            conversation,
            self.boundary,
            table.text(table.row(self.boundary).uuid).unwrap_or_default(),
        )
    }

    fn take_out(
        &self,
        conversation: &Conversation,
        path: &[RowId],
        before: RowId,
        change: &mut Change,
        instead: &mut HashMap<Id, Option<RowId>>,
    ) -> crate::Result<()> {
        let table = &conversation.table;
        let boundary = table.boundary(self.boundary);
        if let Some(ours) = &self.ours {
            let first = ours.first.as_deref().and_then(|id| table.ids.find(id));
            if let Some(first) = first.and_then(|id| conversation.graph.row_of(id)) {
                let logical = boundary.and_then(|boundary| boundary.logical_parent);
                let parent = match &ours.parent {
                    Some(raw) if raw.is_empty() => To::Nothing,
                    Some(raw) => To::Value(raw.clone().into_bytes()),
                    None => To::Value(quote(table.text(logical).unwrap_or_default()).into_bytes()),
                };
                change.edit(first).set("parentUuid", parent);
            }
        }
        // In our own form, the record before the first that stayed may be older than the last one
        // that was summed up.
        let logical =
            boundary.and_then(|boundary| conversation.graph.row_of(boundary.logical_parent?));
        let before = if self.ours.is_some() { logical.unwrap_or(before) } else { before };
        for row in self.records(conversation, path)? {
            change.drop(row);
            if let Some(id) = table.row(row).uuid {
                instead.insert(id, Some(before));
            }
        }
        Ok(())
    }
}

/// Whether a record is below another one.
fn is_below(conversation: &Conversation, mut row: RowId, above: RowId) -> bool {
    while row > above {
        match conversation.graph.link(row).parent() {
            Some(parent) if parent < row => row = parent,
            _ => return false,
        }
    }
    row == above
}

/// The records of a compaction of ours.
fn marked(conversation: &Conversation, boundary: RowId, id: &str) -> crate::Result<Vec<RowId>> {
    let mut found = vec![boundary];
    for (row, known) in conversation.table.numbered() {
        let may_be = matches!(known.kind, Kind::Summary | Kind::LastPrompt)
            || known.input == Some(Input::Summary);
        if may_be
            && conversation.look(row, |entry| entry.get(MARK).is_some_and(|mark| mark.is(id)))?
        {
            found.push(row);
        }
    }
    Ok(found)
}

fn mark(entry: &Entry<'_>) -> Option<OurMark> {
    let ours = entry.get("compactMetadata")?.get(MARK_OF_BOUNDARY)?;
    let text = |name: &str| Some(ours.get(name)?.text()?.into_owned());
    Some(OurMark { first: text("first"), parent: text("parent") })
}

/// Whether a record is the command that made a compaction.
fn is_compact(entry: &Entry<'_>) -> bool {
    let text = entry.message().and_then(Message::first_text);
    let text = text.or_else(|| entry.text("content"));
    text.is_some_and(|text| text.contains("<command-name>/compact<"))
}

/// What referred to a record that goes refers to the one that takes its place.
fn reconnect(
    conversation: &Conversation,
    change: &mut Change,
    instead: &HashMap<Id, Option<RowId>>,
) -> crate::Result<()> {
    let table = &conversation.table;
    let to = |id: Id| {
        let row = instead.get(&id).copied()?;
        let id = row.and_then(|row| table.text(table.row(row).uuid));
        Some(id.map_or("null".to_owned(), quote).into_bytes())
    };
    let mut edits: Vec<(RowId, &'static str, Vec<u8>)> = Vec::new();
    let has_parent = |change: &Change, row: RowId| {
        let edit = change.edits.get(&row);
        edit.is_some_and(|edit| edit.members.iter().any(|(name, _)| *name == "parentUuid"))
    };
    for (row, known) in table.numbered().filter(|(row, _)| !change.goes(*row)) {
        if let Some(value) = known.parent.and_then(to).filter(|_| !has_parent(change, row)) {
            edits.push((row, "parentUuid", value));
        }
        if let Some(value) = table.boundary(row).and_then(|one| to(one.logical_parent?)) {
            edits.push((row, "logicalParentUuid", value));
        }
        if matches!(known.kind, Kind::LastPrompt | Kind::Summary) && !instead.is_empty() {
            let named = conversation
                .look(row, |entry| entry.text("leafUuid").and_then(|id| table.ids.find(&id)))?;
            if let Some(value) = named.and_then(to) {
                edits.push((row, "leafUuid", value));
            }
        }
    }
    for (row, name, value) in edits {
        change.edit(row).set(name, To::Value(value));
    }
    Ok(())
}

/// If nothing follows the compaction, older clients continue from the newest record: the one before
/// it must be that.
fn newest(conversation: &Conversation, before: RowId, change: &mut Change) {
    let time = conversation.table.row(before).time;
    let needed = change.needed_time(conversation, Some(before), time);
    // A record of the same time was there before the compaction, too.
    let is_older = |needed: &Time| time.is_none_or(|time| needed.0 - 1 > time.0);
    if let Some(needed) = needed.filter(is_older) {
        change.edit(before).set_text("timestamp", &needed.to_string());
    }
}

/// Puts turns from before the last compaction behind its summary.
fn bring_back(
    subject: &Subject,
    path: &[RowId],
    all: &[CompactionRun],
    what: &Uncompress,
) -> Result<Change, UncompressError> {
    let conversation = subject.conversation();
    let table = &conversation.table;
    let Some((run, summary)) = all.last().and_then(|run| Some((run, run.summary?))) else {
        return Err(UncompressError::Never);
    };
    let is_part = |at: usize| all.iter().any(|run| (run.at..run.end).contains(&at));
    let turns = turns_before(conversation, path, run.at, &is_part);
    if turns.is_empty() {
        return Err(UncompressError::NothingBefore);
    }
    // What the compaction kept word for word is sent already, and stays.
    let kept = table.boundary(run.boundary).map(|boundary| conversation.graph.kept(boundary));
    let always: HashSet<RowId> = kept.into_iter().flatten().collect();
    let chosen = choose(subject, &turns, &always, what)?;
    let comes_back = |at: &usize| {
        let row = path[*at];
        let is_wanted = chosen.contains(&row) || always.contains(&row);
        is_wanted && !is_part(*at) && is_link(conversation, row)
    };
    let places: Vec<usize> = (0..run.at).filter(comes_back).collect();
    let Some((first, last)) = places.first().copied().zip(places.last().copied()) else {
        return Err(UncompressError::NothingBefore);
    };
    let id = |row: RowId| table.text(table.row(row).uuid).unwrap_or_default();
    let hang = |change: &mut Change, row: RowId, under: RowId| {
        change.edit(row).set("parentUuid", To::Value(quote(id(under)).into_bytes()));
    };
    let mut change = Change::new(conversation);
    let mut instead: HashMap<Id, Option<RowId>> = HashMap::new();
    for row in run.records(conversation, path)? {
        change.drop(row);
        instead.extend(table.row(row).uuid.map(|id| (id, Some(path[last]))));
    }
    // Each record hangs on the one that is sent before it, unless it does already.
    hang(&mut change, path[first], summary);
    let next = |at: usize| (at + 1..run.at).find(|at| is_link(conversation, path[*at]));
    for pair in places.windows(2).filter(|pair| next(pair[0]) != Some(pair[1])) {
        hang(&mut change, path[pair[1]], path[pair[0]]);
    }
    reconnect(conversation, &mut change, &instead)?;
    let time = table.row(path[first]).time.map(|time| Time(time.0.saturating_sub(1)));
    let earlier = time.map(|time| Time(time.0.saturating_sub(1)));
    let above = path[..first].iter().copied().rfind(|row| is_link(conversation, *row)).map(id);
    let lines = vec![
        conversation.look(run.boundary, |entry| moved_boundary(entry, earlier, above))?,
        conversation.look(summary, |entry| moved(entry, time, &quote(id(run.boundary))))?,
    ];
    let rows = table.numbered().rev().map(|(row, _)| row).skip_while(|row| *row >= path[first]);
    match rows.into_iter().find(|row| table.row(*row).placed.is_alone()) {
        Some(row) => _ = change.behind.insert(row, lines),
        None => change.start = lines,
    }
    let is_back = |turn: &&TurnBefore| turn.rows.iter().any(|row| chosen.contains(row));
    let numbers: Vec<String> =
        turns.iter().filter(is_back).map(|turn| turn.number.to_string()).collect();
    let turns = if numbers.len() == 1 { "turn" } else { "turns" };
    let text = format!("brought back: {turns} {}", numbers.join(", "));
    change.did(None, None, text);
    Ok(change)
}

/// A record of a compaction at its new place, with that parent (JSON).
fn moved(entry: &Entry<'_>, time: Option<Time>, parent: &str) -> Vec<u8> {
    let bytes = with(entry.raw().to_vec(), "parentUuid", parent);
    match time {
        Some(time) => with(bytes, "timestamp", &quote(&time.to_string())),
        None => bytes,
    }
}

/// A boundary at its new place. What it kept word for word is behind the summary now; and it is no
/// longer exactly ours.
fn moved_boundary(entry: &Entry<'_>, time: Option<Time>, above: Option<&str>) -> Vec<u8> {
    let bytes = moved(entry, time, "null");
    let bytes = with(bytes, "logicalParentUuid", &above.map_or("null".to_owned(), quote));
    let metadata = entry.get("compactMetadata").and_then(Json::object);
    let is_gone =
        |name: &str| matches!(name, "preservedSegment" | "preservedMessages" | MARK_OF_BOUNDARY);
    let members: Vec<String> = metadata
        .iter()
        .flat_map(crate::format::json::Object::members)
        .filter(|(name, _)| !is_gone(name))
        .map(|(name, value)| format!("{}:{}", quote(&name), String::from_utf8_lossy(value.raw())))
        .collect();
    with(bytes, "compactMetadata", &format!("{{{}}}", members.join(",")))
}

/// A record with another value of a member.
fn with(bytes: Vec<u8>, name: &str, value: &str) -> Vec<u8> {
    let changed = Json::parse(&bytes).and_then(Json::object);
    changed.map(|object| object.with(name, value.as_bytes())).unwrap_or(bytes)
}

/// A turn from before the compaction.
struct TurnBefore {
    number: usize,
    rows: Vec<RowId>,
}

fn turns_before(
    conversation: &Conversation,
    path: &[RowId],
    end: usize,
    is_part: &dyn Fn(usize) -> bool,
) -> Vec<TurnBefore> {
    let turns = conversation.turns_in(&conversation.live());
    let starts = starts(conversation, path, &turns);
    let mut found = Vec::new();
    for (number, start) in (1..).zip(&starts) {
        let next = starts.get(number).copied().unwrap_or(end).min(end);
        if *start >= end {
            break;
        }
        let rows: Vec<RowId> =
            (*start..next).filter(|at| !is_part(*at)).map(|at| path[at]).collect();
        if !rows.is_empty() {
            found.push(TurnBefore { number, rows });
        }
    }
    found
}

/// The records of the turns that come back.
fn choose(
    subject: &Subject,
    turns: &[TurnBefore],
    always: &HashSet<RowId>,
    what: &Uncompress,
) -> Result<HashSet<RowId>, UncompressError> {
    if !what.turns.is_empty() {
        let is_asked = |turn: &&TurnBefore| {
            what.turns.iter().any(|range| range.contains(&(turn.number as u64)))
        };
        let rows: HashSet<RowId> =
            turns.iter().filter(is_asked).flat_map(|turn| turn.rows.clone()).collect();
        return if rows.is_empty() { Err(UncompressError::NoTurn(turns.len())) } else { Ok(rows) };
    }
    let conversation = subject.conversation();
    let (Ok(context), Ok(sent)) = (subject.context()?, &subject.found) else {
        return Err(UncompressError::Never);
    };
    let all: Vec<RowId> = turns.iter().flat_map(|turn| turn.rows.iter().copied()).collect();
    let tokens = context.of_rows(conversation, &all, sent, subject.rules)?;
    let now = context.of_all_messages();
    let budget = what.to.unwrap_or(u64::MAX);
    // A share of the estimate, and what the client adds.
    let mut left = budget.saturating_sub(budget / 33 + 40).saturating_sub(now);
    let mut rows = HashSet::new();
    let mut newest = 0;
    for turn in turns.iter().rev() {
        let new = turn.rows.iter().filter(|row| !always.contains(*row));
        let more: u64 = new.filter_map(|row| tokens.get(row)).sum();
        newest = if newest == 0 { more } else { newest };
        let Some(rest) = left.checked_sub(more) else { break };
        left = rest;
        rows.extend(turn.rows.iter().copied());
    }
    if rows.is_empty() {
        return Err(UncompressError::Full { tokens: now, turn: newest });
    }
    Ok(rows)
}
