//! The codes of findings, and the advice for each.
//!
//! Codes are stable, because scripts and people rely on them. Each has a section in
//! `docs/checks.md` and an example session in a test.

use std::fmt;

use crate::names::named;

named! {
    /// How serious a finding is. The worst one decides the verdict.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// For information.
        Note = "note",
        /// A sign of damage, or harmful later; does not affect resuming.
        Warning = "warning",
        /// Something that was said is not sent.
        Loss = "loss",
        /// The API would refuse the request.
        Rejected = "rejected",
        /// The client does not resume the session, or hangs.
        Refused = "refused",
    }
}

macro_rules! codes {
    ($($name:ident $text:literal $todo:literal;)*) => {
        /// The code of a finding: what is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "`docs/checks.md` describes each by its name")]
        pub enum Code { $($name,)* }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is printed.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What the user can do about it.
            pub fn advice(self) -> &'static str {
                match self { $(Code::$name => $todo,)* }
            }
        }
    };
}

codes! {
    // The file.
    DamagedLine "damaged-line"
        "inspect it with `quipu cat SESSION --kind damaged`; `quipu repair` removes it";
    NulBytes "nul-bytes" "`quipu repair` removes them; the data that was there is lost";
    GluedRecords "glued-records" "`quipu repair` puts each record on its own line";
    NotUtf8 "not-utf8" "nothing: the client reads these bytes as U+FFFD";
    NotAnObject "not-an-object" "nothing: clients skip the line";
    NullLine "null-line" "`quipu repair` removes the line";
    TornTail "torn-tail"
        "`quipu repair` removes the fragment; do that, or end the file with a newline, before a \
         client appends to it";
    NoFinalNewline "no-final-newline"
        "`quipu repair` adds the newline; do that before a client appends to the file";
    // Records.
    MissingField "missing-field" "nothing, unless a tool needs the field: clients do without it";
    BadTime "bad-time" "`quipu repair` copies the time of a neighbouring record";
    ContentShape "content-shape"
        "make the content a string or a list of blocks; `quipu repair` removes blocks that the \
         API would refuse";
    EmptyContent "empty-content"
        "nothing if it is a note; otherwise `quipu repair` removes the blank text, or fills the \
         message with `(no content)`";
    UnknownBlock "unknown-block"
        "`quipu repair` removes the block; or resume with the program that wrote it";
    UnknownField "unknown-field" "`quipu repair` removes the field";
    LoneSurrogate "lone-surrogate"
        "`quipu repair` replaces it with U+FFFD; or resume with a newer client";
    // How records are linked.
    RepeatedUuid "repeated-uuid"
        "nothing if it is a note; otherwise `quipu repair` gives the later record an id of its own";
    ForeignRecord "foreign-record" "`quipu repair` changes the types to `user` and `assistant`";
    NoUuid "no-uuid" "`quipu repair` gives each record an id and a parent";
    MissingParent "missing-parent"
        "`quipu repair` links it to the message before it in the file; or look for the missing \
         record in a backup or a fork";
    ParentLoop "parent-loop" "`quipu repair` breaks the cycle";
    SecondRoot "second-root"
        "if both parts belong together, `quipu repair` makes the second continue from the end of \
         the first";
    WrongLeaf "wrong-leaf"
        "`quipu tree` shows both ends; `quipu repair` makes the client continue from the later one";
    TimeTie "time-tie"
        "`quipu repair` gives the last record a later time; or resume with a newer client";
    DeadBranch "dead-branch"
        "two clients wrote at the same time: compare the branches with `quipu tree`, and keep one \
         with `quipu fork --branch`";
    Rewound "rewound" "nothing: these branches were abandoned on purpose; `quipu tree` shows them";
    SidechainMarker "sidechain-marker"
        "set `isSidechain` on the records of sub-agents, and only on those";
    NoConversation "no-conversation" "start a new session";
    NoEnd "no-end" "`quipu repair` adds a `last-prompt` record that names the end";
    // Calls and results.
    OpenCall "open-call"
        "`quipu repair` adds a result that says that the outcome is unknown; at the end of a \
         session, newer clients do that themselves";
    OrphanResult "orphan-result"
        "`quipu repair` restores the call if it is in the file, and otherwise removes the result";
    LostResult "lost-result"
        "`quipu repair` links the records into a single chain; if only parallel results are \
         affected, clients newer than 2.1.45 recover them too";
    RepeatedCall "repeated-call"
        "`quipu repair` gives the second call and its result an id of their own";
    RepeatedResult "repeated-result" "`quipu repair` removes the second result";
    Unpaired "unpaired"
        "`quipu repair` moves the results directly after their calls; or resume with a newer \
         client";
    OpenServerCall "open-server-call"
        "`quipu repair` removes the call; its result can only be in the same answer";
    OrphanServerResult "orphan-server-result"
        "`quipu repair` removes the result; its call must be before it in the same answer";
    CallInput "call-input" "make the path and the contents strings, or resume with a newer client";
    CallForm "call-form"
        "`quipu repair` changes the id, name or input, in the call and in its result";
    // Thinking.
    ThinkingUnsigned "thinking-unsigned"
        "`quipu repair` removes the thinking; nothing else depends on it";
    ThinkingEmpty "thinking-empty"
        "nothing if it is a note; otherwise `quipu repair` removes the thinking, or resume with \
         the model that produced it";
    ThinkingAltered "thinking-altered"
        "`quipu repair` removes the thinking; signed text must not change";
    ThinkingForeign "thinking-foreign"
        "nothing if it is a note; otherwise `quipu repair` removes the thinking";
    ThinkingMisplaced "thinking-misplaced"
        "`quipu repair` removes the thinking; the text that followed it was cut off";
    // Images, and the request as a whole.
    ImageEncoding "image-encoding"
        "`quipu repair` corrects the declared type, converts the image, or replaces it with a text";
    ImageSize "image-size" "`quipu repair` makes the image smaller, or replaces it with a text";
    ImageDimensions "image-dimensions"
        "`quipu repair` makes the image smaller, or replaces it with a text";
    ImageCount "image-count" "`quipu repair` replaces the oldest images with texts";
    ImageDropped "image-dropped" "resume with another client version";
    RequestSize "request-size" "`quipu strip` removes results and images; or compact the session";
    // Compactions and the queue.
    CompactionWithoutSummary "compaction-without-summary"
        "`quipu repair` removes the boundary, so that the messages before it are sent again";
    CompactionKeptMissing "compaction-kept-missing"
        "look for the records in a backup or a fork; `quipu repair` removes the references to them";
    QueuedPrompt "queued-prompt"
        "type it again, or let `quipu repair` add it: the model saw it then, but will not see it \
         now";
    // Sub-agents and everything else.
    AgentWithoutCall "agent-without-call" "nothing: no client reads the file again";
    CallWithoutAgent "call-without-agent"
        "nothing: the answer is in the call's result; only the sub-agent's own steps are gone";
    AgentUnreadable "agent-unreadable" "make the file readable";
    Clock "clock"
        "nothing, unless an older client resumes the session: older clients go by the time";
    ProjectName "project-name" "work in a folder with a shorter path";
    Secret "secret" "revoke it if others can read the file";
    ContextLimit "context-limit" "`/compact` it, or `quipu strip` it, before it goes on";
    OtherVersions "other-versions" "`quipu check --as VERSION` reports the details";
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
