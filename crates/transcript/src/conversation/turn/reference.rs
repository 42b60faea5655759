//! The turns that other programs and documents find: their own algorithms, step by step.
//!
//! For comparison only (`quipu turns --compare`); `docs/format.md` describes where they come from.
//! What they do with genuine files that their authors had not seen is reproduced, including
//! mistakes. They read records in file order, and only whole lines of JSON.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use serde::Serialize;

use super::BREAK;
use crate::format::content::{Block, BlockKind, Message};
use crate::format::entry::Entry;
use crate::format::file::{Lines, State};
use crate::format::json::{Json, Shape};
use crate::format::time::Time;

/// The results of all these algorithms.
#[derive(Debug, Default)]
pub struct Reference {
    /// The turns counted by stop reasons.
    pub stop_reason: StopReason,
    /// The turns as the cc-langfuse hook counts them.
    pub cc_langfuse: CcLangfuse,
    /// The prompts as rounds.
    pub rounds: Vec<Round>,
}

/// Runs all these algorithms on a file.
pub fn read<R: Read>(mut lines: Lines<R>) -> crate::Result<Reference> {
    let mut reference = Reference::default();
    let (mut grouping, mut rounds) = (Grouping::default(), Rounds::default());
    while let Some(line) = lines.next_line()? {
        for record in line.records().filter(|record| record.state == State::Whole) {
            if let Some(entry) = &record.entry {
                let number = record.line.unwrap_or(0);
                reference.stop_reason.read(entry);
                grouping.read(entry, number, &mut reference.cc_langfuse);
                reference.rounds.extend(rounds.read(entry, number));
            }
        }
    }
    grouping.finish(&mut reference.cc_langfuse);
    reference.stop_reason.finish();
    Ok(reference)
}

/// The turns of the analysis `stop-reason` (see `docs/format.md`): a turn begins with string
/// content, and only records with a stop reason count. The sections are those of the analysis.
#[derive(Debug, Default)]
pub struct StopReason {
    /// The turns (section 4).
    pub turns: Vec<StopReasonTurn>,
    /// The ids of the calls that have a result (section 5).
    pub pairs: Vec<String>,
    /// The answers (section 6).
    pub messages: Vec<StopReasonMessage>,
    /// The number of calls in records that count.
    pub calls: u64,
    /// The numbers of calls and results in all records, as its tables count them.
    pub blocks: [u64; 2],
    pending: HashSet<String>,
    groups: HashMap<Option<String>, usize>,
}

/// A turn, counted by stop reasons.
#[derive(Debug, Default, Serialize)]
pub struct StopReasonTurn {
    /// The id of the record that it starts with.
    pub start: Option<String>,
    /// The ids of the records of its answers.
    pub responses: Vec<Option<String>>,
    /// The ids of its calls, each with the id of the record of its result.
    pub calls: Vec<(String, Option<String>)>,
}

/// An answer, counted by stop reasons: one record of several.
#[derive(Debug, Serialize)]
pub struct StopReasonMessage {
    /// Its `message.id`.
    pub id: Option<String>,
    /// The id of the record that is kept.
    pub kept: Option<String>,
    /// How many records are left out.
    pub records_left_out: u64,
    /// How many blocks are lost with them.
    pub blocks_lost: u64,
    /// Its output tokens.
    pub output: i64,
    #[serde(skip)]
    stops: bool,
    #[serde(skip)]
    held: u64,
}

fn owned(text: Option<std::borrow::Cow<'_, str>>) -> Option<String> {
    text.map(std::borrow::Cow::into_owned)
}

fn blocks<'a>(entry: &'a Entry<'_>) -> impl Iterator<Item = Block<'a>> {
    entry.message().into_iter().flat_map(Message::blocks)
}

impl StopReason {
    fn read(&mut self, entry: &Entry<'_>) {
        let is = |name: &str| entry.get("type").is_some_and(|json| json.is(name));
        let content = entry.message().and_then(Message::content).map(Json::shape);
        if is("user") {
            if content == Some(Shape::String) {
                let start = owned(entry.uuid());
                self.turns.push(StopReasonTurn { start, ..StopReasonTurn::default() });
            }
            for block in blocks(entry).filter(|block| block.kind() == BlockKind::ToolResult) {
                self.blocks[1] += 1;
                let id = block.field("tool_use_id").unwrap_or_default().into_owned();
                if self.pending.remove(&id) {
                    self.pairs.push(id.clone());
                }
                let calls = self.turns.last_mut().map(|turn| &mut turn.calls);
                let call = calls.and_then(|calls| {
                    calls.iter_mut().find(|(call_id, result)| *call_id == id && result.is_none())
                });
                if let Some((_, result)) = call {
                    *result = owned(entry.uuid());
                }
            }
        } else if is("assistant") {
            self.answer(entry);
        }
    }

    fn answer(&mut self, entry: &Entry<'_>) {
        let Some(message) = entry.message() else { return };
        self.group(entry, message);
        let calls = blocks(entry).filter(|block| block.kind() == BlockKind::ToolUse);
        let calls: Vec<String> = calls.filter_map(|block| owned(block.field("id"))).collect();
        self.blocks[0] += calls.len() as u64;
        if !is_final(message) {
            return;
        }
        self.calls += calls.len() as u64;
        if let Some(turn) = self.turns.last_mut() {
            turn.responses.push(owned(entry.uuid()));
            turn.calls.extend(calls.iter().map(|id| (id.clone(), None)));
        }
        self.pending.extend(calls);
    }

    /// Section 6: the first record with a stop reason is kept; if none has one, the one with the
    /// largest output.
    fn group(&mut self, entry: &Entry<'_>, message: &Message<'_>) {
        let id = owned(message.text("id"));
        let output = message.get("usage").and_then(|usage| usage.get("output_tokens")?.integer());
        let (output, stops) = (output.unwrap_or(0), is_final(message));
        let held = message.blocks().count() as u64;
        let new = StopReasonMessage {
            id: id.clone(),
            kept: owned(entry.uuid()),
            records_left_out: 0,
            blocks_lost: 0,
            output,
            stops,
            held,
        };
        let Some(at) = self.groups.get(&id) else {
            self.groups.insert(id, self.messages.len());
            self.messages.push(new);
            return;
        };
        let known = &mut self.messages[*at];
        let better = !known.stops && (stops || output > known.output);
        let lost = if better { known.held } else { held };
        let (records_left_out, blocks_lost) =
            (known.records_left_out + 1, known.blocks_lost + lost);
        if better {
            *known = new;
        }
        (known.records_left_out, known.blocks_lost) = (records_left_out, blocks_lost);
    }

    fn finish(&mut self) {
        self.pending.clear();
        self.groups.clear();
    }

    /// The number of blocks of answers that are lost, because their records are not the ones that
    /// are kept.
    pub fn lost(&self) -> u64 {
        self.messages.iter().map(|message| message.blocks_lost).sum()
    }
}

/// `stop_reason !== null`: a record without one counts as final too.
fn is_final(message: &Message<'_>) -> bool {
    message.get("stop_reason").is_none_or(|reason| reason.shape() != Shape::Null)
}

/// The cc-langfuse hook: a turn counts once there is an answer.
#[derive(Debug, Default)]
pub struct CcLangfuse {
    /// The turns.
    pub turns: Vec<CcLangfuseTurn>,
    /// The number of records up to the end of the last complete turn.
    pub consumed: u64,
    /// The line number of the last of them.
    pub last_line: u64,
}

/// A turn of the cc-langfuse hook.
#[derive(Debug, Default, Serialize)]
pub struct CcLangfuseTurn {
    /// The line number of the user's message.
    pub line: u64,
    /// The ids of the merged answers.
    pub answers: Vec<Option<String>>,
    /// The number of records with results.
    pub results: u64,
}

#[derive(Default)]
struct Grouping {
    /// The turn that is being read.
    turn: Option<CcLangfuseTurn>,
    /// Whether an answer is being read, and its id.
    is_answering: bool,
    current: Option<String>,
    results: u64,
    answers: Vec<Option<String>>,
    records: u64,
    last_line: u64,
}

impl Grouping {
    fn read(&mut self, entry: &Entry<'_>, line: u64, found: &mut CcLangfuse) {
        let (before, line_before) = (self.records, self.last_line);
        self.records += 1;
        self.last_line = line;
        if entry.flag("isMeta") {
            return;
        }
        match entry.type_name().as_deref() {
            Some("user") if entry.message().is_some_and(Message::has_tool_result) => {
                self.results += 1;
            }
            Some("user") => {
                self.end_turn(before, line_before, found);
                self.turn = Some(CcLangfuseTurn { line, ..CcLangfuseTurn::default() });
            }
            Some("assistant") => {
                let id = entry.message().and_then(|message| owned(message.text("id")));
                if id.is_some() && id != self.current {
                    self.end_parts();
                    self.current = id;
                }
                self.is_answering = true;
            }
            _ => {}
        }
    }

    fn end_parts(&mut self) {
        let current = self.current.take();
        if std::mem::take(&mut self.is_answering) {
            self.answers.push(current);
        }
    }

    fn end_turn(&mut self, records: u64, line: u64, found: &mut CcLangfuse) {
        self.end_parts();
        let answers = std::mem::take(&mut self.answers);
        let results = std::mem::take(&mut self.results);
        if let Some(turn) = self.turn.take()
            && !answers.is_empty()
        {
            found.turns.push(CcLangfuseTurn { answers, results, ..turn });
            found.consumed = records;
            found.last_line = line;
        }
    }

    fn finish(mut self, found: &mut CcLangfuse) {
        self.end_turn(self.records, self.last_line, found);
    }
}

/// A prompt, and the kind of round that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The line number.
    pub line: u64,
    /// `new_session`, `continue`, `resume` or `new_round`.
    pub round: &'static str,
    /// `ide_selection`, `ide_opened_file`, `tool_result` or `plain`.
    pub input: &'static str,
}

#[derive(Default)]
struct Rounds {
    /// The time of the message before.
    before: Option<Time>,
}

impl Rounds {
    fn read(&mut self, entry: &Entry<'_>, line: u64) -> Option<Round> {
        let name = entry.get("type").and_then(Json::text);
        if !matches!(name.as_deref(), Some("user" | "assistant")) {
            return None;
        }
        let time = entry.get("timestamp").and_then(Time::read);
        let before = std::mem::replace(&mut self.before, time);
        if name.as_deref() != Some("user") {
            return None;
        }
        let given = |name: &str| entry.get(name).is_some_and(|json| json.shape() != Shape::Null);
        let has_result = entry.message().is_some_and(Message::has_tool_result);
        let gap = time.zip(before).map_or(0, |(now, before)| now.0 - before.0);
        let round = match () {
            () if given("permissionMode") || !given("parentUuid") => "new_session",
            () if has_result => "continue",
            () if gap > BREAK => "resume",
            () => "new_round",
        };
        let holds = |tag: &str| {
            blocks(entry).any(|block| block.text().is_some_and(|text| text.contains(tag)))
        };
        let input = match () {
            () if holds("<ide_selection>") => "ide_selection",
            () if holds("<ide_opened_file>") => "ide_opened_file",
            () if has_result => "tool_result",
            () => "plain",
        };
        Some(Round { line, round, input })
    }
}
