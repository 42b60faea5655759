//! The binary `quipu`: parses, runs, maps the outcome to an exit code.
//!
//! Everything that the program takes from its surroundings (environment, clock, terminal) comes in here
//! and goes on in a [`World`]; commands touch nothing else. A closed pipe is success.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod args;
mod command;
mod config;
mod failure;
mod markup;
mod out;
mod page;
mod pager;
mod receiver;
mod redact;
mod samples;
mod store;
mod surgery;
mod table;
mod text;
mod world;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;
use crate::world::World;

/// Called under the name of the original, the program is `quipu chat`; asked who it is, it says so.
fn named(mut args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "claude") {
        match args.get(1) {
            Some(first) if first == "-v" || first == "--version" => args[1] = "--version".into(),
            Some(first) if first == "chat" => {}
            _ => args.insert(1, "chat".into()),
        }
    }
    args
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
    let args = named(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if is_hook(&args) && error.use_stderr() => {
            // If stderr is closed there is nobody to tell.
            let _ = error.print();
            return hook_failed(&args);
        }
        Err(error) => error.exit(),
    };
    let outcome = World::new(&cli.global).and_then(|mut world| {
        let outcome = command::run(&mut world, cli.command);
        let finished = world.out.finish().map_err(Failure::from);
        match (outcome, finished) {
            // A verdict that nobody could read is none.
            (Err(told), Err(failure)) if told.is_verdict() && !failure.is_closed_pipe() => {
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
