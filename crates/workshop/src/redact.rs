//! Secrets in the files of a session: finds them, hides them in copies, and says where else they
//! stand.
//!
//! Invariants: nothing here prints a secret or returns one; what is written is searched again
//! before it is put anywhere; a link that leads out of the home is not followed; the file with the
//! client's credentials is never read.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transcript::client::change::{self, Renames, Subject};
use transcript::client::history::Rules;
use transcript::conversation::place::{Session, Thing, belongings};
use transcript::format::file::read_at;
use transcript::format::limit;
use transcript::format::secret::{Cover, Form, Redactor, Survey, Values, survey};
use transcript::format::threads;

use crate::Workshop;
use crate::copies::{obstacle, roots};
use crate::error::{Error, OutputError};
use crate::job::{Force, Job};
use crate::store::{self, Deed, Mark, Ready, Real};

/// What was found in the files of a session.
#[derive(Debug, Default)]
pub struct Looked {
    pub values: Values,
    /// The files, the session's own first.
    pub files: Vec<(Thing, PathBuf, Survey)>,
}

impl Looked {
    /// How often a secret was recognized, by kind.
    pub fn times(&self) -> BTreeMap<String, u64> {
        let mut times = BTreeMap::new();
        for seen in self.files.iter().flat_map(|(.., found)| &found.seen) {
            *times.entry(seen.kind.clone()).or_default() += 1;
        }
        times
    }
}

/// What happens if a file that belongs to a session cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Refuse,
    /// Its secrets are not known.
    Skip,
}

/// Looks through a session and everything that belongs to it alone.
pub fn look_through(
    session: &Session,
    redactor: &Redactor,
    unreadable: Unreadable,
) -> Result<Looked, Error> {
    let mut looked = Looked::default();
    let roots = roots(session);
    for (number, one) in belongings(session).into_iter().enumerate() {
        if matches!(one.thing, Thing::IndexRow | Thing::History) {
            continue;
        }
        if number > 0 && obstacle(&one.path, &roots).is_some() {
            continue;
        }
        let form = form_of(one.thing, &one.path);
        let mut look = || {
            let file = files::open(&one.path)?;
            Ok(survey(&file, form, redactor, None, &mut looked.values)?)
        };
        match look().map_err(Error::unreadable(&one.path)) {
            Ok(found) => looked.files.push((one.thing, one.path, found)),
            Err(_) if number > 0 && unreadable == Unreadable::Skip => {}
            Err(error) => return Err(error),
        }
    }
    Ok(looked)
}

/// What a file that belongs to a session contains.
pub fn form_of(thing: Thing, path: &Path) -> Form {
    match thing {
        Thing::Transcript | Thing::Agent | Thing::History => Form::Lines,
        Thing::AgentMeta | Thing::Todos | Thing::IndexRow => Form::Json,
        Thing::ToolResult | Thing::SideFile | Thing::FileHistory | Thing::Plan => by_name(path),
    }
}

fn by_name(path: &Path) -> Form {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("jsonl") => Form::Lines,
        Some("json") => Form::Json,
        _ => Form::Text,
    }
}

/// Writes a file of a session without its secrets, and searches what it wrote. `lines` are the
/// offsets of the lines on which secrets were recognized, if the file was looked through.
pub(crate) fn write_to(
    thing: Thing,
    (from, lines): (&Path, Option<&[u64]>),
    cover: &Arc<Cover>,
    out: &mut File,
) -> Result<(), Error> {
    let made = match thing {
        Thing::Transcript | Thing::Agent => write_records(from, lines, None, cover, out),
        _ => files::open(from).and_then(|file| hide(form_of(thing, from), &file, cover, out)),
    };
    made.map_err(Error::unwritable::<io::Error>(from))?;
    rescan(out, form_of(thing, from), cover, from)
}

fn write_records(
    from: &Path,
    lines: Option<&[u64]>,
    ids: Option<&Renames>,
    cover: &Arc<Cover>,
    out: &mut File,
) -> io::Result<()> {
    let subject = Subject::open(from, Rules::newest())?;
    let change = change::redact(&subject, cover, lines)?;
    change::write(&subject, &change, ids, out)?;
    Ok(())
}

/// Writes a file that belongs to a session without its secrets, and with new ids if there are any,
/// to a new file, and searches that.
pub(crate) fn write(
    thing: Thing,
    from: &Path,
    ids: Option<&Renames>,
    cover: &Arc<Cover>,
    temp: &Path,
) -> io::Result<File> {
    let out = &mut files::create_private(temp)?;
    let form = form_of(thing, from);
    if thing == Thing::Agent {
        write_records(from, None, ids, cover, out)?;
    } else {
        let is_mapped = matches!(thing, Thing::AgentMeta | Thing::Todos | Thing::SideFile);
        let mapped = match ids.filter(|_| is_mapped) {
            Some(ids) => Some(change::map_bytes(ids, &files::read(from, limit::SIDECAR)?)),
            None => None,
        };
        match mapped {
            Some(bytes) => out.write_all(&shown(form, &bytes, cover))?,
            None => hide(form, &files::open(from)?, cover, out)?,
        }
    }
    let rescanned = rescan(&files::open(temp)?, form, cover, from);
    rescanned.map_err(|error| io::Error::other(error.to_string()))?;
    out.try_clone()
}

/// Bytes without their secrets.
fn shown(form: Form, bytes: &[u8], cover: &Cover) -> Vec<u8> {
    let shown = match form {
        Form::Json => cover.line(bytes),
        Form::Lines => {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            Some(lines.flat_map(|line| cover.line(line).unwrap_or_else(|| line.to_vec())).collect())
        }
        Form::Text => cover.bytes(bytes),
    };
    shown.unwrap_or_else(|| bytes.to_vec())
}

/// Copies a file without its secrets.
fn hide(form: Form, from: &File, cover: &Cover, out: &mut File) -> io::Result<()> {
    let length = from.metadata()?.len();
    if form == Form::Text || length > limit::HELD_LINE as u64 {
        cover.copy_text(from, out)?;
        return Ok(());
    }
    let bytes = read_at(from, 0, length)?;
    out.write_all(&shown(form, &bytes, cover))
}

/// Searches what was written once more.
pub(crate) fn rescan(file: &File, form: Form, cover: &Cover, path: &Path) -> Result<(), Error> {
    let again = survey(file, form, cover.redactor(), Some(cover), &mut Values::default());
    let again = again.map_err(Error::unwritable(path))?;
    match again.seen.len() {
        0 => Ok(()),
        count => Err(Error::Leaks { path: path.to_owned(), count }),
    }
}

/// A path without secrets in its names.
pub(crate) fn name_without(path: &Path, cover: &Cover) -> PathBuf {
    let names = path.components().map(|part| {
        let name = part.as_os_str().to_string_lossy();
        cover.text(&name).map_or_else(|| part.as_os_str().to_owned(), Into::into)
    });
    names.collect()
}

/// The other files of a session that are replaced with it.
#[derive(Debug, Default)]
pub(crate) struct Others {
    files: Vec<(Thing, PathBuf)>,
    cover: Option<Arc<Cover>>,
}

impl Others {
    /// Those that have secrets.
    pub(crate) fn of(job: &Job<'_>) -> Result<Others, Error> {
        let Some(cover) = job.plan.change().cover() else { return Ok(Others::default()) };
        let mut files = Vec::new();
        let roots = roots(job.session);
        for one in belongings(job.session).into_iter().skip(1) {
            if matches!(one.thing, Thing::IndexRow | Thing::History)
                || obstacle(&one.path, &roots).is_some()
            {
                continue;
            }
            let form = form_of(one.thing, &one.path);
            let look = || {
                let (file, values) = (files::open(&one.path)?, &mut Values::default());
                Ok(survey(&file, form, cover.redactor(), Some(cover), values)?)
            };
            let found = look().map_err(Error::unreadable(&one.path))?;
            if !found.seen.is_empty() {
                let real = fs::canonicalize(&one.path).map_err(Error::unreadable(&one.path))?;
                files.push((one.thing, real));
            }
        }
        Ok(Others { files, cover: Some(cover.clone()) })
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready> {
        self.files.iter().map(|(_, path)| Ready::at(path))
    }

    /// Writes them under temporary names. Returns their states before that.
    pub(crate) fn write(&self, ready: &[Ready]) -> Result<Vec<Mark>, Error> {
        let Some(cover) = &self.cover else { return Ok(Vec::new()) };
        let mut was = Vec::new();
        for ((thing, path), ready) in self.files.iter().zip(ready) {
            let made = || {
                let mark = Mark::of(path)?;
                write(*thing, path, None, cover, &ready.temp)?.sync_all()?;
                Ok(mark)
            };
            was.push(made().map_err(Error::unwritable::<io::Error>(path))?);
        }
        Ok(was)
    }
}

/// Writes the files that belong to a session, without their secrets, to where they would belong to
/// a session with that file. Returns their paths.
pub fn write_files(
    session: &Session,
    to: &Path,
    cover: &Arc<Cover>,
    force: Force,
) -> Result<Vec<PathBuf>, Error> {
    let roots = roots(session);
    let target = to.with_extension("");
    let mut written = Vec::new();
    for one in belongings(session).into_iter().skip(1) {
        let is_its = match one.thing {
            Thing::Agent | Thing::AgentMeta | Thing::ToolResult | Thing::SideFile => true,
            Thing::Transcript
            | Thing::FileHistory
            | Thing::Todos
            | Thing::Plan
            | Thing::IndexRow
            | Thing::History => false,
        };
        if !is_its || obstacle(&one.path, &roots).is_some() {
            continue;
        }
        let path = match one.path.strip_prefix(session.folder()) {
            Ok(below) => target.join(name_without(below, cover)),
            Err(_) => to.with_file_name(one.path.file_name().unwrap_or_default()),
        };
        if path.exists() && force == Force::Never {
            return Err(Error::Output { path, why: OutputError::Exists });
        }
        let ready = Ready::at(&path);
        let made = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            write(one.thing, &one.path, None, cover, &ready.temp)?.sync_all()?;
            fs::rename(&ready.temp, &path)
        };
        made().map_err(|error| {
            // The first error says what is wrong.
            let _ = fs::remove_file(&ready.temp);
            Error::unwritable::<io::Error>(&path)(error)
        })?;
        written.push(path);
    }
    Ok(written)
}

/// A file in which a secret stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    pub path: PathBuf,
    pub what: Stand,
}

/// What kind of file a secret stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// The session itself, or one of its files.
    Original,
    /// Another session, which may be a fork or a copy.
    Session,
    /// The prompt history.
    History,
    /// A copy of an edited file.
    FileCopy,
    /// A change that can be undone.
    Undo,
    /// The catalog.
    Catalog,
    /// Another file of a home.
    File,
}

impl Stand {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Stand::Original => "original",
            Stand::Session => "session",
            Stand::History => "prompt-history",
            Stand::FileCopy => "file-copy",
            Stand::Undo => "undo",
            Stand::Catalog => "catalog",
            Stand::File => "file",
        }
    }
}

/// How deep folders of a home are looked through, and how many files of it.
const DEEPEST: usize = 12;
const MOST_FILES: usize = 1_000_000;
/// Where the client keeps its own credentials.
const CREDENTIALS: &str = ".credentials.json";
/// How much of a file is searched at once, and how much of it again with the next part.
const WINDOW: u64 = 2 << 20;
const OVERLAP: u64 = 128 << 10;

impl Workshop {
    /// The files in these homes, in the journal and in the catalog in which a secret stands.
    /// `settled` are files that were searched before, and whether a secret stands in them.
    pub fn elsewhere(
        &self,
        cover: &Cover,
        session: &Session,
        homes: &[PathBuf],
        catalog: Option<&Path>,
        settled: &HashMap<PathBuf, bool>,
    ) -> Vec<Elsewhere> {
        let mut all: Vec<Elsewhere> = Vec::new();
        let folder = session.folder();
        for home in homes {
            for path in files_in(home) {
                let what = if path == session.path || path.starts_with(&folder) {
                    Stand::Original
                } else {
                    stand_of(home, &path)
                };
                all.push(Elsewhere { path, what });
            }
        }
        if !all.iter().any(|one| one.path == session.path) {
            all.push(Elsewhere { path: session.path.clone(), what: Stand::Original });
        }
        let journal = self.folder("undo").map(|root| files_in(&root)).unwrap_or_default();
        all.extend(journal.into_iter().map(|path| Elsewhere { path, what: Stand::Undo }));
        for end in ["", "-wal"] {
            if let Some(mut name) = catalog.map(|catalog| catalog.as_os_str().to_owned()) {
                name.push(end);
                all.push(Elsewhere { path: name.into(), what: Stand::Catalog });
            }
        }
        let mut found = Vec::new();
        // It never fails.
        let _: Result<(), ()> = threads::in_order(
            all.len(),
            threads::count(),
            // What cannot be read is not known to have it.
            |number| {
                let path = &all[number].path;
                let known = settled.get(path).copied();
                known.unwrap_or_else(|| stands_in(path, cover).unwrap_or(false))
            },
            |number, stands| {
                if stands {
                    found.push(all[number].clone());
                }
                Ok(())
            },
        );
        found
    }

    /// Whether a secret stands in a file. One that cannot be read has none.
    pub fn has_secrets(&self, path: &Path, cover: &Cover) -> bool {
        stands_in(path, cover).unwrap_or(false)
    }

    /// Hides secrets in files that are not sessions; all of them are one change in the journal.
    /// Returns its name, if there was anything to do.
    pub fn redact_files(
        &mut self,
        paths: &[PathBuf],
        session: &Session,
        cover: &Arc<Cover>,
    ) -> Result<Option<String>, Error> {
        let Some(first) = paths.first() else { return Ok(None) };
        let ready: Vec<Ready> = paths.iter().map(|path| Ready::at(path)).collect();
        let deed = Deed { what: "redact", session: &session.id, made: None, now: self.now };
        let begun = self.journal()?.begin(&mut Real, deed, &ready);
        let begun = begun.map_err(Error::unwritable(first))?;
        let write_all = || {
            let mut was = Vec::new();
            for (path, ready) in paths.iter().zip(&ready) {
                let mark = Mark::of(path)?;
                let mut file = files::create_private(&ready.temp)?;
                hide(by_name(path), &files::open(path)?, cover, &mut file)?;
                file.sync_all()?;
                if stands_in(&ready.temp, cover)? {
                    let message = format!("`{}` would still have secrets", path.display());
                    return Err(io::Error::other(message));
                }
                was.push(Some(mark));
            }
            store::replace(&mut Real, &begun, deed, &ready, &was).map(drop)
        };
        let made = write_all();
        let name = begun.name.clone();
        let settled = begun.settle(&mut Real);
        made.and(settled).map_err(Error::unwritable(first))?;
        Ok(Some(name))
    }

    /// Removes the changes from the journal that keep a secret: they cannot be undone any more.
    /// Returns how many.
    pub fn forget_changes(&self, cover: &Cover) -> Result<u64, Error> {
        let journal = self.journal()?;
        let failed = |source| Error::Unwritable { path: PathBuf::from("the journal"), source };
        let mut count = 0;
        for entry in journal.entries().map_err(failed)? {
            let files = files_in(&entry.folder);
            if files.iter().any(|path| stands_in(path, cover).unwrap_or(true)) {
                journal.forget(&mut Real, &entry).map_err(failed)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn stand_of(home: &Path, path: &Path) -> Stand {
    let below = path.strip_prefix(home).unwrap_or(path);
    let first = below.components().next().map(|part| part.as_os_str().to_string_lossy());
    match first.as_deref() {
        Some("projects") => Stand::Session,
        Some("history.jsonl") => Stand::History,
        Some("file-history") => Stand::FileCopy,
        _ => Stand::File,
    }
}

/// The regular files below a folder, by path. Links are not followed.
fn files_in(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEEPEST {
                open.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name() != CREDENTIALS {
                found.push(entry.path());
            }
        }
        if found.len() > MOST_FILES {
            break;
        }
    }
    found.sort();
    found
}

/// Whether a secret stands in a file.
fn stands_in(path: &Path, cover: &Cover) -> io::Result<bool> {
    let file = files::open(path)?;
    let length = file.metadata()?.len();
    let mut at = 0;
    while at < length {
        let bytes = read_at(&file, at, (length - at).min(WINDOW + OVERLAP))?;
        if cover.stands_in(&bytes) {
            return Ok(true);
        }
        at += WINDOW;
    }
    Ok(false)
}
