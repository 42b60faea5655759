//! A change that is ready to be carried out, and the policy by which that is done.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use transcript::client::change::{self, Change, Proof, Renames, Repaired, Subject};
use transcript::client::history::Rules;
use transcript::conversation::id::SessionId;
use transcript::conversation::place::Session;
use transcript::format::secret::Form;

use crate::copies::Copies;
use crate::error::Error;
use crate::redact;
use crate::store::{self, Mark, Ready};

/// A change of a session.
#[derive(Debug)]
pub struct Job<'a> {
    pub session: &'a Session,
    pub read: Read,
    pub plan: Plan,
    pub policy: Policy,
    /// The id that the result gets if it gets a new one.
    pub new_id: SessionId,
}

/// How a job is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub verb: Verb,
    pub place: Place,
    pub ids: Ids,
    pub agents: Agents,
    pub mode: Mode,
    pub force: Force,
}

impl Policy {
    /// What users expect of a command: a result beside the session has ids of its own, and so has
    /// every clone and fork.
    pub fn new(verb: Verb, place: Place) -> Policy {
        let ids = match (verb, &place) {
            (_, Place::InPlace) => Ids::Keep,
            (Verb::Clone | Verb::Fork | Verb::Split, _) | (_, Place::Beside) => Ids::New,
            (_, Place::File(_) | Place::Returned) => Ids::Keep,
        };
        let agents = match verb {
            Verb::Drop | Verb::Edit | Verb::Fork | Verb::Keep | Verb::Split | Verb::Strip => {
                Agents::WhoseCallsStay
            }
            _ => Agents::All,
        };
        Policy { verb, place, ids, agents, mode: Mode::Write, force: Force::Never }
    }
}

/// What is done to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Clone,
    Compress,
    Drop,
    Edit,
    Fork,
    Keep,
    Merge,
    Move,
    Redact,
    Rename,
    Repair,
    Split,
    Strip,
    Tag,
    Uncompress,
}

impl Verb {
    pub(crate) const ALL: [Verb; 15] = [
        Verb::Clone,
        Verb::Compress,
        Verb::Drop,
        Verb::Edit,
        Verb::Fork,
        Verb::Keep,
        Verb::Merge,
        Verb::Move,
        Verb::Redact,
        Verb::Rename,
        Verb::Repair,
        Verb::Split,
        Verb::Strip,
        Verb::Tag,
        Verb::Uncompress,
    ];

    /// Whether people do it to send less.
    pub fn saves(self) -> bool {
        matches!(self, Verb::Compress | Verb::Drop | Verb::Edit | Verb::Keep | Verb::Strip)
    }

    /// The command.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Clone => "clone",
            Verb::Compress => "compress",
            Verb::Drop => "drop",
            Verb::Edit => "edit",
            Verb::Fork => "fork",
            Verb::Keep => "keep",
            Verb::Merge => "merge",
            Verb::Move => "move",
            Verb::Redact => "redact",
            Verb::Rename => "rename",
            Verb::Repair => "repair",
            Verb::Split => "split",
            Verb::Strip => "strip",
            Verb::Tag => "tag",
            Verb::Uncompress => "uncompress",
        }
    }
}

/// Where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a new session in the same folder.
    Beside,
    /// To the session's own file.
    InPlace,
    /// To a file that the user named, and nothing else is written.
    File(PathBuf),
    /// To the caller, as an open file.
    Returned,
}

impl Place {
    /// Whether the result is written alone, without the files that belong to the session.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Place::File(_) | Place::Returned)
    }
}

/// Whether the session and its records get new ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    New,
    Keep,
}

/// Which sub-agents' files are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agents {
    All,
    /// Those of calls that are in the result.
    WhoseCallsStay,
    None,
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Write,
    /// The change is only shown.
    DryRun,
}

/// What may be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    Never,
    /// The caller uses the session itself: it may be in use, but not protected.
    InUse,
    /// Everything: the session is in use or protected, or the file given by the user exists.
    Always,
}

/// What to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a job has one, and it is hardly ever moved")]
pub enum Plan {
    /// A change of the session itself.
    Change(Change),
    /// A repair, which may take several passes.
    Repaired(Box<Repaired>),
}

impl Plan {
    pub fn change(&self) -> &Change {
        match self {
            Plan::Change(change) => change,
            Plan::Repaired(repaired) => &repaired.change,
        }
    }

    pub(crate) fn change_mut(&mut self) -> &mut Change {
        match self {
            Plan::Change(change) => change,
            Plan::Repaired(repaired) => &mut repaired.change,
        }
    }

    /// What the result is written from: the session (`None`), unless the repair took several
    /// passes.
    fn source(&self) -> Option<&Subject> {
        match self {
            Plan::Change(_) => None,
            Plan::Repaired(repaired) => repaired.source.as_ref(),
        }
    }
}

/// A session as it was read, and the state of its file at that time.
#[derive(Debug)]
pub struct Read {
    pub subject: Subject,
    pub(crate) was: Mark,
}

impl Read {
    /// Reads a session that is to be changed.
    pub fn open(session: &Session, rules: Rules) -> Result<Read, Error> {
        let read = || {
            let file = files::open(&session.path)?;
            let was = Mark::of_metadata(&file.metadata()?);
            Ok(Read { subject: Subject::of_file(file, &session.path, rules)?, was })
        };
        read().map_err(Error::unreadable(&session.path))
    }
}

/// The result of a job, after it was written and compared.
pub(crate) struct Made {
    pub(crate) proof: Proof,
    pub(crate) file: Temp,
    /// The hash of the file that the result replaces.
    pub(crate) old: Option<String>,
}

/// A result that is not in its place yet.
pub(crate) enum Temp {
    /// A rename will put it in its place.
    Named(tempfile::NamedTempFile),
    /// An unnamed file, invisible to other processes.
    Hidden(File),
}

impl Temp {
    fn file(&mut self) -> &mut File {
        match self {
            Temp::Named(file) => file.as_file_mut(),
            Temp::Hidden(file) => file,
        }
    }
}

impl Job<'_> {
    /// The new ids of the result and what is copied with it; `None` if it keeps its ids and
    /// nothing comes from another session.
    pub(crate) fn copies(&self) -> Result<Option<Copies>, Error> {
        if self.policy.ids == Ids::Keep {
            let graft = self.plan.change().graft().filter(|graft| !graft.is_moved);
            return graft.map(|graft| Copies::of_graft(self, graft)).transpose();
        }
        let mut ids = Renames::new(&self.session.id, &self.new_id);
        ids.learn(&self.plan.source().unwrap_or(&self.read.subject).conversation().table);
        Copies::new(self, ids).map(Some)
    }

    /// The proof of what the job would do.
    pub fn proof(&self, rules: Rules) -> Result<Proof, Error> {
        self.make(None, None, rules).map(|made| made.proof)
    }

    /// Writes the result to a temporary file, and compares.
    pub(crate) fn make(
        &self,
        ready: Option<&Ready>,
        ids: Option<&Renames>,
        rules: Rules,
    ) -> Result<Made, Error> {
        let path = ready.map_or(Path::new("a temporary file"), |ready| ready.path.as_path());
        let mut file = match ready {
            Some(ready) => Temp::Named(temporary(&ready.temp).map_err(Error::unwritable(path))?),
            None => Temp::Hidden(tempfile::tempfile().map_err(Error::unwritable(path))?),
        };
        let source = self.plan.source().unwrap_or(&self.read.subject);
        let written = change::write(source, self.plan.change(), ids, file.file());
        let written = written.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Error::unreadable(&self.session.path)(error.into_io())
            }
            _ => Error::unwritable(path)(error),
        })?;
        let written = match &self.plan {
            Plan::Change(_) => written,
            Plan::Repaired(repaired) => repaired.total(written),
        };
        let again = file.file().try_clone().map_err(Error::unwritable(path))?;
        // The disk syncs while the result is read and proved; `dress` waits for the rest.
        let is_in_place = self.policy.place == Place::InPlace;
        let replaced = ready.filter(|_| is_in_place).map(|ready| ready.path.as_path());
        let (proof, old) = thread::scope(|scope| {
            if let Temp::Named(named) = &file {
                scope.spawn(|| named.as_file().sync_data());
            }
            let was = self.read.was;
            let old = replaced.map(|path| scope.spawn(move || store::hash_of(path, was)));
            if let Some(cover) = self.plan.change().cover() {
                redact::rescan(&again, Form::Lines, cover, path)?;
            }
            let after = Subject::of_file(again, &self.session.path, rules);
            let after = after.map_err(Error::unwritable(path))?;
            let proof = change::prove(&self.read.subject, self.plan.change(), written, &after);
            let old = old.and_then(|old| old.join().ok().flatten());
            Ok::<_, Error>((proof.map_err(Error::unwritable(path))?, old))
        })?;
        Ok(Made { proof, file, old })
    }
}

/// A new file with exactly this name, which is removed unless it is kept.
pub(crate) fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::metadata(folder)?;
    let name = path.file_name().unwrap_or_default();
    let named = tempfile::Builder::new().prefix(name).suffix("").rand_bytes(0).tempfile_in(folder);
    // Leaves out the name of the temporary file, which the user does not know.
    named.map_err(|error| error.kind().into())
}
