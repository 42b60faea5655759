//! The rules by which a client version rebuilds a conversation.
//!
//! Every rule is a member of [`Rules`]. Which version follows which rule is data: the rules of the
//! oldest version here, and every change since then in [`CHANGES`], each with the case that shows
//! it.

use super::changes::CHANGES;
use super::published;
use crate::conversation::table::{Filling, Placed};

/// The rules of one client version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of switches")]
pub struct Rules {
    /// The version that follows them.
    pub version: [u32; 3],
    /// What a line `null` does.
    pub null_line: NullLine,
    /// A line that begins with a byte order mark is read.
    pub reads_marked: bool,
    /// If a line contains two objects, the first is read; otherwise none.
    pub reads_glued: bool,
    /// An unpaired surrogate is sent as U+FFFD; otherwise unchanged.
    pub replaces_surrogates: bool,
    /// If the file does not end with a newline, the client writes one first.
    pub ends_lines: bool,
    /// How notifications are marked, so that the model can tell them from user input.
    pub notices: Notices,
    /// `progress` records are links of the chain.
    pub progress_links: bool,
    /// A repeated id moves to its last place; otherwise it stays at its first.
    pub repeats_move: bool,
    /// The parent of a record whose own parent is missing.
    pub bridge: Bridge,
    /// The record that the conversation continues from.
    pub leaf: Leaf,
    /// A session without any message is resumed.
    pub resumes_events: bool,
    /// When the client refuses the session because a time is missing.
    pub timeless: Timeless,
    /// A record of a sidechain can be the leaf.
    pub sidechain_leaf: bool,
    /// A `progress` record can be the leaf.
    pub progress_leaf: bool,
    /// A cycle of parent links is broken; otherwise the client hangs.
    pub breaks_loops: bool,
    /// On the way up, the end of a cycle is a gap.
    pub bridges_loops: bool,
    /// Cycles are cut before a leaf is looked for, so that they have an end.
    pub cuts_loops: bool,
    /// A `last-prompt` record can name the leaf.
    pub leaf_is_named: bool,
    /// A record with a sidechain below it is no end.
    pub counts_sidechains: bool,
    /// What a compaction keeps verbatim.
    pub kept: Keeps,
    /// How lost siblings are recovered.
    pub siblings: Siblings,
    /// Which open calls at the end get a result.
    pub closing: Closing,
    /// An open call drops its whole record; otherwise only its block.
    pub open_drops_record: bool,
    /// Answers with only thinking are dropped.
    pub drops_thinking_only: bool,
    /// Blank answers are dropped, and empty ones are filled.
    pub drops_blank: bool,
    /// Answers without content get a text that says so.
    pub fills_empty: bool,
    /// Where blank answers were dropped, the user's last records count as one message.
    pub joins_after_blanks: bool,
    /// What was interrupted because the program was ended counts as unfinished.
    pub continues_after_shutdown: bool,
    /// Which record decides whether a filler is inserted before the next prompt.
    pub fill: Fill,
    /// An answer that represents an API error does not count for that after a result or an
    /// attachment.
    pub looks_past_errors: bool,
    /// "Continue from where you left off." is inserted before the filler.
    pub says_continue: bool,
    /// A result that says that it ends its turn does.
    pub ends_turns: bool,
    /// Which attachments are sent.
    pub attachments: Attachments,
    /// Models that accept messages of the role `system` get attachments in such messages.
    pub sends_system: bool,
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
    /// A reminder is inserted before the new prompt, whatever the model; for models that do not
    /// accept messages of the role `system`, it always is.
    pub reminds_always: bool,
    /// Records of an answer are joined even if results are between them.
    pub joins_over_results: bool,
    /// Records of an answer are joined even if answers with other ids are between them.
    pub joins_across: bool,
    /// Thinking of another model is dropped.
    pub drops_foreign_thinking: bool,
    /// Whether the plan is sent in calls of `ExitPlanMode`.
    pub plans: Plans,
    /// Of calls of `Edit` with a list of edits, the members for a single edit are omitted.
    pub drops_single_edits: bool,
    /// Of calls of `SendMessage` with a recipient and a message, the members that had these names
    /// before are omitted.
    pub drops_old_messages: bool,
    /// Whether calls go behind the other blocks of an answer.
    pub calls_last: CallsLast,
    /// Which members of calls are sent.
    pub calls: Calls,
    /// Calls keep the names of tools that they were recorded with, as whoever sent them before
    /// wrote them.
    pub keeps_names: bool,
    /// Which references to tools are sent.
    pub references: References,
    /// How calls and results are paired.
    pub pairing: Pairing,
    /// The result of a call `ID_2` is dropped if there is a call `ID`.
    pub joins_suffixed: bool,
    /// Which inputs of calls make the client exit.
    pub inputs: Inputs,
    /// Which blank blocks are dropped.
    pub blanks: Blanks,
}

/// The parent of a record whose own parent is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridge {
    /// None.
    No,
    /// The newest record that is not newer than this one, and at most five seconds older.
    Any,
    /// Like `Any`, but never a record in a sidechain.
    Main,
}

/// The record that the conversation continues from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// The newest record; but the first one, if the first has no time.
    NewestOrFirst,
    /// The newest of the records that have a time.
    Newest,
    /// The last message or end in the file, or the last one below the record that `last-prompt`
    /// names.
    LastMessage,
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
    /// The same, and results are found by their calls, wherever they hang.
    ByCall,
}

/// Which record decides whether a filler is inserted before the next prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The last record.
    Last,
    /// The last user, assistant or attachment record.
    LastSaid,
    /// The last user or assistant record.
    LastMessage,
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

/// Whether the plan is sent in calls of `ExitPlanMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plans {
    /// It is.
    Sent,
    /// It is omitted.
    Omitted,
    /// It is omitted, and so is the path of its file.
    OmittedWithPath,
}

/// Whether calls go behind the other blocks of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallsLast {
    /// They stay where they are.
    No,
    /// They do.
    Yes,
    /// They do, but thinking that would come to stand right behind other thinking stays behind
    /// them.
    ExceptThinking,
}

/// How notifications are marked, so that the model can tell them from user input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notices {
    /// Not at all.
    Plain,
    /// By a line before them.
    Marked,
    /// By a line before them, in a reminder.
    Reminders,
}

/// Which blank blocks are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blanks {
    /// None.
    Sent,
    /// Those of the user.
    OfUser,
    /// Those of the user, and empty ones of answers; consecutive messages are joined again.
    All,
}

/// Which open calls at the end get a result. Other open calls of an unfinished last turn are sent,
/// too, and get a result that says that theirs is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// None: they are dropped.
    No,
    /// Those of the last answer, if the session ends inside a turn that has results.
    InTurn,
    /// Those of the last answer.
    Always,
}

/// What a line `null` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullLine {
    /// Nothing.
    Skipped,
    /// It ends the reading.
    Ends,
    /// The client refuses the session.
    Refused,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pairing {
    /// Not at all.
    No,
    /// Missing results are made up, and results without a call are dropped.
    Loose,
    /// Also, duplicate results are dropped, and duplicate calls within a message.
    Results,
    /// Also, duplicate calls of earlier messages are dropped.
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

/// The rules of the oldest version that was observed.
const FIRST: Rules = Rules {
    version: [1, 0, 128],
    null_line: NullLine::Skipped,
    reads_marked: false,
    reads_glued: false,
    replaces_surrogates: false,
    ends_lines: false,
    notices: Notices::Plain,
    progress_links: false,
    repeats_move: false,
    bridge: Bridge::No,
    leaf: Leaf::NewestOrFirst,
    resumes_events: true,
    timeless: Timeless::Accepted,
    sidechain_leaf: true,
    progress_leaf: false,
    breaks_loops: false,
    bridges_loops: false,
    cuts_loops: false,
    leaf_is_named: false,
    counts_sidechains: true,
    kept: Keeps::Nothing,
    siblings: Siblings::Lost,
    closing: Closing::No,
    open_drops_record: false,
    drops_thinking_only: false,
    drops_blank: false,
    fills_empty: false,
    joins_after_blanks: false,
    continues_after_shutdown: false,
    fill: Fill::Last,
    looks_past_errors: false,
    says_continue: false,
    ends_turns: false,
    attachments: Attachments::No,
    sends_system: false,
    sends_errors: true,
    sends_local_commands: false,
    drops_images: false,
    results_first: ResultsFirst::Never,
    seams: false,
    reminds_always: false,
    joins_over_results: false,
    joins_across: false,
    drops_foreign_thinking: false,
    plans: Plans::Sent,
    drops_single_edits: false,
    drops_old_messages: false,
    calls_last: CallsLast::No,
    calls: Calls::AsStored,
    keeps_names: false,
    references: References::AsStored,
    pairing: Pairing::No,
    joins_suffixed: false,
    inputs: Inputs::Any,
    blanks: Blanks::Sent,
};

/// The versions that a check names one by one, oldest first.
const LANDMARKS: [[u32; 3]; 8] = [
    [1, 0, 128],
    [2, 0, 42],
    [2, 0, 50],
    [2, 0, 76],
    [2, 1, 29],
    [2, 1, 45],
    [2, 1, 100],
    published::NEWEST,
];

/// A version as numbers; `None` if the text is not a version.
pub(crate) fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

impl Rules {
    /// The rules of a published version.
    pub(super) fn since(version: [u32; 3]) -> Rules {
        let changes = CHANGES.iter().filter(|change| change.since <= version);
        let mut rules = FIRST;
        changes.for_each(|change| (change.set)(&mut rules));
        Rules { version, ..rules }
    }

    /// The rules of a version. If it was not published, or is older or newer than all that were
    /// observed, those of the next older one, or of the oldest: [`Rules::version`] says which.
    /// `None` if the text is not a version.
    pub fn of(version: &str) -> Option<Rules> {
        Some(Rules::since(published::at(parse_version(version)?)))
    }

    /// The rules of some versions that differ much, oldest first.
    pub fn landmarks() -> [Rules; 8] {
        LANDMARKS.map(Rules::since)
    }

    /// The rules of the newest observed version.
    pub fn newest() -> Rules {
        Rules::since(published::NEWEST)
    }

    /// Whether only the usual members of calls are sent, for all calls.
    pub(crate) fn sends_plain_calls(&self) -> bool {
        self.calls == Calls::Plain
    }

    /// Whether a record at that place on its line is read.
    pub(crate) fn reads(&self, placed: Placed) -> bool {
        match placed {
            Placed::Alone => true,
            Placed::Marked => self.reads_marked,
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

    /// Whether the leaf is the last in the file, and not the newest.
    pub(crate) fn leaf_is_last(&self) -> bool {
        matches!(self.leaf, Leaf::LastMessage | Leaf::LastEnd)
    }

    /// The version as text, for example `2.1.325`.
    pub fn name(&self) -> String {
        version_name(self.version)
    }
}

/// A version as text.
pub(crate) fn version_name([major, minor, patch]: [u32; 3]) -> String {
    format!("{major}.{minor}.{patch}")
}
