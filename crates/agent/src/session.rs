//! A chat session, assembled from plain values.
//!
//! In three steps, so that a program can look for a session between them:
//! [`SessionConfig::prepare`] reads trust, settings and permissions; [`Prepared::place`] finds the
//! session's file, or a place for a new one; [`Prepared::start`] makes the parts and puts them
//! together. [`Session::assemble`] is the end of that, for callers that have the parts.
//!
//! Invariants: nothing here prints, asks anybody, or reads the flags of a program; time, ids and
//! variables are those that the caller gives; what a user should know is passed on in the order in
//! which it happens, and before an error that follows it; no file of a session is touched before
//! trust, settings and permissions have been found in order.

mod config;
mod endpoint;
mod kept;
mod layers;
mod permits;
mod place;
mod prepare;
mod start;
mod trusted;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tempfile::TempDir;

use crate::ambient::{Ambient, Real};
use crate::api::Model;
use crate::api::retry::Retry;
use crate::context::LeftOut;
use crate::drive::{Asking, Driver, Event};
use crate::host::Init;
use crate::log::Log;
use crate::model;
use crate::permit::Permit;
use crate::record::{Pending, Recorder};
use crate::resume::Resumed;
use crate::secret::Secrets;
use crate::tool::{self, Site, Tool};
use crate::turn::Turn;

pub use config::{Continues, Folders, Keeping, ModelSource, SessionConfig};
pub use layers::{SettingsError, SettingsWishes};
pub use permits::{BypassWish, PermitError, PermitWishes, RootRule};
pub use place::{Origin, PlaceError, SessionPlace};
pub use prepare::{PrepareError, Prepared};
pub use start::StartError;
pub use trusted::{Added, Standing, TrustError, trust};

/// A session that waits for its first prompt.
#[derive(Debug)]
pub struct Session {
    /// Runs it.
    pub driver: Driver,
    /// What a host shows first.
    pub init: Init,
    /// A folder that is removed at the end, if the session is not kept.
    pub scratch: Option<TempDir>,
}

/// What a session is made of.
pub struct Parts {
    /// The id of the session.
    pub id: String,
    /// Where it works: a real path.
    pub cwd: PathBuf,
    /// Additional folders that tools may work in.
    pub folders: Vec<PathBuf>,
    /// The session's own folder, for what is too long for the model.
    pub folder: PathBuf,
    /// Whether that folder is where sessions are stored, so that no other program puts anything
    /// there.
    pub is_own_folder: bool,
    /// The transcript; None if there is none.
    pub log: Option<Log>,
    /// Where copies of changed files are kept, if they are.
    pub backups: Option<PathBuf>,
    /// The file of the todo list, if there is one.
    pub todo_file: Option<PathBuf>,
    /// A title, written with the first prompt.
    pub title: Option<String>,
    /// The conversation so far.
    pub resumed: Resumed,
    /// Answers requests: the API, or a script.
    pub model: Arc<dyn Model>,
    /// The parameters of requests.
    pub asking: Asking,
    /// Where the key of the API comes from.
    pub key_source: &'static str,
    /// Whether nothing may be fetched from the web.
    pub is_offline: bool,
    /// How often a request is retried.
    pub retry: Retry,
    /// At most this many requests per prompt.
    pub max_turns: Option<u32>,
    /// What tools may do.
    pub permit: Permit,
    /// Variables that commands get.
    pub env: Vec<(String, String)>,
    /// Values that must not be shown.
    pub secrets: Secrets,
    /// Proxies, by the variables that named them, if the environment no longer contains these.
    pub proxies: Vec<(String, String)>,
    /// Time, ids and random numbers.
    pub nature: Arc<dyn Ambient>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Parts {
    /// The parts of a new session that is not written anywhere: the model and its name, the folder
    /// where it works, its id, and what it may do.
    pub fn new(
        (model, name): (Arc<dyn Model>, &str),
        cwd: &Path,
        id: &str,
        permit: Permit,
    ) -> Parts {
        let asking = Asking {
            model: name.to_owned(),
            max_tokens: model::output_tokens(name),
            thinking: None,
            system: Vec::new(),
            tools: offered(&permit).map(Tool::json).collect(),
            reminder: String::new(),
            news: None,
            kept: None,
            is_cached: true,
        };
        Parts {
            id: id.to_owned(),
            cwd: cwd.to_owned(),
            folders: Vec::new(),
            folder: cwd.join(id),
            is_own_folder: true,
            log: None,
            backups: None,
            todo_file: None,
            title: None,
            resumed: Resumed::default(),
            model,
            asking,
            key_source: endpoint::NO_KEY,
            is_offline: false,
            retry: Retry::default(),
            max_turns: None,
            permit,
            env: Vec::new(),
            secrets: Secrets::default(),
            proxies: Vec::new(),
            nature: Arc::new(Real),
        }
    }
}

impl Session {
    /// Puts the parts together. `notes` is where the session's threads report to: the other end of
    /// the inbox with which the driver runs.
    pub fn assemble(parts: Parts, notes: Sender<Event>) -> Session {
        let (cwd, nature, resumed) = (parts.cwd, parts.nature, parts.resumed);
        let init = Init {
            session: parts.id.clone(),
            cwd: cwd.display().to_string(),
            tools: offered(&parts.permit).map(|tool| tool.name.clone()).collect(),
            key: parts.key_source,
        };
        let mut point = resumed.point;
        point.pending.extend(parts.title.map(Pending::Title));
        let mode = parts.permit.mode.name();
        let recorder = Recorder::new(nature.clone(), parts.log, &parts.id, &cwd, mode, point);
        let model = (parts.model.clone(), parts.asking.model.clone());
        let mut site = Site::new(&cwd, &parts.folder, parts.backups, model, nature.clone());
        site.is_offline = parts.is_offline;
        site.folders = parts.folders;
        site.is_own_folder = parts.is_own_folder;
        site.shells.env = parts.env;
        (site.secrets, site.proxies) = (parts.secrets, parts.proxies);
        for (path, print) in &resumed.seen {
            site.seen.restore(&cwd.join(path), *print);
        }
        let watched = resumed.backups.into_iter();
        site.watch(watched.map(|(path, backup)| (cwd.join(path), backup)));
        site.todo_file = parts.todo_file;
        let turn = Turn::new(resumed.messages, parts.retry, parts.max_turns);
        let driver = Driver::new(
            turn,
            recorder,
            (parts.model, parts.asking),
            (Arc::new(site), parts.permit),
            nature,
            notes,
        );
        Session { driver, init, scratch: None }
    }
}

/// The tools that a session may use.
fn offered(permit: &Permit) -> impl Iterator<Item = &'static Tool> {
    tool::all().iter().filter(|tool| permit.offers(&tool.name))
}

/// What a user should know about a session that is about to begin.
#[derive(Debug)]
pub enum Notice {
    /// The list of trusted folders cannot be used, so it covers nothing.
    NothingTrusted(TrustError),
    /// A message about settings, in words.
    Settings(String),
    /// The session could not be locked, so another process could write to it, too.
    Unlocked(workshop::Error),
    /// Something about a repair.
    Workshop(workshop::Notice),
    /// The session was repaired before it was resumed.
    Repaired {
        /// What was done, and how often.
        deeds: Vec<(String, usize)>,
        /// What was repaired.
        what: RepairedWhat,
    },
    /// What was ignored.
    LeftOut {
        /// Settings of a folder that is not trusted: their name, and the keys.
        settings: Vec<(String, Vec<&'static str>)>,
        /// What else was not read.
        context: LeftOut,
    },
}

/// What was repaired before a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairedWhat {
    /// The session itself; the change is in the journal.
    Session,
    /// A copy that is not kept.
    Copy,
}
