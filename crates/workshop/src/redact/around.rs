//! Secrets of a session that stand outside of its files: in the name of its project's folder, in
//! the prompt history, in what the journal keeps of it, in its forks and copies.
//!
//! A session that was redacted does not know its secrets any more; these places still do.
//! Invariant: a file that cannot be read is passed over.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memmem;
use transcript::conversation::Conversation;
use transcript::conversation::place::{
    Home, Session, Thing, belongings, home_of, slug_uncut, working_directory,
};
use transcript::format::entry::Kind;
use transcript::format::file::{Body, Lines, read_at};
use transcript::format::secret::{
    Custom, Form, Redactor, Sighting, Survey, Values, survey, survey_name,
};
use transcript::format::threads;

use super::{Looked, Stand, Unreadable, look_through};
use crate::Workshop;
use crate::error::Error;
use crate::store::{Entry, Was};

/// A secret as it stands in the name of a folder.
#[derive(Debug)]
struct Exactly {
    kind: String,
    text: String,
}

impl Custom for Exactly {
    fn name(&self) -> &str {
        &self.kind
    }

    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let found = text.match_indices(&self.text);
        found.map(|(at, part)| at..at + part.len()).collect()
    }
}

/// The secrets in the name of the folder of a session's project. It is made from the session's
/// directory: what is neither a letter nor a digit in a secret is a dash there.
pub(super) fn in_project_name(
    session: &Session,
    redactor: &Redactor,
    values: &mut Values,
) -> Result<Vec<Sighting>, Error> {
    if home_of(session).is_none() {
        return Ok(Vec::new());
    }
    let cwd = working_directory(session)?.unwrap_or_default();
    let mut seen = survey_name(&session.project, redactor, None, values);
    for secret in redactor.find(&cwd) {
        let (kind, text) = (secret.kind.to_owned(), slug_uncut(&cwd[secret.range]));
        let is_new = !seen.iter().any(|known| known.kind == kind);
        if is_new && session.project.contains(&text) {
            let exactly = Redactor::new(vec![Box::new(Exactly { kind, text })], Vec::new());
            seen.extend(survey_name(&session.project, &exactly, None, values));
        }
    }
    Ok(seen)
}

/// How many records of a session are looked for in others, from its beginning and from all of it.
const FIRST: usize = 4;
const SPREAD: usize = 8;
/// How many of them make a session a copy.
const ENOUGH: usize = 2;
/// How much of a file is searched at once, and how much of it again with the next part.
const WINDOW: u64 = 2 << 20;
const OVERLAP: u64 = 64;

impl Workshop {
    /// Looks where secrets of a session stand that it may not have any more: what the prompt
    /// history has of it, what the journal keeps of it, its forks and copies in these homes.
    pub fn look_around(
        &self,
        session: &Session,
        redactor: &Redactor,
        homes: &[PathBuf],
        looked: &mut Looked,
    ) -> Result<(), Error> {
        for one in belongings(session) {
            let found = match one.thing {
                Thing::History => prompts(session, &one.path).and_then(|lines| {
                    Ok(survey(&lines, Form::Lines, redactor, None, &mut looked.values)?)
                }),
                Thing::PastedText => files::open(&one.path).and_then(|file| {
                    Ok(survey(&file, Form::Text, redactor, None, &mut looked.values)?)
                }),
                _ => continue,
            };
            looked.add_around(Stand::History, found.unwrap_or_default());
        }
        let entries = self.journal().ok().and_then(|journal| journal.entries().ok());
        for entry in entries.unwrap_or_default() {
            let found = kept_by(&entry, session, redactor, &mut looked.values);
            looked.add_around(Stand::Undo, found);
        }
        for copy in copies_of(session, homes)? {
            let Ok(found) = look_through(&copy, redactor, Unreadable::Skip) else { continue };
            looked.values.add_all(found.values);
            for (.., found) in found.files {
                looked.add_around(Stand::Session, found);
            }
        }
        Ok(())
    }
}

impl Looked {
    fn add_around(&mut self, what: Stand, found: Survey) {
        if !found.seen.is_empty() {
            self.around.push((what, found));
        }
    }
}

/// The lines of the prompt history that are of a session: those that name it. Old clients named
/// only the directory.
fn prompts(session: &Session, history: &Path) -> io::Result<File> {
    let mut found = tempfile::tempfile()?;
    let cwd = working_directory(session).ok().flatten().unwrap_or_default();
    let cwd = serde_json::to_string(&cwd)?;
    let (id, cwd) = (memmem::Finder::new(session.id.as_bytes()), memmem::Finder::new(&cwd));
    let named = memmem::Finder::new("\"sessionId\"");
    let mut lines = Lines::new(files::open(history)?);
    while let Some(line) = lines.next_line().map_err(transcript::Error::into_io)? {
        let Body::Held(bytes) = line.body else { continue };
        let is_old = || named.find(bytes).is_none() && cwd.find(bytes).is_some();
        if id.find(bytes).is_some() || is_old() {
            found.write_all(bytes)?;
            found.write_all(b"\n")?;
        }
    }
    Ok(found)
}

/// The secrets in what a change keeps, if it is about the session.
fn kept_by(entry: &Entry, session: &Session, redactor: &Redactor, values: &mut Values) -> Survey {
    let mut all = Survey::default();
    let is_its = entry.session == *session.id
        || entry.made.as_deref() == Some(session.id.as_str())
        || entry.items.iter().any(|item| item.path == session.path);
    for item in entry.items.iter().filter(|_| is_its) {
        let Was::There { copy, .. } = &item.was else { continue };
        let form = Thing::SideFile.form(&item.path);
        let found = files::open(entry.folder.join(&copy.name))
            .and_then(|file| Ok(survey(&file, form, redactor, None, values)?));
        all.seen.extend(found.unwrap_or_default().seen);
    }
    all
}

/// The sessions that have records of the same times: forks and copies, whoever made them, also with
/// new ids.
fn copies_of(session: &Session, homes: &[PathBuf]) -> Result<Vec<Session>, Error> {
    let times = times(session)?;
    let enough = ENOUGH.min(times.len());
    let others = homes.iter().flat_map(|root| Home { root: root.clone() }.sessions());
    let others: Vec<Session> = others.filter(|other| other.path != session.path).collect();
    let mut found = Vec::new();
    if enough == 0 {
        return Ok(found);
    }
    // It never fails.
    let _: Result<(), ()> = threads::in_order(
        others.len(),
        threads::count(),
        |number| has_times(&others[number].path, &times, enough).unwrap_or(false),
        |number, is_copy| {
            if is_copy {
                found.push(others[number].clone());
            }
            Ok(())
        },
    );
    Ok(found)
}

/// The times of some messages of a session.
fn times(session: &Session) -> Result<Vec<String>, Error> {
    let conversation = Conversation::open(&session.path)?;
    let messages = conversation
        .table
        .rows()
        .iter()
        .filter(|row| matches!(row.kind, Kind::User | Kind::Assistant) && !row.is_sidechain);
    let mut all: Vec<String> =
        messages.filter_map(|row| row.time).map(|time| time.to_string()).collect();
    all.dedup();
    let step = all.len().div_ceil(SPREAD).max(1);
    let is_chosen = |at: &usize| *at < FIRST || at.is_multiple_of(step);
    Ok((0..all.len()).filter(is_chosen).map(|at| all[at].clone()).collect())
}

/// Whether a file has enough of these times.
fn has_times(path: &Path, times: &[String], enough: usize) -> io::Result<bool> {
    let file = files::open(path)?;
    let length = file.metadata()?.len();
    let mut left: Vec<memmem::Finder<'_>> = times.iter().map(memmem::Finder::new).collect();
    let mut at = 0;
    while at < length {
        let bytes = read_at(&file, at, (length - at).min(WINDOW + OVERLAP))?;
        left.retain(|time| time.find(&bytes).is_none());
        if times.len() - left.len() >= enough {
            return Ok(true);
        }
        at += WINDOW;
    }
    Ok(false)
}
