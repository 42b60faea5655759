//! The members of a cell as they are in the text, in their order, and how they are written.
//!
//! Invariant: a cell that is read and written again has the same bytes, if the notebook is indented
//! as Jupyter does it, with any number of spaces.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How a notebook is indented.
pub(super) struct Style<'a> {
    newline: &'static str,
    /// One level; None if everything is on one line.
    unit: Option<&'a str>,
}

impl<'a> Style<'a> {
    /// The indentation of the first member is taken for that of all members.
    pub(super) fn of(text: &'a str) -> Style<'a> {
        let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
        let space = &inside[..inside.len() - inside.trim_start().len()];
        let newline = if space.contains("\r\n") { "\r\n" } else { "\n" };
        Style { newline, unit: space.rsplit_once('\n').map(|(_, unit)| unit) }
    }

    /// A line break and the indentation of the next line.
    pub(super) fn line(&self, depth: usize) -> String {
        match self.unit {
            Some(unit) => format!("{}{}", self.newline, unit.repeat(depth)),
            None => String::new(),
        }
    }

    /// The separator between two values.
    pub(super) fn between(&self, depth: usize) -> String {
        match self.unit {
            Some(_) => format!(",{}", self.line(depth)),
            None => ", ".to_owned(),
        }
    }
}

/// The members of a cell: names, and values as they are in the text.
#[derive(Clone)]
pub(super) struct Members<'a>(Vec<(String, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, Cow<'de, str>)>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a cell")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, Cow::Borrowed(value.get())));
                }
                Ok(members)
            }
        }

        from.deserialize_map(InOrder).map(Members)
    }
}

impl Members<'_> {
    /// A new cell.
    pub(super) fn new(kind: &str, id: Option<&str>, source: &str, style: &Style<'_>) -> Self {
        let mut cell = Members(Vec::new());
        cell.set("metadata", "{}".to_owned());
        if let Some(id) = id {
            cell.set("id", quoted(id));
        }
        cell.become_kind(kind);
        cell.set_source(source, style);
        cell
    }

    /// The value of a member that is a text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        serde_json::from_str(value).ok()
    }

    /// Sets a member. A new one is inserted in alphabetical order, as in Jupyter.
    fn set(&mut self, name: &str, value: String) {
        let value = Cow::Owned(value);
        if let Some(member) = self.0.iter_mut().find(|(key, _)| key == name) {
            member.1 = value;
            return;
        }
        let at = self.0.iter().position(|(key, _)| key.as_str() > name);
        self.0.insert(at.unwrap_or(self.0.len()), (name.to_owned(), value));
    }

    /// Changes the kind of the cell. Only code has results, and results of other code are removed.
    pub(super) fn become_kind(&mut self, kind: &str) {
        if self.text("cell_type").as_deref() != Some(kind) {
            self.set("cell_type", quoted(kind));
        }
        if kind == "code" {
            self.set("execution_count", "null".to_owned());
            self.set("outputs", "[]".to_owned());
        } else {
            self.0.retain(|(name, _)| !matches!(name.as_str(), "execution_count" | "outputs"));
        }
    }

    /// Sets the source: a list of lines, or one text if it was one.
    pub(super) fn set_source(&mut self, source: &str, style: &Style<'_>) {
        let is_text = self.text("source").is_some();
        let lines: Vec<String> = source.split_inclusive('\n').map(quoted).collect();
        let value = if is_text {
            quoted(source)
        } else if lines.is_empty() {
            "[]".to_owned()
        } else {
            let lines = lines.join(&style.between(4));
            format!("[{}{lines}{}]", style.line(4), style.line(3))
        };
        self.set("source", value);
    }

    /// The cell as it is written in a notebook.
    pub(super) fn written(&self, style: &Style<'_>) -> String {
        let members: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
        let members = members.join(&style.between(3));
        format!("{{{}{members}{}}}", style.line(3), style.line(2))
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
