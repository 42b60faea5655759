//! Makes the spans of a unit of the plan, including their texts.
//!
//! Spans are passed on one by one, so that only the text of one record is in memory. Times are
//! those of records: this module does not use a clock. `docs/traces.md` defines what each span
//! contains, and why.

use std::sync::Arc;

use transcript::conversation::Conversation;
use transcript::conversation::agents::Owner;
use transcript::conversation::event::event;
use transcript::conversation::ingest::{Unit, answer_name, record_name};
use transcript::conversation::table::{AnswerId, BlockId, RowId};
use transcript::conversation::turn::{Outcome, Step};
use transcript::conversation::view::Piece;
use transcript::format::content::{Block, BlockKind};
use transcript::format::entry::Kind;
use transcript::format::input::{Input, typed};
use transcript::format::json::Json;
use transcript::format::time::Time;

use crate::content::{Text, block, media, message, raw, result};
use crate::id::SpanId;
use crate::plan::{Plan, Shipment};
use crate::span::{Generation, Level, Setting, Span, What};

/// Called with one span after the other.
pub type Take<'a> = &'a mut dyn FnMut(Span) -> transcript::Result<()>;

/// How many ancestors are searched for the record that an answer answers.
const NEAR: usize = 256;

impl Plan {
    /// Makes the spans of a unit, its root first.
    pub fn spans(&self, shipment: Shipment<'_>, take: Take<'_>) -> transcript::Result<()> {
        let unit = shipment.unit;
        let conversation = self.units.family.of(unit.owner);
        let steps = unit.records.parts.iter().flat_map(|turn| &turn.steps);
        let mut heard: Vec<RowId> = steps.filter_map(|step| heard(conversation, step)).collect();
        heard.sort_unstable();
        let setting = Arc::new(self.setting(shipment)?);
        let making = Making { plan: self, shipment, unit, conversation, setting, heard };
        take(making.root()?)?;
        making.compactions(take)?;
        let answers = &unit.records.answers;
        let first = |at: usize| answers.get(at).map(|(id, _)| conversation.table.answer(*id).first);
        let mut before = None;
        for (at, (id, blocks)) in answers.iter().enumerate() {
            let next = first(at + 1).map_or_else(|| making.end(), |row| making.time(row));
            making.answer(*id, blocks, before, next, take)?;
            before = first(at);
        }
        Ok(())
    }

    fn setting(&self, shipment: Shipment<'_>) -> transcript::Result<Setting> {
        let unit = shipment.unit;
        self.units.family.main.look(unit.opened, |entry| {
            let text = |name: &str| entry.text(name).map(std::borrow::Cow::into_owned);
            Setting {
                trace: shipment.trace,
                session: unit.session.to_string(),
                number: unit.number,
                version: text("version"),
                cwd: text("cwd"),
                branch: text("gitBranch").filter(|name| !name.is_empty()),
                slug: text("slug"),
            }
        })
    }
}

struct Making<'a> {
    plan: &'a Plan,
    shipment: Shipment<'a>,
    unit: &'a Unit,
    conversation: &'a Conversation,
    setting: Arc<Setting>,
    /// The records that were sent to the model as input, in file order.
    heard: Vec<RowId>,
}

/// The record of a step with which the user, a hook or the client spoke to the model.
fn heard(conversation: &Conversation, step: &Step) -> Option<RowId> {
    let Step::Said(row) = step else { return None };
    let input = conversation.table.row(*row).input?;
    let speaks = matches!(input, Input::Queued | Input::Hook | Input::Interrupt) || input.opens();
    speaks.then_some(*row)
}

impl Making<'_> {
    fn time(&self, row: RowId) -> Time {
        self.plan.time(self.unit.owner, row)
    }

    fn time_of(&self, block: BlockId) -> Time {
        self.time(self.conversation.table.block(block).row)
    }

    fn id(&self, id: Option<transcript::conversation::table::Id>) -> Option<String> {
        self.conversation.table.text(id).map(str::to_owned)
    }

    /// The span of the turn, or of the run of a sub-agent.
    fn root(&self) -> transcript::Result<Span> {
        let records = &self.unit.records;
        let start = self.time(records.first);
        let name;
        let what;
        if let Owner::Agent(at) = self.unit.owner {
            let agent = &self.plan.units.family.agents[at];
            let [kind, description] = self.plan.units.family.task(agent)?;
            name = kind.unwrap_or_else(|| agent.purpose.name().to_owned());
            what = What::Agent {
                agent: agent.id.to_string(),
                purpose: agent.purpose.name(),
                description,
                is_background: agent.is_background,
                is_guess: agent.start.is_some_and(|start| start.is_guess),
            };
        } else {
            name = format!("Turn {}", self.unit.number);
            what = What::Turn {
                outcome: records.outcome().name(),
                opened: records.input.map(Input::name),
            };
        }
        Ok(Span {
            turn: Arc::clone(&self.setting),
            id: self.shipment.root,
            parent: self.shipment.parent,
            what,
            name,
            start,
            end: self.end().max(start),
            input: self.row_text(records.first)?,
            output: self.last_text()?.map(Text::plain),
            level: self.level()?,
            events: self.events()?,
        })
    }

    /// When the client reports that the turn was over; else the time of its last message.
    fn end(&self) -> Time {
        let table = &self.conversation.table;
        let turns = self.unit.records.parts.iter();
        let last_time = turns.filter_map(|turn| turn.times).map(|times| times[1]).max();
        let measured = self.unit.records.parts.last().filter(|turn| turn.measured.is_some());
        let measured = measured.and_then(|turn| {
            let within = |row: &RowId| turn.rows[0] <= *row && *row <= turn.rows[1];
            let rows = table.durations.iter().map(|(row, _)| *row).filter(within);
            rows.map(|row| self.time(row)).max()
        });
        last_time.max(measured).unwrap_or(Time(0))
    }

    /// The last text of the model.
    fn last_text(&self) -> transcript::Result<Option<String>> {
        for (id, blocks) in self.unit.records.answers.iter().rev() {
            if self.conversation.table.answer(*id).is_error {
                continue;
            }
            let text = self.text(blocks)?;
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn text(&self, blocks: &[BlockId]) -> transcript::Result<String> {
        let mut texts = Vec::new();
        for one in
            blocks.iter().filter(|one| self.conversation.table.block(**one).kind == BlockKind::Text)
        {
            let text =
                self.conversation.look_at(*one, |block| Some(block?.text()?.into_owned()))?;
            texts.extend(text.filter(|text| !text.trim().is_empty()));
        }
        Ok(texts.join("\n\n"))
    }

    fn level(&self) -> transcript::Result<Level> {
        Ok(match self.unit.records.outcome() {
            Outcome::Answered | Outcome::Local | Outcome::Compacted => Level::Default,
            Outcome::Interrupted => Level::Warning("interrupted by the user".to_owned()),
            Outcome::Open => Level::Warning("incomplete: no answer after the last call".to_owned()),
            Outcome::Unanswered => Level::Warning("incomplete: no answer".to_owned()),
            Outcome::Failed => match self.unit.records.answers.last() {
                Some((id, blocks)) => self.failure(*id, blocks)?,
                None => Level::Error("api_error".to_owned(), String::new()),
            },
        })
    }

    /// What the client reports of an API error.
    fn failure(&self, id: AnswerId, blocks: &[BlockId]) -> transcript::Result<Level> {
        let text = self.text(blocks)?;
        let first = self.conversation.table.answer(id).first;
        let kind = self.conversation.look(first, |entry| {
            entry.get("error").and_then(Json::text).map(std::borrow::Cow::into_owned)
        })?;
        Ok(Level::Error(kind.unwrap_or_else(|| "api_error".to_owned()), first_line(&text)))
    }

    /// The notes of the client that a person wants to know.
    fn events(&self) -> transcript::Result<Vec<(Time, String)>> {
        let mut found = Vec::new();
        for step in self.unit.records.parts.iter().flat_map(|turn| &turn.steps) {
            match step {
                Step::Event(row) if self.conversation.table.boundary(*row).is_none() => {
                    let client_event = self.conversation.look(*row, event)?;
                    found
                        .extend(client_event.matters.then(|| (self.time(*row), client_event.text)));
                }
                // It gets no span: the call may still come.
                Step::Orphan(block) => {
                    let output = self
                        .conversation
                        .look_at(*block, |content_block| result(&content_block?))?;
                    let line = output.map(|output| first_line(&output.text)).unwrap_or_default();
                    let row = self.conversation.table.block(*block).row;
                    found.push((self.time(row), format!("a result without its call: {line}")));
                }
                Step::Event(_) | Step::Said(_) | Step::Answer { .. } => {}
            }
        }
        found.sort();
        Ok(found)
    }

    /// The text of a record, as it was typed; pictures are replaced by their hashes.
    fn row_text(&self, row: RowId) -> transcript::Result<Option<Text>> {
        if self.conversation.table.row(row).input.is_none() {
            return Ok(None);
        }
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for (one, piece) in self.conversation.pieces_of(row)? {
            match (piece, one) {
                (Piece::Text { text, .. }, _) => texts.push(text.into()),
                (Piece::Media { .. }, Some(one)) => {
                    let words = |block: Option<Block<'_>>| Some(media(&block?)?.words());
                    others.extend(self.conversation.look_at(one, words)?);
                }
                // A picture in a queued prompt is not a block of its own.
                (Piece::Media { kind, media_type, .. }, None) => {
                    others.push(format!("[{kind} {media_type}]"));
                }
                (Piece::Other { json, is_call: false, .. }, _) => {
                    others.push(json.as_str().to_owned());
                }
                _ => {}
            }
        }
        let words: Vec<String> = typed(texts.into_iter()).into_iter().chain(others).collect();
        Ok((!words.is_empty()).then(|| Text::plain(words.join("\n\n"))))
    }

    /// The input to the model between two of its answers.
    fn asked(&self, after: Option<RowId>, until: RowId) -> transcript::Result<Option<Text>> {
        let Some(after) = after else { return self.row_text(self.unit.records.first) };
        let mut texts = Vec::new();
        let from = self.heard.partition_point(|row| *row <= after);
        for row in self.heard[from..].iter().take_while(|row| **row < until) {
            texts.extend(self.row_text(*row)?.map(|text| text.text));
        }
        Ok((!texts.is_empty()).then(|| Text::plain(texts.join("\n\n"))))
    }

    /// The time of the record that an answer answers: a prompt, or the last result.
    fn answered(&self, first: RowId) -> Option<Time> {
        let mut at = self.conversation.graph.link(first).parent();
        let mut meanwhile = None;
        for _ in 0..NEAR {
            let here = at?;
            let row = self.conversation.table.row(here);
            let is_said = row.input.is_some() || row.answer.is_some();
            if is_said && row.kind != Kind::Attachment {
                return row.time.max(meanwhile);
            }
            // The model did not get what was typed while a tool ran before the tool ended.
            meanwhile = meanwhile.max(row.time.filter(|_| is_said));
            at = self.conversation.graph.link(here).parent();
        }
        meanwhile
    }

    fn answer(
        &self,
        id: AnswerId,
        blocks: &[BlockId],
        before: Option<RowId>,
        next: Time,
        take: Take<'_>,
    ) -> transcript::Result<()> {
        let table = &self.conversation.table;
        let answer = table.answer(id);
        let rows: Vec<RowId> = blocks.iter().map(|one| table.block(*one).row).collect();
        let first = self.time(answer.first);
        let end = rows.iter().map(|row| self.time(*row)).max().unwrap_or(first).max(first);
        let start = self.answered(answer.first).unwrap_or(first).min(first);
        let calls: Vec<BlockId> =
            blocks.iter().copied().filter(|one| table.block(*one).kind.is_call()).collect();
        let mut json_blocks = Vec::with_capacity(blocks.len());
        for one in blocks {
            json_blocks.extend(
                self.conversation
                    .look_at(*one, |content_block| content_block.as_ref().map(block))?,
            );
        }
        let is_error = answer.is_error;
        let model = self.id(answer.model).filter(|model| model != "<synthetic>");
        let name = model
            .clone()
            .unwrap_or_else(|| if is_error { "API error" } else { "unknown model" }.to_owned());
        let usage = answer.counted(&self.conversation.table.ids);
        let span = Span {
            turn: Arc::clone(&self.setting),
            id: self.plan.span(self.unit, &answer_name(self.conversation, id)),
            parent: Some(self.shipment.root),
            name,
            start,
            end,
            input: self.asked(before, answer.first)?,
            output: Some(message("assistant", &json_blocks)),
            level: if is_error { self.failure(id, blocks)? } else { Level::Default },
            events: Vec::new(),
            what: What::Generation(Box::new(Generation {
                model,
                message: self.id(answer.id),
                request: self.id(answer.request),
                uuid: self.id(rows.last().and_then(|row| table.row(*row).uuid)),
                stop: self.id(answer.stop),
                spent: usage.map(|reported| reported.usage),
                is_final: answer.is_final(),
                thinking: usage.and_then(|usage| usage.thinking),
                first: (table.row(answer.first).time.is_some()).then_some(first),
                next: next.max(first),
                is_first: before.is_none(),
                calls: calls.len(),
                text: self.text(blocks)?,
                speed: self.id(usage.and_then(|usage| usage.speed)),
                tier: self.id(usage.and_then(|usage| usage.tier)),
            })),
        };
        let parent = span.id;
        take(span)?;
        for call in calls {
            take(self.call(call, parent, first)?)?;
        }
        Ok(())
    }

    fn call(&self, call: BlockId, parent: SpanId, first: Time) -> transcript::Result<Span> {
        let table = &self.conversation.table;
        let part = table.block(call);
        let start = self.time_of(call);
        let answer = self.conversation.pairs.of(call);
        let output = match answer {
            Some(answer) => self.conversation.look_at(answer, |block| result(&block?))?,
            None => None,
        };
        let is_error = answer.is_some_and(|answer| table.block(answer).is_error);
        let level = match (&output, answer) {
            (Some(text), _) if is_error => {
                Level::Error("tool_error".to_owned(), first_line(&text.text))
            }
            (None, _) if is_error => Level::Error("tool_error".to_owned(), String::new()),
            (_, Some(_)) => Level::Default,
            (_, None) => Level::Warning("no result".to_owned()),
        };
        let id = self.plan.calls.get(&(self.unit.owner, call)).copied();
        Ok(Span {
            turn: Arc::clone(&self.setting),
            id: id.unwrap_or_else(|| {
                self.plan.span(self.unit, &record_name(self.conversation, part.row))
            }),
            parent: Some(parent),
            what: What::Tool { call: self.id(part.id), answer: first },
            name: self.id(part.name).unwrap_or_else(|| "unknown tool".to_owned()),
            start,
            end: answer.map_or(start, |answer| self.time_of(answer)).max(start),
            input: self
                .conversation
                .look_at(call, |block| Some(Text::json(raw(block?.get("input")?))))?,
            output,
            level,
            events: Vec::new(),
        })
    }

    fn compactions(&self, take: Take<'_>) -> transcript::Result<()> {
        let steps = || self.unit.records.parts.iter().flat_map(|turn| &turn.steps);
        let is_summary =
            |row: &RowId| self.conversation.table.row(*row).input == Some(Input::Summary);
        let summary = steps().find_map(|step| match step {
            Step::Said(row) if is_summary(row) => Some(*row),
            _ => None,
        });
        for step in steps() {
            let Step::Event(row) = step else { continue };
            let Some(boundary) = self.conversation.table.boundary(*row) else { continue };
            let record = record_name(self.conversation, *row);
            let taken = self.conversation.look(*row, |entry| {
                entry
                    .get("compactMetadata")
                    .and_then(|metadata| metadata.get("durationMs")?.integer())
            })?;
            let end = self.time(*row);
            take(Span {
                turn: Arc::clone(&self.setting),
                id: self.plan.span(self.unit, &record),
                parent: Some(self.shipment.root),
                what: What::Compaction { is_auto: boundary.is_auto, tokens: boundary.tokens },
                name: "compaction".to_owned(),
                start: Time(end.0.saturating_sub(taken.unwrap_or(0).max(0))),
                end,
                input: None,
                output: summary.map(|row| self.row_text(row)).transpose()?.flatten(),
                level: Level::Default,
                events: Vec::new(),
            })?;
        }
        Ok(())
    }
}

fn first_line(text: &str) -> String {
    // The client puts its own errors into a tag.
    let text = text.trim();
    let text = text.strip_prefix("<tool_use_error>").unwrap_or(text);
    text.strip_suffix("</tool_use_error>")
        .unwrap_or(text)
        .trim()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
