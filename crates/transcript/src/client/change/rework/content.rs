//! Prompts that get another text, or the text of several.

use std::borrow::Cow;

use super::super::Subject;
use super::super::spans::Spans;
use super::super::splice::To;
use super::{Rest, ReworkError, Reworking, TurnAction};
use crate::conversation::table::RowId;
use crate::format::content::{Block, BlockKind, Message};
use crate::format::json::{Json, Shape, quote};

impl Reworking<'_> {
    /// Joins turns: the prompts become one, and the answers of the last of them stay.
    pub(super) fn squash(&mut self, actions: &[TurnAction]) -> Result<(), ReworkError> {
        for group in groups(actions)?.into_iter().filter(|group| group.len() > 1) {
            let table = &self.conversation.table;
            let (first, last) = (group[0], group[group.len() - 1]);
            let mut blocks: Vec<Vec<u8>> = Vec::new();
            let mut place = None;
            for turn in &group {
                if *turn != first && self.spans.has_boundary(table, *turn) {
                    return Err(ReworkError::Compaction(turn + 1));
                }
                let rows = self.spans.prompt(table, *turn);
                place = place.or(rows.first().copied());
                blocks.extend(match &actions[*turn] {
                    TurnAction::Reword(text) => vec![text_block(text)],
                    _ => self.blocks(*turn, &rows)?,
                });
                self.rests[*turn] = match *turn {
                    turn if turn == first => Rest::Prompt,
                    turn if turn == last => Rest::Answers,
                    _ => Rest::Attached,
                };
            }
            // A turn that goes in between is no reason to keep its compaction apart.
            let between = (first + 1..last).find(|turn| self.spans.has_boundary(table, *turn));
            if between.is_some() {
                return Err(ReworkError::Compaction(last + 1));
            }
            let Some(place) = place else { return Err(ReworkError::NoPrompt(first + 1)) };
            self.put(place, [b"[", blocks.join(&b","[..]).as_slice(), b"]"].concat());
            let turns: Vec<usize> = group.iter().map(|turn| turn + 1).collect();
            let turns = super::named(&turns).unwrap_or_default();
            let text = format!("joined: the prompts of {turns}; the answers are those of the last");
            self.change.did(None, None, text);
        }
        Ok(())
    }

    /// Gives prompts another text.
    pub(super) fn reword(&mut self, actions: &[TurnAction]) -> Result<(), ReworkError> {
        for (turn, action) in actions.iter().enumerate() {
            let TurnAction::Reword(text) = action else { continue };
            if text.trim().is_empty() {
                return Err(ReworkError::Blank(turn + 1));
            }
            let table = &self.conversation.table;
            let rows = self.spans.prompt(table, turn);
            let Some(first) = rows.first().copied() else {
                return Err(ReworkError::NoPrompt(turn + 1));
            };
            self.change.did(None, None, format!("reworded: the prompt of turn {}", turn + 1));
            self.reworded.push(first);
            if self.rests[turn] != Rest::Whole {
                // It was joined with others.
                continue;
            }
            let mut others = self.blocks(turn, &rows)?;
            others.retain(|block| !is_text(block));
            let content = if others.is_empty() && table.row(first).is_string {
                quote(text).into_bytes()
            } else {
                others.insert(0, text_block(text));
                [b"[", others.join(&b","[..]).as_slice(), b"]"].concat()
            };
            self.put(first, content);
            for row in &rows[1..] {
                self.change.drop(*row);
            }
        }
        Ok(())
    }

    fn put(&mut self, row: RowId, content: Vec<u8>) {
        let edit = self.change.edit(row);
        edit.blocks.clear();
        edit.message.retain(|(name, _)| *name != "content");
        edit.message.push(("content", To::Value(content)));
    }

    /// The blocks of the prompt of a turn.
    fn blocks(&self, turn: usize, rows: &[RowId]) -> Result<Vec<Vec<u8>>, ReworkError> {
        if rows.is_empty() {
            return Err(ReworkError::NoPrompt(turn + 1));
        }
        let mut found = Vec::new();
        for row in rows {
            if self.conversation.table.row(*row).is_long() {
                return Err(ReworkError::TooLong(turn + 1));
            }
            let of_row = self.conversation.look(*row, |entry| {
                let content = entry.message().and_then(Message::content)?;
                if content.shape() == Shape::Array {
                    return Some(content.elements().map(|block| block.raw().to_vec()).collect());
                }
                Some(vec![text_block(&content.text()?)])
            })?;
            found.extend(of_row.unwrap_or_else(Vec::new));
        }
        Ok(found)
    }
}

/// The text of the prompt that opens a turn of the live conversation, counted from 1.
pub fn prompt_text(subject: &Subject, turn: usize) -> Result<String, ReworkError> {
    let conversation = &subject.case.conversation;
    let spans = Spans::live(conversation);
    if turn == 0 || turn > spans.len() {
        return Err(ReworkError::NoPrompt(turn));
    }
    let mut texts = Vec::new();
    for row in spans.prompt(&conversation.table, turn - 1) {
        if conversation.table.row(row).is_long() {
            return Err(ReworkError::TooLong(turn));
        }
        texts.extend(conversation.look(row, |entry| {
            let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
            let texts = blocks.filter(|block| block.kind() == BlockKind::Text);
            texts.filter_map(|block| block.text().map(Cow::into_owned)).collect::<Vec<_>>()
        })?);
    }
    if texts.is_empty() { Err(ReworkError::NoPrompt(turn)) } else { Ok(texts.join("\n")) }
}

fn text_block(text: &str) -> Vec<u8> {
    format!(r#"{{"type":"text","text":{}}}"#, quote(text)).into_bytes()
}

fn is_text(block: &[u8]) -> bool {
    let block = Json::parse(block).and_then(Block::of);
    block.is_some_and(|block| block.kind() == BlockKind::Text)
}

/// The turns that become one: each with those that are squashed into it, counted from 0.
fn groups(actions: &[TurnAction]) -> Result<Vec<Vec<usize>>, ReworkError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (turn, action) in actions.iter().enumerate() {
        match action {
            TurnAction::Drop => {}
            TurnAction::Squash => {
                let group = groups.last_mut().ok_or(ReworkError::First(turn + 1))?;
                group.push(turn);
            }
            TurnAction::Keep | TurnAction::Strip | TurnAction::Reword(_) => groups.push(vec![turn]),
        }
    }
    Ok(groups)
}
