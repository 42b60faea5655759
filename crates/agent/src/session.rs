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
mod error;
mod explain;
mod guarded;
mod kept;
mod layers;
mod permits;
mod place;
mod prepare;
mod start;
mod trusted;

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};

use rules::current;
use serde_json::Value;
use tempfile::TempDir;

use crate::ambient::Real;
use crate::api::Model;
use crate::api::retry::Retry;
use crate::compact::CompactAt;
use crate::context::{LeftOut, Loaded};
use crate::drive::{About, Agent, Asking, Departure, Driver, MOST_STOPS, Note};
use crate::event::AgentId;
use crate::guard::SandboxWish;
use crate::hook::HookBook;
use crate::host::{Audience, Init};
use crate::log::Log;
use crate::model;
use crate::permit::Permit;
use crate::prompt::Wishes;
use crate::record::{Pending, Recorder};
use crate::resume::Resumed;
use crate::slash::{BUILT_IN, SlashBook};
use crate::subagent::{AgentKind, Kinds};
use crate::tool::{Registry, Site, Tool};
use crate::turn::Turn;

pub use config::{
    CompactWindow, ContextWish, Continues, Folders, Keeping, ModelSource, SessionConfig, SlashWish,
};
pub use error::FileError;
pub use explain::Explained;
pub use guarded::{GuardError, SandboxWishes};
pub use layers::{SettingsError, SettingsWishes, managed_settings};
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
#[derive(Debug)]
pub struct Parts {
    /// The id of the session.
    pub id: String,
    /// Where its tools work; also the model that answers, and the source of time and ids.
    pub site: Site,
    /// The transcript; None if there is none.
    pub log: Option<Log>,
    /// A title, written with the first prompt.
    pub title: Option<String>,
    /// Why the user left another session for this one.
    pub after: Option<Departure>,
    /// The conversation so far.
    pub resumed: Resumed,
    /// The parameters of requests.
    pub asking: Asking,
    /// Where the key of the API comes from.
    pub key_source: &'static str,
    /// How often a request is retried.
    pub retry: Retry,
    /// At most this many requests per prompt.
    pub max_turns: Option<u32>,
    /// What tools may do.
    pub permit: Permit,
    /// How much of a sandbox there is.
    pub sandbox: SandboxWish,
    /// Hooks.
    pub hooks: HookBook,
    /// The sub-agents that there are.
    pub kinds: Kinds,
    /// Commands and skills.
    pub slashes: SlashBook,
    /// Whether the conversation is summarised by itself before it is too long.
    pub compacts: bool,
    /// When that is.
    pub compact_at: CompactAt,
    /// How often in a row hooks may keep a turn from ending; None for the usual.
    pub most_stops: Option<u32>,
    /// What the run may cost, in dollars.
    pub budget: Option<f64>,
    /// The models that go on, in this order, if the one before is overloaded.
    pub fallback: Vec<String>,
    /// The JSON Schema of what each turn has to return.
    pub schema: Option<Value>,
    /// The only tools that there are; None for all.
    pub tools: Option<Vec<String>>,
    /// The definition of the main agent: which of them it has, and which of their calls.
    pub kind: Option<AgentKind>,
    /// What the system prompt was made of.
    pub prompt: Wishes,
    /// The instruction files that were read.
    pub instructions: Vec<Loaded>,
    /// The file of the transcript, also if nothing is written to it.
    pub transcript: PathBuf,
    /// Who follows the session.
    pub audience: Audience,
}

impl Parts {
    /// The parts of a new session that is not written anywhere: the model and its name, the folder
    /// where it works (a real path), its id, and what it may do.
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
            effort: None,
            system: Vec::new(),
            tools: offered(&Registry::built_in(), &permit).map(|tool| tool.spec().json()).collect(),
            reminder: String::new(),
            surroundings: String::new(),
            news: None,
            kept: None,
            is_cached: true,
        };
        let model = (model, name.to_owned());
        Parts {
            id: id.to_owned(),
            site: Site::new(cwd, &cwd.join(id), None, model, Arc::new(Real)),
            log: None,
            title: None,
            after: None,
            resumed: Resumed::default(),
            asking,
            key_source: endpoint::NO_KEY,
            retry: Retry::default(),
            max_turns: None,
            permit,
            sandbox: SandboxWish::Off,
            hooks: HookBook::default(),
            kinds: Kinds::default(),
            slashes: SlashBook::default(),
            compacts: true,
            compact_at: CompactAt::default(),
            most_stops: None,
            budget: None,
            fallback: Vec::new(),
            schema: None,
            tools: None,
            kind: None,
            prompt: Wishes::default(),
            instructions: Vec::new(),
            transcript: PathBuf::new(),
            audience: Audience::default(),
        }
    }
}

impl Session {
    /// Puts the parts together. `notes` is where the session's threads report to: the other end of
    /// the inbox with which the driver runs.
    pub fn assemble(parts: Parts, notes: Sender<Note>) -> Session {
        let Parts { mut site, resumed, permit, mut asking, .. } = parts;
        if parts.audience == Audience::Person {
            Registry::for_person().for_each(|tool| site.tools.add(tool));
        }
        for tool in parts.kinds.tools() {
            site.tools.add(tool);
        }
        let slashes = Arc::new(parts.slashes);
        slashes.tool().into_iter().for_each(|tool| site.tools.add(tool));
        if let Some(names) = &parts.tools {
            let is_one = |name: &str| names.iter().any(|one| current(one) == current(name));
            site.tools = site.tools.only(is_one);
        }
        if let Some(kind) = &parts.kind {
            site.tools = site.tools.only(|name| kind.has(name));
            site.scopes.extend(kind.scope(&site.root));
        }
        if let Some(schema) = parts.schema {
            site.output.want(schema);
        }
        site.tools.add(site.output.clone());
        asking.tools = offered(&site.tools, &permit).map(|tool| tool.spec().json()).collect();
        let (cwd, nature) = (&site.root, site.nature.clone());
        let init = Init {
            session: parts.id.clone(),
            cwd: cwd.display().to_string(),
            tools: offered(&site.tools, &permit).map(|tool| tool.spec().name.clone()).collect(),
            key: parts.key_source,
            sandbox: parts.sandbox.name(),
            agents: parts.kinds.names(),
            commands: commands(&slashes),
            skills: skills(&slashes),
            shows_hooks: false,
        };
        let (is_kept, is_resumed) = (parts.log.is_some(), !resumed.messages.is_empty());
        let mut point = resumed.point;
        point.pending.extend(parts.title.map(Pending::Title));
        let mode = permit.mode.name();
        *site.mode.lock().unwrap_or_else(PoisonError::into_inner) = permit.mode;
        let recorder = Recorder::new(nature.clone(), parts.log, &parts.id, cwd, mode, point);
        for (path, print) in &resumed.seen {
            site.seen.restore(&cwd.join(path), *print);
        }
        let watched = resumed.backups.into_iter();
        site.watch(watched.map(|(path, backup)| (cwd.join(path), backup)));
        let turn = Turn::new(resumed.messages, parts.retry, parts.max_turns);
        let turn = turn.with_waypoints(resumed.waypoints);
        let model = site.model.0.clone();
        let retry = parts.retry;
        let mut main = Agent::new(AgentId::Main, turn, recorder, asking, Arc::new(site));
        main.count.last = resumed.usage;
        let about = About {
            session: parts.id,
            transcript: parts.transcript,
            is_kept,
            is_resumed,
            after: parts.after,
            retry,
            compacts: parts.compacts,
            compact_at: parts.compact_at,
            most_stops: parts.most_stops.unwrap_or(MOST_STOPS),
            budget: parts.budget,
            fallback: parts.fallback,
            prompt: parts.prompt,
            more_for_agents: None,
            instructions: parts.instructions,
            audience: parts.audience,
        };
        let mut driver = Driver::new(main, (model, about), permit, nature, notes);
        (driver.hooks, driver.kinds, driver.slashes) = (parts.hooks, parts.kinds, slashes);
        Session { driver, init, scratch: None }
    }
}

/// The commands that can be typed: those of the client, of the user and of the project.
fn commands(slashes: &SlashBook) -> Vec<String> {
    let built_in = BUILT_IN.map(str::to_owned);
    built_in.into_iter().chain(slashes.for_user().map(|slash| slash.name.clone())).collect()
}

fn skills(slashes: &SlashBook) -> Vec<String> {
    let skills = slashes.iter().filter(|slash| slash.folder.is_some());
    skills.map(|slash| slash.name.clone()).collect()
}

/// The tools that a session may use.
fn offered<'a>(tools: &'a Registry, permit: &'a Permit) -> impl Iterator<Item = &'a Arc<dyn Tool>> {
    tools.iter().filter(|tool| permit.offers(&tool.spec().name) && tool.is_offered(permit.mode))
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
    /// What ran in the background when the session was left, and does not run any more.
    Ended(Vec<String>),
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
