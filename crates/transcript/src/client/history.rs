//! The messages that a client would send if it resumed a session now.
//!
//! Clients rebuild the conversation from the file by rules that were never documented and that
//! differ between versions. The rules were found by observation. [`Rules`] contains them as data,
//! and the steps run in the observed order: parse, dedupe, leaf, chain (`tree`), filter, fill
//! (here), merge (`merge`), repair (`normalize`). [`Note`]s report what is dropped, joined, bridged
//! or made up. Invariant: for the same file and prompt, the messages are those that the client
//! sends, apart from the product's own texts.

mod attachment;
mod block;
mod file_order;
mod merge;
mod normalize;
mod rules;
mod tail;
mod tools;
mod tree;

use hashbrown::HashSet;

pub(crate) use block::CallId;
pub use block::SentBlock;
pub use file_order::in_file_order;
pub(crate) use normalize::without_suffix;
pub(crate) use rules::parse_version;
pub use rules::{OBSERVED, Rules};
pub use tail::open;
pub(crate) use tree::leaf;

use crate::conversation::table::{BlockId, Id, Ids, Row, RowId, Table};
use crate::conversation::{Conversation, Look};
use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::input::Input;
pub(crate) use attachment::AttachmentCache;
use attachment::Sent;
use rules::Fill;
use tree::Tree;

/// What a client would send.
#[derive(Clone, Debug)]
pub struct History {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// What was changed to build them.
    pub notes: Vec<Note>,
    /// The record that the conversation continues from.
    pub leaf: Option<RowId>,
    /// The records that are sent, in order.
    pub rows: Vec<RowId>,
    /// The compaction that the conversation continues from.
    pub boundary: Option<RowId>,
    /// The model that continues, if the client takes it from the file.
    pub model: String,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The role of the sender.
    pub role: Role,
    /// The content.
    pub blocks: Vec<SentBlock>,
    id: AnswerName,
    model: Option<Id>,
    /// The content was a plain string in a single record.
    is_string: bool,
    /// The message is a text of an attachment after an answer.
    is_attachment: bool,
    is_joined: bool,
    /// How many results are at the front; `None` until they have been moved there.
    front: Option<usize>,
}

impl Message {
    fn new(role: Role, blocks: Vec<SentBlock>) -> Message {
        Message {
            role,
            blocks,
            id: AnswerName::Of(None),
            model: None,
            is_string: false,
            is_attachment: false,
            is_joined: false,
            front: None,
        }
    }
}

/// What the records of one answer have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AnswerName {
    /// Their message id. Records without an id count as one answer.
    Of(Option<Id>),
    /// The filler before the next prompt.
    Filler,
}

impl AnswerName {
    fn name(self) -> Option<Id> {
        match self {
            AnswerName::Of(id) => id,
            AnswerName::Filler => None,
        }
    }
}

/// The model that continues.
#[derive(Clone, Copy, Debug)]
struct Model<'a> {
    name: &'a str,
    ids: &'a Ids,
}

/// The role of a message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, or the client on the user's behalf.
    User,
    /// The model.
    Assistant,
    /// The client.
    System,
}

impl Role {
    /// The name of the role in the API.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

/// Something that the client does while it rebuilds the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The parent of a record is missing; the record gets another parent, or none.
    Missing {
        /// The record whose parent is missing.
        row: RowId,
        /// Its new parent.
        bridged: Option<RowId>,
    },
    /// What was said before a compaction is omitted.
    Compacted {
        /// The compaction.
        boundary: RowId,
    },
    /// The records that a compaction keeps verbatim are inserted after its summary.
    Kept {
        /// The compaction.
        boundary: RowId,
        /// How many records.
        records: usize,
    },
    /// Records beside the chain are recovered.
    Recovered {
        /// The last record of their answer on the chain.
        answer: RowId,
        /// How many records.
        records: usize,
    },
    /// A call without a result is omitted.
    OpenCall {
        /// The record of the call.
        row: RowId,
    },
    /// Calls without a result at the end get a result that says so.
    ClosedCalls {
        /// How many calls.
        count: usize,
        /// The last record of their answer.
        answer: Option<RowId>,
    },
    /// An answer with only thinking or blanks is omitted.
    Empty {
        /// The record of the answer.
        row: RowId,
    },
    /// A filler is inserted before the next prompt.
    Filled,
    /// Thinking of another model is omitted.
    ForeignThinking {
        /// The answer's id.
        id: Option<Id>,
    },
    /// A message with only thinking is omitted.
    ThinkingOnly {
        /// The answer's id.
        id: Option<Id>,
    },
    /// A result is omitted because its call is not in the message before it.
    OrphanResult {
        /// Its block in the file.
        block: Option<BlockId>,
    },
    /// A result is omitted because its call's id is the id of another call plus `_` and a number.
    SuffixedResult {
        /// Its block in the file.
        block: Option<BlockId>,
    },
    /// A second result of the same call is omitted.
    RepeatedResult {
        /// Its block in the file.
        block: Option<BlockId>,
    },
    /// A call is omitted because its id was used before.
    RepeatedCall {
        /// Its block in the file.
        block: Option<BlockId>,
    },
    /// Results are made up for calls that have none.
    MadeResults {
        /// How many results.
        count: usize,
    },
}

/// Why a client does not resume a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no conversation in it.
    Nothing,
    /// There is no end to continue from.
    NoEnd,
    /// A record that must have a time has none.
    NoTime(RowId),
    /// The parent links form a cycle at this record, and the client follows them forever.
    Loop(RowId),
    /// A call has an input of a type on which the client exits.
    Input(RowId),
}

const OPEN: &str = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. Check whether it took effect before relying on it or running it again.]";
const NO_RESPONSE: &str = "No response requested.";
const CONTINUE: &str = "Continue from where you left off.";
const NOTIFICATION: &str = "[SYSTEM NOTIFICATION - NOT USER INPUT]";

/// The model that the newest client uses if the one in the file is no longer offered.
const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// The messages that a client would send, if `then` is the next prompt. The outer error is a read
/// error, the inner one a refusal by the client.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("0a1b2c3d.jsonl");
/// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
/// # std::fs::write(&path, format!("{line}\n"))?;
/// use transcript::client::history::Rules;
/// use transcript::{Conversation, history};
///
/// let conversation = Conversation::open(&path)?;
/// match history(&conversation, Rules::newest(), Some("go on"))? {
///     Ok(sent) => println!("{} messages to {}", sent.messages.len(), sent.model),
///     Err(refusal) => println!("not resumed: {refusal:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn history(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
) -> crate::Result<Result<History, Refusal>> {
    build(conversation, rules, (then, None), None)
}

/// Like [`history`], if the user has chosen a model other than the one of the last answer.
pub fn history_for(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
    model: Option<&str>,
) -> crate::Result<Result<History, Refusal>> {
    build(conversation, rules, (then, model), None)
}

/// Like [`history`], without texts, and without the text that the client adds after references to
/// tools. Blocks have a kind, an id and an origin, and it is known whether they are blank. Memory
/// grows with the number of blocks, not with their size.
pub fn outline(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
) -> crate::Result<Result<History, Refusal>> {
    outline_with(conversation, rules, then, &AttachmentCache::default())
}

/// Like [`outline`], for several versions in turn: attachments are read once and kept in `cache`.
pub(crate) fn outline_with(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
    cache: &AttachmentCache,
) -> crate::Result<Result<History, Refusal>> {
    build(conversation, rules, (then, None), Some(cache))
}

/// With `cache`, builds an outline.
fn build(
    conversation: &Conversation,
    rules: Rules,
    (then, chosen): (Option<&str>, Option<&str>),
    cache: Option<&AttachmentCache>,
) -> crate::Result<Result<History, Refusal>> {
    let table = &conversation.table;
    let mut notes = Vec::new();
    let tree = Tree::new(table, rules, &mut notes);
    let chain = match tree.chain(&mut notes) {
        Ok(chain) => chain,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // Gaps outside the chain do not matter.
    let on: HashSet<RowId> = chain.rows.iter().copied().collect();
    notes.retain(|note| !matches!(note, Note::Missing { row, .. } if !on.contains(row)));
    let is_told = |row: RowId| {
        cache.is_some_and(|cache| Line::is_told(table.row(row)) || cache.has(row, rules))
    };
    let untold: Vec<_> = chain.rows.iter().copied().filter(|row| !is_told(*row)).collect();
    let read = conversation.look_all(&untold, |look, row| {
        if Line::is_plain(row, table) {
            return Line::of_blocks(row, table, look, rules);
        }
        look.record(row, |entry| Line::read(row, table, entry, rules))
    })?;
    let mut read = read.into_iter().peekable();
    let mut lines = Vec::with_capacity(chain.rows.len());
    for row in &chain.rows {
        let line = read.next_if(|line| line.row == Some(*row));
        let mut line = line.unwrap_or_else(|| Line::outline(*row, table, rules));
        if let Some(cache) = cache.filter(|_| line.kind == Kind::Attachment) {
            line.sent = cache.in_short(*row, rules, line.sent);
        }
        lines.push(line);
    }
    let name = chosen.unwrap_or_else(|| model(&lines, &table.ids));
    let model = Model { name, ids: &table.ids };
    filter(&mut lines, rules, then.is_some(), &table.ids, &mut notes);
    let ends = |line: &&Line| line.blocks.iter().any(|block| rules.ends_on(block.filling()));
    if let Some(row) = lines.iter().find(ends).and_then(|line| line.row) {
        return Ok(Err(Refusal::Input(row)));
    }
    if let Some(prompt) = then {
        fill(&mut lines, rules, &mut notes);
        lines.push(Line::made(Kind::User, vec![SentBlock::text(prompt)], true));
    }
    let messages = merge::merge(lines, rules);
    let messages = normalize::repair(messages, rules, &model, &mut notes);
    Ok(Ok(History {
        messages,
        notes,
        leaf: chain.leaf,
        rows: chain.rows,
        boundary: chain.boundary,
        model: model.name.to_owned(),
    }))
}

/// One record with its content.
#[derive(Clone, Debug)]
struct Line {
    row: Option<RowId>,
    kind: Kind,
    input: Option<Input>,
    id: AnswerName,
    model: Option<Id>,
    blocks: Vec<SentBlock>,
    is_string: bool,
    /// The record represents an API error.
    is_error: bool,
    is_local_command: bool,
    sent: Vec<Sent>,
}

impl Line {
    /// What the table knows about a record.
    fn known(row: RowId, table: &Table) -> Line {
        let known = table.row(row);
        let mut line = Line::made(known.kind, Vec::new(), known.is_string);
        line.row = Some(row);
        line.input = known.input;
        line.id = AnswerName::Of(known.message);
        if let Some(answer) = known.answer.map(|answer| table.answer(answer)) {
            line.model = answer.model;
            line.is_error = answer.is_error && table.text(answer.model) == Some("<synthetic>");
        }
        line
    }

    /// Whether the table knows enough about a record for an outline.
    fn is_told(row: &Row) -> bool {
        // Of system events, only commands have content.
        let is_silent = row.kind == Kind::System && row.input.is_none();
        is_silent
            || (!matches!(row.kind, Kind::Attachment | Kind::System)
                && row.input != Some(Input::Preface))
    }

    fn outline(row: RowId, table: &Table, rules: Rules) -> Line {
        let mut line = Line::known(row, table);
        let parts = table.blocks_of(row).map(|id| (id, table.block(id)));
        line.blocks = parts.map(|(id, part)| SentBlock::outline(part).of(id, part)).collect();
        line.without_images(rules);
        line
    }

    /// Whether only the blocks of a record matter, and each can be read on its own.
    fn is_plain(row: RowId, table: &Table) -> bool {
        let mut parts = table.blocks_of(row);
        match table.row(row).kind {
            Kind::Assistant => parts.all(|part| table.range(part).is_some()),
            // Task notifications are recognized by a member beside the message. For results, that
            // does not matter.
            Kind::User => {
                let is_told = match table.row(row).input {
                    Some(Input::Summary | Input::Notification) | None => false,
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

    fn of_blocks(
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

    fn read(row: RowId, table: &Table, entry: &Entry<'_>, rules: Rules) -> Line {
        let mut line = Line::known(row, table);
        if let Some(message) = entry.message() {
            let parts = table.blocks_of(row).map(|id| (id, table.block(id)));
            let blocks = message.blocks().map(SentBlock::read).zip(parts);
            line.blocks = blocks.map(|(block, (id, part))| block.of(id, part)).collect();
        }
        match line.kind {
            Kind::Attachment => line.sent = attachment::sent(entry, rules),
            Kind::System if entry.get("subtype").is_some_and(|name| name.is("local_command")) => {
                line.is_local_command = true;
                line.is_string = true;
                line.blocks = vec![SentBlock::text(&entry.text("content").unwrap_or_default())];
            }
            _ => {}
        }
        line.without_images(rules);
        // The newest client tells the model that this is not user input.
        let origin = entry.get("origin").and_then(|origin| origin.get("kind"));
        if rules.marks_notifications && origin.is_some_and(|kind| kind.is("task-notification")) {
            for block in &mut line.blocks {
                if let Some(text) = block.words() {
                    *block =
                        block.with_text(&attachment::reminder(&format!("{NOTIFICATION}\n{text}")));
                }
            }
        }
        line.fit(rules);
        line
    }

    /// Changes the blocks as the client does.
    fn fit(&mut self, rules: Rules) {
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let blocks =
            blocks.map(
                |block| if rules.replaces_surrogates { block.without_surrogates() } else { block },
            );
        self.blocks = blocks.map(|block| tools::fitted(block, rules)).collect();
        self.blocks.extend(tools::loaded(&self.blocks, rules));
    }

    fn without_images(&mut self, rules: Rules) {
        let images = self.blocks.iter_mut().filter(|block| block.kind() == BlockKind::Image);
        for block in images.filter(|_| rules.drops_images) {
            *block = SentBlock::text("[image]");
        }
    }

    fn made(kind: Kind, blocks: Vec<SentBlock>, is_string: bool) -> Line {
        Line {
            row: None,
            kind,
            input: None,
            id: AnswerName::Of(None),
            model: None,
            blocks,
            is_string,
            is_error: false,
            is_local_command: false,
            sent: Vec::new(),
        }
    }

    fn is_result(&self) -> bool {
        self.kind == Kind::User
            && self.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult)
    }

    /// Whether an answer contains anything except thinking and blanks.
    fn speaks(&self) -> bool {
        self.blocks.iter().any(|block| !block.is_thinking() && !block.is_blank())
    }

    fn calls(&self) -> impl Iterator<Item = CallId> {
        self.blocks
            .iter()
            .filter(|block| block.kind() == BlockKind::ToolUse)
            .filter_map(SentBlock::call)
    }
}

/// The model that continues: that of the last answer, if it is still offered.
fn model<'a>(lines: &[Line], ids: &'a Ids) -> &'a str {
    let answers = lines.iter().rev().filter(|line| line.kind == Kind::Assistant);
    let models = answers.filter_map(|line| line.model).map(|model| ids.text(model));
    let last = models.into_iter().find(|model| *model != "<synthetic>");
    last.filter(|model| is_offered(model)).unwrap_or(DEFAULT_MODEL)
}

/// Whether the newest client offers a model: 4.5 and later.
fn is_offered(model: &str) -> bool {
    let Some(name) = model.strip_prefix("claude-") else { return false };
    let mut parts = name.split('-');
    let family = parts.next().unwrap_or_default();
    let numbers: Vec<u32> =
        parts.map_while(|part| part.parse().ok().filter(|number| *number < 1_000)).collect();
    matches!(family, "sonnet" | "opus" | "haiku") && numbers.len() <= 2 && numbers >= vec![4, 5]
}

/// Omits what must not be sent, and closes calls at the end if a prompt follows.
fn filter(
    lines: &mut Vec<Line>,
    rules: Rules,
    is_followed: bool,
    ids: &Ids,
    notes: &mut Vec<Note>,
) {
    let results = |lines: &[Line]| -> HashSet<CallId> {
        let blocks =
            lines.iter().filter(|line| line.kind == Kind::User).flat_map(|line| &line.blocks);
        blocks
            .filter(|block| block.kind() == BlockKind::ToolResult)
            .filter_map(SentBlock::call)
            .collect()
    };
    let mut answered = results(lines);
    // From this index on, calls are sent even if they have no result.
    let mut unfinished = usize::MAX;
    if rules.closes_calls && is_followed {
        unfinished = unfinished_from(lines, &answered).unwrap_or(unfinished);
        let made = closing(lines, &answered, ids);
        if !made.is_empty() {
            let answer = lines.iter().rfind(|line| line.kind == Kind::Assistant);
            let answer = answer.and_then(|line| line.row);
            notes.push(Note::ClosedCalls { count: made.len(), answer });
        }
        lines.extend(made);
        answered = results(lines);
    }
    let note = |line: &Line, notes: &mut Vec<Note>| {
        notes.extend(line.row.map(|row| Note::OpenCall { row }));
    };
    let mut kept = (0..lines.len()).map(|at| at >= unfinished);
    lines.retain_mut(|line| {
        let is_kept = kept.next().unwrap_or(false);
        if line.kind != Kind::Assistant || (is_kept && line.calls().next().is_some()) {
            return true;
        }
        let open = line.calls().filter(|id| !answered.contains(id)).count();
        if open == 0 {
            return rules.open_drops_record || !line.blocks.is_empty();
        }
        if rules.open_drops_record {
            let all = open == line.calls().count();
            if all {
                note(line, notes);
            }
            return !all;
        }
        note(line, notes);
        line.blocks.retain(|block| {
            block.kind() != BlockKind::ToolUse
                || block.call().is_some_and(|id| answered.contains(&id))
        });
        !line.blocks.is_empty()
    });
    if rules.drops_thinking_only {
        let thinks =
            |line: &Line| !line.blocks.is_empty() && line.blocks.iter().all(SentBlock::is_thinking);
        let more: HashSet<AnswerName> = lines
            .iter()
            .filter(|line| line.kind == Kind::Assistant && !thinks(line))
            .map(|line| line.id)
            .collect();
        lines.retain(|line| {
            let goes = line.kind == Kind::Assistant && thinks(line) && !more.contains(&line.id);
            notes.extend(line.row.filter(|_| goes).map(|row| Note::Empty { row }));
            !goes
        });
    }
    if rules.drops_blank {
        lines.retain(|line| {
            let goes = line.kind == Kind::Assistant
                && !line.blocks.is_empty()
                && line.blocks.iter().all(SentBlock::is_blank);
            notes.extend(line.row.filter(|_| goes).map(|row| Note::Empty { row }));
            !goes
        });
    }
}

/// The index where the last turn begins, if the session ends inside it: apart from unanswered calls
/// and answers without content, the last line is a result.
fn unfinished_from(lines: &[Line], answered: &HashSet<CallId>) -> Option<usize> {
    let is_open = |line: &Line| {
        line.calls().next().is_some() && line.calls().all(|id| !answered.contains(&id))
    };
    let is_said = |line: &&Line| match line.kind {
        Kind::User => true,
        Kind::Assistant => line.speaks() && !is_open(line),
        _ => false,
    };
    lines.iter().rev().find(is_said).filter(|last| last.is_result())?;
    let asks = |line: &Line| line.kind == Kind::User && !line.is_result();
    Some(lines.iter().rposition(asks).map_or(0, |at| at + 1))
}

/// Made-up results for the open calls of the last answer, if no user message follows it.
fn closing(lines: &[Line], answered: &HashSet<CallId>, ids: &Ids) -> Vec<Line> {
    let is_answer = |line: &Line| line.kind == Kind::Assistant && line.speaks();
    let Some(last) = lines.iter().rposition(is_answer) else {
        return Vec::new();
    };
    let spoken = lines[last..].iter().any(|line| line.kind == Kind::User && !line.is_result());
    if spoken {
        return Vec::new();
    }
    let of_last =
        lines.iter().filter(|line| line.kind == Kind::Assistant && line.id == lines[last].id);
    let open = of_last.flat_map(Line::calls).filter(|id| !answered.contains(id));
    open.map(|id| Line::made(Kind::User, vec![SentBlock::made_result(id, ids, OPEN, false)], false))
        .collect()
}

/// Inserts what the client writes between the end of the conversation and the next prompt: after
/// the last message, before lines that are not part of the conversation.
fn fill(lines: &mut Vec<Line>, rules: Rules, notes: &mut Vec<Note>) {
    let last_of =
        |lines: &[Line], kinds: &[Kind]| lines.iter().rposition(|line| kinds.contains(&line.kind));
    let at = match rules.fill {
        Fill::Last => lines.len().checked_sub(1),
        Fill::LastSaid => last_of(lines, &[Kind::User, Kind::Assistant, Kind::Attachment]),
        Fill::LastSpoken if ends_in_commands(lines) => None,
        Fill::LastSpoken => last_of(lines, &[Kind::User, Kind::Assistant])
            .or_else(|| last_of(lines, &[Kind::Attachment])),
    };
    let Some(mut at) = at else { return };
    let is_attachment = lines[at].kind == Kind::Attachment && rules.fill != Fill::Last;
    if lines[at].kind != Kind::User && !is_attachment {
        return;
    }
    if rules.says_continue && (is_attachment || lines[at].is_result()) {
        at = lines.len();
        lines.push(Line::made(Kind::User, vec![SentBlock::text(CONTINUE)], true));
    }
    let mut filler = Line::made(Kind::Assistant, vec![SentBlock::text(NO_RESPONSE)], false);
    filler.id = AnswerName::Filler;
    lines.insert(at + 1, filler);
    notes.push(Note::Filled);
}

/// Whether the user's last lines are local commands that begin with their caveat. After these, the
/// newest client inserts no filler.
fn ends_in_commands(lines: &[Line]) -> bool {
    let is_command = |line: &Line| {
        line.kind != Kind::Assistant
            && (line.kind != Kind::User
                || matches!(line.input, Some(Input::Command | Input::Output | Input::Preface)))
    };
    lines.iter().rev().take_while(|line| is_command(line)).any(|line| {
        let words = line.blocks.first().and_then(SentBlock::words).unwrap_or_default();
        line.kind == Kind::User && words.starts_with("<local-command-caveat>")
    })
}
