//! The binary `quipu`: parses, runs, maps the outcome to an exit code.
//!
//! Everything that the program takes from its surroundings (environment, clock, terminal) comes in here
//! and goes on in a [`World`]; commands touch nothing else. A closed pipe is success.

mod args;
mod command;
mod config;
mod failure;
mod markup;
mod out;
mod page;
mod pager;
mod receiver;
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

fn main() -> ExitCode {
    let cli = Cli::parse_from(named(std::env::args_os().collect()));
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
            failure.exit_code()
        }
    }
}
