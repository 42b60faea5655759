//! The binary `quipu`: parses the command line, runs the command, maps its outcome to an exit code.
//!
//! Everything that the program takes from its surroundings (environment, clock, terminal) enters
//! here and is passed on in a [`World`]; commands touch nothing else. A closed pipe is success.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod args;
mod as_json;
mod catalog;
mod command;
mod compaction;
mod config;
mod csv;
mod damage;
mod document;
mod failure;
mod global;
mod handover;
mod headline;
mod health;
mod images;
mod jobs;
mod markup;
mod moment;
mod out;
mod outside;
mod page;
mod pager;
mod pick;
mod prices;
mod project;
mod prospect;
mod range;
mod receiver;
mod record;
mod redact;
mod refusal;
mod resume_command;
mod samples;
mod screen;
mod select;
mod surgery;
mod survey;
mod table;
mod text;
mod threads;
mod turn_list;
mod unnamed;
mod version;
mod view_args;
mod world;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;
use crate::handover::Handed;
use crate::pick::Deed;
use crate::unnamed::Unnamed;
use crate::world::World;

/// Commands of Claude Code. Sent as prompts they would cost money, and not do what they are for.
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

/// Whether the program was started under the name `claude`.
fn is_claude(args: &[OsString]) -> bool {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    name.is_some_and(|name| name == "claude")
}

/// Under the name `claude`, the program is `quipu chat`; for `--version` it still says that it is
/// quipu.
fn named(mut args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    if is_claude(&args) {
        match args.get(1) {
            Some(first) if first == "-v" || first == "--version" => args[1] = "--version".into(),
            Some(first) if first == "chat" => {}
            _ => {
                let words = args.iter().skip(1).map(|word| word.to_string_lossy());
                // After `--`, no word is a command.
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
    let message =
        format!("`{word}` is a Claude Code command, but this is quipu under the name `claude`");
    let hint = "run Claude Code by its own path; to send it as a prompt, use more than one word";
    Err(Failure::usage(message, Some(hint)))
}

/// The same for a prompt after options with values, which only the parser can tell apart.
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

/// Whether the client runs this as a hook: exit code 2 would then stop its turn.
fn is_hook(args: &[OsString]) -> bool {
    args.windows(2).any(|two| two[0] == "hook" && two[1] == "stop")
}

/// The exit code of a hook that fails: 0, because the failure is in its log, unless the user gave
/// `--strict`.
fn hook_failed(args: &[OsString]) -> ExitCode {
    ExitCode::from(u8::from(args.iter().any(|arg| arg == "--strict")))
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The sandbox of a command: the program starts itself in it.
    if let Some(code) = sandbox::entered() {
        return ExitCode::from(code);
    }
    let given: Vec<OsString> = std::env::args_os().collect();
    let args = match named(given.clone()) {
        Ok(args) => args,
        Err(failure) => {
            failure.report();
            return failure.exit_code();
        }
    };
    // Before anything else: this may be all that the process does.
    let handed = handover::take(&given, &args);
    if let Some(unnamed) = unnamed(&args) {
        return ended(&args, pick_and_run(unnamed, handed));
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if is_hook(&args) && error.use_stderr() => {
            // If stderr is closed, nothing can be reported.
            let _ = error.print();
            return hook_failed(&args);
        }
        Err(error) => error.exit(),
    };
    let world = refuse_prompt(&args, &cli).and_then(|()| World::new(&cli.global, handed));
    let outcome = world.and_then(|mut world| {
        let outcome = args::run(&mut world, cli.command);
        finished(&mut world, outcome)
    });
    ended(&args, outcome)
}

/// The command line, if the user can pick the session that it lacks: data for another program does
/// not wait for that.
fn unnamed(args: &[OsString]) -> Option<Unnamed> {
    let is_seen = world::has_screen() && std::io::stdout().is_terminal();
    is_seen.then(|| Unnamed::of(args)).flatten()
}

/// Runs a command with the session that the user picks.
fn pick_and_run(unnamed: Unnamed, handed: Handed) -> Result<(), Failure> {
    let mut world = World::new(&unnamed.global, handed)?;
    let outcome = unnamed.pick(&mut world).and_then(|picked| match picked.deed {
        Deed::Open => {
            let cli = Cli::try_parse_from(unnamed.named(&picked.name));
            let cli = cli.map_err(|error| Failure::usage(error.to_string(), None))?;
            args::run(&mut world, cli.command)
        }
        Deed::Resume | Deed::Fork => args::carry_out(&mut world, &picked),
    });
    finished(&mut world, outcome)
}

/// The outcome of a command whose output is complete.
fn finished(world: &mut World, outcome: Result<(), Failure>) -> Result<(), Failure> {
    let finished = world.out.finish().map_err(Failure::from);
    match (outcome, finished) {
        // A verdict that could not be printed does not count.
        (Err(verdict), Err(failure)) if verdict.is_verdict() && !failure.is_closed_pipe() => {
            Err(failure)
        }
        (outcome, finished) => outcome.and(finished),
    }
}

/// Reports the outcome.
fn ended(args: &[OsString], outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            if is_hook(args) { hook_failed(args) } else { failure.exit_code() }
        }
    }
}
