//! The hook in the client's settings: finds, adds and removes it.
//!
//! Text in, text out; no file is touched here. The text is the user's, so it is never written anew:
//! an edit changes one place in it and leaves the rest. What is added goes on its own lines if its
//! neighbours do, with their indentation; else on their line. Invariants: text that an edit is not
//! about keeps its bytes; removing what was added restores the original text, except for empty
//! values, which mean nothing: an empty file has become `{}`, and an empty `hooks` or list is gone.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use transcript::format::json::{Json, Shape, quote};

use super::program;
use crate::text::shell_word;

/// The client's names for the end of a turn, of a sub-agent, and of a session.
pub(super) const EVENTS: [&str; 3] = ["Stop", "SubagentStop", "SessionEnd"];

/// How many seconds the client waits for the hook.
const TIMEOUT: u32 = 10;

/// What some editors put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The indentation if the text does not show one.
const INDENT: &str = "  ";

/// Why settings are left alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command of ours.
#[derive(Debug)]
pub(super) struct Hook<'a> {
    pub(super) event: &'static str,
    pub(super) command: Cow<'a, str>,
    /// The program that the command runs.
    pub(super) program: String,
    /// Where the command is in the text.
    place: Range<usize>,
    /// The lists and objects around it, from the inside out, and which of their children contains
    /// it.
    around: [(Node<'a>, usize); 4],
}

/// The commands of ours. `exe` is this program.
pub(super) fn hooks<'a>(text: &'a str, exe: &str) -> Result<Vec<Hook<'a>>, Wrong> {
    let mut found = Vec::new();
    let Some(root) = read(text)? else { return Ok(found) };
    let Some((in_root, hooks)) = expect(text, root, "hooks", Shape::Object)? else {
        return Ok(found);
    };
    for event in EVENTS {
        let Some((in_hooks, groups)) = expect(text, hooks, event, Shape::Array)? else { continue };
        for (in_groups, group) in groups.children().iter().enumerate() {
            let Some((_, commands)) = group.value.member("hooks") else { continue };
            for (in_commands, entry) in commands.children().iter().enumerate() {
                let Some((_, node)) = entry.value.member("command") else { continue };
                let Some(command) = node.json.text() else { continue };
                let Some((program, _)) = program::of_ours(&command, exe) else { continue };
                let around = [
                    (commands, in_commands),
                    (groups, in_groups),
                    (hooks, in_hooks),
                    (root, in_root),
                ];
                found.push(Hook { event, command, program, place: node.range(), around });
            }
        }
    }
    Ok(found)
}

/// Whether the client is told to run no hooks at all.
pub(super) fn are_off(text: &str) -> Result<bool, Wrong> {
    let switch = read(text)?.and_then(|root| root.member("disableAllHooks"));
    Ok(switch.is_some_and(|(_, node)| node.json.bool() == Some(true)))
}

/// The text with this program's hook.
pub(super) fn install(text: &str, exe: &str) -> Result<String, Wrong> {
    let mut text = match read(text)? {
        Some(_) => text.to_owned(),
        None => format!("{}{{}}\n", mark(text)),
    };
    for event in EVENTS {
        while let Some(next) = toward(&text, event, exe)? {
            text = next;
        }
    }
    Ok(text)
}

/// The text without our hooks.
pub(super) fn uninstall(text: &str, exe: &str) -> Result<String, Wrong> {
    let mut text = text.to_owned();
    loop {
        let next = hooks(&text, exe)?.first().map(|hook| without(&text, hook));
        match next {
            Some(next) => text = next,
            None => return Ok(text),
        }
    }
}

/// One step toward the hook for an event; `None` if it is already there.
fn toward(text: &str, event: &'static str, exe: &str) -> Result<Option<String>, Wrong> {
    let mut found = hooks(text, exe)?;
    found.retain(|hook| hook.event == event);
    if found.is_empty() {
        return add(text, event, exe).map(Some);
    }
    let other = found.iter().find(|hook| hook.program != exe);
    Ok(other.and_then(|hook| {
        let (_, rest) = program::of_ours(&hook.command, exe)?;
        Some(splice(text, hook.place.clone(), &quote(&(shell_word(exe) + rest))))
    }))
}

/// The text with one more hook.
fn add(text: &str, event: &str, exe: &str) -> Result<String, Wrong> {
    let Some(root) = read(text)? else { return Ok(text.to_owned()) };
    let layout = Layout::of(text, root);
    let command = program::command(exe);
    let group = json!({ "hooks": [{ "type": "command", "command": command, "timeout": TIMEOUT }] });
    if root.is_empty() {
        let all = layout.written(&json!({ "hooks": { event: [group] } }), Some(""));
        return Ok(splice(text, root.range(), &all));
    }
    let hooks = expect(text, root, "hooks", Shape::Object)?.filter(|(_, node)| !node.is_empty());
    let Some((_, hooks)) = hooks else {
        return Ok(layout.with_member(root, "hooks", &json!({ event: [group] })));
    };
    let groups = expect(text, hooks, event, Shape::Array)?.filter(|(_, node)| !node.is_empty());
    let Some((_, groups)) = groups else {
        return Ok(layout.with_member(hooks, event, &json!([group])));
    };
    Ok(layout.with_last(groups, "", &group))
}

/// The text without one hook, and without what that would leave empty.
fn without(text: &str, hook: &Hook<'_>) -> String {
    for (node, number) in hook.around {
        let children = node.children();
        let (child, next) = (&children[number], children.get(number + 1));
        let range = match (number.checked_sub(1), next) {
            (_, Some(next)) => child.start..next.start,
            (Some(before), None) => children[before].value.end()..child.value.end(),
            // It is the only child: its parent is removed as a whole.
            (None, None) => continue,
        };
        return splice(text, range, "");
    }
    let [.., (root, _)] = hook.around;
    splice(text, root.range(), "{}")
}

/// The text with something else in that place.
fn splice(text: &str, place: Range<usize>, new: &str) -> String {
    [&text[..place.start], new, &text[place.end..]].concat()
}

fn mark(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len()]
}

/// The object that the text contains; `None` if the text is blank.
fn read(text: &str) -> Result<Option<Node<'_>>, Wrong> {
    let body = &text[mark(text).len()..];
    let body = body.trim_start_matches([' ', '\t', '\r', '\n']);
    let start = text.len() - body.len();
    if body.is_empty() {
        return Ok(None);
    }
    // One parser reports why and on which line something is not JSON; the other reports positions.
    let whole: Result<IgnoredAny, _> = serde_json::from_str(&text[mark(text).len()..]);
    whole.map_err(|error| Wrong(format!("it is not JSON: {error}")))?;
    let root = Json::parse(body.as_bytes()).map(|json| Node { json, start });
    match root.filter(|root| root.json.shape() == Shape::Object) {
        Some(root) => Ok(Some(root)),
        None => Err(Wrong(format!("{}: it is not a JSON object", line(text, start)))),
    }
}

/// A member, if there is one; it must have that shape.
fn expect<'a>(
    text: &str,
    node: Node<'a>,
    name: &str,
    shape: Shape,
) -> Result<Option<(usize, Node<'a>)>, Wrong> {
    match node.member(name) {
        Some((_, member)) if member.json.shape() != shape => {
            let noun = if shape == Shape::Array { "a list" } else { "an object" };
            Err(Wrong(format!("{}: `{name}` is not {noun}", line(text, member.start))))
        }
        found => Ok(found),
    }
}

fn line(text: &str, place: usize) -> String {
    format!("line {}", text[..place].matches('\n').count() + 1)
}

/// A value, and where it begins in the text.
#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    json: Json<'a>,
    start: usize,
}

/// A member of an object, which begins with its name, or an element of a list.
struct Child<'a> {
    name: Option<Cow<'a, str>>,
    start: usize,
    value: Node<'a>,
}

impl<'a> Node<'a> {
    fn end(self) -> usize {
        self.start + self.json.raw().len()
    }

    fn range(self) -> Range<usize> {
        self.start..self.end()
    }

    fn is_empty(self) -> bool {
        self.children().is_empty()
    }

    /// Its children; none if it is neither a list nor an object.
    fn children(self) -> Vec<Child<'a>> {
        let node = |json, at: usize| Node { json, start: self.start + at };
        let Some(object) = self.json.object() else {
            let elements = self.json.elements().zip(self.json.places());
            let nodes = elements.map(|(json, place)| node(json, place.start));
            return nodes.map(|value| Child { name: None, start: value.start, value }).collect();
        };
        let members = object.members().zip(object.places()).map(|((name, json), [key, value])| {
            // Includes the quote before the name.
            let start = self.start + key.start - 1;
            Child { name: Some(name), start, value: node(json, value.start) }
        });
        members.collect()
    }

    /// The member with that name, and which child it is. If there are duplicates, the last one
    /// counts, as in the client.
    fn member(self, name: &str) -> Option<(usize, Node<'a>)> {
        let children = self.children();
        let number = children.iter().rposition(|one| one.name.as_deref() == Some(name))?;
        Some((number, children[number].value))
    }
}

/// How a text is laid out.
#[derive(Debug)]
struct Layout<'a> {
    text: &'a str,
    newline: &'static str,
    indent: &'a str,
}

impl<'a> Layout<'a> {
    fn of(text: &'a str, root: Node<'_>) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut layout = Layout { text, newline, indent: INDENT };
        layout.indent = layout.inside(root).unwrap_or(INDENT);
        layout
    }

    /// The indentation of a value's children; `None` if they are on its own line.
    fn inside(&self, node: Node<'_>) -> Option<&'a str> {
        let children = node.children();
        let (first, last) = (children.first()?, children.last()?);
        let is_below = self.text[node.start..first.start].contains('\n');
        let line = self.text[..last.start].rsplit('\n').next().unwrap_or_default();
        let bare = line.trim_start_matches([' ', '\t']);
        is_below.then(|| &line[..line.len() - bare.len()])
    }

    /// A value on several lines, all but the first with `before` in front; on one line if that is
    /// `None`.
    fn written(&self, value: &Value, before: Option<&str>) -> String {
        let Some(before) = before else { return value.to_string() };
        let text = format!("{value:#}");
        let lines = text.lines().map(|line| {
            let bare = line.trim_start();
            self.indent.repeat((line.len() - bare.len()) / 2) + bare
        });
        lines.collect::<Vec<_>>().join(&format!("{}{before}", self.newline))
    }

    /// The text with a member in an object that is not empty: replaces the existing one, else is
    /// added at the end.
    fn with_member(&self, node: Node<'_>, name: &str, value: &Value) -> String {
        let before = self.inside(node);
        if let Some((_, old)) = node.member(name) {
            return splice(self.text, old.range(), &self.written(value, before));
        }
        let space = if before.is_some() { " " } else { "" };
        self.with_last(node, &format!("{}:{space}", quote(name)), value)
    }

    /// The text with one more child in a value that is not empty. `name` is the text before the
    /// child.
    fn with_last(&self, node: Node<'_>, name: &str, value: &Value) -> String {
        let before = self.inside(node);
        let end = node.children().last().map_or(node.start + 1, |last| last.value.end());
        let gap = before.map_or(String::new(), |before| format!("{}{before}", self.newline));
        let new = format!(",{gap}{name}{}", self.written(value, before));
        splice(self.text, end..end, &new)
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
