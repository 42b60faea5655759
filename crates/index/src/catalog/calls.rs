//! Which tool a result is of: only the call says that, and it may have been read long before.
//!
//! Invariant: the same records in the same order leave the same calls open, whether they were read
//! in one piece or in several.

use std::collections::VecDeque;

use super::varint::{pull_text, push_text};
use crate::texts::{Passage, TextKind};

/// The calls of a file that have no result yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenCalls(VecDeque<OpenCall>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenCall {
    id: String,
    tool: String,
}

/// How many calls wait for their results.
const MOST: usize = 64;
/// How many bytes an id or a name has.
const LONGEST: usize = 200;

impl OpenCalls {
    /// Adds to the results among a record's texts whose they are, and remembers its calls.
    pub(crate) fn follow(&mut self, passages: &mut [Passage]) {
        for passage in passages {
            let Some(id) = &passage.call else { continue };
            let at = self.0.iter().position(|open| open.id == *id);
            match (passage.kind, at) {
                (TextKind::Result, Some(at)) => {
                    passage.tool = self.0.remove(at).map(|open| open.tool);
                }
                (TextKind::Call, None) => {
                    let tool = passage.tool.as_ref().filter(|tool| tool.len() <= LONGEST);
                    if let Some(tool) = tool.filter(|_| id.len() <= LONGEST) {
                        self.0.push_back(OpenCall { id: id.clone(), tool: tool.clone() });
                    }
                    if self.0.len() > MOST {
                        self.0.pop_front();
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a call has no result yet.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|open| open.id == id)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for open in &self.0 {
            push_text(&mut bytes, &open.id);
            push_text(&mut bytes, &open.tool);
        }
        bytes
    }

    /// What was damaged is left out.
    pub(super) fn of_bytes(mut bytes: &[u8]) -> OpenCalls {
        let mut next = || {
            let [id, tool] = [pull_text(&mut bytes)?, pull_text(&mut bytes)?].map(str::to_owned);
            Some(OpenCall { id, tool })
        };
        OpenCalls(std::iter::from_fn(&mut next).collect())
    }
}
