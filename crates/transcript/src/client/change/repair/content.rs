//! Removes or adjusts what the API refuses.

use hashbrown::HashSet;

use super::super::edit::BlockEdit;
use super::super::splice::To;
use super::{Repairing, Step};
use crate::client::check::{Code, LONGEST_OF_MANY, LONGEST_SIDE, MANY, MOST, ThinkingFault, What};
use crate::conversation::table::{BlockId, Filling, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;

impl Repairing<'_> {
    pub(super) fn content(&mut self) {
        let on: HashSet<RowId> = self.steps.iter().filter_map(Step::row).collect();
        let marks: Vec<(BlockId, What)> = self
            .subject
            .case
            .marks()
            .filter_map(|(mark, block)| Some((block?, mark.what.clone())))
            .filter(|(block, _)| on.contains(&self.conversation.table.block(*block).row))
            .collect();
        let mut gone = Vec::new();
        for (block, what) in &marks {
            self.fault(*block, what, &mut gone);
        }
        self.images(&marks);
        self.empty(&mut gone);
        self.misplaced(&mut gone);
        for (block, code, text) in gone {
            self.did(code, Some(self.conversation.table.block(block).row), text);
            self.remove(block);
        }
        self.forget_gone();
        self.shapes(&on);
    }

    fn fault(
        &mut self,
        block: BlockId,
        what: &What,
        gone: &mut Vec<(BlockId, Code, &'static str)>,
    ) {
        let part = self.conversation.table.block(block);
        match what {
            What::BlockType(_) if self.is_rejected(Code::UnknownBlock) => {
                gone.push((
                    block,
                    Code::UnknownBlock,
                    "block removed that the API does not accept",
                ));
            }
            What::Content(_) if self.is_rejected(Code::ContentShape) => {
                gone.push((block, Code::ContentShape, "block removed that is not an object"));
            }
            What::BlockField(_) if self.is_rejected(Code::UnknownField) => {
                let is_answer = self.conversation.table.row(part.row).kind == Kind::Assistant;
                self.block(block, BlockEdit::Known { is_answer });
                let text = "fields removed that the API does not know";
                self.did(Code::UnknownField, Some(part.row), text);
            }
            What::Call(_) if self.is_rejected(Code::CallForm) => {
                self.block(block, BlockEdit::CallForm);
                self.did(
                    Code::CallForm,
                    Some(part.row),
                    "tool call changed to a form that the API accepts",
                );
            }
            What::Thinking(fault) => {
                let (code, text) = match fault {
                    ThinkingFault::Unsigned => {
                        (Code::ThinkingUnsigned, "thinking without a signature removed")
                    }
                    ThinkingFault::Altered => (Code::ThinkingAltered, "altered thinking removed"),
                    ThinkingFault::OfUser => {
                        (Code::ThinkingMisplaced, "thinking in a user message removed")
                    }
                    ThinkingFault::NoData | ThinkingFault::Hollow { .. } => {
                        (Code::ThinkingEmpty, "thinking without its text removed")
                    }
                };
                if self.is_rejected(code) {
                    gone.push((block, code, text));
                }
            }
            _ => {}
        }
    }

    /// Images that are too large, too many, or not valid images.
    fn images(&mut self, marks: &[(BlockId, What)]) {
        let images: Vec<&(BlockId, What)> =
            marks.iter().filter(|(_, what)| matches!(what, What::Image(_))).collect();
        let longest = if images.len() > MANY { LONGEST_OF_MANY } else { LONGEST_SIDE };
        let too_many = images.len().saturating_sub(MOST);
        let codes = [Code::ImageEncoding, Code::ImageSize, Code::ImageDimensions];
        let mut done = HashSet::new();
        for (number, (block, what)) in images.iter().enumerate() {
            let row = self.conversation.table.block(*block).row;
            if number < too_many && self.is_rejected(Code::ImageCount) {
                if done.insert(*block) {
                    self.block(*block, BlockEdit::WithoutImages);
                    self.did(
                        Code::ImageCount,
                        Some(row),
                        "image replaced with a text: there were too many",
                    );
                }
                continue;
            }
            let What::Image(image) = what else { continue };
            let Some(code) =
                codes.into_iter().find(|code| self.is_rejected(*code) && image.has(*code, longest))
            else {
                continue;
            };
            if done.insert(*block) {
                let longest = u32::try_from(longest).unwrap_or(u32::MAX);
                self.block(*block, BlockEdit::Smaller(longest));
                self.did(code, Some(row), "image made to fit, or replaced with a text");
            }
        }
    }

    /// Blank texts that would be sent.
    fn empty(&mut self, gone: &mut Vec<(BlockId, Code, &'static str)>) {
        if !self.is_rejected(Code::EmptyContent) {
            return;
        }
        let table = &self.conversation.table;
        for row in self.steps.iter().filter_map(Step::row).collect::<Vec<_>>() {
            let blank: Vec<BlockId> = table
                .blocks_of(row)
                .filter(|part| {
                    let part = table.block(*part);
                    part.kind == BlockKind::Text && part.filling != Filling::Some
                })
                .collect();
            if blank.is_empty() {
                continue;
            }
            if blank.len() < table.blocks_of(row).count() {
                gone.extend(
                    blank
                        .into_iter()
                        .map(|block| (block, Code::EmptyContent, "blank text removed")),
                );
            } else {
                let filled = format!(r#"[{{"type":"text","text":"{NOTHING}"}}]"#);
                self.change.edit(row).message.push(("content", To::Value(filled.into_bytes())));
                self.did(Code::EmptyContent, Some(row), "empty message filled with `(no content)`");
            }
        }
    }

    /// Answers that end with thinking (what followed it is gone), and thinking of non-Claude
    /// models.
    fn misplaced(&mut self, gone: &mut Vec<(BlockId, Code, &'static str)>) {
        let code = Code::ThinkingMisplaced;
        let foreign = Code::ThinkingForeign;
        if !self.is_rejected(code) && !self.is_rejected(foreign) {
            return;
        }
        let table = &self.conversation.table;
        let is_thinking = |part: BlockId| {
            matches!(table.block(part).kind, BlockKind::Thinking | BlockKind::RedactedThinking)
        };
        let known: HashSet<BlockId> = gone.iter().map(|(block, ..)| *block).collect();
        let rows: Vec<RowId> = self.steps.iter().filter_map(Step::row).collect();
        for (at, row) in
            rows.iter().enumerate().filter(|(_, row)| table.row(**row).kind == Kind::Assistant)
        {
            let next = rows[at + 1..]
                .iter()
                .find(|row| matches!(table.row(**row).kind, Kind::User | Kind::Assistant));
            let is_last = next.is_none_or(|next| table.row(*next).kind == Kind::User);
            let model = table.row(*row).answer.and_then(|answer| table.answer(answer).model);
            let is_foreign = table.text(model).is_some_and(|name| !name.starts_with("claude-"));
            let parts: Vec<BlockId> = table.blocks_of(*row).collect();
            if is_last && self.is_rejected(code) {
                let end = parts.iter().rev().take_while(|part| is_thinking(**part));
                for part in end.filter(|part| !known.contains(*part)) {
                    gone.push((*part, code, "thinking at the end of an answer removed"));
                }
            } else if is_foreign && self.is_rejected(foreign) {
                for part in
                    parts.iter().filter(|part| is_thinking(**part) && !known.contains(*part))
                {
                    gone.push((*part, foreign, "thinking of a non-Claude model removed"));
                }
            }
        }
    }

    /// Messages without content, or with a role that does not match their record.
    fn shapes(&mut self, on: &HashSet<RowId>) {
        let marks = &self.subject.case.examined.marks;
        let marks: Vec<(u64, What)> = marks
            .iter()
            .filter(|mark| mark.block.is_none())
            .map(|mark| (mark.offset, mark.what.clone()))
            .collect();
        for (offset, what) in marks {
            let Some(row) = self.subject.case.row_at(offset).filter(|row| on.contains(row)) else {
                continue;
            };
            let role = if self.conversation.table.row(row).kind == Kind::User {
                "user"
            } else {
                "assistant"
            };
            match what {
                What::Content("has a role that does not match its record") => {
                    let value = format!("\"{role}\"").into_bytes();
                    self.change.edit(row).message.push(("role", To::Value(value)));
                    self.did(Code::ContentShape, Some(row), format!("role changed to `{role}`"));
                }
                What::NoBlocks if self.is_rejected(Code::EmptyContent) => {
                    let filled = format!(r#"[{{"type":"text","text":"{NOTHING}"}}]"#);
                    self.change.edit(row).message.push(("content", To::Value(filled.into_bytes())));
                    self.did(
                        Code::EmptyContent,
                        Some(row),
                        "empty message filled with `(no content)`",
                    );
                }
                _ => {}
            }
        }
    }
}

/// What clients themselves write if a message has no content.
const NOTHING: &str = "(no content)";
