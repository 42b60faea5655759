//! Whether calls may run: rules, then whoever can be asked.
//!
//! Invariants: the input that runs is the one that was judged, also if somebody changed it; an
//! answer to a question that was withdrawn is ignored; what nobody can be asked is refused.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::thread;

use rules::Decision;
use serde_json::{Map, Value, json};

use super::{Carried, Driver};
use crate::control::{self, Reply};
use crate::drive::Event;
use crate::host::{Asked, Host};
use crate::permit::{Mode, Permit, suggestion};
use crate::tool::{self, Answer, Call, Cancel, Trouble};
use crate::turn::{Input, Ruling, Wanted};

/// Questions that wait for an answer, by the ids of the requests.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<String, Open>,
    /// The calls that somebody has allowed, until they run.
    approved: HashSet<String>,
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
    /// Forgets all questions. Returns their ids.
    pub(super) fn withdraw(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open).into_keys().collect()
    }
}

fn call(wanted: &Wanted) -> Call {
    let input: Map<String, Value> = serde_json::from_str(&wanted.input).unwrap_or_default();
    Call { id: wanted.id.clone(), name: wanted.name.clone(), input, cancel: Cancel::default() }
}

impl Driver {
    /// Decides about a call, or asks somebody.
    pub(super) fn decide(&mut self, wanted: &Wanted, face: &mut dyn Host) -> Carried {
        let id = wanted.id.clone();
        let decided = |ruling| Carried::Next(Input::Decided(id.clone(), ruling));
        let call = call(wanted);
        self.calls.insert(id.clone(), (wanted.clone(), call.cancel.clone()));
        // An invalid call needs no permission.
        if let Err(trouble) = self.valid(&call) {
            return decided(Ruling::Deny(self.cleaned(trouble)));
        }
        let judgement = self.permit.judge(&call, &self.site);
        match judgement.decision {
            Decision::Allow => decided(Ruling::Allow),
            Decision::Ask if self.ask_host(&call, &judgement, Open::Call(wanted.clone()), face) => {
                Carried::On
            }
            _ => {
                let trouble = Permit::refusal(&call, &judgement);
                self.deny(&call, &judgement, face);
                decided(Ruling::Deny(self.cleaned(trouble)))
            }
        }
    }

    fn valid(&self, call: &Call) -> Result<(), Trouble> {
        let tool = self.site.tools.find(&call.name).filter(|_| self.permit.offers(&call.name));
        tool::checked(call, tool.ok_or_else(|| tool::unknown(&call.name))?.spec())
    }

    fn cleaned(&self, trouble: Trouble) -> Answer {
        let mut answer = trouble.answer();
        self.site.secrets.clean(&mut answer);
        answer
    }

    fn input_of(&self, call: &Call) -> Value {
        let mut input = Value::Object(call.input.clone());
        self.site.secrets.clean_value(&mut input);
        input
    }

    /// Counts and tells that a call does not run.
    fn deny(&mut self, call: &Call, judgement: &rules::Judgement, face: &mut dyn Host) {
        let input = self.input_of(call);
        self.count.denials.push(json!({
            "tool_name": call.name, "tool_use_id": call.id, "tool_input": input,
        }));
        let access = self.site.tools.find(&call.name).map(|tool| tool.access(call, &self.site));
        let rule = suggestion(&call.name, &access.unwrap_or_default(), judgement);
        // A rule that asks wins over one that allows.
        let is_open = judgement.decision == Decision::Ask && judgement.rule.is_none();
        face.denied(&call.name, &judgement.why, is_open.then_some(rule.as_str()));
    }

    /// Asks whoever can be asked. Returns whether anybody is.
    fn ask_host(
        &mut self,
        call: &Call,
        judgement: &rules::Judgement,
        open: Open,
        face: &mut dyn Host,
    ) -> bool {
        let access = self.site.tools.find(&call.name).map(|tool| tool.access(call, &self.site));
        let access = access.unwrap_or_default();
        let path = access.writes.first().or(access.reads.first());
        let is_outside = matches!(open, Open::Outside(..));
        let asked = Asked {
            request: self.nature.id(),
            call: call.id.clone(),
            tool: call.name.clone(),
            input: self.input_of(call),
            why: judgement.why.clone(),
            path: path.map(|path| path.display().to_string()),
            rule: (!is_outside).then(|| suggestion(&call.name, &access, judgement)),
            is_outside,
        };
        let is_asked = face.ask(&asked);
        if is_asked {
            self.questions.open.insert(asked.request, open);
        }
        is_asked
    }

    /// Takes an answer of whoever was asked.
    pub(super) fn replied(&mut self, line: &Value, face: &mut dyn Host) -> Option<Input> {
        let id = line["response"]["request_id"].as_str()?;
        let open = self.questions.open.remove(id)?;
        let reply = control::reply(&line["response"]);
        match open {
            Open::Call(wanted) => Some(self.ruled(wanted, reply, face)),
            Open::Outside(wanted, answer) => match reply {
                Reply::Allow { .. } => {
                    let id = wanted.id.clone();
                    self.site.outside.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
                    self.spawn(&wanted);
                    None
                }
                Reply::Deny { .. } => Some(Input::Answered(wanted.id, answer)),
            },
        }
    }

    fn ruled(&mut self, mut wanted: Wanted, reply: Reply, face: &mut dyn Host) -> Input {
        let id = wanted.id.clone();
        let ruling = match reply {
            Reply::Deny { message, is_interrupt } => {
                let call = call(&wanted);
                let input = self.input_of(&call);
                self.count.denials.push(json!({
                    "tool_name": call.name, "tool_use_id": call.id, "tool_input": input,
                }));
                let answer = self.cleaned(Trouble::failed(message));
                if is_interrupt { Ruling::Interrupt(answer) } else { Ruling::Deny(answer) }
            }
            Reply::Allow { input, updates } => {
                for update in &updates {
                    self.update(update, face);
                }
                self.questions.approved.insert(id.clone());
                let changed = input.filter(|input| *input != Value::Object(call(&wanted).input));
                let Some(changed) = changed else { return Input::Decided(id, Ruling::Allow) };
                wanted.input = changed.to_string();
                let call = call(&wanted);
                // What was changed is another call: rules that deny hold for it, too.
                let judgement = self.permit.judge(&call, &self.site);
                match self.valid(&call) {
                    Err(trouble) => Ruling::Deny(self.cleaned(trouble)),
                    Ok(()) if judgement.decision == Decision::Deny => {
                        self.deny(&call, &judgement, face);
                        Ruling::Deny(self.cleaned(Permit::refusal(&call, &judgement)))
                    }
                    Ok(()) => Ruling::Change(wanted.input),
                }
            }
        };
        Input::Decided(id, ruling)
    }

    /// Does what a host wants to be different from now on.
    fn update(&mut self, update: &Value, face: &mut dyn Host) {
        let Some(done) = control::updated(update, &self.site.root, self.permit.bypass) else {
            return;
        };
        match done {
            control::Update::Mode(mode) => {
                // A tool may switch the mode, too; the host's wish wins.
                *self.site.next_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
                self.set_mode(mode, face);
            }
            control::Update::Rules { add, remove } => {
                let rules = &mut self.permit.book.rules;
                rules.retain(|rule| !remove.contains(&rule.text()) || add.contains(rule));
                rules.extend(add);
            }
        }
    }

    /// Switches to another mode.
    pub(super) fn set_mode(&mut self, mode: Mode, face: &mut dyn Host) {
        if mode == Mode::Plan && self.permit.mode != Mode::Plan {
            let ended = self.site.shells.kill_all();
            if !ended.is_empty() {
                let names = ended.join("`, `");
                face.notice(&format!("plan mode ends the commands that still ran: `{names}`"));
            }
        }
        self.permit.mode = mode;
        *self.site.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.recorder.set_mode(mode.name());
    }

    /// Starts a call that may run.
    pub(super) fn start(&mut self, wanted: Wanted) -> Carried {
        let call = call(&wanted);
        // An earlier call may have changed the folder, or a link, since this one was judged.
        if !self.questions.approved.remove(&wanted.id) {
            let judgement = self.permit.judge(&call, &self.site);
            if judgement.decision != Decision::Allow {
                let answer = self.cleaned(Permit::refusal(&call, &judgement));
                return Carried::Next(Input::Answered(wanted.id, answer));
            }
        }
        self.spawn(&wanted);
        Carried::On
    }

    fn spawn(&mut self, wanted: &Wanted) {
        let mut call = call(wanted);
        if let Some((_, cancel)) = self.calls.get(&wanted.id) {
            call.cancel = cancel.clone();
        }
        let (site, notes) = (self.site.clone(), self.notes.clone());
        thread::spawn(move || {
            let answer = tool::run(&call, &site);
            let _ = notes.send(Event::Answered(call.id, answer));
        });
    }

    /// Takes the result of a call. A command that the sandbox may have made fail is offered again.
    pub(super) fn answered(
        &mut self,
        id: String,
        answer: Answer,
        face: &mut dyn Host,
    ) -> Option<Input> {
        let next = self.site.next_mode.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mode) = next.filter(|mode| *mode != self.permit.mode) {
            self.set_mode(mode, face);
        }
        let is_hampered =
            self.site.hampered.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if !is_hampered {
            return Some(Input::Answered(id, answer));
        }
        let wanted = self.calls.get(&id).map(|(wanted, _)| wanted.clone());
        let may_leave = self.site.guard.as_ref().is_some_and(|guard| guard.may_leave);
        if let Some(wanted) = wanted.filter(|_| may_leave && self.permit.mode != Mode::Plan) {
            let judgement = rules::Judgement {
                decision: Decision::Ask,
                rule: None,
                source: None,
                why: "the sandbox may have made it fail: run it outside?".to_owned(),
                parts: Vec::new(),
            };
            let call = call(&wanted);
            if self.ask_host(&call, &judgement, Open::Outside(wanted, answer.clone()), face) {
                return None;
            }
        }
        Some(Input::Answered(id, hinted(answer, may_leave)))
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
