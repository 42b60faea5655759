//! Writes a conversation as Markdown.
//!
//! For reading elsewhere: prompts as quotes, answers as they were written, calls as list items,
//! diffs and results as code blocks. What people and the model wrote is Markdown already and stays
//! as it is; a code block that it leaves open is closed. Text inside a code block that this module
//! opens cannot end it: the fence is longer than any fence in the text. Every text from the session
//! passes the writer's [`Mask`] before anything is cut or escaped.

use std::collections::BTreeMap;
use std::io::Write;

use crate::conversation::agents::{Owner, WithAgents};
use crate::conversation::graph::ChainId;
use crate::conversation::preview::Preview;
use crate::conversation::turn::Turn;
use crate::conversation::view::{
    self, Call, Detail, FileChange, Item, MessageView, Piece, Role, Show,
};
use crate::format::secret::Mask;
use crate::format::time::Time;

/// Writes a conversation.
#[derive(Debug)]
pub struct Writer<'a, W> {
    session: &'a WithAgents,
    show: Show,
    mask: Mask<'a>,
    out: W,
    /// The current nesting of sub-agents in sub-agents.
    depth: usize,
}

/// Down to which nesting sub-agents of sub-agents are written.
const DEEPEST: usize = 8;

impl<'a, W: Write> Writer<'a, W> {
    /// Creates a writer for the turns of a session.
    pub fn new(session: &'a WithAgents, show: Show, mask: Mask<'a>, out: W) -> Self {
        Writer { session, show, mask, out, depth: 0 }
    }

    /// How many secrets were redacted so far, by kind.
    pub fn hidden(&self) -> &BTreeMap<String, u64> {
        self.mask.hidden()
    }

    /// Writes the title and the facts of the session: id, folder, branch, client version, times.
    pub fn head(&mut self, id: &str, seen: &Preview) -> crate::Result<()> {
        let title = seen.title.as_deref().or(seen.prompt.as_deref()).unwrap_or(id);
        let title = self.mask.text(title);
        writeln!(self.out, "# {}\n", plain(&one_line(&title, 120)))?;
        let mut fact = |name: &str, value: Option<&str>| match value {
            Some(value) => {
                let value = self.mask.text(value);
                writeln!(self.out, "- {name}: {}", code(&one_line(&value, 400)))
            }
            None => Ok(()),
        };
        fact("Session", Some(id))?;
        fact("Folder", seen.cwd.as_deref())?;
        fact("Branch", seen.branch.as_deref().filter(|branch| !branch.is_empty()))?;
        fact("Claude Code", seen.version.as_deref())?;
        fact("From", seen.started.map(stamp).as_deref())?;
        fact("To", seen.ended.map(stamp).as_deref())?;
        Ok(())
    }

    /// Writes a heading before the turns of an abandoned branch.
    pub fn dead_end(&mut self, chain: Option<ChainId>) -> crate::Result<()> {
        let Some(chain) = chain else { return Ok(()) };
        let conversation = &self.session.main;
        let line = conversation.table.row(conversation.graph.chain(chain).first).line;
        Ok(writeln!(self.out, "\n---\n\n*Abandoned branch, from line {line}*")?)
    }

    /// Writes one turn.
    pub fn turn(&mut self, owner: Owner, turn: &Turn, number: usize) -> crate::Result<()> {
        let level = if owner == Owner::Main { 2 } else { 4 };
        let time = turn.times.map(|[start, _]| format!(", {}", stamp(start))).unwrap_or_default();
        writeln!(self.out, "\n{} Turn {number}{time}\n", "#".repeat(level))?;
        let session = self.session;
        for item in view::items(session, owner, turn) {
            let item = item?;
            if item.is_shown(self.show) {
                self.item(&item, level)?;
            }
        }
        if !turn.outcome.is_complete() {
            writeln!(self.out, "*({})*\n", turn.outcome.name())?;
        }
        Ok(())
    }

    /// Writes an item of a turn whose heading has that level.
    fn item(&mut self, item: &Item, level: usize) -> crate::Result<()> {
        match item {
            Item::Message(message) => self.message(message),
            Item::Answer(_) => Ok(()),
            Item::Block(block) => {
                block.piece.as_ref().map_or(Ok(()), |piece| self.piece(piece, level))
            }
            Item::Call(call) => self.call(call),
            Item::Orphan(orphan) => {
                writeln!(self.out, "- a result without its call\n")?;
                let text = orphan.text();
                let text = self.mask.text(&text);
                self.fenced("", &text, "  ")
            }
            Item::Event(event) => {
                let text = self.mask.text(&event.text);
                Ok(writeln!(self.out, "*{}*\n", plain(&one_line(&text, 400)))?)
            }
        }
    }

    fn message(&mut self, message: &MessageView) -> crate::Result<()> {
        let text = self.mask.text(&message.text);
        match message.role {
            Role::Output | Role::Hook | Role::Reminder => self.fenced("", &text, "")?,
            Role::Summary => self.folded("Summary of the conversation before", &text)?,
            Role::Interrupt => writeln!(self.out, "*{}*\n", plain(&one_line(&text, 200)))?,
            Role::Prompt | Role::Queued | Role::Notification | Role::Peer => {
                for line in text.lines() {
                    writeln!(self.out, "{}", format!("> {line}").trim_end())?;
                }
                writeln!(self.out)?;
            }
        }
        for words in message.content.iter().filter_map(Piece::in_words) {
            writeln!(self.out, "*{}*\n", plain(&self.mask.text(&words)))?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece, level: usize) -> crate::Result<()> {
        match piece {
            Piece::Text { text, .. } => {
                let text = self.mask.text(text);
                Ok(writeln!(self.out, "{}\n", below(&closed(text.trim_end()), level))?)
            }
            Piece::Thinking { text, .. } => {
                let text = self.mask.text(text);
                self.folded("Thinking", &text)
            }
            piece => match piece.in_words() {
                Some(words) => Ok(writeln!(self.out, "*{}*\n", plain(&self.mask.text(&words)))?),
                None => Ok(()),
            },
        }
    }

    fn call(&mut self, call: &Call) -> crate::Result<()> {
        let is_full = self.show.detail == Detail::Full;
        let is_error = call.result.as_ref().is_some_and(|result| result.error);
        let mut facts = call.facts();
        facts.extend(is_error.then(|| "failed".to_owned()));
        let facts: Vec<_> = facts.iter().map(|fact| self.mask.text(fact).into_owned()).collect();
        let about = one_line(&self.mask.text(&call.about), 200);
        let about = if about.is_empty() { about } else { format!(" {}", code(&about)) };
        let facts = if facts.is_empty() {
            String::new()
        } else {
            format!(" ({})", plain(&one_line(&facts.join(", "), 200)))
        };
        let tool = one_line(&self.mask.text(&call.tool), 100);
        writeln!(self.out, "- **{}**{about}{facts}\n", plain(&tool))?;
        if is_full {
            let input = self.mask.json(call.input.as_str());
            self.fenced("json", &input, "  ")?;
        }
        if let Some(result) = &call.result
            && (is_full || result.error)
        {
            let text = result.text();
            let text = self.mask.text(&text);
            self.fenced("", &text, "  ")?;
        }
        if call.is_cut() {
            writeln!(
                self.out,
                "  *(record too long for memory: the middle of its texts is missing)*\n"
            )?;
        }
        if let Some(file) = &call.file {
            let text = patch(file);
            let text = self.mask.text(&text);
            self.fenced("diff", &text, "  ")?;
        }
        let session = self.session;
        for at in &call.started {
            let agent = &session.agents[*at];
            let guess = agent.start.is_some_and(|start| start.is_guess);
            let guess = if guess { ", perhaps" } else { "" };
            let id = one_line(&self.mask.text(&agent.id), 100);
            writeln!(self.out, "  Sub-agent {}{guess}\n", code(&id))?;
            if is_full && self.depth < DEEPEST {
                self.depth += 1;
                for (number, turn) in (1..).zip(session.turns(agent)) {
                    self.turn(Owner::Agent(*at), &turn, number)?;
                }
                self.depth -= 1;
            }
        }
        Ok(())
    }

    /// Writes a text in a collapsed section, which nothing in the text can end.
    fn folded(&mut self, title: &str, text: &str) -> crate::Result<()> {
        let text = closed(text.trim()).replace("</details>", "&lt;/details>");
        writeln!(self.out, "<details><summary>{title}</summary>\n\n{text}\n\n</details>\n")?;
        Ok(())
    }

    /// Writes a code block, which nothing in the text can end. Writes nothing for an empty text.
    fn fenced(&mut self, language: &str, text: &str, indent: &str) -> crate::Result<()> {
        let text = text.trim_end();
        if text.is_empty() {
            return Ok(());
        }
        let ticks = longest_run(text).max(2) + 1;
        let fence = "`".repeat(ticks);
        writeln!(self.out, "{indent}{fence}{language}")?;
        for line in text.lines() {
            writeln!(self.out, "{}", format!("{indent}{line}").trim_end())?;
        }
        Ok(writeln!(self.out, "{indent}{fence}\n")?)
    }
}

/// Closes a code block that a Markdown text leaves open, so that it does not continue after the
/// text.
fn closed(text: &str) -> String {
    let mut fence = Fence::default();
    for line in text.lines() {
        fence.line(line);
    }
    match fence.open {
        Some((mark, run)) => format!("{text}\n{}", mark.to_string().repeat(run)),
        None => text.to_owned(),
    }
}

/// Finds where code blocks begin and end in a Markdown text.
#[derive(Default)]
struct Fence {
    /// The sign and the length of the fence that is open.
    open: Option<(char, usize)>,
}

impl Fence {
    /// Takes the next line. Returns whether it belongs to a code block.
    fn line(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| "`~".contains(*mark));
        let run = mark.map_or(0, |mark| line.chars().take_while(|c| *c == mark).count());
        match (self.open, mark) {
            (None, Some(mark)) if run >= 3 => self.open = Some((mark, run)),
            (None, _) => return false,
            (Some((open, least)), Some(mark))
                if open == mark && run >= least && line[run..].trim().is_empty() =>
            {
                self.open = None;
            }
            (Some(_), _) => {}
        }
        true
    }
}

/// The length of the longest run of backquotes in a text.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// The unified diff of a change.
fn patch(file: &FileChange) -> String {
    let mut text = String::new();
    for hunk in &file.diff {
        let count =
            |signs: [char; 2]| hunk.signed().filter(|(sign, _)| signs.contains(sign)).count();
        if let Some([old, new]) = hunk.start {
            let (before, after) = (count([' ', '-']), count([' ', '+']));
            text.extend([format!("@@ -{old},{before} +{new},{after} @@\n")]);
        }
        text.extend(hunk.lines.iter().map(|line| format!("{line}\n")));
    }
    text
}

/// Pushes the headings of a Markdown text below a heading of that level.
fn below(text: &str, level: usize) -> String {
    let mut fence = Fence::default();
    let lines = text.lines().map(|line| {
        let is_code = fence.line(line);
        let depth = line.chars().take_while(|c| *c == '#').count();
        let is_heading = (1..=6).contains(&depth) && line[depth..].starts_with([' ', '\t']);
        if is_code || !is_heading {
            return line.to_owned();
        }
        format!("{}{}", "#".repeat((depth + level).min(6)), &line[depth..])
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Escapes a text, so that Markdown shows it as it is.
fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_[]<>#|".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// A text as inline code.
fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn stamp(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.0)
        .map(|moment| format!("{moment:.0}"))
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
