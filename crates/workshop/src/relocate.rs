//! Moves sessions to another working directory: into the folder of that project, with the paths in
//! their records mapped.
//!
//! Invariants: a session that another process uses is left alone; what is written is read again,
//! and a result that resumes less well is put nowhere; the old files go after the new ones are
//! complete and in their places, all in one change that `undo` reverts; times and modes of files
//! stay, so that lists keep their order.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use files::Attributes;
use transcript::client::change::{self, MappedPaths, PathMap, Proof, Subject};
use transcript::client::history::Rules;
use transcript::conversation::place::{Session, Thing};
use transcript::format::limit;

use crate::all_files::{AllFiles, SessionFile, walk};
use crate::error::{Error, OutputError};
use crate::job::{Force, Mode, Place, Read};
use crate::output::DocumentFile;
use crate::store::{self, Deed, Disk, KeptBy, Leaving, Mark, Ready, Real};
use crate::work::{Done, Notice};
use crate::{Workshop, live};

/// What is moved, and how.
#[derive(Debug)]
pub struct Relocation<'a> {
    /// The sessions, and the folder of a project that each of them goes to.
    pub sessions: &'a [(Session, PathBuf)],
    /// Folders of projects whose memory goes along: from, to.
    pub memories: &'a [(PathBuf, PathBuf)],
    pub paths: &'a PathMap,
    pub mode: Mode,
    pub force: Force,
}

/// What was moved, or would be.
#[derive(Debug)]
pub struct Relocated {
    pub sessions: Vec<RelocatedSession>,
    /// Its name in the journal.
    pub entry: Option<String>,
}

/// One session that was moved.
#[derive(Debug)]
pub struct RelocatedSession {
    pub from: PathBuf,
    pub to: PathBuf,
    pub paths: MappedPaths,
    pub proof: Proof,
    /// The session as it was read.
    pub read: Read,
    pub files: AllFiles,
}

/// A file that is moved.
struct Step<'a> {
    file: &'a SessionFile,
    ready: Ready,
}

impl Workshop {
    /// Moves sessions, or shows what would be done.
    pub fn relocate(
        &mut self,
        what: &Relocation<'_>,
        rules: Rules,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Relocated, Error> {
        let mut all = Vec::new();
        for (session, folder) in what.sessions {
            if what.mode == Mode::Write {
                self.lock(&session.path, "move")?;
                if what.force == Force::Never {
                    self.refuse_if_live(session)?;
                    live::refuse_if_protected(&session.path)?;
                }
            }
            all.push((session, folder, AllFiles::of(session)?));
        }
        let mut memories = Vec::new();
        for (from, to) in what.memories {
            for path in walk(&from.join("memory")) {
                memories.push((SessionFile::at(path, from)?, to.clone(), from.clone()));
            }
        }
        let mut steps = Vec::new();
        for (session, folder, files) in &all {
            let project = session.path.parent().unwrap_or(Path::new(""));
            for file in &files.files {
                steps.extend(step(file, project, folder)?);
            }
        }
        for (file, to, from) in &memories {
            steps.extend(step(file, from, to)?);
        }
        let taken =
            steps.iter().find(|one| one.ready.path != one.file.path && is_there(&one.ready.path));
        if let Some(taken) = taken {
            let path = taken.ready.path.clone();
            return Err(Error::Output { path, why: OutputError::Exists });
        }
        // The first session's own file is the first of all.
        let ready: Vec<Ready> = steps.iter().map(|one| one.ready.clone()).collect();
        let name = what.sessions.first().map_or("", |(session, _)| session.id.as_str());
        let deed = Deed { what: "move", session: name, made: None, now: self.now };
        let begun = match what.mode {
            Mode::DryRun => None,
            Mode::Write => {
                let begun = self.journal()?.begin(&mut Real, deed, &ready);
                Some(begun.map_err(Error::unwritable(&ready[0].path))?)
            }
        };
        if let Some(begun) = begun.as_ref().filter(|begun| begun.pruned.count > 0) {
            notify(Notice::Pruned(begun.pruned));
        }
        let mut work = || -> Result<_, Error> {
            let mut sessions = Vec::new();
            for (session, _, files) in &all {
                sessions.push(written(session, files.clone(), &steps, what, rules)?);
            }
            for one in steps.iter().filter(|one| one.file.thing != Thing::Transcript) {
                if what.mode == Mode::Write {
                    copied(one, what.paths)?;
                }
            }
            if let Some(begun) = &begun {
                let leaving: Vec<Leaving> = steps.iter().map(|one| one.file.into()).collect();
                let kept = store::exchange(&mut Real, begun, deed, &ready, &leaving);
                if kept.map_err(Error::unwritable(&ready[0].path))? == KeptBy::Copy {
                    notify(Notice::KeptCopy);
                }
            }
            Ok(sessions)
        };
        let done = work();
        let entry = begun.as_ref().map(|begun| begun.name.clone());
        let settled = begun.map_or(Ok(()), |begun| begun.settle(&mut Real));
        let sessions = done?;
        settled.map_err(Error::unwritable(&ready[0].path))?;
        Ok(Relocated { sessions, entry })
    }
}

/// Writes a session with its paths mapped to a file that the user named, or returns it. Nothing
/// else is written.
pub fn map_session(
    session: &Session,
    paths: &PathMap,
    place: &Place,
    force: Force,
    rules: Rules,
) -> Result<(RelocatedSession, Done), Error> {
    let target = match place {
        Place::File(path) => Some(DocumentFile::at(path, &session.path, force)?),
        Place::Beside | Place::InPlace | Place::Returned => None,
    };
    let read = Read::open(session, rules)?;
    let old = files::open(&session.path).map_err(Error::unreadable(&session.path))?;
    let mut file = tempfile::tempfile().map_err(Error::unwritable("a temporary file"))?;
    let mapped = map(&old, paths, &mut file).map_err(Error::unreadable(&session.path))?;
    let proof = proved(session, &read, &mapped, &mut file, rules)?;
    let mut rewound = || io::Seek::rewind(&mut file);
    rewound().map_err(Error::unwritable("a temporary file"))?;
    let (to, done) = match target {
        None => (session.path.clone(), Done::Returned(file)),
        Some(target) => {
            let to = target.path().to_owned();
            target.fill(&mut file, force).map_err(Error::unwritable(&to))?;
            (to.clone(), Done::Written { path: to, entry: None })
        }
    };
    let files = AllFiles::of(session)?;
    let from = session.path.clone();
    Ok((RelocatedSession { from, to, paths: mapped, proof, read, files }, done))
}

/// Where a file goes; `None` if it stays, because it is not in the project's folder.
fn step<'a>(
    file: &'a SessionFile,
    project: &Path,
    folder: &Path,
) -> Result<Option<Step<'a>>, Error> {
    let Ok(below) = file.path.strip_prefix(project) else { return Ok(None) };
    let path = folder.join(below);
    // The folder may be a link of the user; below it there must be none.
    let mut around = path.ancestors().skip(1).take_while(|one| *one != folder);
    if around.any(|one| fs::symlink_metadata(one).is_ok_and(|found| !found.is_dir())) {
        return Err(Error::Output { path, why: OutputError::Exists });
    }
    Ok(Some(Step { file, ready: Ready::at(&path) }))
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Writes the session's own file under its temporary name, and proves it.
fn written(
    session: &Session,
    files: AllFiles,
    steps: &[Step<'_>],
    what: &Relocation<'_>,
    rules: Rules,
) -> Result<RelocatedSession, Error> {
    let read = Read::open(session, rules)?;
    let unreadable = || Error::unreadable(&session.path);
    let step = steps.iter().find(|one| one.file.path == session.path);
    let to = step.map_or(session.path.clone(), |one| one.ready.path.clone());
    let old = files::open(&session.path).map_err(unreadable())?;
    let (mut file, paths) = if let (Mode::Write, Some(step)) = (what.mode, step) {
        let temp = &step.ready.temp;
        let unwritable = || Error::unwritable(&to);
        make_folder(temp).map_err(unwritable())?;
        let mut file = files::create_private(temp).map_err(unwritable())?;
        let paths = map(&old, what.paths, &mut file).map_err(unwritable())?;
        finish(&old, &file, temp).map_err(unwritable())?;
        (files::open(temp).map_err(Error::unreadable(&to))?, paths)
    } else {
        let mut file = tempfile::tempfile().map_err(Error::unwritable("a temporary file"))?;
        let paths = map(&old, what.paths, &mut file).map_err(unreadable())?;
        (file, paths)
    };
    let proof = proved(session, &read, &paths, &mut file, rules)?;
    Ok(RelocatedSession { from: session.path.clone(), to, paths, proof, read, files })
}

/// Reads a result again, and refuses one that resumes less well.
fn proved(
    session: &Session,
    read: &Read,
    paths: &MappedPaths,
    file: &mut File,
    rules: Rules,
) -> Result<Proof, Error> {
    let unreadable = || Error::unreadable(&session.path);
    io::Seek::rewind(file).map_err(unreadable())?;
    let again = file.try_clone().map_err(unreadable())?;
    let after = Subject::of_file(again, &session.path, rules)?;
    let change = change::clone(&read.subject);
    let proof = change::prove(&read.subject, &change, paths.written, &after)?;
    if proof.is_worse() {
        return Err(Error::worse(proof));
    }
    Ok(proof)
}

fn map(old: &File, paths: &PathMap, out: &mut File) -> io::Result<MappedPaths> {
    let mut buffered = io::BufWriter::with_capacity(limit::READ_BLOCK, out);
    let done = paths.write(old, &mut buffered).map_err(transcript::Error::into_io)?;
    buffered.flush()?;
    Ok(done)
}

/// Writes a file that goes along, under its temporary name.
fn copied(one: &Step<'_>, paths: &PathMap) -> Result<(), Error> {
    let temp = &one.ready.temp;
    let old = files::open(&one.file.path).map_err(Error::unreadable(&one.file.path))?;
    let copy = || {
        make_folder(temp)?;
        let mut file = files::create_private(temp)?;
        match one.file.thing {
            Thing::Agent => drop(map(&old, paths, &mut file)?),
            Thing::AgentMeta => {
                let mut mapped = Vec::new();
                let bytes = files::read(&one.file.path, limit::SIDECAR)?;
                paths.text(&bytes, &mut mapped, &mut MappedPaths::default());
                file.write_all(&mapped)?;
            }
            _ => drop(files::copy(&one.file.path, &mut file)?),
        }
        finish(&old, &file, temp)
    };
    copy().map_err(Error::unwritable(&one.ready.path))
}

/// Gives the new file what the old one has beside its bytes.
fn finish(old: &File, new: &File, temp: &Path) -> io::Result<()> {
    Attributes::of(old)?.give(new)?;
    new.sync_all()?;
    Real.set_modified(temp, Mark::of_metadata(&old.metadata()?).modified())
}

/// Makes the folders around a file. Other users cannot look into those that are new.
fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| Real.create_folder(folder))
}
