//! A conversation as Markdown.
//!
//! For reading elsewhere: prompts as quotes, answers as they were written, calls as list items, diffs and results as code blocks. What people and
//! the model wrote is Markdown already and stays so; a code block that it leaves open is closed. What is inside a code block of ours cannot end it: its fence is
//! longer than any in it. Every text from the session passes the writer's [`Mask`] before anything is cut or escaped.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::diff::{Action, Touched};
use crate::event::event;
use crate::family::{Family, Owner};
use crate::glance::Glance;
use crate::graph::ChainId;
use crate::input::{Input, typed};
use crate::secret::Mask;
use crate::table::{BlockId, RowId};
use crate::time::Time;
use crate::turn::{Piece, Step, Turn, What};

/// What is to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The model's thinking.
    pub thinking: bool,
    /// Inputs and results of calls, reminders, notes of the client, and what sub-agents did.
    pub full: bool,
}

/// Writes a conversation.
#[derive(Debug)]
pub struct Writer<'a, W> {
    family: &'a Family,
    options: Options,
    mask: Mask<'a>,
    out: W,
    /// How deep in agents of agents.
    depth: usize,
}

/// How deep agents of agents are written.
const DEEPEST: usize = 8;

impl<'a, W: Write> Writer<'a, W> {
    /// For the turns of a session.
    pub fn new(family: &'a Family, options: Options, mask: Mask<'a>, out: W) -> Self {
        Writer { family, options, mask, out, depth: 0 }
    }

    /// How many secrets were hidden so far, by kind.
    pub fn hidden(&self) -> &BTreeMap<String, u64> {
        self.mask.hidden()
    }

    /// Writes what the session is.
    pub fn head(&mut self, id: &str, seen: &Glance) -> io::Result<()> {
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
        fact("To", seen.ended.map(stamp).as_deref())
    }

    /// Writes where the turns of a dead branch begin.
    pub fn dead_end(&mut self, chain: Option<ChainId>) -> io::Result<()> {
        let Some(chain) = chain else { return Ok(()) };
        let conversation = &self.family.main;
        let line = conversation.table.row(conversation.graph.chain(chain).first).line;
        writeln!(self.out, "\n---\n\n*Not on the live chain: from line {line} on*")
    }

    /// Writes one turn.
    pub fn turn(&mut self, owner: Owner, turn: &Turn, number: usize) -> io::Result<()> {
        let conversation = self.family.of(owner);
        let level = if owner == Owner::Main { "##" } else { "####" };
        let time = turn.times.map(|[start, _]| format!(", {}", stamp(start))).unwrap_or_default();
        writeln!(self.out, "\n{level} Turn {number}{time}\n")?;
        for step in &turn.steps {
            match step {
                Step::Said(row) => self.write_input(owner, *row)?,
                Step::Answer { blocks, .. } => {
                    for block in blocks {
                        if conversation.table.part(*block).kind.is_call() {
                            self.call(owner, *block)?;
                        } else {
                            for piece in conversation.pieces(&[*block])? {
                                self.piece(&piece)?;
                            }
                        }
                    }
                }
                Step::Orphan(block) => {
                    let (pieces, _) = conversation.result(*block)?;
                    writeln!(self.out, "- a result without its call\n")?;
                    let text = words(&pieces);
                    let text = self.mask.text(&text);
                    self.fenced("", &text, "  ")?;
                }
                Step::Event(row) => {
                    let seen = conversation.look(*row, event)?;
                    if seen.matters {
                        let text = self.mask.text(&seen.text);
                        writeln!(self.out, "*{}*\n", plain(&one_line(&text, 400)))?;
                    }
                }
            }
        }
        if !turn.outcome.is_complete() {
            writeln!(self.out, "*({})*\n", turn.outcome.name())?;
        }
        Ok(())
    }

    fn write_input(&mut self, owner: Owner, row: RowId) -> io::Result<()> {
        let conversation = self.family.of(owner);
        let input = conversation.table.row(row).input;
        if matches!(input, Some(Input::Meta | Input::Preface)) && !self.options.full {
            return Ok(());
        }
        let pieces = conversation.pieces_of(row)?;
        let texts = pieces.iter().filter_map(|piece| match &piece.what {
            What::Text(text) => Some(text.as_str().into()),
            _ => None,
        });
        let text = typed(texts).unwrap_or_default();
        let text = self.mask.text(&text);
        match input {
            Some(Input::Output | Input::Hook | Input::Meta | Input::Preface) => {
                if !text.trim().is_empty() {
                    self.fenced("", &text, "")?;
                }
            }
            Some(Input::Summary) => {
                writeln!(
                    self.out,
                    "<details><summary>Summary of what was said before</summary>\n"
                )?;
                writeln!(self.out, "{}\n\n</details>\n", text.trim())?;
            }
            Some(Input::Interrupt) => writeln!(self.out, "*{}*\n", plain(&one_line(&text, 200)))?,
            _ => {
                for line in text.lines() {
                    writeln!(self.out, "{}", format!("> {line}").trim_end())?;
                }
                writeln!(self.out)?;
            }
        }
        for piece in pieces.iter().filter(|piece| !matches!(piece.what, What::Text(_))) {
            self.piece(piece)?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> io::Result<()> {
        match &piece.what {
            What::Text(text) if text.trim().is_empty() => Ok(()),
            What::Text(text) => {
                let text = self.mask.text(text);
                writeln!(self.out, "{}\n", closed(text.trim_end()))
            }
            What::Thinking(text) => {
                if !self.options.thinking || text.trim().is_empty() {
                    return Ok(());
                }
                let text = self.mask.text(text);
                self.folded("Thinking", &text)
            }
            What::Redacted if !self.options.thinking => Ok(()),
            what => {
                let text = aside(what);
                writeln!(self.out, "*[{}]*\n", plain(&self.mask.text(&text)))
            }
        }
    }

    fn call(&mut self, owner: Owner, block: BlockId) -> io::Result<()> {
        let conversation = self.family.of(owner);
        let call = conversation.call(block)?;
        let mut facts = Vec::new();
        if let Some(touched) =
            call.touched.as_ref().filter(|touched| touched.action != Action::Read)
        {
            let [added, removed] = touched.counts();
            facts.push(format!("+{added} −{removed}"));
        }
        match &call.result {
            None => facts.push("no result".to_owned()),
            Some(result) if result.is_error => facts.push("failed".to_owned()),
            Some(result) => {
                let outcome = result.outcome.as_deref();
                facts.extend(outcome.map(|outcome| self.mask.text(outcome).into_owned()));
            }
        }
        let about = one_line(&self.mask.text(&call.about), 200);
        let about = if about.is_empty() { about } else { format!(" {}", code(&about)) };
        let facts = if facts.is_empty() {
            String::new()
        } else {
            format!(" ({})", plain(&one_line(&facts.join(", "), 200)))
        };
        let tool = one_line(&self.mask.text(&call.tool), 100);
        writeln!(self.out, "- **{}**{about}{facts}\n", plain(&tool))?;
        if self.options.full {
            let input = String::from_utf8_lossy(&call.input);
            let input = self.mask.json(&input);
            self.fenced("json", &input, "  ")?;
        }
        if let Some(result) = &call.result
            && (self.options.full || result.is_error)
        {
            let text = words(&result.pieces);
            let text = self.mask.text(&text);
            self.fenced("", &text, "  ")?;
        }
        if call.is_cut {
            writeln!(self.out, "  *(too long to be held: texts have lost their middle)*\n")?;
        }
        if let Some(touched) = &call.touched {
            let text = patch(touched);
            let text = self.mask.text(&text);
            self.fenced("diff", &text, "  ")?;
        }
        for at in self.family.started(owner, block).to_vec() {
            let agent = &self.family.agents[at];
            let guess = agent.start.is_some_and(|start| start.is_guess);
            let guess = if guess { ", perhaps" } else { "" };
            let id = one_line(&self.mask.text(&agent.id), 100);
            writeln!(self.out, "  Sub-agent {}{guess}\n", code(&id))?;
            if self.options.full && self.depth < DEEPEST {
                self.depth += 1;
                for (number, turn) in (1..).zip(self.family.turns(agent)) {
                    self.turn(Owner::Agent(at), &turn, number)?;
                }
                self.depth -= 1;
            }
        }
        Ok(())
    }

    /// A text that is folded away. Nothing in it ends the fold.
    fn folded(&mut self, title: &str, text: &str) -> io::Result<()> {
        let text = closed(text.trim()).replace("</details>", "&lt;/details>");
        writeln!(self.out, "<details><summary>{title}</summary>\n\n{text}\n\n</details>\n")
    }

    /// A code block that nothing in it can end. Nothing for no text.
    fn fenced(&mut self, language: &str, text: &str, indent: &str) -> io::Result<()> {
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
        writeln!(self.out, "{indent}{fence}\n")
    }
}

/// A text of Markdown whose last code block is closed, so that it ends with the text.
fn closed(text: &str) -> String {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(mark) = line.chars().next().filter(|mark| "`~".contains(*mark)) else { continue };
        let run = line.chars().take_while(|c| *c == mark).count();
        match open {
            None if run >= 3 => open = Some((mark, run)),
            Some((open_mark, least))
                if open_mark == mark && run >= least && line[run..].trim().is_empty() =>
            {
                open = None;
            }
            _ => {}
        }
    }
    match open {
        Some((mark, run)) => format!("{text}\n{}", mark.to_string().repeat(run)),
        None => text.to_owned(),
    }
}

/// The longest run of back quotes in a text.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A diff as programs write it.
fn patch(touched: &Touched) -> String {
    let mut text = String::new();
    for hunk in &touched.hunks {
        let count =
            |signs: [char; 2]| hunk.lines.iter().filter(|(sign, _)| signs.contains(sign)).count();
        if let Some([old, new]) = hunk.start {
            let (before, after) = (count([' ', '-']), count([' ', '+']));
            text.extend([format!("@@ -{old},{before} +{new},{after} @@\n")]);
        }
        for (sign, line) in &hunk.lines {
            text.push(*sign);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn words(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match &piece.what {
        What::Text(text) | What::Thinking(text) => text.clone(),
        what => format!("[{}]", aside(what)),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn aside(what: &What) -> String {
    match what {
        What::Text(text) | What::Thinking(text) => one_line(text, 200),
        What::Redacted => "thinking that only the API can read".to_owned(),
        What::Call(name, _) => format!("call of {name}"),
        What::Media(kind, media_type, size) => {
            format!("{kind} {media_type}, {size} bytes of base64")
        }
        What::Other(kind, json) => format!("{kind}, {} bytes", json.len()),
    }
}

/// A text in which Markdown sees nothing.
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

/// A text as code inside of a line.
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
