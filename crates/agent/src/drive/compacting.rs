//! Replaces a conversation by its summary, when the user wants it or before it is too long.
//!
//! Invariants: nothing leaves the transcript; what is sent afterwards is what a resume would send;
//! if the model cannot write a summary, one is made from the records, and the user learns it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use rules::Decision;
use serde_json::{Map, json};
use transcript::client::compaction::Receipt;

use super::hooked::Then;
use super::{Agent, Driver, Note, Report};
use crate::api::request::{Message, Request, text_block};
use crate::api::{ApiError, Why, text};
use crate::block::text_of;
use crate::compact::{self, Again, Extent};
use crate::event::{AgentId, Compacted, Event, Trigger};
use crate::hook::Verdict;
use crate::host::Host;
use crate::model::Usage;
use crate::permit::Permit;
use crate::tool::{self, Call, Cancel, Content, Site};
use crate::turn::{Entry, Input, Outcome};

/// How often the model may answer with something that is no summary.
const TRIES: u32 = 2;
/// How often one turn is summarised at most.
const MOST: u32 = 3;

/// A summary that is wanted.
#[derive(Debug)]
pub(super) struct Order {
    trigger: Trigger,
    instructions: String,
    /// The prompt from which on it is; None for the whole conversation.
    since: Option<String>,
    /// How often there was none.
    failures: u32,
}

impl Order {
    fn new(trigger: Trigger, instructions: &str) -> Order {
        Order { trigger, instructions: instructions.trim().to_owned(), since: None, failures: 0 }
    }
}

/// A summary, and what it took.
pub type Summarised = (Result<String, ApiError>, BTreeMap<String, Usage>);

impl Driver {
    /// Makes the next request, after a summary if the conversation is nearly too long.
    pub(super) fn compact_or_ask(&mut self, agent: &mut Agent, host: &mut dyn Host) {
        self.tell_loaded(agent, host);
        if is_complete(agent) {
            return self.pending.push_back((agent.id.clone(), Input::Complete));
        }
        if self.is_over_budget(agent) {
            return self.pending.push_back((agent.id.clone(), Input::OverBudget));
        }
        let used = agent.count.context(&agent.asking.model);
        let most = used.window.map(|window| compact::threshold(window, self.about.compact_at));
        let is_full = most.is_some_and(|most| used.used > most);
        if !is_full || !self.compact_by_itself(agent, host) {
            self.ask(agent);
        }
    }

    /// Has the conversation summarised before the next request. Returns whether that may be.
    fn compact_by_itself(&mut self, agent: &mut Agent, host: &mut dyn Host) -> bool {
        let may =
            self.about.compacts && agent.compactions < MOST && agent.turn.messages().len() > 2;
        if may {
            agent.compactions += 1;
            self.compact(agent, Order::new(Trigger::Auto, ""), host);
        }
        may
    }

    /// If a request failed because the conversation is too long, the next one is made after a
    /// summary. Returns whether there is one.
    pub(super) fn makes_room(
        &mut self,
        agent: &mut Agent,
        error: &ApiError,
        host: &mut dyn Host,
    ) -> bool {
        error.is_too_long() && self.compact_by_itself(agent, host)
    }

    /// The user wants a summary.
    pub(super) fn compact_now(&mut self, agent: &mut Agent, words: &str, host: &mut dyn Host) {
        self.compact_for_user(agent, Order::new(Trigger::Manual, words), host);
    }

    /// The user wants a summary of what follows a prompt.
    pub(super) fn compact_since(&mut self, agent: &mut Agent, since: String, host: &mut dyn Host) {
        if agent.turn.messages_since(&since).is_empty() {
            let text = format!("There is no prompt {since} in the conversation.");
            self.outcome = Some(Outcome::Blocked(text));
            return;
        }
        let order = Order { since: Some(since), ..Order::new(Trigger::Manual, "") };
        self.compact_for_user(agent, order, host);
    }

    fn compact_for_user(&mut self, agent: &mut Agent, order: Order, host: &mut dyn Host) {
        if agent.turn.messages().is_empty() {
            self.outcome = Some(Outcome::Blocked("There is nothing to compact yet.".to_owned()));
            return;
        }
        if agent.turn.has_deferred() {
            let text = "A call was put off; say something first.".to_owned();
            self.outcome = Some(Outcome::Blocked(text));
            return;
        }
        if self.is_over_budget(agent) {
            self.outcome = Some(Outcome::OverBudget);
            return;
        }
        agent.turn.answered = 0;
        self.compact(agent, order, host);
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
        let why = verdict.refusal().or_else(|| verdict.halt.clone());
        let Some(why) = why else { return self.summarise(agent, order, host) };
        let text = format!("Compaction was blocked by a hook: {why}");
        match order.trigger {
            Trigger::Manual => self.outcome = Some(Outcome::Blocked(text)),
            Trigger::Auto => {
                host.event(&agent.id, &Event::Notice(text));
                // It holds for the turn.
                agent.compactions = MOST;
                self.ask(agent);
            }
        }
    }

    fn summarise(&mut self, agent: &mut Agent, order: Order, host: &mut dyn Host) {
        host.event(&agent.id, &Event::Compacting { trigger: order.trigger });
        self.ask_for_summary(agent, order);
    }

    fn ask_for_summary(&mut self, agent: &mut Agent, order: Order) {
        let asking = &agent.asking;
        let all = agent.turn.waypoints();
        let since = order.since.as_ref().and_then(|id| all.iter().rfind(|one| one.id == *id));
        let words = match since {
            Some(since) => compact::order_since(&since.text),
            None => compact::order(&order.instructions),
        };
        let messages = compact::request(agent.turn.messages(), &words);
        let request = Request {
            model: &asking.model,
            max_tokens: asking.max_tokens,
            thinking: asking.thinking,
            effort: asking.effort.as_deref(),
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
        thread::spawn(move || {
            let mut spent = BTreeMap::new();
            let made = text::collect(&*model, body, max_tokens, &mut spent);
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
        for (model, usage) in spent {
            agent.site.spend(&model, usage);
        }
        if let Some(mut order) = agent.order.take() {
            order.failures += 1;
            let failures = order.failures;
            let wait = made.as_ref().err().and_then(|error| self.tries_again(failures, error));
            match (wait, made) {
                (Some(wait), Err(error)) => {
                    let most = self.about.retry.most;
                    host.event(id, &Event::Retry { error, failures, most, wait });
                    self.alarms.set(wait, id.clone(), Report::SummaryDue(agent.number));
                    agent.order = Some(order);
                }
                (_, made) => self.apply(&mut agent, &order, made, host),
            }
        }
        self.agents.insert(id.clone(), agent);
    }

    /// After how long a summary is asked for again; None if it is not.
    fn tries_again(&self, failures: u32, error: &ApiError) -> Option<Duration> {
        let is_useless = error.why == Why::Nonsense && failures >= TRIES;
        let wait = self.about.retry.wait(failures, error, self.nature.chance());
        wait.filter(|_| !is_useless)
    }

    /// Asks for a summary again.
    pub(super) fn summary_due(&mut self, id: &AgentId) {
        let Some(mut agent) = self.agents.remove(id) else { return };
        if let Some(order) = agent.order.take() {
            self.ask_for_summary(&mut agent, order);
        }
        self.agents.insert(id.clone(), agent);
    }

    /// What is there again after a summary.
    fn again(&self, agent: &Agent, before: &[Message]) -> Again {
        let todos = agent.site.todos.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let names = compact::files(before).into_iter();
        let files = names.filter_map(|name| {
            let text = contents(&name, &self.permit, &agent.site)?;
            Some((name, text))
        });
        let agents = self.nested.iter().filter(|(_, nested)| nested.is_background);
        let agents = agents.map(|(id, nested)| (id.to_string(), nested.description.clone()));
        let tasks = agent.site.shells.running().into_iter().chain(agents).collect();
        Again { todos, files: files.take(compact::FILES).collect(), tasks }
    }

    /// Puts a summary in the place of the conversation.
    fn replace_all(
        &self,
        agent: &mut Agent,
        order: &Order,
        summary: &str,
        file: Option<&Path>,
    ) -> io::Result<()> {
        let before = agent.turn.messages().to_vec();
        let again = self.again(agent, &before);
        let text = compact::text((Extent::All, summary), &before, &again, file);
        let text = agent.site.secrets.redacted(&text, crate::secret::Extent::Whole).into_owned();
        let context = agent.count.context(&agent.asking.model);
        let tail = agent.recorder.tail(compact::tail_bytes(context.window, self.about.compact_at));
        let words = (text.as_str(), order.instructions.as_str());
        let texts = agent.recorder.compacted(order.trigger, context.used, words, &tail)?;
        let by_user = |text: &String| ("user", vec![text_block(text)]);
        let tail = tail.into_iter().filter_map(|record| record.message);
        let messages = [by_user(&text)].into_iter().chain(tail).chain(texts.iter().map(by_user));
        agent.turn.begin_again(&messages.collect::<Vec<_>>());
        Ok(())
    }

    /// Puts a summary in the place of a prompt and what followed it, which stay in the file as a
    /// branch of their own.
    fn replace_end(
        &self,
        agent: &mut Agent,
        since: &str,
        summary: &str,
        file: Option<&Path>,
    ) -> io::Result<()> {
        let gone = agent.turn.messages_since(since);
        let again = self.again(agent, &gone);
        let text = compact::text((Extent::End, summary), &gone, &again, file);
        let text = agent.site.secrets.redacted(&text, crate::secret::Extent::Whole).into_owned();
        agent.recorder.go_back(since);
        agent.recorder.record(&Entry::Meta(text.clone()))?;
        agent.turn.replace_since(since, &text);
        Ok(())
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
            // A summary from the records is of all of it.
            Err(error) if order.since.is_some() => {
                self.outcome = Some(Outcome::Failed(error));
                return;
            }
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
        let used = agent.count.context(&agent.asking.model).used;
        let replaced = match &order.since {
            Some(since) => self.replace_end(agent, since, &summary, file.as_deref()),
            None => self.replace_all(agent, order, &summary, file.as_deref()),
        };
        if let Err(error) = replaced {
            let input = Input::Unwritable(error.to_string());
            self.pending.push_back((agent.id.clone(), input));
            if order.trigger == Trigger::Manual {
                self.outcome = Some(Outcome::Unwritable(error.to_string()));
            }
            return;
        }
        agent.count.last = Usage::default();
        let blocks = agent.turn.messages().iter().flat_map(|message| &message.blocks);
        let after = blocks.map(String::len).sum::<usize>() / 4;
        let after = u64::try_from(after).unwrap_or_default();
        // What the file knows of is a summary of all of it.
        let file = file.filter(|_| order.since.is_none());
        let receipt = compact::receipt(file.as_deref(), &before, agent.turn.messages());
        let words = in_words(&receipt);
        host.event(
            &agent.id,
            &Event::Compacted(Compacted {
                trigger: order.trigger,
                before: used,
                after,
                summary: summary.clone(),
                receipt,
            }),
        );
        let trigger = order.trigger.name();
        let next = match order.trigger {
            Trigger::Auto => Then::Ask,
            Trigger::Manual => {
                agent.count.text = format!("Compacted. {words}");
                Then::Over(Outcome::Answered(None))
            }
        };
        let more = json!({"trigger": trigger, "compact_summary": summary});
        let then = Then::Compacted(trigger, more, Box::new(next));
        let more = json!({"source": "compact", "model": agent.asking.model});
        self.hook_then(agent, ("SessionStart", "compact"), more, then, host);
    }
}

/// Whether the turn has returned what a program asked for, and nobody has said more since: no
/// person, and no hook for the end of the turn.
fn is_complete(agent: &Agent) -> bool {
    let last = agent.turn.messages().last();
    let says =
        |block: &String| text_of(block).is_some_and(|text| !text.starts_with("<system-reminder>"));
    agent.id == AgentId::Main
        && agent.stops == 0
        && agent.site.output.is_given()
        && last.is_some_and(|last| !last.blocks.iter().any(says))
}

/// The contents of a file that may be read without a question, and is short enough.
fn contents(path: &str, permit: &Permit, site: &Site) -> Option<String> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    if found.len() > compact::FILE {
        return None;
    }
    let mut input = Map::new();
    input.insert("file_path".to_owned(), path.into());
    let id = format!("again-{}", site.nature.id());
    let call = Call { id, name: "Read".to_owned(), input, cancel: Cancel::default() };
    if permit.judge(&call, site).decision != Decision::Allow {
        return None;
    }
    let answer = tool::run(&call, site);
    match answer.content {
        Content::Text(text) if answer.is_error != Some(true) => Some(text),
        _ => None,
    }
}

/// A receipt in two sentences.
fn in_words(receipt: &Receipt) -> String {
    let counts: Vec<String> =
        receipt.by_kind().iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    let lost = if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") };
    let lists = receipt.missed.lists();
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists: Vec<String> = lists.map(|(name, list)| format!("{} {name}", list.len())).collect();
    let mut text = format!("Not sent any more: {lost}.");
    if !lists.is_empty() {
        text.push_str(" Not mentioned any more: ");
        text.push_str(&lists.join(", "));
        text.push('.');
    }
    text
}
