//! `quipu chat`: the agent.

mod demo;
mod input;
mod kept;
mod resumed;
mod settings;
mod start;
mod trusted;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc;

use agent::drive::NOBODY;
use agent::face::{Face, Format, Headless};

use crate::failure::Failure;
use crate::text::Screen;
use crate::world::World;

/// Talk with a model that reads, changes and runs things here; Claude Code can go on with the
/// session
///
/// An independent client of the Messages API: it needs a key of its own (`ANTHROPIC_API_KEY` or
/// `ANTHROPIC_AUTH_TOKEN`), and `--offline` needs none. Sessions are written as Claude Code 2.1.45
/// writes them, and sessions of every version can be resumed. So far without a screen: `-p` prints
/// what comes of one prompt, or of a stream of them. Without `--dangerously-skip-permissions` or
/// another mode, what would have to be asked is refused to the model.
///
/// What a folder brings along is obeyed only once you trust it (`--trust`): until then its
/// `.claude/settings.json` and `.claude/settings.local.json` can forbid and not allow, and git is
/// not started there. A setting that restricts and cannot be honoured here (hooks that can refuse,
/// a sandbox, rules that are not understood) ends the run with exit code 2.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags, and named by the original")]
pub(crate) struct ChatArgs {
    /// The prompt; what comes on the standard input goes behind it
    prompt: Option<String>,
    /// Print the answer and end
    #[arg(short, long)]
    print: bool,
    /// Go on with the newest session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume")]
    continues: bool,
    /// Go on with a session: its id, the beginning of it, its file, or its title
    #[arg(short, long, value_name = "SESSION")]
    resume: Option<String>,
    /// Go on in a new session, and leave the old one as it is
    #[arg(long)]
    fork_session: bool,
    /// The id of the new session: a UUID
    #[arg(long, value_name = "UUID")]
    session_id: Option<String>,
    /// A title for the session, to find and to resume it by
    #[arg(short, long, value_name = "TITLE")]
    name: Option<String>,
    /// `text`: the answer; `json`: one object; `stream-json`: an event a line (needs `--verbose`)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: Output,
    /// `text`: one prompt; `stream-json`: a message a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    input_format: In,
    /// All events, not only the last one
    #[arg(long)]
    verbose: bool,
    /// With `stream-json`: also the events of the API's stream
    #[arg(long)]
    include_partial_messages: bool,
    /// With `stream-json` both ways: messages come again as they are taken
    #[arg(long)]
    replay_user_messages: bool,
    /// At most so many requests for a prompt
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// The model: its name, or `opus`, `sonnet`, `haiku`
    #[arg(long)]
    model: Option<String>,
    /// Another system prompt
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// More for the system prompt
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// A folder beside this one that tools may work in
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    add_dir: Vec<PathBuf>,
    /// Settings: a file, or JSON
    #[arg(long, value_name = "SETTINGS")]
    settings: Option<String>,
    /// Tools that may do anything
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "TOOL", num_args = 1..)]
    allowed_tools: Vec<String>,
    /// Tools that are switched off
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "TOOL", num_args = 1..)]
    disallowed_tools: Vec<String>,
    /// `default`, `acceptEdits` (files in this folder may be changed) or `bypassPermissions` (everything)
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// Everything is permitted; meant for places where nothing can be broken. Root needs
    /// `IS_SANDBOX=1` for it
    #[arg(long)]
    dangerously_skip_permissions: bool,
    /// A host may have everything permitted later, by `set_permission_mode`
    #[arg(long)]
    allow_dangerously_skip_permissions: bool,
    /// Trust this folder from now on, and what is below it except other repositories; without a
    /// prompt, do only that
    #[arg(long)]
    trust: bool,
    /// Go on although hooks in the settings could refuse something: hooks do not run here yet. An
    /// administrator's still end the run
    #[arg(long)]
    ignore_hooks: bool,
    /// Keep no session
    #[arg(long)]
    no_session_persistence: bool,
    /// Without key and network: a scripted model; without a script a small demonstration in a folder of its own
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option, reason = "absent, present, with a file")]
    offline: Option<Option<PathBuf>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum In {
    Text,
    StreamJson,
}

impl ChatArgs {
    /// The prompt, if it was typed.
    pub(crate) fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Whether there is nothing to do but to trust the folder.
    fn only_trusts(&self) -> bool {
        let talks = self.print || self.prompt.is_some() || self.input_format == In::StreamJson;
        self.trust && !talks && self.offline.is_none()
    }
}

pub(crate) fn chat(world: &mut World, args: &ChatArgs) -> Result<(), Failure> {
    if args.only_trusts() {
        return start::trust(world);
    }
    let format = format(args)?;
    let demo = demo::lab(args)?;
    let prompt = input::prompt(world, args, demo.as_ref())?;
    if let Some(demo) = &demo {
        world.out.note(&format!(
            "a demonstration, in `{}`: look at what it leaves there",
            demo.cwd.display()
        ))?;
    }
    let (notes, inbox) = mpsc::channel();
    let started = start::start(world, args, demo.as_ref(), notes.clone())?;
    let start::Started { mut driver, init, nature, scratch: _scratch } = started;
    input::signals(&notes, &driver.site);
    input::reader(&notes);
    input::say(prompt, args.replay_user_messages, notes);
    // What was noted so far comes before what the session says.
    world.out.finish()?;
    let out = std::io::stdout();
    // What a model says is shown, and not obeyed; programs get it as it is.
    let out: Box<dyn Write> = if out.is_terminal() { Box::new(Screen(out)) } else { Box::new(out) };
    let mut face = Headless::new(format, init, out, nature);
    let code = driver.run(&inbox, &mut face);
    // The program ends here: giving a long session's memory back bit by bit would take longer than that.
    std::mem::forget(driver);
    // Whoever closed the pipe when all was done has what they wanted.
    if code == 0 || (face.is_gone() && code != NOBODY) { Ok(()) } else { Err(Failure::ended(code)) }
}

fn format(args: &ChatArgs) -> Result<Format, Failure> {
    let usage = |text: &str, hint: &str| Err(Failure::usage(text, Some(hint)));
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal && !args.print && args.offline.is_none() {
        return usage("there is no screen for talks yet", "give `-p` and a prompt");
    }
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
