//! What a session can do without: tool calls, their results and copies, thinking, images, lines that are no conversation.
//!
//! A call goes with its result. What hangs on a record that goes is hung on what is sent before it. Where something is taken out of a turn, its thinking goes too: the API
//! takes thinking only as it was given. Invariants: never a call without its result, or the other way round; never a message without content; the presets are a
//! ladder: each takes out what the one before it does, whatever the session.

use std::borrow::Cow;
use std::io;

use hashbrown::{HashMap, HashSet};

use super::edit::BlockEdit;
use super::late::{Keep, Late};
use super::proof::BYTES_A_TOKEN;
use super::splice::To;
use super::{Change, Subject};
use crate::check::What;
use crate::content::BlockKind;
use crate::conversation::Conversation;
use crate::entry::Kind;
use crate::input::Input;
use crate::table::{BlockId, Filling, Id, RowId};

/// What is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
pub struct Strip {
    /// Tool calls, with their results.
    pub calls: bool,
    /// What results say; the calls stay, and so does a word about the size.
    pub results: bool,
    /// The structured copies of results, which no model sees.
    pub copies: bool,
    /// Thinking.
    pub thinking: bool,
    /// Images and documents.
    pub images: bool,
    /// Lines that are no conversation: progress, requests, the queue, durations, summaries of hooks.
    pub noise: bool,
    /// The list of copies of edited files: without it the client cannot take edits back.
    pub snapshots: bool,
    /// Sub-agents' records in the session's own file.
    pub agents: bool,
    /// Only calls and results of these tools; all if there are none.
    pub tools: Vec<String>,
    /// What stays at the end of the conversation.
    pub keep: Keep,
    /// Only results of more bytes than this.
    pub over: u64,
}

/// How much is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing that a model sees.
    Light,
    /// Also long results and thinking, except at the end.
    Medium,
    /// Also all results and images, except at the end, which is shorter; and lists of copies of edited files.
    Heavy,
    /// Also all calls; nothing is excepted at the end.
    Extreme,
}

impl Strip {
    /// What a preset takes out.
    pub fn preset(preset: Preset) -> Strip {
        let light = Strip { copies: true, noise: true, agents: true, ..Strip::default() };
        // Four answers a turn: more than that is the work of one prompt, not the thread of a talk.
        let keep = |turns| Keep::Seen { turns, answers: 4 * turns };
        let medium =
            Strip { results: true, thinking: true, keep: keep(5), over: 4_000, ..light.clone() };
        match preset {
            Preset::Light => light,
            Preset::Medium => medium,
            Preset::Heavy => {
                Strip { images: true, keep: keep(2), over: 0, snapshots: true, ..medium }
            }
            Preset::Extreme => Strip {
                calls: true,
                results: false,
                thinking: true,
                images: true,
                snapshots: true,
                ..light
            },
        }
    }

    /// Whether nothing is to go.
    pub fn is_nothing(&self) -> bool {
        let one = self.calls || self.results || self.copies || self.thinking || self.images;
        !(one || self.noise || self.snapshots || self.agents)
    }
}

/// The results that a strip would empty, if it were not for where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spared {
    /// Those that it empties.
    pub taken: usize,
    /// Those that stay because they stand at the end.
    pub kept: usize,
    /// About how many tokens these are in a request.
    pub tokens: u64,
}

/// What stays only because it stands at the end of the conversation.
pub fn spared(subject: &Subject, what: &Strip) -> Spared {
    let everywhere = Strip { keep: Keep::default(), ..what.clone() };
    let taken = emptied(subject, what);
    let mut kept = emptied(subject, &everywhere);
    kept.retain(|block| !taken.contains(block));
    let table = &subject.case.conversation.table;
    let sent: HashSet<RowId> = subject.sent().0.iter().copied().collect();
    let saved = kept.iter().filter(|block| sent.contains(&table.part(**block).row));
    let bytes: u64 = saved.map(|block| table.size(*block).saturating_sub(SHORTEST)).sum();
    Spared { taken: taken.len(), kept: kept.len(), tokens: bytes / BYTES_A_TOKEN }
}

fn emptied(subject: &Subject, what: &Strip) -> HashSet<BlockId> {
    let mut stripping = Stripping::new(subject, what);
    stripping.blocks();
    stripping.emptied
}

/// Plans what goes.
pub fn strip(subject: &Subject, what: &Strip) -> io::Result<Change> {
    let mut stripping = Stripping::new(subject, what);
    stripping.blocks();
    stripping.thinking();
    stripping.leftovers();
    stripping.rows();
    if what.copies {
        stripping.copies();
    }
    stripping.lines(subject.sent().0)?;
    let mut change = stripping.done();
    change.settle(subject)?;
    Ok(change)
}

/// Blocks that are images, or results that have some.
fn images(subject: &Subject) -> HashSet<BlockId> {
    let marks = subject.case.marks().filter(|(mark, _)| matches!(mark.what, What::Image(_)));
    marks.filter_map(|(_, block)| block).collect()
}

struct Stripping<'a> {
    conversation: &'a Conversation,
    what: &'a Strip,
    change: Change,
    late: Late,
    /// Blocks that go.
    gone: Vec<bool>,
    emptied: HashSet<BlockId>,
    /// Blocks that are images, or results that have some.
    images: HashSet<BlockId>,
    /// Calls, results that were emptied, thinking, images.
    counts: [u64; 4],
}

impl<'a> Stripping<'a> {
    fn new(subject: &'a Subject, what: &'a Strip) -> Self {
        let conversation = &subject.case.conversation;
        Stripping {
            conversation,
            what,
            change: Change::new(conversation),
            late: Late::new(conversation, what.keep),
            gone: vec![false; conversation.table.parts().len()],
            emptied: HashSet::new(),
            images: images(subject),
            counts: [0; 4],
        }
    }

    fn all_parts(&self) -> impl Iterator<Item = BlockId> + use<> {
        let count = self.conversation.table.parts().len();
        (0..u32::try_from(count).unwrap_or(u32::MAX)).map(BlockId)
    }

    fn is_open(&self, block: BlockId) -> bool {
        !self.late.blocks[self.conversation.table.part(block).row.index()]
    }

    /// Calls and results by what was asked for.
    fn blocks(&mut self) {
        let table = &self.conversation.table;
        let wanted = self.wanted();
        for block in self.all_parts() {
            if !self.is_open(block) {
                continue;
            }
            let part = table.part(block);
            let is_wanted = part.id.is_some_and(|id| wanted.contains(&id));
            match part.kind {
                kind if self.what.calls && kind.is_call() && is_wanted => {
                    self.gone[block.index()] = true;
                    self.counts[0] += 1;
                }
                kind if self.what.calls && kind.is_result() => {
                    // A result that answers nothing goes with the rest, unless only some tools are meant.
                    let is_orphan = self.conversation.pairs.of(block).is_none()
                        && self.what.tools.is_empty()
                        && table.size(block) >= self.what.over;
                    let goes = is_wanted || is_orphan;
                    self.gone[block.index()] = goes;
                }
                BlockKind::ToolResult
                    if self.what.results
                        && is_wanted
                        && table.size(block) >= self.what.over.max(SHORTEST) =>
                {
                    self.emptied.insert(block);
                    self.counts[1] += 1;
                }
                _ => {}
            }
        }
    }

    /// The calls that are meant, by their ids. Those with a half in a turn that stays do so too.
    fn wanted(&self) -> HashSet<Id> {
        let table = &self.conversation.table;
        let names = &self.what.tools;
        let mut sizes: HashMap<Id, u64> = HashMap::new();
        let (mut wanted, mut fixed) = (HashSet::new(), HashSet::new());
        for block in self.all_parts() {
            let part = table.part(block);
            let Some(id) = part.id else { continue };
            if !self.is_open(block) {
                fixed.insert(id);
            }
            if part.kind.is_result() {
                let size = sizes.entry(id).or_default();
                *size = table.size(block).max(*size);
            } else if names.is_empty()
                || table.text(part.name).is_some_and(|name| names.iter().any(|tool| tool == name))
            {
                wanted.insert(id);
            }
        }
        let is_long = |id: &Id| sizes.get(id).copied().unwrap_or(0) >= self.what.over;
        wanted.retain(|id| !fixed.contains(id) && is_long(id));
        wanted
    }

    /// Thinking that is to go, and that of turns in which something else does.
    fn thinking(&mut self) {
        let table = &self.conversation.table;
        // What opened the turn of each row.
        let mut turns: Vec<Option<RowId>> = vec![None; table.rows().len()];
        for row in self.conversation.graph.order() {
            let above =
                self.conversation.graph.link(*row).parent().and_then(|above| turns[above.index()]);
            turns[row.index()] = if table.row(*row).opens() { Some(*row) } else { above };
        }
        let is_thinking = |block: BlockId| {
            matches!(table.part(block).kind, BlockKind::Thinking | BlockKind::RedactedThinking)
        };
        let turn = |block: BlockId| turns[table.part(block).row.index()];
        let touched: HashSet<Option<RowId>> =
            self.all_parts().filter(|block| self.gone[block.index()]).map(turn).collect();
        for block in self.all_parts().filter(|block| is_thinking(*block)) {
            let is_late = self.late.thinking[table.part(block).row.index()];
            let is_asked = self.what.thinking && !is_late;
            if is_asked || touched.contains(&turn(block)) {
                self.gone[block.index()] = true;
                self.counts[2] += 1;
            }
        }
    }

    /// Blanks that are all that is left of an answer.
    fn leftovers(&mut self) {
        let table = &self.conversation.table;
        let mut answers = vec![(false, false); table.answers().len()];
        for block in self.all_parts() {
            let part = table.part(block);
            let Some(answer) = table.row(part.row).answer else { continue };
            let (is_touched, has_more) = &mut answers[answer.0 as usize];
            let is_gone = self.gone[block.index()];
            *is_touched |= is_gone;
            *has_more |=
                !is_gone && (part.kind != BlockKind::Text || part.filling == Filling::Some);
        }
        for block in self.all_parts() {
            let answer = table.row(table.part(block).row).answer;
            if answer.is_some_and(|answer| answers[answer.0 as usize] == (true, false)) {
                self.gone[block.index()] = true;
            }
        }
        // The same of what a user says beside results.
        for (id, _) in table.numbered().filter(|(_, row)| row.kind == Kind::User) {
            let is_blank = |block: BlockId| {
                let part = table.part(block);
                part.kind == BlockKind::Text && part.filling != Filling::Some
            };
            let is_touched = table.parts_of(id).any(|block| self.gone[block.index()]);
            if is_touched
                && table.parts_of(id).all(|block| self.gone[block.index()] || is_blank(block))
            {
                for block in table.parts_of(id) {
                    self.gone[block.index()] = true;
                }
            }
        }
    }

    /// From blocks to records.
    fn rows(&mut self) {
        let table = &self.conversation.table;
        for (id, row) in table.numbered() {
            let parts = table.parts_of(id);
            if !matches!(row.kind, Kind::User | Kind::Assistant) || parts.clone().next().is_none() {
                continue;
            }
            if parts.clone().all(|block| self.gone[block.index()]) {
                self.change.drop(id);
                continue;
            }
            for block in parts {
                let part = table.part(block);
                let place = u32::try_from(table.place(block)).unwrap_or(u32::MAX);
                let edit = if self.gone[block.index()] {
                    BlockEdit::Gone
                } else if self.emptied.contains(&block) {
                    BlockEdit::Emptied
                } else if self.what.images && self.has_image(block) && self.is_open(block) {
                    self.counts[3] += 1;
                    BlockEdit::WithoutImages
                } else {
                    continue;
                };
                // The copy of a result says the same, images too.
                let is_copied = edit != BlockEdit::Gone && part.kind == BlockKind::ToolResult;
                let row_edit = self.change.edit(id);
                row_edit.blocks.push((place, edit));
                if is_copied {
                    row_edit.set("toolUseResult", To::Nothing);
                }
            }
        }
    }

    fn has_image(&self, block: BlockId) -> bool {
        self.conversation.table.part(block).kind == BlockKind::Document
            || self.images.contains(&block)
    }

    fn copies(&mut self) {
        let table = &self.conversation.table;
        for (id, row) in table.numbered() {
            let is_result = row.input == Some(Input::ToolResult);
            if is_result && !self.change.goes(id) && !self.late.unseen[id.index()] {
                let part = table.parts_of(id).find(|part| table.part(*part).kind.is_result());
                let call = part.and_then(|part| self.conversation.pairs.of(part));
                let name = call.and_then(|call| table.text(table.part(call).name));
                let names = &self.what.tools;
                if names.is_empty()
                    || name.is_some_and(|name| names.iter().any(|tool| tool == name))
                {
                    self.change.edit(id).set("toolUseResult", To::Nothing);
                }
            }
        }
    }

    /// Lines that are no conversation, and sub-agents in the session's file.
    fn lines(&mut self, sent: &[RowId]) -> io::Result<()> {
        let table = &self.conversation.table;
        let sent: HashSet<RowId> = sent.iter().copied().collect();
        let events = table.numbered().filter(|(_, row)| row.kind == Kind::System);
        let events: Vec<RowId> = events.map(|(id, _)| id).collect();
        let dropped = self.conversation.look_all(&events, |look, row| {
            let subtype = look.record(row, |entry| entry.subtype().map(Cow::into_owned))?;
            let noise = ["api_error", "turn_duration", "stop_hook_summary"];
            Ok(subtype.is_some_and(|subtype| noise.contains(&subtype.as_str())))
        })?;
        let mut dropped = dropped.into_iter();
        let (mut noise, mut sides, mut snapshots) = (0, 0, 0);
        for (id, row) in table.numbered() {
            let is_noise = match row.kind {
                Kind::Progress
                | Kind::ApiRequest
                | Kind::ApiRequestShape
                | Kind::ApiRequestBlob
                | Kind::ToolsUsed
                | Kind::CostState => true,
                // It may be all there is of a prompt.
                Kind::QueueOperation => table.unsaid.is_empty(),
                Kind::System => dropped.next() == Some(true),
                _ => false,
            };
            let is_snapshot =
                matches!(row.kind, Kind::FileHistorySnapshot | Kind::FileHistoryDelta);
            let is_side = row.is_side && !sent.contains(&id) && !table.is_agent;
            if self.late.unseen[id.index()] {
                continue;
            }
            for (goes, count) in [
                (self.what.noise && is_noise, &mut noise),
                (self.what.snapshots && is_snapshot, &mut snapshots),
                (self.what.agents && is_side, &mut sides),
            ] {
                if goes && !self.change.goes(id) {
                    self.change.drop(id);
                    *count += 1;
                }
            }
        }
        for (count, text) in [
            (noise, ["line that is no conversation", "lines that are no conversation"]),
            (snapshots, ["list of copies of edited files", "lists of copies of edited files"]),
            (sides, ["record of a sub-agent", "records of sub-agents"]),
        ] {
            self.removed(count, text);
        }
        Ok(())
    }

    fn removed(&mut self, count: u64, [one, many]: [&str; 2]) {
        if count > 0 {
            let text = if count == 1 { one } else { many };
            self.change.did(None, None, format!("removed: {count} {text}"));
        }
    }

    fn done(mut self) -> Change {
        let [calls, results, thinking, images] = self.counts;
        for (count, text) in [
            (calls, ["tool call with its result", "tool calls with their results"]),
            (results, ["content of a result", "contents of results"]),
            (thinking, ["block of thinking", "blocks of thinking"]),
            (images, ["image or document", "images and documents"]),
        ] {
            self.removed(count, text);
        }
        if self.what.copies {
            self.change.did(None, None, "removed: structured copies of results");
        }
        self.change
    }
}

/// A result that is not longer says no more than the word that would stand for it.
const SHORTEST: u64 = 160;
