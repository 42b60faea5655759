//! `quipu hook stop`: the command that the client runs when a turn ends.
//!
//! It saves the client's report, starts a separate process for the work, and exits. Invariants: the
//! session is not read here, whatever its size; an open stdin is not waited for longer than
//! [`PATIENCE`]; the exit code is 0, or 1 with `--strict`, never 2: that would stop the client's
//! turn.

use std::io::{self, IsTerminal as _, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use export::jobs::Job;

use crate::failure::Failure;
use crate::jobs;
use crate::receiver::{self, ReceiverArgs};
use crate::world::World;

/// Ship what is new in a session; the client runs this
///
/// Reads the report of Claude Code to a hook (`Stop`, `SubagentStop`, `SessionEnd`) on stdin and
/// returns at once, or after 5 seconds if nothing arrives; the work continues in the background. It
/// writes a log: `quipu hook status` shows the end of it, and what could not be read.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub(super) receiver: ReceiverArgs,
    /// Exit with 1 if the turn cannot be accepted; otherwise the exit code is always 0
    #[arg(long)]
    strict: bool,
}

/// The maximum size of a report, in bytes.
const MOST: usize = 4 << 20;
/// How long to wait for the client's report, and how long after a complete one.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn stop(world: &mut World, args: &StopArgs) -> Result<(), Failure> {
    match take(world, args) {
        Ok(()) => Ok(()),
        Err(failure) => {
            jobs::write(world, &format!("hook: {failure}"));
            if args.strict { Err(failure) } else { Ok(()) }
        }
    }
}

fn take(world: &World, args: &StopArgs) -> Result<(), Failure> {
    let bad = |why: String| {
        let hint = "the client writes it to stdin; see `quipu hook install`";
        Failure::usage(format!("cannot parse the hook's input: {why}"), Some(hint))
    };
    if io::stdin().is_terminal() {
        return Err(bad("there is none".to_owned()));
    }
    let input = listen(io::stdin().lock(), |wait| files::is_ready(&io::stdin(), wait), PATIENCE);
    let input = input.map_err(bad)?;
    let job: Job = serde_json::from_slice(&input).map_err(|error| bad(error.to_string()))?;
    let job = job.heard(&world.cwd, world.now).map_err(|error| bad(error.to_string()))?;
    let receiver = receiver::find(world, &args.receiver)?;
    let unwritable = |error| Failure::unwritable(&receiver.dir.folder, error);
    job.put(&receiver.dir).map_err(unwritable)?;
    start().map_err(unwritable)
}

/// The input up to its end. An input that stays open is not waited for: neither longer than
/// `patience`, nor longer than [`PAUSE`] after a complete object.
fn listen(
    mut input: impl Read,
    is_ready: impl Fn(Duration) -> io::Result<bool>,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let (begin, mut heard) = (Instant::now(), Vec::new());
    let mut part = vec![0; 1 << 14];
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        let wait = if is_whole(&heard) { left.min(PAUSE) } else { left };
        if left.is_zero() || !is_ready(wait).map_err(|error| error.to_string())? {
            let nothing = || format!("nothing arrived for {} seconds", patience.as_secs());
            return if heard.is_empty() { Err(nothing()) } else { Ok(heard) };
        }
        match input.read(&mut part) {
            Ok(0) => return Ok(heard),
            Ok(count) => heard.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
        if heard.len() > MOST {
            return Err(format!("it is longer than {MOST} bytes"));
        }
    }
}

fn is_whole(heard: &[u8]) -> bool {
    heard.trim_ascii_end().ends_with(b"}")
        && serde_json::from_slice::<serde::de::IgnoredAny>(heard).is_ok()
}

/// Starts the work with the same arguments. It inherits no terminal and no pipe, so a process that
/// waits for the hook does not wait for the work.
fn start() -> io::Result<()> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    // `hook stop` becomes `hook work`; the last two such words are the command.
    if let Some(at) = arguments.windows(2).rposition(|two| two[0] == "hook" && two[1] == "stop") {
        arguments[at + 1] = "work".into();
    }
    let mut work = Command::new(std::env::current_exe()?);
    work.args(arguments);
    work.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A signal that ends the client and its hooks does not end the work.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut work, 0);
    work.spawn().map(drop)
}

#[cfg(all(test, unix))]
#[path = "stop_tests.rs"]
mod tests;
