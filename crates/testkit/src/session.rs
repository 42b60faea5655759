//! Builds transcripts by hand, record by record.
//!
//! Ids are short words; `-` means no parent. Each record is one second later than the one before.

use std::fmt::Write;

/// A transcript under construction.
#[derive(Clone, Debug, Default)]
pub struct Script {
    text: String,
    seconds: u64,
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn parent(name: &str) -> String {
    if name == "-" { "null".to_owned() } else { quoted(name) }
}

impl Script {
    /// An empty transcript.
    pub fn new() -> Self {
        Script::default()
    }

    /// The contents of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Lets that many seconds pass.
    #[must_use]
    pub fn wait(mut self, seconds: u64) -> Self {
        self.seconds += seconds;
        self
    }

    /// Adds a record as it is.
    #[must_use]
    pub fn raw(mut self, json: &str) -> Self {
        self.text.push_str(json);
        self.text.push('\n');
        self
    }

    /// Adds a record of that type with the usual envelope, and these members. `under` is its
    /// parent.
    #[must_use]
    pub fn record(mut self, kind: &str, uuid: &str, under: &str, members: &str) -> Self {
        self.seconds += 1;
        let (minutes, seconds) = (self.seconds / 60, self.seconds % 60);
        let time = format!("2026-01-01T{:02}:{:02}:{seconds:02}.000Z", minutes / 60, minutes % 60);
        let members = if members.is_empty() { String::new() } else { format!(",{members}") };
        let line = format!(
            r#"{{"parentUuid":{},"isSidechain":false,"type":"{kind}","uuid":{},"timestamp":"{time}","sessionId":"s"{members}}}"#,
            parent(under),
            quoted(uuid),
        );
        self.raw(&line)
    }

    /// Adds a prompt of a person.
    #[must_use]
    pub fn prompt(self, uuid: &str, under: &str, text: &str) -> Self {
        let members = format!(r#""message":{{"role":"user","content":{}}}"#, quoted(text));
        self.record("user", uuid, under, &members)
    }

    /// Adds one block of an answer.
    #[must_use]
    pub fn block(self, uuid: &str, under: &str, answer: &str, block: &str) -> Self {
        let members = format!(
            r#""message":{{"id":"{answer}","role":"assistant","model":"m","content":[{block}],"stop_reason":null,"usage":{{"input_tokens":1,"output_tokens":2}}}}"#
        );
        self.record("assistant", uuid, under, &members)
    }

    /// Adds an answer with one text.
    #[must_use]
    pub fn says(self, uuid: &str, under: &str, answer: &str, text: &str) -> Self {
        let block = format!(r#"{{"type":"text","text":{}}}"#, quoted(text));
        self.block(uuid, under, answer, &block)
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(self, uuid: &str, under: &str, answer: &str, call: &str, tool: &str) -> Self {
        let block = format!(r#"{{"type":"tool_use","id":"{call}","name":"{tool}","input":{{}}}}"#);
        self.block(uuid, under, answer, &block)
    }

    /// Adds the result of a call.
    #[must_use]
    pub fn result(self, uuid: &str, under: &str, call: &str, text: &str) -> Self {
        let members = format!(
            r#""message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":{}}}]}}"#,
            quoted(text)
        );
        self.record("user", uuid, under, &members)
    }
}
