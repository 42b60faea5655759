//! Which calls a strip is limited to: those of some tools, those about some files.

use hashbrown::HashSet;

use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, Table};
use crate::conversation::tool;
use crate::format::content::BlockKind;

/// The calls that were asked for.
#[derive(Debug)]
pub(super) struct Selected<'a> {
    tools: &'a [String],
    /// The calls about the files that were asked for; `None` for all calls.
    calls: Option<HashSet<BlockId>>,
}

impl<'a> Selected<'a> {
    /// Reads the calls only if files are named.
    pub(super) fn new(
        conversation: &Conversation,
        tools: &'a [String],
        files: &[String],
    ) -> crate::Result<Self> {
        if files.is_empty() {
            return Ok(Selected { tools, calls: None });
        }
        let mut calls = HashSet::new();
        for (id, part) in (0..).map(BlockId).zip(conversation.table.blocks()) {
            let is_about = part.kind == BlockKind::ToolUse
                && conversation.look_at(id, |block| {
                    let path = block.as_ref().and_then(tool::file);
                    path.is_some_and(|path| files.iter().any(|file| *file == path))
                })?;
            if is_about {
                calls.insert(id);
            }
        }
        Ok(Selected { tools, calls: Some(calls) })
    }

    /// Whether every call was asked for.
    pub(super) fn is_everything(&self) -> bool {
        self.tools.is_empty() && self.calls.is_none()
    }

    /// Whether a call was asked for.
    pub(super) fn has(&self, table: &Table, call: BlockId) -> bool {
        let name = table.text(table.block(call).name);
        let is_of = |tool: &String| name == Some(tool);
        (self.tools.is_empty() || self.tools.iter().any(is_of))
            && self.calls.as_ref().is_none_or(|calls| calls.contains(&call))
    }
}
