//! The rules by which each client version rebuilds a conversation, as data.
//!
//! They come from observation of eight versions (the columns of the table in `docs/history.md`). A
//! version in between follows the next newer column; a version newer than all follows the newest.

use crate::conversation::table::{Filling, Placed};

/// The rules of one client version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of switches")]
pub struct Rules {
    /// The version that was observed.
    pub version: [u32; 3],
    /// A line `null` ends the reading.
    pub null_ends: bool,
    /// If a line contains two objects, the first is read; otherwise none.
    pub reads_glued: bool,
    /// An unpaired surrogate is sent as U+FFFD; otherwise unchanged.
    pub replaces_surrogates: bool,
    /// If the file does not end with a newline, the client writes one first.
    pub ends_lines: bool,
    /// Notifications are marked, so that the model can tell them from user input.
    pub marks_notifications: bool,
    /// `progress` records are links of the chain.
    pub progress_links: bool,
    /// A repeated id moves to its last place; otherwise it stays at its first.
    pub repeats_move: bool,
    /// The parent of a record whose own parent is missing.
    pub bridge: Bridge,
    /// The record that the conversation continues from.
    pub leaf: Leaf,
    /// When the client refuses the session because a time is missing.
    pub timeless: Timeless,
    /// A `progress` record can be the leaf.
    pub progress_leaf: bool,
    /// A cycle of parent links is broken; otherwise the client hangs.
    pub breaks_loops: bool,
    /// What a compaction keeps verbatim.
    pub kept: Keeps,
    /// How lost siblings are recovered.
    pub siblings: Siblings,
    /// Open calls at the end get a result, and open calls of an unfinished last turn are sent.
    pub closes_calls: bool,
    /// An open call drops its whole record; otherwise only its block.
    pub open_drops_record: bool,
    /// Answers with only thinking are dropped.
    pub drops_thinking_only: bool,
    /// Blank answers are dropped, and empty ones are filled.
    pub drops_blank: bool,
    /// Which record decides whether a filler is inserted before the next prompt.
    pub fill: Fill,
    /// "Continue from where you left off." is inserted before the filler.
    pub says_continue: bool,
    /// Which attachments are sent.
    pub attachments: Attachments,
    /// Answers that represent API errors are sent.
    pub sends_errors: bool,
    /// `system/local_command` is sent as user text.
    pub sends_local_commands: bool,
    /// Images become the text `[image]`.
    pub drops_images: bool,
    /// When tool results move to the front of a message.
    pub results_first: ResultsFirst,
    /// A newline is inserted where two texts are joined.
    pub seams: bool,
    /// Records of an answer are joined even if answers with other ids are between them.
    pub joins_across: bool,
    /// Thinking of another model is dropped.
    pub drops_foreign_thinking: bool,
    /// The plan is omitted from calls of `ExitPlanMode`.
    pub drops_plans: bool,
    /// Calls of `Task` are sent as calls of `Agent`.
    pub renames_tasks: bool,
    /// Which members of calls are sent.
    pub calls: Calls,
    /// Which references to tools are sent.
    pub references: References,
    /// How calls and results are paired.
    pub pairing: Pairing,
    /// The result of a call `ID_2` is dropped if there is a call `ID`.
    pub joins_suffixed: bool,
    /// Which inputs of calls make the client exit.
    pub inputs: Inputs,
    /// Blank blocks are dropped, and consecutive messages are joined again.
    pub drops_blank_blocks: bool,
}

/// The parent of a record whose own parent is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridge {
    /// None.
    No,
    /// The newest record that is not newer than this one, and at most five seconds older.
    Any,
    /// Like `Any`, but never a record in a sidechain, and never a descendant.
    Main,
}

/// The record that the conversation continues from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// The newest record; but the first one, if the first has no time.
    NewestOrFirst,
    /// The newest of the records that have a time.
    Newest,
    /// The last end in the file, or the last one below the record that `last-prompt` names.
    LastEnd,
}

/// When the client refuses a session because a time is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeless {
    /// Never.
    Accepted,
    /// If the leaf has no time.
    Leaf,
    /// If the last user or assistant record on the chain has no time; if the chain has no such
    /// record, if no record on it has a time.
    LastSaid,
    /// If the leaf or the first record of the chain has no time.
    LeafOrRoot,
}

/// What a compaction keeps verbatim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// The records that `preservedSegment` names.
    Segment,
    /// The records that `preservedMessages` names, otherwise the segment.
    Messages,
}

/// How lost siblings are recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// They stay lost.
    Lost,
    /// Results are sorted by time, before those on the chain.
    ByTime,
    /// Results are placed by their position in the file, with their attachments.
    ByPlace,
}

/// Which record decides whether a filler is inserted before the next prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The last record.
    Last,
    /// The last user, assistant or attachment record.
    LastSaid,
    /// The last user or assistant record, except local commands.
    LastSpoken,
}

/// Which attachments are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attachments {
    /// None.
    No,
    /// Those whose types the client knows.
    Known,
    /// What was stored as sent; otherwise those whose types the client knows.
    Rendered,
}

/// When tool results move to the front of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsFirst {
    /// Never.
    Never,
    /// Always, even within one record.
    Always,
    /// When records are joined.
    OnJoining,
}

/// Which members of calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All.
    AsStored,
    /// If a call has a `caller`, only the four members that every call has.
    PlainWithCaller,
    /// Only these four members.
    Plain,
}

/// Which references to tools are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// All.
    AsStored,
    /// None.
    Dropped,
    /// None; the text that replaces them says whether the client has any of the tools.
    OfferedThenDropped,
    /// Those to tools that the client has.
    Offered,
}

/// How calls and results are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Not at all.
    No,
    /// Missing results are made up, and results without a call are dropped.
    Loose,
    /// Also, duplicate calls and results are dropped.
    Strict,
}

/// Which inputs make a client exit, in the calls of `Read`, `Write` and `Edit` that it examines
/// when it resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inputs {
    /// Nothing.
    Any,
    /// A path of `Read` or `Write` that is not a string.
    Paths,
    /// Also contents of `Write` that are not a string.
    Contents,
    /// Also a path of `Edit` that is not a string.
    Edits,
}

/// 1.0.128, the oldest version that was observed.
const V1_0_128: Rules = Rules {
    version: [1, 0, 128],
    null_ends: false,
    reads_glued: false,
    replaces_surrogates: false,
    ends_lines: false,
    marks_notifications: false,
    progress_links: false,
    repeats_move: false,
    bridge: Bridge::No,
    leaf: Leaf::NewestOrFirst,
    timeless: Timeless::Accepted,
    progress_leaf: false,
    breaks_loops: false,
    kept: Keeps::Nothing,
    siblings: Siblings::Lost,
    closes_calls: false,
    open_drops_record: false,
    drops_thinking_only: false,
    drops_blank: false,
    fill: Fill::Last,
    says_continue: false,
    attachments: Attachments::No,
    sends_errors: true,
    sends_local_commands: false,
    drops_images: false,
    results_first: ResultsFirst::Never,
    seams: false,
    joins_across: false,
    drops_foreign_thinking: false,
    drops_plans: false,
    renames_tasks: false,
    calls: Calls::AsStored,
    references: References::AsStored,
    pairing: Pairing::No,
    joins_suffixed: false,
    inputs: Inputs::Any,
    drops_blank_blocks: false,
};

const V2_0_42: Rules = Rules {
    version: [2, 0, 42],
    attachments: Attachments::Known,
    results_first: ResultsFirst::Always,
    inputs: Inputs::Paths,
    ..V1_0_128
};

const V2_0_50: Rules = Rules { version: [2, 0, 50], sends_errors: false, ..V2_0_42 };

const V2_0_76: Rules = Rules {
    version: [2, 0, 76],
    leaf: Leaf::Newest,
    timeless: Timeless::LeafOrRoot,
    drops_plans: true,
    calls: Calls::Plain,
    references: References::Dropped,
    inputs: Inputs::Contents,
    ..V2_0_50
};

const V2_1_29: Rules = Rules {
    version: [2, 1, 29],
    null_ends: true,
    progress_links: true,
    progress_leaf: true,
    drops_thinking_only: true,
    drops_plans: true,
    calls: Calls::PlainWithCaller,
    references: References::OfferedThenDropped,
    pairing: Pairing::Loose,
    inputs: Inputs::Contents,
    ..V2_0_50
};

const V2_1_45: Rules = Rules {
    version: [2, 1, 45],
    breaks_loops: true,
    open_drops_record: true,
    drops_blank: true,
    fill: Fill::LastSaid,
    says_continue: true,
    drops_images: true,
    results_first: ResultsFirst::OnJoining,
    ..V2_1_29
};

const V2_1_100: Rules = Rules {
    version: [2, 1, 100],
    bridge: Bridge::Any,
    leaf: Leaf::Newest,
    timeless: Timeless::Leaf,
    progress_leaf: false,
    kept: Keeps::Segment,
    siblings: Siblings::ByTime,
    sends_local_commands: true,
    drops_images: false,
    seams: true,
    joins_across: true,
    renames_tasks: true,
    calls: Calls::Plain,
    references: References::Dropped,
    pairing: Pairing::Strict,
    inputs: Inputs::Edits,
    ..V2_1_45
};

const V2_1_325: Rules = Rules {
    version: [2, 1, 325],
    null_ends: false,
    reads_glued: true,
    replaces_surrogates: true,
    ends_lines: true,
    marks_notifications: true,
    repeats_move: true,
    bridge: Bridge::Main,
    leaf: Leaf::LastEnd,
    timeless: Timeless::LastSaid,
    kept: Keeps::Messages,
    siblings: Siblings::ByPlace,
    closes_calls: true,
    fill: Fill::LastSpoken,
    says_continue: false,
    attachments: Attachments::Rendered,
    drops_foreign_thinking: true,
    drops_plans: false,
    calls: Calls::AsStored,
    references: References::Offered,
    joins_suffixed: true,
    inputs: Inputs::Any,
    drops_blank_blocks: true,
    ..V2_1_100
};

/// All observed versions, oldest first.
pub const OBSERVED: [Rules; 8] =
    [V1_0_128, V2_0_42, V2_0_50, V2_0_76, V2_1_29, V2_1_45, V2_1_100, V2_1_325];

/// A version as numbers; `None` if the text is not a version.
pub(crate) fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

impl Rules {
    /// The rules of a version: those of the next newer observed version, or the newest. `None` if
    /// the text is not a version.
    pub fn of(version: &str) -> Option<Rules> {
        let wanted = parse_version(version)?;
        let newer = OBSERVED.iter().find(|rules| rules.version >= wanted);
        Some(*newer.unwrap_or(&V2_1_325))
    }

    /// The rules of the newest observed version.
    pub fn newest() -> Rules {
        V2_1_325
    }

    /// Whether only the usual members of calls are sent, for all calls.
    pub(crate) fn sends_plain_calls(&self) -> bool {
        self.calls == Calls::Plain
    }

    /// Whether a record at that place on its line is read.
    pub(crate) fn reads(&self, placed: Placed) -> bool {
        match placed {
            Placed::Alone => true,
            Placed::First => self.reads_glued,
            Placed::Later => false,
        }
    }

    /// Whether the client exits when it reads a block with such content.
    pub(crate) fn ends_on(&self, filling: Filling) -> bool {
        match filling {
            Filling::OddPath => self.inputs >= Inputs::Paths,
            Filling::OddContent => self.inputs >= Inputs::Contents,
            Filling::OddEdit => self.inputs >= Inputs::Edits,
            Filling::Some | Filling::Blank | Filling::None | Filling::Unsigned => false,
        }
    }

    /// Whether a `last-prompt` record can name the leaf.
    pub(crate) fn leaf_is_named(&self) -> bool {
        self.leaf == Leaf::LastEnd
    }

    /// The version as text, for example `2.1.325`.
    pub fn name(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{major}.{minor}.{patch}")
    }
}
