//! How each client version rebuilds a conversation: its rules, as data.
//!
//! From observation of eight versions (the columns of the table in `docs/history.md`). A version in between goes by the next newer
//! column, one newer than all by the newest.

use crate::table::{Filling, Placed};

/// The rules of one client version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of switches")]
pub struct Rules {
    /// The version that was observed.
    pub version: [u32; 3],
    /// A line `null` ends the reading.
    pub null_ends: bool,
    /// Of two objects on one line the first is read; else none.
    pub reads_glued: bool,
    /// Half of a surrogate pair is sent as U+FFFD; else as it is.
    pub mends_surrogates: bool,
    /// A newline is written first where the file does not end in one.
    pub ends_lines: bool,
    /// Notifications are told apart from what people say.
    pub marks_notifications: bool,
    /// `progress` records are links of the chain.
    pub progress_links: bool,
    /// A repeated id moves to its last place; else it stays in its first.
    pub repeats_move: bool,
    /// What a record hangs on whose parent is missing.
    pub bridge: Bridge,
    /// Which record the conversation goes on from.
    pub leaf: Leaf,
    /// When it is refused for want of a time.
    pub timeless: Timeless,
    /// `progress` can be the leaf.
    pub progress_leaf: bool,
    /// A loop of parents is broken; else the client hangs.
    pub breaks_loops: bool,
    /// What a compaction keeps word for word.
    pub kept: Keeps,
    /// Lost siblings are brought back.
    pub siblings: Siblings,
    /// Open calls at the end get a result, and those of an unfinished last turn are sent.
    pub closes_calls: bool,
    /// An open call drops its whole record; else only its block.
    pub open_drops_record: bool,
    /// Answers of nothing but thinking are dropped.
    pub drops_thinking_only: bool,
    /// Blank answers are dropped, empty ones filled.
    pub drops_blank: bool,
    /// What decides whether a filler is written before the next prompt.
    pub fill: Fill,
    /// "Continue from where you left off." is written before the filler.
    pub says_continue: bool,
    /// Which attachments are sent.
    pub attachments: Attachments,
    /// Answers that stand for API errors are sent.
    pub sends_errors: bool,
    /// `system/local_command` is sent as text of the user.
    pub sends_local_commands: bool,
    /// Images become the text `[image]`.
    pub drops_images: bool,
    /// When results go to the front of a message.
    pub results_first: ResultsFirst,
    /// A newline where text meets text.
    pub seams: bool,
    /// Answers are joined across answers of another id.
    pub joins_across: bool,
    /// Thinking of another model is dropped.
    pub drops_foreign_thinking: bool,
    /// The plan is left out of calls of `ExitPlanMode`.
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
    /// What ends the client in calls that it looks into.
    pub inputs: Inputs,
    /// Blank blocks are dropped and neighbours joined again.
    pub drops_blank_blocks: bool,
}

/// What a record hangs on whose parent is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridge {
    /// On nothing.
    No,
    /// On the newest that is not newer than it, and at most five seconds older.
    Any,
    /// The same, but on none of a sidechain, and on none that hangs on it.
    Main,
}

/// Which record the conversation goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// The newest; the first one, if that has no time.
    NewestOrFirst,
    /// The newest of those that have a time.
    Newest,
    /// The last end in the file, or below the record that `last-prompt` names.
    LastEnd,
}

/// When a session is refused for want of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeless {
    /// Never.
    Accepted,
    /// If the leaf has none.
    Leaf,
    /// If the last record of the user or of an answer on the chain has none; without any, if no
    /// record of the chain has one.
    LastSaid,
    /// If the leaf or the first record of the chain has none.
    LeafOrRoot,
}

/// What a compaction keeps word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// What `preservedSegment` names.
    Segment,
    /// What `preservedMessages` names, else the segment.
    Messages,
}

/// How lost siblings are brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// They stay lost.
    Lost,
    /// Results by their times, before those on the chain.
    ByTime,
    /// Results by their places in the file, with their attachments.
    ByPlace,
}

/// What decides whether a filler is written before the next prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The last record.
    Last,
    /// The last user, assistant or attachment record.
    LastSaid,
    /// The last user or assistant record, less local commands.
    LastSpoken,
}

/// Which attachments are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attachments {
    /// None.
    No,
    /// Those whose types the client knows.
    Known,
    /// What was stored as sent; else those that it knows.
    Rendered,
}

/// When results go to the front of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsFirst {
    /// Never.
    Never,
    /// Always, within one record too.
    Always,
    /// When records are joined.
    OnJoining,
}

/// Which members of calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All.
    AsStored,
    /// Of a call that has a `caller`, only the four that every call has.
    PlainWithCaller,
    /// Only these four.
    Plain,
}

/// Which references to tools are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// All.
    AsStored,
    /// None.
    Dropped,
    /// None; those to tools that the client does not have are told apart.
    OfferedThenDropped,
    /// Those to tools that the client has.
    Offered,
}

/// How calls and results are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Not at all.
    No,
    /// Missing results are made up, results without a call dropped.
    Loose,
    /// Also, what is there twice is dropped.
    Strict,
}

/// What ends a client in the calls of `Read`, `Write` and `Edit` that it looks into on resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inputs {
    /// Nothing.
    Any,
    /// A path of `Read` or `Write` that is not a text.
    Paths,
    /// Also contents of `Write` that are not a text.
    Contents,
    /// Also a path of `Edit`.
    Edits,
}

/// 1.0.128, the oldest that was observed.
const V1_0_128: Rules = Rules {
    version: [1, 0, 128],
    null_ends: false,
    reads_glued: false,
    mends_surrogates: false,
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
    mends_surrogates: true,
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

/// All versions that were observed, the oldest first.
pub const OBSERVED: [Rules; 8] =
    [V1_0_128, V2_0_42, V2_0_50, V2_0_76, V2_1_29, V2_1_45, V2_1_100, V2_1_325];

/// A version as numbers; nothing if it is none.
pub(crate) fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

impl Rules {
    /// The rules of a version: the next newer one that was observed, or the newest. Nothing if it is no version.
    pub fn of(version: &str) -> Option<Rules> {
        let wanted = parse_version(version)?;
        let newer = OBSERVED.iter().find(|rules| rules.version >= wanted);
        Some(*newer.unwrap_or(&V2_1_325))
    }

    /// The rules of the newest version that was observed.
    pub fn newest() -> Rules {
        V2_1_325
    }

    /// Whether only the usual members of all calls are sent.
    pub(crate) fn sends_plain_calls(&self) -> bool {
        self.calls == Calls::Plain
    }

    /// Whether a record is read that stands there on its line.
    pub(crate) fn reads(&self, placed: Placed) -> bool {
        match placed {
            Placed::Alone => true,
            Placed::First => self.reads_glued,
            Placed::Later => false,
        }
    }

    /// Whether the client ends when it comes to a block that holds that.
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

    /// The version, as it is written.
    pub fn name(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{major}.{minor}.{patch}")
    }
}
