//! The requests of the control protocol of Claude Code 2.1.325, and what becomes of each.
//!
//! Invariant: every request of that version is listed once; `docs/agent.md` has the same table.

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It is carried out, and answered.
    Done,
    /// It is answered.
    Answered,
    /// It is answered and has no effect; why.
    Idle(&'static str),
    /// It is refused; why.
    Refused(&'static str),
    /// The client sends it, hosts do not; whether this one does.
    FromClient(&'static str),
}

const MCP: Handling = Handling::Refused("MCP servers are not supported");
const AT_START: Handling = Handling::Refused("files are read once, at the start of the session");
const SETTINGS: Handling =
    Handling::Refused("settings are read once, at the start; `--settings` adds to them");

/// The requests, by name.
pub const REQUESTS: [(&str, Handling); 41] = [
    ("apply_flag_settings", SETTINGS),
    ("background_tasks", Handling::Done),
    ("can_use_tool", Handling::FromClient("sent, with `--permission-prompt-tool stdio`")),
    (
        "cancel_async_message",
        Handling::Refused("a message that waits cannot be taken back; `interrupt` ends the turn"),
    ),
    ("elicitation", Handling::FromClient("never sent: MCP servers are not supported")),
    ("file_suggestions", Handling::Refused("completion of names is for terminals")),
    ("get_binary_version", Handling::Answered),
    ("get_context_usage", Handling::Answered),
    ("get_hooks_listing", Handling::Refused("`quipu chat --settings-check --json` lists hooks")),
    ("get_session_cost", Handling::Answered),
    ("get_settings", Handling::Refused("`quipu chat --settings-check --json` prints settings")),
    ("get_task_output", Handling::Answered),
    (
        "get_usage",
        Handling::Refused(
            "the limits of a plan are not known with a key; `get_session_cost` has the cost",
        ),
    ),
    ("hook_callback", Handling::FromClient("sent for the hooks of `initialize`")),
    ("initialize", Handling::Done),
    ("interrupt", Handling::Done),
    ("list_models", Handling::Answered),
    (
        "list_permission_rules",
        Handling::Refused("`quipu chat --settings-check --json` lists rules"),
    ),
    ("mcp_call", MCP),
    ("mcp_message", Handling::FromClient("never sent: MCP servers are not supported")),
    ("mcp_read_resource", MCP),
    ("mcp_reconnect", MCP),
    ("mcp_set_servers", MCP),
    ("mcp_status", Handling::Answered),
    ("mcp_toggle", MCP),
    ("read_file", Handling::Refused("a host reads files itself")),
    ("register_repo_root", Handling::Refused("`--add-dir` adds folders")),
    ("reload_output_styles", Handling::Refused("there are no output styles")),
    ("reload_plugins", Handling::Refused("there are no plugins")),
    ("reload_skills", AT_START),
    ("rename_session", Handling::Done),
    ("request_user_dialog", Handling::FromClient("never sent")),
    ("rewind_files", Handling::Done),
    ("seed_read_state", Handling::Idle("the contents of files count, not their times")),
    ("set_color", Handling::Refused("there is no screen")),
    ("set_has_subscribers", Handling::Idle("nothing depends on it")),
    ("set_max_thinking_tokens", Handling::Done),
    ("set_model", Handling::Done),
    ("set_permission_mode", Handling::Done),
    ("stop_task", Handling::Done),
    ("update_settings", SETTINGS),
];

/// Why a request is refused.
pub(super) fn refusal(subtype: &str) -> String {
    let known = REQUESTS.iter().find(|(name, _)| *name == subtype);
    match known {
        Some((_, Handling::Refused(why))) => {
            format!("quipu does not support the control request {subtype}: {why}")
        }
        Some((_, Handling::FromClient(_))) => {
            format!("the control request {subtype} is for hosts to answer, not to send")
        }
        _ => format!("Unsupported control request subtype: {subtype}"),
    }
}
