//! What a session is about, from its first and last bytes.
//!
//! For lists of thousands of sessions: reads a bounded piece at either end, whatever the size, and stops
//! as soon as it knows enough. A title that stands only in the middle of a long file is not seen (clients
//! repeat it at every turn). `summary` records are no titles: nearly all belong to other sessions.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::{memchr, memmem, memrchr};

use crate::content::BlockKind;
use crate::entry::{Entry, Kind};
use crate::file::{Lines, State};
use crate::limit::{GLANCE_HEAD, GLANCE_TAIL};
use crate::line::{self, Meaning};
use crate::time::Time;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// The title that the user gave, or else the model's; the newest.
    pub title: Option<String>,
    /// The first thing that a person said; a command as it was typed.
    pub prompt: Option<String>,
    /// The working directory at the start.
    pub cwd: Option<String>,
    /// The git branch at the start.
    pub branch: Option<String>,
    /// The client version at the start.
    pub version: Option<String>,
    /// The time of the first record that has one.
    pub started: Option<Time>,
    /// The time of the last record that has one.
    pub ended: Option<Time>,
    /// Written by a sub-agent.
    pub sidechain: bool,
    /// What is broken.
    pub troubles: Vec<Trouble>,
}

/// What a look at both ends shows to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing is in the file.
    Empty,
    /// The last line is cut off.
    Torn,
    /// Runs of NUL bytes.
    Nul,
    /// A line that is no record, or not only one.
    Damaged,
}

impl Trouble {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Empty => "empty",
            Trouble::Torn => "torn",
            Trouble::Nul => "nul",
            Trouble::Damaged => "damaged",
        }
    }
}

/// Looks at both ends of a session's file.
pub fn glance(path: &Path) -> io::Result<Glance> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut seen = Glance::default();
    if size == 0 {
        seen.troubles.push(Trouble::Empty);
        return Ok(seen);
    }
    // The end is read first: for a short file it is all of it.
    let tail_size = size.min(GLANCE_TAIL as u64);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size - tail_size))?;
    (&file).take(tail_size).read_to_end(&mut tail)?;
    if tail_size == size {
        seen.look_at_head(&tail[..])?;
    } else {
        file.seek(SeekFrom::Start(0))?;
        seen.look_at_head((&file).take((size - tail_size).min(GLANCE_HEAD as u64)))?;
    }
    seen.look_at_tail(&tail, tail_size == size);
    seen.troubles.sort();
    seen.troubles.dedup();
    Ok(seen)
}

impl Glance {
    /// Reads from the start until everything that stands there is known.
    fn look_at_head(&mut self, head: impl Read) -> io::Result<()> {
        let mut lines = Lines::new(head);
        while let Some(line) = lines.next_line()? {
            for record in line.records() {
                match (&record.entry, record.state) {
                    (Some(entry), _) => self.look_at_first(entry),
                    // The end is judged with the tail.
                    (None, State::Damaged) if line.ended => self.troubles.push(Trouble::Damaged),
                    _ => {}
                }
            }
            if self.prompt.is_some() && self.cwd.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn look_at_first(&mut self, entry: &Entry<'_>) {
        let set = |field: &mut Option<String>, value: Option<Cow<'_, str>>| {
            if let (None, Some(value)) = (&field, value) {
                *field = Some(value.into_owned());
            }
        };
        set(&mut self.cwd, entry.text("cwd"));
        set(&mut self.branch, entry.text("gitBranch"));
        set(&mut self.version, entry.version());
        set(&mut self.prompt, prompt(entry));
        self.started = self.started.or_else(|| entry.time());
        self.sidechain |= entry.flag("isSidechain");
    }

    fn look_at_tail(&mut self, tail: &[u8], whole_file: bool) {
        if memchr(0, tail).is_some() {
            self.troubles.push(Trouble::Nul);
        }
        // What stands before the first newline is the end of a line that begins further up.
        let start =
            if whole_file { 0 } else { memchr(b'\n', tail).map_or(tail.len(), |at| at + 1) };
        let lines = &tail[start..];
        if let Some(last) = last_line(lines) {
            let torn = |meaning: &Meaning<'_>| matches!(meaning, Meaning::Damaged(_));
            if line::read(last).any(|piece| torn(&piece.meaning)) {
                let ended = lines.ends_with(b"\n");
                self.troubles.push(if ended { Trouble::Damaged } else { Trouble::Torn });
            }
        }
        self.title = title(lines, "custom-title", "customTitle")
            .or_else(|| title(lines, "ai-title", "aiTitle"));
        self.ended = backward(lines).find_map(|entry| entry.time()).or(self.started);
    }
}

/// What a person said first: the text of a prompt, or a command as it was typed.
fn prompt(entry: &Entry<'_>) -> Option<Cow<'static, str>> {
    if entry.kind() != Kind::User || !(entry.is_human_turn() || is_agent_prompt(entry)) {
        return None;
    }
    let texts = entry.message()?.blocks().filter(|block| block.kind() == BlockKind::Text);
    // What an editor adds stands in blocks of its own before what was typed.
    let mut typed = texts.filter_map(|block| block.text());
    let typed = typed.find(|text| !text.starts_with("<ide_"))?;
    let between = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let (_, rest) = typed.split_once(&open)?;
        Some(rest.split_once(&close)?.0.trim().to_owned())
    };
    if let Some(command) = between("command-name") {
        let arguments = between("command-args").unwrap_or_default();
        return Some(format!("{command} {arguments}").trim().to_owned().into());
    }
    if let Some(command) = between("bash-input") {
        return Some(format!("! {command}").into());
    }
    Some(typed.trim().to_owned().into()).filter(|text: &Cow<'_, str>| !text.is_empty())
}

/// The prompt of a sub-agent, which a model wrote.
fn is_agent_prompt(entry: &Entry<'_>) -> bool {
    entry.flag("isSidechain")
        && !entry.flag("isMeta")
        && entry.message().is_some_and(|message| !message.has_tool_result())
}

/// The newest title of that kind. Only lines that name the kind are read.
fn title(lines: &[u8], kind: &str, field: &str) -> Option<String> {
    // Forward, because that is much faster than a search from the end.
    let named: Vec<usize> = memmem::find_iter(lines, &format!("\"{kind}\"")).collect();
    // The name of the kind may stand in somebody's text: then there is no such field.
    named.into_iter().rev().find_map(|at| {
        let start = memrchr(b'\n', &lines[..at]).map_or(0, |at| at + 1);
        let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |found| at + found);
        records(&lines[start..end]).find_map(|entry| entry.text(field).map(Cow::into_owned))
    })
}

fn last_line(lines: &[u8]) -> Option<&[u8]> {
    let text = lines.strip_suffix(b"\n").unwrap_or(lines);
    let start = memrchr(b'\n', text).map_or(0, |at| at + 1);
    Some(&text[start..]).filter(|line| !line.is_empty())
}

/// The records of the lines, the last first.
fn backward(lines: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    lines.rsplit(|byte| *byte == b'\n').flat_map(records)
}

/// The records of one line.
fn records(line: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    line::read(line).filter_map(|piece| match piece.meaning {
        Meaning::Whole(entry) | Meaning::Recovered(entry, _) => Some(entry),
        _ => None,
    })
}

#[cfg(test)]
#[path = "glance_tests.rs"]
mod tests;
