//! Examines each record by itself, in one pass over the lines; only the current line is needed.
//!
//! This runs while the table is read. Whether a fault matters depends on whether its record is
//! sent, which is only known later. So each fault is stored with its place.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::image::Image;
use crate::client::history::parse_version;
use crate::conversation::place::SeenKinds;
use crate::conversation::table::{Placed, Watch, digest};
use crate::format::content::{Block, BlockKind};
use crate::format::entry::{Entry, Kind};
use crate::format::file::{Body, Line, Record, State};
use crate::format::json::{Json, Shape, replace_surrogates};
use crate::format::scan::Why;
use crate::format::secret::Redactor;

/// A fault in a record or in one of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u64,
    /// Where the record begins in the file, in bytes.
    pub(crate) offset: u64,
    /// The index of the block in its message.
    pub(crate) block: Option<u32>,
    pub(crate) what: What,
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Bytes that are not a record.
    Damaged(Why),
    /// A run of NUL bytes.
    Nul,
    /// A complete record that shares its line.
    Glued,
    /// A record with bytes that are not UTF-8.
    NotUtf8,
    /// JSON that is not an object.
    Bare,
    /// The line `null`.
    Null,
    /// A record of the conversation lacks this field.
    NoField(&'static str),
    /// The message has no content, its content is neither a string nor a list of blocks, a block is
    /// not an object, or the role does not match the record. The text completes "the message …".
    Content(&'static str),
    /// A message without any block.
    NoBlocks,
    /// An unpaired UTF-16 surrogate.
    Surrogate,
    /// A block of this type, which the API does not accept at that place.
    BlockType(String),
    /// A member of this name, which the API does not know in such a block.
    BlockField(String),
    /// Something in a tool call that the API does not accept. The text completes "a tool call that
    /// …".
    Call(&'static str),
    Thinking(ThinkingFault),
    Image(Image),
}

/// What is wrong with a thinking block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingFault {
    Unsigned,
    /// A signature without text. `is_usual`: the client version that wrote it always omits the
    /// text.
    Hollow {
        is_usual: bool,
    },
    /// The same signature also belongs to another text, or it is not base64.
    Altered,
    /// Thinking in a user message.
    OfUser,
    /// Redacted thinking without data.
    NoData,
}

/// From this version on, clients store thinking without its text, as the API returns it.
const HOLLOW_SINCE: [u32; 3] = [2, 1, 81];

/// The result of examining a file, or a part of it.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(crate) marks: Vec<Mark>,
    pub(super) secrets: SeenKinds,
    /// The last working directory in a record, as raw JSON.
    cwd: Vec<u8>,
    /// The last line that is not blank.
    pub(crate) last: Option<Last>,
    /// Searches for secrets; `None` if they are not wanted, since the search takes half of the
    /// time.
    redactor: Option<Arc<Redactor>>,
    /// How many marks the line of the last mark has.
    on_line: usize,
    /// Hashes of the models whose thinking has text somewhere.
    pub(super) thinks_aloud: HashSet<u64>,
    /// For each pair of answer and signature (hashed), the hash of the text that was signed.
    signed: HashMap<u64, u64>,
}

/// The last line of a file that is not blank.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub(crate) struct Last {
    pub(crate) line: u64,
    pub(crate) is_ended: bool,
    pub(crate) is_damaged: bool,
    pub(crate) is_blank: bool,
    /// It is cut off, and what is left looks like a message.
    pub(crate) is_said: bool,
}

/// How many marks are kept per line: enough for more images than a request may have.
const MARKS: usize = 256;

impl Examined {
    /// Also searches for secrets.
    pub(super) fn with(redactor: &Arc<Redactor>) -> Examined {
        Examined { redactor: Some(redactor.clone()), ..Examined::default() }
    }

    /// Examines one line as a whole.
    fn look_at_line(&mut self, line: &Line<'_>) {
        let bytes = match line.body {
            Body::Held(bytes) => bytes,
            Body::Condensed(digest) => digest.bytes(),
        };
        let number = line.number.unwrap_or(0);
        let found = self.redactor.as_ref().map(|redactor| redactor.find_in_line(bytes));
        for kind in found.into_iter().flatten() {
            self.secrets.entry(kind.to_owned()).or_insert((0, number)).0 += 1;
        }
        let text = bytes.trim_ascii();
        if text.is_empty() && line.ended {
            return;
        }
        // Only a record that is cut off needs a guess about what it was.
        let is_said = !text.ends_with(b"}") && looks_said(text);
        self.last = Some(Last {
            line: number,
            is_ended: line.ended,
            is_damaged: false,
            is_blank: text.is_empty(),
            is_said,
        });
    }

    /// Examines one record of the line.
    fn look_at_record(&mut self, record: &Record<'_>, is_alone: bool) {
        let Some(entry) = &record.entry else { return self.no_record(record) };
        match (record.state, record.fault) {
            (State::Recovered, Some(_)) => self.mark(record, None, What::NotUtf8),
            _ if !is_alone => self.mark(record, None, What::Glued),
            _ => {}
        }
        if let Some(cwd) = entry.get("cwd")
            && self.cwd != cwd.raw()
        {
            self.cwd = cwd.raw().to_vec();
        }
        if matches!(entry.kind(), Kind::User | Kind::Assistant) {
            self.look_at_message(record, entry);
        }
    }

    fn mark(&mut self, record: &Record<'_>, block: Option<u32>, what: What) {
        let line = record.line.unwrap_or(0);
        // A line crafted to be full of faults tells nothing new after a thousand of them.
        let is_same = self.marks.last().is_some_and(|last| last.line == line);
        self.on_line = if is_same { self.on_line + 1 } else { 0 };
        if self.on_line > MARKS {
            return;
        }
        self.marks.push(Mark { line, offset: record.offset, block, what });
    }

    fn no_record(&mut self, record: &Record<'_>) {
        let what = match (record.state, record.fault, record.bare) {
            (State::Damaged, Some((_, Why::Nul)), _) => What::Nul,
            (State::Damaged, Some((_, why)), _) => What::Damaged(why),
            (State::Damaged, None, _) => What::Damaged(Why::EndsInValue),
            (_, _, Some(json)) if json.shape() == Shape::Null => What::Null,
            _ => What::Bare,
        };
        if record.state == State::Damaged
            && let Some(last) = &mut self.last
        {
            last.is_damaged = true;
        }
        self.mark(record, None, what);
    }

    fn look_at_message(&mut self, record: &Record<'_>, entry: &Entry<'_>) {
        for name in ["parentUuid", "type"] {
            if entry.get(name).is_none() {
                self.mark(record, None, What::NoField(name));
            }
        }
        if entry.message().is_none() {
            self.mark(record, None, What::NoField("message"));
        }
        let Some(message) = entry.message() else { return };
        let is_answer = entry.kind() == Kind::Assistant;
        let role = message.get("role");
        if role.is_some_and(|role| !role.is(if is_answer { "assistant" } else { "user" })) {
            self.mark(record, None, What::Content("has a role that does not match its record"));
        }
        let shape = message.content().map(Json::shape);
        match shape {
            Some(Shape::String | Shape::Array) => {}
            None => self.mark(record, None, What::Content("has no content")),
            Some(_) => {
                self.mark(
                    record,
                    None,
                    What::Content("has content that is neither a string nor a list of blocks"),
                );
            }
        }
        if message.blocks().next().is_none() {
            self.mark(record, None, What::NoBlocks);
        }
        let raw = message.json().raw();
        if memchr::memmem::find(raw, b"\\u").is_some() && replace_surrogates(raw).is_some() {
            self.mark(record, None, What::Surrogate);
        }
        if shape == Some(Shape::String) {
            return;
        }
        for (at, block) in (0..).zip(message.blocks()) {
            self.block(record, entry, at, &block);
        }
    }

    fn block(&mut self, record: &Record<'_>, entry: &Entry<'_>, at: u32, block: &Block<'_>) {
        let is_answer = entry.kind() == Kind::Assistant;
        let mut mark = |what: What| self.mark(record, Some(at), what);
        if block.json().shape() != Shape::Object {
            return mark(What::Content("has a block that is not an object"));
        }
        let allowed = fields(block, is_answer);
        if allowed.is_empty() {
            let name = block.type_name().unwrap_or_default();
            return mark(What::BlockType(quoted(&name)));
        }
        if let Some(name) = block.other_than(allowed) {
            mark(What::BlockField(quoted(&name)));
        }
        match block.kind() {
            BlockKind::Thinking | BlockKind::RedactedThinking => {
                if let Some(fault) = self.thinking(block, entry) {
                    self.mark(record, Some(at), What::Thinking(fault));
                }
            }
            BlockKind::ToolUse | BlockKind::ServerToolUse => {
                if let Some(fault) = call(block) {
                    mark(What::Call(fault));
                }
            }
            BlockKind::Image => mark(What::Image(Image::read(block, record.condensed))),
            BlockKind::ToolResult => {
                for inner in block.inner().filter(|inner| inner.kind() == BlockKind::Image) {
                    self.mark(record, Some(at), What::Image(Image::read(&inner, record.condensed)));
                }
            }
            _ => {}
        }
    }

    fn thinking(&mut self, block: &Block<'_>, entry: &Entry<'_>) -> Option<ThinkingFault> {
        if entry.kind() != Kind::Assistant {
            return Some(ThinkingFault::OfUser);
        }
        // Raw, with their quotes: texts are long, and their contents do not matter here.
        let raw = |name: &str| block.get(name).map_or(&b"\"\""[..], |value| value.raw());
        if block.kind() == BlockKind::RedactedThinking {
            return (raw("data").len() <= 2).then_some(ThinkingFault::NoData);
        }
        let (text, signature) = (raw("thinking"), raw("signature"));
        let message = entry.message();
        let named = |name: &str| message.and_then(|message| message.text(name)).unwrap_or_default();
        if text.len() > 2 {
            self.thinks_aloud.insert(digest(&*named("model")));
        }
        if signature.len() <= 2 || !signature.starts_with(b"\"") {
            return Some(ThinkingFault::Unsigned);
        }
        if text.len() <= 2 {
            let display = entry.get("thinkingDisplay");
            let is_omitted =
                display.is_some_and(|display| !display.is("summarized") && !display.is("full"));
            let wrote = entry.version().and_then(|version| parse_version(&version));
            let is_usual = wrote >= Some(HOLLOW_SINCE);
            return (!is_omitted).then_some(ThinkingFault::Hollow { is_usual });
        }
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(byte);
        if !signature[1..signature.len() - 1].iter().all(is_base64) {
            return Some(ThinkingFault::Altered);
        }
        // The same block again, with another text. Other answers may share a signature: tests and
        // gateways write them so.
        let over = self.signed.entry(digest(&(&*named("id"), signature)));
        let over = over.or_insert_with(|| digest(text));
        (*over != digest(text)).then_some(ThinkingFault::Altered)
    }

    /// Whether the mark is damage at the end of the file, which is reported as `torn-tail`.
    pub(crate) fn is_torn(&self, mark: &Mark) -> bool {
        self.last.is_some_and(|last| last.line == mark.line && last.is_damaged)
    }

    /// The last working directory in a record.
    pub(super) fn cwd(&self) -> Option<String> {
        Some(Json::parse(&self.cwd)?.text()?.into_owned())
    }
}

impl Watch for Examined {
    fn another(&self) -> Examined {
        Examined { redactor: self.redactor.clone(), ..Examined::default() }
    }

    fn line(&mut self, line: &Line<'_>) {
        self.look_at_line(line);
    }

    fn record(&mut self, record: &Record<'_>, placed: Placed) {
        self.look_at_record(record, placed.is_alone());
    }

    fn append(&mut self, other: Examined, lines: u64) {
        self.marks
            .extend(other.marks.into_iter().map(|mark| Mark { line: mark.line + lines, ..mark }));
        for (kind, (count, line)) in other.secrets {
            self.secrets.entry(kind).or_insert((0, line + lines)).0 += count;
        }
        if !other.cwd.is_empty() {
            self.cwd = other.cwd;
        }
        let last = other.last.map(|last| Last { line: last.line + lines, ..last });
        self.last = last.or(self.last);
        self.thinks_aloud.extend(other.thinks_aloud);
        for (signature, text) in other.signed {
            self.signed.entry(signature).or_insert(text);
        }
    }
}

/// A name from the file for use in a finding: truncated, and hidden if it is a secret.
pub(super) fn quoted(name: &str) -> String {
    if Redactor::default().find(name).is_empty() {
        name.chars().take(64).collect()
    } else {
        "(a secret)".to_owned()
    }
}

/// Whether the rest of a record looks like a message: its type says so, or it was cut off before
/// the type.
fn looks_said(text: &[u8]) -> bool {
    let has = |what: &str| memchr::memmem::find(text, what.as_bytes()).is_some();
    has("\"type\":\"user\"")
        || has("\"type\":\"assistant\"")
        || (text.starts_with(b"{\"parentUuid\"") && !has("\"type\":"))
}

/// The members that the API accepts in such a block at that place; empty if it does not accept the
/// block.
pub(crate) fn fields(block: &Block<'_>, is_answer: bool) -> &'static [&'static str] {
    const CACHE: &str = "cache_control";
    match block.kind() {
        BlockKind::Text => &["type", "text", "citations", CACHE],
        BlockKind::Thinking => &["type", "thinking", "signature"],
        BlockKind::RedactedThinking => &["type", "data"],
        BlockKind::ToolUse | BlockKind::ServerToolUse if is_answer => {
            &["type", "id", "name", "input", "caller", CACHE]
        }
        BlockKind::ServerToolResult => {
            &["type", "tool_use_id", "content", "is_error", "caller", CACHE]
        }
        BlockKind::ToolResult if !is_answer => {
            &["type", "tool_use_id", "content", "is_error", CACHE]
        }
        BlockKind::Image if !is_answer => &["type", "source", CACHE],
        BlockKind::Document if !is_answer => {
            &["type", "source", "title", "context", "citations", CACHE]
        }
        _ => &[],
    }
}

/// What the API does not accept in a tool call.
fn call(block: &Block<'_>) -> Option<&'static str> {
    let is_word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let name = block.field("name").unwrap_or_default();
    let id = block.field("id").unwrap_or_default();
    if !is_word(&id) {
        return Some("has an id with characters other than letters, digits, `_` and `-`");
    }
    if !is_word(&name) || name.len() > 200 {
        return Some(
            "has a name that is too long, or has characters other than letters, digits, `_` and `-`",
        );
    }
    let is_object = block.get("input").is_some_and(|input| input.shape() == Shape::Object);
    (!is_object).then_some("has an input that is not an object")
}
