//! The messages of the API that a file contains, each with its usage.
//!
//! For counting over thousands of files: reads only what decides about tokens, by the same rules as
//! the table of a session ([`Answer`]). Invariants: each `message.id` once; what the client wrote
//! itself (`<synthetic>`), and records without an id or a usage, do not count; nor do copies inside
//! records of progress, because only records of answers are looked at.

use std::borrow::Cow;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use memchr::memmem::Finder;

use super::{Spending, Usage};
use crate::conversation::price::Prices;
use crate::conversation::table::{Answer, Ids, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::file::{Body, Lines};
use crate::format::time::Time;

/// One message of the API, as one file has it. Texts that many messages have are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageUsage {
    /// Its `message.id`.
    pub id: String,
    /// The model; `None` if no record names it.
    pub model: Option<Arc<str>>,
    /// What it took.
    pub usage: Usage,
    /// The service tier, if the API reports it.
    pub tier: Option<Arc<str>>,
    /// The speed, if the API reports it.
    pub speed: Option<Arc<str>>,
    /// The first tool that it calls.
    pub tool: Option<Arc<str>>,
    /// How many records it has.
    pub records: u32,
    /// When its first record was made.
    pub time: Option<Time>,
    /// The line of its first record.
    pub line: u64,
    /// The session that its first record says it belongs to.
    pub session: Option<Arc<str>>,
    /// It belongs to a sub-agent whose records are in the session's own file.
    pub is_sidechain: bool,
}

impl MessageUsage {
    /// What it took and cost.
    pub fn spending(&self, prices: &Prices) -> Spending {
        Spending::of_message(self.usage, self.model.as_deref(), self.speed.as_deref(), prices)
    }
}

/// A message while its file is being read.
#[derive(Debug)]
struct Reading {
    answer: Answer,
    tool: Option<Arc<str>>,
    time: Option<Time>,
    line: u64,
    session: Option<Arc<str>>,
    is_sidechain: bool,
}

/// Every record of an answer contains this, as its type or its role.
static ASSISTANT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"assistant\""));

/// What a file has of the API's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// The messages, in the order of their first records.
    pub list: Vec<MessageUsage>,
    /// The working directory, from the first answer that names it.
    pub cwd: Option<String>,
}

/// Reads the messages of a file.
///
/// ```
/// use transcript::conversation::usage::messages_in;
/// use transcript::format::file::Lines;
///
/// let file = br#"{"type":"assistant","message":{"id":"msg_1","role":"assistant",
///     "model":"claude-opus-4-5","content":[],"usage":{"input_tokens":3,"output_tokens":5}}}"#;
/// let file: Vec<u8> = file.iter().copied().filter(|byte| *byte != b'\n').collect();
/// let messages = messages_in(Lines::new(file.as_slice()))?;
/// assert_eq!((messages.list[0].usage.input, messages.list[0].usage.output), (3, 5));
/// # Ok::<(), transcript::Error>(())
/// ```
pub fn messages_in<R: Read>(mut lines: Lines<R>) -> crate::Result<Messages> {
    let mut counter = MessageCounter::default();
    while let Some(line) = lines.next_line()? {
        if let Body::Held(bytes) = line.body
            && ASSISTANT.find(bytes).is_none()
        {
            continue;
        }
        for record in line.records() {
            if let Some(entry) = &record.entry {
                counter.add(entry, record.line.unwrap_or(0));
            }
        }
    }
    Ok(counter.finish())
}

/// Collects the messages of records that somebody else reads.
#[derive(Debug, Default)]
pub struct MessageCounter {
    ids: Ids,
    names: Names,
    places: HashMap<String, usize>,
    found: Vec<Reading>,
    cwd: Option<String>,
}

impl MessageCounter {
    /// Adds a record, which is on that line.
    pub fn add(&mut self, entry: &Entry<'_>, line: u64) {
        if entry.kind() != Kind::Assistant {
            return;
        }
        if self.cwd.is_none() {
            self.cwd = entry.text("cwd").map(Cow::into_owned);
        }
        let message = entry.message().and_then(|message| message.text("id"));
        let Some(id) = message.filter(|id| !id.is_empty()) else { return };
        let found = &mut self.found;
        let at = *self.places.entry_ref(&*id).or_insert_with(|| {
            found.push(Reading::new(entry, line, &mut self.names));
            found.len() - 1
        });
        found[at].add(entry, &mut self.ids, &mut self.names);
    }

    /// What was collected.
    pub fn finish(self) -> Messages {
        let MessageCounter { ids, mut names, places, found, cwd } = self;
        let mut called: Vec<Option<String>> = vec![None; found.len()];
        for (id, at) in places {
            called[at] = Some(id);
        }
        let all = found.into_iter().zip(called);
        let list = all.filter_map(|(reading, id)| reading.finish(id?, &ids, &mut names)).collect();
        Messages { list, cwd }
    }
}

/// The texts that many messages have, each once: a session may have hundreds of thousands of them.
#[derive(Debug, Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}

impl Reading {
    fn new(entry: &Entry<'_>, line: u64, names: &mut Names) -> Reading {
        Reading {
            answer: Answer::new(None, RowId(0)),
            tool: None,
            time: None,
            line,
            session: entry.session().map(|session| names.shared(&session)),
            is_sidechain: entry.flag("isSidechain"),
        }
    }

    /// Adds one more record.
    fn add(&mut self, entry: &Entry<'_>, ids: &mut Ids, names: &mut Names) {
        self.time = self.time.or_else(|| entry.time());
        let Some(message) = entry.message() else { return };
        self.answer.join(message, ids);
        if self.tool.is_none() {
            let mut calls = message.blocks().filter(|block| block.kind() == BlockKind::ToolUse);
            self.tool = calls.find_map(|call| Some(names.shared(&call.tool()?)));
        }
    }

    fn finish(self, id: String, ids: &Ids, names: &mut Names) -> Option<MessageUsage> {
        let mut text = |id| Option::map(id, |id| names.shared(ids.text(id)));
        let model = text(self.answer.model);
        let at_least = !self.answer.is_final();
        let reported = self.answer.usage.filter(|_| model.as_deref() != Some("<synthetic>"))?;
        Some(MessageUsage {
            id,
            model,
            usage: Usage { at_least, ..reported.usage },
            tier: text(reported.tier),
            speed: text(reported.speed),
            tool: self.tool,
            records: self.answer.rows,
            time: self.time,
            line: self.line,
            session: self.session,
            is_sidechain: self.is_sidechain,
        })
    }
}
