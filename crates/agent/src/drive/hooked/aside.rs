//! Hooks that nothing waits for (`async`, `asyncRewake`), whose words come once they end, and those
//! for the end of the session.
//!
//! Invariants: such a hook decides nothing; at most it wakes the model; once there are no more
//! prompts, hooks do that a bounded number of times.

use std::collections::BTreeMap;
use std::thread;

use serde_json::json;

use super::outcome::{ended, quiet, tell, woken};
use super::{Agent, Driver};
use crate::drive::{Departure, MOST_STOPS, Note, Report, Said};
use crate::event::{AgentId, Event};
use crate::hook::run::{self, Ran, Start};
use crate::hook::{Action, Hook, Verdict};
use crate::host::{Audience, Host};
use crate::tool::Cancel;
use crate::turn::Input;

/// The hooks that run aside, by number.
#[derive(Debug, Default)]
pub(super) struct Asides {
    all: BTreeMap<u64, Aside>,
    /// How often hooks have woken the model after the last prompt.
    late: u32,
}

#[derive(Debug)]
struct Aside {
    event: &'static str,
    name: String,
    /// The name of its process.
    process: String,
}

impl Asides {
    pub(super) fn has_any(&self) -> bool {
        !self.all.is_empty()
    }

    pub(super) fn processes(&self) -> Vec<String> {
        self.all.values().map(|aside| aside.process.clone()).collect()
    }
}

impl Driver {
    /// Starts a hook that nothing waits for.
    pub(super) fn run_aside(
        &mut self,
        agent: &Agent,
        (event, name): (&'static str, &str),
        (id, hook): (String, Hook),
        start: Start,
    ) {
        let number = self.runs.next;
        self.runs.next += 1;
        let aside = Aside { event, name: name.to_owned(), process: run::process(&id) };
        self.runs.aside.all.insert(number, aside);
        let (notes, of, site) = (self.notes.clone(), agent.id.clone(), agent.site.clone());
        thread::spawn(move || {
            let ran = run::aside(&id, &hook, &start, &site);
            let done = Box::new((hook, ran));
            let _ = notes.send(Note::From(of, Report::Aside(number, done)));
        });
    }

    /// Takes what such a hook did.
    pub(in crate::drive) fn aside_ended(
        &mut self,
        id: &AgentId,
        number: u64,
        (hook, ran): (Hook, Ran),
        host: &mut dyn Host,
    ) {
        let Some(Aside { event, name, .. }) = self.runs.aside.all.remove(&number) else { return };
        host.event(id, &ended((event, &name), &ran));
        if event == "SessionStart"
            && let Some(main) = self.agents.get_mut(&AgentId::Main)
            && let Err(error) = main.recorder.hook(event, &name, hook.action.name())
        {
            self.pending.push_back((AgentId::Main, Input::Unwritable(error.to_string())));
        }
        if ran.code == Some(0) {
            self.hooks.succeeded(&hook);
        }
        if hook.wakes && ran.code == Some(2) {
            return self.wake(&name, &ran, host);
        }
        let verdict = Verdict::of(event, &[(hook, ran)]);
        tell(id, &name, &verdict, host);
        // Whom it was about may have ended.
        let to = if self.agents.contains_key(id) { id.clone() } else { AgentId::Main };
        self.remark(&to, quiet(&name, &verdict));
    }

    /// Has the model learn at once what a hook has to say.
    fn wake(&mut self, name: &str, ran: &Ran, host: &mut dyn Host) {
        self.runs.aside.late += u32::from(self.is_closed);
        if self.runs.aside.late > MOST_STOPS {
            let text = format!("a {name} hook wakes the model again and again; it sleeps on");
            return host.event(&AgentId::Main, &Event::Notice(text));
        }
        self.say(Said::notice(&woken(name, ran)), host);
    }

    /// Runs the hooks for the end of the session, and waits for all of them.
    pub(in crate::drive) fn session_ends(&mut self, host: &mut dyn Host) {
        let Some(main) = self.agents.remove(&AgentId::Main) else { return };
        let mut left = self.runs.aside.processes();
        if self.is_begun {
            let departure = match self.about.audience {
                Audience::Person if self.end.is_none() => Some(Departure::Exit),
                _ => self.departure,
            };
            let reason = departure.map_or("other", Departure::name);
            let hooks = self.hooks.of("SessionEnd", reason, |_| true);
            let commands =
                hooks.into_iter().filter(|hook| matches!(hook.action, Action::Command(_)));
            let nature = self.nature.clone();
            let commands: Vec<_> = commands.map(|hook| (nature.id(), hook)).collect();
            if !commands.is_empty() {
                let input = self.hook_input(&main, "SessionEnd", json!({"reason": reason}));
                let start = Start {
                    input: input.to_string(),
                    variables: self.hook_variables(&main),
                    cancel: Cancel::default(),
                };
                let name = format!("SessionEnd:{reason}");
                for (id, _) in &commands {
                    let started = Event::HookStarted {
                        id: id.clone(),
                        event: "SessionEnd".into(),
                        name: name.clone(),
                    };
                    host.event(&main.id, &started);
                }
                let aside = commands.iter().filter(|(_, hook)| hook.is_async);
                left.extend(aside.map(|(id, _)| run::process(id)));
                let ran = run::commands(&commands, &start, &main.site);
                for (_, ran) in &ran {
                    host.event(&main.id, &ended(("SessionEnd", &name), ran));
                }
                for text in Verdict::of("SessionEnd", &ran).failures {
                    host.event(&main.id, &Event::Notice(text));
                }
            }
        }
        run::settle(&left, &main.site);
        self.agents.insert(AgentId::Main, main);
    }
}
