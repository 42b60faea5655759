//! Opens packs, and puts their sessions into a home.
//!
//! Everything in a pack was written by strangers. Invariants: nothing is put anywhere before every
//! member has the hash that the manifest says; all sizes are bounded, and counted while they are
//! decompressed; a session that is here already is never changed; everything that is put in its
//! place is one change in the journal.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::thread;

use transcript::client::change::{self, MappedPaths, PathMap, Subject};
use transcript::client::check::Verdict;
use transcript::client::history::Rules;
use transcript::conversation::Conversation;
use transcript::conversation::id::SessionId;
use transcript::conversation::place::{Home, Session, Thing};
use transcript::format::limit;

use super::Hashed;
use super::hashes::{self, MessageHashes};
use super::manifest::{self, Manifest, PackedSession, Spot, project_folder};
use super::zip::{Archive, Member};
use crate::Workshop;
use crate::all_files::AllFiles;
use crate::error::Error;
use crate::job::{Job, Mode, Place, Plan, Policy, Read, Verb};
use crate::store::{self, Bounds, Deed, Disk, Ready, Real};
use crate::sum::Sum;
use crate::work::Notice;

/// How many bytes all members may have: this many, and so many times the size of the pack.
const MOST_BYTES: u64 = 1 << 30;
const MOST_RATIO: u64 = 100;
/// The files in which paths are mapped.
const MAPPED: [Thing; 3] = [Thing::Transcript, Thing::Agent, Thing::AgentMeta];

/// A pack that was opened. Its directory and its manifest are checked, its members not yet.
#[derive(Debug)]
pub struct Pack {
    path: PathBuf,
    archive: Archive,
    manifest: Manifest,
}

impl Pack {
    pub fn open(path: &Path) -> Result<Pack, Error> {
        let opened = || -> io::Result<Pack> {
            let archive = Archive::open(files::open(path)?)?;
            let manifest = read_manifest(&archive)?;
            Ok(Pack { path: path.to_owned(), archive, manifest })
        };
        opened().map_err(Error::unreadable(path))
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn member(&self, name: &str) -> io::Result<&Member> {
        let found = self.archive.members.iter().find(|member| member.name == name);
        found.ok_or_else(|| bad(format!("`{name}` is missing")))
    }
}

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn read_manifest(archive: &Archive) -> io::Result<Manifest> {
    let sum = archive.members.iter().try_fold(0_u64, |sum, member| sum.checked_add(member.plain));
    let most = MOST_BYTES + archive.size.saturating_mul(MOST_RATIO);
    if sum.is_none_or(|sum| sum > most) {
        return Err(bad("it would take too much space"));
    }
    let member = archive.members.iter().find(|member| member.name == manifest::NAME);
    let member = member.ok_or_else(|| bad("it is not a pack of sessions"))?;
    if member.plain > manifest::LARGEST {
        return Err(bad("its manifest is too large"));
    }
    let mut bytes = Vec::new();
    archive.copy(member, &mut bytes)?;
    let manifest = Manifest::parse(&bytes).map_err(bad)?;
    let sizes: HashMap<&str, u64> =
        archive.members.iter().map(|member| (member.name.as_str(), member.plain)).collect();
    let files = || manifest.sessions.iter().flat_map(|session| &session.members);
    if files().any(|file| sizes.get(file.name.as_str()) != Some(&file.size))
        || files().count() + 1 != sizes.len()
    {
        return Err(bad("its manifest does not describe its members"));
    }
    Ok(manifest)
}

/// Where the sessions of a pack go.
#[derive(Debug)]
pub struct Unpacking<'a> {
    pub home: &'a Path,
    /// Folders that have another place here: old and new.
    pub folders: &'a [(String, String)],
    pub mode: Mode,
    /// Ids for sessions whose ids are in use here: one for each session of the pack.
    pub new_ids: &'a [SessionId],
}

/// What became of a pack.
#[derive(Debug)]
pub struct Unpacked {
    pub sessions: Vec<UnpackedSession>,
    /// Its name in the journal, if anything was written.
    pub entry: Option<String>,
}

/// What became of a session of a pack.
#[derive(Debug)]
pub struct UnpackedSession {
    pub id: SessionId,
    pub path: PathBuf,
    /// The directory that it belongs to here.
    pub cwd: Option<String>,
    pub became: Became,
    /// How many paths were mapped in its own file.
    pub paths: u64,
    pub verdict: Verdict,
    /// How its messages compare with the hashes that the client recorded, if it did.
    pub messages: Option<MessageHashes>,
}

/// How a session of a pack is here now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    New,
    /// It was here already, with the same content: nothing is written.
    Same,
    /// Another session has its id, so it has a new one.
    NewId,
}

/// A file on its way: what it is, where it is complete, and where it belongs.
struct Staged {
    thing: Thing,
    from: PathBuf,
    to: PathBuf,
}

impl Workshop {
    /// Puts the sessions of a pack into a home, or shows what would be done.
    pub fn unpack(
        &mut self,
        pack: &Pack,
        unpacking: &Unpacking<'_>,
        rules: Rules,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Unpacked, Error> {
        let staging = self.staging()?;
        let root = staging.path();
        // The pack is at fault, unless there is no room for its files.
        let unstaged = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::PermissionDenied => Error::unwritable(root)(error),
            _ => Error::unreadable(&pack.path)(error),
        };
        // All of it is verified before anything is placed.
        let mut staged = Vec::new();
        for session in &pack.manifest.sessions {
            let (paths, cwd) = paths(session, unpacking.folders);
            let project = project_folder(session, cwd.as_deref());
            let files = stage(pack, session, &project, root, unpacking.home).map_err(unstaged)?;
            staged.push((session, paths, cwd, files));
        }
        let known = Home { root: unpacking.home.to_owned() }.sessions();
        let (mut sessions, mut placed) = (Vec::new(), Vec::new());
        for (number, (session, paths, cwd, files)) in staged.into_iter().enumerate() {
            // As it was packed: paths that are mapped change messages.
            let messages = match files.first() {
                Some(first) => compared(&first.from, rules)?,
                None => None,
            };
            let mut mapped = MappedPaths::default();
            let mut finished = finish(&files, &paths, root, &mut mapped)?;
            let mut known = known.iter().filter(|one| one.id == *session.id).peekable();
            let is_known = known.peek().is_some();
            let is_taken = |one: &Staged| fs::symlink_metadata(&one.to).is_ok();
            let mut became = Became::New;
            if finished.iter().all(|one| is_same(&one.from, &one.to)) {
                became = Became::Same;
            } else if let Some(here) = known.find_map(|one| all_here(&finished, one)) {
                (became, finished) = (Became::Same, here);
            } else if is_known || finished.iter().any(is_taken) {
                became = Became::NewId;
                let new_id = unpacking.new_ids.get(number).cloned();
                let new_id = new_id.ok_or(Error::NoState)?;
                let copies = self.renamed(&files, root, unpacking.home, new_id, rules)?;
                mapped = MappedPaths::default();
                finished = finish(&copies, &paths, root, &mut mapped)?;
            }
            let Some(first) = finished.first() else { continue };
            let (path, from) = (first.to.clone(), first.from.clone());
            // The disk syncs while the result is judged.
            let subject = thread::scope(|scope| {
                if unpacking.mode == Mode::Write && became != Became::Same {
                    scope.spawn(|| files::open(&from).and_then(|file| file.sync_data()));
                }
                Subject::open(&from, rules)
            })?;
            let verdict = subject.verdict()?;
            let id: SessionId =
                path.file_stem().unwrap_or_default().to_string_lossy().as_ref().into();
            sessions.push(UnpackedSession {
                id,
                path,
                cwd,
                became,
                paths: mapped.mapped,
                verdict,
                messages,
            });
            if became != Became::Same {
                placed.extend(finished);
            }
        }
        let entry = match (unpacking.mode, sessions.iter().find(|one| one.became != Became::Same)) {
            (Mode::Write, Some(first)) => {
                Some(self.place(&placed, &first.id, unpacking.home, notify)?)
            }
            _ => None,
        };
        Ok(Unpacked { sessions, entry })
    }

    /// A folder for files on their way. Those that stopped runs left are removed.
    fn staging(&self) -> Result<tempfile::TempDir, Error> {
        let folder = self.folder("unpack")?;
        let made = || -> io::Result<tempfile::TempDir> {
            files::make_private_folder(&folder)?;
            for one in fs::read_dir(&folder)?.flatten() {
                let name = one.file_name().to_string_lossy().into_owned();
                let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
                if pid.is_some_and(|pid| !files::is_running(pid)) {
                    fs::remove_dir_all(one.path())?;
                }
            }
            let prefix = format!("{}-", std::process::id());
            tempfile::Builder::new().prefix(&prefix).tempdir_in(&folder)
        };
        made().map_err(Error::unwritable(&folder))
    }

    /// The files of a session under a new id: a clone of it, in the staging folder.
    fn renamed(
        &self,
        files: &[Staged],
        root: &Path,
        home: &Path,
        new_id: SessionId,
        rules: Rules,
    ) -> Result<Vec<Staged>, Error> {
        let Some(first) = files.first() else { return Ok(Vec::new()) };
        let session = Session::at(&first.from)?;
        let read = Read::open(&session, rules)?;
        let plan = Plan::Change(change::clone(&read.subject));
        let policy = Policy::new(Verb::Clone, Place::Beside);
        let path = session.path.with_file_name(format!("{new_id}.jsonl"));
        let mut job = Job { session: &session, read, plan, policy, new_id };
        // The journal of this step is thrown away with the folder.
        let mut inner = Workshop::new(Some(root.join("state")), Bounds::default(), self.now);
        inner.carry_out(&mut job, rules, &mut |_| {})?;
        let all = AllFiles::of(&Session::at(&path)?)?;
        let files = all.files.into_iter().filter_map(|file| {
            let to = home.join(file.path.strip_prefix(root).ok()?);
            Some(Staged { thing: file.thing, from: file.path, to })
        });
        Ok(files.collect())
    }

    /// Puts the files in their places.
    fn place(
        &self,
        files: &[Staged],
        session: &str,
        home: &Path,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<String, Error> {
        for file in files {
            refuse_links(&file.to, home)?;
        }
        let ready: Vec<Ready> = files.iter().map(|file| Ready::at(&file.to)).collect();
        let deed = Deed { what: "unpack", session, made: Some(session), now: self.now };
        let failed = || Error::unwritable(&ready[0].path);
        let begun = self.journal()?.begin(&mut Real, deed, &ready).map_err(failed())?;
        if begun.pruned.count > 0 {
            notify(Notice::Pruned(begun.pruned));
        }
        let placed = || -> io::Result<()> {
            for (file, ready) in files.iter().zip(&ready) {
                if let Some(folder) = ready.temp.parent() {
                    Real.create_folder(folder)?;
                }
                if fs::rename(&file.from, &ready.temp).is_err() {
                    let mut copy = files::create_private(&ready.temp)?;
                    files::copy(&file.from, &mut copy)?;
                }
                files::open(&ready.temp)?.sync_all()?;
            }
            store::create(&mut Real, &begun, deed, &ready)
        };
        let placed = placed();
        let name = begun.name.clone();
        let settled = begun.settle(&mut Real);
        placed.and(settled).map_err(failed())?;
        Ok(name)
    }
}

/// Compares the messages of a session with their recorded hashes.
fn compared(path: &Path, rules: Rules) -> Result<Option<MessageHashes>, Error> {
    let failed = || Error::unreadable(path);
    let file = files::open(path).map_err(failed())?;
    if !hashes::has_requests(&file).map_err(failed())? {
        return Ok(None);
    }
    let conversation = Conversation::open(path)?;
    hashes::compare(&conversation, &file, rules).map_err(failed())
}

/// Which paths of a session are mapped, and the directory that it belongs to then.
fn paths(session: &PackedSession, folders: &[(String, String)]) -> (PathMap, Option<String>) {
    let mut paths = PathMap::default();
    for (old, new) in folders {
        paths.folder(old, new);
    }
    let cwd = session.cwd.as_ref().map(|cwd| paths.path(cwd));
    if let Some(cwd) = &cwd
        && session.cwd.as_ref() != Some(cwd)
    {
        paths.project(&session.project, &project_folder(session, Some(cwd)));
    }
    (paths, cwd)
}

/// Decompresses the files of a session into the staging folder, and verifies them.
fn stage(
    pack: &Pack,
    session: &PackedSession,
    project: &str,
    root: &Path,
    home: &Path,
) -> io::Result<Vec<Staged>> {
    let mut staged = Vec::new();
    for file in &session.members {
        let spot = manifest::place(&session.id, file);
        let spot: Spot =
            spot.ok_or_else(|| bad(format!("`{}` may not be in a pack", file.name)))?;
        let from = spot.path(root, project, &session.id);
        if let Some(folder) = from.parent() {
            files::make_private_folder(folder)?;
        }
        let mut out = BufWriter::with_capacity(1 << 18, files::create_private(&from)?);
        let mut hashed = Hashed { out: &mut out, sum: Sum::new(), size: 0 };
        pack.archive.copy(pack.member(&file.name)?, &mut hashed)?;
        if hashed.sum.finish() != file.sha256 {
            return Err(bad(format!(
                "`{}` is not what was packed: its SHA-256 differs",
                file.name
            )));
        }
        out.flush()?;
        let thing = MAPPED.into_iter().find(|thing| thing.name() == file.thing);
        let thing = thing.unwrap_or(Thing::SideFile);
        staged.push(Staged { thing, from, to: spot.path(home, project, &session.id) });
    }
    Ok(staged)
}

/// The files with their paths mapped.
fn finish(
    files: &[Staged],
    paths: &PathMap,
    root: &Path,
    mapped: &mut MappedPaths,
) -> Result<Vec<Staged>, Error> {
    let mut finished = Vec::new();
    for file in files {
        let mut write = || -> io::Result<PathBuf> {
            if paths.is_empty() || !MAPPED.contains(&file.thing) {
                return Ok(file.from.clone());
            }
            let name = format!("{}.mapped", uuid::Uuid::new_v4().simple());
            let path = root.join(name);
            let mut out =
                BufWriter::with_capacity(limit::READ_BLOCK, files::create_private(&path)?);
            if file.thing == Thing::AgentMeta {
                let mut bytes = Vec::new();
                let from = files::read(&file.from, limit::SIDECAR)?;
                paths.text(&from, &mut bytes, &mut MappedPaths::default());
                out.write_all(&bytes)?;
            } else {
                let source = files::open(&file.from)?;
                let done = paths.write(&source, &mut out).map_err(transcript::Error::into_io)?;
                if file.thing == Thing::Transcript {
                    *mapped = done;
                }
            }
            out.flush()?;
            Ok(path)
        };
        let from = write().map_err(Error::unwritable(&file.from))?;
        finished.push(Staged { thing: file.thing, from, to: file.to.clone() });
    }
    Ok(finished)
}

/// The files of a session, if all of them are here already, in the folder of another project: a
/// directory may have several names.
fn all_here(files: &[Staged], session: &Session) -> Option<Vec<Staged>> {
    let [folder, here] = [files.first()?.to.parent()?, session.path.parent()?];
    let there = files.iter().map(|one| {
        let to = match one.to.strip_prefix(folder) {
            Ok(below) => here.join(below),
            Err(_) => one.to.clone(),
        };
        Staged { thing: one.thing, from: one.from.clone(), to }
    });
    let there: Vec<Staged> = there.collect();
    there.iter().all(|one| is_same(&one.from, &one.to)).then_some(there)
}

/// Whether two regular files have the same bytes.
fn is_same(one: &Path, other: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (one, other) = (files::open(one)?, files::open(other)?);
        if one.metadata()?.len() != other.metadata()?.len() {
            return Ok(false);
        }
        let reader = |file: File| BufReader::with_capacity(1 << 17, file);
        let (mut one, mut other) = (reader(one), reader(other));
        let (mut first, mut second) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let count = one.read(&mut first)?;
            if count == 0 {
                return Ok(true);
            }
            other.read_exact(&mut second[..count])?;
            if first[..count] != second[..count] {
                return Ok(false);
            }
        }
    };
    same().unwrap_or(false)
}

/// Refuses a place that a link leads to. The home, its folders and those of projects may be links
/// of the user.
fn refuse_links(path: &Path, home: &Path) -> Result<(), Error> {
    let below = path.strip_prefix(home).unwrap_or(Path::new(""));
    let of_user = if below.starts_with("projects") { 2 } else { 1 };
    let its = below.components().count().saturating_sub(1 + of_user);
    for folder in path.ancestors().skip(1).take(its) {
        if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
            let why = "a link is in its place".to_owned();
            return Err(Error::InUse { path: folder.to_owned(), why });
        }
    }
    Ok(())
}
