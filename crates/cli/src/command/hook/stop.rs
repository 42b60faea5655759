//! `quipu hook stop`: what the client runs when a turn ends.
//!
//! It notes what it is told, starts the work in a process of its own, and ends. Invariants: nothing of the session is read here, whatever its size; the exit code is 0, or 1 if `--strict` asks for
//! it, never 2: that would stop the client's turn.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::{Command, Stdio};

use super::job::Job;
use super::log;
use crate::failure::Failure;
use crate::receiver::{Receiver, ReceiverArgs};
use crate::world::World;

/// Ship what is new in a session; the client runs this
///
/// Reads what Claude Code tells a hook (`Stop`, `SubagentStop`, `SessionEnd`) on stdin and returns at once; the work goes on in the background. What it did is in a log: `quipu hook status` shows its end.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub(super) receiver: ReceiverArgs,
    /// Exit with 1 if the turn cannot be taken on; else it is always 0
    #[arg(long)]
    strict: bool,
}

/// More than this no hook is told.
const MOST: u64 = 4 << 20;

pub(super) fn stop(world: &mut World, args: &StopArgs) -> Result<(), Failure> {
    match take(world, args) {
        Ok(()) => Ok(()),
        Err(failure) => {
            log::write(world, &format!("hook: {failure}"));
            if args.strict { Err(failure) } else { Ok(()) }
        }
    }
}

fn take(world: &World, args: &StopArgs) -> Result<(), Failure> {
    let bad = |why: String| {
        let hint = "the client gives it on stdin; see `quipu hook install`";
        Failure::usage(format!("what the hook was told is not understood: {why}"), Some(hint))
    };
    let mut told = Vec::new();
    if io::stdin().is_terminal() {
        return Err(bad("it is told nothing".to_owned()));
    }
    io::stdin().take(MOST).read_to_end(&mut told).map_err(|error| bad(error.to_string()))?;
    let job: Job = serde_json::from_slice(&told).map_err(|error| bad(error.to_string()))?;
    let receiver = Receiver::find(world, &args.receiver)?;
    let unwritable = |error| Failure::unwritable(&receiver.shelf.folder, error);
    job.heard(&world.cwd, world.now).put(&receiver.shelf).map_err(unwritable)?;
    start().map_err(unwritable)
}

/// Starts the work with the same arguments. It has no terminal and no pipe of ours: whoever waits for the hook does not wait for it.
fn start() -> io::Result<()> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    // `hook stop` becomes `hook work`; the last two such words are the command.
    if let Some(at) = arguments.windows(2).rposition(|two| two[0] == "hook" && two[1] == "stop") {
        arguments[at + 1] = "work".into();
    }
    let mut work = Command::new(std::env::current_exe()?);
    work.args(arguments);
    work.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // What ends the client and its hooks does not end it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut work, 0);
    work.spawn().map(drop)
}
