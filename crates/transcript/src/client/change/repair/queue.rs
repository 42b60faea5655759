//! Prompts that were typed while the model worked, and were never recorded as messages.

use std::borrow::Cow;

use super::{Repairing, Step, StepKind};
use crate::client::check::Code;
use crate::format::entry::Kind;
use crate::format::input::Input;
use crate::format::json::quote;

impl Repairing<'_> {
    /// Adds a message for each prompt that is only in the queue, after what was said when it was
    /// typed.
    pub(super) fn queued(&mut self) -> crate::Result<()> {
        for row in self.conversation.table.unsaid.clone() {
            if Some(row) <= self.boundary {
                continue;
            }
            let text =
                self.conversation.look(row, |entry| entry.text("content").map(Cow::into_owned))?;
            let Some(text) = text.filter(|text| !text.starts_with('/')) else { continue };
            // After the last record before it, but never between a call and its result.
            let mut at =
                self.steps.iter().position(|step| step.row().is_some_and(|other| other > row));
            let is_result = |step: &Step| {
                step.row().is_some_and(|row| {
                    self.conversation.table.row(row).input == Some(Input::ToolResult)
                })
            };
            while let Some(place) = at.filter(|place| {
                self.steps.get(*place).is_some_and(is_result) || self.is_open_before(*place)
            }) {
                at = Some(place + 1).filter(|next| *next < self.steps.len());
            }
            let at = at.unwrap_or(self.steps.len());
            let members = format!(r#""message":{{"role":"user","content":{}}}"#, quote(&text));
            let uuid = self.made_id(&format!("queue {}", self.conversation.table.row(row).line));
            let time = at.checked_sub(1).and_then(|before| self.steps[before].time);
            let what = StepKind::Made { behind: row, members };
            self.steps.insert(at, Step { uuid, what, time });
            self.did(Code::QueuedPrompt, Some(row), "prompt added to the conversation");
        }
        Ok(())
    }

    /// Whether a call before this index is answered after it.
    fn is_open_before(&self, place: usize) -> bool {
        let table = &self.conversation.table;
        let Some(before) = place.checked_sub(1).and_then(|before| self.steps[before].row()) else {
            return false;
        };
        let mut calls = table.blocks_of(before).filter(|part| table.block(*part).kind.is_call());
        calls.next().is_some()
            || (table.row(before).kind == Kind::Assistant && {
                let next = self.steps.get(place).and_then(Step::row);
                next.is_some_and(|next| {
                    table.row(next).answer.is_some()
                        && table.row(next).answer == table.row(before).answer
                })
            })
    }
}
