//! `quipu lake check`: what is wrong with the lake.

use std::io::Write as _;

use lake::Audit;
use serde::Serialize;

use super::{Lake, TargetArgs, failure};
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::text::{count, one_line, size};
use crate::world::World;

/// Check that the lake can be read and written, and has what this machine pushed
///
/// Lists all tables; writes one object that engines do not see, and deletes it; compares what is
/// there with what was pushed: gone, of another size, there twice, torn; in a folder, also with
/// other bytes. Exits with 7 if anything is wrong.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The whole of `--json`.
#[derive(Serialize)]
struct CheckJson<'a> {
    v: u32,
    to: &'a str,
    machine: &'a str,
    objects: u64,
    bytes: u64,
    machines: u64,
    sessions: u64,
    problems: &'a [String],
    more: u64,
}

pub(crate) fn check(world: &mut World, args: &CheckArgs) -> Result<(), Failure> {
    let lake = Lake::open(world, &args.target)?;
    let (state, _held) = lake.state()?;
    let audit = lake::audit(&lake.target, &state, &lake.machine, &lake.former)
        .map_err(|error| failure(&error))?;
    let to = lake.target.shown();
    let Audit { objects, bytes, machines, sessions, problems, more } = &audit;
    if args.json {
        world.out.json(&CheckJson {
            v: JSON_VERSION,
            to: &to,
            machine: &lake.machine,
            objects: *objects,
            bytes: *bytes,
            machines: *machines,
            sessions: *sessions,
            problems,
            more: *more,
        })?;
    } else {
        writeln!(
            world.out,
            "{to} can be read and written: {}, {}, of {}; {} of this machine ({}).",
            count(*objects, "object"),
            size(*bytes),
            count(*machines, "machine"),
            count(*sessions, "session"),
            lake.machine,
        )?;
        for problem in problems {
            writeln!(world.out, "  {}", one_line(problem))?;
        }
        if *more > 0 {
            writeln!(world.out, "  … and {more} more")?;
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let message = format!("{} with {to}", count(problems.len() as u64 + more, "problem"));
    Err(Failure::undelivered(
        message,
        Some("`quipu lake push --all --again` writes everything again"),
    ))
}
