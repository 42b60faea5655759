//! The driver: carries out what the turns of all agents want, and returns the outcome to them.
//!
//! One thread decides; others wait for the API, for tools and for time, and send notes that name
//! the agent they work for. So one driver runs the main agent and every sub-agent. Invariants: a
//! note of an answer or a wait that was given up is dropped (it has an old number); once something
//! could not be recorded, nothing more is done.

mod alarm;
mod back;
mod beginning;
mod compacting;
mod decide;
mod hooked;
mod nested;
mod prompting;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::api::request::text_block;
use crate::api::retry::Retry;
use crate::api::{ApiError, Model};
use crate::block::text_of;
use crate::compact::CompactAt;
use crate::context::Loaded;
use crate::control::{self, Wish};
use crate::event::{AgentId, Event, delta};
use crate::hook::HookBook;
use crate::hook::run::PATIENCE as PATIENCE_ASIDE;
use crate::host::{Audience, Host, Summary};
use crate::model::{self, Usage};
use crate::permit::Permit;
use crate::prompt::Wishes;
use crate::shell;
use crate::slash::SlashBook;
use crate::subagent::Kinds;
use crate::tool::{self, Site};
use crate::turn::{Input, Outcome, Prompt, Wanted};
use hooked::Then;

pub use crate::inbox::{Departure, Note, Report, Said};
pub use compacting::Summarised;
pub use worker::{Agent, Asking};

/// A session at work.
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Driver {
    /// Where the tools of the main agent work.
    pub site: Arc<Site>,
    /// Answers requests: the API, or a script.
    pub model: Arc<dyn Model>,
    /// What tools may do.
    pub permit: Permit,
    /// Time, ids and random numbers.
    pub nature: Arc<dyn Ambient>,
    /// Hooks.
    pub hooks: HookBook,
    /// The sub-agents that can be started.
    pub kinds: Kinds,
    /// Commands and skills that people have written.
    pub slashes: Arc<SlashBook>,
    about: About,
    notes: Sender<Note>,
    agents: BTreeMap<AgentId, Agent>,
    /// What is known of the sub-agents that run.
    nested: BTreeMap<AgentId, nested::Nested>,
    /// Calls that wait until fewer sub-agents run.
    line: VecDeque<(AgentId, Wanted)>,
    /// Hooks that run.
    runs: hooked::Runs,
    /// Whether the first prompt was taken.
    is_begun: bool,
    /// Whether what commands need was started.
    is_warm: bool,
    /// What agents get after a while.
    alarms: alarm::Alarms,
    /// Agents whose next request may be made.
    asks: VecDeque<AgentId>,
    /// Agents whose turn is over, and nothing holds that up.
    ended: VecDeque<(AgentId, Outcome)>,
    /// How the main agent's turn ended, if it did not get as far as the model.
    outcome: Option<Outcome>,
    /// Inputs that agents are to get next.
    pending: VecDeque<(AgentId, Input)>,
    /// What was asked and not answered yet.
    questions: decide::Questions,
    /// Prompts that wait for their turn.
    queue: VecDeque<Said>,
    /// Whether a turn of the main agent runs.
    is_busy: bool,
    /// Whether there will be no more prompts.
    is_closed: bool,
    /// The model of the next turn, if it is another one.
    next_model: Option<String>,
    /// The exit code, once the session is to end.
    end: Option<u8>,
    /// Why the user has left.
    departure: Option<Departure>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// What everybody should know about a session.
#[derive(Clone, Debug)]
pub struct About {
    /// The id of the session.
    pub session: String,
    /// The file of its transcript.
    pub transcript: PathBuf,
    /// Whether that is written.
    pub is_kept: bool,
    /// Whether it continues another one.
    pub is_resumed: bool,
    /// Why the user left another one for it.
    pub after: Option<Departure>,
    /// How often a request is retried.
    pub retry: Retry,
    /// Whether a conversation is summarised by itself before it is too long.
    pub compacts: bool,
    /// When that is.
    pub compact_at: CompactAt,
    /// How often in a row hooks may keep a turn from ending.
    pub most_stops: u32,
    /// What the run may cost, in dollars.
    pub budget: Option<f64>,
    /// The models that go on, in this order, if the one before is overloaded.
    pub fallback: Vec<String>,
    /// What the system prompt of the main agent is made of.
    pub prompt: Wishes,
    /// What is added to the system prompts of sub-agents.
    pub more_for_agents: Option<String>,
    /// The instruction files that were read at the start.
    pub instructions: Vec<Loaded>,
    /// Who follows the session.
    pub audience: Audience,
}

impl Driver {
    /// A session that waits for a prompt.
    pub fn new(
        main: Agent,
        (model, about): (Arc<dyn Model>, About),
        permit: Permit,
        nature: Arc<dyn Ambient>,
        notes: Sender<Note>,
    ) -> Driver {
        main.listen(notes.clone());
        Driver {
            site: main.site.clone(),
            model,
            permit,
            nature,
            hooks: HookBook::default(),
            kinds: Kinds::default(),
            slashes: Arc::default(),
            about,
            notes,
            agents: BTreeMap::from([(AgentId::Main, main)]),
            nested: BTreeMap::new(),
            line: VecDeque::new(),
            runs: hooked::Runs::default(),
            alarms: alarm::Alarms::default(),
            is_begun: false,
            is_warm: false,
            asks: VecDeque::new(),
            ended: VecDeque::new(),
            outcome: None,
            pending: VecDeque::new(),
            questions: decide::Questions::default(),
            queue: VecDeque::new(),
            is_busy: false,
            is_closed: false,
            next_model: None,
            end: None,
            departure: None,
        }
    }

    /// The file of the session.
    pub fn transcript(&self) -> &Path {
        &self.about.transcript
    }

    /// The agent that the user talks with.
    pub fn main(&self) -> Option<&Agent> {
        self.agents.get(&AgentId::Main)
    }

    /// The agent that the user talks with, without the driver.
    pub fn into_main(mut self) -> Option<Agent> {
        self.agents.remove(&AgentId::Main)
    }

    /// Runs turns until there are no more prompts, and kills what still runs. Returns the exit
    /// code.
    pub fn run(&mut self, inbox: &Receiver<Note>, host: &mut dyn Host) -> u8 {
        let code = self.turns(inbox, host);
        self.stop_all_agents(host);
        self.session_ends(host);
        self.site.shells.end();
        host.event(&AgentId::Main, &Event::Ended);
        code
    }

    fn turns(&mut self, inbox: &Receiver<Note>, host: &mut dyn Host) -> u8 {
        let mut code = 0;
        let mut patience = PATIENCE;
        loop {
            if let Some(end) = self.end {
                return end;
            }
            if let Some(utterance) = self.queue.pop_front() {
                if host.is_gone() {
                    return NOBODY;
                }
                code = self.one(utterance, inbox, host);
                continue;
            }
            if let Some(text) = tool::notification(&self.site) {
                self.queue.push_back(Said::notice(&text));
                continue;
            }
            let has_agents = !self.nested.is_empty();
            let is_awaited = self.site.shells.awaits_news() || has_agents;
            if self.is_closed && (!is_awaited || patience.is_zero()) {
                self.let_hooks_end(inbox, host);
                if self.end.is_some() || self.queue.is_empty() {
                    return self.end.unwrap_or(code);
                }
                continue;
            }
            if host.is_gone() {
                return NOBODY;
            }
            if self.is_closed && patience == PATIENCE {
                host.event(&AgentId::Main, &Event::Waiting);
            }
            let note = if is_awaited {
                patience = if self.is_closed { patience.saturating_sub(OFTEN) } else { patience };
                self.alarms.receive(inbox, Some(OFTEN))
            } else {
                inbox.try_recv().or_else(|_| {
                    self.warm_up(host);
                    self.alarms.receive(inbox, None)
                })
            };
            match note {
                Ok(note) => _ = self.take(note, host),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => _ = self.take(Note::Closed, host),
            }
        }
    }

    /// Waits for hooks that nothing else waits for. Each has a limit of its own, and those that
    /// nothing was ever to wait for have little time together.
    fn let_hooks_end(&mut self, inbox: &Receiver<Note>, host: &mut dyn Host) {
        let end = Instant::now() + PATIENCE_ASIDE;
        let is_open =
            |runs: &hooked::Runs| runs.has_any() || (runs.has_aside() && Instant::now() < end);
        while is_open(&self.runs) && self.queue.is_empty() && self.end.is_none() && !host.is_gone()
        {
            match self.alarms.receive(inbox, Some(OFTEN)) {
                Ok(note) => _ = self.take(note, host),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if self.queue.is_empty() {
            self.runs.give_up();
        }
    }

    /// Runs one turn.
    fn one(&mut self, utterance: Said, inbox: &Receiver<Note>, host: &mut dyn Host) -> u8 {
        self.change_model();
        let now = self.nature.elapsed();
        let Some(mut main) = self.agents.remove(&AgentId::Main) else { return 1 };
        main.count.begin(now);
        (main.stops, main.compactions) = (0, 0);
        let began = Event::TurnBegan { model: main.asking.model.clone(), mode: self.permit.mode };
        host.event(&AgentId::Main, &began);
        self.is_busy = true;
        self.open(&mut main, utterance, host);
        self.agents.insert(AgentId::Main, main);
        let mut outcome = self.go_on(host);
        self.warm_up(host);
        while outcome.is_none() {
            // If nothing reads the output, work is neither done nor paid for.
            let gone = (host.is_gone() && self.end.is_none()).then_some(Note::End(NOBODY));
            match gone.map_or_else(|| self.alarms.receive(inbox, None), Ok) {
                Ok(note) => outcome = self.take(note, host),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.is_busy = false;
        self.finish(outcome.unwrap_or(Outcome::Interrupted), host)
    }

    /// Starts what commands need, and says what the sandbox does not enforce here. That happens
    /// while nobody waits for anything but the model or the user.
    fn warm_up(&mut self, host: &mut dyn Host) {
        if std::mem::replace(&mut self.is_warm, true) {
            return;
        }
        let site = &self.site;
        site.shells.path.ask();
        let Some(guard) = &site.guard else { return };
        tool::ready(site);
        let (around, folders) = (guard.clone(), site.all_folders());
        std::thread::spawn(move || around.look_around(&folders));
        if let Some(gaps) = guard.layers.gaps() {
            let text = format!("the sandbox is not complete here: {gaps}");
            host.event(&AgentId::Main, &Event::Notice(text));
        }
    }

    /// Takes a note. Returns how the turn of the main agent ended, once it has.
    fn take(&mut self, note: Note, host: &mut dyn Host) -> Option<Outcome> {
        match note {
            Note::From(id, report) => self.report(&id, report, host),
            Note::Say(utterance) => self.say(utterance, host),
            Note::Interrupt => self.interrupt(),
            Note::Background(call) => {
                self.site.backgrounded.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
            }
            Note::Mode(mode) => self.set_mode(mode, host),
            Note::Decide(request, reply) => self.decided(&request, reply, host),
            Note::Reply(line) => {
                if !self.called_back(&line, host) {
                    self.replied(&line, host);
                }
            }
            Note::Control(line) => self.control(&line, host),
            Note::End(code) => self.stop_with(code),
            Note::Leave(departure) => {
                self.departure = Some(departure);
                self.stop_with(0);
            }
            Note::Closed => self.is_closed = true,
            Note::Nonsense(why) => {
                host.event(&AgentId::Main, &Event::Complaint(why));
                self.stop_with(1);
            }
        }
        self.go_on(host)
    }

    fn interrupt(&mut self) {
        if !self.is_busy {
            return;
        }
        let is_idle = self.main().is_some_and(|main| main.turn.is_idle());
        if is_idle && self.pending.is_empty() {
            // Only hooks stand between the user and the model.
            self.runs.drop_of(&AgentId::Main);
            if let Some(main) = self.agents.get_mut(&AgentId::Main) {
                (main.order, main.expanding, main.number) = (None, None, main.number + 1);
            }
            self.outcome = Some(Outcome::Interrupted);
        } else {
            self.pending.push_back((AgentId::Main, Input::Interrupt));
        }
    }

    fn stop_with(&mut self, code: u8) {
        self.end = Some(code);
        self.interrupt();
    }

    /// The user says something.
    fn say(&mut self, utterance: Said, host: &mut dyn Host) {
        if !self.is_busy {
            self.queue.push_back(utterance);
            return;
        }
        let Some(mut main) = self.agents.remove(&AgentId::Main) else { return };
        let texts: Vec<String> =
            utterance.blocks.iter().filter_map(|block| text_of(block)).collect();
        host.event(&AgentId::Main, &Event::Queued { text: texts.join("\n") });
        match main.recorder.enqueue(&utterance.blocks) {
            Err(error) => {
                self.pending.push_back((AgentId::Main, Input::Unwritable(error.to_string())));
            }
            // While tools run, it is sent along with their results; otherwise, if it is a command,
            // and if hooks are to see it first, it waits for its own turn.
            Ok(())
                if !main.calls.is_empty()
                    && !self.hooks.has("UserPromptSubmit")
                    && utterance.printed.is_none()
                    && prompting::built_in(&utterance).is_none()
                    && self.called(&utterance).is_none() =>
            {
                let prompt = self.prompt_of(&mut main, utterance, host);
                self.pending.push_back((AgentId::Main, Input::Prompt(prompt)));
            }
            Ok(()) => self.queue.push_back(utterance),
        }
        self.agents.insert(AgentId::Main, main);
    }

    /// What a thread that works for an agent reports.
    fn report(&mut self, id: &AgentId, report: Report, host: &mut dyn Host) {
        let report = match report {
            Report::Aside(number, done) => return self.aside_ended(id, number, *done, host),
            report => report,
        };
        // An agent that has ended wants nothing any more.
        let Some(agent) = self.agents.get_mut(id) else { return };
        match report {
            Report::Input(number, input) if number == agent.number => {
                self.pending.push_back((id.clone(), input));
            }
            Report::Streamed(number, event) if number == agent.number => {
                let piece = delta(&event);
                // A call takes a while to arrive, and then to be judged.
                if event.contains(r#""tool_use""#) {
                    tool::ready(&self.site);
                }
                host.event(id, &Event::Streamed(event));
                if let Some(piece) = piece {
                    host.event(id, &piece);
                }
            }
            Report::Hooked(number, ran) => self.hooked(number, ran, host),
            Report::Late(request) => self.late(&request, host),
            Report::Unanswered(request) => self.notify_of(id, &request, host),
            Report::Summarised(number, made) if number == agent.number => {
                self.summarised(id, made, host);
            }
            Report::SummaryDue(number) if number == agent.number => self.summary_due(id),
            Report::Expanded(number, body) if number == agent.number => {
                self.commands_ran(id, body, host);
            }
            Report::Input(..)
            | Report::Streamed(..)
            | Report::Summarised(..)
            | Report::SummaryDue(..)
            | Report::Expanded(..)
            | Report::Aside(..) => {}
            Report::Answered(call, answer) => self.answered(id, call, answer, host),
            Report::Progress(call, progress, number) => {
                if !agent.calls.contains_key(&call) {
                    return;
                }
                if let Err(error) = agent.recorder.progress(&call, &progress, number) {
                    self.pending.push_back((id.clone(), Input::Unwritable(error.to_string())));
                }
                host.event(id, &Event::ToolOutput { call, progress });
            }
        }
    }

    /// Passes on the inputs that are pending. Returns how the turn of the main agent ended, once it
    /// has.
    fn go_on(&mut self, host: &mut dyn Host) -> Option<Outcome> {
        loop {
            if let Some(outcome) = self.outcome.take() {
                return Some(outcome);
            }
            if let Some((id, input)) = self.pending.pop_front() {
                // It is away while it works, so that the driver can be used as a whole.
                let Some(mut agent) = self.agents.remove(&id) else { continue };
                let before = agent.turn.answered;
                let mut outcome = self.feed(&mut agent, input, host);
                if agent.turn.answered != before {
                    self.agent_progress(&agent, host);
                }
                outcome = outcome.and_then(|outcome| self.before_end(&agent, outcome, host));
                self.agents.insert(id.clone(), agent);
                self.ended.extend(outcome.map(|outcome| (id, outcome)));
            } else if let Some(id) = self.asks.pop_front() {
                let Some(mut agent) = self.agents.remove(&id) else { continue };
                self.compact_or_ask(&mut agent, host);
                self.agents.insert(id, agent);
            } else if let Some((id, outcome)) = self.ended.pop_front() {
                match id {
                    AgentId::Main => return Some(outcome),
                    AgentId::Sub(_) => self.end_agent(&id, outcome, host),
                }
            } else {
                return None;
            }
        }
    }

    /// Does what the host wants, and answers it.
    fn control(&mut self, line: &Value, host: &mut dyn Host) {
        let request = &line["request"];
        let (wish, mut answer) = control::asked(request, self.permit.bypass);
        match wish {
            Wish::Mode(mode) => self.set_mode(mode, host),
            Wish::Model(model) => {
                let Some(main) = self.agents.remove(&AgentId::Main) else { return };
                let more = json!({
                    "from_model": main.asking.model, "to_model": model,
                    "requested_model": request["model"], "source": "sdk",
                });
                let to = model.clone();
                let then = Then::Switch(line.clone(), model);
                let started = self.hook(&main, ("PreModelSwitch", &to), more, then, host);
                let is_waiting = started.is_ok();
                if let Err(Then::Switch(line, model)) = started {
                    self.switched(&main, &line, model, host);
                }
                self.agents.insert(AgentId::Main, main);
                if is_waiting {
                    return;
                }
            }
            Wish::Thinking(tokens) => {
                if let Some(main) = self.agents.get_mut(&AgentId::Main) {
                    let asking = &mut main.asking;
                    asking.thinking = model::thinking_tokens(tokens, asking.max_tokens);
                }
            }
            Wish::Back(wish) => answer = self.go_back(&wish),
            Wish::Waypoints => answer = Ok(Some(self.waypoints())),
            Wish::Initialize(beginning) => {
                let more = self.begin_with(*beginning, host);
                if let (Ok(Some(Value::Object(answer))), Value::Object(more)) = (&mut answer, more)
                {
                    answer.extend(more);
                }
            }
            Wish::Stop => self.interrupt(),
            Wish::StopTask(task) => self.stop_task(&task, host),
            Wish::TaskOutput(task) => answer = self.task_output(&task),
            Wish::Background(call) => {
                self.site.backgrounded.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
            }
            Wish::Rename(title) => {
                let main = self.agents.get_mut(&AgentId::Main);
                if let Some(Err(error)) = main.map(|main| main.recorder.rename(&title)) {
                    let why = format!("the title could not be written: {error}");
                    answer = Err(control::Refusal { why, code: None });
                }
            }
            Wish::Context => answer = Ok(Some(self.context_usage())),
            Wish::Cost => answer = Ok(Some(self.cost())),
            Wish::Impossible => {
                if let Err(refusal) = &answer {
                    host.event(&AgentId::Main, &Event::Complaint(refusal.why.clone()));
                }
                self.stop_with(IMPOSSIBLE);
            }
            Wish::Nothing => {}
        }
        let answer = control::answer(&line["request_id"], answer);
        host.event(&AgentId::Main, &Event::Controlled(answer));
    }

    /// What a command of the session has printed so far, for a host.
    fn task_output(&self, task: &str) -> Result<Option<Value>, control::Refusal> {
        let unknown = || control::Refusal::new(format!("there is no command `{task}`"));
        self.site.shells.known(task).ok_or_else(unknown)?;
        let path = self.site.shells.output(task);
        let (output, bytes) =
            shell::tail(&path, LONGEST_OUTPUT, &self.site.secrets).map_err(|_| unknown())?;
        let is_cut = bytes > LONGEST_OUTPUT as u64;
        Ok(Some(json!({"output": output, "total_bytes": bytes, "truncated": is_cut})))
    }

    /// What the session cost so far, for a host.
    fn cost(&self) -> Value {
        json!({"text": self.main().map(cost_of)})
    }

    /// Whether the run has cost what it may cost, sub-agents included: those that have ended are
    /// counted with the main one. A price that is not known counts as too much.
    fn is_over_budget(&self, agent: &Agent) -> bool {
        let Some(budget) = self.about.budget else { return false };
        let spent = spent(self.agents.values().chain([agent]));
        spent.is_none_or(|spent| spent >= budget)
    }

    fn change_model(&mut self) {
        let Some(model) = self.next_model.take() else { return };
        if let Some(main) = self.agents.get_mut(&AgentId::Main) {
            main.go_on_with(model);
        }
    }

    /// Goes on with the other model, if this one was overloaded too often. Returns whether it did.
    fn fall_back(
        &mut self,
        agent: &mut Agent,
        error: &ApiError,
        failures: u32,
        host: &mut dyn Host,
    ) -> bool {
        if !failures.is_multiple_of(OVERLOADED) || !error.is_overloaded() {
            return false;
        }
        let from = agent.asking.model.clone();
        // The one after this one in the list; the first, if this one is not in it.
        let all = &self.about.fallback;
        let at = all.iter().position(|one| *one == from).map_or(0, |at| at + 1);
        let Some(other) = all.get(at).filter(|other| **other != from).cloned() else {
            return false;
        };
        if agent.id == AgentId::Main {
            // The next turn tries the first one again.
            self.next_model.get_or_insert(from.clone());
        }
        host.event(&agent.id, &Event::FellBack { from, to: other.clone() });
        agent.go_on_with(other);
        true
    }

    fn finish(&mut self, outcome: Outcome, host: &mut dyn Host) -> u8 {
        self.take_back();
        let now = self.nature.elapsed();
        let Some(main) = self.agents.get_mut(&AgentId::Main) else { return 1 };
        let left = main.turn.take_waiting();
        // What they mention was read already.
        self.queue.extend(left.map(|prompt| Said {
            blocks: prompt.blocks,
            is_verbatim: true,
            ..Said::default()
        }));
        let taken = now - main.count.began;
        // If the transcript could not be written, the turn is reported as such and ends.
        let is_lost = matches!(outcome, Outcome::Unwritable(_) | Outcome::Blocked(_));
        let outcome = match if is_lost { Ok(()) } else { main.recorder.duration(taken) } {
            Ok(()) => outcome,
            Err(error) => Outcome::Unwritable(error.to_string()),
        };
        let summary = main.summary(outcome, taken);
        let code = summary.code();
        host.event(&AgentId::Main, &Event::TurnEnded(summary));
        code
    }
}

impl Agent {
    /// Another model continues from now on.
    fn go_on_with(&mut self, model: String) {
        if model != self.asking.model {
            self.asking.max_tokens = model::output_tokens(&model);
            self.asking.model = model;
            self.forget_thinking();
        }
    }

    /// Another model does not accept the thinking of the one before.
    fn forget_thinking(&mut self) {
        self.turn.forget_thinking();
        self.recorder.forget_thinking();
    }

    /// The prompt, preceded by what has changed.
    fn prompted(&mut self, utterance: Said, host: &mut dyn Host) -> Prompt {
        let id = self.recorder.id_for(utterance.id.as_deref());
        let news = self.asking.news.take().into_iter().chain(self.news_of_mode());
        let news: Vec<String> = news.map(|news| text_block(&news)).collect();
        let blocks = news.into_iter().chain(utterance.blocks);
        let secrets = &self.site.secrets;
        let blocks: Vec<String> =
            blocks.map(|block| secrets.redacted_json(&block).into_owned()).collect();
        let prompt = Prompt { id: id.clone(), blocks: blocks.clone() };
        host.event(&self.id, &Event::Prompted { id, blocks, line: utterance.line });
        prompt
    }

    /// How a turn went, and what it cost.
    fn summary(&mut self, outcome: Outcome, taken: i64) -> Summary {
        let spent =
            std::mem::take(&mut *self.site.spent.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.aside(spent);
        Summary {
            text: std::mem::take(&mut self.count.text),
            taken,
            api: self.count.api,
            turns: if matches!(outcome, Outcome::Blocked(_)) { 0 } else { 1 + self.turn.answered },
            outcome,
            usage: self.count.turn,
            models: self.count.models.clone(),
            denials: std::mem::take(&mut self.count.denials),
            output: self.site.output.take(),
        }
    }
}

/// What these agents and their tools have spent so far, in dollars; None if a price is not known.
fn spent<'a>(agents: impl Iterator<Item = &'a Agent>) -> Option<f64> {
    let mut models: BTreeMap<String, Usage> = BTreeMap::new();
    for agent in agents {
        let aside = agent.site.spent.lock().unwrap_or_else(PoisonError::into_inner);
        for (model, usage) in agent.count.models.iter().chain(aside.iter()) {
            *models.entry(model.clone()).or_default() += *usage;
        }
    }
    let mut costs = models.iter().map(|(model, usage)| Some(usage.cost(model)?.total()));
    costs.try_fold(0.0, |sum, cost| Some(sum + cost?))
}

fn cost_of(agent: &Agent) -> String {
    match spent(std::iter::once(agent)) {
        Some(cost) => format!("Total cost: ${cost:.4}"),
        None => "The price of a model is not known.".to_owned(),
    }
}

/// The exit code of a session whose output is no longer read: the code that a shell reports for a
/// program that wrote to a closed pipe.
pub const NOBODY: u8 = 141;

/// How long to wait for commands in the background when there are no more prompts; as long as any
/// command may run.
const PATIENCE: Duration = Duration::from_secs(600);
/// How much of a command's output a host gets, in bytes.
const LONGEST_OUTPUT: usize = 1 << 20;
/// After so many failures in a row another model goes on, if there is one.
const OVERLOADED: u32 = 3;
/// The exit code for wrong usage: a host asked for something that is not supported.
const IMPOSSIBLE: u8 = 2;
/// How often in a row hooks may keep a turn from ending, if nobody says how often.
pub(crate) const MOST_STOPS: u32 = 9;
/// How often commands in the background are checked.
const OFTEN: Duration = Duration::from_millis(50);
