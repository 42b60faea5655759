//! From what the user types to a prompt: commands and skills, mentions.
//!
//! Invariants: a shell command of a command runs only if it may run without a question, and as any
//! other command does, in the sandbox; if one may not, nothing is sent; what a command allows and
//! denies and the model that it wants end with its turn, its hooks with the session.

use std::fs;
use std::sync::PoisonError;
use std::thread;

use rules::{Decision, Kind, Rule};
use serde_json::{Map, Value, json};

use super::hooked::{Then, words};
use super::{Agent, Driver, Note, Report, Said, cost_of};
use crate::compact;
use crate::event::AgentId;
use crate::host::Host;
use crate::mention;
use crate::model::{self, Usage};
use crate::slash::{BUILT_IN, Slash, SlashPiece};
use crate::tool::{self, Call, Cancel, Content};
use crate::turn::{Input, Outcome};

/// Why a conversation ends, and another begins, for hooks.
const CLEAR: &str = "clear";
/// Who wrote the rules of a command that runs.
const RULES: &str = "the command that runs";

impl Driver {
    /// Runs a command of the client itself.
    pub(super) fn run_built_in(
        &mut self,
        agent: &mut Agent,
        (name, rest): (&str, &str),
        host: &mut dyn Host,
    ) {
        match name {
            "compact" => self.compact_now(agent, rest, host),
            "clear" => self.clear(agent, host),
            "context" => self.outcome = Some(Outcome::Blocked(context_text(agent))),
            _ => self.outcome = Some(Outcome::Blocked(cost_of(agent))),
        }
    }

    /// A prompt is next.
    pub(super) fn submit(&mut self, agent: &mut Agent, mut utterance: Said, host: &mut dyn Host) {
        // Its hooks learn the id of its record.
        let id = agent.recorder.free_id(utterance.id.as_deref());
        utterance.id = Some(id.clone());
        agent.prompt = Some(id);
        let more = json!({"prompt": words(&utterance)});
        let then = Then::Prompt(utterance);
        if let Err(Then::Prompt(utterance)) =
            self.hook(agent, ("UserPromptSubmit", ""), more, then, host)
        {
            self.accept(agent, utterance, host);
        }
    }

    /// Takes a prompt that its hooks let through: a command is expanded first.
    pub(super) fn accept(&mut self, agent: &mut Agent, utterance: Said, host: &mut dyn Host) {
        let Some((slash, rest)) = self.called(&utterance) else {
            return self.take_prompt(agent, utterance, host);
        };
        let more = json!({
            "expansion_type": "slash_command", "command_name": slash.name, "command_args": rest,
            "command_source": slash.author.settings(), "prompt": words(&utterance),
        });
        let name = slash.name.clone();
        let then = Then::Expand(utterance);
        if let Err(Then::Expand(utterance)) =
            self.hook(agent, ("UserPromptExpansion", &name), more, then, host)
        {
            self.expand(agent, utterance, host);
        }
    }

    /// The command that a prompt is, and its arguments.
    pub(super) fn called(&self, utterance: &Said) -> Option<(Slash, String)> {
        let text = words(utterance);
        let called = self.slashes.called(&text).filter(|_| !utterance.is_verbatim);
        called.map(|(slash, rest)| (slash.clone(), rest.to_owned()))
    }

    /// Runs the shell commands of a command, if they may run.
    pub(super) fn expand(&mut self, agent: &mut Agent, utterance: Said, host: &mut dyn Host) {
        let Some((slash, rest)) = self.called(&utterance) else {
            return self.take_prompt(agent, utterance, host);
        };
        self.lend(agent, &slash);
        let pieces = slash.pieces(&rest);
        let calls: Vec<Option<Call>> = pieces.iter().map(|piece| self.call_of(piece)).collect();
        for call in calls.iter().flatten() {
            let judgement = self.permit.judge(call, &agent.site);
            if judgement.decision != Decision::Allow {
                let command = call.input.get("command").and_then(Value::as_str);
                let why = format!(
                    "/{} was not run: its command `{}` is not permitted: {}",
                    slash.name,
                    command.unwrap_or_default(),
                    judgement.why
                );
                self.outcome = Some(Outcome::Blocked(why));
                return;
            }
        }
        let utterance = Said { typed: Some(slash.typed(&rest)), ..utterance };
        if calls.iter().all(Option::is_none) {
            return self.expanded(agent, utterance, joined(pieces, Vec::new()), host);
        }
        agent.number += 1;
        agent.expanding = Some(utterance);
        let (notes, id, number) = (self.notes.clone(), agent.id.clone(), agent.number);
        let site = agent.site.clone();
        thread::spawn(move || {
            let outputs = calls.iter().flatten().map(|call| match tool::run(call, &site).content {
                Content::Text(text) => text,
                Content::Blocks(_) => String::new(),
            });
            let body = joined(pieces, outputs.collect());
            let _ = notes.send(Note::From(id, Report::Expanded(number, body)));
        });
    }

    fn call_of(&self, piece: &SlashPiece) -> Option<Call> {
        let SlashPiece::Run(command) = piece else { return None };
        let mut input = Map::new();
        input.insert("command".to_owned(), command.as_str().into());
        let id = format!("command-{}", self.nature.id());
        Some(Call { id, name: "Bash".to_owned(), input, cancel: Cancel::default() })
    }

    /// Takes what the shell commands of a command wrote.
    pub(super) fn commands_ran(&mut self, id: &AgentId, body: String, host: &mut dyn Host) {
        let Some(mut agent) = self.agents.remove(id) else { return };
        if let Some(utterance) = agent.expanding.take() {
            self.expanded(&mut agent, utterance, body, host);
        }
        self.agents.insert(id.clone(), agent);
    }

    fn expanded(&mut self, agent: &mut Agent, utterance: Said, body: String, host: &mut dyn Host) {
        self.take_prompt(agent, Said { body: Some(body), ..utterance }, host);
    }

    /// Takes a prompt, with what it mentions and what its command stands for.
    pub(super) fn take_prompt(&mut self, agent: &mut Agent, utterance: Said, host: &mut dyn Host) {
        let id = agent.id.clone();
        let (body, printed) = (utterance.body.clone(), utterance.printed.clone());
        let prompt = self.prompt_of(agent, utterance, host);
        let secrets = agent.site.secrets.clone();
        let clean = |text: &str| secrets.redacted(text, crate::secret::Extent::Whole).into_owned();
        let more = body.map(|body| Input::Expansion(clean(&body)));
        let more = more.or_else(|| printed.map(|printed| Input::Printed(clean(&printed))));
        self.pending.extend(more.map(|input| (id.clone(), input)));
        self.pending.push_back((id, Input::Prompt(prompt)));
    }

    /// A prompt, preceded by what it mentions.
    pub(super) fn prompt_of(
        &self,
        agent: &mut Agent,
        mut utterance: Said,
        host: &mut dyn Host,
    ) -> crate::turn::Prompt {
        let texts = match (&utterance.body, &utterance.printed) {
            (Some(body), _) => vec![body.clone()],
            // A shell command mentions nothing.
            (None, Some(_)) => Vec::new(),
            (None, None) if utterance.is_verbatim => Vec::new(),
            (None, None) => vec![words(&utterance)],
        };
        let mut blocks = mention::blocks(&texts, &self.permit, &agent.site);
        match utterance.typed.take() {
            Some(typed) => blocks.push(crate::api::request::text_block(&typed)),
            None => blocks.append(&mut utterance.blocks),
        }
        agent.prompted(Said { blocks, ..utterance }, host)
    }

    /// What a command or a skill denies, for its turn, and its hooks, from now on: it was typed, or
    /// the model has loaded it.
    pub(super) fn restrict(&mut self, slash: &Slash) {
        self.permit.book.rules.extend(slash.denials(RULES, &self.site.root));
        self.hooks.adopt(&slash.hooks);
    }

    /// What a command allows, and the model that it wants, for its turn.
    fn lend(&mut self, agent: &mut Agent, slash: &Slash) {
        self.restrict(slash);
        let root = agent.site.root.clone();
        let rule = |text: &String| Rule::parse(text, Kind::Allow, RULES, root.clone()).ok();
        self.permit.book.rules.extend(slash.allowed.iter().filter_map(rule));
        let wanted = slash.model.as_deref().map(|name| model::named(Some(name)));
        if let Some(name) = wanted.filter(|name| *name != agent.asking.model) {
            let before = std::mem::replace(&mut agent.asking.model, name);
            agent.asking.max_tokens = model::output_tokens(&agent.asking.model);
            agent.forget_thinking();
            self.next_model.get_or_insert(before);
        }
    }

    /// How full the context is, for a host.
    pub(super) fn context_usage(&self) -> Value {
        let main = self.main();
        let used = main.map(|main| main.count.context(&main.asking.model)).unwrap_or_default();
        let window = used.window.unwrap_or(200_000);
        let percentage = (used.used * 100).checked_div(window).unwrap_or(0);
        let parts = main.map(parts).unwrap_or_default();
        let before: u64 = parts.iter().map(|(_, _, tokens)| tokens).sum();
        let more = [
            ("messages", "Messages", used.used.saturating_sub(before)),
            ("free_space", "Free space", window.saturating_sub(used.used.max(before))),
        ];
        let category = |(id, name, tokens): &(&str, &str, u64)| {
            let kind = if *id == "free_space" { "free" } else { "used" };
            json!({"id": id, "name": name, "tokens": tokens, "color": "", "kind": kind})
        };
        let files = self.about.instructions.iter().map(|file| {
            let size = fs::metadata(&file.path).map_or(0, |found| found.len());
            json!({"path": file.path.display().to_string(), "type": file.memory, "tokens": size / 4})
        });
        let last = used.last;
        let usage = json!({
            "input_tokens": last.input, "output_tokens": last.output,
            "cache_creation_input_tokens": last.cache_5m + last.cache_1h,
            "cache_read_input_tokens": last.cache_read,
        });
        json!({
            "categories": parts.iter().chain(&more).map(category).collect::<Vec<_>>(),
            "autoCompactThreshold": compact::threshold(window, self.about.compact_at),
            "isAutoCompactEnabled": self.about.compacts,
            "totalTokens": used.used, "maxTokens": window, "rawMaxTokens": window,
            "percentage": percentage, "model": main.map(|main| main.asking.model.clone()),
            "memoryFiles": files.collect::<Vec<_>>(), "mcpTools": [], "agents": self.kinds.costs(),
            "gridRows": [], "apiUsage": (last != Usage::default()).then_some(usage),
        })
    }

    /// What commands allowed and denied is over.
    pub(super) fn take_back(&mut self) {
        self.permit.book.rules.retain(|rule| rule.source != RULES);
    }

    /// Begins a new conversation in the same session.
    pub(super) fn clear(&mut self, agent: &mut Agent, host: &mut dyn Host) {
        if self.is_begun {
            let more = json!({"reason": CLEAR});
            let _ = self.hook(agent, ("SessionEnd", CLEAR), more, Then::Nothing, host);
        }
        agent.turn.begin_again(&[]);
        agent.recorder.begin_again();
        agent.count.last = Usage::default();
        agent.site.todos.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let text = "The conversation begins anew; the file keeps what was before.".to_owned();
        let over = Outcome::Blocked(text);
        if self.is_begun {
            let (event, more) = (("SessionStart", CLEAR), json!({"source": CLEAR}));
            self.hook_then(agent, event, more, Then::Over(over), host);
        } else {
            self.outcome = Some(over);
        }
    }
}

/// The command of the client that a prompt is, and what follows its name.
pub(super) fn built_in(utterance: &Said) -> Option<(&'static str, String)> {
    let text = words(utterance);
    let text = text.trim().strip_prefix('/').filter(|_| !utterance.is_verbatim)?;
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = BUILT_IN.into_iter().find(|built_in| *built_in == name)?;
    Some((name, rest.to_owned()))
}

/// The pieces of a command, with outputs in place of its shell commands.
fn joined(pieces: Vec<SlashPiece>, outputs: Vec<String>) -> String {
    let mut outputs = outputs.into_iter();
    let text = |piece| match piece {
        SlashPiece::Text(text) => text,
        SlashPiece::Run(_) => outputs.next().unwrap_or_default(),
    };
    pieces.into_iter().map(text).collect()
}

/// What is sent before the messages: ids, names, and tokens, estimated.
fn parts(agent: &Agent) -> [(&'static str, &'static str, u64); 3] {
    let asking = &agent.asking;
    let size = |texts: &[String]| texts.iter().map(|text| text.len() as u64).sum::<u64>() / 4;
    [
        ("system_prompt", "System prompt", size(&asking.system)),
        ("system_tools", "System tools", size(&asking.tools)),
        ("memory_files", "Memory files", asking.reminder.len() as u64 / 4),
    ]
}

/// What fills the context, for people.
pub(super) fn context_text(agent: &Agent) -> String {
    let used = agent.count.context(&agent.asking.model);
    let window = used.window.map_or_else(String::new, |window| {
        let percent = (used.used * 100).checked_div(window).unwrap_or(0);
        format!(" of {window} ({percent} %)")
    });
    let size = |texts: &[String]| texts.iter().map(String::len).sum::<usize>() / 4;
    let asking = &agent.asking;
    let messages: usize = agent.turn.messages().iter().map(|message| size(&message.blocks)).sum();
    let todos = agent.site.todos.lock().unwrap_or_else(PoisonError::into_inner).len();
    format!(
        "Model: {}\nTokens of the last request: {}{window}\nAbout: system prompt {}, tools {}, instructions {}, messages {messages}\nTodos: {todos}",
        asking.model,
        used.used,
        size(&asking.system),
        size(&asking.tools),
        asking.reminder.len() / 4,
    )
}
