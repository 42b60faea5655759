//! Hooks of a running session: started when something happens, waited for, obeyed.
//!
//! Invariants: what waits for hooks happens only after all of them have said something, or their
//! time is over; hooks that nobody waits for any more (the turn was stopped) decide nothing.

mod aside;
mod outcome;

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::thread;

use rules::{Decision, Judgement, Rule, Rulebook, current};
use serde_json::{Map, Value, json};

use super::decide::call;
use super::prompting::built_in;
use super::worker::Carried;
use super::{Agent, Departure, Driver, Note, Report, Said};
use crate::block::text_of;
use crate::context::{Late, Loaded, tagged};
use crate::control::{self, Reply};
use crate::event::{AgentId, Event};
use crate::hook::run::{self, Ran, Start};
use crate::hook::{self, Action, Hook, Verdict, add_once};
use crate::host::{Callback, Host};
use crate::permit::{Mode, Permit};
use crate::prelude::PreludeAuthor;
use crate::settings::Source;
use crate::tool::{Answer, Call, Cancel, MOST_REMINDERS, OUTPUT_REMINDER, Site};
use crate::turn::{Input, Outcome, Wanted};
use aside::Asides;
use outcome::{ended, remarks, replaced, tell};

/// What happens after hooks.
#[derive(Debug)]
pub(super) enum Then {
    /// A session begins with this prompt.
    Begin(Said),
    /// A prompt is taken, or the command that it is.
    Prompt(Said),
    /// A command of the user is expanded.
    Expand(Said),
    /// A call is decided about.
    Call(Wanted),
    /// A call that needs a question is put to somebody.
    Permission(Wanted, Judgement),
    /// A call has its result.
    Result(String, Answer),
    /// The folder of the commands has changed, and the next request comes.
    Moved,
    /// The results of an answer are sent.
    Batch,
    /// A sub-agent begins with this prompt.
    BeginAgent(String),
    /// The next request is made.
    Ask,
    /// A turn ends.
    Stop(Outcome),
    /// A turn that made no request of its own is over.
    Over(Outcome),
    /// The model is switched: the request for it, and the model.
    Switch(Value, String),
    /// The conversation is summarised.
    Compact(super::compacting::Order),
    /// It has been: what the hooks for that learn, and what comes next.
    Compacted(&'static str, Value, Box<Then>),
    /// Nothing.
    Nothing,
}

/// Hooks that run.
#[derive(Debug)]
pub(super) struct Running {
    agent: AgentId,
    event: &'static str,
    name: String,
    then: Then,
    /// Hooks of the host that have not answered, by the ids of the requests.
    callbacks: HashMap<String, Hook>,
    /// Whether commands still run.
    has_commands: bool,
    ran: Vec<(Hook, Ran)>,
    cancel: Cancel,
    /// What is started once the message before it has been shown.
    held: Option<Held>,
}

/// Hooks that are not started yet.
#[derive(Debug)]
struct Held {
    hooks: Vec<Hook>,
    input: Value,
    /// The call that they are about.
    call: Option<String>,
}

/// The event of a message that is shown: its hooks end before others of that agent begin.
const SHOWN: &str = "MessageDisplay";

/// All hooks that run, by number.
#[derive(Debug, Default)]
pub(super) struct Runs {
    all: BTreeMap<u64, Running>,
    next: u64,
    /// Those that nothing waits for.
    aside: Asides,
}

impl Runs {
    /// Whether any hook runs that something waits for.
    pub(super) fn has_any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether any hook runs that nothing waits for.
    pub(super) fn has_aside(&self) -> bool {
        self.aside.has_any()
    }

    /// Forgets the hooks that nothing waits for.
    pub(super) fn give_up(&mut self) {
        self.aside = Asides::default();
    }

    /// Whether hooks of this agent that begin now would overtake those for a message.
    fn must_wait(&self, agent: &AgentId) -> bool {
        let mut of_agent = self.all.values().filter(|run| run.agent == *agent);
        of_agent.any(|run| run.event == SHOWN || run.held.is_some())
    }

    /// The next hooks of an agent that may begin.
    fn next_held(&self, agent: &AgentId) -> Option<u64> {
        let mut of_agent = self.all.iter().filter(|(_, run)| run.agent == *agent);
        let (number, run) = of_agent.find(|(_, run)| run.event == SHOWN || run.held.is_some())?;
        run.held.is_some().then_some(*number)
    }

    /// Forgets the hooks that an agent waits for. Returns what would have come after them.
    pub(super) fn drop_of(&mut self, agent: &AgentId) -> Vec<Then> {
        let (gone, all): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.all).into_iter().partition(|(_, run)| run.agent == *agent);
        self.all = all;
        let gone = gone.into_values();
        gone.map(|run| {
            run.cancel.set();
            run.then
        })
        .collect()
    }
}

impl Driver {
    /// Starts the hooks of an event. If there are none, returns what was to come after them.
    #[allow(clippy::result_large_err, reason = "it is taken apart at once")]
    pub(super) fn hook(
        &mut self,
        agent: &Agent,
        (event, subject): (&'static str, &str),
        more: Value,
        then: Then,
        host: &mut dyn Host,
    ) -> Result<(), Then> {
        let of_call = match &then {
            Then::Call(wanted) | Then::Permission(wanted, _) => Some(call(wanted)),
            Then::Result(id, _) => agent.calls.get(id).map(|(wanted, _)| call(wanted)),
            _ => None,
        };
        let fits = |rule: &Rule| of_call.as_ref().is_some_and(|call| fits(rule, call, &agent.site));
        let mut hooks = self.hooks.of(event, subject, fits);
        if let Some(nested) = self.nested.get(&agent.id) {
            // What ends for a sub-agent is itself.
            let events = [Some(event), (event == "SubagentStop").then_some("Stop")];
            let events = events.into_iter().flatten();
            let more = events.flat_map(|event| nested.hooks.of(event, subject, fits));
            more.for_each(|hook| add_once(&mut hooks, hook));
        }
        if hooks.is_empty() {
            return Err(then);
        }
        let input = self.hook_input(agent, event, more);
        let subject = if hook::is_of_tools(event) { hook::tool_name(subject) } else { subject };
        let name = if subject.is_empty() { event.into() } else { format!("{event}:{subject}") };
        let number = self.runs.next;
        self.runs.next += 1;
        let must_wait = self.runs.must_wait(&agent.id);
        let held = Held { hooks, input, call: of_call.map(|call| call.id) };
        let running = Running {
            agent: agent.id.clone(),
            event,
            name,
            then,
            callbacks: HashMap::new(),
            has_commands: false,
            ran: Vec::new(),
            cancel: Cancel::default(),
            held: Some(held),
        };
        self.runs.all.insert(number, running);
        if !must_wait {
            self.launch(agent, number, host);
        }
        Ok(())
    }

    /// Starts hooks.
    fn launch(&mut self, agent: &Agent, number: u64, host: &mut dyn Host) {
        let Some(run) = self.runs.all.get_mut(&number) else { return };
        let Some(Held { hooks, input, call }) = run.held.take() else { return };
        let (event, name, cancel) = (run.event, run.name.clone(), run.cancel.clone());
        let (mut commands, mut callbacks) = (Vec::new(), HashMap::new());
        let mut ran = Vec::new();
        let variables = self.hook_variables(agent);
        let start = Start { input: input.to_string(), variables, cancel };
        for hook in hooks {
            let id = self.nature.id();
            let started =
                Event::HookStarted { id: id.clone(), event: event.into(), name: name.clone() };
            host.event(&agent.id, &started);
            match &hook.action {
                Action::Command(_) if hook.is_async => {
                    // Nobody stops it with the turn.
                    let start = Start { cancel: Cancel::default(), ..start.clone() };
                    self.run_aside(agent, (event, &name), (id, hook), start);
                }
                Action::Command(_) => commands.push((id, hook)),
                Action::Callback(callback) => {
                    let asked =
                        Callback { request: &id, callback, input: &input, call: call.as_deref() };
                    if host.call_back(&asked) {
                        let late = Report::Late(id.clone());
                        self.alarms.set(hook.timeout, agent.id.clone(), late);
                        callbacks.insert(id, hook);
                    } else {
                        let trouble = Some("has nobody to call".to_owned());
                        ran.push((hook, Ran { id, trouble, ..Ran::default() }));
                    }
                }
            }
        }
        let has_commands = !commands.is_empty();
        if has_commands {
            let (notes, id, site) = (self.notes.clone(), agent.id.clone(), agent.site.clone());
            thread::spawn(move || {
                let ran = run::commands(&commands, &start, &site);
                let _ = notes.send(Note::From(id, Report::Hooked(number, ran)));
            });
        }
        if !has_commands && callbacks.is_empty() {
            // It goes on with the next note, as if the hooks had taken a moment.
            let id = agent.id.clone();
            let _ = self.notes.send(Note::From(id, Report::Hooked(number, Vec::new())));
        }
        if let Some(run) = self.runs.all.get_mut(&number) {
            (run.callbacks, run.has_commands, run.ran) = (callbacks, has_commands, ran);
        }
    }

    fn hook_input(&self, agent: &Agent, event: &str, more: Value) -> Value {
        let cwd = agent.site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut input = Map::new();
        input.insert("session_id".to_owned(), self.about.session.as_str().into());
        let transcript = self.about.transcript.display().to_string();
        input.insert("transcript_path".to_owned(), transcript.into());
        input.insert("cwd".to_owned(), cwd.display().to_string().into());
        if let Some(prompt) = &agent.prompt {
            input.insert("prompt_id".to_owned(), prompt.as_str().into());
        }
        if hook::learns(event, hook::About::Mode) {
            input.insert("permission_mode".to_owned(), self.mode_of(agent).name().into());
        }
        let effort = agent.asking.effort.as_ref();
        if let Some(level) = effort.filter(|_| hook::learns(event, hook::About::Effort)) {
            input.insert("effort".to_owned(), json!({"level": level}));
        }
        if let AgentId::Sub(id) = &agent.id {
            input.insert("agent_id".to_owned(), id.as_ref().into());
            let kind = self.nested.get(&agent.id).map(|nested| nested.kind.clone());
            input.insert("agent_type".to_owned(), kind.unwrap_or_default().into());
        }
        input.insert("hook_event_name".to_owned(), event.into());
        if let Value::Object(more) = more {
            input.extend(more);
        }
        let calls = input.get_mut("tool_calls").and_then(Value::as_array_mut);
        let names = calls.into_iter().flatten().filter_map(|call| call.get_mut("tool_name"));
        names.for_each(rename);
        if let Some(name) = input.get_mut("tool_name") {
            rename(name);
        }
        let mut input = Value::Object(input);
        agent.site.secrets.clean_value(&mut input);
        input
    }

    fn hook_variables(&self, agent: &Agent) -> Vec<(String, String)> {
        let project = agent.site.root.display().to_string();
        let number = std::process::id().to_string();
        let all = [
            ("CLAUDE_PROJECT_DIR", project.as_str()),
            ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_SESSION_ID", self.about.session.as_str()),
            ("CLAUDE_CODE_CHILD_SESSION", "1"),
            ("CLAUDE_PID", number.as_str()),
        ];
        let effort = agent.asking.effort.as_deref().map(|level| ("CLAUDE_EFFORT", level));
        let all = all.into_iter().chain(effort);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Takes what commands of hooks did.
    pub(super) fn hooked(&mut self, number: u64, ran: Vec<(Hook, Ran)>, host: &mut dyn Host) {
        let Some(run) = self.runs.all.get_mut(&number) else { return };
        run.has_commands = false;
        run.ran.extend(ran);
        self.settle(number, host);
    }

    /// Takes the answer of a hook of the host. Returns whether it was one.
    pub(super) fn called_back(&mut self, line: &Value, host: &mut dyn Host) -> bool {
        let response = &line["response"];
        let Some(id) = response["request_id"].as_str() else { return false };
        let ran = if let Some("success") = response["subtype"].as_str() {
            Ran {
                id: id.to_owned(),
                stdout: response["response"].to_string(),
                code: Some(0),
                ..Ran::default()
            }
        } else {
            let why = response["error"].as_str().unwrap_or("no reason");
            let trouble = Some(format!("failed: {why}"));
            Ran { id: id.to_owned(), trouble, ..Ran::default() }
        };
        self.call_ended(id, ran, host)
    }

    /// A hook of the host has not answered in time.
    pub(super) fn late(&mut self, request: &str, host: &mut dyn Host) {
        let trouble = Some("did not answer in time".to_owned());
        self.call_ended(request, Ran { id: request.to_owned(), trouble, ..Ran::default() }, host);
    }

    fn call_ended(&mut self, request: &str, ran: Ran, host: &mut dyn Host) -> bool {
        let mut all = self.runs.all.iter_mut();
        let Some((number, run)) = all.find(|(_, run)| run.callbacks.contains_key(request)) else {
            return false;
        };
        let number = *number;
        if let Some(hook) = run.callbacks.remove(request) {
            run.ran.push((hook, ran));
        }
        self.settle(number, host);
        true
    }

    /// Goes on if all hooks of a run are done.
    fn settle(&mut self, number: u64, host: &mut dyn Host) {
        let is_open =
            |run: &Running| run.has_commands || run.held.is_some() || !run.callbacks.is_empty();
        if self.runs.all.get(&number).is_none_or(is_open) {
            return;
        }
        let Some(run) = self.runs.all.remove(&number) else { return };
        let Some(mut agent) = self.agents.remove(&run.agent) else { return };
        let verdict = Verdict::of(run.event, &run.ran);
        let preludes = run.ran.iter().map(|(hook, ran)| {
            let is_projects = matches!(hook.source, Source::Project | Source::Local);
            let author = if is_projects { PreludeAuthor::Project } else { PreludeAuthor::User };
            (author, ran.prelude.clone())
        });
        if matches!(run.event, "SessionStart" | "CwdChanged") {
            agent.site.shells.preludes.add(run.event, preludes.collect());
        }
        for (hook, ran) in &run.ran {
            host.event(&agent.id, &ended((run.event, &run.name), ran));
            // The original records no other hooks in this dialect.
            if run.event == "SessionStart" {
                let command = hook.action.name();
                if let Err(error) = agent.recorder.hook(run.event, &run.name, command) {
                    let input = Input::Unwritable(error.to_string());
                    self.pending.push_back((agent.id.clone(), input));
                }
            }
        }
        for (hook, _) in run.ran.iter().filter(|(_, ran)| ran.code == Some(0)) {
            self.hooks.succeeded(hook);
        }
        tell(&agent.id, &run.name, &verdict, host);
        while let Some(number) = self.runs.next_held(&run.agent) {
            self.launch(&agent, number, host);
        }
        self.after(&mut agent, (run.event, &run.name), run.then, verdict, host);
        self.agents.insert(run.agent, agent);
    }

    /// Does what was to come after hooks, as far as they let it.
    fn after(
        &mut self,
        agent: &mut Agent,
        (event, name): (&'static str, &str),
        then: Then,
        verdict: Verdict,
        host: &mut dyn Host,
    ) {
        let id = agent.id.clone();
        let remarks = remarks(event, name, &verdict);
        match then {
            Then::Begin(utterance) => {
                self.remark(&id, remarks);
                self.entitle(agent, verdict.title);
                let utterance = match verdict.first_prompt {
                    Some(text) => {
                        self.queue.push_front(utterance);
                        Said::text(&text)
                    }
                    None => utterance,
                };
                self.submit(agent, utterance, host);
            }
            Then::Expand(utterance) => {
                if let Some(why) = verdict.refusal() {
                    return self.block(agent, event, (&utterance, &verdict), &why);
                }
                self.remark(&id, remarks);
                self.halt(&id, verdict.halt);
                self.expand(agent, utterance, host);
            }
            Then::Prompt(utterance) => {
                if let Some(why) = verdict.refusal() {
                    return self.block(agent, event, (&utterance, &verdict), &why);
                }
                self.entitle(agent, verdict.title.clone());
                self.remark(&id, remarks);
                self.halt(&id, verdict.halt);
                self.accept(agent, utterance, host);
            }
            Then::Call(wanted) => {
                self.remark(&id, remarks);
                self.halt(&id, verdict.halt.clone());
                let carried = self.judge(agent, wanted, &verdict, host);
                if let Carried::Next(input) = carried {
                    self.pending.push_back((id, input));
                }
            }
            Then::Permission(wanted, judgement) => {
                self.halt(&id, verdict.halt.clone());
                let input = self.permission(agent, wanted, &judgement, &verdict, host);
                self.pending.extend(input.map(|input| (id, input)));
            }
            Then::Result(call, answer) => {
                self.remark(&id, remarks);
                self.halt(&id, verdict.halt);
                let answer = replaced(answer, verdict.output.as_ref());
                self.pending.push_back((id, Input::Answered(call, answer)));
            }
            Then::Moved => {
                self.remark(&id, remarks);
                self.before_request(agent, host);
            }
            Then::Batch => {
                self.remark(&id, remarks);
                match verdict.halt.clone().or_else(|| verdict.refusal()) {
                    Some(why) => self.pending.push_back((id, Input::Halt(why))),
                    None => self.asks.push_back(id),
                }
            }
            Then::BeginAgent(prompt) => {
                self.remark(&id, remarks);
                self.prompt_agent(agent, &prompt, host);
            }
            Then::Ask => {
                self.remark(&id, remarks);
                self.asks.push_back(id);
            }
            Then::Over(outcome) => {
                self.remark(&id, remarks);
                self.outcome = Some(outcome);
            }
            Then::Stop(outcome) => self.stopping(agent, outcome, event, &verdict, host),
            Then::Switch(line, model) => self.switch_model(agent, &line, model, &verdict, host),
            Then::Compact(order) => self.compact_after(agent, order, &verdict, host),
            Then::Compacted(trigger, more, next) => {
                self.remark(&id, remarks);
                self.hook_then(agent, ("PostCompact", trigger), more, *next, host);
            }
            Then::Nothing => self.remark(&id, remarks),
        }
    }

    /// Runs the hooks of an event, and what comes after them.
    pub(super) fn hook_then(
        &mut self,
        agent: &mut Agent,
        (event, subject): (&'static str, &str),
        more: Value,
        then: Then,
        host: &mut dyn Host,
    ) {
        if let Err(then) = self.hook(agent, (event, subject), more, then, host) {
            self.after(agent, (event, event), then, Verdict::default(), host);
        }
    }

    /// Has the model get texts with the next request.
    pub(super) fn remark(&mut self, agent: &AgentId, texts: Vec<String>) {
        let inputs = texts.into_iter().map(|text| (agent.clone(), Input::Remark(text)));
        self.pending.extend(inputs);
    }

    fn halt(&mut self, agent: &AgentId, why: Option<String>) {
        self.pending.extend(why.map(|why| (agent.clone(), Input::Halt(why))));
    }

    fn entitle(&mut self, agent: &mut Agent, title: Option<String>) {
        if let Some(Err(error)) = title.map(|title| agent.recorder.rename(&title)) {
            self.pending.push_back((agent.id.clone(), Input::Unwritable(error.to_string())));
        }
    }

    /// A session begins, or a prompt is next.
    pub(super) fn open(&mut self, agent: &mut Agent, utterance: Said, host: &mut dyn Host) {
        if let Some((name, rest)) = built_in(&utterance) {
            return match (name, utterance.since) {
                ("compact", Some(since)) => self.compact_since(agent, since, host),
                (name, _) => self.run_built_in(agent, (name, &rest), host),
            };
        }
        if std::mem::replace(&mut self.is_begun, true) {
            return self.submit(agent, utterance, host);
        }
        for loaded in self.about.instructions.clone() {
            let (reason, more) = described(&loaded, "session_start");
            let _ = self.hook(agent, ("InstructionsLoaded", reason), more, Then::Nothing, host);
        }
        let source = match self.about.after {
            _ if self.about.is_resumed => "resume",
            Some(Departure::Clear) => "clear",
            _ => "startup",
        };
        let more = json!({"source": source});
        self.hook_then(agent, ("SessionStart", source), more, Then::Begin(utterance), host);
    }

    /// Hooks learn which instructions came with files.
    pub(super) fn tell_loaded(&mut self, agent: &Agent, host: &mut dyn Host) {
        let late = agent.site.given.lock().unwrap_or_else(PoisonError::into_inner).take();
        for Late { loaded, with, globs } in late {
            let usual = if globs.is_empty() { "nested_traversal" } else { "path_glob_match" };
            let (reason, mut more) = described(&loaded, usual);
            more["trigger_file_path"] = with.display().to_string().into();
            if !globs.is_empty() {
                more["globs"] = globs.into();
            }
            if let Some(level) = &agent.asking.effort {
                more["effort"] = json!({"level": level});
            }
            let _ = self.hook(agent, ("InstructionsLoaded", reason), more, Then::Nothing, host);
        }
    }

    /// A prompt is not taken.
    fn block(
        &mut self,
        agent: &mut Agent,
        event: &str,
        (utterance, verdict): (&Said, &Verdict),
        why: &str,
    ) {
        let mut text = format!("{event} operation blocked by hook:\n{why}");
        if !verdict.hides_prompt {
            text.push_str("\n\nOriginal prompt: ");
            text.push_str(&words(utterance));
        }
        self.outcome = Some(match agent.recorder.inform(&text) {
            Ok(()) => Outcome::Blocked(text),
            Err(error) => Outcome::Unwritable(error.to_string()),
        });
    }

    /// A turn is about to end. Returns how, if nothing holds it up.
    pub(super) fn before_end(
        &mut self,
        agent: &Agent,
        outcome: Outcome,
        host: &mut dyn Host,
    ) -> Option<Outcome> {
        let is_main = agent.id == AgentId::Main;
        let text = agent.count.text.clone();
        let outcome = match outcome {
            Outcome::MaxTurns(_) if is_main && agent.site.output.is_given() => {
                Outcome::Answered(Some("tool_use".to_owned()))
            }
            outcome => outcome,
        };
        match &outcome {
            Outcome::Answered(_) => match agent.site.output.reminds() {
                Some(false) => {}
                Some(true) => {
                    let input = Input::GoOn(OUTPUT_REMINDER.to_owned());
                    self.pending.push_back((agent.id.clone(), input));
                    return None;
                }
                None => return Some(Outcome::NoOutput(MOST_REMINDERS)),
            },
            Outcome::Failed(error) if is_main => {
                let more =
                    json!({"error": error.label(), "last_assistant_message": error.to_string()});
                let label = error.label().to_owned();
                let _ = self.hook(agent, ("StopFailure", &label), more, Then::Nothing, host);
                return Some(outcome);
            }
            _ => return Some(outcome),
        }
        let mut more = json!({
            "stop_hook_active": agent.stops > 0, "last_assistant_message": text,
            "background_tasks": self.background_tasks(), "session_crons": [],
        });
        let kind = self.nested.get(&agent.id).map(|nested| nested.kind.clone());
        let event =
            if is_main { ("Stop", "") } else { ("SubagentStop", kind.as_deref().unwrap_or("")) };
        if let Some(path) = self.agent_file(&agent.id).filter(|_| !is_main) {
            more["agent_transcript_path"] = path.display().to_string().into();
        }
        match self.hook(agent, event, more, Then::Stop(outcome), host) {
            Err(Then::Stop(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// What runs in the background, for hooks.
    fn background_tasks(&self) -> Vec<Value> {
        let agents = self.nested.iter().filter(|(_, nested)| nested.is_background);
        let agents = agents.map(|(id, nested)| {
            json!({
                "id": id.name(), "type": "subagent", "status": "running",
                "description": nested.description, "agent_type": nested.kind,
            })
        });
        let commands = self.site.shells.running().into_iter().map(|(id, name)| {
            json!({"id": id, "type": "shell", "status": "running", "description": name})
        });
        agents.chain(commands).collect()
    }

    /// Ends a turn, unless its hooks want more.
    fn stopping(
        &mut self,
        agent: &mut Agent,
        outcome: Outcome,
        event: &str,
        verdict: &Verdict,
        host: &mut dyn Host,
    ) {
        let feedback = verdict.refusal().map(|why| format!("{event} hook feedback:\n{why}"));
        let contexts = verdict.contexts.iter();
        let quiet =
            contexts.map(|text| tagged(&format!("{event} hook additional context: {text}")));
        let quiet = quiet.collect::<Vec<_>>().join("\n");
        let text = feedback.or(Some(quiet).filter(|text| !text.is_empty()));
        if let Some(text) = text.filter(|_| verdict.halt.is_none()) {
            let most = self.about.most_stops;
            if agent.stops < most {
                agent.stops += 1;
                self.pending.push_back((agent.id.clone(), Input::GoOn(text)));
                return;
            }
            let notice =
                format!("{event} hooks kept the turn from ending {most} times; it ends now");
            host.event(&agent.id, &Event::Notice(notice));
        }
        self.ended.push_back((agent.id.clone(), outcome));
    }

    /// What a `PermissionRequest` hook decides, or whoever can be asked.
    fn permission(
        &mut self,
        agent: &mut Agent,
        wanted: Wanted,
        judgement: &Judgement,
        verdict: &Verdict,
        host: &mut dyn Host,
    ) -> Option<Input> {
        if let Some(why) = verdict.refusal() {
            let reply = Reply::Deny { message: why, is_interrupt: false };
            return Some(self.ruled(agent, wanted, reply, host));
        }
        let Some(decision) = &verdict.decision else {
            return self.put(agent, wanted, judgement, host);
        };
        let line = json!({"subtype": "success", "response": decision});
        Some(self.ruled(agent, wanted, control::reply(&line), host))
    }

    /// Switches to another model, if its hooks let it.
    fn switch_model(
        &mut self,
        agent: &Agent,
        line: &Value,
        model: String,
        verdict: &Verdict,
        host: &mut dyn Host,
    ) {
        let answer = if let Some(why) = verdict.refusal() {
            Err(control::Refusal { why, code: Some("blocked_by_hook") })
        } else {
            self.switched(agent, line, model, host);
            Ok(None)
        };
        let answer = control::answer(&line["request_id"], answer);
        host.event(&AgentId::Main, &Event::Controlled(answer));
    }

    /// The model of the next turn is another one.
    pub(super) fn switched(
        &mut self,
        agent: &Agent,
        line: &Value,
        model: String,
        host: &mut dyn Host,
    ) {
        let more = json!({
            "from_model": agent.asking.model, "to_model": model,
            "requested_model": line["request"]["model"], "source": "sdk",
        });
        let _ = self.hook(agent, ("PostModelSwitch", &model), more, Then::Nothing, host);
        self.next_model = Some(model);
    }
}

/// Why an instruction file was read, and what hooks learn of it.
fn described(loaded: &Loaded, usual: &'static str) -> (&'static str, Value) {
    let reason = if loaded.parent.is_some() { "include" } else { usual };
    let mut more = json!({
        "file_path": loaded.path.display().to_string(), "memory_type": loaded.memory,
        "load_reason": reason,
    });
    if let Some(parent) = &loaded.parent {
        more["parent_file_path"] = parent.display().to_string().into();
    }
    (reason, more)
}

/// Whether a call fits the rule of a hook: if a rule that denies would keep it from running where
/// everything else may, or if that cannot be known.
fn fits(rule: &Rule, call: &Call, site: &Site) -> bool {
    if !rules::fits(&rule.tool, current(&call.name)) {
        return false;
    }
    let rule = Rule { root: site.root.clone(), ..rule.clone() };
    let book = Rulebook { rules: vec![rule], allows_sandboxed: false };
    let permit = Permit { mode: Mode::Bypass, book, ..Permit::default() };
    let access = site.tools.find(&call.name).map(|tool| tool.access(call, site));
    let access = access.unwrap_or_default();
    let judgement = permit.judge_access(&call.name, &access, site);
    match judgement.decision {
        Decision::Allow => false,
        Decision::Ask => true,
        // The sandbox may deny it, too.
        Decision::Deny => judgement.rule.is_some() || access.runs.is_some(),
    }
}

/// Gives a tool the name by which hooks know it.
fn rename(name: &mut Value) {
    if let Some(known) = name.as_str().map(hook::tool_name).map(str::to_owned) {
        *name = known.into();
    }
}

/// The text of a prompt.
pub(super) fn words(utterance: &Said) -> String {
    let texts: Vec<String> = utterance.blocks.iter().filter_map(|block| text_of(block)).collect();
    texts.join("\n")
}

#[cfg(test)]
#[path = "hooked_tests.rs"]
mod tests;
