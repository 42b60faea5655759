//! Removes what a session can do without: tool calls, their results and copies, thinking, images,
//! and lines that are not part of the conversation.
//!
//! A call is removed together with its result. If a record is removed, its children get the record
//! that is sent before them as their parent. If a call is removed from a turn, the thinking of that
//! turn is removed too, because the API accepts thinking only unchanged. Invariants: never a call
//! without its result, or a result without its call; never a message without content; each preset
//! removes everything that the preset before it removes, in every session.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::edit::BlockEdit;
use super::late::{Keep, Late};
use super::saving::note_tokens;
use super::selected::Selected;
use super::splice::To;
use super::{Change, Subject};
use crate::client::check::What;
use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, Filling, Id, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::input::Input;

/// What to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
pub struct Strip {
    /// Tool calls with their results.
    pub calls: bool,
    /// The content of tool results; the calls stay, and a note about the size.
    pub results: bool,
    /// The structured copies of tool results, which no model sees.
    pub copies: bool,
    /// Thinking blocks.
    pub thinking: bool,
    /// Images and documents.
    pub images: bool,
    /// Lines that are not part of the conversation: progress, requests, the queue, durations, hook
    /// summaries.
    pub noise: bool,
    /// The file-history records: without them, the client cannot undo edits.
    pub snapshots: bool,
    /// Records of sub-agents in the session's own file.
    pub agents: bool,
    /// Only calls and results of these tools; if empty, of all tools.
    pub tools: Vec<String>,
    /// Only calls and results about these files, as the calls name them; if empty, about all.
    pub files: Vec<String>,
    /// What is kept at the end of the conversation.
    pub keep: Keep,
    /// Only results of at least this many bytes.
    pub over: u64,
    /// Only in these turns of the live conversation, counted from 1; `None` for the whole session.
    pub only: Option<Vec<usize>>,
}

/// How much to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing that a model sees.
    Light,
    /// Also long results and thinking, except at the end.
    Medium,
    /// Also all results and images, except at the end, which is shorter; and file-history records.
    Heavy,
    /// Also all calls; nothing is exempt at the end.
    Extreme,
}

impl Strip {
    /// What a preset removes.
    pub fn preset(preset: Preset) -> Strip {
        let light = Strip { copies: true, noise: true, agents: true, ..Strip::default() };
        // Four answers per turn: more than that is the work on one prompt, not the thread of a
        // conversation.
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

    /// Whether nothing is to be removed.
    pub fn is_nothing(&self) -> bool {
        let one = self.calls || self.results || self.copies || self.thinking || self.images;
        !(one || self.noise || self.snapshots || self.agents)
    }
}

/// The results that a strip empties, and those that it keeps only because they are at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spared {
    /// How many results it empties.
    pub taken: usize,
    /// How many results stay because they are at the end.
    pub kept: usize,
    /// About how many tokens these take in a request.
    pub tokens: u64,
}

/// Counts what is kept only because it is at the end of the conversation.
pub fn spared(subject: &Subject, what: &Strip) -> crate::Result<Spared> {
    let everywhere = Strip { keep: Keep::default(), ..what.clone() };
    let taken = emptied(subject, what)?;
    let mut kept = emptied(subject, &everywhere)?;
    kept.retain(|block| !taken.contains(block));
    let tokens = match subject.context()? {
        Ok(context) if !kept.is_empty() => {
            let is_kept = |block: &BlockId| kept.contains(block);
            let parts =
                context.parts.iter().filter(|part| part.block.as_ref().is_some_and(is_kept));
            parts.map(|part| part.tokens.saturating_sub(note_tokens(context))).sum()
        }
        _ => 0,
    };
    Ok(Spared { taken: taken.len(), kept: kept.len(), tokens })
}

fn emptied(subject: &Subject, what: &Strip) -> crate::Result<HashSet<BlockId>> {
    let mut stripping = Stripping::new(subject, what)?;
    stripping.blocks();
    Ok(stripping.emptied)
}

/// Plans what to remove.
pub fn strip(subject: &Subject, what: &Strip) -> crate::Result<Change> {
    let mut change = plan(subject, what)?;
    change.relink(subject)?;
    Ok(change)
}

/// Plans what to remove, and leaves the links between records to the caller.
pub(super) fn plan(subject: &Subject, what: &Strip) -> crate::Result<Change> {
    let mut stripping = Stripping::new(subject, what)?;
    stripping.blocks();
    stripping.thinking();
    stripping.leftovers();
    stripping.rows();
    if what.copies {
        stripping.copies();
    }
    stripping.lines(subject.sent().0)?;
    Ok(stripping.done())
}

/// Plans to remove these blocks of thinking, with all thinking of their turns.
pub(super) fn without_thinking(subject: &Subject, blocks: &[BlockId]) -> crate::Result<Change> {
    let what = Strip::default();
    let mut stripping = Stripping::new(subject, &what)?;
    for block in blocks {
        stripping.gone[block.index()] = true;
    }
    stripping.thinking();
    stripping.leftovers();
    stripping.rows();
    Ok(stripping.done())
}

/// Blocks that are images, and tool results that contain images.
fn images(subject: &Subject) -> HashSet<BlockId> {
    let marks = subject.case.marks().filter(|(mark, _)| matches!(mark.what, What::Image(_)));
    marks.filter_map(|(_, block)| block).collect()
}

struct Stripping<'a> {
    conversation: &'a Conversation,
    what: &'a Strip,
    change: Change,
    late: Late,
    /// By block: whether it is removed.
    gone: Vec<bool>,
    emptied: HashSet<BlockId>,
    /// Blocks that are images, and tool results that contain images.
    images: HashSet<BlockId>,
    /// The calls that may be removed, or whose results may.
    selected: Selected<'a>,
    /// How many calls, emptied results, thinking blocks and images.
    counts: [u64; 4],
}

impl<'a> Stripping<'a> {
    fn new(subject: &'a Subject, what: &'a Strip) -> crate::Result<Self> {
        let conversation = &subject.case.conversation;
        Ok(Stripping {
            conversation,
            what,
            change: Change::new(conversation),
            late: match &what.only {
                Some(turns) => Late::outside(conversation, turns),
                None => Late::new(conversation, what.keep),
            },
            gone: vec![false; conversation.table.blocks().len()],
            emptied: HashSet::new(),
            images: images(subject),
            selected: Selected::new(conversation, &what.tools, &what.files)?,
            counts: [0; 4],
        })
    }

    fn all_parts(&self) -> impl Iterator<Item = BlockId> + use<> {
        let count = self.conversation.table.blocks().len();
        (0..u32::try_from(count).unwrap_or(u32::MAX)).map(BlockId)
    }

    fn is_open(&self, block: BlockId) -> bool {
        !self.late.blocks[self.conversation.table.block(block).row.index()]
    }

    /// Marks the calls and results that were asked for.
    fn blocks(&mut self) {
        let table = &self.conversation.table;
        let wanted = self.wanted();
        for block in self.all_parts() {
            if !self.is_open(block) {
                continue;
            }
            let part = table.block(block);
            let is_wanted = part.id.is_some_and(|id| wanted.contains(&id));
            match part.kind {
                kind if self.what.calls && kind.is_call() && is_wanted => {
                    self.gone[block.index()] = true;
                    self.counts[0] += 1;
                }
                kind if self.what.calls && kind.is_result() => {
                    // A result without a call is removed with the rest, unless only some tools were
                    // asked for.
                    let is_orphan = self.conversation.pairs.of(block).is_none()
                        && self.selected.is_everything()
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

    /// The ids of the calls that were asked for. If either half of a pair is in a turn that is
    /// kept, the pair is kept.
    fn wanted(&self) -> HashSet<Id> {
        let table = &self.conversation.table;
        let mut sizes: HashMap<Id, u64> = HashMap::new();
        let (mut wanted, mut fixed) = (HashSet::new(), HashSet::new());
        for block in self.all_parts() {
            let part = table.block(block);
            let Some(id) = part.id else { continue };
            if !self.is_open(block) {
                fixed.insert(id);
            }
            if part.kind.is_result() {
                let size = sizes.entry(id).or_default();
                *size = table.size(block).max(*size);
            } else if self.selected.has(table, block) {
                wanted.insert(id);
            }
        }
        let is_long = |id: &Id| sizes.get(id).copied().unwrap_or(0) >= self.what.over;
        wanted.retain(|id| !fixed.contains(id) && is_long(id));
        wanted
    }

    /// Marks thinking that was asked for, and the thinking of turns from which something else is
    /// removed.
    fn thinking(&mut self) {
        let table = &self.conversation.table;
        // For each row, the row that opened its turn.
        let mut turns: Vec<Option<RowId>> = vec![None; table.rows().len()];
        for row in self.conversation.graph.order() {
            let above =
                self.conversation.graph.link(*row).parent().and_then(|above| turns[above.index()]);
            turns[row.index()] = if table.row(*row).opens() { Some(*row) } else { above };
        }
        let is_thinking = |block: BlockId| {
            matches!(table.block(block).kind, BlockKind::Thinking | BlockKind::RedactedThinking)
        };
        let turn = |block: BlockId| turns[table.block(block).row.index()];
        let touched: HashSet<Option<RowId>> =
            self.all_parts().filter(|block| self.gone[block.index()]).map(turn).collect();
        for block in self.all_parts().filter(|block| is_thinking(*block)) {
            let is_late = self.late.thinking[table.block(block).row.index()];
            let is_asked = self.what.thinking && !is_late;
            if is_asked || touched.contains(&turn(block)) {
                self.gone[block.index()] = true;
                self.counts[2] += 1;
            }
        }
    }

    /// Marks blanks if nothing else is left of an answer.
    fn leftovers(&mut self) {
        let table = &self.conversation.table;
        let mut answers = vec![(false, false); table.answers().len()];
        for block in self.all_parts() {
            let part = table.block(block);
            let Some(answer) = table.row(part.row).answer else { continue };
            let (is_touched, has_more) = &mut answers[answer.0 as usize];
            let is_gone = self.gone[block.index()];
            *is_touched |= is_gone;
            *has_more |=
                !is_gone && (part.kind != BlockKind::Text || part.filling == Filling::Some);
        }
        for block in self.all_parts() {
            let answer = table.row(table.block(block).row).answer;
            if answer.is_some_and(|answer| answers[answer.0 as usize] == (true, false)) {
                self.gone[block.index()] = true;
            }
        }
        // The same for blanks next to results in a user message.
        for (id, _) in table.numbered().filter(|(_, row)| row.kind == Kind::User) {
            let is_blank = |block: BlockId| {
                let part = table.block(block);
                part.kind == BlockKind::Text && part.filling != Filling::Some
            };
            let is_touched = table.blocks_of(id).any(|block| self.gone[block.index()]);
            if is_touched
                && table.blocks_of(id).all(|block| self.gone[block.index()] || is_blank(block))
            {
                for block in table.blocks_of(id) {
                    self.gone[block.index()] = true;
                }
            }
        }
    }

    /// Turns marked blocks into changes of records.
    fn rows(&mut self) {
        let table = &self.conversation.table;
        for (id, row) in table.numbered() {
            let parts = table.blocks_of(id);
            if !matches!(row.kind, Kind::User | Kind::Assistant) || parts.clone().next().is_none() {
                continue;
            }
            if parts.clone().all(|block| self.gone[block.index()]) {
                self.change.drop(id);
                continue;
            }
            for block in parts {
                let part = table.block(block);
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
                // The copy of a result has the same content, including images.
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
        self.conversation.table.block(block).kind == BlockKind::Document
            || self.images.contains(&block)
    }

    fn copies(&mut self) {
        let table = &self.conversation.table;
        for (id, row) in table.numbered() {
            let is_result = row.input == Some(Input::ToolResult);
            if is_result && !self.change.goes(id) && !self.late.unseen[id.index()] {
                let part = table.blocks_of(id).find(|part| table.block(*part).kind.is_result());
                let call = part.and_then(|part| self.conversation.pairs.of(part));
                if self.selected.is_everything()
                    || call.is_some_and(|call| self.selected.has(table, call))
                {
                    self.change.edit(id).set("toolUseResult", To::Nothing);
                }
            }
        }
    }

    /// Drops lines that are not part of the conversation, and sub-agents' records in the session's
    /// file.
    fn lines(&mut self, sent: &[RowId]) -> crate::Result<()> {
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
                // It may be the only record of a prompt.
                Kind::QueueOperation => table.unsaid.is_empty(),
                Kind::System => dropped.next() == Some(true),
                _ => false,
            };
            let is_snapshot =
                matches!(row.kind, Kind::FileHistorySnapshot | Kind::FileHistoryDelta);
            let is_sidechain = row.is_sidechain && !sent.contains(&id) && !table.is_agent;
            if self.late.unseen[id.index()] {
                continue;
            }
            for (goes, count) in [
                (self.what.noise && is_noise, &mut noise),
                (self.what.snapshots && is_snapshot, &mut snapshots),
                (self.what.agents && is_sidechain, &mut sides),
            ] {
                if goes && !self.change.goes(id) {
                    self.change.drop(id);
                    *count += 1;
                }
            }
        }
        for (count, text) in [
            (noise, ["line outside the conversation", "lines outside the conversation"]),
            (snapshots, ["file-history record", "file-history records"]),
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
            (results, ["tool result (its content)", "tool results (their content)"]),
            (thinking, ["thinking block", "thinking blocks"]),
            (images, ["image or document", "images and documents"]),
        ] {
            self.removed(count, text);
        }
        if self.what.copies {
            self.change.did(None, None, "removed: structured copies of tool results");
        }
        self.change
    }
}

/// Results shorter than this are kept: the note that replaces them would not be shorter.
const SHORTEST: u64 = 160;
