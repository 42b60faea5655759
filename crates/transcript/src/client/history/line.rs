//! One record with its content, as the client reads it.

use super::attachment::{self, Sending, Sent};
use super::block::{CallId, SentBlock};
use super::rules::{Notices, Rules};
use super::{AnswerName, tools};
use crate::conversation::Look;
use crate::conversation::table::{Id, Row, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::input::Input;

const NOTIFICATION: &str = "[SYSTEM NOTIFICATION - NOT USER INPUT]";

/// One record with its content.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub(super) struct Line {
    pub(super) row: Option<RowId>,
    pub(super) kind: Kind,
    pub(super) input: Option<Input>,
    pub(super) id: AnswerName,
    pub(super) model: Option<Id>,
    pub(super) blocks: Vec<SentBlock>,
    pub(super) is_string: bool,
    /// The record represents an API error.
    pub(super) is_error: bool,
    /// The user did not interrupt: the program was ended.
    pub(super) is_shutdown: bool,
    /// It is a result that ends its turn: the model is not asked again.
    pub(super) ends_turn: bool,
    pub(super) is_local_command: bool,
    pub(super) sent: Vec<Sent>,
}

impl Line {
    /// What the table knows about a record.
    pub(super) fn known(row: RowId, table: &Table) -> Line {
        let known = table.row(row);
        let mut line = Line::made(known.kind, Vec::new(), known.is_string);
        line.row = Some(row);
        line.input = known.input;
        line.id = AnswerName::Of(known.message);
        line.ends_turn = known.ends_turn;
        if let Some(answer) = known.answer.map(|answer| table.answer(answer)) {
            line.model = answer.model;
            line.is_error = answer.is_error && table.text(answer.model) == Some("<synthetic>");
        }
        line
    }

    /// Whether the table knows enough about a record for an outline.
    pub(super) fn is_told(row: &Row) -> bool {
        // Of system events, only commands have content.
        let is_silent = row.kind == Kind::System && row.input.is_none();
        is_silent
            || (!matches!(row.kind, Kind::Attachment | Kind::System)
                && !matches!(row.input, Some(Input::Preface | Input::Interrupt)))
    }

    pub(super) fn outline(row: RowId, table: &Table, rules: Rules) -> Line {
        let mut line = Line::known(row, table);
        let parts = table.blocks_of(row).map(|id| (id, table.block(id)));
        line.blocks = parts.map(|(id, part)| SentBlock::outline(part).of(id, part)).collect();
        line.without_images(rules);
        line
    }

    /// Whether only the blocks of a record matter, and each can be read on its own.
    pub(super) fn is_plain(row: RowId, table: &Table) -> bool {
        let mut parts = table.blocks_of(row);
        match table.row(row).kind {
            Kind::Assistant => parts.all(|part| table.range(part).is_some()),
            // Task notifications and shutdowns are recognized by a member beside the message. For
            // results, that does not matter.
            Kind::User => {
                let is_told = match table.row(row).input {
                    Some(Input::Summary | Input::Notification | Input::Interrupt) | None => false,
                    Some(Input::ToolResult) => {
                        parts.clone().all(|part| table.block(part).kind == BlockKind::ToolResult)
                    }
                    Some(_) => true,
                };
                is_told && parts.all(|part| table.range(part).is_some())
            }
            _ => false,
        }
    }

    pub(super) fn of_blocks(
        row: RowId,
        table: &Table,
        look: &mut Look<'_>,
        rules: Rules,
    ) -> crate::Result<Line> {
        let mut line = Line::known(row, table);
        for id in table.blocks_of(row) {
            let block = look.block(id, SentBlock::read)?;
            line.blocks.extend(block.map(|block| block.of(id, table.block(id))));
        }
        line.without_images(rules);
        line.fit(rules);
        Ok(line)
    }

    pub(super) fn read(
        row: RowId,
        table: &Table,
        entry: &Entry<'_>,
        rules: Rules,
        sending: Sending,
    ) -> Line {
        let mut line = Line::known(row, table);
        if let Some(message) = entry.message() {
            let parts = table.blocks_of(row).map(|id| (id, table.block(id)));
            let blocks = message.blocks().map(SentBlock::read).zip(parts);
            line.blocks = blocks.map(|(block, (id, part))| block.of(id, part)).collect();
        }
        line.is_shutdown =
            line.input == Some(Input::Interrupt) && entry.flag("interruptedByShutdown");
        match line.kind {
            Kind::Attachment => line.sent = attachment::sent(entry, sending),
            Kind::System if entry.get("subtype").is_some_and(|name| name.is("local_command")) => {
                line.is_local_command = true;
                line.is_string = true;
                line.blocks = vec![SentBlock::text(&entry.text("content").unwrap_or_default())];
            }
            _ => {}
        }
        line.without_images(rules);
        let origin = entry.get("origin").and_then(|origin| origin.get("kind"));
        if origin.is_some_and(|kind| kind.is("task-notification")) {
            for block in &mut line.blocks {
                if let Some(text) = block.words() {
                    *block = block.with_text(&marked(text, rules.notices));
                }
            }
        }
        line.fit(rules);
        line
    }

    /// Changes the blocks as the client does.
    pub(super) fn fit(&mut self, rules: Rules) {
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let blocks =
            blocks.map(
                |block| if rules.replaces_surrogates { block.without_surrogates() } else { block },
            );
        self.blocks = blocks.map(|block| tools::fitted(block, rules)).collect();
    }

    pub(super) fn without_images(&mut self, rules: Rules) {
        let images = self.blocks.iter_mut().filter(|block| block.kind() == BlockKind::Image);
        for block in images.filter(|_| rules.drops_images) {
            *block = SentBlock::text("[image]");
        }
    }

    pub(super) fn made(kind: Kind, blocks: Vec<SentBlock>, is_string: bool) -> Line {
        Line {
            row: None,
            kind,
            input: None,
            id: AnswerName::Of(None),
            model: None,
            blocks,
            is_string,
            is_error: false,
            is_shutdown: false,
            ends_turn: false,
            is_local_command: false,
            sent: Vec::new(),
        }
    }

    pub(super) fn is_result(&self) -> bool {
        self.kind == Kind::User
            && self.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult)
    }

    /// Whether an answer contains anything except thinking and blanks.
    pub(super) fn speaks(&self) -> bool {
        self.blocks.iter().any(|block| !block.is_thinking() && !block.is_blank())
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = CallId> {
        self.blocks
            .iter()
            .filter(|block| block.kind() == BlockKind::ToolUse)
            .filter_map(SentBlock::call)
    }
}

/// A notification as the model is sent it.
fn marked(text: String, notices: Notices) -> String {
    match notices {
        Notices::Plain => text,
        Notices::Marked => format!("{NOTIFICATION}\n{text}"),
        Notices::Reminders => attachment::reminder(&format!("{NOTIFICATION}\n{text}")),
    }
}
