//! The binary `quipu`: parses, runs, maps the outcome to an exit code.
//!
//! Everything that the program takes from its surroundings (environment, clock, terminal) comes in here
//! and goes on in a [`World`]; commands touch nothing else. A closed pipe is success.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod args;
mod command;
mod config;
mod failure;
mod handover;
mod markup;
mod out;
mod page;
mod pager;
mod project;
mod receiver;
mod redact;
mod samples;
mod store;
mod surgery;
mod table;
mod text;
mod version;
mod world;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;
use crate::world::World;

/// Commands of the original. Sent as a prompt they would cost money, and do nothing of what they
/// say.
const COMMANDS: [&str; 38] = [
    "agents",
    "attach",
    "auth",
    "auto-mode",
    "bridge",
    "config",
    "daemon",
    "doctor",
    "eval",
    "gateway",
    "import",
    "import-conversations",
    "install",
    "kill",
    "login",
    "logout",
    "logs",
    "mcp",
    "migrate-installer",
    "open",
    "plugin",
    "plugins",
    "project",
    "purge",
    "rc",
    "remote",
    "remote-control",
    "respawn",
    "rm",
    "sandbox",
    "server",
    "setup-token",
    "stop",
    "ultrareview",
    "uninstall",
    "update",
    "upgrade",
    "workspace-trust",
];

/// Whether the program is called by the name of the original.
fn is_claude(args: &[OsString]) -> bool {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    name.is_some_and(|name| name == "claude")
}

/// Called under the name of the original, the program is `quipu chat`; asked who it is, it says so.
fn named(mut args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    if is_claude(&args) {
        match args.get(1) {
            Some(first) if first == "-v" || first == "--version" => args[1] = "--version".into(),
            Some(first) if first == "chat" => {}
            _ => {
                let words = args.iter().skip(1).map(|word| word.to_string_lossy());
                // Behind `--` nothing is a command.
                let mut words = words.take_while(|word| word != "--");
                let first = words.find(|word| !word.starts_with('-'));
                refuse_command(first.as_deref().unwrap_or_default())?;
                args.insert(1, "chat".into());
            }
        }
    }
    Ok(args)
}

fn refuse_command(word: &str) -> Result<(), Failure> {
    if !COMMANDS.contains(&word) {
        return Ok(());
    }
    let message = format!("`{word}` is a command of Claude Code, and this is quipu under its name");
    let hint =
        "start Claude Code by its own path for that; as a prompt, say it in more than one word";
    Err(Failure::usage(message, Some(hint)))
}

/// The same behind flags with values, which only the parser knows.
fn refuse_prompt(args: &[OsString], cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Some(args::Command::Chat(chat))
            if is_claude(args) && !args.iter().any(|arg| arg == "--") =>
        {
            refuse_command(chat.prompt().unwrap_or_default())
        }
        _ => Ok(()),
    }
}

/// Whether the client runs this as a hook: there an exit code of 2 would stop its turn.
fn is_hook(args: &[OsString]) -> bool {
    args.windows(2).any(|two| two[0] == "hook" && two[1] == "stop")
}

/// A hook that fails is nobody's business but its log's, unless somebody asked.
fn hook_failed(args: &[OsString]) -> ExitCode {
    ExitCode::from(u8::from(args.iter().any(|arg| arg == "--strict")))
}

fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    let args = match named(given.clone()) {
        Ok(args) => args,
        Err(failure) => {
            failure.report();
            return failure.exit_code();
        }
    };
    // Before anything else: it may be all that this process does.
    let handed = handover::take(&given, &args);
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if is_hook(&args) && error.use_stderr() => {
            // If stderr is closed there is nobody to tell.
            let _ = error.print();
            return hook_failed(&args);
        }
        Err(error) => error.exit(),
    };
    let world = refuse_prompt(&args, &cli).and_then(|()| World::new(&cli.global, handed));
    let outcome = world.and_then(|mut world| {
        let outcome = command::run(&mut world, cli.command);
        let finished = world.out.finish().map_err(Failure::from);
        match (outcome, finished) {
            // A verdict that nobody could read is none.
            (Err(verdict), Err(failure)) if verdict.is_verdict() && !failure.is_closed_pipe() => {
                Err(failure)
            }
            (outcome, finished) => outcome.and(finished),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            if is_hook(&args) { hook_failed(&args) } else { failure.exit_code() }
        }
    }
}
