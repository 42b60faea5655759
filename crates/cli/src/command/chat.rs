//! `quipu chat`: the agent.

mod cold;
mod console;
mod debug;
mod demo;
mod explain;
mod failed;
mod input;
mod notices;
mod start;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc;

use agent::Session;
use agent::drive::{Departure, NOBODY};
use agent::host::{Asking, Format, Headless, Host};

use crate::failure::Failure;
use crate::images;
use crate::out::Visible;
use crate::world::World;

/// Run an agent that reads and changes files and runs commands here; Claude Code can resume its
/// sessions
///
/// An independent client of the Messages API. It needs its own key (`ANTHROPIC_API_KEY` or
/// `ANTHROPIC_AUTH_TOKEN`); `--offline` needs none. It writes sessions as Claude Code 2.1.45 does,
/// and resumes sessions of every version. In a terminal it is a console: `?` lists its keys,
/// `/help` its commands. `-p` prints the answer to one prompt, or to a stream of prompts; there,
/// calls that would need a question are put to the host (`--permission-prompt-tool stdio`), and
/// refused where there is none.
///
/// Commands run in a sandbox: they write only in the session's folders, see no keys and tokens, and
/// have no network (docs/sandbox.md). Until you trust a folder (`--trust`), its
/// `.claude/settings.json` and `.claude/settings.local.json` can forbid but not allow, and git does
/// not run there. A setting that restricts and cannot be honoured here (hooks that are no
/// commands, rules that cannot be parsed) ends the run with exit code 2.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags, named as in Claude Code")]
pub(crate) struct ChatArgs {
    /// The prompt; the standard input is appended to it
    prompt: Option<String>,
    /// Print the answer and exit
    #[arg(short, long)]
    print: bool,
    /// Continue the newest session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume")]
    continues: bool,
    /// Resume a session: its id, the start of its id, its file, or its title; without a value, pick
    /// one in the terminal
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// With `--resume` or `--continue`: go on from this record, and leave what follows it aside
    #[arg(long, value_name = "UUID")]
    resume_session_at: Option<String>,
    /// Continue in a new session, and leave the old one unchanged
    #[arg(long)]
    fork_session: bool,
    /// The id of the new session: a UUID
    #[arg(long, value_name = "UUID")]
    session_id: Option<String>,
    /// A title for the session, to find and resume it by
    #[arg(short, long, value_name = "TITLE")]
    name: Option<String>,
    /// `text`: the answer; `json`: one object; `stream-json`: one event per line (needs
    /// `--verbose`)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: Output,
    /// `text`: one prompt; `stream-json`: one message per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    input_format: In,
    /// Print all events, not only the last one
    #[arg(long)]
    verbose: bool,
    /// Print the version that sessions are written as, and Quipu's: for hosts, which ask for it
    #[arg(short = 'v', long)]
    version: bool,
    /// With `stream-json`: also print the events of the API's stream
    #[arg(long)]
    include_partial_messages: bool,
    /// With `stream-json` input and output: print each message again when it is taken
    #[arg(long)]
    replay_user_messages: bool,
    /// At most this many requests per prompt
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Stop before the next request once the run has cost so many dollars
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_budget_usd: Option<f64>,
    /// How many tokens of an answer may be thinking
    #[arg(long, value_name = "N")]
    max_thinking_tokens: Option<u64>,
    /// The model: its name, or `opus`, `sonnet`, `haiku`
    #[arg(long)]
    model: Option<String>,
    /// The model that goes on with the turn after the other one was overloaded three times in a
    /// row; several, with commas, are tried in this order
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    fallback_model: Vec<String>,
    /// How many tokens count as the model's window, after which the conversation is summarised:
    /// `auto`, or 100k to 1m
    #[arg(long, value_name = "TOKENS", value_parser = window)]
    autocompact: Option<Window>,
    /// How much the model is to think and write
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "xhigh", "max"])]
    effort: Option<String>,
    /// Features of the API that requests ask for in addition (`anthropic-beta`)
    #[arg(long, value_name = "NAME", num_args = 1..)]
    betas: Vec<String>,
    /// The JSON Schema of the result: it is checked, and printed instead of the answer
    #[arg(long, value_name = "SCHEMA")]
    json_schema: Option<String>,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Replace the system prompt by the text of a file
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt")]
    system_prompt_file: Option<PathBuf>,
    /// Append to the system prompt
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// Append the text of a file to the system prompt
    #[arg(long, value_name = "FILE", conflicts_with = "append_system_prompt")]
    append_system_prompt_file: Option<PathBuf>,
    /// Tell the model where it works before the first prompt, and not in the system prompt, which
    /// is the same everywhere then
    #[arg(long)]
    exclude_dynamic_system_prompt_sections: bool,
    /// `off`: a resumed session has the system prompt of now, not that of its beginning
    #[arg(long, value_name = "ON_OR_OFF", default_value = "on")]
    system_prompt_snapshot: Switch,
    /// Another folder that tools may work in
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    add_dir: Vec<PathBuf>,
    /// Settings: a file, or JSON
    #[arg(long, value_name = "SETTINGS")]
    settings: Option<String>,
    /// Which settings files count: `user`, `project`, `local`; an administrator's always do
    #[arg(long, value_name = "SOURCES")]
    setting_sources: Option<String>,
    /// What needs no question: `Bash(git diff:*)`, `Edit(src/**)`, `WebFetch(domain:x.org)`, `Bash`
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULE", num_args = 1..)]
    allowed_tools: Vec<String>,
    /// What is refused, in every mode; a tool without brackets is not offered at all
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULE", num_args = 1..)]
    disallowed_tools: Vec<String>,
    /// The only tools: `Bash,Edit,Read`; an empty text for none, `default` for all
    #[arg(long, value_name = "TOOL", num_args = 1..)]
    tools: Vec<String>,
    /// `default`, `acceptEdits` (files in this folder may be changed), `plan` (nothing is changed),
    /// `dontAsk` (what would be a question is refused), `auto` (as `acceptEdits`, and commands in
    /// the sandbox) or `bypassPermissions` (everything is allowed)
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// Allow everything; meant for places where nothing can be broken. Root needs `IS_SANDBOX=1`
    /// for it
    #[arg(long)]
    dangerously_skip_permissions: bool,
    /// Let a host allow everything later, with `set_permission_mode`
    #[arg(long)]
    allow_dangerously_skip_permissions: bool,
    /// Who is asked whether calls may run; `stdio`: the host, by `can_use_tool` requests
    #[arg(long, value_name = "WHO")]
    permission_prompt_tool: Option<PromptTool>,
    /// `none`: nobody is asked, also if there is somebody
    #[arg(long, value_name = "WHO", default_value = "host")]
    permission_prompts: Prompts,
    /// Nothing to do: what sub-agents write is always in the stream of events
    #[arg(long, hide = true)]
    forward_subagent_text: bool,
    /// The sandbox of commands: `on` (as much as the kernel can, and what not is said), `require`
    /// (all of it, or nothing runs) or `off`
    #[arg(long, value_name = "HOW", default_value = "on")]
    sandbox: SandboxArg,
    /// Whether commands in the sandbox have the network; without this, only with
    /// `bypassPermissions`
    #[arg(long, value_name = "ON_OR_OFF")]
    sandbox_network: Option<Switch>,
    /// Raise or lower what one command may use up: `processes`, `memory`, `file`, `open`; for
    /// example `memory=16g`
    #[arg(long, value_name = "NAME=NUMBER", num_args = 1..)]
    sandbox_limit: Vec<String>,
    /// Take no images of the session's folders before and after commands: what they change cannot
    /// be undone then (docs/undo.md)
    #[arg(long)]
    no_snapshots: bool,
    /// Say what would be decided about a command, or the input of another tool, and why; run
    /// nothing
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    explain: Option<String>,
    /// With `--explain`: the tool
    #[arg(long, value_name = "NAME", default_value = "Bash", requires = "explain")]
    tool: String,
    /// Show the merged settings, and where each value comes from
    #[arg(long)]
    settings_check: bool,
    /// With `--explain` and `--settings-check`: print JSON
    #[arg(long)]
    json: bool,
    /// Trust this folder from now on, and everything below it except other repositories; without a
    /// prompt, do nothing else
    #[arg(long)]
    trust: bool,
    /// Run no hooks of the settings, except for an administrator's
    #[arg(long)]
    ignore_hooks: bool,
    /// In a terminal: print lines only, with numbered choices; for screen readers
    #[arg(long)]
    ax_screen_reader: bool,
    /// Print on stderr what happens: requests, calls, hooks, sub-agents, summaries; KINDS: only
    /// some of these (`--debug=api,tools,hooks,agents,compaction`)
    #[arg(short, long, value_name = "KINDS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    debug: Option<String>,
    /// The same, into a file
    #[arg(long, value_name = "FILE")]
    debug_file: Option<PathBuf>,
    /// With `stream-json`: also print which hooks run
    #[arg(long)]
    include_hook_events: bool,
    /// More sub-agents: `{"NAME": {"description": …, "prompt": …, "tools": […]}}`, or a file
    /// with it
    #[arg(long, value_name = "JSON_OR_FILE")]
    agents: Option<String>,
    /// Be this agent: its prompt, its tools, its model
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Ignore commands and skills of the user and the project
    #[arg(long)]
    disable_slash_commands: bool,
    /// Not supported: MCP servers are refused
    #[arg(long, value_name = "CONFIG", num_args = 1.., hide = true)]
    mcp_config: Vec<String>,
    /// Nothing to do: there are no MCP servers
    #[arg(long, hide = true)]
    strict_mcp_config: bool,
    /// Do not save the session
    #[arg(long)]
    no_session_persistence: bool,
    /// Try it without a key: a scripted demonstration; FILE: your own script
    /// (docs/agent.md#scripts)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option, reason = "absent, present, with a file")]
    offline: Option<Option<PathBuf>>,
    /// Why the user left another session for this one.
    #[arg(skip)]
    after: Option<Departure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PromptTool {
    Stdio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SandboxArg {
    On,
    Require,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Prompts {
    Host,
    None,
}

/// `--autocompact`.
type Window = agent::session::CompactWindow;

/// Reads `auto`, `200000`, `200k` or `1m`.
fn window(text: &str) -> Result<Window, String> {
    let text = text.to_ascii_lowercase();
    if text == "auto" {
        return Ok(Window::Models);
    }
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1_000),
        None => text.strip_suffix('m').map_or((text.as_str(), 1), |number| (number, 1_000_000)),
    };
    let tokens = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match tokens {
        Some(tokens) if (100_000..=1_000_000).contains(&tokens) => Ok(Window::Tokens(tokens)),
        _ => Err("it is `auto`, or a number of tokens from 100k to 1m".to_owned()),
    }
}

/// Reads an amount that something may cost.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "it is a number of dollars above 0".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum In {
    Text,
    StreamJson,
}

impl ChatArgs {
    /// The prompt, if it was given as an argument.
    pub(crate) fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Whether there is nothing to do except trusting the folder.
    fn only_trusts(&self) -> bool {
        let talks = self.print || self.prompt.is_some() || self.input_format == In::StreamJson;
        self.trust && !talks && self.offline.is_none()
    }
}

pub(crate) fn chat(world: &mut World, args: &ChatArgs) -> Result<(), Failure> {
    if args.version {
        let (written, version) = (agent::dialect_version(), env!("CARGO_PKG_VERSION"));
        return Ok(writeln!(world.out, "{written} (Quipu {version})")?);
    }
    if args.explain.is_some() || args.settings_check {
        return explain::explain(world, args);
    }
    if args.only_trusts() {
        return start::trust(world);
    }
    images::settle(world)?;
    if console::is_wanted(args) {
        return console::run(world, args);
    }
    let format = format(args)?;
    let demo = demo::lab(args)?;
    let prompt = input::prompt(world, args, demo.as_ref())?;
    if let Some(demo) = &demo {
        world.out.note(&format!(
            "running a demonstration in `{}`; its files stay there",
            demo.cwd.display()
        ))?;
    }
    let (notes, inbox) = mpsc::channel();
    let session = start::start(world, args, demo.as_ref(), notes.clone())?;
    let Session { mut driver, mut init, scratch: _scratch } = session;
    init.shows_hooks = args.include_hook_events;
    input::signals(&notes, &driver.site);
    input::reader(&notes);
    input::say(prompt, args.replay_user_messages, notes);
    // Notes so far appear before the output of the session.
    world.out.finish()?;
    let out = std::io::stdout();
    // A terminal does not obey what a model says; programs get the bytes unchanged.
    let out: Box<dyn Write> =
        if out.is_terminal() { Box::new(Visible(out)) } else { Box::new(out) };
    let asking = match (args.permission_prompt_tool, args.permission_prompts) {
        (Some(PromptTool::Stdio), Prompts::Host) => Asking::Host,
        _ => Asking::Nobody,
    };
    let face = Headless::new(format, init, out, driver.nature.clone()).asking(asking);
    let mut face = debug::Watched::new(face, args)?;
    let code = driver.run(&inbox, &mut face);
    if let Some(images) = &driver.site.images {
        images.close();
        images::tidy(world)?;
    }
    // The program ends here: freeing the memory of a long session piece by piece would take longer
    // than exiting.
    std::mem::forget(driver);
    // A reader that closed the pipe after everything was done has all of the output.
    if code == 0 || (face.is_gone() && code != NOBODY) { Ok(()) } else { Err(Failure::ended(code)) }
}

fn format(args: &ChatArgs) -> Result<Format, Failure> {
    let usage = |text: &str, hint: &str| Err(Failure::usage(text, Some(hint)));
    if args.input_format == In::StreamJson && args.output_format != Output::StreamJson {
        return usage(
            "`--input-format stream-json` needs the same output",
            "add `--output-format stream-json`",
        );
    }
    Ok(match args.output_format {
        Output::Text => Format::Text,
        Output::Json => Format::Json { all: args.verbose },
        Output::StreamJson if !args.verbose => {
            return usage("`--output-format stream-json` needs `--verbose`", "add `--verbose`");
        }
        Output::StreamJson => Format::Stream { partial: args.include_partial_messages },
    })
}
