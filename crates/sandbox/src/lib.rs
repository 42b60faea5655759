//! Runs a command so that the kernel decides what it can do: read, write, reach, signal and use up.
//!
//! The program starts itself twice ([`Waiting`], `entered`): the first process makes namespaces,
//! the second lives in them, reads what to run from its standard input, gives up every right, and
//! starts the command; both are single-threaded at that time, so nothing needs `unsafe` here. They
//! can be started before it is known what will run, so that a command does not wait for them.
//! Invariants: a layer that [`Probe`] has seen working must work when a command starts, or the
//! command does not start; both processes start without any variable and close every file that they
//! inherit, so that neither a library that a variable names nor a file that somebody left open
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
#[cfg(target_os = "macos")]
mod seatbelt;

pub use group::{delegated, remove_group};
pub use login::{user_path, user_shell};
pub use spec::{Gap, Layers, Limits, Metadata, Network, Sockets, Spec};
pub use waiting::{Probe, Waiting};

/// The hidden first argument of the process that makes namespaces.
const ENTER: &str = "__sandbox";
/// The same of the process that lives in them.
const INSIDE: &str = "__sandboxed";
/// The same of a process that becomes the user's shell, without a terminal.
const LOGIN: &str = "__login";

/// The exit code of a command that did not start because the sandbox could not be made.
pub const NO_SANDBOX: u8 = 125;

/// If this process was started as a part of a sandbox: does that part, and returns the exit code.
/// To be called before any thread exists.
pub fn entered() -> Option<u8> {
    let mut args = std::env::args_os().skip(1);
    let part = args.next()?;
    if part == LOGIN {
        return Some(login::run(args));
    }
    let is_part = part == ENTER || part == INSIDE;
    let how = args.next().filter(|_| is_part)?.into_string().ok()?;
    #[cfg(target_os = "linux")]
    let code = if part == ENTER { outer::run(&how) } else { init::run(&how) };
    #[cfg(not(target_os = "linux"))]
    let code = {
        let _ = how;
        NO_SANDBOX
    };
    Some(code)
}
