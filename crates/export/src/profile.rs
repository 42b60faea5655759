//! Maps what is known of a span to the attributes that a receiver gets.
//!
//! [`Profile::Lean`] is one set of attributes that Langfuse, `OpenInference` (Phoenix, `MLflow`)
//! and the OpenTelemetry conventions for generative AI all understand, with one copy of each text.
//! [`Profile::CcLangfuse`] is what the cc-langfuse hook sends. `docs/traces.md` lists both.
//! Invariants: a text leaves only through `Telling::text` or `Telling::content`, which redact
//! secrets and cut long texts; what a setting withholds is nowhere in the attributes.

mod cc_langfuse;
mod lean;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Data;
use transcript::conversation::place::{Agent, Session, secrets};
use transcript::format::secret::{Cover, Mask, Redactor};
use transcript::format::time::Time;

use crate::content::Text;
use crate::span::{Level, Span, What};

/// What is sent of a span, and in which form.
#[derive(Clone, Debug)]
pub struct Telling {
    /// Which set of attributes is sent.
    pub profile: Profile,
    /// How much of the session is sent.
    pub content: Content,
    /// Finds the secrets to redact; None if nothing is redacted.
    pub redact: Option<Arc<Redactor>>,
    /// The secrets of the session that is told of: each is hidden wherever it stands.
    pub known: Option<Arc<Cover>>,
    /// The most bytes that a text may have.
    pub longest: usize,
    /// The id of the user, if it is to be sent.
    pub user: Option<String>,
    /// Tags to find traces by.
    pub tags: Vec<String>,
    /// The environment, in Langfuse's sense.
    pub environment: Option<String>,
    /// The project, in Phoenix's sense.
    pub project: String,
}

/// How many bytes of a text are sent by default: as many as the client's own telemetry sends.
pub const LONGEST: usize = 60 << 10;

impl Default for Telling {
    fn default() -> Self {
        Telling {
            profile: Profile::Lean,
            content: Content::Full,
            redact: Some(Arc::default()),
            known: None,
            longest: LONGEST,
            user: None,
            tags: vec!["claude-code".to_owned()],
            environment: None,
            project: "claude-code".to_owned(),
        }
    }
}

/// Which set of attributes is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Attributes that all receivers understand.
    Lean,
    /// The attributes of the cc-langfuse hook.
    CcLangfuse,
}

/// How much of a session is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Everything.
    Full,
    /// No texts: no prompts, answers, inputs, results or error messages.
    Meta,
    /// Also nothing that people name: no folders, branches or tasks.
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

/// A span in the form in which a receiver gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The name of the span.
    pub name: String,
    /// When the span began and ended.
    pub times: [Time; 2],
    /// Whether it is a call to another service.
    pub is_client: bool,
    /// The error message; None if there was no error.
    pub error: Option<String>,
    /// The attributes, as names and values.
    pub attributes: Vec<(Cow<'static, str>, Value)>,
    /// What happened while it ran, with times.
    pub events: Vec<(Time, String)>,
}

impl Telling {
    /// The same for the spans of a session, whose files are looked through for secrets. The
    /// placeholders have no numbers: turns are sent one by one, while the session grows.
    pub fn of_session(&self, session: &Session, agents: &[Agent]) -> transcript::Result<Telling> {
        let Some(redactor) = &self.redact else { return Ok(self.clone()) };
        let values = secrets(session, agents.to_vec(), redactor)?;
        let cover = Cover::new(Arc::clone(redactor), values).without_numbers();
        Ok(Telling { known: Some(Arc::new(cover)), ..self.clone() })
    }

    /// What is sent of a span; None if the profile has no place for it.
    pub fn tell(&self, span: &Span) -> Option<Told> {
        match self.profile {
            Profile::Lean => Some(lean::tell(self, span)),
            Profile::CcLangfuse => cc_langfuse::tell(self, span),
        }
    }

    /// The text with its secrets redacted, and cut if it is too long.
    fn text(&self, text: &str) -> String {
        let text = storable(text);
        let shown = self.mask().text(&text);
        cut(&shown, self.longest).unwrap_or_else(|| shown.into_owned())
    }

    /// The same for content, which may be JSON and then stays JSON.
    fn content(&self, original: &Text) -> Text {
        let text = storable(&original.text);
        // Strings in JSON are examined after decoding, not as they are written.
        let shown =
            if original.is_json { self.mask().json(&text) } else { self.mask().text(&text) };
        if shown.len() <= self.longest {
            return Text { text: shown.into_owned(), is_json: original.is_json };
        }
        let short = original.is_json.then(|| cut_json(&shown, self.longest)).flatten();
        let plain = || Text::plain(cut(&shown, self.longest).unwrap_or_default());
        short.map_or_else(plain, Text::json)
    }

    /// Redacts secrets. The number of secrets is not needed here.
    fn mask(&self) -> Mask<'_> {
        match (&self.known, &self.redact) {
            (Some(known), _) => Mask::of(known),
            (None, Some(redactor)) => Mask::new(redactor),
            (None, None) => Mask::none(),
        }
    }

    /// The name of a span. If names are withheld, names that people give (to MCP servers and
    /// agents) are replaced.
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

    /// Adds a value that cannot contain secrets and cannot be long.
    fn put(&mut self, name: &'static str, value: impl Into<String>) {
        self.list.push((Cow::Borrowed(name), Value::Text(value.into())));
    }

    /// Adds a text from the transcript.
    fn text(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        let value = self.telling.text(value);
        self.list.push((name.into(), Value::Text(value)));
    }

    /// Adds those of these texts that there are.
    fn known<const N: usize>(&mut self, texts: [(&'static str, &Option<String>); N]) {
        for (name, value) in texts {
            if let Some(value) = value {
                self.text(name, value);
            }
        }
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

    /// Adds the outcome in Langfuse's form. An error message counts as content.
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

/// The error message if there was an error; only the kind of error if texts are withheld.
fn error(telling: &Telling, span: &Span) -> Option<String> {
    let Level::Error(kind, message) = &span.level else { return None };
    let text = if telling.has_texts() && !message.is_empty() { message } else { kind };
    Some(telling.text(text))
}

/// The type of such a span in Langfuse.
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

/// Replaces NUL, which the databases of receivers do not accept.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text that is too long, cut at the limit and marked; None if it is not too long.
pub(crate) fn cut(text: &str, longest: usize) -> Option<String> {
    if text.len() <= longest {
        return None;
    }
    let mark = format!("…[cut: {} bytes in all]", text.len());
    let kept = floor(text, longest.saturating_sub(mark.len()));
    Some(format!("{}{mark}", &text[..kept]))
}

/// Texts in JSON are not cut to fewer bytes than this.
const SHORTEST: usize = 64;

/// JSON whose long texts are cut until all of it fits; None if that does not suffice.
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
