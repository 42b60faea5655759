//! Sub-agents: started by a call, run by the same driver, answered with a report.
//!
//! Invariants: a call that starts a sub-agent gets exactly one result, also if the sub-agent fails
//! or is stopped; at most [`MOST`] of a depth run at once and the others wait in line; none is
//! deeper than [`DEEPEST`]; a sub-agent never may more than its parent.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::decide::call;
use super::hooked::Then;
use super::worker::Carried;
use super::{Agent, Asking, Driver, Said};
use crate::event::{AgentId, Event};
use crate::hook::HookBook;
use crate::host::{Host, Summary, usage};
use crate::log::Log;
use crate::model;
use crate::permit::Mode;
use crate::record::{Point, Recorder};
use crate::subagent::{AgentKind, Nesting, narrower};
use crate::tool::{Answer, Content, Trouble, raw};
use crate::turn::{Input, Outcome, Turn, Wanted};

/// How many sub-agents run at once.
const MOST: usize = 10;
/// How deep sub-agents can be nested.
const DEEPEST: u32 = 3;

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Nested {
    /// The agent that started it.
    parent: AgentId,
    /// The call that did.
    call: String,
    /// Its type.
    pub(super) kind: String,
    pub(super) description: String,
    prompt: String,
    depth: u32,
    pub(super) is_background: bool,
    is_built_in: bool,
    mode: Option<Mode>,
    /// Hooks that run beside those of the session.
    pub(super) hooks: HookBook,
}

impl Nested {
    /// What its parent is told at its end.
    fn notice(&self, id: &AgentId, status: &str, word: &str, more: &str) -> String {
        format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>{status}</status>\n<summary>Agent \"{}\" {word}</summary>{more}\n</task-notification>",
            self.description
        )
    }
}

impl Driver {
    /// The permission mode of an agent.
    pub(super) fn mode_of(&self, agent: &Agent) -> Mode {
        mode_within(self.permit.mode, self.nested.get(&agent.id))
    }

    /// Whether somebody can be asked about the calls of an agent.
    pub(super) fn may_ask(&self, agent: &AgentId) -> bool {
        match self.nested.get(agent) {
            None => true,
            Some(nested) => !nested.is_background && self.may_ask(&nested.parent),
        }
    }

    /// The transcript of a sub-agent; None if nothing is kept.
    pub(super) fn agent_file(&self, id: &AgentId) -> Option<PathBuf> {
        let name = id.name().filter(|_| self.about.is_kept)?;
        let folder = self.about.transcript.with_extension("").join("subagents");
        Some(folder.join(format!("agent-{name}.jsonl")))
    }

    /// Starts a sub-agent for a call, or has it wait for its turn.
    pub(super) fn start_agent(
        &mut self,
        agent: &mut Agent,
        wanted: &Wanted,
        host: &mut dyn Host,
    ) -> Carried {
        let refuse = |agent: &Agent, text: String| {
            let answer = agent.cleaned(Trouble::failed(text));
            Carried::Next(Input::Answered(wanted.id.clone(), answer))
        };
        let call = call(wanted);
        let text = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("subagent_type");
        let may_start = |name: &str| agent.site.scopes.iter().all(|scope| scope.may_start(name));
        let Some(kind) = self.kinds.find(name).filter(|kind| may_start(&kind.name)).cloned() else {
            let names: Vec<String> =
                self.kinds.names().into_iter().filter(|name| may_start(name)).collect();
            let names = names.join(", ");
            return refuse(
                agent,
                format!("Agent type '{name}' not found. Available agents: {names}"),
            );
        };
        let kind = self.with_skills(kind);
        let depth = 1 + self.nested.get(&agent.id).map_or(0, |nested| nested.depth);
        if depth > DEEPEST {
            let text =
                format!("Sub-agents are nested {DEEPEST} deep already: do the task yourself.");
            return refuse(agent, text);
        }
        // Those that wait for their own sub-agents are less deep, and hold up none.
        if self.nested.values().filter(|nested| nested.depth == depth).count() >= MOST {
            self.line.push_back((agent.id.clone(), wanted.clone()));
            return Carried::On;
        }
        let is_background =
            kind.is_background || call.input.get("run_in_background") == Some(&Value::Bool(true));
        let nested = Nested {
            parent: agent.id.clone(),
            call: wanted.id.clone(),
            kind: kind.name.clone(),
            description: text("description").to_owned(),
            prompt: text("prompt").to_owned(),
            depth,
            is_background,
            is_built_in: kind.source.is_none(),
            hooks: kind.hooks.clone(),
            mode: match (kind.mode, self.nested.get(&agent.id).and_then(|parent| parent.mode)) {
                (Some(one), Some(other)) => Some(narrower(one, other)),
                (one, other) => one.or(other),
            },
        };
        let child = self.child(agent, &kind, &nested, text("model"));
        let id = child.id.clone();
        let started = Event::AgentStarted {
            call: nested.call.clone(),
            kind: nested.kind.clone(),
            description: nested.description.clone(),
            is_background,
        };
        host.event(&id, &started);
        let launched = is_background.then(|| launched(&id, &nested, self.agent_file(&id)));
        self.nested.insert(id.clone(), nested);
        self.write_sidecar(&id, Ending::Open);
        self.begin_agent(child, host);
        match launched {
            Some(answer) => Carried::Next(Input::Answered(wanted.id.clone(), answer)),
            None => Carried::On,
        }
    }

    /// A type of sub-agent, restricted by the skills that it has from the beginning.
    fn with_skills(&self, mut kind: AgentKind) -> AgentKind {
        for slash in self.slashes.preloaded(&kind.skills) {
            kind.without.extend(slash.denials(&slash.name, &self.site.root));
            kind.hooks.extend(&slash.hooks);
        }
        kind
    }

    /// Makes a sub-agent.
    fn child(&self, parent: &Agent, kind: &AgentKind, nested: &Nested, model: &str) -> Agent {
        let id = self.nature.id();
        let id: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        let id = AgentId::Sub(Arc::from(format!("a{}", &id[id.len().saturating_sub(6)..])));
        let nesting = if nested.depth < DEEPEST { Nesting::Possible } else { Nesting::TooDeep };
        let mode = mode_within(self.permit.mode, Some(nested));
        let tools = kind.tools(&parent.site.tools, nesting);
        let site = parent.site.for_agent(tools, mode, kind.scope(&parent.site.root));
        let named = kind.model.as_deref().or(Some(model).filter(|model| !model.is_empty()));
        let model =
            named.map_or_else(|| parent.asking.model.clone(), |name| model::named(Some(name)));
        let offered = |name: &str| self.permit.offers(name);
        let tools = site.tools.iter().filter(|tool| offered(&tool.spec().name));
        let tools = tools.filter(|tool| tool.is_offered(Mode::Default));
        let surroundings = &parent.asking.surroundings;
        let added = self.about.more_for_agents.as_deref();
        let skills = self.slashes.preloaded(&kind.skills).into_iter();
        let skills = skills.map(|slash| slash.written("")).collect::<Vec<_>>().join("\n\n");
        let skills = Some(skills.as_str()).filter(|text| !text.is_empty());
        let parts = [Some(kind.prompt.as_str()), skills, added, Some(surroundings.as_str())];
        let system = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let max_tokens = model::output_tokens(&model);
        let asking = Asking {
            max_tokens,
            thinking: parent.asking.thinking.filter(|tokens| *tokens < max_tokens),
            effort: kind.effort.clone().or_else(|| parent.asking.effort.clone()),
            system: vec![system.trim_end().to_owned()],
            tools: tools.map(|tool| tool.spec().json()).collect(),
            reminder: parent.asking.reminder.clone(),
            surroundings: surroundings.clone(),
            news: None,
            kept: None,
            is_cached: parent.asking.is_cached,
            model,
        };
        let log = self.agent_file(&id).map(|path| Log::at(&path));
        let point = Point { slug: parent.recorder.slug(), ..Point::default() };
        let (session, root) = (&self.about.session, &parent.site.root);
        let nature = self.nature.clone();
        let recorder = Recorder::new(nature, log, session, root, mode.name(), point);
        let turn = Turn::new(Vec::new(), self.about.retry, kind.max_turns);
        let mut child = Agent::new(id.clone(), turn, recorder.of(id), asking, Arc::new(site));
        child.prompt.clone_from(&parent.prompt);
        child.listen(self.notes.clone());
        child
    }

    /// Has a sub-agent begin: its hooks, then its prompt.
    fn begin_agent(&mut self, mut child: Agent, host: &mut dyn Host) {
        child.count.begin(self.nature.elapsed());
        let Some(nested) = self.nested.get(&child.id) else { return };
        let (kind, prompt) = (nested.kind.clone(), nested.prompt.clone());
        let more = json!({"agent_id": child.id.name(), "agent_type": kind});
        let then = Then::BeginAgent(prompt);
        self.hook_then(&mut child, ("SubagentStart", &kind), more, then, host);
        self.agents.insert(child.id.clone(), child);
    }

    /// Gives a sub-agent its prompt.
    pub(super) fn prompt_agent(&mut self, agent: &mut Agent, prompt: &str, host: &mut dyn Host) {
        let prompt = agent.prompted(Said::text(prompt), host);
        self.pending.push_back((agent.id.clone(), Input::Prompt(prompt)));
    }

    /// A sub-agent has ended: its parent gets the report.
    pub(super) fn end_agent(&mut self, id: &AgentId, outcome: Outcome, host: &mut dyn Host) {
        let Some(mut agent) = self.agents.remove(id) else { return };
        let ending =
            if outcome == Outcome::Interrupted { Ending::Stopped } else { Ending::Finished };
        self.write_sidecar(id, ending);
        let Some(nested) = self.nested.remove(id) else { return };
        let taken = self.nature.elapsed() - agent.count.began;
        let last = agent.count.context(&agent.asking.model);
        let summary = agent.summary(outcome, taken);
        for (model, usage) in &summary.models {
            self.site.spend(model, *usage);
        }
        let answer = report(id, &nested, &summary, last.used, last.last);
        let ended = Event::AgentEnded { call: nested.call.clone(), summary: summary.clone() };
        host.event(id, &ended);
        if let Some(main) = self.agents.get_mut(&AgentId::Main) {
            main.count.denials.extend(summary.denials);
        }
        if nested.is_background {
            self.notify_end(id, &nested, &answer, host);
        } else {
            self.answered(&nested.parent, nested.call, answer, host);
        }
        self.next_in_line(host);
    }

    /// Starts those that have waited longest, as far as there is room.
    fn next_in_line(&mut self, host: &mut dyn Host) {
        for (id, wanted) in std::mem::take(&mut self.line) {
            let Some(mut parent) = self.agents.remove(&id) else { continue };
            // It may have been stopped meanwhile.
            let is_wanted = parent.calls.contains_key(&wanted.id);
            let carried = is_wanted.then(|| self.start_agent(&mut parent, &wanted, host));
            self.agents.insert(id.clone(), parent);
            if let Some(Carried::Next(input)) = carried {
                self.pending.push_back((id, input));
            }
        }
    }

    /// The report of a sub-agent in the background comes as a prompt.
    fn notify_end(&mut self, id: &AgentId, nested: &Nested, answer: &Answer, host: &mut dyn Host) {
        let detail: Value = serde_json::from_str(answer.detail.get()).unwrap_or_default();
        let word = if answer.is_error == Some(true) { "failed" } else { "completed" };
        let result = match &answer.content {
            Content::Text(text) => text.clone(),
            Content::Blocks(_) => {
                detail["content"][0]["text"].as_str().unwrap_or_default().to_owned()
            }
        };
        let more = format!(
            "\n<result>{result}</result>\n<usage>total_tokens: {}\ntool_uses: {}\nduration_ms: {}</usage>",
            detail["totalTokens"], detail["totalToolUseCount"], detail["totalDurationMs"],
        );
        let text = nested.notice(id, word, word, &more);
        self.say(Said::notice(&text), host);
    }

    /// Stops the sub-agents of an agent that is stopped. Their parents' calls are answered already.
    pub(super) fn stop_children(&mut self, parent: &AgentId, host: &mut dyn Host) {
        let is_child = |nested: &Nested| nested.parent == *parent && !nested.is_background;
        let children: Vec<AgentId> = self
            .nested
            .iter()
            .filter(|(_, nested)| is_child(nested))
            .map(|(id, _)| id.clone())
            .collect();
        self.line.retain(|(id, _)| id != parent);
        for id in children {
            self.stop_agent(&id, host);
        }
    }

    /// Stops a sub-agent, with what it started.
    fn stop_agent(&mut self, id: &AgentId, host: &mut dyn Host) {
        if let Some(mut agent) = self.agents.remove(id) {
            // What its transcript cannot hold any more is lost with it.
            let _ = self.feed(&mut agent, Input::Interrupt, host);
            self.runs.drop_of(id);
            let taken = self.nature.elapsed() - agent.count.began;
            let summary = agent.summary(Outcome::Interrupted, taken);
            for (model, usage) in &summary.models {
                self.site.spend(model, *usage);
            }
            self.write_sidecar(id, Ending::Stopped);
            if let Some(nested) = self.nested.remove(id) {
                host.event(id, &Event::AgentEnded { call: nested.call, summary });
            }
        }
    }

    /// Stops a command or a sub-agent in the background, by its id.
    pub(super) fn stop_task(&mut self, task: &str, host: &mut dyn Host) {
        let id = AgentId::Sub(Arc::from(task));
        if let Some(nested) = self.nested.get(&id) {
            // Nobody's call waits for it, so its parent would never learn it.
            let notice =
                nested.is_background.then(|| nested.notice(&id, "killed", "was stopped", ""));
            self.stop_agent(&id, host);
            if let Some(text) = notice {
                self.say(Said::notice(&text), host);
            }
        } else {
            self.site.shells.kill(task);
        }
    }

    /// Stops all sub-agents, at the end of the session.
    pub(super) fn stop_all_agents(&mut self, host: &mut dyn Host) {
        let ids: Vec<AgentId> = self.nested.keys().cloned().collect();
        for id in ids {
            self.stop_agent(&id, host);
        }
    }

    /// A sub-agent has one more result: listeners learn it. Transcripts of the original have no
    /// record of that in headless use.
    pub(super) fn agent_progress(&mut self, agent: &Agent, host: &mut dyn Host) {
        let Some(nested) = self.nested.get(&agent.id) else { return };
        let used = agent.count.context(&agent.asking.model).used;
        let progress = Event::AgentProgress {
            call: nested.call.clone(),
            tool_uses: agent.turn.answered,
            tokens: used,
            taken: self.nature.elapsed() - agent.count.began,
            last: agent.last_call.clone(),
        };
        host.event(&agent.id, &progress);
    }

    /// The file beside a sub-agent's transcript that says what it is.
    fn write_sidecar(&self, id: &AgentId, ending: Ending) {
        let (Some(path), Some(nested)) = (self.agent_file(id), self.nested.get(id)) else { return };
        let mut meta = json!({
            "agentType": nested.kind, "description": nested.description, "toolUseId": nested.call,
            "spawnDepth": nested.depth,
            "requestShape": if nested.is_background { "background" } else { "foreground" },
            "isBuiltIn": nested.is_built_in,
        });
        if let AgentId::Sub(parent) = &nested.parent {
            meta["parentAgentId"] = parent.as_ref().into();
        }
        match ending {
            Ending::Finished => meta["finished"] = true.into(),
            Ending::Stopped => meta["stoppedByUser"] = true.into(),
            Ending::Open => {}
        }
        if let Some(folder) = path.parent() {
            // It only helps readers: the transcript is complete without it.
            let _ = files::make_private_folder(folder);
        }
        let text = meta.to_string();
        let _ = files::put(
            &path.with_extension("meta.json"),
            text.as_bytes(),
            files::Durability::Process,
        );
    }
}

/// The permission mode of a sub-agent, in a session with this one.
pub(super) fn mode_within(session: Mode, nested: Option<&Nested>) -> Mode {
    let narrow = nested.and_then(|nested| nested.mode);
    narrow.map_or(session, |mode| narrower(session, mode))
}

/// How far a sub-agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    Finished,
    Stopped,
}

/// The result of a call that started a sub-agent in the background.
fn launched(id: &AgentId, nested: &Nested, file: Option<PathBuf>) -> Answer {
    let output = file.map(|file| file.display().to_string()).unwrap_or_default();
    let text = format!(
        "Async agent launched successfully.\nagentId: {id}\nIt works in the background; its report comes as a message when it is done. Go on with other work, or end your turn."
    );
    let detail = json!({
        "isAsync": true, "status": "async_launched", "agentId": id.name(), "description": nested.description,
        "prompt": nested.prompt, "outputFile": output,
    });
    let block = raw(&json!({"type": "text", "text": text}));
    Answer { content: Content::Blocks(vec![block]), is_error: None, detail: raw(&detail) }
}

/// The result of a call that started a sub-agent.
fn report(
    id: &AgentId,
    nested: &Nested,
    summary: &Summary,
    tokens: u64,
    last: crate::model::Usage,
) -> Answer {
    let text = match &summary.outcome {
        Outcome::Answered(_) | Outcome::Halted(_) | Outcome::Unfinished(_) => summary.in_words(),
        Outcome::MaxTurns(most) => {
            format!("{}\n[The agent reached its limit of {most} requests.]", summary.text)
        }
        _ => {
            let why = summary.in_words();
            return Trouble::failed(format!("The agent {id} did not finish: {why}")).answer();
        }
    };
    let text =
        if text.trim().is_empty() { "(The agent returned nothing.)".to_owned() } else { text };
    let uses = summary.turns.saturating_sub(1);
    let taken = summary.taken;
    let more = format!(
        "agentId: {id} (for resuming to continue this agent's work if needed)\n<usage>total_tokens: {tokens}\ntool_uses: {uses}\nduration_ms: {taken}</usage>"
    );
    let first = json!({"type": "text", "text": text});
    let detail = json!({
        "status": "completed", "prompt": nested.prompt, "agentId": id.name(), "content": [first],
        "totalDurationMs": taken, "totalTokens": tokens, "totalToolUseCount": uses, "usage": usage(last),
    });
    let blocks = vec![raw(&first), raw(&json!({"type": "text", "text": more}))];
    Answer { content: Content::Blocks(blocks), is_error: None, detail: raw(&detail) }
}

#[cfg(test)]
#[path = "nested_tests.rs"]
mod tests;
