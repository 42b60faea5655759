//! The rows of one file of a session.

use std::borrow::Cow;

use index::catalog::agent_of;
use transcript::Conversation;
use transcript::conversation::Turns;
use transcript::conversation::diff::{Action, touched};
use transcript::conversation::table::{BlockId, Boundary};
use transcript::conversation::turn::{Step, Turn};
use transcript::conversation::usage::CountedFile;
use transcript::conversation::view::Piece;
use transcript::format::content::BlockKind;
use transcript::format::entry::Entry;
use transcript::format::input::Input;
use transcript::format::json::Json;

use super::{EDITS, MESSAGES, Maker, Placed, RawLines, TOOLS, TURNS, days, moment};
use crate::LakeError;

/// The tools whose calls change files, as `transcript::conversation::diff` knows them.
const EDITORS: [&str; 5] = ["Write", "Edit", "MultiEdit", "NotebookEdit", "Update"];

/// A file while its rows are made.
struct Reading<'a> {
    number: usize,
    conversation: &'a Conversation,
    agent: Option<String>,
    is_agent: bool,
    /// Which records are copies.
    copied: Vec<bool>,
}

impl Maker<'_> {
    pub(super) fn file(
        &mut self,
        number: usize,
        source: &CountedFile,
        conversation: &Conversation,
    ) -> Result<(), LakeError> {
        let table = &conversation.table;
        let agent = self.masked_id(agent_of(&source.path).as_deref()).map(Cow::into_owned);
        let copied = self.copied(number, conversation);
        let reading = Reading { number, conversation, agent, is_agent: source.is_agent, copied };
        let times = || table.rows().iter().filter_map(|row| row.time);
        let first = times().next();
        let sums = &mut self.sums;
        let earlier = if source.is_agent { &mut sums.first_of_agent } else { &mut sums.first };
        *earlier = earlier.iter().copied().chain(first).min();
        sums.last = sums.last.iter().copied().chain(times().max()).max();
        sums.bytes += table.end;
        sums.records += table.rows().len() as u64;
        sums.damaged += table.damaged;
        if source.is_agent {
            let path = || source.path.display().to_string();
            sums.agents.insert(agent_of(&source.path).unwrap_or_else(path));
        } else {
            let made = |boundary: &&Boundary| !reading.copied[boundary.row.index()];
            sums.compactions += table.boundaries.iter().filter(made).count() as u64;
            let named = table.forked_from.first().map(|(_, id)| table.ids.text(*id).to_owned());
            sums.forked_from = sums.forked_from.take().or(named);
        }
        let Turns { live, dead, side, .. } = conversation.turns();
        self.turns(&reading, &live, "live", None)?;
        for (place, chains) in [("abandoned", dead), ("sub-agent", side)] {
            for (chain, turns) in chains {
                self.turns(&reading, &turns, place, Some(chain.0))?;
            }
        }
        self.messages(&reading)
    }

    fn turns(
        &mut self,
        reading: &Reading<'_>,
        turns: &[Turn],
        place: &'static str,
        branch: Option<u32>,
    ) -> Result<(), LakeError> {
        let table = &reading.conversation.table;
        for (turn, found) in (1..).zip(turns) {
            let placed = Placed { turn, place, branch };
            let mut answers = 0_u64;
            for step in &found.steps {
                let Step::Answer { id, counts: true, .. } = step else { continue };
                let Some(id) = table.text(table.answer(*id).id) else { continue };
                answers += 1;
                self.place(reading.number, id, placed);
            }
            let is_copy = reading.copied[found.rows[0].index()];
            let (mut calls, mut errors) = (0_u64, 0_u64);
            for call in found.calls(table).filter(|call| !table.block(*call).is_repeat) {
                calls += 1;
                errors += u64::from(self.tool(reading, call, placed)?);
            }
            let is_typed = found.input.is_some_and(Input::is_typed);
            let is_prompt = is_typed && !reading.is_agent && place != "sub-agent";
            self.sums.prompts += u64::from(is_prompt && !is_copy);
            let start = found.times.map(|times| times[0]);
            let row = [
                turn.into(),
                place.into(),
                branch.into(),
                reading.agent.as_ref().into(),
                found.input.map(Input::name).into(),
                is_prompt.into(),
                found.outcome.name().into(),
                moment(start),
                moment(found.times.map(|times| times[1])),
                days(start),
                answers.into(),
                calls.into(),
                errors.into(),
                is_copy.into(),
                table.row(found.rows[0]).line.into(),
            ];
            self.put(TURNS, &row)?;
        }
        Ok(())
    }

    /// The row of a call of a tool, and of what it changed. Returns whether it failed.
    fn tool(
        &mut self,
        reading: &Reading<'_>,
        call: BlockId,
        placed: Placed,
    ) -> Result<bool, LakeError> {
        let conversation = reading.conversation;
        let table = &conversation.table;
        let block = table.block(call);
        let row = table.row(block.row);
        let result = conversation.pairs.of(call);
        let ended = result.and_then(|result| table.row(table.block(result).row).time);
        let taken = row.time.zip(ended).map(|(start, end)| end.0.saturating_sub(start.0));
        let is_error = result.map(|result| table.block(result).is_error);
        let message = table.text(row.message);
        let is_copy = reading.copied[block.row.index()];
        let name = table.text(block.name);
        let tool = self.masked_name(name);
        let (mut input, mut output) = (None, None);
        if self.policy.is_full() {
            let bytes = conversation.input_of(call)?;
            let json = String::from_utf8_lossy(&bytes);
            input = Some(self.mask.json(&json).into_owned());
            if let Some(result) = result {
                let text = texts_of(&conversation.result(result)?.0);
                output = Some(self.mask.text(&text).into_owned());
            }
        }
        let [id, message] = [table.text(block.id), message].map(|id| self.masked_id(id));
        let cells = [
            id.as_deref().into(),
            message.as_deref().into(),
            tool.as_deref().into(),
            moment(row.time),
            days(row.time),
            taken.filter(|taken| *taken >= 0).into(),
            is_error.into(),
            table.size(call).into(),
            result.map(|result| table.size(result)).into(),
            is_copy.into(),
            reading.agent.as_ref().into(),
            placed.turn.into(),
            placed.place.into(),
            placed.branch.into(),
            row.line.into(),
            input.as_ref().into(),
            output.as_ref().into(),
            tool.as_deref().and_then(server_of).into(),
        ];
        self.put(TOOLS, &cells)?;
        if let (Some(result), Some(false), Some(name)) = (result, is_error, name)
            && EDITORS.contains(&name)
        {
            self.edit(reading, [call, result], name, placed)?;
        }
        Ok(is_error == Some(true))
    }

    fn edit(
        &mut self,
        reading: &Reading<'_>,
        [call, result]: [BlockId; 2],
        tool: &str,
        placed: Placed,
    ) -> Result<(), LakeError> {
        let conversation = reading.conversation;
        let table = &conversation.table;
        let input = conversation.input_of(call)?;
        let (pieces, structured) = conversation.result(result)?;
        let Some(input) = Json::parse(&input) else { return Ok(()) };
        let structured = structured.as_deref().and_then(Json::parse);
        let Some(change) = touched(tool, input, structured, &texts_of(&pieces)) else {
            return Ok(());
        };
        if change.action == Action::Read {
            return Ok(());
        }
        let row = table.row(table.block(call).row);
        let file = self.masked_path(Some(&change.path));
        let name = file.as_deref().and_then(|file| file.rsplit(['/', '\\']).next());
        let extension = name.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end);
        let is_copy = reading.copied[table.block(call).row.index()];
        let id = self.masked_id(table.text(table.block(call).id));
        let cells = [
            id.as_deref().into(),
            tool.into(),
            moment(row.time),
            days(row.time),
            file.as_ref().into(),
            extension.into(),
            change.action.name().into(),
            change.added.into(),
            change.removed.into(),
            is_copy.into(),
            reading.agent.as_ref().into(),
            placed.turn.into(),
            placed.place.into(),
            placed.branch.into(),
            row.line.into(),
        ];
        self.put(EDITS, &cells)
    }

    fn messages(&mut self, reading: &Reading<'_>) -> Result<(), LakeError> {
        let conversation = reading.conversation;
        let table = &conversation.table;
        for (id, row) in table.numbered() {
            let (mut text, mut raw) = (None, None);
            if self.policy.is_full() {
                let wants_raw = self.policy.raw == RawLines::Pushed && !row.is_long();
                let line = |entry: &Entry<'_>| String::from_utf8_lossy(entry.raw()).into_owned();
                let read = conversation
                    .look(id, |entry| (words_of(entry), wants_raw.then(|| line(entry))))?;
                text = read.0.map(|text| self.mask.text(&text).into_owned());
                raw = read.1.map(|line| self.mask.json(&line).into_owned());
            }
            let model = row.answer.and_then(|answer| table.text(table.answer(answer).model));
            let model = self.masked_name(model);
            let [uuid, parent, message] =
                [row.uuid, row.parent, row.message].map(|id| self.masked_id(table.text(id)));
            let cells = [
                row.kind.name().into(),
                uuid.as_deref().into(),
                parent.as_deref().into(),
                message.as_deref().into(),
                model.as_deref().into(),
                row.input.map(Input::name).into(),
                moment(row.time),
                days(row.time),
                row.len.into(),
                table.blocks_of(id).count().into(),
                table.boundary(id).is_some().into(),
                reading.copied[id.index()].into(),
                reading.agent.as_ref().into(),
                row.line.into(),
                text.as_ref().into(),
                raw.as_ref().into(),
            ];
            self.put(MESSAGES, &cells)?;
        }
        Ok(())
    }

    /// Which records are copies: those that belong to the next answer that counts, if that is one.
    /// A record that says that it was copied belongs to an answer that was copied with it; without
    /// one, it is a copy. Behind the last answer, a record is one if another file of the session
    /// has it, too. What the session that the answers were copied from has behind them is one
    /// anyway.
    fn copied(&mut self, number: usize, conversation: &Conversation) -> Vec<bool> {
        let table = &conversation.table;
        let mut copied = vec![false; table.rows().len()];
        let mut says_so = vec![false; table.rows().len()];
        for (row, _) in &table.forked_from {
            says_so[row.index()] = true;
        }
        let mut next = None;
        for (id, row) in table.numbered().rev() {
            let says_so = says_so[id.index()];
            let answer = row.answer.and_then(|answer| table.text(table.answer(answer).id));
            if answer.is_some_and(|id| self.places.contains_key(id)) {
                next = Some((self.is_copy(number, answer), says_so));
            }
            let uuid = table.text(row.uuid);
            copied[id.index()] = match next {
                _ if uuid.is_some_and(|uuid| self.before.contains(uuid)) => true,
                Some((is_copy, was_copied)) if was_copied || !says_so => is_copy,
                None if !says_so => uuid.is_some_and(|uuid| !self.tails.insert(uuid.to_owned())),
                _ => true,
            };
        }
        copied
    }
}

/// The MCP server of a tool: such tools are called `mcp__SERVER__TOOL`.
fn server_of(tool: &str) -> Option<&str> {
    let (server, _) = tool.strip_prefix("mcp__")?.split_once("__")?;
    (!server.is_empty()).then_some(server)
}

/// The texts of a result.
fn texts_of(pieces: &[Piece]) -> String {
    pieces.iter().filter_map(Piece::text).collect::<Vec<_>>().join("\n")
}

/// What a record says: its texts, without thinking and tools.
fn words_of(entry: &Entry<'_>) -> Option<String> {
    let blocks = entry.message()?.blocks().filter(|block| block.kind() == BlockKind::Text);
    let texts: Vec<String> = blocks.filter_map(|block| Some(block.text()?.into_owned())).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
