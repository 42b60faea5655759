//! What a session is about, from its first and last lines.
//!
//! For lists of thousands of sessions: reads a bounded piece at either end, whatever the size, and
//! stops as soon as it knows enough. A title that is only in the middle of a long file is not found
//! (clients repeat it at every turn). `summary` records do not count as titles: nearly all belong
//! to other sessions.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use memchr::{memchr, memmem};

use crate::error::{AtPath, Error};
use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::file::{Backward, Body, Line, Lines, State};
use crate::format::input::typed;
use crate::format::limit::{GLANCE_HEAD, GLANCE_TAIL};
use crate::format::scan::Why;
use crate::format::time::Time;
use crate::names::named;

/// What the first and last lines of a session show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// The newest title given by the user; without one, the newest made by the model.
    pub title: Option<String>,
    /// The tag given by the user. A session has one at most; the last record counts.
    pub tag: Option<String>,
    /// The first thing that a person said; a command as it was typed.
    pub prompt: Option<String>,
    /// Whether the middle of it is missing, because its line is too long to hold.
    pub is_prompt_cut: bool,
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
    /// What is broken, sorted, each kind once.
    pub troubles: Vec<Trouble>,
}

named! {
    /// A kind of damage that can be found at either end of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Trouble {
        /// The file is empty.
        Empty = "empty",
        /// The last line is cut off.
        Torn = "torn",
        /// Runs of NUL bytes.
        Nul = "nul",
        /// A line that is not a record, or not only one.
        Damaged = "damaged",
    }
}

impl Trouble {
    /// What is wrong with a line: one item for each piece of it that is not a whole record.
    pub fn in_line<'a>(line: &Line<'a>) -> impl Iterator<Item = Trouble> + use<'a> {
        let is_ended = line.ended;
        let broken = line.records().filter(|record| record.state != State::Whole);
        broken.map(move |record| match (record.state, record.fault) {
            (_, Some((_, Why::Nul))) => Trouble::Nul,
            (State::Damaged, _) if !is_ended => Trouble::Torn,
            _ => Trouble::Damaged,
        })
    }
}

/// Reads both ends of a session's file.
pub fn preview(path: &Path) -> crate::Result<Preview> {
    files::open(path).map_err(Error::from).and_then(|file| of_file(&file)).at(path)
}

/// What the model answered last, if it is near the end of the file: its last text that is no
/// sub-agent's.
pub fn last_answer(path: &Path) -> crate::Result<Option<String>> {
    files::open(path).map_err(Error::from).and_then(|file| answer_in(&file)).at(path)
}

fn answer_in(file: &File) -> crate::Result<Option<String>> {
    let mut lines = Backward::new(file)?;
    let mut read = 0;
    while let Some(line) = lines.next_line()? {
        let text_of = |entry: Entry<'_>| {
            let is_answer = entry.kind() == Kind::Assistant && !entry.flag("isSidechain");
            let texts = entry.message().filter(|_| is_answer)?.blocks();
            let texts = texts.filter(|block| block.kind() == BlockKind::Text);
            let text = texts.filter_map(|block| block.text()).last().map(Cow::into_owned);
            text.filter(|text| !text.trim().is_empty())
        };
        let found = line.records().filter_map(|record| text_of(record.entry?)).last();
        read += line.len;
        if found.is_some() || read > GLANCE_TAIL as u64 {
            return Ok(found);
        }
    }
    Ok(None)
}

fn of_file(file: &File) -> crate::Result<Preview> {
    let mut seen = Preview::default();
    if file.metadata()?.len() == 0 {
        seen.troubles.push(Trouble::Empty);
        return Ok(seen);
    }
    seen.look_at_head(Lines::new(file))?;
    seen.look_at_tail(Backward::new(file)?)?;
    seen.troubles.sort();
    seen.troubles.dedup();
    Ok(seen)
}

impl Preview {
    /// Reads from the start until everything that is expected there is known.
    fn look_at_head(&mut self, mut lines: Lines<&File>) -> crate::Result<()> {
        while let Some(line) = lines.next_line()? {
            // `look_at_tail` checks the end of the file.
            if line.ended {
                self.judge(&line);
            }
            for record in line.records() {
                if let Some(entry) = &record.entry {
                    let is_first = self.prompt.is_none();
                    self.look_at_first(entry);
                    let is_cut = matches!(line.body, Body::Condensed(_));
                    self.is_prompt_cut |= is_first && self.prompt.is_some() && is_cut;
                }
            }
            let known = self.prompt.is_some() && self.cwd.is_some();
            if known || line.offset + line.len > GLANCE_HEAD as u64 {
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
    }

    /// Reads from the end: titles, the last time, and how the file ends.
    fn look_at_tail(&mut self, mut lines: Backward<'_>) -> crate::Result<()> {
        let (mut given, mut made, mut last) = (None, None, true);
        let mut tag = None;
        // The types of both kinds of titles end like this.
        let named = memmem::Finder::new("-title\"");
        let tagged = memmem::Finder::new("\"tag\"");
        let mut read = 0;
        while let Some(line) = lines.next_line()? {
            if std::mem::take(&mut last) {
                self.judge(&line);
            }
            if let Body::Held(bytes) = line.body {
                if named.find(bytes).is_some() {
                    given = given.or_else(|| title(&line, "customTitle"));
                    made = made.or_else(|| title(&line, "aiTitle"));
                }
                if tag.is_none() && tagged.find(bytes).is_some() {
                    tag = tag_in(&line);
                }
                if memchr(0, bytes).is_some() {
                    self.troubles.push(Trouble::Nul);
                }
            }
            if self.ended.is_none() {
                let mut times = line.records().filter_map(|record| record.entry?.time());
                self.ended = times.next();
            }
            read += line.len;
            let is_all = given.is_some() && tag.is_some() && self.ended.is_some();
            if read > GLANCE_TAIL as u64 || is_all {
                break;
            }
        }
        self.title = given.or(made);
        // A tag that was removed is empty.
        self.tag = tag.filter(|tag| !tag.trim().is_empty());
        Ok(())
    }

    /// Records what is wrong with a line.
    fn judge(&mut self, line: &Line<'_>) {
        self.troubles.extend(Trouble::in_line(line));
    }
}

/// What a person said first: the text of a prompt, or a command as it was typed.
fn prompt(entry: &Entry<'_>) -> Option<Cow<'static, str>> {
    if entry.kind() != Kind::User || !(entry.is_human_turn() || is_agent_prompt(entry)) {
        return None;
    }
    let texts = entry.message()?.blocks().filter(|block| block.kind() == BlockKind::Text);
    typed(texts.filter_map(|block| block.text())).map(Cow::Owned)
}

/// Whether the record is the prompt of a sub-agent, which a model wrote.
fn is_agent_prompt(entry: &Entry<'_>) -> bool {
    entry.flag("isSidechain")
        && !entry.flag("isMeta")
        && entry.message().is_some_and(|message| !message.has_tool_result())
}

/// The title in the field of that name on a line.
fn title(line: &Line<'_>, field: &str) -> Option<String> {
    let mut titles = line.records().filter_map(|record| record.entry?.text(field));
    titles.next().map(Cow::into_owned).filter(|title| !title.trim().is_empty())
}

/// The tag that a line sets; an empty one removes it.
fn tag_in(line: &Line<'_>) -> Option<String> {
    let entries = line.records().filter_map(|record| record.entry);
    let mut tags = entries
        .filter(|entry| entry.kind() == Kind::Tag)
        .filter_map(|entry| entry.text("tag").map(Cow::into_owned));
    tags.next()
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod tests;
