//! The second process: gives up every right, starts the command, and stays until nothing of it
//! runs.
//!
//! In a PID namespace it is the first process, so the kernel ends all others with it.

use std::io::{self, BufRead, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use rustix::process::{DumpableBehavior, WaitOptions, set_dumpable_behavior, wait};

use crate::processes;
use crate::{Layers, NO_SANDBOX, Spec};
use crate::{confine, filter, group, mounts, outer};

/// How long processes that were killed may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lives in the namespaces that the first process has made, and reports when the command has ended
/// and how. Returns the exit code.
pub(crate) fn run(how: &str, report: PipeWriter) -> u8 {
    let done = || -> io::Result<u8> {
        // What the kernel keeps about this process belongs to the user until a command runs.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        if how == outer::ISOLATED {
            confine::loopback()?;
        }
        // Nobody wants anything to run.
        let Some(spec) = wanted()? else { return Ok(0) };
        lived(&spec, report)
    };
    done().unwrap_or_else(|error| {
        complain(&format!("the sandbox could not be made: {error}"));
        NO_SANDBOX
    })
}

/// What is to run; None if nothing is. Fails only where it cannot be read.
fn wanted() -> io::Result<Option<Spec>> {
    // Fails only for the leader of a group, which has a session of its own already.
    let _ = rustix::process::setsid();
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then(|| serde_json::from_slice(&line)).transpose()?)
}

/// Says something to the user, where the output of the command goes.
pub(crate) fn complain(text: &str) {
    // If that cannot be written, there is no other place.
    let _ = writeln!(io::stderr(), "quipu: {text}");
}

/// Tries every layer in this folder, given the namespaces that there are, and reports which ones
/// hold.
pub(crate) fn find_out(
    folder: &Path,
    mut layers: Layers,
    mut report: PipeWriter,
) -> io::Result<()> {
    let spec =
        &Spec { blank: folder.join("blank"), writable: vec![folder.to_owned()], ..Spec::default() };
    if layers.namespaces {
        layers.processes = mounts::own_processes(spec.limits.processes).is_ok();
        layers.namespaces = mounts::arrange(spec, layers.processes).is_ok();
    }
    layers.network = layers.network && layers.namespaces && confine::loopback().is_ok();
    confine::limits(&spec.limits);
    confine::capabilities()?;
    layers.landlock = confine::landlock(spec, &layers).unwrap_or_default();
    layers.seccomp = filter::apply(spec, &layers).is_ok();
    report.write_all(&serde_json::to_vec(&layers)?)
}

fn lived(spec: &Spec, mut report: PipeWriter) -> io::Result<u8> {
    let layers = &spec.layers;
    if let Some(group) = &spec.group {
        group::enter(group, &spec.limits)?;
    }
    if layers.namespaces {
        mounts::arrange(spec, layers.processes)?;
        if layers.processes {
            mounts::own_processes(spec.limits.processes)?;
        }
    } else {
        processes::adopt()?;
    }
    confine::limits(&spec.limits);
    env::set_current_dir(&spec.cwd)?;
    confine::capabilities()?;
    if layers.landlock > 0 {
        let version = confine::landlock(spec, layers)?;
        if version < layers.landlock {
            return Err(io::Error::other("Landlock is gone"));
        }
    }
    if layers.seccomp {
        filter::apply(spec, layers)?;
    }
    let (program, arguments) =
        spec.program.split_first().ok_or_else(|| io::Error::other("no program"))?;
    // Otherwise commands could hold the pipe to the agent open, or report another exit code.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut command = Command::new(program);
    command.env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.args(arguments).stdin(Stdio::null()).stdout(io::stderr().as_fd().try_clone_to_owned()?);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("`{program}` could not be started: {error}"));
            return Ok(127);
        }
    };
    let is_alone = !layers.namespaces;
    thread::Builder::new().spawn(move || end_with_input(is_alone))?;
    let mut last = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == child.id().cast_signed() => {
                let code =
                    status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                last = u8::try_from(code.unwrap_or(1)).unwrap_or(1);
                writeln!(report, "exit {last}")?;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing runs any more.
            Err(_) => return Ok(last),
        }
    }
}

/// Ends everything when the agent has ended, or says that it no longer wants the command. The other
/// thread returns when everything has ended: so whoever sees that this process has closed its input
/// knows that nothing of the command runs any more.
#[allow(clippy::exit, reason = "the other thread waits for processes that this one ends")]
fn end_with_input(is_alone: bool) {
    // A byte means the same as the end.
    let _ = io::stdin().read(&mut [0]);
    if is_alone {
        processes::end_all();
    } else {
        // All others of the PID namespace.
        let _ = kill(nix::unistd::Pid::from_raw(-1), Signal::SIGKILL);
    }
    thread::sleep(PATIENCE);
    std::process::exit(137);
}

/// The processes in `/proc`: their ids and the ids of their parents.
pub(crate) fn parents() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may contain anything.
        text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}
