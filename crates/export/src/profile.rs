//! How a receiver is told: from what is known of a span to its attributes.
//!
//! [`Profile::Lean`] is one set of attributes that Langfuse, `OpenInference` (Phoenix, `MLflow`) and the conventions of OpenTelemetry for generative AI all understand, with one
//! copy of each text. [`Profile::Seed`] is what seed 002 describes. Both are listed in `docs/traces.md`. Invariants: a text leaves only through `Telling::text` or `Telling::content`, which hide
//! secrets and cut; what a setting keeps back is nowhere in the attributes.

mod lean;
mod seed;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value as Data;
use transcript::secret::{Mask, Redactor};
use transcript::time::Time;

use crate::content::Text;
use crate::span::{Level, Span, What};

/// How a receiver is told.
#[derive(Clone, Debug)]
pub struct Telling {
    /// Which attributes.
    pub profile: Profile,
    /// How much.
    pub content: Content,
    /// What finds the secrets that are hidden; nothing if none are.
    pub redact: Option<Arc<Redactor>>,
    /// How many bytes a text may have.
    pub longest: usize,
    /// Who the user is, if that is to be told.
    pub user: Option<String>,
    /// Words to find traces by.
    pub tags: Vec<String>,
    /// The environment, as Langfuse has it.
    pub environment: Option<String>,
    /// The project, as Phoenix has it.
    pub project: String,
}

/// As much as the client's own telemetry sends of a text.
pub const LONGEST: usize = 60 << 10;

impl Default for Telling {
    fn default() -> Self {
        Telling {
            profile: Profile::Lean,
            content: Content::Full,
            redact: Some(Arc::default()),
            longest: LONGEST,
            user: None,
            tags: vec!["claude-code".to_owned()],
            environment: None,
            project: "claude-code".to_owned(),
        }
    }
}

/// Which attributes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Those that all receivers understand.
    Lean,
    /// Those of seed 002.
    Seed,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Everything.
    Full,
    /// No texts: neither prompts, answers, inputs and results, nor messages of errors.
    Meta,
    /// Nor anything that names things: folders, branches, tasks.
    None,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A whole number.
    Number(i64),
    /// Any number.
    Float(f64),
}

/// A span as a receiver is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// What it is called.
    pub name: String,
    /// When it began and ended.
    pub times: [Time; 2],
    /// Whether it is a call to somebody else.
    pub is_client: bool,
    /// What is said of an error; nothing if there was none.
    pub error: Option<String>,
    /// Its attributes.
    pub attributes: Vec<(Cow<'static, str>, Value)>,
    /// What happened while it ran.
    pub events: Vec<(Time, String)>,
}

impl Telling {
    /// What is told of a span; nothing if the profile has no place for it.
    pub fn tell(&self, span: &Span) -> Option<Told> {
        match self.profile {
            Profile::Lean => Some(lean::tell(self, span)),
            Profile::Seed => seed::tell(self, span),
        }
    }

    /// A text without its secrets and not too long.
    fn text(&self, text: &str) -> String {
        let text = storable(text);
        let shown = self.mask().text(&text);
        cut(&shown, self.longest).unwrap_or_else(|| shown.into_owned())
    }

    /// The same for content, which may be JSON and then stays so.
    fn content(&self, original: &Text) -> Text {
        let text = storable(&original.text);
        // The strings of JSON are looked at as they are meant, not as they are written.
        let shown =
            if original.is_json { self.mask().json(&text) } else { self.mask().text(&text) };
        if shown.len() <= self.longest {
            return Text { text: shown.into_owned(), is_json: original.is_json };
        }
        let short = original.is_json.then(|| cut_json(&shown, self.longest)).flatten();
        let plain = || Text::plain(cut(&shown, self.longest).unwrap_or_default());
        short.map_or_else(plain, Text::json)
    }

    /// What hides secrets. How many there were nobody asks here.
    fn mask(&self) -> Mask<'_> {
        self.redact.as_deref().map_or_else(Mask::none, Mask::new)
    }

    /// What a span is called. Where nothing may be named, the names that people give are left out: those of servers and of agents.
    fn name(&self, span: &Span) -> String {
        match &span.what {
            What::Agent { .. } if !self.has_names() => "sub-agent".to_owned(),
            What::Tool { .. } if !self.has_names() && span.name.starts_with("mcp__") => {
                "mcp".to_owned()
            }
            _ => self.text(&span.name),
        }
    }

    fn has_texts(&self) -> bool {
        self.content == Content::Full
    }

    fn has_names(&self) -> bool {
        self.content != Content::None
    }
}

/// The attributes of a span, while they are collected.
struct Attributes<'a> {
    telling: &'a Telling,
    list: Vec<(Cow<'static, str>, Value)>,
}

impl<'a> Attributes<'a> {
    fn new(telling: &'a Telling) -> Self {
        Attributes { telling, list: Vec::with_capacity(32) }
    }

    /// Something that is known not to hold anything secret or long.
    fn put(&mut self, name: &'static str, value: impl Into<String>) {
        self.list.push((Cow::Borrowed(name), Value::Text(value.into())));
    }

    /// Text from a transcript.
    fn text(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        let value = self.telling.text(value);
        self.list.push((name.into(), Value::Text(value)));
    }

    fn texts(&mut self, name: &'static str, values: &[String]) {
        let values = values.iter().map(|value| self.telling.text(value)).collect();
        self.list.push((Cow::Borrowed(name), Value::Texts(values)));
    }

    fn number(&mut self, name: &'static str, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.list.push((Cow::Borrowed(name), Value::Number(value)));
    }

    fn float(&mut self, name: &'static str, value: f64) {
        self.list.push((Cow::Borrowed(name), Value::Float(value)));
    }

    /// How it went, as Langfuse has it. What an error says is content.
    fn level(&mut self, level: &Level) {
        let (name, message) = match level {
            Level::Default => return,
            Level::Warning(why) => ("WARNING", Some(why)),
            Level::Error(_, why) => ("ERROR", self.telling.has_texts().then_some(why)),
        };
        self.put("langfuse.observation.level", name);
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            self.text("langfuse.observation.status_message", message);
        }
    }
}

/// What an error says, if there was one and it may be said.
fn error(telling: &Telling, span: &Span) -> Option<String> {
    let Level::Error(kind, message) = &span.level else { return None };
    let text = if telling.has_texts() && !message.is_empty() { message } else { kind };
    Some(telling.text(text))
}

/// What Langfuse calls such a span.
fn kind(what: &What) -> &'static str {
    match what {
        What::Turn { .. } | What::Agent { .. } => "agent",
        What::Generation(_) => "generation",
        What::Tool { .. } => "tool",
        What::Compaction { .. } => "span",
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Databases behind receivers do not take NUL.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text that is too long, up to the limit and with a mark; nothing if it is not too long.
pub(crate) fn cut(text: &str, longest: usize) -> Option<String> {
    if text.len() <= longest {
        return None;
    }
    let mark = format!("…[cut: {} bytes in all]", text.len());
    let kept = floor(text, longest.saturating_sub(mark.len()));
    Some(format!("{}{mark}", &text[..kept]))
}

/// Shorter than this no text in JSON is cut.
const SHORTEST: usize = 64;

/// JSON whose long texts are cut until all of it fits; nothing if that does not help.
fn cut_json(text: &str, longest: usize) -> Option<String> {
    let whole: Data = serde_json::from_str(text).ok()?;
    let mut most = longest / 2;
    while most >= SHORTEST {
        let mut shorter = whole.clone();
        shorten(&mut shorter, most);
        let text = shorter.to_string();
        if text.len() <= longest {
            return Some(text);
        }
        most /= 2;
    }
    None
}

fn shorten(data: &mut Data, most: usize) {
    match data {
        Data::String(text) => {
            if let Some(short) = cut(text, most) {
                *text = short;
            }
        }
        Data::Array(list) => list.iter_mut().for_each(|item| shorten(item, most)),
        Data::Object(members) => members.values_mut().for_each(|value| shorten(value, most)),
        Data::Null | Data::Bool(_) | Data::Number(_) => {}
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
