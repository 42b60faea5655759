//! Runs a command so that the kernel decides what it can do: read, write, reach, signal and use up.
//!
//! The program starts itself twice (`command`, `entered`): the first process makes namespaces, the
//! second lives in them, gives up every right, and starts the command; both are single-threaded at
//! that time, so nothing needs `unsafe` here. Invariants: a layer that [`probe`] has seen working
//! must work when a command starts, or the command does not start; nothing is read from the
//! environment; the second process, and with it everything in its PID namespace, ends when the
//! writing end of its standard input is closed, however the agent ended.
#![allow(
    clippy::disallowed_methods,
    reason = "it reads and writes what the kernel keeps in /proc, and its specification"
)]

mod spec;

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod outer;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "macos")]
mod seatbelt;

pub use spec::{Gap, Layers, Limits, Metadata, Network, Sockets, Spec};

use std::path::Path;
use std::process::Command;

/// The hidden first argument of the process that makes namespaces.
const ENTER: &str = "__sandbox";
/// The same of the process that lives in them.
const INSIDE: &str = "__sandboxed";

/// The exit code of a command that did not start because the sandbox could not be made.
pub const NO_SANDBOX: u8 = 125;

/// The command that runs what the specification in this file says. Its standard input must be a
/// pipe that stays open as long as anything of the command may run; its standard error gets all
/// output.
#[cfg(target_os = "linux")]
pub fn command(spec_file: &Path) -> Command {
    // Not the path of the program: that may have been replaced by an update.
    let mut command = Command::new("/proc/self/exe");
    command.arg(ENTER).arg(spec_file);
    command
}

/// The command that runs what the specification in this file says.
#[cfg(target_os = "macos")]
pub fn command(spec_file: &Path) -> Command {
    seatbelt::command(spec_file)
}

/// There is no sandbox on this system.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn command(_: &Path) -> Command {
    Command::new("false")
}

/// What the kernel can enforce here. `folder` is an empty private folder for what is needed to find
/// out.
#[cfg(target_os = "linux")]
pub fn probe(folder: &Path) -> Layers {
    outer::probe(folder)
}

/// What the kernel can enforce here.
#[cfg(target_os = "macos")]
pub fn probe(_: &Path) -> Layers {
    seatbelt::layers()
}

/// Nothing can be enforced here.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn probe(_: &Path) -> Layers {
    Layers::default()
}

/// If this process was started as a part of a sandbox: does that part, and returns the exit code.
/// To be called before any thread exists.
pub fn entered() -> Option<u8> {
    let mut args = std::env::args_os().skip(1);
    let part = args.next()?;
    let is_part = part == ENTER || part == INSIDE;
    let file = args.next().filter(|_| is_part)?;
    #[cfg(target_os = "linux")]
    let code = if part == ENTER { outer::run(file.as_ref()) } else { init::run(file.as_ref()) };
    #[cfg(not(target_os = "linux"))]
    let code = {
        let _ = file;
        NO_SANDBOX
    };
    Some(code)
}
