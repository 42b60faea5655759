//! The files that belong to a session, besides its own.
//!
//! Clients have kept the records of sub-agents in four places: in the session's own file (no file
//! of their own), beside it, in `subagents` in the folder of the session's name, and, according to
//! published descriptions, in `subagents` beside it. If the folder does not show which session they
//! belong to, the session id in their first records does.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::home_folders;
use super::{Session, is_agent, is_jsonl, listing, sidecar};
use crate::conversation::id::AgentId;
use crate::format::file::{Body, Lines};
use crate::format::json::{Json, Object};
use crate::format::limit::GLANCE_HEAD;
use crate::names::named;

/// The file of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its id, as in the file name.
    pub id: AgentId,
    /// The path of the file.
    pub path: PathBuf,
    /// The path of its `.meta.json`, if it has one.
    pub meta: Option<PathBuf>,
}

impl Agent {
    /// The sub-agent of a file.
    pub fn at(path: PathBuf) -> Agent {
        let id = path.file_stem().unwrap_or_default().to_string_lossy();
        let id = id.strip_prefix("agent-").unwrap_or(&id).to_owned();
        let meta = path.with_extension("meta.json");
        Agent { id: id.into(), meta: meta.is_file().then_some(meta), path }
    }

    /// The bytes of its `.meta.json`, if they are JSON: `agentType`, `description`, `toolUseId` and
    /// more.
    pub fn meta(&self) -> Option<Vec<u8>> {
        let bytes = sidecar(self.meta.as_ref()?)?;
        Json::parse(&bytes).is_some().then_some(bytes)
    }
}

/// A file that belongs to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// What it is.
    pub thing: Thing,
    /// Its path.
    pub path: PathBuf,
    /// The sub-agent, if it is the transcript of one.
    pub agent: Option<Agent>,
}

named! {
    /// The kinds of files that belong to a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Thing {
        /// The session itself.
        Transcript = "transcript",
        /// A sub-agent's transcript.
        Agent = "agent",
        /// How a sub-agent was started.
        AgentMeta = "agent-meta",
        /// A result too large for the transcript.
        ToolResult = "tool-result",
        /// Another file in the session's folder.
        SideFile = "side-file",
        /// A copy of a file before it was edited.
        FileHistory = "file-history",
        /// A todo list.
        Todos = "todos",
        /// A task of the model's list.
        Task = "task",
        /// An image that was pasted into a prompt.
        PastedImage = "pasted-image",
        /// A script that a hook made for the commands of the session.
        Environment = "session-env",
        /// What the client did, if it was asked to record that.
        DebugLog = "debug-log",
        /// Another file of the home that is named after the session.
        HomeFile = "home-file",
        /// The plan that was made in plan mode.
        Plan = "plan",
        /// An entry in the project's `sessions-index.json`.
        IndexRow = "index-row",
        /// Prompts in `history.jsonl`.
        History = "history",
        /// A text that was pasted into a prompt in `history.jsonl`.
        PastedText = "pasted-text",
    }
}

impl Thing {
    /// Whether a copy of the session needs it to go on.
    pub fn goes_along(self) -> bool {
        match self {
            Thing::Agent
            | Thing::AgentMeta
            | Thing::ToolResult
            | Thing::SideFile
            | Thing::FileHistory
            | Thing::Todos
            | Thing::Task
            | Thing::PastedImage => true,
            Thing::Transcript
            | Thing::Environment
            | Thing::DebugLog
            | Thing::HomeFile
            | Thing::Plan
            | Thing::IndexRow
            | Thing::History
            | Thing::PastedText => false,
        }
    }

    /// Whether other sessions may use the same file, so that it does not go with one of them.
    pub fn is_shared(self) -> bool {
        matches!(self, Thing::Plan | Thing::IndexRow | Thing::History | Thing::PastedText)
    }
}

/// The sub-agents' files of a session, by path.
pub fn agents(session: &Session) -> Vec<Agent> {
    let project = session.path.parent();
    agents_among(session, &project.map(Beside::in_project).unwrap_or_default())
}

/// Like [`agents`], if the sub-agents' files beside the project's sessions are already known.
pub fn agents_among(session: &Session, beside: &Beside) -> Vec<Agent> {
    // Named agents may have folders of their own.
    let mut found = files_below(&session.folder().join("subagents"));
    found.retain(|path| is_jsonl(path) && is_agent(path));
    found.extend(beside.of.get(session.id.as_str()).into_iter().flatten().cloned());
    found.retain(|path| *path != session.path);
    found.sort();
    found.into_iter().map(Agent::at).collect()
}

/// The files in a folder and in the folders in it, by path. A link counts as a file, and is not
/// followed.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let inside = listing(&folder);
        open.extend(inside.folders);
        found.extend(inside.files);
    }
    found.sort();
    found
}

/// The sub-agents' files of a project that are not in the folder of a session, by the id of the
/// session that they name.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    of: HashMap<String, Vec<PathBuf>>,
}

impl Beside {
    /// Finds those of a project. This reads into each of them: with many sessions, call it only
    /// once.
    pub fn in_project(project: &Path) -> Beside {
        Beside::in_project_while(project, || true).unwrap_or_default()
    }

    /// Like [`Beside::in_project`], with a time limit: `None` if `has_time` returns false before
    /// all of them were read.
    pub fn in_project_while(project: &Path, has_time: impl Fn() -> bool) -> Option<Beside> {
        let mut of: HashMap<String, Vec<PathBuf>> = HashMap::new();
        for path in beside(project) {
            if !has_time() {
                return None;
            }
            if let Some(session) = session_of(&path) {
                of.entry(session).or_default().push(path);
            }
        }
        Some(Beside { of })
    }

    /// The ids of the sessions that they name.
    pub fn sessions(self) -> HashSet<String> {
        self.of.into_keys().collect()
    }
}

/// The sub-agents' files that are not in the folder of a session.
fn beside(project: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = [project.to_owned(), project.join("subagents")];
    let files = folders.into_iter().flat_map(|folder| listing(&folder).files);
    files.filter(|path| is_jsonl(path) && is_agent(path))
}

/// The id of the session that is named first in the file.
fn session_of(path: &Path) -> Option<String> {
    let mut lines = Lines::new(files::open(path).ok()?);
    while let Ok(Some(line)) = lines.next_line() {
        let mut named =
            line.records().filter_map(|record| Some(record.entry?.session()?.into_owned()));
        if let Some(named) = named.next() {
            return Some(named);
        }
        if line.offset > GLANCE_HEAD as u64 {
            break;
        }
    }
    None
}

/// Everything that belongs to a session, the session first.
///
/// For a session in a home, this is more than for one that is given by its path alone: a home has
/// copies of edited files, lists of things to do, logs, plans and the prompt history.
pub fn belongings(session: &Session) -> Vec<Belonging> {
    let mut found = in_folder(session, agents(session));
    let project = session.path.parent();
    if let Some(index) = project.map(|project| project.join("sessions-index.json"))
        && mentions(&index, &session.id)
    {
        found.push(plain(Thing::IndexRow, index));
    }
    if let Some(root) = root(session) {
        found.extend(in_home(session, root, |_| true));
        let history = root.join("history.jsonl");
        if let Some(pasted) = prompts_in(&history, &session.id) {
            found.push(plain(Thing::History, history));
            let pasted = home_folders::pasted(root, &pasted);
            found.extend(pasted.into_iter().map(|path| plain(Thing::PastedText, path)));
        }
    }
    found
}

/// What a copy of the session takes along, and its plans, if the sub-agents' files are already
/// known.
pub(super) fn its_own(session: &Session, agents: Vec<Agent>) -> Vec<Belonging> {
    let mut found = in_folder(session, agents);
    let root = root(session);
    found.extend(root.into_iter().flat_map(|root| in_home(session, root, Thing::goes_along)));
    found
}

pub(super) fn plain(thing: Thing, path: PathBuf) -> Belonging {
    Belonging { thing, path, agent: None }
}

/// The home, if the session is in one.
pub(super) fn root(session: &Session) -> Option<&Path> {
    session.path.parent()?.parent()?.parent()
}

/// The session and what is in its folder.
fn in_folder(session: &Session, agents: Vec<Agent>) -> Vec<Belonging> {
    let mut found = vec![plain(Thing::Transcript, session.path.clone())];
    for agent in agents {
        let (path, meta) = (agent.path.clone(), agent.meta.clone());
        found.push(Belonging { thing: Thing::Agent, path, agent: Some(agent) });
        found.extend(meta.map(|meta| plain(Thing::AgentMeta, meta)));
    }
    let known: HashSet<PathBuf> = found.iter().map(|one| one.path.clone()).collect();
    let mut add = |thing: Thing, path: PathBuf| found.push(plain(thing, path));
    // Clients may keep more in the session's folder than is known today.
    let inside = files_below(&session.folder()).into_iter().filter(|path| !known.contains(path));
    let results = session.folder().join("tool-results");
    let (results, others): (Vec<_>, Vec<_>) = inside.partition(|path| path.starts_with(&results));
    for path in results {
        add(Thing::ToolResult, path);
    }
    for path in others {
        add(Thing::SideFile, path);
    }
    found
}

/// What a home has of a session, apart from the prompt history.
fn in_home(session: &Session, root: &Path, is_wanted: impl Fn(Thing) -> bool) -> Vec<Belonging> {
    let mut found = home_folders::named_after(session, root, is_wanted);
    let plans = home_folders::plans(root, || slugs(&session.path));
    found.extend(plans.into_iter().map(|path| plain(Thing::Plan, path)));
    found
}

/// The readable names that a client gave to a session. They begin at any record, and may change.
fn slugs(path: &Path) -> HashSet<String> {
    let mut slugs = HashSet::new();
    let Ok(file) = files::open(path) else { return slugs };
    let mut lines = Lines::new(file);
    let member = memmem::Finder::new("\"slug\"");
    while let Ok(Some(line)) = lines.next_line() {
        if matches!(line.body, Body::Held(bytes) if member.find(bytes).is_some()) {
            let named = line.records().filter_map(|record| record.entry?.text("slug"));
            slugs.extend(named.map(Cow::into_owned));
        }
    }
    slugs
}

/// The hashes of the texts that were pasted into the session's prompts; `None` if none of the
/// prompts in the history is of the session. A history that cannot be read may have some.
fn prompts_in(history: &Path, id: &str) -> Option<HashSet<String>> {
    let file = match files::open(history) {
        Ok(file) => file,
        Err(error) => {
            return (error.kind() != io::ErrorKind::NotFound).then(HashSet::new);
        }
    };
    let mut lines = Lines::new(file);
    let (mut hashes, mut is_there) = (HashSet::new(), false);
    let of_session = memmem::Finder::new(id.as_bytes());
    while let Ok(Some(line)) = lines.next_line() {
        let Body::Held(bytes) = line.body else { continue };
        if of_session.find(bytes).is_none() {
            continue;
        }
        is_there = true;
        let pasted = Json::parse(bytes).and_then(|line| line.get("pastedContents")?.object());
        for (_, one) in pasted.iter().flat_map(Object::members) {
            hashes.extend(one.get("contentHash").and_then(Json::text).map(Cow::into_owned));
        }
    }
    is_there.then_some(hashes)
}

/// Whether a line of a file contains the id. Ids are long and random, so its position does not
/// matter. A file that exists but cannot be read may contain it.
fn mentions(path: &Path, id: &str) -> bool {
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let mut lines = Lines::new(file);
    while let Ok(Some(line)) = lines.next_line() {
        if let Body::Held(bytes) = line.body
            && memmem::find(bytes, id.as_bytes()).is_some()
        {
            return true;
        }
    }
    false
}
