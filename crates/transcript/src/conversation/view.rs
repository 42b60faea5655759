//! What is shown of a session, decided once for every output format.
//!
//! [`items`] returns the steps of a turn as [`Item`]s: values in which everything is decided, and
//! which serialize to the JSON that `docs/output.md` describes. The terminal, Markdown and JSON
//! output only lay them out. Invariants: the texts of only one record are in memory at a time;
//! which items are hidden is decided here ([`Item::is_shown`]) and nowhere else.
//!
//! ```
//! use transcript::conversation::agents::{Owner, WithAgents};
//! use transcript::conversation::place::Session;
//! use transcript::conversation::view::{self, Item};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
//! let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
//! std::fs::write(&path, line)?;
//!
//! let session = WithAgents::open(&Session::at(&path)?)?;
//! for turn in session.main.turns().live {
//!     for item in view::items(&session, Owner::Main, &turn) {
//!         if let Item::Message(message) = item? {
//!             assert_eq!(message.text, "hello");
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod call;
mod detail;
mod number;
mod piece;
mod session;
mod step;

pub use call::{Call, CallResult};
pub use number::{dollars, grouped, local, short_number, size};
pub use piece::{Piece, Raw, visible};
pub use session::{
    AgentView, Run, SessionView, StartView, TurnPlace, TurnView, UsageView, runs, turn_end,
};
pub use step::{Answer, BlockView, EventView, Item, MessageView, Orphan, Role, headline, items};

use crate::conversation::Conversation;
pub use crate::conversation::diff::{FileChange, Hunk};
use crate::conversation::table::Id;
use crate::format::time::Time;

/// How much of a conversation is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// Whether the inputs and results of calls, reminders, notes of the client, and what sub-agents
    /// did are shown.
    pub detail: Detail,
    /// Whether the model's thinking is shown.
    pub thinking: Thinking,
}

/// Whether what is not the conversation itself is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// In one line, or not at all: the default.
    #[default]
    Folded,
    /// Completely.
    Full,
}

/// Whether the model's thinking is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// It is not shown: the default.
    #[default]
    Hidden,
    /// It is shown.
    Shown,
}

/// Formats a time as in JSON output.
pub fn stamp(time: Time) -> Option<String> {
    jiff::Timestamp::from_millisecond(time.0).ok().map(|moment| format!("{moment:.3}"))
}

fn text(conversation: &Conversation, id: Option<Id>) -> Option<String> {
    conversation.table.text(id).map(str::to_owned)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
fn is_false(value: &bool) -> bool {
    !value
}
