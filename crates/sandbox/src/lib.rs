//! Runs a command so that the kernel decides what it can do: read, write, reach, signal and use up.
//!
//! The program starts itself ([`Waiting`], `entered`): that process makes namespaces and forks a
//! second one, which lives in them, reads what to run from its standard input, gives up every
//! right, and starts the command. A process with a single thread can fork without `unsafe`, and
//! sooner than the program starts once more. Both can be started before it is known what will run,
//! so that a command does not wait for them.
//! Invariants: a layer that [`Probe`] has seen working must work when a command starts, or the
//! command does not start; the first process starts without any variable and closes every file that
//! it inherits, so that neither a library that a variable names nor a file that somebody left open
//! leads out; the second process, and with it everything in its PID namespace, ends when the
//! writing end of its standard input is closed, however the agent ended.
#![allow(
    clippy::disallowed_methods,
    reason = "it reads and writes what the kernel keeps in /proc, and its specification"
)]

mod group;
mod login;
mod spec;
mod waiting;

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
// Elsewhere, tests compile it and look at its profile.
#[cfg(any(target_os = "macos", test))]
#[cfg_attr(not(target_os = "macos"), allow(dead_code, reason = "only macOS can use it"))]
mod seatbelt;

pub use group::{delegated, remove_group};
pub use login::{apart, user_path, user_shell};
pub use spec::{Gap, Layers, Limits, Metadata, Network, Sockets, Spec};
pub use waiting::{Probe, Waiting};

/// The hidden first argument of the process that makes namespaces.
const ENTER: &str = "__sandbox";
/// The same of a process that becomes a program without a terminal.
const LOGIN: &str = "__login";

/// The exit code of a command that did not start because the sandbox could not be made.
pub const NO_SANDBOX: u8 = 125;

/// If this process was started as a part of a sandbox: does that part, and returns the exit code.
/// To be called before any thread exists.
pub fn entered() -> Option<u8> {
    login::mark_entered();
    let mut args = std::env::args_os().skip(1);
    let part = args.next()?;
    if part == LOGIN {
        return Some(login::run(args));
    }
    let how = args.next().filter(|_| part == ENTER)?.into_string().ok()?;
    #[cfg(target_os = "linux")]
    let code = outer::run(&how, args.next().as_deref().map(std::path::Path::new));
    #[cfg(not(target_os = "linux"))]
    let code = {
        let _ = how;
        NO_SANDBOX
    };
    Some(code)
}
