//! The kinds of sub-agents that messages belong to.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use transcript::Session;
use transcript::conversation::agents::{Body, Purpose, SubAgent, WithAgents};
use transcript::conversation::usage::{CountedFile, Ledger, LedgerEntry};

use super::{MAIN, UNKNOWN};

/// The kinds of sub-agents, by their files, and by messages for those in the session's own file.
#[derive(Debug, Default)]
pub(super) struct Agents {
    files: HashMap<PathBuf, String>,
    messages: HashMap<String, String>,
}

impl Agents {
    /// Reads the sessions that have sub-agents: only the call that started one may name its kind.
    pub(super) fn of(ledger: &Ledger) -> Agents {
        let mut agents = Agents::default();
        let has_agents = ledger
            .entries
            .iter()
            .filter(|entry| entry.message.is_sidechain || ledger.source(entry).is_agent);
        let sessions: HashSet<PathBuf> = has_agents
            .map(|entry| {
                let source = ledger.source(entry);
                source.project.join(format!("{}.jsonl", source.session))
            })
            .collect();
        for path in sessions {
            agents.add(&path);
        }
        agents
    }

    fn add(&mut self, path: &Path) {
        let Ok(session) = Session::at(path) else { return };
        let Ok(family) = WithAgents::open(&session) else { return };
        for agent in &family.agents {
            let kind = kind_of(&family, agent);
            match &agent.body {
                Body::File(conversation) => {
                    self.files.insert(conversation.path.clone(), kind);
                }
                Body::Sidechain(chains) => {
                    let table = &family.main.table;
                    for row in family.main.rows(chains) {
                        if let Some(id) = table.text(table.row(row).message) {
                            self.messages.insert(id.to_owned(), kind.clone());
                        }
                    }
                }
            }
        }
    }

    pub(super) fn kind_of(&self, entry: &LedgerEntry, source: &CountedFile) -> String {
        let kind = if source.is_agent {
            self.files.get(&source.path)
        } else if entry.message.is_sidechain {
            self.messages.get(&entry.message.id)
        } else {
            return MAIN.to_owned();
        };
        kind.cloned().unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

/// The kind of a sub-agent; of those that the client starts for itself, what they are for.
fn kind_of(family: &WithAgents, agent: &SubAgent) -> String {
    let named = family.task(agent).ok().and_then(|[kind, _]| kind);
    match (named, agent.purpose) {
        (Some(kind), _) => kind,
        (None, Purpose::Task | Purpose::Unknown) => UNKNOWN.to_owned(),
        (None, purpose) => format!("({})", purpose.name()),
    }
}
