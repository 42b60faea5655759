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
mod changes;
mod file_order;
mod filter;
mod kinds;
mod line;
mod listed;
mod merge;
mod model;
mod normalize;
mod published;
mod rules;
mod tail;
mod tools;
mod traits;
mod tree;

use std::collections::BTreeMap;

use hashbrown::HashSet;

pub(crate) use block::CallId;
pub use block::SentBlock;
pub use file_order::in_file_order;
pub use listed::{VersionChange, version_changes};
pub(crate) use model::is_at_least;
pub use model::{Limit, takes_system};
pub(crate) use normalize::without_suffix;
pub(crate) use published::ranges_for;
pub use published::{NEWEST_NAME, Range, ranges};
pub use rules::{NullLine, Rules, Siblings};
pub(crate) use rules::{parse_version, version_name};
pub use tail::open;
pub(crate) use tree::leaf;

use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, Id, Ids, RowId};
use crate::format::entry::{Entry, Kind};
pub(crate) use attachment::AttachmentCache;
use attachment::{Sending, Sent, System};
use line::Line;
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
    /// How long the conversation is; `None` if no answer says so.
    pub limit: Option<Limit>,
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
    is_joined: bool,
    /// Nothing is joined to it: it is a text of an attachment, and another one follows.
    is_alone: bool,
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
            is_joined: false,
            is_alone: false,
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
    /// Texts are created for attachments, in words of our own.
    Created {
        /// The type of the attachments.
        kind: &'static str,
        /// How many attachments.
        count: usize,
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
    /// This line is `null`, and the client exits on it.
    Null(u64),
}

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
    build(conversation, rules, Continuation { then, ..Continuation::default() }, None)
}

/// Like [`history`], if the user has chosen a model other than the one of the last answer.
pub fn history_for(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
    model: Option<&str>,
) -> crate::Result<Result<History, Refusal>> {
    build(conversation, rules, Continuation { then, model, at: None }, None)
}

/// Like [`history_for`], as if the conversation ended at this record.
pub fn history_at(
    conversation: &Conversation,
    rules: Rules,
    then: Option<&str>,
    model: Option<&str>,
    at: RowId,
) -> crate::Result<Result<History, Refusal>> {
    build(conversation, rules, Continuation { then, model, at: Some(at) }, None)
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
    build(conversation, rules, Continuation { then, ..Continuation::default() }, Some(cache))
}

/// How a conversation goes on.
#[derive(Clone, Copy, Default)]
struct Continuation<'a> {
    /// The next prompt.
    then: Option<&'a str>,
    /// The model that the user has chosen.
    model: Option<&'a str>,
    /// The record that it goes on from; None for the one that the client finds.
    at: Option<RowId>,
}

/// With `cache`, builds an outline.
fn build(
    conversation: &Conversation,
    rules: Rules,
    Continuation { then, model: chosen, at }: Continuation<'_>,
    cache: Option<&AttachmentCache>,
) -> crate::Result<Result<History, Refusal>> {
    let table = &conversation.table;
    let mut notes = Vec::new();
    let tree = Tree::new(table, rules, &mut notes);
    let chain = match tree.chain(at, &mut notes) {
        Ok(chain) => chain,
        Err(refusal) => return Ok(Err(refusal)),
    };
    // Gaps outside the chain do not matter, nor do those before what a compaction keeps.
    let on: HashSet<RowId> = chain.rows.iter().copied().chain(chain.boundary).collect();
    notes.retain(|note| match note {
        Note::Missing { row, bridged } => {
            on.contains(row) && bridged.is_none_or(|to| on.contains(&to))
        }
        _ => true,
    });
    let sending = Sending::new(rules);
    let is_told = |row: RowId| {
        cache.is_some_and(|cache| Line::is_told(table.row(row)) || cache.has(row, sending))
    };
    let untold: Vec<_> = chain.rows.iter().copied().filter(|row| !is_told(*row)).collect();
    let read = conversation.look_all(&untold, |look, row| {
        if Line::is_plain(row, table) {
            return Line::of_blocks(row, table, look, rules);
        }
        look.record(row, |entry| Line::read(row, table, entry, rules, sending))
    })?;
    let mut read = read.into_iter().peekable();
    let mut lines = Vec::with_capacity(chain.rows.len());
    for row in &chain.rows {
        let line = read.next_if(|line| line.row == Some(*row));
        let mut line = line.unwrap_or_else(|| Line::outline(*row, table, rules));
        if let Some(cache) = cache.filter(|_| line.kind == Kind::Attachment) {
            line.sent = cache.in_short(*row, sending, line.sent);
        }
        lines.push(line);
    }
    let had_blanks = filter::filter(&mut lines, rules, then.is_some(), &table.ids, &mut notes);
    let (of_file, is_default) = model::of(&lines, &table.ids, rules.version);
    let name = chosen.unwrap_or(of_file);
    for line in lines.iter_mut().filter(|line| line.is_result()) {
        tools::refer(&mut line.blocks, rules, takes_system(name));
    }
    notes.extend(created(&lines, takes_system(name) && rules.sends_system));
    let limit = Limit::of(&lines, table, name, is_default && chosen.is_none(), rules.version);
    let model = Model { name, ids: &table.ids };
    let ends = |line: &&Line| line.blocks.iter().any(|block| rules.ends_on(block.filling()));
    if let Some(row) = lines.iter().find(ends).and_then(|line| line.row) {
        return Ok(Err(Refusal::Input(row)));
    }
    if let Some(prompt) = then {
        filter::fill(&mut lines, rules, had_blanks, &mut notes);
        lines.push(Line::made(Kind::User, vec![SentBlock::text(prompt)], true));
    }
    let messages = merge::merge(lines, rules, takes_system(name));
    let messages = normalize::repair(messages, rules, &model, &mut notes);
    Ok(Ok(History {
        messages,
        notes,
        leaf: chain.leaf,
        rows: chain.rows,
        boundary: chain.boundary,
        model: model.name.to_owned(),
        limit,
    }))
}

/// The texts and images that a client sends for an attachment if that model continues.
pub(crate) fn attached(entry: &Entry<'_>, rules: Rules, model: &str) -> Vec<SentBlock> {
    let is_dropped =
        |sent: &Sent| sent.system == System::Dropped && takes_system(model) && rules.sends_system;
    let sent = attachment::sent(entry, Sending::new(rules)).into_iter();
    let sent = sent.filter(|sent| !is_dropped(sent));
    sent.map(|sent| match sent.image {
        Some(image) => SentBlock::image(image),
        None => SentBlock::text(&sent.text),
    })
    .collect()
}

/// How many attachments of each type a text is created for.
fn created(lines: &[Line], takes_system: bool) -> impl Iterator<Item = Note> {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for sent in lines.iter().filter_map(|line| line.sent.first()) {
        let is_sent = !takes_system || sent.system != System::Dropped;
        if let Some(kind) = sent.kind.filter(|_| is_sent) {
            *counts.entry(kind).or_default() += 1;
        }
    }
    counts.into_iter().map(|(kind, count)| Note::Created { kind, count })
}
