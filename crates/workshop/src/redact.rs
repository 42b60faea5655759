//! Secrets in the files of a session: finds them, hides them in copies, and says where else they
//! stand ([`elsewhere`]).
//!
//! Invariants: nothing here prints a secret or returns one, not even in an error; what is written
//! is searched again before it is put anywhere; a link that leads out of the home is not followed.

mod around;
mod elsewhere;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::Attributes;
use transcript::client::change::{self, Renames, Subject};
use transcript::client::history::Rules;
use transcript::conversation::place::{Belonging, Session, Thing, belongings, obstacle, roots};
use transcript::format::file::read_at;
use transcript::format::limit;
use transcript::format::secret::{
    Cover, Form, Mask, Redactor, Survey, Values, survey, survey_name,
};

pub use elsewhere::{Elsewhere, Stand};

use crate::error::{Error, OutputError};
use crate::job::{Force, Job};
use crate::store::{Leaving, Mark, Ready};

/// What was found in the files of a session.
#[derive(Debug, Default)]
pub struct Looked {
    pub values: Values,
    /// The files, the session's own first.
    pub files: Vec<(Thing, PathBuf, Survey)>,
    /// What cannot be changed with the session, or is not its own: what it is, and what was seen.
    pub around: Vec<(Stand, Survey)>,
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

    /// Whether the session or a file of it has a secret.
    pub fn has_own(&self) -> bool {
        self.files.iter().any(|(.., found)| !found.seen.is_empty())
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
        if is_of_others(one.thing) {
            continue;
        }
        if number > 0 && obstacle(&one.path, &roots).is_some() {
            continue;
        }
        match look(session, &one, (redactor, None), &mut looked.values) {
            Ok(found) => looked.files.push((one.thing, one.path, found)),
            Err(_) if number > 0 && unreadable == Unreadable::Skip => {}
            Err(error) => return Err(error),
        }
    }
    let seen = around::in_project_name(session, redactor, &mut looked.values)?;
    if !seen.is_empty() {
        looked.around.push((Stand::ProjectFolder, Survey { seen, lines: Vec::new() }));
    }
    Ok(looked)
}

/// Whether a file has lines of other sessions, too, and is looked at only if all places are.
fn is_of_others(thing: Thing) -> bool {
    // A plan is shared with copies of the session only.
    thing.is_shared() && thing != Thing::Plan
}

/// Looks through a file that belongs to a session, and through its name.
fn look(
    session: &Session,
    one: &Belonging,
    (redactor, cover): (&Redactor, Option<&Cover>),
    values: &mut Values,
) -> Result<Survey, Error> {
    let form = form_of(one.thing, &one.path);
    let found = files::open(&one.path)
        .and_then(|file| Ok(survey(&file, form, redactor, cover, values)?))
        .map_err(|error| {
            let path = one.path.to_string_lossy();
            Error::unreadable(&*Mask::new(redactor).text(&path))(error)
        });
    let mut found = found?;
    for name in changeable(session, &one.path).into_iter().flat_map(Path::components) {
        let name = name.as_os_str().to_string_lossy();
        found.seen.extend(survey_name(&name, redactor, cover, values));
    }
    Ok(found)
}

/// The part of a path that can change without anything that refers to it: what is in the session's
/// folder.
fn changeable<'p>(session: &Session, path: &'p Path) -> Option<&'p Path> {
    path.strip_prefix(session.folder()).ok()
}

/// What a file that belongs to a session contains.
pub fn form_of(thing: Thing, path: &Path) -> Form {
    thing.form(path)
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
    let path = shown_path(from, cover);
    made.map_err(Error::unwritable::<io::Error>(&path))?;
    rescan(out, form_of(thing, from), cover, &path)
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
        match ids.map(|ids| mapped(thing, from, ids)).transpose()?.flatten() {
            Some(bytes) => out.write_all(&shown(form, &bytes, cover))?,
            None => hide(form, &files::open(from)?, cover, out)?,
        }
    }
    let rescanned = rescan(&files::open(temp)?, form, cover, &shown_path(from, cover));
    rescanned.map_err(|error| io::Error::other(error.to_string()))?;
    out.try_clone()
}

/// The bytes of a file that names its session, with new ids; `None` if it is too long to name one,
/// or of a kind that does not.
pub(crate) fn mapped(thing: Thing, from: &Path, ids: &Renames) -> io::Result<Option<Vec<u8>>> {
    let is_its = matches!(thing, Thing::AgentMeta | Thing::Todos | Thing::Task | Thing::SideFile);
    if !is_its || files::metadata(from)?.len() > limit::SIDECAR {
        return Ok(None);
    }
    Ok(Some(change::map_bytes(ids, &files::read(from, limit::SIDECAR)?)))
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
        cover.name(&name).map_or_else(|| part.as_os_str().to_owned(), Into::into)
    });
    names.collect()
}

/// A path as it may be printed: without secrets, even those that its names still have.
pub fn shown_path(path: &Path, cover: &Cover) -> PathBuf {
    cover.text(&path.to_string_lossy()).map_or_else(|| path.to_owned(), PathBuf::from)
}

/// The other files of a session that are replaced with it.
#[derive(Debug, Default)]
pub(crate) struct Others {
    files: Vec<Other>,
    cover: Option<Arc<Cover>>,
    /// The session's folder.
    inside: PathBuf,
}

/// A file that is replaced, or written under another name if its own has a secret.
#[derive(Debug)]
struct Other {
    thing: Thing,
    from: PathBuf,
    to: PathBuf,
}

/// What becomes of the files that are there.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// The states of those that are replaced; `None` for new ones.
    pub(crate) was: Vec<Option<Mark>>,
    pub(crate) leaving: Vec<Leaving>,
}

impl Others {
    /// Those that have secrets.
    pub(crate) fn of(job: &Job<'_>) -> Result<Others, Error> {
        let Some(cover) = job.plan.change().cover() else { return Ok(Others::default()) };
        let mut files = Vec::new();
        let roots = roots(job.session);
        let inside = fs::canonicalize(job.session.folder()).unwrap_or_default();
        for one in belongings(job.session).into_iter().skip(1) {
            if is_of_others(one.thing) || obstacle(&one.path, &roots).is_some() {
                continue;
            }
            let by = (cover.redactor(), Some(&**cover));
            if look(job.session, &one, by, &mut Values::default())?.seen.is_empty() {
                continue;
            }
            let shown = || shown_path(&one.path, cover);
            let from = fs::canonicalize(&one.path).map_err(Error::unreadable(shown()))?;
            // A link keeps its name: what it leads to may be used elsewhere.
            let below = changeable(job.session, &one.path);
            let to = match below.filter(|below| from == inside.join(below)) {
                Some(below) => inside.join(name_without(below, cover)),
                None => from.clone(),
            };
            files.push(Other { thing: one.thing, from, to });
        }
        Ok(Others { files, cover: Some(cover.clone()), inside })
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready> {
        self.files.iter().map(|one| Ready::at(&one.to))
    }

    /// Writes them under temporary names.
    pub(crate) fn write(&self, ready: &[Ready], fates: &mut Fates) -> Result<(), Error> {
        let Some(cover) = &self.cover else { return Ok(()) };
        for (Other { thing, from, to }, ready) in self.files.iter().zip(ready) {
            let made = || {
                let was = Mark::of(from)?;
                if let Some(folder) = ready.temp.parent() {
                    fs::create_dir_all(folder)?;
                }
                let file = write(*thing, from, None, cover, &ready.temp)?;
                Attributes::of(&files::open(from)?)?.give(&file)?;
                file.sync_all()?;
                Ok(was)
            };
            let was = made()
                .map_err(|error: io::Error| Error::unwritable(shown_path(from, cover))(error))?;
            if from == to {
                fates.was.push(Some(was));
            } else {
                fates.was.push(None);
                let (path, inside) = (from.clone(), self.inside.clone());
                fates.leaving.push(Leaving { path, was, inside });
            }
        }
        Ok(())
    }
}

/// The files that go along with a session, each with its place beside another file of its records.
fn files_beside(session: &Session, to: &Path, cover: &Cover) -> Vec<(Belonging, PathBuf)> {
    let roots = roots(session);
    let target = to.with_extension("");
    let is_its = |one: &Belonging| match one.thing {
        Thing::Agent | Thing::AgentMeta | Thing::ToolResult | Thing::SideFile => {
            obstacle(&one.path, &roots).is_none()
        }
        _ => false,
    };
    let placed = belongings(session).into_iter().skip(1).filter(is_its).map(|one| {
        let path = match one.path.strip_prefix(session.folder()) {
            Ok(below) => target.join(name_without(below, cover)),
            Err(_) => to.with_file_name(one.path.file_name().unwrap_or_default()),
        };
        (one, path)
    });
    placed.collect()
}

/// Refuses if one of the files is there that [`write_files`] would write.
pub fn refuse_files(session: &Session, to: &Path, cover: &Cover) -> Result<(), Error> {
    let mut places = files_beside(session, to, cover).into_iter().map(|(_, path)| path);
    match places.find(|path| path.exists()) {
        Some(path) => Err(Error::Output { path, why: OutputError::Exists }),
        None => Ok(()),
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
    let mut written = Vec::new();
    for (one, path) in files_beside(session, to, cover) {
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
