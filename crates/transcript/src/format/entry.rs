//! One record and its envelope, all dialects in one model.
//!
//! An [`Entry`] is an [`Object`]: the bytes of a record with the places of its members. Everything
//! else is read from there on demand, by name, so that fields this version does not know are as
//! accessible as those it knows. Invariants: reading never fails; an unknown type is
//! [`Kind::Other`], not an error; the differences between dialects (names of types, where content
//! and time are) end here and in `content`: no other module asks which dialect a record is written
//! in.

use std::borrow::Cow;
use std::ops::Deref;

use crate::format::content::Message;
use crate::format::input::{self, Input};
use crate::format::json::{Json, Object};
use crate::format::scan::{Fault, Scanner};
use crate::format::time::Time;

/// One record: a JSON object on a line of its own, or found in a damaged line.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    object: Object<'a>,
    message: Option<Message<'a>>,
    kind: Kind,
}

impl<'a> Deref for Entry<'a> {
    type Target = Object<'a>;

    fn deref(&self) -> &Object<'a> {
        &self.object
    }
}

impl<'a> Entry<'a> {
    /// Reads a record from bytes that are exactly one JSON object.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match Entry::scan(Scanner::new(bytes), 0) {
            Ok((entry, end)) if end == bytes.len() => Some(entry),
            _ => None,
        }
    }

    /// Reads the object that begins at `at`. Returns the record, and where it ends.
    pub(crate) fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        let mut message = None;
        let (object, end) = Object::scan_with(scanner, at, |key, start| {
            if key != b"message" {
                return scanner.value(start);
            }
            message = None;
            if scanner.byte(start) != Some(b'{') {
                return scanner.value(start);
            }
            let (nested, end) = Message::scan(scanner, start)?;
            message = Some(nested);
            Ok(end)
        })?;
        let mut entry = Entry { object, message, kind: Kind::Other };
        entry.kind = entry.find_kind();
        if entry.message.is_none() && entry.is_plain() {
            entry.message = Some(Message::bare(entry.object.clone()));
        }
        Ok((entry, end))
    }

    fn find_kind(&self) -> Kind {
        match self.text("type") {
            Some(name) => Kind::named(&name),
            // The flat dialect: an answer has no type of its own, only the role of its message.
            None => match self.message.as_ref().and_then(|message| message.text("role")).as_deref()
            {
                Some("assistant") => Kind::Assistant,
                Some("user") => Kind::User,
                _ => Kind::Other,
            },
        }
    }

    /// The kind of the record, whatever its dialect calls it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type as the record gives it; without a type, the role of its message.
    pub fn type_name(&self) -> Option<Cow<'a, str>> {
        let name = self.get("type").and_then(Json::text);
        name.or_else(|| self.message.as_ref()?.text("role"))
    }

    /// The subtype of a `system` record, or the type of an attachment or of progress data.
    pub fn subtype(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            Kind::Attachment => self.get("attachment")?.get("type")?.text(),
            Kind::Progress => self.get("data")?.get("type")?.text(),
            _ => self.get("subtype")?.text(),
        }
    }

    /// The record's own id.
    pub fn uuid(&self) -> Option<Cow<'a, str>> {
        self.text("uuid")
    }

    /// The id of the record's parent; `None` for a root.
    pub fn parent(&self) -> Option<Cow<'a, str>> {
        self.text("parentUuid")
    }

    /// The session that the record says it belongs to. The file name is more reliable.
    pub fn session(&self) -> Option<Cow<'a, str>> {
        self.text("sessionId").or_else(|| self.text("session_id"))
    }

    /// The session that the record says it was copied from.
    pub fn forked_from(&self) -> Option<Cow<'a, str>> {
        self.get("forkedFrom")?.get("sessionId")?.text()
    }

    /// The version of the client that wrote the record.
    pub fn version(&self) -> Option<Cow<'a, str>> {
        self.text("version")
    }

    /// When the record was made: a text or milliseconds, in the record, its message or its
    /// snapshot.
    pub fn time(&self) -> Option<Time> {
        let message = || Time::read(self.message.as_ref()?.get("timestamp")?);
        let snapshot = || Time::read(self.get("snapshot")?.get("timestamp")?);
        self.get("timestamp").and_then(Time::read).or_else(message).or_else(snapshot)
    }

    /// The message of a conversation record. Its place depends on the dialect: in the flat one, the
    /// content of a user's message is in the record itself.
    pub fn message(&self) -> Option<&Message<'a>> {
        self.message.as_ref()
    }

    /// Who speaks and how (prompt, command, tool result, …); `None` for records that say nothing.
    pub fn input(&self) -> Option<Input> {
        input::input(self)
    }

    /// Whether a person speaks here: a prompt or a command, in the main conversation.
    ///
    /// Not counted: records without content, tool results, what the client adds by itself
    /// (`isMeta`, compaction summaries, command output, interruption marks, notifications), what
    /// hooks add, and the prompts of sub-agents.
    pub fn is_human_turn(&self) -> bool {
        self.kind == Kind::User
            && !self.flag("isSidechain")
            && self.message.as_ref().is_some_and(|message| message.blocks().next().is_some())
            && self.input().is_some_and(Input::is_typed)
    }

    /// Whether an object found in damage is an entry, and not a part of one.
    pub(crate) fn looks_genuine(&self) -> bool {
        let has = |name: &str| self.get(name).is_some();
        let identified = has("uuid") || has("sessionId");
        match self.kind {
            Kind::Other => identified,
            // A `tool_result` is also a content block; a `user` line of the flat dialect has only
            // content.
            Kind::User => identified || has("message") || has("timestamp") || self.is_plain(),
            _ => {
                identified
                    || ["timestamp", "message", "messageId", "leafUuid"].iter().any(|n| has(n))
            }
        }
    }

    /// Whether this is a record of a transcript, and not a line of another file of the client.
    pub(crate) fn is_of_transcript(&self) -> bool {
        // Events of the `stream-json` output have only the `session_id` spelling of the session's
        // id.
        let event = self.get("session_id").is_some() && self.get("sessionId").is_none();
        // An unknown type is still a type; the prompt history has none.
        let typed = self.kind != Kind::Other || self.get("type").is_some();
        typed && self.looks_genuine() && !event
    }

    /// Whether the content is in the record itself, as in the flat dialect.
    fn is_plain(&self) -> bool {
        let name = self.text("type");
        matches!(name.as_deref(), Some("user" | "assistant")) && self.get("content").is_some()
    }
}

/// Declares the kinds of records with their names in files.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $($name:literal)|+,)+) => {
        /// The kind of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
            /// An unknown type, or none. Not an error: new client versions add types.
            Other,
        }

        impl Kind {
            /// The kind that a record's `type` names.
            pub fn named(name: &str) -> Kind {
                match name {
                    $($($name)|+ => Kind::$kind,)+
                    _ => Kind::Other,
                }
            }

            /// The `type` that clients write today.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => [$($name),+][0],)+
                    Kind::Other => "other",
                }
            }
        }
    };
}

kinds! {
    /// What was said to the model: prompts, tool results, what the client adds.
    User = "user" | "human" | "tool_result",
    /// One or more blocks of the model's answer.
    Assistant = "assistant",
    /// An event of the client: compaction, errors, hook summaries, durations.
    System = "system",
    /// Something that the model gets in addition to the prompt.
    Attachment = "attachment",
    /// The progress of a running tool, hook or sub-agent.
    Progress = "progress",
    /// A title, usually of another session.
    Summary = "summary",
    /// A prompt that was queued, dequeued or removed while the model worked.
    QueueOperation = "queue-operation",
    /// Which files were backed up at a prompt.
    FileHistorySnapshot = "file-history-snapshot",
    /// One more file of a snapshot.
    FileHistoryDelta = "file-history-delta",
    /// The last prompt, and the leaf of its conversation.
    LastPrompt = "last-prompt",
    /// A title given by the user.
    CustomTitle = "custom-title",
    /// A title made by the model.
    AiTitle = "ai-title",
    /// The name of the session as an agent.
    AgentName = "agent-name",
    /// The agent definition that the session runs as.
    AgentSetting = "agent-setting",
    /// The colour of the session as an agent.
    AgentColor = "agent-color",
    /// A label given by the user.
    Tag = "tag",
    /// The mode of the session.
    Mode = "mode",
    /// The permission mode.
    PermissionMode = "permission-mode",
    /// The session's counterpart on another device.
    BridgeSession = "bridge-session",
    /// A pull request made in the session.
    PrLink = "pr-link",
    /// A page published from the session.
    FrameLink = "frame-link",
    /// A switch whose state the client remembers.
    AtisLatch = "atis-latch",
    /// Where the context of a forked agent comes from.
    ForkContextRef = "fork-context-ref",
    /// The tools used so far.
    ToolsUsed = "tools-used",
    /// Cost and durations so far.
    CostState = "cost-state",
    /// A request to the model, as hashes.
    ApiRequest = "api-request",
    /// System prompt and tools of requests.
    ApiRequestShape = "api-request-shape",
    /// A message of a request that is on no other line.
    ApiRequestBlob = "api-request-blob",
    /// Tool results replaced by shorter ones. Known from other sources only, not seen in a genuine
    /// file.
    ContentReplacement = "content-replacement",
    /// The worktree of the session. Known from other sources only.
    WorktreeState = "worktree-state",
    /// Who wrote which lines. Known from other sources only.
    AttributionSnapshot = "attribution-snapshot",
    /// What a compaction kept word for word (dialect `human`).
    CompactPrelude = "compact_prelude",
    /// The summary of a compaction (dialect `human`).
    CompactRecap = "compact_recap",
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
