//! What each record tells by itself: one pass over the lines, nothing but the line at hand is needed.
//!
//! Runs while the table is read. Whether what is found here matters depends on whether the record is sent, which is found out later: so it is kept with its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::image::Image;
use crate::content::{Block, BlockKind};
use crate::entry::{Entry, Kind};
use crate::file::{Body, Line, Record, State};
use crate::history::parse_version;
use crate::json::{Json, Shape, mend_surrogates};
use crate::scan::Why;
use crate::secret::Redactor;
use crate::table::{Placed, Watch, digest};

/// Something about a record or one of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u64,
    /// Where the record begins in the file.
    pub(crate) offset: u64,
    /// Which block of its message.
    pub(crate) block: Option<u32>,
    pub(crate) what: What,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Bytes that are no record.
    Damaged(Why),
    /// A run of NUL bytes.
    Nul,
    /// A whole record that shares its line.
    Glued,
    /// A record with bytes that are no UTF-8.
    NotUtf8,
    /// JSON that is no object.
    Bare,
    /// The line `null`.
    Null,
    /// A field that every record of a conversation should have.
    NoField(&'static str),
    /// Its message is neither a text nor a list of blocks, or has no role, or that of somebody else.
    Content(&'static str),
    /// An answer or a prompt without any block.
    NoBlocks,
    /// Half of a surrogate pair.
    Surrogate,
    /// A block of a type that the API does not know, there.
    BlockType(String),
    /// A member that the API does not know in such a block.
    BlockField(String),
    /// Something in a call that the API does not take.
    Call(&'static str),
    Thinking(ThinkingFault),
    Image(Image),
}

/// What is wrong with thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingFault {
    Unsigned,
    /// A signature over nothing. With it, whether such clients write it so.
    Hollow {
        is_usual: bool,
    },
    /// The same signature stands over another text too, or is none.
    Altered,
    /// In what the user says.
    OfUser,
    /// Redacted, and empty.
    NoData,
}

/// Clients from this on write thinking without its text, as the API gives it to them.
const HOLLOW_SINCE: [u32; 3] = [2, 1, 81];

/// What was found in a file, or in a part of it.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(crate) marks: Vec<Mark>,
    /// Secrets by kind: how many, and the line of the first.
    pub(super) secrets: BTreeMap<String, (u64, u64)>,
    /// The last working directory that a record names, as it stands.
    cwd: Vec<u8>,
    /// The last line that is not blank.
    pub(crate) last: Option<Last>,
    /// What finds secrets; nothing if nobody asks for them, which takes half of the time.
    redactor: Option<Arc<Redactor>>,
    /// How many marks are about the line of the last one.
    on_line: usize,
    /// Models whose thinking has text somewhere.
    pub(super) thinks_aloud: HashSet<u64>,
    /// Signatures with the answers that they are in, and the text that each stands over.
    signed: HashMap<u64, u64>,
}

/// The last line of a file.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub(crate) struct Last {
    pub(crate) line: u64,
    pub(crate) is_ended: bool,
    pub(crate) is_damaged: bool,
    pub(crate) is_blank: bool,
    /// What is left of it is of a message, by all appearances.
    pub(crate) is_said: bool,
}

/// How many marks of one line are kept: enough for more images than a request may have.
const MARKS: usize = 256;

impl Examined {
    /// Looks for secrets too.
    pub(super) fn with(redactor: &Arc<Redactor>) -> Examined {
        Examined { redactor: Some(redactor.clone()), ..Examined::default() }
    }

    /// Looks at one line, with its records.
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
        // Only of what is cut off it must be guessed what it was.
        let is_said = !text.ends_with(b"}") && looks_said(text);
        self.last = Some(Last {
            line: number,
            is_ended: line.ended,
            is_damaged: false,
            is_blank: text.is_empty(),
            is_said,
        });
    }

    /// Looks at one record of the line.
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
        // A line made to be full of faults tells nothing more by its thousandth.
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
            self.mark(record, None, What::Content("has the role of somebody else"));
        }
        let shape = message.content().map(Json::shape);
        match shape {
            Some(Shape::String | Shape::Array) => {}
            None => self.mark(record, None, What::Content("has no content")),
            Some(_) => {
                self.mark(record, None, What::Content("is neither a text nor a list of blocks"));
            }
        }
        if message.blocks().next().is_none() {
            self.mark(record, None, What::NoBlocks);
        }
        let raw = message.json().raw();
        if memchr::memmem::find(raw, b"\\u").is_some() && mend_surrogates(raw).is_some() {
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
            return mark(What::Content("has a block that is no object"));
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
        // As they stand, with their quotes; texts are long, and nobody reads them here.
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
        // The same block again, with another text. Other answers with the same one have it from a test or a gateway.
        let over = self.signed.entry(digest(&(&*named("id"), signature)));
        let over = over.or_insert_with(|| digest(text));
        (*over != digest(text)).then_some(ThinkingFault::Altered)
    }

    /// Whether that is damage at the end, which is told as such.
    pub(crate) fn is_torn(&self, mark: &Mark) -> bool {
        self.last.is_some_and(|last| last.line == mark.line && last.is_damaged)
    }

    /// The last working directory that a record names.
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
        self.look_at_record(record, placed == Placed::Alone);
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

/// A name from the file that is told in a finding: cut, and hidden if somebody put a secret there.
pub(super) fn quoted(name: &str) -> String {
    if Redactor::default().find(name).is_empty() {
        name.chars().take(64).collect()
    } else {
        "(a secret)".to_owned()
    }
}

/// Whether what is left of a record is of a message: it says so, or was cut off before it could.
fn looks_said(text: &[u8]) -> bool {
    let has = |what: &str| memchr::memmem::find(text, what.as_bytes()).is_some();
    has("\"type\":\"user\"")
        || has("\"type\":\"assistant\"")
        || (text.starts_with(b"{\"parentUuid\"") && !has("\"type\":"))
}

/// The members that the API takes in a block of that type, there; none if it does not take the block.
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

/// What the API does not take in a call.
fn call(block: &Block<'_>) -> Option<&'static str> {
    let is_word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let name = block.field("name").unwrap_or_default();
    let id = block.field("id").unwrap_or_default();
    if !is_word(&id) {
        return Some("has an id with other characters than letters, digits, `_` and `-`");
    }
    if !is_word(&name) || name.len() > 200 {
        return Some("has a name with other characters than letters, digits, `_` and `-`");
    }
    let is_object = block.get("input").is_some_and(|input| input.shape() == Shape::Object);
    (!is_object).then_some("has an input that is no object")
}
