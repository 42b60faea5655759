//! One agent: its conversation, its transcript, and what it is doing.
//!
//! Invariant: an input is passed to the turn, and everything that the turn wants is carried out,
//! before the next input.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use transcript::conversation::tool;
use transcript::format::json::Json;

use super::compacting::Order;
use super::hooked::Then;
use super::{Driver, Note, Report};
use crate::api::request::Request;
use crate::api::stream::Limits;
use crate::event::{AgentId, Event, patch};
use crate::host::Host;
use crate::reader::{Hearing, listen};
use crate::record::{Recorder, Snapshot};
use crate::tally::Tally;
use crate::tool::{Answer, Cancel, Content, Listener, Site};
use crate::turn::{Effect, Entry, Input, Outcome, Turn, Wanted};

/// The parameters of requests to the API.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The name of the model.
    pub model: String,
    /// The most tokens that an answer may have.
    pub max_tokens: u64,
    /// How many of these may be thinking.
    pub thinking: Option<u64>,
    /// How much the model is to think and write.
    pub effort: Option<String>,
    /// The system prompt.
    pub system: Vec<String>,
    /// The tools.
    pub tools: Vec<String>,
    /// The reminder before the first prompt.
    pub reminder: String,
    /// What the system prompt says about where the session works.
    pub surroundings: String,
    /// What has changed since then; sent with the next prompt.
    pub news: Option<String>,
    /// What to store next to the session once that was sent: a path and the text.
    pub kept: Option<(PathBuf, String)>,
    /// Whether the API is asked to cache the beginning.
    pub is_cached: bool,
}

/// An agent at work: the one that the user talks with, or a sub-agent.
pub struct Agent {
    /// Which one.
    pub id: AgentId,
    /// The conversation, and what is to be done next.
    pub turn: Turn,
    /// Writes the transcript.
    pub recorder: Recorder,
    /// The parameters of requests.
    pub asking: Asking,
    /// Where its tools work.
    pub site: Arc<Site>,
    /// The number of its last request or wait.
    pub(super) number: u64,
    pub(super) calls: HashMap<String, (Wanted, Cancel)>,
    /// When calls began to run.
    pub(super) began: HashMap<String, i64>,
    /// The answer that is being received.
    hearing: Hearing,
    /// The record of the last prompt; of a sub-agent, that of its parent's.
    pub(super) prompt: Option<String>,
    pub(crate) count: Tally,
    /// The todo list that was last reported.
    todos: Vec<Value>,
    /// How often hooks have kept this turn from ending.
    pub(super) stops: u32,
    /// The calls of the last answer with their results, for hooks.
    batch: Vec<Value>,
    /// The tool of the last call that has a result, and what that did in a few words.
    pub(super) last_call: (String, String),
    /// The folder in which commands began last.
    cwd: PathBuf,
    /// The summary that is being made.
    pub(super) order: Option<Order>,
    /// The command of the user whose shell commands run.
    pub(super) expanding: Option<super::Said>,
    /// How often this turn was summarised.
    pub(super) compactions: u32,
    /// Whether the model knows that it is to plan.
    pub(super) is_planning: bool,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Agent");
        out.field("id", &self.id).field("turn", &self.turn).finish_non_exhaustive()
    }
}

/// The outcome of an effect.
pub(super) enum Carried {
    On,
    Next(Input),
    Lost(String),
    Done(Outcome),
}

impl Agent {
    /// An agent that waits for a prompt.
    pub fn new(
        id: AgentId,
        turn: Turn,
        recorder: Recorder,
        asking: Asking,
        site: Arc<Site>,
    ) -> Agent {
        let cwd = site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Agent {
            id,
            turn,
            recorder,
            asking,
            site,
            number: 0,
            calls: HashMap::new(),
            began: HashMap::new(),
            hearing: Hearing::default(),
            prompt: None,
            count: Tally::default(),
            todos: Vec::new(),
            stops: 0,
            batch: Vec::new(),
            last_call: (String::new(), String::new()),
            cwd,
            order: None,
            expanding: None,
            compactions: 0,
            is_planning: false,
        }
    }

    /// Has the output of its commands reported.
    pub(super) fn listen(&self, notes: Sender<Note>) {
        let id = self.id.clone();
        let listener: Listener = Box::new(move |call: &str, progress, number| {
            let report = Report::Progress(call.to_owned(), progress, number);
            let _ = notes.send(Note::From(id.clone(), report));
        });
        *self.site.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// The request as it would be sent now.
    pub fn body(&self) -> String {
        let request = Request {
            model: &self.asking.model,
            max_tokens: self.asking.max_tokens,
            thinking: self.asking.thinking,
            effort: self.asking.effort.as_deref(),
            system: &self.asking.system,
            tools: &self.asking.tools,
            reminder: Some(&self.asking.reminder),
            messages: self.turn.messages(),
            is_cached: self.asking.is_cached,
        };
        request.body()
    }

    /// Stores what the model was told about where it works, after it was told.
    fn keep_context(&mut self) {
        let Some((path, text)) = self.asking.kept.take() else { return };
        // Without it the next run collects it anew, and the API reads everything again: not a
        // reason to stop.
        let _ = files::put(&path, text.as_bytes(), files::Durability::Process);
    }

    fn record(&mut self, entry: &Entry, host: &mut dyn Host) -> Carried {
        let id = match self.recorder.record(entry) {
            Ok(id) => id,
            Err(error) => return Carried::Lost(error.to_string()),
        };
        let mut kept = Ok(());
        let is_main = self.id == AgentId::Main;
        match entry {
            Entry::Prompt(_) if is_main => {
                self.keep_context();
                self.site.backups.renew();
                kept = self.recorder.snapshot(&id, &id, &self.site.backups, Snapshot::First);
                self.prompt = Some(id.clone());
                if let Some(images) = &self.site.images {
                    images.prompted(&id);
                }
            }
            Entry::Result(call, answer) => {
                self.began.remove(call);
                if let Some((wanted, _)) = self.calls.remove(call) {
                    let about = Json::parse(wanted.input.as_bytes());
                    let about = about.map(|input| tool::about(&wanted.name, input));
                    self.last_call = (wanted.name.clone(), about.unwrap_or_default());
                    self.batch.push(with_result(&wanted, answer));
                }
                // What sub-agents change belongs to the turn of the main one.
                if is_main && self.site.backups.has_new() {
                    let of = self.prompt.clone().unwrap_or_default();
                    kept = self.recorder.snapshot(&id, &of, &self.site.backups, Snapshot::Update);
                }
                let (call, patch) = (call.clone(), patch(answer));
                host.event(&self.id, &Event::ToolFinished { call, answer: answer.clone(), patch });
                let todos = self.site.todos.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if todos != self.todos {
                    self.todos.clone_from(&todos);
                    host.event(&self.id, &Event::Todos(todos));
                }
            }
            _ => {}
        }
        host.event(&self.id, &Event::Recorded { entry: entry.clone(), id });
        kept.map_or_else(|error| Carried::Lost(error.to_string()), |()| Carried::On)
    }
}

/// A call with its result as the model sees it, for hooks.
fn with_result(wanted: &Wanted, answer: &Answer) -> Value {
    let input: Value = serde_json::from_str(&wanted.input).unwrap_or_default();
    let response = match &answer.content {
        Content::Text(text) => Value::String(text.clone()),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| serde_json::from_str::<Value>(block.get()).unwrap_or_default())
            .collect(),
    };
    serde_json::json!({
        "tool_name": wanted.name, "tool_input": input, "tool_use_id": wanted.id,
        "tool_response": response,
    })
}

impl Driver {
    /// Passes an input to an agent. Returns how its turn ended, once it has.
    pub(super) fn feed(
        &mut self,
        agent: &mut Agent,
        input: Input,
        host: &mut dyn Host,
    ) -> Option<Outcome> {
        if let Input::Failed(error, _) = &input
            && self.makes_room(agent, error, host)
        {
            return None;
        }
        agent.count.note(&input, self.nature.elapsed());
        if matches!(input, Input::Ended(_)) {
            let usage = agent.count.context(&agent.asking.model);
            host.event(&agent.id, &Event::Usage(usage));
        }
        // What has arrived of an answer that is stopped is kept.
        let heard = matches!(input, Input::Interrupt) && agent.turn.is_answering();
        if let Some(block) = agent.hearing.partial().filter(|_| heard) {
            let block = agent.site.secrets.redacted_json(&block).into_owned();
            if let Some(outcome) = self.step(agent, Input::Block(block), host) {
                return Some(outcome);
            }
        }
        self.step(agent, input, host)
    }

    /// Passes an input to the turn and carries out what it wants. Returns how the turn ended, once
    /// it has.
    fn step(&mut self, agent: &mut Agent, input: Input, host: &mut dyn Host) -> Option<Outcome> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in agent.turn.step(input) {
                match self.carry_out(agent, effect, host) {
                    Carried::On => {}
                    Carried::Next(next) => inputs.push_back(next),
                    // If something cannot be written, the turn ends.
                    Carried::Lost(why) => {
                        inputs = VecDeque::from([Input::Unwritable(why)]);
                        break;
                    }
                    Carried::Done(outcome) => return Some(outcome),
                }
            }
        }
        None
    }

    fn carry_out(&mut self, agent: &mut Agent, effect: Effect, host: &mut dyn Host) -> Carried {
        match effect {
            Effect::Record(entry) => return agent.record(&entry, host),
            Effect::Show(block) => {
                let id = agent.recorder.id_of(&block);
                if let Ok(json) = serde_json::from_str::<Value>(&block.block)
                    && let Some(text) = json["text"].as_str()
                {
                    text.clone_into(&mut agent.count.text);
                    if agent.id == AgentId::Main {
                        let more = serde_json::json!({
                            "turn_id": agent.prompt, "message_id": id, "index": 0, "final": true,
                            "delta": text,
                        });
                        let then = Then::Nothing;
                        let _ = self.hook(agent, ("MessageDisplay", ""), more, then, host);
                    }
                }
                host.event(&agent.id, &Event::Block { block, id });
            }
            Effect::Rewind => agent.recorder.rewind(),
            Effect::Ask => self.before_request(agent, host),
            Effect::Wait(mut wait, error, failures) => {
                if self.fall_back(agent, &error, failures, host) {
                    wait = Duration::ZERO;
                }
                let most = agent.turn.retry.most;
                host.event(&agent.id, &Event::Retry { error, failures, most, wait });
                agent.number += 1;
                let waited = Report::Input(agent.number, Input::Waited);
                self.alarms.set(wait, agent.id.clone(), waited);
            }
            Effect::Decide(wanted) => return self.decide(agent, &wanted, host),
            Effect::Run(wanted) => return self.start(agent, &wanted, host),
            Effect::Stop => {
                agent.number += 1;
                agent.hearing.cancel.set();
                for (_, cancel) in agent.calls.values() {
                    cancel.set();
                }
                agent.calls.clear();
                agent.began.clear();
                for id in self.questions.withdraw(&agent.id) {
                    host.withdraw(&id);
                }
                self.runs.drop_of(&agent.id);
                self.asks.retain(|id| *id != agent.id);
                let id = agent.id.clone();
                self.stop_children(&id, host);
            }
            Effect::Done(outcome) => return Carried::Done(outcome),
        }
        Carried::On
    }

    /// Makes the next request, after the hooks for the results that it brings.
    pub(super) fn before_request(&mut self, agent: &mut Agent, host: &mut dyn Host) {
        let cwd = agent.site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if cwd != agent.cwd {
            let more = serde_json::json!({
                "old_cwd": agent.cwd.display().to_string(), "new_cwd": cwd.display().to_string(),
            });
            agent.cwd = cwd;
            // What they want to come before commands comes before the next one.
            if self.hook(agent, ("CwdChanged", ""), more, Then::Moved, host).is_ok() {
                return;
            }
        }
        let calls = std::mem::take(&mut agent.batch);
        if !calls.is_empty() {
            let more = serde_json::json!({"tool_calls": calls});
            if self.hook(agent, ("PostToolBatch", ""), more, Then::Batch, host).is_ok() {
                return;
            }
        }
        self.compact_or_ask(agent, host);
    }

    pub(super) fn ask(&mut self, agent: &mut Agent) {
        agent.recorder.mark();
        agent.turn.asked();
        agent.number += 1;
        agent.count.asked = self.nature.elapsed();
        let (model, notes, number) = (self.model.clone(), self.notes.clone(), agent.number);
        let (body, chance) = (agent.body(), self.nature.chance());
        agent.hearing = Hearing::new(Limits::of(agent.asking.max_tokens));
        let (hearing, site, id) = (agent.hearing.clone(), agent.site.clone(), agent.id.clone());
        thread::spawn(move || {
            let heard = listen(&*model, body, (&notes, &id, number), &hearing, &site.secrets);
            if let Some(error) = heard {
                let report = Report::Input(number, Input::Failed(error, chance));
                let _ = notes.send(Note::From(id, report));
            }
        });
    }
}
