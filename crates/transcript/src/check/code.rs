//! The codes of findings, and what to do about each.
//!
//! Codes are stable: scripts and people rely on them. `docs/checks.md` has a section for each, and a test a session.

use std::fmt;

/// How much it matters. The worst one is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// A sign of damage, or harmful later; the resume is not touched by it.
    Warning,
    /// Something that was said is not sent.
    Loss,
    /// The API would refuse the request.
    Rejected,
    /// The client does not resume the session, or hangs.
    Refused,
}

impl Severity {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Loss => "loss",
            Severity::Rejected => "rejected",
            Severity::Refused => "refused",
        }
    }
}

macro_rules! codes {
    ($($name:ident $text:literal $todo:literal;)*) => {
        /// What is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "`docs/checks.md` describes each by its name")]
        pub enum Code { $($name,)* }

        impl Code {
            /// All there are.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is written.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What to do about it.
            pub fn advice(self) -> &'static str {
                match self { $(Code::$name => $todo,)* }
            }
        }
    };
}

codes! {
    // The file.
    DamagedLine "damaged-line" "look at it with `quipu cat SESSION --kind damaged`; `quipu repair` removes it";
    NulBytes "nul-bytes" "`quipu repair` removes them; what stood there is gone";
    GluedRecords "glued-records" "`quipu repair` puts each record on a line of its own";
    NotUtf8 "not-utf8" "nothing: the client reads such bytes as U+FFFD";
    NotAnObject "not-an-object" "nothing: clients pass over it";
    NullLine "null-line" "remove the line";
    TornTail "torn-tail" "end the file with a newline before a client writes to it";
    NoFinalNewline "no-final-newline" "end the file with a newline before a client writes to it";
    // Records.
    MissingField "missing-field" "nothing, unless a tool needs it: clients do without";
    BadTime "bad-time" "give the record a time between those of its neighbours";
    ContentShape "content-shape" "make the content a text or a list of blocks";
    EmptyContent "empty-content" "remove the record, and hang what follows on its parent";
    UnknownBlock "unknown-block" "remove the block, or resume with what wrote it";
    UnknownField "unknown-field" "remove the field from the block";
    LoneSurrogate "lone-surrogate" "replace the half of the character by U+FFFD, or resume with a newer client";
    // How records hang together.
    RepeatedUuid "repeated-uuid" "give the later record an id of its own";
    ForeignRecord "foreign-record" "give the records the types `user` and `assistant`";
    NoUuid "no-uuid" "give each record an id, and its parent's";
    MissingParent "missing-parent" "`quipu repair` hangs it on what was said before it; or look for the lost one in a backup or a fork";
    ParentLoop "parent-loop" "hang the first record of the loop on nothing";
    SecondRoot "second-root" "hang the second beginning on the end of the first, if they belong together";
    WrongLeaf "wrong-leaf" "`quipu tree` shows both ends; `quipu repair` goes on from the later one";
    TimeTie "time-tie" "resume with a newer client, or give the later record a later time";
    DeadBranch "dead-branch" "choose one: `quipu tree` shows both branches, which two clients wrote at the same time; `quipu fork --branch` takes one";
    Rewound "rewound" "nothing: it was left on purpose; `quipu tree` shows it";
    SidechainMarker "sidechain-marker" "mark the records of a sub-agent, and only these, with `isSidechain`";
    NoConversation "no-conversation" "begin a new session";
    NoEnd "no-end" "hang one record at least on the conversation, outside of sidechains";
    // Calls and results.
    OpenCall "open-call" "give the call a result, or leave it out; a newer client does so at the end of a session";
    OrphanResult "orphan-result" "remove the result, or bring its call back";
    LostResult "lost-result" "`quipu repair` hangs the records one behind the other; parallel results alone also come back in a client newer than 2.1.45";
    RepeatedCall "repeated-call" "give the second call, and its result, an id of its own";
    RepeatedResult "repeated-result" "remove the second result";
    Unpaired "unpaired" "put the results right behind their calls, or resume with a newer client";
    OpenServerCall "open-server-call" "remove the call; its result can only come with it";
    OrphanServerResult "orphan-server-result" "remove the result; its call must stand before it in the same answer";
    CallInput "call-input" "make the path and the contents texts, or resume with a newer client";
    CallForm "call-form" "rename it, in the call and in its result";
    // Thinking.
    ThinkingUnsigned "thinking-unsigned" "remove the thinking; nothing else needs it";
    ThinkingEmpty "thinking-empty" "remove the thinking, or resume with the model that made it";
    ThinkingAltered "thinking-altered" "remove the thinking; what was signed must not change";
    ThinkingForeign "thinking-foreign" "nothing if the client leaves it out; else remove the thinking";
    ThinkingMisplaced "thinking-misplaced" "remove the thinking, or what was cut off behind it is missing";
    // Images, and the request as a whole.
    ImageEncoding "image-encoding" "replace the image by one that is what it says it is";
    ImageSize "image-size" "replace the image by a smaller one, or by a text";
    ImageDimensions "image-dimensions" "replace the image by a smaller one, or by a text";
    ImageCount "image-count" "replace the oldest images by texts";
    ImageDropped "image-dropped" "resume with another client";
    RequestSize "request-size" "`quipu strip` takes results and images out; or compact the session";
    // Compactions and the queue.
    CompactionWithoutSummary "compaction-without-summary" "remove the boundary, so that what stands before it is sent again";
    CompactionKeptMissing "compaction-kept-missing" "look for the records in a backup or a fork";
    QueuedPrompt "queued-prompt" "say it again: the model saw it then, and will not see it now";
    // Sub-agents and everything else.
    AgentWithoutCall "agent-without-call" "nothing: nobody reads it again";
    CallWithoutAgent "call-without-agent" "nothing: the answer is in the call's result; how it came about is gone";
    AgentUnreadable "agent-unreadable" "make the file readable";
    Clock "clock" "nothing, unless an older client is to resume it: those go by the time";
    ProjectName "project-name" "work in a folder with a shorter path";
    Secret "secret" "revoke it, if others can read the file";
    OtherVersions "other-versions" "`quipu check --as VERSION` says more";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
