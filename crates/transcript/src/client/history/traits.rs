//! What in a session makes a difference between versions.
//!
//! Most sessions are read alike by most versions. A change of the rules matters for a session only
//! if the session contains what the change is about. Invariant: versions between which no change
//! matters have the same verdict on the session; a test compares them one by one.

use hashbrown::HashSet;

use super::normalize::without_suffix;
use crate::conversation::table::{Filling, Id, Placed, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::input::Input;

/// What a session contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a list of properties")]
pub(super) struct Traits {
    /// Records that do not follow one another, in the file and in time, or share a line.
    pub(super) is_branched: bool,
    /// Calls.
    pub(super) has_calls: bool,
    /// Calls and results that are not pairs, one after the other.
    pub(super) has_odd_calls: bool,
    /// Thinking.
    pub(super) has_thinking: bool,
    /// Texts and answers without content.
    pub(super) has_blanks: bool,
    /// Answers that represent API errors.
    pub(super) has_errors: bool,
    /// Local commands.
    pub(super) has_commands: bool,
    /// Attachments.
    pub(super) has_attachments: bool,
    /// Images.
    pub(super) has_images: bool,
    /// Calls whose inputs have other types than usual.
    pub(super) has_odd_inputs: bool,
    /// The last message is not an answer.
    pub(super) is_unanswered: bool,
}

impl Traits {
    pub(super) fn of(table: &Table) -> Traits {
        let mut found = Traits { is_branched: table.named_leaf.is_some(), ..Traits::default() };
        found.add_rows(table);
        found.add_blocks(table);
        found
    }

    fn add_rows(&mut self, table: &Table) {
        let mut before: Option<(Option<Id>, Option<crate::format::time::Time>)> = None;
        for (id, row) in table.numbered() {
            self.has_attachments |= row.kind == Kind::Attachment;
            self.has_commands |=
                matches!(row.input, Some(Input::Command | Input::Output | Input::Preface));
            let is_link = matches!(
                row.kind,
                Kind::User | Kind::Assistant | Kind::Attachment | Kind::System | Kind::Progress
            );
            if !is_link {
                continue;
            }
            if matches!(row.kind, Kind::User | Kind::Assistant) {
                self.is_unanswered = row.kind == Kind::User;
                self.has_blanks |= table.blocks_of(id).next().is_none();
            }
            self.is_branched |= row.uuid.is_none()
                || row.placed != Placed::Alone
                || row.is_repeat
                || row.says_sidechain
                || row.parent != before.and_then(|(id, _)| id)
                || before.is_some_and(|(_, time)| row.time <= time);
            before = Some((row.uuid, row.time));
        }
        self.has_errors = table.answers().iter().any(|answer| answer.is_error);
    }

    fn add_blocks(&mut self, table: &Table) {
        let (mut calls, mut results): (HashSet<Option<Id>>, HashSet<Option<Id>>) =
            Default::default();
        let mut of_row = None;
        let mut had_call = false;
        for block in table.blocks() {
            let is_new = of_row.replace(block.row) != Some(block.row);
            match block.kind {
                BlockKind::ToolUse => {
                    self.has_odd_calls |= !calls.insert(block.id);
                    let id = block.id.map(|id| table.ids.text(id));
                    self.has_odd_calls |= id.is_none_or(|id| without_suffix(id).is_some());
                    had_call = true;
                }
                BlockKind::ToolResult => {
                    self.has_odd_calls |= !results.insert(block.id) || !calls.contains(&block.id);
                }
                BlockKind::Thinking | BlockKind::RedactedThinking => self.has_thinking = true,
                BlockKind::Image => self.has_images = true,
                BlockKind::Text => {
                    self.has_blanks |= matches!(block.filling, Filling::Blank | Filling::None);
                }
                _ => {}
            }
            self.has_odd_inputs |=
                matches!(block.filling, Filling::OddPath | Filling::OddContent | Filling::OddEdit);
            // A call that is followed by something else than results.
            let is_user = table.row(block.row).kind == Kind::User;
            if is_new && is_user && block.kind != BlockKind::ToolResult && had_call {
                self.has_odd_calls |= calls.len() != results.len();
            }
        }
        self.has_calls = !calls.is_empty();
        self.has_odd_calls |= calls != results;
    }
}
