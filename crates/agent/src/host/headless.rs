//! A host for programs: one text, one JSON object, or one event per line.
//!
//! Invariants: in the stream of events, each turn has exactly one `result`, its last event; in the
//! other formats, only the `result` of the last turn is printed, after that turn. What sub-agents
//! do is printed only as events, each with the call that started them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use transcript::conversation::price::Cost;

use super::{Asked, Asking, Callback, Host, INTERRUPTED, Listener, Summary};
use crate::ambient::Ambient;
use crate::api::ApiError;
use crate::api::stream::with;
use crate::block::result_block;
use crate::event::{AgentId, Event};
use crate::images::NO_IMAGE;
use crate::model::{self, Usage};
use crate::permit::Mode;
use crate::record::synthetic;
use crate::tool::raw;
use crate::turn::{Block, Entry, Outcome};

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The last answer.
    Text,
    /// One object; with `all`, all events as an array.
    Json {
        /// Whether all events are printed.
        all: bool,
    },
    /// One event per line; with `partial`, also those of the API's stream.
    Stream {
        /// Whether events of the stream are printed.
        partial: bool,
    },
}

/// The content of a turn's first event.
#[derive(Clone, Debug)]
pub struct Init {
    /// The id of the session.
    pub session: String,
    /// Its working directory.
    pub cwd: String,
    /// The names of the tools that are offered.
    pub tools: Vec<String>,
    /// The source of the API key.
    pub key: &'static str,
    /// Whether commands run in a sandbox, and in how much of one.
    pub sandbox: &'static str,
    /// The names of the sub-agents that there are.
    pub agents: Vec<String>,
    /// The commands that can be typed.
    pub commands: Vec<String>,
    /// The skills.
    pub skills: Vec<String>,
    /// Whether runs of hooks are printed.
    pub shows_hooks: bool,
}

/// A host without a user interface, for programs.
pub struct Headless {
    format: Format,
    init: Init,
    out: Box<dyn Write>,
    nature: Arc<dyn Ambient>,
    /// Collected for an array.
    events: Vec<String>,
    /// The last result, if only that is printed.
    result: Option<String>,
    /// Whether the output is no longer read.
    is_closed: bool,
    /// Who is asked.
    asking: Asking,
    /// The calls that started sub-agents.
    calls: HashMap<AgentId, String>,
}

impl std::fmt::Debug for Headless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headless").field("format", &self.format).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Told<'a> {
    r#type: &'a str,
    message: Box<RawValue>,
    parent_tool_use_id: Option<&'a str>,
    session_id: &'a str,
    uuid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_result: Option<&'a RawValue>,
    #[serde(rename = "isReplay", skip_serializing_if = "Option::is_none")]
    is_replay: Option<bool>,
}

#[derive(Serialize)]
struct Passed<'a> {
    r#type: &'a str,
    event: &'a RawValue,
    session_id: &'a str,
    parent_tool_use_id: Option<&'a str>,
    uuid: String,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the client's names")]
struct Result<'a> {
    r#type: &'a str,
    subtype: &'a str,
    is_error: bool,
    duration_ms: i64,
    duration_api_ms: i64,
    num_turns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    stop_reason: Option<&'a str>,
    session_id: &'a str,
    total_cost_usd: Option<f64>,
    usage: Value,
    #[serde(rename = "modelUsage")]
    model_usage: BTreeMap<&'a str, Value>,
    permission_denials: &'a [Value],
    sandbox: &'static str,
    uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_output: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred_tool_use: Option<Value>,
}

/// Why a turn ended in which a hook put a call off.
const DEFERRED: &str = "tool_deferred";

impl Headless {
    /// Prints to `out`.
    pub fn new(
        format: Format,
        init: Init,
        out: Box<dyn Write>,
        nature: Arc<dyn Ambient>,
    ) -> Headless {
        Headless {
            format,
            init,
            out,
            nature,
            events: Vec::new(),
            result: None,
            is_closed: false,
            asking: Asking::Nobody,
            calls: HashMap::new(),
        }
    }

    /// Asks somebody.
    #[must_use]
    pub fn asking(self, asking: Asking) -> Headless {
        Headless { asking, ..self }
    }

    fn line(&mut self, text: &str) {
        let done: io::Result<()> = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        self.is_closed |= done.is_err();
    }

    fn tell(&mut self, event: &impl Serialize) {
        let text = raw(event).get().to_owned();
        match self.format {
            Format::Stream { .. } => self.line(&text),
            Format::Json { all: true } => self.events.push(text),
            _ => {}
        }
    }

    fn task(&mut self, subtype: &str, agent: &AgentId, more: &Value) {
        let mut event = json!({
            "type": "system", "subtype": subtype, "task_id": agent.name(),
            "session_id": self.init.session, "uuid": self.nature.id(),
        });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more.clone());
        }
        self.tell(&event);
    }

    /// Whether the output has what hooks of an event do: always at the start, as the original does.
    fn shows_hooks(&self, event: &str) -> bool {
        self.init.shows_hooks || event == "SessionStart"
    }

    fn status(&mut self, status: Option<&str>) {
        self.tell(&json!({
            "type": "system", "subtype": "status", "status": status,
            "session_id": self.init.session, "uuid": self.nature.id(),
        }));
    }

    fn message(
        &mut self,
        (agent, kind): (&AgentId, &str),
        message: &str,
        id: &str,
        more: &More<'_>,
    ) {
        let Ok(message) = RawValue::from_string(message.to_owned()) else { return };
        let session = self.init.session.clone();
        let call = self.calls.get(agent).cloned();
        self.tell(&Told {
            r#type: kind,
            message,
            parent_tool_use_id: call.as_deref(),
            session_id: &session,
            uuid: id,
            error: more.error,
            tool_use_result: more.result,
            is_replay: more.is_replay,
        });
    }
}

/// The additional members of some events.
#[derive(Default)]
struct More<'a> {
    error: Option<&'a str>,
    result: Option<&'a RawValue>,
    is_replay: Option<bool>,
}

impl Listener for Headless {
    fn event(&mut self, agent: &AgentId, event: &Event) {
        let is_main = *agent == AgentId::Main;
        match event {
            Event::TurnBegan { model, mode } if is_main => self.begin(model, *mode),
            Event::Prompted { id, line: Some(line), .. } => self.again(agent, line, id),
            Event::Controlled(answer) => self.tell(answer),
            Event::Streamed(event) => self.streamed(agent, event),
            Event::Block { block, id } => self.block(agent, block, id),
            Event::Recorded { entry, id } => self.recorded(agent, entry, id),
            Event::Retry { error, failures, most, wait } => {
                self.retry(error, *failures, *most, *wait);
            }
            Event::FellBack { from, to } => {
                self.tell(&json!({
                    "type": "system", "subtype": "model_fallback", "from_model": from,
                    "to_model": to, "reason": "overloaded", "session_id": self.init.session,
                    "uuid": self.nature.id(),
                }));
                notice(&format!("{from} is overloaded; {to} goes on"));
            }
            Event::AgentStarted { call, kind, description, is_background } => {
                self.calls.insert(agent.clone(), call.clone());
                self.task(
                    "task_started",
                    agent,
                    &json!({
                        "tool_use_id": call, "description": description, "task_type": "local_agent",
                        "subagent_type": kind, "is_backgrounded": is_background,
                    }),
                );
            }
            Event::AgentProgress { call, tool_uses, tokens, taken, last: (tool, about) } => {
                self.task(
                    "task_progress",
                    agent,
                    &json!({
                        "tool_use_id": call, "description": format!("{tool} {about}").trim_end(),
                        "usage": {"total_tokens": tokens, "tool_uses": tool_uses, "duration_ms": taken},
                        "last_tool_name": tool,
                    }),
                );
            }
            Event::AgentEnded { call, summary } => {
                let status = match summary.outcome {
                    Outcome::Interrupted => "stopped",
                    _ if summary.code() == 0 => "completed",
                    _ => "failed",
                };
                self.task("task_notification", agent, &json!({
                    "tool_use_id": call, "status": status, "output_file": "",
                    "summary": summary.text.lines().next().unwrap_or_default(),
                    "usage": {
                        "total_tokens": summary.usage.input + summary.usage.output,
                        "tool_uses": summary.turns.saturating_sub(1), "duration_ms": summary.taken,
                    },
                }));
            }
            Event::HookStarted { id, event, name } if self.shows_hooks(event) => {
                self.tell(&json!({
                    "type": "system", "subtype": "hook_started", "hook_id": id, "hook_name": name,
                    "hook_event": event, "session_id": self.init.session, "uuid": self.nature.id(),
                }));
            }
            Event::HookEnded { id, event, name, stdout, stderr, code, outcome }
                if self.shows_hooks(event) =>
            {
                self.tell(&json!({
                    "type": "system", "subtype": "hook_response", "hook_id": id, "hook_name": name,
                    "hook_event": event, "output": format!("{stdout}{stderr}"), "stdout": stdout,
                    "stderr": stderr, "exit_code": code, "outcome": outcome,
                    "session_id": self.init.session, "uuid": self.nature.id(),
                }));
            }
            Event::HookSaid { name, text } => {
                self.tell(&json!({
                    "type": "system", "subtype": "informational", "level": "notice",
                    "content": format!("{name} says: {text}"), "session_id": self.init.session,
                    "uuid": self.nature.id(),
                }));
            }
            Event::Compacting { .. } => self.status(Some("compacting")),
            Event::Compacted(compacted) => {
                self.status(None);
                self.tell(&json!({
                    "type": "system", "subtype": "compact_boundary", "session_id": self.init.session,
                    "uuid": self.nature.id(), "compact_metadata": {
                        "trigger": compacted.trigger.name(), "pre_tokens": compacted.before,
                        "post_tokens": compacted.after, "receipt": compacted.receipt,
                    },
                }));
            }
            Event::Denied { tool, why, rule } => denied(tool, why, rule.as_deref()),
            Event::Notice(text) => notice(text),
            Event::Complaint(why) => complain(why),
            Event::Waiting => self.waits(),
            Event::TurnEnded(summary) if is_main => self.end(summary),
            Event::Ended => self.finish(),
            _ => {}
        }
    }
}

impl Host for Headless {
    fn is_gone(&self) -> bool {
        self.is_closed
    }

    fn ask(&mut self, asked: &Asked) -> bool {
        if self.asking == Asking::Nobody || !matches!(self.format, Format::Stream { .. }) {
            return false;
        }
        self.tell(&crate::control::question(asked));
        true
    }

    fn call_back(&mut self, callback: &Callback<'_>) -> bool {
        if !matches!(self.format, Format::Stream { .. }) {
            return false;
        }
        let mut request = json!({
            "subtype": "hook_callback", "callback_id": callback.callback, "input": callback.input,
        });
        if let Some(call) = callback.call {
            request["tool_use_id"] = call.into();
        }
        self.tell(&json!({
            "type": "control_request", "request_id": callback.request, "request": request,
        }));
        true
    }

    fn withdraw(&mut self, id: &str) {
        self.tell(&json!({"type": "control_cancel_request", "request_id": id}));
    }
}

impl Headless {
    fn begin(&mut self, model: &str, mode: Mode) {
        let init = self.init.clone();
        let event = json!({
            "type": "system", "subtype": "init", "cwd": init.cwd, "session_id": init.session, "tools": init.tools, "mcp_servers": [],
            "model": model, "permissionMode": mode.name(), "slash_commands": init.commands, "apiKeySource": init.key,
            "claude_code_version": crate::dialect::version(), "output_style": "default", "agents": init.agents, "skills": init.skills, "plugins": [],
            "uuid": self.nature.id(), "fast_mode_state": "off", "sandbox": init.sandbox,
        });
        self.tell(&event);
    }

    fn again(&mut self, agent: &AgentId, line: &Value, id: &str) {
        let message = line["message"].to_string();
        self.message(
            (agent, "user"),
            &message,
            id,
            &More { is_replay: Some(true), ..More::default() },
        );
    }

    fn streamed(&mut self, agent: &AgentId, event: &str) {
        if self.format != (Format::Stream { partial: true }) {
            return;
        }
        let Ok(event) = serde_json::from_str::<&RawValue>(event) else { return };
        if event.get().contains(r#""type":"ping""#) || event.get().contains(r#""type": "ping""#) {
            return;
        }
        let session = self.init.session.clone();
        let uuid = self.nature.id();
        let call = self.calls.get(agent).cloned();
        let passed = Passed {
            r#type: "stream_event",
            event,
            session_id: &session,
            parent_tool_use_id: call.as_deref(),
            uuid,
        };
        self.tell(&passed);
    }

    fn block(&mut self, agent: &AgentId, block: &Block, id: &str) {
        let message = with(&block.message, "context_management", "null");
        self.message((agent, "assistant"), &message.unwrap_or_default(), id, &More::default());
    }

    fn recorded(&mut self, agent: &AgentId, entry: &Entry, id: &str) {
        let user = |content: String| format!(r#"{{"role":"user","content":[{content}]}}"#);
        match entry {
            Entry::Result(call, answer) => {
                let more = More { result: Some(&answer.detail), ..More::default() };
                self.message((agent, "user"), &user(result_block(call, answer)), id, &more);
            }
            Entry::Interrupted(text) => {
                let block = crate::api::request::text_block(text);
                self.message((agent, "user"), &user(block), id, &More::default());
            }
            Entry::Failed(error) => {
                let message = synthetic(&self.nature.id(), &error.to_string());
                let more = More { error: Some(error.label()), ..More::default() };
                self.message((agent, "assistant"), &message, id, &more);
            }
            Entry::Prompt(_)
            | Entry::Meta(_)
            | Entry::Expansion(_)
            | Entry::Printed(_)
            | Entry::Block(_) => {}
        }
    }

    fn retry(&mut self, error: &ApiError, failures: u32, most: u32, wait: Duration) {
        let status = match error.why {
            crate::api::Why::Status(status) => Some(status),
            _ => None,
        };
        let event = json!({
            "type": "system", "subtype": "api_retry", "attempt": failures,
            "max_retries": most, "retry_delay_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            "error_status": status, "error": error.label(), "session_id": self.init.session, "uuid": self.nature.id(),
        });
        self.tell(&event);
    }

    fn waits(&mut self) {
        if !matches!(self.format, Format::Stream { .. }) {
            // If stderr cannot be written, there is no other place to report to.
            let _ = writeln!(io::stderr(), "waiting for a command in the background");
        }
    }

    fn finish(&mut self) {
        if let Format::Json { all: true } = self.format {
            self.result = Some(format!("[{}]", std::mem::take(&mut self.events).join(",")));
        }
        if let Some(result) = self.result.take() {
            self.line(&result);
        }
    }

    fn end(&mut self, summary: &Summary) {
        if self.format == Format::Text {
            // The part of the stopped answer that has arrived is all that can be shown.
            let is_cut = summary.outcome == Outcome::Interrupted && !summary.text.is_empty();
            let text = is_cut.then(|| format!("{}\n{INTERRUPTED}", summary.text));
            let output = summary.output.as_ref().map(Value::to_string);
            self.result = Some(text.or(output).unwrap_or_else(|| summary.in_words()));
            return;
        }
        let (subtype, message) = match summary.outcome {
            Outcome::Answered(_)
            | Outcome::Unfinished(_)
            | Outcome::Failed(_)
            | Outcome::Halted(_)
            | Outcome::Deferred(_)
            | Outcome::Blocked(_) => ("success", Some(summary.in_words())),
            Outcome::MaxTurns(_) => ("error_max_turns", None),
            Outcome::OverBudget => ("error_max_budget_usd", None),
            Outcome::NoOutput(_) => ("error_max_structured_output_retries", None),
            Outcome::Interrupted | Outcome::Unwritable(_) => ("error_during_execution", None),
        };
        // A program that asked for JSON gets JSON.
        let output = summary.output.as_ref();
        let message = message.map(|text| output.map_or(text, Value::to_string));
        let errors = message.is_none().then(|| vec![summary.in_words()]);
        let stop = match &summary.outcome {
            Outcome::Answered(reason) => reason.as_deref(),
            Outcome::Unfinished(_) | Outcome::Failed(_) => Some("stop_sequence"),
            Outcome::Deferred(_) => Some(DEFERRED),
            _ => None,
        };
        let deferred = match &summary.outcome {
            Outcome::Deferred(call) => Some(json!({
                "id": call.id, "name": call.name,
                "input": serde_json::from_str::<Value>(&call.input).unwrap_or_default(),
            })),
            _ => None,
        };
        let (session, uuid) = (self.init.session.clone(), self.nature.id());
        let models = summary.models.iter();
        let result = Result {
            r#type: "result",
            subtype,
            is_error: summary.is_error(),
            duration_ms: summary.taken,
            duration_api_ms: summary.api,
            num_turns: summary.turns,
            result: message,
            stop_reason: stop,
            session_id: &session,
            total_cost_usd: summary.cost(),
            usage: usage(summary.usage),
            model_usage: models
                .map(|(model, usage)| (model.as_str(), of_model(model, *usage)))
                .collect(),
            permission_denials: &summary.denials,
            sandbox: self.init.sandbox,
            uuid,
            errors,
            structured_output: output,
            terminal_reason: deferred.is_some().then_some(DEFERRED),
            deferred_tool_use: deferred,
        };
        let text = raw(&result).get().to_owned();
        self.tell(&result);
        self.result = Some(text).filter(|_| self.format == Format::Json { all: false });
    }
}

fn denied(tool: &str, why: &str, rule: Option<&str>) {
    let way = match rule {
        _ if why.starts_with(NO_IMAGE) => "; `--no-snapshots` would allow it".to_owned(),
        Some(rule) => format!("; `--allowedTools '{rule}'` would allow it"),
        None => String::new(),
    };
    notice(&format!("{tool} was refused: {why}{way}"));
}

fn complain(why: &str) {
    // If stderr cannot be written, there is no other place to report to.
    let _ = writeln!(io::stderr(), "error: {why}");
}

fn notice(text: &str) {
    // What the model wrote must not steer a terminal. If stderr cannot be written, there is no
    // other place to report to.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(io::stderr(), "note: {text}");
}

/// The API's form of a usage.
pub(crate) fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_5m + usage.cache_1h,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "server_tool_use": {"web_search_requests": usage.searches, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": usage.cache_1h, "ephemeral_5m_input_tokens": usage.cache_5m},
        "inference_geo": "", "iterations": [], "speed": "standard",
    })
}

fn of_model(name: &str, usage: Usage) -> Value {
    let known = model::known(name);
    json!({
        "inputTokens": usage.input, "outputTokens": usage.output, "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_5m + usage.cache_1h, "webSearchRequests": usage.searches,
        "costUSD": usage.cost(name).map(Cost::total), "contextWindow": known.and_then(|known| known.max_input_tokens),
        "maxOutputTokens": model::output_tokens(name),
    })
}
