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
mod samples;
mod store;
mod surgery;
mod table;
mod text;
mod world;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;
use crate::world::World;

fn main() -> ExitCode {
    let cli = Cli::parse();
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
