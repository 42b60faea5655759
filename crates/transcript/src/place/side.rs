//! What belongs to a session beside its file.
//!
//! Sub-agents' files have stood in four places: in the session's own file (no file at all), beside it, in
//! `subagents` in the folder of the session's name, and, in seed 004, in `subagents` beside it. Where the
//! folder does not say whose they are, the session id in their first records does.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Session, is_agent, is_jsonl, listing, sidecar};
use crate::file::Lines;
use crate::json::Json;
use crate::limit::GLANCE_HEAD;

/// The file of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its id, as in the file's name.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// Its `.meta.json`, if it has one.
    pub meta: Option<PathBuf>,
}

/// A file that belongs to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// What it is.
    pub thing: Thing,
    /// Where it is.
    pub path: PathBuf,
}

/// What a file beside a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// The session itself.
    Transcript,
    /// A sub-agent's transcript.
    Agent,
    /// What a sub-agent was started with.
    AgentMeta,
    /// A result too large for the transcript.
    ToolResult,
    /// A copy of a file before it was edited.
    FileHistory,
    /// A todo list.
    Todos,
    /// A row in the project's `sessions-index.json`.
    IndexRow,
    /// Prompts in `history.jsonl`.
    History,
}

impl Thing {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Thing::Transcript => "transcript",
            Thing::Agent => "agent",
            Thing::AgentMeta => "agent-meta",
            Thing::ToolResult => "tool-result",
            Thing::FileHistory => "file-history",
            Thing::Todos => "todos",
            Thing::IndexRow => "index-row",
            Thing::History => "history",
        }
    }
}

/// The sub-agents' files of a session, by path.
pub fn agents(session: &Session) -> Vec<Agent> {
    let mut found = Vec::new();
    // Named agents may have folders of their own.
    let mut open = vec![session.folder().join("subagents")];
    while let Some(folder) = open.pop() {
        let inside = listing(&folder);
        open.extend(inside.folders);
        found.extend(inside.files.into_iter().filter(|path| is_jsonl(path) && is_agent(path)));
    }
    if let Some(project) = session.path.parent() {
        for folder in [project.to_owned(), project.join("subagents")] {
            let files = listing(&folder).files.into_iter();
            found.extend(files.filter(|path| {
                is_jsonl(path)
                    && is_agent(path)
                    && *path != session.path
                    && is_of(path, &session.id)
            }));
        }
    }
    found.sort();
    found.into_iter().map(agent).collect()
}

fn agent(path: PathBuf) -> Agent {
    let id = path.file_stem().unwrap_or_default().to_string_lossy();
    let id = id.strip_prefix("agent-").unwrap_or(&id).to_owned();
    let meta = path.with_extension("meta.json");
    Agent { id, meta: meta.is_file().then_some(meta), path }
}

/// The content of a sub-agent's `.meta.json`: `agentType`, `description`, `toolUseId` and more.
pub fn agent_meta(agent: &Agent) -> Option<Vec<u8>> {
    let bytes = sidecar(agent.meta.as_ref()?)?;
    Json::parse(&bytes).is_some().then_some(bytes)
}

/// Whether the first record that names a session names this one.
fn is_of(path: &Path, session: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut lines = Lines::new(file.take(GLANCE_HEAD as u64));
    while let Ok(Some(line)) = lines.next_line() {
        let mut named = line.records().filter_map(|record| record.entry?.session());
        if let Some(named) = named.next() {
            return named == session;
        }
    }
    false
}

/// Everything that belongs to a session, the session first.
///
/// For a session in a home that is more than for one given by its path alone: the copies of edited
/// files, the todo lists and the prompt history stand in the home.
pub fn belongings(session: &Session) -> Vec<Belonging> {
    let mut found = vec![Belonging { thing: Thing::Transcript, path: session.path.clone() }];
    let mut add = |thing: Thing, path: PathBuf| found.push(Belonging { thing, path });
    for agent in agents(session) {
        add(Thing::Agent, agent.path);
        agent.meta.into_iter().for_each(|meta| add(Thing::AgentMeta, meta));
    }
    for path in listing(&session.folder().join("tool-results")).files {
        add(Thing::ToolResult, path);
    }
    let project = session.path.parent();
    if let Some(index) = project.map(|project| project.join("sessions-index.json"))
        && mentions(&index, &session.id)
    {
        add(Thing::IndexRow, index);
    }
    if let Some(root) = project.and_then(Path::parent).and_then(Path::parent) {
        for path in listing(&root.join("file-history").join(&session.id)).files {
            add(Thing::FileHistory, path);
        }
        for path in listing(&root.join("todos")).files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&session.id) {
                add(Thing::Todos, path);
            }
        }
        let history = root.join("history.jsonl");
        if mentions(&history, &session.id) {
            add(Thing::History, history);
        }
    }
    found
}

/// Whether a file holds the id. Ids are long and random: no need to ask where it stands.
fn mentions(path: &Path, id: &str) -> bool {
    sidecar(path).is_some_and(|bytes| memchr::memmem::find(&bytes, id.as_bytes()).is_some())
}
