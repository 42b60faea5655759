//! Requests from the program that hosts a session, apart from prompts: the control protocol of
//! Claude Code.
//!
//! Every request is answered, an unknown one with an error. MCP servers are not supported: a host
//! that relies on them is refused when it says so, and the session ends. A host that continued
//! would rely on servers that are never called. In the other direction a host is asked
//! whether calls may run ([`question`]), and answers ([`reply`]).

mod beginning;
mod table;

use rules::Kind;
use serde_json::{Value, json};

use crate::host::{Asked, AskedWhat};
use crate::model;
use crate::permission_file::Change;
use crate::permit::{Bypass, Mode};

pub use beginning::Beginning;
pub use table::{Handling, REQUESTS};

/// What a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Nothing except the answer.
    Nothing,
    /// The host begins, and this is what it brings.
    Initialize(Box<Beginning>),
    /// Stop the turn.
    Stop,
    /// Stop a command or a sub-agent in the background.
    StopTask(String),
    /// Say what a command has printed so far.
    TaskOutput(String),
    /// Have a call go on in the background.
    Background(String),
    /// Give the session a title.
    Rename(String),
    /// Say how full the context is.
    Context,
    /// Say what the session cost.
    Cost,
    /// Switch to another permission mode.
    Mode(Mode),
    /// Switch to another model.
    Model(String),
    /// Use this many tokens for thinking; None for no thinking.
    Thinking(Option<u64>),
    /// Go back to before a prompt, or only say what that would change.
    Back(Backwards),
    /// Say which prompts one can go back to.
    Waypoints,
    /// Something that is not supported: the session is to end.
    Impossible,
}

/// How to go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backwards {
    /// The id of the prompt's record.
    pub prompt: String,
    /// What goes back.
    pub what: BackWhat,
    /// Whether it is only shown.
    pub is_dry: bool,
    /// Whether what someone else changed since is overwritten.
    pub is_forced: bool,
    /// Whether the answer says more than that of Claude Code.
    pub is_ours: bool,
}

/// What goes back to before a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackWhat {
    /// The files.
    Files,
    /// The conversation.
    Conversation,
    /// Both.
    Both,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, for people.
    pub why: String,
    /// The code for programs, as in Claude Code.
    pub code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), code: None }
    }
}

/// What a request asks for, and its answer.
pub fn asked(request: &Value, bypass: Bypass) -> (Wish, Result<Option<Value>, Refusal>) {
    let subtype = request["subtype"].as_str().unwrap_or_default();
    match subtype {
        "initialize" => match Beginning::read(request) {
            Ok(beginning) => (Wish::Initialize(Box::new(beginning)), Ok(Some(beginning::answer()))),
            Err(why) => (Wish::Impossible, Err(Refusal { why, code: Some("unsupported_request") })),
        },
        "interrupt" => (Wish::Stop, Ok(None)),
        "stop_task" => (Wish::StopTask(text(&request["task_id"])), Ok(Some(json!({})))),
        "background_tasks" => {
            (Wish::Background(text(&request["tool_use_id"])), Ok(Some(json!({}))))
        }
        "get_task_output" => (Wish::TaskOutput(text(&request["task_id"])), Ok(None)),
        "rename_session" => (Wish::Rename(text(&request["title"])), Ok(None)),
        "get_context_usage" => (Wish::Context, Ok(None)),
        "get_session_cost" => (Wish::Cost, Ok(None)),
        "list_models" => (Wish::Nothing, Ok(Some(json!({"models": beginning::models()})))),
        "get_binary_version" => {
            let version = crate::dialect::version();
            (Wish::Nothing, Ok(Some(json!({"version": version, "buildTime": null}))))
        }
        "set_has_subscribers" | "seed_read_state" => (Wish::Nothing, Ok(None)),
        "mcp_status" => (Wish::Nothing, Ok(Some(json!({"mcpServers": []})))),
        "set_permission_mode" => {
            let name = request["mode"].as_str().unwrap_or_default();
            let refusal = bypass.refusal().filter(|_| name == Mode::Bypass.name());
            match Mode::named(name) {
                Some(_) if refusal.is_some() => (Wish::Nothing, refusal.map_or(Ok(None), Err)),
                Some(mode) => (Wish::Mode(mode), Ok(Some(json!({"mode": name})))),
                None => {
                    let why = format!("`{name}` is no permission mode here");
                    (Wish::Nothing, Err(Refusal { why, code: Some("invalid_mode") }))
                }
            }
        }
        "rewind_files" => {
            let wish = Backwards {
                prompt: text(&request["user_message_id"]),
                what: BackWhat::Files,
                is_dry: request["dry_run"] == true,
                is_forced: false,
                is_ours: false,
            };
            (Wish::Back(wish), Ok(None))
        }
        "rewind" => back(request),
        "rewind_points" => (Wish::Waypoints, Ok(None)),
        "set_model" => (Wish::Model(model::named(request["model"].as_str())), Ok(None)),
        "set_max_thinking_tokens" => {
            (Wish::Thinking(request["max_thinking_tokens"].as_u64()), Ok(None))
        }
        _ => (Wish::Nothing, Err(Refusal::new(table::refusal(subtype)))),
    }
}

/// A request to go back to before a prompt.
fn back(request: &Value) -> (Wish, Result<Option<Value>, Refusal>) {
    let what = match request["what"].as_str().unwrap_or("both") {
        "files" => BackWhat::Files,
        "conversation" => BackWhat::Conversation,
        "both" => BackWhat::Both,
        other => {
            let why = format!("`{other}` cannot be rewound: files, conversation or both can");
            return (Wish::Nothing, Err(Refusal::new(why)));
        }
    };
    let wish = Backwards {
        prompt: text(&request["user_message_id"]),
        what,
        is_dry: request["dry_run"] == true,
        is_forced: request["force"] == true,
        is_ours: true,
    };
    (Wish::Back(wish), Ok(None))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Bypass {
    /// Why a host may not have everything permitted, in the words of Claude Code.
    fn refusal(self) -> Option<Refusal> {
        let (why, code) = match self {
            Bypass::Offered => return None,
            Bypass::NotOffered => (
                "the session was not launched with --dangerously-skip-permissions",
                "bypass_not_launched",
            ),
            Bypass::Forbidden => ("it is disabled by settings or configuration", "bypass_disabled"),
        };
        let why = format!("Cannot set permission mode to bypassPermissions because {why}");
        Some(Refusal { why, code: Some(code) })
    }
}

/// A rule that would allow a call, as a change of permissions.
pub(crate) fn suggested(rule: &str) -> Value {
    let (tool, content) = rule.split_once('(').unwrap_or((rule, ""));
    let mut one = json!({"toolName": tool});
    if let Some(content) = content.strip_suffix(')') {
        one["ruleContent"] = content.into();
    }
    json!({"type": "addRules", "rules": [one], "behavior": "allow", "destination": "session"})
}

/// The question whether a call may run, as an event.
pub fn question(asked: &Asked) -> Value {
    let suggestions: Vec<Value> = asked.rule.iter().map(|rule| suggested(rule)).collect();
    let mut input = asked.input.clone();
    if asked.what == AskedWhat::Outside {
        input["dangerouslyDisableSandbox"] = true.into();
    }
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": asked.tool, "input": input,
        "permission_suggestions": suggestions, "decision_reason": asked.why, "tool_use_id": asked.call,
    });
    if let Some(path) = &asked.path {
        request["blocked_path"] = path.as_str().into();
    }
    json!({"type": "control_request", "request_id": asked.request, "request": request})
}

/// A host's answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The call may run.
    Allow {
        /// With this input, if it is another one.
        input: Option<Value>,
        /// What is different from now on.
        updates: Vec<Value>,
    },
    /// The call may not run.
    Deny {
        /// What the model is told.
        message: String,
        /// Whether the turn ends.
        is_interrupt: bool,
    },
}

/// Reads a host's answer. What is not understood is a refusal.
pub fn reply(response: &Value) -> Reply {
    let body = &response["response"];
    let is_success = response["subtype"] == "success";
    if is_success && body["behavior"] == "allow" {
        let input =
            body.get("updatedInput").filter(|input| input.is_object()).cloned().map(|mut input| {
                if let Some(members) = input.as_object_mut() {
                    members.shift_remove("dangerouslyDisableSandbox");
                }
                input
            });
        let updates = body["updatedPermissions"].as_array().cloned().unwrap_or_default();
        return Reply::Allow { input, updates };
    }
    let text =
        body["message"].as_str().or(response["error"].as_str()).filter(|text| !text.is_empty());
    let message = text.unwrap_or("This was not permitted.").to_owned();
    Reply::Deny { message, is_interrupt: is_success && body["interrupt"] == true }
}

/// What a host wants to be different from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Another mode.
    Mode(Mode),
    /// Other rules.
    Rules {
        /// What happens to them.
        change: Change,
        /// What they do.
        kind: Kind,
        /// The rules, as users write them.
        rules: Vec<String>,
        /// Where they are kept.
        destination: String,
    },
    /// Other folders.
    Folders {
        /// What happens to them.
        change: Change,
        /// The folders.
        folders: Vec<String>,
        /// Where they are kept.
        destination: String,
    },
}

/// Reads what a host wants to be different; None if it is not understood, or not possible.
pub fn updated(update: &Value, bypass: Bypass) -> Option<Update> {
    let destination = update["destination"].as_str().unwrap_or("session").to_owned();
    let change = match update["type"].as_str()? {
        "setMode" => {
            let mode = Mode::named(update["mode"].as_str()?)?;
            let is_possible = mode != Mode::Bypass || bypass == Bypass::Offered;
            return is_possible.then_some(Update::Mode(mode));
        }
        kind @ ("addDirectories" | "removeDirectories") => {
            let change = if kind.starts_with("add") { Change::Add } else { Change::Remove };
            let folders = update["directories"].as_array()?.iter();
            let folders = folders.filter_map(|folder| Some(folder.as_str()?.to_owned())).collect();
            return Some(Update::Folders { change, folders, destination });
        }
        "addRules" => Change::Add,
        "replaceRules" => Change::Replace,
        "removeRules" => Change::Remove,
        _ => return None,
    };
    let kind = match update["behavior"].as_str()? {
        "allow" => Kind::Allow,
        "ask" => Kind::Ask,
        "deny" => Kind::Deny,
        _ => return None,
    };
    let text = |rule: &Value| {
        let tool = rule["toolName"].as_str()?;
        let content = rule["ruleContent"].as_str().filter(|content| !content.is_empty());
        Some(content.map_or(tool.to_owned(), |content| format!("{tool}({content})")))
    };
    let rules = update["rules"].as_array()?.iter().filter_map(text).collect();
    Some(Update::Rules { change, kind, rules, destination })
}

/// The answer to the request with this id, as an event.
pub fn answer(id: &Value, answer: Result<Option<Value>, Refusal>) -> Value {
    let response = match answer {
        Ok(None) => json!({"subtype": "success", "request_id": id}),
        Ok(Some(value)) => json!({"subtype": "success", "request_id": id, "response": value}),
        Err(Refusal { why, code: None }) => {
            json!({"subtype": "error", "request_id": id, "error": why})
        }
        Err(Refusal { why, code }) => {
            json!({"subtype": "error", "request_id": id, "error": why, "error_code": code})
        }
    };
    json!({"type": "control_response", "response": response})
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
