//! The places in a conversation that one can go back to: before each prompt.
//!
//! Invariant: after going back, the messages are those that would have been sent with the next
//! prompt if the prompt there had never been said.

use super::Turn;
use crate::api::request::{Message, text_block};
use crate::block::{is_text, text_of};

/// The place before a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waypoint {
    /// The id of the prompt's record.
    pub id: String,
    /// What was said.
    pub text: String,
    /// The message that it is in.
    pub(crate) message: usize,
    /// Its first block there.
    pub(crate) block: usize,
}

/// The text of a prompt.
pub(crate) fn words(blocks: &[String]) -> String {
    blocks.iter().filter_map(|block| text_of(block)).collect::<Vec<_>>().join("\n")
}

impl Turn {
    /// The places that one can go back to, oldest first.
    pub fn waypoints(&self) -> &[Waypoint] {
        &self.waypoints
    }

    /// Goes back to before a prompt. Returns the place; None if there is no such prompt, or a turn
    /// runs.
    pub(crate) fn go_back(&mut self, id: &str) -> Option<Waypoint> {
        if !self.is_idle() {
            return None;
        }
        let at = self.waypoints.iter().rposition(|one| one.id == id)?;
        let place = self.waypoints[at].clone();
        self.waypoints.truncate(at);
        self.remarks.clear();
        self.deferred.clear();
        if place.block == 0 {
            self.messages.truncate(place.message);
            return Some(place);
        }
        self.messages.truncate(place.message + 1);
        if let Some(last) = self.messages.last_mut() {
            let is_text = is_text(last.blocks.get(place.block));
            last.blocks.truncate(place.block);
            // The newline where a text met the prompt.
            let seam = last.blocks.last().and_then(|block| text_of(block)).filter(|_| is_text);
            if let Some(text) = seam {
                last.blocks.pop();
                last.blocks.push(text_block(text.strip_suffix('\n').unwrap_or(&text)));
            }
        }
        Some(place)
    }

    /// A text takes the place of a prompt and of what followed it, if there is such a prompt and no
    /// turn runs.
    pub(crate) fn replace_since(&mut self, id: &str, text: &str) {
        if self.go_back(id).is_some() {
            self.add(vec![text_block(text)]);
        }
    }

    /// What was said from a prompt on; empty if there is no such prompt.
    pub(crate) fn messages_since(&self, id: &str) -> Vec<Message> {
        let Some(place) = self.waypoints.iter().rfind(|one| one.id == id) else {
            return Vec::new();
        };
        let mut since = self.messages.get(place.message..).unwrap_or_default().to_vec();
        if let Some(first) = since.first_mut() {
            first.blocks.drain(..place.block.min(first.blocks.len()));
        }
        since
    }

    /// Messages without blocks are not sent: places move with those that stay.
    pub(super) fn drop_empty_messages(&mut self) {
        let is_empty = |place: usize, turn: &Turn| {
            turn.messages[..place.min(turn.messages.len())]
                .iter()
                .filter(|message| message.blocks.is_empty())
                .count()
        };
        let moved: Vec<usize> =
            self.waypoints.iter().map(|one| is_empty(one.message, self)).collect();
        for (waypoint, moved) in self.waypoints.iter_mut().zip(moved) {
            waypoint.message -= moved;
        }
        self.messages.retain(|message| !message.blocks.is_empty());
    }
}
