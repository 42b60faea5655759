//! Removes secrets from the events of an answer, even if a value comes in pieces, one per event.

use serde_json::{Value, json};

use super::{Extent, Secrets};

/// How many bytes the end of a piece must share with the beginning of a value before it waits for
/// the next piece.
const ALIKE: usize = 4;

/// Passes events on.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    secrets: &'a Secrets,
    /// The end of what was passed on, which may be the beginning of a value.
    passed: String,
    /// What waits for the next piece, and the event that it came with.
    held: String,
    last: Value,
}

/// The members of a delta that contain a piece of a text.
const PIECES: [&str; 4] = ["text", "thinking", "partial_json", "signature"];

impl<'a> Events<'a> {
    pub(crate) fn new(secrets: &'a Secrets) -> Events<'a> {
        Events { secrets, passed: String::new(), held: String::new(), last: Value::Null }
    }

    /// The event in the form in which it may be passed on, preceded by what had waited.
    pub(crate) fn pass(&mut self, event: &str) -> Vec<String> {
        if self.secrets.shapes.is_empty() {
            return vec![event.to_owned()];
        }
        let Ok(mut value) = serde_json::from_str::<Value>(event) else {
            return vec![self.secrets.redacted(event, Extent::Whole).into_owned()];
        };
        let member = PIECES.into_iter().find(|name| value["delta"][name].is_string());
        let Some(member) = member.filter(|_| value["type"] == "content_block_delta") else {
            let left = self.flush();
            self.passed.clear();
            let event = self.secrets.redacted_json(event).into_owned();
            return left.into_iter().chain([event]).collect();
        };
        let piece = value["delta"][member].as_str().unwrap_or_default().to_owned();
        let redacted = self.piece(&piece);
        let is_same = redacted == piece;
        value["delta"][member] = json!(redacted);
        let event = if is_same { event.to_owned() } else { value.to_string() };
        value["delta"][member] = Value::Null;
        self.last = value;
        vec![event]
    }

    /// The part of a piece that may be passed on now, including what had waited.
    fn piece(&mut self, piece: &str) -> String {
        let all = format!("{}{}{piece}", self.passed, self.held);
        let bytes = all.as_bytes();
        let found = self.secrets.found(bytes, Extent::Whole);
        let waits = self.secrets.shapes.iter().filter_map(|shape| {
            let most = shape.len().min(bytes.len());
            (ALIKE..=most).rev().find(|len| bytes.ends_with(&shape[..*len]))
        });
        let mut end = bytes.len() - waits.max().unwrap_or(0);
        // A complete value has nothing to wait for.
        if found.last().is_some_and(|last| last.end > end) {
            end = bytes.len();
        }
        let from = self.passed.len();
        let mut redacted = String::new();
        let mut at = from;
        for place in found.iter().filter(|place| place.end > from) {
            redacted.push_str(all.get(at..place.start.max(at)).unwrap_or_default());
            redacted.push_str(super::INSTEAD);
            at = place.end;
        }
        let end = end.max(at);
        redacted.push_str(all.get(at..end).unwrap_or_default());
        all.get(end..).unwrap_or_default().clone_into(&mut self.held);
        let mut keep =
            end.saturating_sub(ALIKE - 1).max(found.last().map_or(0, |last| last.end.min(end)));
        while !all.is_char_boundary(keep) {
            keep += 1;
        }
        all[keep..end].clone_into(&mut self.passed);
        redacted
    }

    /// What still waits at the end of its block.
    fn flush(&mut self) -> Option<String> {
        if self.held.is_empty() {
            return None;
        }
        let held = std::mem::take(&mut self.held);
        let held = self.secrets.redacted(&held, Extent::Piece).into_owned();
        let mut event = std::mem::take(&mut self.last);
        let members = event["delta"].as_object_mut()?;
        let member = members.iter_mut().find(|(_, value)| value.is_null())?;
        *member.1 = json!(held);
        Some(event.to_string())
    }
}
