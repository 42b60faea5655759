//! Replaces a conversation by its summary, when the user wants it or before it is too long.
//!
//! Invariants: nothing leaves the transcript; what is sent afterwards is what a resume would send;
//! if the model cannot write a summary, one is made from the records, and the user learns it.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::thread;

use serde_json::json;

use super::hooked::Then;
use super::{Agent, Driver, Note, Report};
use crate::api::request::Request;
use crate::api::{ApiError, text};
use crate::compact;
use crate::event::{AgentId, Compacted, Event, Trigger};
use crate::hook::Verdict;
use crate::host::Host;
use crate::model::Usage;
use crate::turn::{Input, Outcome};

/// How often a summary is asked for.
const TRIES: u32 = 2;
/// How often one turn is summarised at most.
const MOST: u32 = 3;

/// A summary that is wanted.
#[derive(Debug)]
pub(super) struct Order {
    trigger: Trigger,
    instructions: String,
}

/// A summary, and what it took.
pub type Summarised = (Result<String, ApiError>, BTreeMap<String, Usage>);

impl Driver {
    /// Makes the next request, after a summary if the conversation is nearly too long.
    pub(super) fn compact_or_ask(&mut self, agent: &mut Agent, host: &mut dyn Host) {
        let used = agent.count.context(&agent.asking.model);
        let most = used.window.map(|window| compact::threshold(window, self.about.compact_percent));
        let is_full = most.is_some_and(|most| used.used > most);
        let may =
            self.about.compacts && agent.compactions < MOST && agent.turn.messages().len() > 2;
        if !is_full || !may {
            return self.ask(agent);
        }
        agent.compactions += 1;
        self.compact(agent, Order { trigger: Trigger::Auto, instructions: String::new() }, host);
    }

    /// The user wants a summary.
    pub(super) fn compact_now(&mut self, agent: &mut Agent, words: &str, host: &mut dyn Host) {
        if agent.turn.messages().is_empty() {
            self.outcome = Some(Outcome::Blocked("There is nothing to compact yet.".to_owned()));
            return;
        }
        agent.turn.answered = 0;
        let instructions = words.trim().to_owned();
        self.compact(agent, Order { trigger: Trigger::Manual, instructions }, host);
    }

    fn compact(&mut self, agent: &mut Agent, order: Order, host: &mut dyn Host) {
        let trigger = order.trigger.name();
        let more = json!({"trigger": trigger, "custom_instructions": order.instructions});
        if let Err(Then::Compact(order)) =
            self.hook(agent, ("PreCompact", trigger), more, Then::Compact(order), host)
        {
            self.summarise(agent, order, host);
        }
    }

    /// Goes on after the hooks.
    pub(super) fn compact_after(
        &mut self,
        agent: &mut Agent,
        order: Order,
        verdict: &Verdict,
        host: &mut dyn Host,
    ) {
        let Some(why) = verdict.refusal() else { return self.summarise(agent, order, host) };
        let text = format!("Compaction was blocked by a hook: {why}");
        match order.trigger {
            Trigger::Manual => self.outcome = Some(Outcome::Blocked(text)),
            Trigger::Auto => {
                host.event(&agent.id, &Event::Notice(text));
                self.ask(agent);
            }
        }
    }

    fn summarise(&mut self, agent: &mut Agent, order: Order, host: &mut dyn Host) {
        host.event(&agent.id, &Event::Compacting { trigger: order.trigger });
        let asking = &agent.asking;
        let messages = compact::request(agent.turn.messages(), &order.instructions);
        let request = Request {
            model: &asking.model,
            max_tokens: asking.max_tokens,
            thinking: asking.thinking,
            system: &asking.system,
            tools: &asking.tools,
            reminder: Some(&asking.reminder),
            messages: &messages,
            is_cached: asking.is_cached,
        };
        let (body, max_tokens) = (request.body(), asking.max_tokens);
        agent.order = Some(order);
        agent.number += 1;
        let (model, notes, id) = (self.model.clone(), self.notes.clone(), agent.id.clone());
        let number = agent.number;
        let wait = self.about.retry.wait(1, &ApiError::new(crate::api::Why::Cut, ""), 0.0);
        thread::spawn(move || {
            let mut spent = BTreeMap::new();
            let mut made = text::collect(&*model, body.clone(), max_tokens, &mut spent);
            for _ in 1..TRIES {
                if made.is_err() {
                    thread::sleep(wait.unwrap_or_default());
                    made = text::collect(&*model, body.clone(), max_tokens, &mut spent);
                }
            }
            let _ = notes.send(Note::From(id, Report::Summarised(number, (made, spent))));
        });
    }

    /// Takes a summary.
    pub(super) fn summarised(
        &mut self,
        id: &AgentId,
        (made, spent): Summarised,
        host: &mut dyn Host,
    ) {
        let Some(mut agent) = self.agents.remove(id) else { return };
        if let Some(order) = agent.order.take() {
            for (model, usage) in spent {
                agent.site.spend(&model, usage);
            }
            self.apply(&mut agent, &order, made, host);
        }
        self.agents.insert(id.clone(), agent);
    }

    fn apply(
        &mut self,
        agent: &mut Agent,
        order: &Order,
        made: Result<String, ApiError>,
        host: &mut dyn Host,
    ) {
        let is_main = agent.id == AgentId::Main;
        let file = if is_main {
            self.about.is_kept.then(|| self.about.transcript.clone())
        } else {
            self.agent_file(&agent.id)
        };
        let summary = match made {
            Ok(answer) => compact::extract(&answer),
            Err(error) => {
                let notice = format!(
                    "The model wrote no summary ({error}) so it was made from the records instead"
                );
                host.event(&agent.id, &Event::Notice(notice));
                let offline = file.as_deref().and_then(compact::offline);
                offline.unwrap_or_else(|| "(No summary could be made.)".to_owned())
            }
        };
        let before = agent.turn.messages().to_vec();
        let todos = agent.site.todos.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = compact::text(&summary, &before, &todos, file.as_deref());
        let text = agent.site.secrets.redacted(&text, crate::secret::Extent::Whole).into_owned();
        let used = agent.count.context(&agent.asking.model).used;
        let texts = match agent.recorder.compacted(order.trigger, used, &text, &order.instructions)
        {
            Ok(texts) => texts,
            Err(error) => {
                let input = Input::Unwritable(error.to_string());
                self.pending.push_back((agent.id.clone(), input));
                if order.trigger == Trigger::Manual {
                    self.outcome = Some(Outcome::Unwritable(error.to_string()));
                }
                return;
            }
        };
        agent.turn.begin_again(&texts);
        agent.count.last = Usage::default();
        let after = u64::try_from(text.len() / 4).unwrap_or_default();
        let lost = compact::lost(&before, agent.turn.messages());
        let words: Vec<String> =
            lost.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        host.event(
            &agent.id,
            &Event::Compacted(Compacted {
                trigger: order.trigger,
                before: used,
                after,
                summary: summary.clone(),
                lost,
            }),
        );
        let trigger = order.trigger.name();
        let more = json!({"trigger": trigger, "compact_summary": summary});
        let _ = self.hook(agent, ("PostCompact", trigger), more, Then::Nothing, host);
        let more = json!({"source": "compact", "model": agent.asking.model});
        let _ = self.hook(agent, ("SessionStart", "compact"), more, Then::Nothing, host);
        match order.trigger {
            Trigger::Auto => self.ask(agent),
            Trigger::Manual => {
                agent.count.text = format!(
                    "Compacted. Not sent any more: {}.",
                    if words.is_empty() { "nothing".into() } else { words.join(", ") }
                );
                self.outcome = Some(Outcome::Answered(None));
            }
        }
    }
}
