//! The second step: which session it is, where it is written, and what was said in it.
//!
//! Invariants: a session is repaired in place only if it continues itself; one that is forked, or
//! not kept, stays as it is. No new session overwrites an existing one. No other quipu writes to
//! the session meanwhile. Only a UUID is used as an id in paths.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use transcript::conversation::place::{self, sessions_in};
use transcript::format::entry::Kind;
use transcript::format::file::Lines;
use uuid::Uuid;
use workshop::Workshop;

use super::error::{FileError, unreadable, unwritable};
use super::{Continues, Folders, Keeping, Notice, Prepared, RepairedWhat, SessionConfig};
use crate::resume::{self, Resumed};

/// The session that is continued.
#[derive(Clone, Debug)]
pub enum Origin {
    /// None: a new one begins.
    New,
    /// The newest one of the project that has messages.
    Newest,
    /// This one.
    Session(place::Session),
}

/// Where a session is written, and what it continues.
#[derive(Debug)]
pub struct SessionPlace {
    /// The id of the session.
    pub id: String,
    /// Its file, whether it exists or not.
    pub file: PathBuf,
    /// The file of the session that it continues.
    pub old: Option<PathBuf>,
    /// The conversation so far.
    pub resumed: Resumed,
}

/// Why a session has no place, or cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A session cannot be read, or a file or a folder not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another quipu writes to it, or it cannot be repaired.
    #[error(transparent)]
    Workshop(#[from] workshop::Error),
    /// The user gave an id for a session that has one.
    #[error("a resumed session already has an id")]
    HasId,
    /// The id that the user gave has another form than clients use.
    #[error("`{0}` is not a UUID")]
    NotUuid(String),
    /// There is a session with the id that the user gave.
    #[error("the session `{0}` already exists")]
    Exists(String),
    /// The project in this folder has no session with messages.
    #[error("`{}` has no session to continue", .0.display())]
    NothingToContinue(PathBuf),
    /// There is no record with the id that the user gave, or the conversation cannot end there.
    #[error("the session has no record `{0}` to go on from")]
    NoRecord(String),
    /// Nothing of this file can be sent.
    #[error("`{}` contains no conversation", .0.display())]
    NoConversation(PathBuf),
}

/// The command that a lock is for, as other processes report it.
const COMMAND: &str = "chat";

impl Prepared {
    /// Finds the session, or a place for a new one. A session that is resumed is repaired first if
    /// that helps, and one that is written to is locked until the workshop is closed.
    pub fn place(
        &self,
        origin: Origin,
        workshop: &mut Workshop,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<SessionPlace, PlaceError> {
        let (config, model) = (&self.config, self.chosen.as_deref());
        Finder { config, model, workshop, notify }.place(origin)
    }
}

struct Finder<'a> {
    config: &'a SessionConfig,
    /// The model that the user asked for.
    model: Option<&'a str>,
    workshop: &'a mut Workshop,
    notify: &'a mut dyn FnMut(Notice),
}

impl Finder<'_> {
    fn place(&mut self, origin: Origin) -> Result<SessionPlace, PlaceError> {
        let config = self.config;
        let new = |id: &str| config.folders.project.join(format!("{id}.jsonl"));
        let old = match origin {
            Origin::New => {
                let id = new_id(config)?;
                let file = new(&id);
                self.lock(&file)?;
                return Ok(SessionPlace { id, file, old: None, resumed: Resumed::default() });
            }
            Origin::Newest => newest(&config.folders)?,
            Origin::Session(session) => session,
        };
        if config.given_id.is_some() && config.continues == Continues::Itself {
            return Err(PlaceError::HasId);
        }
        let (id, file) = match config.continues {
            Continues::Itself => (old.id.to_string(), old.path.clone()),
            Continues::Fork => {
                let id = new_id(config)?;
                let file = new(&id);
                (id, file)
            }
        };
        self.lock(&file)?;
        let resumed = match (config.keeping, config.continues) {
            (Keeping::Discarded, _) => self.unkept(&old)?,
            (Keeping::Kept, Continues::Fork) => {
                copy(&old, &file, &config.folders)?;
                let fork = place::Session::at(&file)
                    .map_err(|error| unreadable(&file)(error.into_io()))?;
                self.opened(&fork).inspect_err(|_| _ = fs::remove_file(&file))?
            }
            (Keeping::Kept, Continues::Itself) => self.opened(&old)?,
        };
        // A file may have any name. If its name is not a UUID, use the id in its records. No other
        // id is used in paths.
        let id = if is_id(&id) {
            id
        } else {
            resumed.session.clone().unwrap_or_else(|| config.new_id.clone())
        };
        Ok(SessionPlace { id, file, old: Some(old.path), resumed })
    }

    /// Locks a session that is written to. If there cannot be a lock, continues without one.
    fn lock(&mut self, file: &Path) -> Result<(), PlaceError> {
        if self.config.keeping == Keeping::Discarded {
            return Ok(());
        }
        match self.workshop.lock(file, COMMAND) {
            Ok(()) => Ok(()),
            Err(error @ workshop::Error::Locked { .. }) => Err(error.into()),
            Err(error) => {
                (self.notify)(Notice::Unlocked(error));
                Ok(())
            }
        }
    }

    /// The messages of a session. If a crash damaged it, repairs it first, if that helps.
    fn opened(&mut self, session: &place::Session) -> Result<Resumed, PlaceError> {
        let mut found = self.open(session, &session.path)?;
        if is_broken(&found) && self.repair_first(session, None)? {
            found = self.open(session, &session.path)?;
        }
        found
    }

    /// The same for a session that is left as it is: a copy is repaired.
    fn unkept(&mut self, session: &place::Session) -> Result<Resumed, PlaceError> {
        let found = self.open(session, &session.path)?;
        if !is_broken(&found) {
            return found;
        }
        let folder = tempfile::tempdir().map_err(unwritable(&std::env::temp_dir()))?;
        let copy = folder.path().join(format!("{}.jsonl", session.id));
        if self.repair_first(session, Some(&copy))? { self.open(session, &copy)? } else { found }
    }

    /// Repairs a session, or a copy of it, if it then resumes better; reports and returns whether
    /// it did.
    fn repair_first(
        &mut self,
        session: &place::Session,
        copy: Option<&Path>,
    ) -> Result<bool, PlaceError> {
        let notify = &mut self.notify;
        let repaired = self.workshop.repair_before_resume(session, copy, &mut |notice| {
            notify(Notice::Workshop(notice));
        })?;
        let Some(repaired) = repaired else { return Ok(false) };
        let what = if copy.is_none() { RepairedWhat::Session } else { RepairedWhat::Copy };
        notify(Notice::Repaired { deeds: repaired.deeds, what });
        Ok(true)
    }

    /// What can be read of a session; the inner error says that nothing of it can be sent.
    fn open(
        &self,
        session: &place::Session,
        path: &Path,
    ) -> Result<Result<Resumed, PlaceError>, PlaceError> {
        let at = self.config.resume_at.as_deref();
        let found = resume::open_at(path, self.model, at).map_err(unreadable(path))?;
        Ok(found.map_err(|_| match at {
            Some(at) => PlaceError::NoRecord(at.to_owned()),
            None => PlaceError::NoConversation(session.path.clone()),
        }))
    }
}

fn is_broken(found: &Result<Resumed, PlaceError>) -> bool {
    match found {
        Ok(found) => found.is_damaged,
        Err(error) => !matches!(error, PlaceError::NoRecord(_)),
    }
}

fn is_id(text: &str) -> bool {
    Uuid::try_parse(text).is_ok()
}

/// The newest session of a project. A file that a crash has left may contain no session.
fn newest(folders: &Folders) -> Result<place::Session, PlaceError> {
    let mut sessions = sessions_in(&folders.project);
    sessions.sort_by_key(|session| Reverse(session.modified));
    let newest = sessions.into_iter().find(|session| says_anything(&session.path));
    newest.ok_or_else(|| PlaceError::NothingToContinue(folders.cwd.clone()))
}

/// Whether a file contains messages.
fn says_anything(path: &Path) -> bool {
    let Ok(file) = files::open(path) else { return false };
    let mut lines = Lines::new(file);
    while let Ok(Some(line)) = lines.next_line() {
        let mut entries = line.records().filter_map(|record| record.entry);
        if entries.any(|entry| matches!(entry.kind(), Kind::User | Kind::Assistant)) {
            return true;
        }
    }
    false
}

fn new_id(config: &SessionConfig) -> Result<String, PlaceError> {
    let Some(id) = &config.given_id else { return Ok(config.new_id.clone()) };
    // Other clients know ids only in this form.
    let is_plain = |uuid: Uuid| uuid.to_string().eq_ignore_ascii_case(id);
    if !Uuid::try_parse(id).is_ok_and(is_plain) {
        return Err(PlaceError::NotUuid(id.clone()));
    }
    if config.folders.project.join(format!("{id}.jsonl")).exists() {
        return Err(PlaceError::Exists(id.clone()));
    }
    Ok(id.clone())
}

/// A new session with the records of an old one, copied unchanged, as Claude Code 2.1.45 does. The
/// copies of files are copied too.
fn copy(old: &place::Session, to: &Path, folders: &Folders) -> Result<(), PlaceError> {
    let copy = |from: &Path, to: &Path| files::copy(from, &mut files::create_private(to)?);
    if let Some(folder) = to.parent() {
        files::make_private_folder(folder).map_err(unwritable(to))?;
    }
    copy(&old.path, to).map_err(unwritable(to))?;
    let history = folders.home.join("file-history");
    // A file may have any name, including `..`.
    let copies = is_id(&old.id).then(|| fs::read_dir(history.join(old.id.as_str())));
    let Some(Ok(copies)) = copies else { return Ok(()) };
    let folder = history.join(to.file_stem().unwrap_or_default());
    files::make_private_folder(&folder).map_err(unwritable(to))?;
    for file in copies.flatten().filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
        copy(&file.path(), &folder.join(file.file_name())).map_err(unwritable(to))?;
    }
    Ok(())
}
