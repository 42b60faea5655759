//! A session with its sub-agents, and which call started which.
//!
//! The records of a sub-agent are in a file of its own, or form a sidechain in the session's file.
//! What joins them to a call differs by version, and so does the certainty: [`How`] is the
//! evidence, and [`Joined::is_guess`] tells whether another call fits as well. Invariants: every
//! sub-agent is listed, joined or not; by its prompt, a call is joined to at most one.

mod join;

use std::collections::{HashMap, HashSet};

use crate::conversation::Conversation;
use crate::conversation::graph::ChainId;
use crate::conversation::id::AgentId;
use crate::conversation::place::{Agent, Session, agents};
use crate::conversation::table::{BlockId, RowId, Watch};
use crate::conversation::turn::Turn;
use crate::format::input::Input;
use crate::format::json::Json;
use crate::names::named;
use join::Joining;

/// A session and its sub-agents.
#[derive(Debug)]
pub struct WithAgents {
    /// The session.
    pub main: Conversation,
    /// Its sub-agents: the files by path, then the sidechains.
    pub agents: Vec<SubAgent>,
    /// Files of sub-agents that cannot be read, and why.
    pub unreadable: Vec<crate::Error>,
    /// The sub-agents of each call, as indices into `agents`. One that was continued belongs to
    /// several calls.
    by_call: HashMap<(Owner, BlockId), Vec<usize>>,
}

/// One sub-agent.
#[derive(Debug)]
pub struct SubAgent {
    /// Its id; for a sidechain, `line-` and the number of its first line.
    pub id: AgentId,
    /// Where its records are.
    pub body: Body,
    /// What it was for.
    pub purpose: Purpose,
    /// The kind of agent, according to its `.meta.json`.
    pub kind: Option<String>,
    /// Its task in a few words, according to its `.meta.json`.
    pub description: Option<String>,
    /// The call that started it.
    pub start: Option<Joined>,
    /// Whether it ran in the background.
    pub is_background: bool,
    /// The record that reported its end, and whose record that is.
    pub notified: Option<(Owner, RowId)>,
}

/// Where the records of a sub-agent are.
#[derive(Debug)]
pub enum Body {
    /// In a file of its own.
    File(Box<Conversation>),
    /// In the session's file: the chains from its root.
    Sidechain(Vec<ChainId>),
}

named! {
    /// What a sub-agent was for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Purpose {
        /// A task that a call gave it.
        Task = "task",
        /// To summarize the conversation for a compaction.
        Compaction = "compaction",
        /// To suggest the next prompt.
        Suggestion = "suggestion",
        /// Nothing: to warm up a cache.
        WarmUp = "warm-up",
        /// Unknown: its file contains no prompt, and no record names it. Warm-ups of 2.0.28 to
        /// 2.0.56 look like this.
        Unknown = "unknown",
    }
}

/// Whose turn or call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The session.
    Main,
    /// A sub-agent, as an index into [`WithAgents::agents`].
    Agent(usize),
}

/// The call that started a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Who made the call.
    pub owner: Owner,
    /// The call.
    pub call: BlockId,
    /// The evidence for it.
    pub how: How,
    /// Whether another call or another agent fits as well.
    pub is_guess: bool,
}

named! {
    /// The evidence for which call started a sub-agent, the most certain first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum How {
        /// Its `.meta.json` names the call.
        Sidecar = "sidecar",
        /// The result of the call names it.
        Result = "result",
        /// A progress record names both.
        Progress = "progress",
        /// A notification names both.
        Notification = "notification",
        /// The parent of its first record is the record of the call.
        Parent = "parent",
        /// Its prompt is that of the call.
        Prompt = "prompt",
    }
}

impl WithAgents {
    /// Reads a session and its sub-agents.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("0a1b2c3d.jsonl");
    /// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
    /// # std::fs::write(&path, format!("{line}\n"))?;
    /// use transcript::Session;
    /// use transcript::conversation::agents::WithAgents;
    ///
    /// let session = WithAgents::open(&Session::at(&path)?)?;
    /// for agent in &session.agents {
    ///     println!("{}: {:?}", agent.id, session.task(agent)?);
    /// }
    /// assert!(session.agents.is_empty() && session.unreadable.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(session: &Session) -> crate::Result<WithAgents> {
        WithAgents::open_with(session, agents(session))
    }

    /// Like [`WithAgents::open`], if the files of its sub-agents are already known.
    pub fn open_with(session: &Session, agents: Vec<Agent>) -> crate::Result<WithAgents> {
        Ok(WithAgents::of_main(Conversation::open(&session.path)?, agents))
    }

    /// Reads the sub-agents of a session that was already read.
    pub fn of_main(main: Conversation, agents: Vec<Agent>) -> WithAgents {
        WithAgents::around(main, agents, &()).0
    }

    /// Reads the sub-agents of a session that was already read, and shows the records of each file
    /// to a new watch like `like`. Returns these watches too, in the order of the files.
    pub(crate) fn around<W: Watch>(
        main: Conversation,
        agents: Vec<Agent>,
        like: &W,
    ) -> (WithAgents, Vec<W>) {
        let mut seen = Vec::new();
        let mut family = WithAgents {
            main,
            agents: Vec::new(),
            unreadable: Vec::new(),
            by_call: HashMap::new(),
        };
        let mut sidecars = Vec::new();
        for file in agents {
            let mut watch = like.another();
            match Conversation::open_watched(&file.path, 0, &mut watch) {
                Ok(mut conversation) => {
                    conversation.close();
                    seen.push(watch);
                    let (agent, call) = of_file(file, conversation);
                    family.agents.push(agent);
                    sidecars.push(call);
                }
                Err(error) => family.unreadable.push(error),
            }
        }
        family.add_sides();
        Joining::new(&family, &sidecars).join(&mut family);
        (family, seen)
    }

    /// The conversation that contains an owner's calls.
    pub fn of(&self, owner: Owner) -> &Conversation {
        match owner {
            Owner::Main => &self.main,
            Owner::Agent(at) => self.agents.get(at).map_or(&self.main, |agent| self.body(agent)),
        }
    }

    /// The conversation that contains a sub-agent's records.
    pub fn body<'a>(&'a self, agent: &'a SubAgent) -> &'a Conversation {
        match &agent.body {
            Body::File(conversation) => conversation,
            Body::Sidechain(_) => &self.main,
        }
    }

    /// The turns of a sub-agent.
    pub fn turns(&self, agent: &SubAgent) -> Vec<Turn> {
        match &agent.body {
            Body::File(conversation) => conversation.turns().live,
            Body::Sidechain(chains) => {
                let path = chains.last().map(|last| self.main.graph.path(*last));
                let path_chains = path.into_iter().flatten().filter(|chain| chains.contains(chain));
                self.main.turns_in(&path_chains.collect::<Vec<_>>())
            }
        }
    }

    /// The sub-agents that a call started or continued, as indices into [`WithAgents::agents`].
    pub fn started(&self, owner: Owner, call: BlockId) -> &[usize] {
        self.by_call.get(&(owner, call)).map_or(&[], Vec::as_slice)
    }

    /// The kind of agent and its task: from its `.meta.json`, else from the call.
    pub fn task(&self, agent: &SubAgent) -> crate::Result<[Option<String>; 2]> {
        let mut found = [agent.kind.clone(), agent.description.clone()];
        if let Some(start) = agent.start.filter(|_| found.iter().any(Option::is_none)) {
            let input = self.of(start.owner).input_of(start.call)?;
            let input = Json::parse(&input).and_then(Json::object);
            for (known, name) in found.iter_mut().zip(["subagent_type", "description"]) {
                let from_input = || Some(input.as_ref()?.text(name)?.into_owned());
                *known = known.take().or_else(from_input);
            }
        }
        Ok(found)
    }

    /// Adds the sidechains of the session's file.
    fn add_sides(&mut self) {
        let sides = sidechains(&self.main).into_iter().map(|side| SubAgent {
            id: side.id(),
            body: Body::Sidechain(side.chains),
            purpose: Purpose::Task,
            kind: None,
            description: None,
            start: None,
            is_background: false,
            notified: None,
        });
        self.agents.extend(sides);
    }
}

/// A sub-agent in the session's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidechain {
    /// The line of its first record.
    pub line: u64,
    /// The chains from its root.
    pub chains: Vec<ChainId>,
}

impl Sidechain {
    /// Its id: `line-` and the number of its first line.
    pub fn id(&self) -> AgentId {
        side_id(self.line)
    }
}

/// The id of the sub-agent in a session's file whose first record is in that line.
pub fn side_id(line: u64) -> AgentId {
    format!("line-{line}").into()
}

/// The sub-agents in a session's file: one for each root of a sidechain.
pub fn sidechains(main: &Conversation) -> Vec<Sidechain> {
    let graph = &main.graph;
    let mut sides: Vec<Sidechain> = Vec::new();
    let mut at: HashMap<ChainId, usize> = HashMap::new();
    // What leads to the live leaf is the main conversation, even if it is marked as a sidechain.
    let on_live_branch: HashSet<ChainId> = main.live().into_iter().collect();
    for (id, chain) in graph.numbered() {
        if !chain.is_sidechain || on_live_branch.contains(&id) {
            continue;
        }
        // Up to the root, or to a chain whose root is known.
        let mut way = vec![id];
        let place = loop {
            let here = way[way.len() - 1];
            let up = graph.chain(here).start.after().map(|row| graph.chain_of(row));
            match (at.get(&here), up.filter(|up| graph.chain(*up).is_sidechain)) {
                (Some(place), _) => break *place,
                (None, Some(up)) => way.push(up),
                (None, None) => break sides.len(),
            }
        };
        at.extend(way.into_iter().map(|chain| (chain, place)));
        if let Some(side) = sides.get_mut(place) {
            side.chains.push(id);
        } else {
            let line = main.table.row(chain.first).line;
            sides.push(Sidechain { line, chains: vec![id] });
        }
    }
    sides
}

/// A sub-agent in a file of its own, and the id of the call that its `.meta.json` names.
fn of_file(file: Agent, conversation: Conversation) -> (SubAgent, Option<String>) {
    let bytes = file.meta().unwrap_or_default();
    let meta = Json::parse(&bytes).and_then(Json::object);
    let text = |name: &str| Some(meta.as_ref()?.text(name)?.into_owned());
    let warm_up =
        first_prompt(&conversation).is_some_and(|row| conversation.table.says(row, "Warmup"));
    let purpose = match file.id.as_str() {
        id if id.starts_with("acompact") => Purpose::Compaction,
        id if id.starts_with("aprompt_suggestion") => Purpose::Suggestion,
        _ if warm_up => Purpose::WarmUp,
        _ => Purpose::Task,
    };
    let agent = SubAgent {
        purpose,
        kind: text("agentType"),
        description: text("description"),
        start: None,
        is_background: false,
        notified: None,
        id: file.id,
        body: Body::File(Box::new(conversation)),
    };
    (agent, text("toolUseId"))
}

/// The first record in a file that says anything, if it is a prompt.
fn first_prompt(conversation: &Conversation) -> Option<RowId> {
    let mut inputs = conversation.table.numbered().filter(|(_, row)| row.input.is_some());
    inputs.next().filter(|(_, row)| row.input != Some(Input::ToolResult)).map(|(row, _)| row)
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
