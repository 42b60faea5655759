//! Whether calls may run: rules, then whoever can be asked.
//!
//! Invariants: the input that runs is the one that was judged, also if somebody changed it; an
//! answer to a question that was withdrawn is ignored; what nobody can be asked is refused.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use rules::{Decision, Kind, Rule};
use serde_json::{Map, Value, json};

use super::hooked::Then;
use super::worker::Carried;
use super::{Agent, Driver, Note, Report, nested};
use crate::context;
use crate::control::{self, Reply, Update};
use crate::event::{AgentId, Event};
use crate::guard;
use crate::hook::{Permission, Verdict};
use crate::host::{Asked, AskedWhat, Audience, Host};
use crate::permission_file::{Change, FOLDERS, list_of};
use crate::permit::{Mode, Permit, real, suggestion};
use crate::tool::{self, Answer, Call, Cancel, Trouble};
use crate::turn::{Input, Ruling, Wanted};

/// After how long hooks learn that a question has no answer.
const UNANSWERED: Duration = Duration::from_secs(6);

/// Questions that wait for an answer, by the ids of the requests.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<String, (AgentId, Open)>,
    /// The calls that somebody has allowed, until they run.
    approved: HashSet<(AgentId, String)>,
}

/// A question.
#[derive(Debug)]
enum Open {
    /// Whether a call may run.
    Call(Wanted),
    /// Whether a command that failed runs again outside the sandbox; its result otherwise.
    Outside(Wanted, Answer),
}

impl Questions {
    /// Forgets all questions of an agent. Returns their ids.
    pub(super) fn withdraw(&mut self, agent: &AgentId) -> Vec<String> {
        let (gone, open) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, (asks, _))| asks == agent);
        self.open = open;
        HashMap::into_keys(gone).collect()
    }
}

/// The call that is wanted.
pub(super) fn call(wanted: &Wanted) -> Call {
    let input: Map<String, Value> = serde_json::from_str(&wanted.input).unwrap_or_default();
    Call { id: wanted.id.clone(), name: wanted.name.clone(), input, cancel: Cancel::default() }
}

/// What a person is asked about a call.
fn question(agent: &Agent, call: &Call) -> AskedWhat {
    agent.site.tools.find(&call.name).map(|tool| tool.question()).unwrap_or_default()
}

impl Agent {
    pub(super) fn cleaned(&self, trouble: Trouble) -> Answer {
        let mut answer = trouble.answer();
        self.site.secrets.clean(&mut answer);
        answer
    }

    fn input_of(&self, call: &Call) -> Value {
        let mut input = Value::Object(call.input.clone());
        self.site.secrets.clean_value(&mut input);
        input
    }

    /// A part of a command, without secrets.
    fn cleaned_part(&self, part: &rules::Part) -> rules::Part {
        let mut text = Value::String(part.text.clone());
        self.site.secrets.clean_value(&mut text);
        let text = text.as_str().unwrap_or_default().to_owned();
        rules::Part { text, ..part.clone() }
    }

    /// Gives a call another input: that is the call from now on, also for who hears of it later.
    fn replace(&mut self, wanted: &mut Wanted, input: &Value) {
        wanted.input = input.to_string();
        if let Some((known, _)) = self.calls.get_mut(&wanted.id) {
            known.input.clone_from(&wanted.input);
        }
    }

    /// Counts a call that does not run.
    fn count_denial(&mut self, call: &Call) {
        let input = self.input_of(call);
        self.count.denials.push(json!({
            "tool_name": call.name, "tool_use_id": call.id, "tool_input": input,
        }));
    }
}

impl Driver {
    /// Decides about a call, or asks somebody.
    pub(super) fn decide(
        &mut self,
        agent: &mut Agent,
        wanted: &Wanted,
        host: &mut dyn Host,
    ) -> Carried {
        let id = wanted.id.clone();
        let decided = |ruling| Carried::Next(Input::Decided(id.clone(), ruling));
        let call = call(wanted);
        agent.calls.insert(id.clone(), (wanted.clone(), call.cancel.clone()));
        // An invalid call needs no permission.
        if let Err(trouble) = self.valid(agent, &call).and_then(|()| self.timely(agent, &call)) {
            return decided(Ruling::Deny(agent.cleaned(trouble)));
        }
        let more = json!({
            "tool_name": call.name, "tool_input": agent.input_of(&call), "tool_use_id": call.id,
        });
        let then = Then::Call(wanted.clone());
        match self.hook(agent, ("PreToolUse", &call.name), more, then, host) {
            Ok(()) => Carried::On,
            Err(_) => self.judge(agent, wanted.clone(), &Verdict::default(), host),
        }
    }

    /// Decides about a call after its hooks: what they refuse does not run; what they allow needs
    /// no question, unless a rule denies it.
    pub(super) fn judge(
        &mut self,
        agent: &mut Agent,
        mut wanted: Wanted,
        verdict: &Verdict,
        host: &mut dyn Host,
    ) -> Carried {
        let id = wanted.id.clone();
        let decided = |ruling| Carried::Next(Input::Decided(id.clone(), ruling));
        if let Some(why) = verdict.refusal() {
            let call = call(&wanted);
            agent.count_denial(&call);
            let text = format!("PreToolUse:{} hook error: {why}", call.name);
            return decided(Ruling::Deny(agent.cleaned(Trouble::failed(text))));
        }
        if let Some((Permission::Defer, why)) = &verdict.permission {
            let call = call(&wanted);
            let text = format!("{} was put off by a hook: {why}", call.name);
            if agent.id == AgentId::Main {
                // What answers it later is no result, and no hook hears of it.
                agent.calls.remove(&call.id);
                host.event(&agent.id, &Event::Notice(text));
                return decided(Ruling::Defer);
            }
            // Its parent waits for a report.
            agent.count_denial(&call);
            return decided(Ruling::Deny(agent.cleaned(Trouble::failed(text))));
        }
        if let Some(input) = &verdict.input {
            agent.replace(&mut wanted, input);
            // What was changed is another call.
            if let Err(trouble) = self.valid(agent, &call(&wanted)) {
                return decided(Ruling::Deny(agent.cleaned(trouble)));
            }
        }
        let call = call(&wanted);
        let mut judgement = self.judgement(agent, &call);
        match &verdict.permission {
            Some((Permission::Allow, _)) if judgement.decision == Decision::Ask => {
                self.questions.approved.insert((agent.id.clone(), id.clone()));
                judgement.decision = Decision::Allow;
            }
            Some((Permission::Ask, why)) if judgement.decision == Decision::Allow => {
                judgement.decision = Decision::Ask;
                judgement.why.clone_from(why);
            }
            _ => {}
        }
        // A question of the model's is answered by nobody else.
        if judgement.decision == Decision::Allow
            && question(agent, &call) == AskedWhat::Questions
            && !verdict.input.as_ref().is_some_and(|input| input["answers"].is_object())
        {
            judgement.decision = Decision::Ask;
        }
        // Last: hooks know nothing of images, so this question is not theirs to answer.
        if let Some(images) = &agent.site.images {
            judgement = images.judged(&call, &agent.site, judgement);
            if images.asks(&id) {
                return self
                    .put(agent, wanted, &judgement, host)
                    .map_or(Carried::On, Carried::Next);
            }
        }
        // A hook that wants a person is not answered by another hook where there is none.
        let wants_person = matches!(&verdict.permission, Some((Permission::Ask, _)))
            && judgement.decision == Decision::Ask
            && self.about.audience != Audience::Person;
        if wants_person {
            return self.put(agent, wanted, &judgement, host).map_or(Carried::On, Carried::Next);
        }
        match judgement.decision {
            Decision::Allow if verdict.input.is_some() => decided(Ruling::Change(wanted.input)),
            Decision::Allow => decided(Ruling::Allow),
            Decision::Ask => {
                let mut more = json!({
                    "tool_name": call.name, "tool_input": agent.input_of(&call),
                });
                let suggestions = suggestions(agent, &call, &judgement);
                if !suggestions.is_empty() {
                    more["permission_suggestions"] = suggestions.into();
                }
                let then = Then::Permission(wanted.clone(), judgement.clone());
                match self.hook(agent, ("PermissionRequest", &call.name), more, then, host) {
                    Ok(()) => Carried::On,
                    Err(_) => {
                        self.put(agent, wanted, &judgement, host).map_or(Carried::On, Carried::Next)
                    }
                }
            }
            Decision::Deny => {
                let trouble = Permit::refusal(&call, &judgement);
                deny(agent, &call, &judgement, host);
                decided(Ruling::Deny(agent.cleaned(trouble)))
            }
        }
    }

    /// Puts a call to whoever can be asked; nobody is a refusal.
    pub(super) fn put(
        &mut self,
        agent: &mut Agent,
        wanted: Wanted,
        judgement: &rules::Judgement,
        host: &mut dyn Host,
    ) -> Option<Input> {
        let call = call(&wanted);
        if self.may_ask(&agent.id)
            && self.ask_host(agent, &call, judgement, Open::Call(wanted), host)
        {
            return None;
        }
        let trouble = Permit::refusal(&call, judgement);
        deny(agent, &call, judgement, host);
        Some(Input::Decided(call.id, Ruling::Deny(agent.cleaned(trouble))))
    }

    /// What rules and mode say about a call.
    fn judgement(&self, agent: &Agent, call: &Call) -> rules::Judgement {
        let mode = self.mode_of(agent);
        if mode == self.permit.mode {
            return self.permit.judge(call, &agent.site);
        }
        Permit { mode, ..self.permit.clone() }.judge(call, &agent.site)
    }

    fn valid(&self, agent: &Agent, call: &Call) -> Result<(), Trouble> {
        let tool = agent.site.tools.find(&call.name).filter(|_| self.permit.offers(&call.name));
        tool.ok_or_else(|| tool::unknown(&call.name))?.check(call)
    }

    /// Whether a call fits the mode: there is no plan to approve outside of plan mode.
    fn timely(&self, agent: &Agent, call: &Call) -> Result<(), Trouble> {
        let is_late = question(agent, call) == AskedWhat::Plan && self.mode_of(agent) != Mode::Plan;
        if is_late { Err(tool::not_planning()) } else { Ok(()) }
    }

    /// Asks whoever can be asked. Returns whether anybody is.
    fn ask_host(
        &mut self,
        agent: &Agent,
        call: &Call,
        judgement: &rules::Judgement,
        open: Open,
        host: &mut dyn Host,
    ) -> bool {
        let tool = agent.site.tools.find(&call.name);
        let access = tool.map(|tool| tool.access(call, &agent.site)).unwrap_or_default();
        let path = access.writes.first().or(access.reads.first());
        let what = match open {
            Open::Outside(..) => AskedWhat::Outside,
            Open::Call(_) => question(agent, call),
        };
        let asked = Asked {
            agent: agent.id.clone(),
            request: self.nature.id(),
            call: call.id.clone(),
            tool: call.name.clone(),
            input: agent.input_of(call),
            why: judgement.why.clone(),
            parts: judgement.parts.iter().map(|part| agent.cleaned_part(part)).collect(),
            path: path.map(|path| path.display().to_string()),
            rule: (what == AskedWhat::Call).then(|| suggestion(&call.name, &access, judgement)),
            what,
            preview: tool
                .filter(|_| self.about.audience == Audience::Person)
                .and_then(|tool| tool.preview(call, &agent.site))
                .map(|preview| preview.map_err(|trouble| trouble.text)),
        };
        let is_asked = host.ask(&asked);
        if is_asked {
            if self.about.audience == Audience::Person {
                let unanswered = Report::Unanswered(asked.request.clone());
                self.alarms.set(UNANSWERED, agent.id.clone(), unanswered);
            }
            self.questions.open.insert(asked.request, (agent.id.clone(), open));
        }
        is_asked
    }

    /// A person has not answered for a while: hooks may fetch them.
    pub(super) fn notify_of(&mut self, id: &AgentId, request: &str, host: &mut dyn Host) {
        let Some((_, Open::Call(wanted) | Open::Outside(wanted, _))) =
            self.questions.open.get(request)
        else {
            return;
        };
        let kind = "permission_prompt";
        let message = format!("Quipu needs your permission to use {}", wanted.name);
        let more = json!({"message": message, "notification_type": kind});
        let Some(agent) = self.agents.remove(id) else { return };
        let _ = self.hook(&agent, ("Notification", kind), more, Then::Nothing, host);
        self.agents.insert(id.clone(), agent);
    }

    /// Takes an answer of whoever was asked, as a line of the control protocol.
    pub(super) fn replied(&mut self, line: &Value, host: &mut dyn Host) {
        if let Some(id) = line["response"]["request_id"].as_str() {
            self.decided(id, control::reply(&line["response"]), host);
        }
    }

    /// Takes an answer of whoever was asked.
    pub(super) fn decided(&mut self, request: &str, reply: Reply, host: &mut dyn Host) {
        let Some((id, open)) = self.questions.open.remove(request) else { return };
        let Some(mut agent) = self.agents.remove(&id) else { return };
        let input = match open {
            Open::Call(wanted) => Some(self.ruled(&mut agent, wanted, reply, host)),
            Open::Outside(mut wanted, answer) => match reply {
                Reply::Allow { input, updates } => {
                    let consent = self.consented(&mut agent, &mut wanted, (input, &updates), host);
                    if consent.is_ok() {
                        let outside = &agent.site.outside;
                        let mut outside = outside.lock().unwrap_or_else(PoisonError::into_inner);
                        outside.insert(wanted.id.clone());
                        drop(outside);
                        self.spawn(&agent, &wanted);
                    }
                    consent.err().map(|refused| Input::Answered(wanted.id, refused))
                }
                Reply::Deny { .. } => Some(Input::Answered(wanted.id, answer)),
            },
        };
        self.agents.insert(id.clone(), agent);
        self.pending.extend(input.map(|input| (id, input)));
    }

    pub(super) fn ruled(
        &mut self,
        agent: &mut Agent,
        mut wanted: Wanted,
        reply: Reply,
        host: &mut dyn Host,
    ) -> Input {
        let id = wanted.id.clone();
        let ruling = match reply {
            Reply::Deny { message, is_interrupt } => {
                agent.count_denial(&call(&wanted));
                let answer = agent.cleaned(Trouble::failed(message));
                if is_interrupt { Ruling::Interrupt(answer) } else { Ruling::Deny(answer) }
            }
            Reply::Allow { input, updates } => {
                if let Err(refused) = self.consented(agent, &mut wanted, (input, &updates), host) {
                    Ruling::Deny(refused)
                } else {
                    self.questions.approved.insert((agent.id.clone(), id.clone()));
                    // A hook may have changed it before: the turn does not know this input.
                    Ruling::Change(wanted.input)
                }
            }
        };
        Input::Decided(id, ruling)
    }

    /// Takes the consent of whoever was asked, to the call as they want it to be; or says why it
    /// does not run all the same.
    fn consented(
        &mut self,
        agent: &mut Agent,
        wanted: &mut Wanted,
        (input, updates): (Option<Value>, &[Value]),
        host: &mut dyn Host,
    ) -> Result<(), Answer> {
        for update in updates {
            self.update(agent, update, host);
        }
        let changed = input.filter(|input| *input != Value::Object(call(wanted).input));
        if let Some(changed) = changed {
            agent.replace(wanted, &changed);
        }
        let call = call(wanted);
        self.valid(agent, &call).map_err(|trouble| agent.cleaned(trouble))?;
        match self.denied(agent, &call) {
            None => Ok(()),
            Some(judgement) => {
                deny(agent, &call, &judgement, host);
                Err(agent.cleaned(Permit::refusal(&call, &judgement)))
            }
        }
    }

    /// Why a call does not run even if somebody consents: a rule denies it, or nothing is changed
    /// in this mode.
    fn denied(&self, agent: &Agent, call: &Call) -> Option<rules::Judgement> {
        let is_fixed = self.mode_of(agent) == Mode::Plan;
        let judgement = self.judgement(agent, call);
        let is_denied = judgement.decision == Decision::Deny;
        (is_denied && (is_fixed || judgement.rule.is_some())).then_some(judgement)
    }

    /// Does what a host wants to be different from now on.
    fn update(&mut self, agent: &mut Agent, update: &Value, host: &mut dyn Host) {
        let done = match control::updated(update, self.permit.bypass) {
            None => Err(format!("a change of permissions is not understood: {update}")),
            Some(Update::Mode(mode)) => {
                // A tool may switch the mode, too; the host's wish wins.
                *agent.site.next_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
                self.set_mode(mode, host);
                agent.switch(self.mode_of(agent));
                Ok(())
            }
            Some(Update::Rules { change, kind, rules, destination }) => {
                self.change_rules((change, kind), &rules, &destination)
            }
            Some(Update::Folders { change, folders, destination }) => {
                self.change_folders(change, &folders, &destination)
            }
        };
        if let Err(why) = done {
            host.event(&AgentId::Main, &Event::Notice(why));
        }
    }

    /// Changes the rules of a source, for the session and in its file. Rules of other sources stay:
    /// no answer takes away what an administrator, or another file, forbids.
    fn change_rules(
        &mut self,
        (change, kind): (Change, Kind),
        rules: &[String],
        destination: &str,
    ) -> Result<(), String> {
        let file = self.site.permission_files.iter().find(|file| file.destination == destination);
        let source = file.map_or("the host".to_owned(), |file| file.path.display().to_string());
        let root = file.map_or(&self.site.root, |file| &file.root);
        let parse = |text: &String| {
            Rule::parse(text, kind, &source, root.clone())
                .map_err(|why| format!("the rule `{text}` is not understood: {why}"))
        };
        let parsed: Vec<Rule> = rules.iter().map(parse).collect::<Result<_, _>>()?;
        let book = &mut self.permit.book.rules;
        book.retain(|rule| {
            let is_meant = change == Change::Replace || rules.contains(&rule.text());
            rule.kind != kind || rule.source != source || !is_meant
        });
        if change != Change::Remove {
            book.extend(parsed);
        }
        let Some(file) = file else { return held_by_session(destination) };
        file.write(list_of(kind), change, rules)?;
        self.site.shells.admit(std::slice::from_ref(&file.path));
        Ok(())
    }

    /// Adds folders to the session, or takes those away that were added.
    fn change_folders(
        &mut self,
        change: Change,
        folders: &[String],
        destination: &str,
    ) -> Result<(), String> {
        let mut added = self.site.added.lock().unwrap_or_else(PoisonError::into_inner);
        for name in folders {
            // Its real path: a link may lead elsewhere later.
            let folder = real(&self.site.root.join(name));
            if change == Change::Remove {
                added.retain(|known| *known != folder);
                continue;
            }
            if !folder.is_dir() {
                return Err(format!("`{name}` is not a folder"));
            }
            let hidden = self.site.guard.as_ref().map(|guard| guard.hidden.as_slice());
            let home = self.site.home.as_deref();
            let one = std::slice::from_ref(&folder);
            if hidden.and_then(|hidden| guard::too_wide(one, home, hidden)).is_some() {
                return Err(format!("`{name}` cannot be sandboxed, and was not added"));
            }
            if !added.contains(&folder) {
                added.push(folder);
            }
        }
        let now = added.clone();
        drop(added);
        if let Some(images) = &self.site.images {
            images.cover(now.into_iter());
        }
        let file = self.site.permission_files.iter().find(|file| file.destination == destination);
        let Some(file) = file else { return held_by_session(destination) };
        file.write(FOLDERS, change, folders)?;
        self.site.shells.admit(std::slice::from_ref(&file.path));
        Ok(())
    }

    /// Switches to another mode.
    pub(super) fn set_mode(&mut self, mode: Mode, host: &mut dyn Host) {
        if mode == Mode::Plan && self.permit.mode != Mode::Plan {
            let ended = self.site.shells.kill_all();
            if !ended.is_empty() {
                let names = ended.join("`, `");
                let text = format!("plan mode ends the commands that still ran: `{names}`");
                host.event(&AgentId::Main, &Event::Notice(text));
            }
        }
        self.permit.mode = mode;
        for agent in self.agents.values_mut() {
            agent.switch(nested::mode_within(mode, self.nested.get(&agent.id)));
        }
        host.event(&AgentId::Main, &Event::Mode(mode));
    }

    /// Starts a call that may run.
    pub(super) fn start(
        &mut self,
        agent: &mut Agent,
        wanted: &Wanted,
        host: &mut dyn Host,
    ) -> Carried {
        let call = call(wanted);
        let input = agent.input_of(&call);
        let tool = call.name.clone();
        host.event(&agent.id, &Event::ToolStarted { call: call.id.clone(), tool, input });
        agent.began.insert(call.id.clone(), self.nature.elapsed());
        // An earlier call may have changed the folder, a link, or the mode since this one was
        // judged.
        let is_approved = self.questions.approved.remove(&(agent.id.clone(), wanted.id.clone()));
        let refused = if is_approved {
            self.denied(agent, &call)
        } else {
            Some(self.judgement(agent, &call)).filter(|it| it.decision != Decision::Allow)
        };
        if let Some(judgement) = refused {
            let answer = agent.cleaned(Permit::refusal(&call, &judgement));
            return Carried::Next(Input::Answered(wanted.id.clone(), answer));
        }
        if is_approved && let Some(images) = &agent.site.images {
            images.allowed(&wanted.id);
        }
        if agent.site.tools.find(&call.name).is_some_and(|tool| tool.starts_agent()) {
            return self.start_agent(agent, wanted, host);
        }
        self.spawn(agent, wanted);
        Carried::On
    }

    fn spawn(&mut self, agent: &Agent, wanted: &Wanted) {
        let mut call = call(wanted);
        if let Some((_, cancel)) = agent.calls.get(&wanted.id) {
            call.cancel = cancel.clone();
        }
        let (site, notes, id) = (agent.site.clone(), self.notes.clone(), agent.id.clone());
        thread::spawn(move || {
            let answer = tool::run(&call, &site);
            let _ = notes.send(Note::From(id, Report::Answered(call.id, answer)));
        });
    }

    /// Takes the result of a call. A command that the sandbox may have made fail is offered again.
    pub(super) fn answered(
        &mut self,
        id: &AgentId,
        call_id: String,
        answer: Answer,
        host: &mut dyn Host,
    ) {
        let Some(agent) = self.agents.remove(id) else { return };
        let next = agent.site.next_mode.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_hampered =
            agent.site.hampered.lock().unwrap_or_else(PoisonError::into_inner).remove(&call_id);
        let wanted = agent.calls.get(&call_id).map(|(wanted, _)| wanted.clone());
        let is_done = answer.is_error != Some(true);
        let loaded = wanted.as_ref().filter(|_| is_done).map(call);
        let loaded = loaded.and_then(|call| self.slashes.loaded_by(&call)).cloned();
        let mut answer = Some(answer);
        if let Some(whole) = answer.take_if(|_| is_hampered) {
            let may_leave = agent.site.guard.as_ref().is_some_and(|guard| guard.may_leave);
            let mut is_asked = false;
            if let Some(wanted) = wanted.filter(|_| may_leave && self.mode_of(&agent) != Mode::Plan)
            {
                let judgement = rules::Judgement {
                    decision: Decision::Ask,
                    rule: None,
                    source: None,
                    why: "the sandbox may have made it fail: run it outside?".to_owned(),
                    parts: Vec::new(),
                };
                let call = call(&wanted);
                let open = Open::Outside(wanted, whole.clone());
                is_asked = self.ask_host(&agent, &call, &judgement, open, host);
            }
            answer = (!is_asked).then(|| hinted(whole, may_leave));
        }
        let input = answer.and_then(|answer| self.after_call(&agent, call_id, answer, host));
        if let Some(slash) = loaded {
            self.restrict(&slash);
        }
        self.agents.insert(id.clone(), agent);
        if let Some(mode) = next {
            // The result of the call says that plan mode is over.
            if let Some(agent) = self.agents.get_mut(id) {
                agent.is_planning = false;
            }
            if mode != self.permit.mode {
                self.set_mode(mode, host);
            }
        }
        self.pending.extend(input.map(|input| (id.clone(), input)));
    }

    /// Runs the hooks for the result of a call. Returns the result if there are none.
    fn after_call(
        &mut self,
        agent: &Agent,
        id: String,
        answer: Answer,
        host: &mut dyn Host,
    ) -> Option<Input> {
        let Some((wanted, _)) = agent.calls.get(&id) else {
            return Some(Input::Answered(id, answer));
        };
        let of_call = call(wanted);
        let name = of_call.name.clone();
        let mut more = json!({
            "tool_name": name, "tool_input": agent.input_of(&of_call), "tool_use_id": id,
        });
        if let Some(began) = agent.began.get(&id) {
            more["duration_ms"] = (self.nature.elapsed() - began).into();
        }
        let event = if answer.is_error == Some(true) {
            let text = match &answer.content {
                tool::Content::Text(text) => text.clone(),
                tool::Content::Blocks(_) => String::new(),
            };
            more["error"] = text.into();
            more["is_interrupt"] = false.into();
            "PostToolUseFailure"
        } else {
            more["tool_response"] = serde_json::from_str(answer.detail.get()).unwrap_or_default();
            "PostToolUse"
        };
        match self.hook(agent, (event, &name), more, Then::Result(id, answer), host) {
            Err(Then::Result(id, answer)) => Some(Input::Answered(id, answer)),
            _ => None,
        }
    }
}

impl Agent {
    /// Its tools work in this mode from now on, and its records say so.
    fn switch(&mut self, mode: Mode) {
        *self.site.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.recorder.set_mode(mode.name());
    }

    /// What a model that can be switched to plan mode is told about it with the next prompt.
    pub(super) fn news_of_mode(&mut self) -> Option<String> {
        let is_planning =
            *self.site.mode.lock().unwrap_or_else(PoisonError::into_inner) == Mode::Plan;
        let tools = &self.site.tools;
        // Elsewhere the mode stays what it was when the tools were offered.
        let can_switch = tools
            .iter()
            .any(|tool| tool.question() == AskedWhat::Plan && tool.is_offered(Mode::Default));
        if !can_switch || std::mem::replace(&mut self.is_planning, is_planning) == is_planning {
            return None;
        }
        Some(context::tagged(if is_planning { PLANNING } else { NOT_PLANNING }))
    }
}

/// What the model is told when plan mode begins.
const PLANNING: &str = "Plan mode is on: look at whatever you need, and change nothing. When you know what to do, call ExitPlanMode with the plan; the user approves it or says what is to be different.";
/// And when the user has ended it.
const NOT_PLANNING: &str = "Plan mode is off: you may change things again.";

/// The rules that would allow a call, as changes of permissions.
fn suggestions(agent: &Agent, call: &Call, judgement: &rules::Judgement) -> Vec<Value> {
    // A rule that asks wins over one that allows, and questions of the model's need no rule.
    if judgement.rule.is_some() || question(agent, call) != AskedWhat::Call {
        return Vec::new();
    }
    let access = agent.site.tools.find(&call.name).map(|tool| tool.access(call, &agent.site));
    vec![control::suggested(&suggestion(&call.name, &access.unwrap_or_default(), judgement))]
}

/// Counts and tells that a call does not run.
fn deny(agent: &mut Agent, call: &Call, judgement: &rules::Judgement, host: &mut dyn Host) {
    agent.count_denial(call);
    let access = agent.site.tools.find(&call.name).map(|tool| tool.access(call, &agent.site));
    let rule = suggestion(&call.name, &access.unwrap_or_default(), judgement);
    // A rule that asks wins over one that allows. In a mode that does not ask, what would be a
    // question is refused already.
    let mode = *agent.site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    let is_question = judgement.decision == Decision::Ask || mode == Mode::DontAsk;
    let is_open = is_question && judgement.rule.is_none();
    let (tool, why) = (call.name.clone(), judgement.why.clone());
    host.event(&agent.id, &Event::Denied { tool, why, rule: is_open.then_some(rule) });
}

/// Whether it is enough that something holds for the session.
fn held_by_session(destination: &str) -> Result<(), String> {
    match destination {
        "session" | "cliArg" => Ok(()),
        other => {
            Err(format!("`{other}` cannot be written here: the change holds for this session"))
        }
    }
}

/// The result, with the reason for which the command may have failed.
fn hinted(mut answer: Answer, may_leave: bool) -> Answer {
    let end =
        if may_leave { "nobody can be asked to run it outside" } else { "it does not run outside" };
    if let tool::Content::Text(text) = &mut answer.content {
        let more = format!("\n[sandbox] The sandbox may have made this fail, and {end}.");
        text.push_str(&more);
    }
    answer
}
