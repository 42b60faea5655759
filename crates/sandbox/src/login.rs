//! The `PATH` of the user's own shell.
//!
//! A program that was started by an editor or a service does not have what the user's profile adds.
//! Invariants: the shell starts in the user's home, with variables that say who the user is and
//! nothing else, so no project has a say; only absolute folders count; it has no terminal, so that
//! it can neither ask anything nor take a terminal away.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::LOGIN;

/// What is before and after the value, among what a profile may print.
const MARK: &str = "__quipu_path__";
/// How long a profile may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The shells that understand the script.
const KNOWN: [&str; 7] = ["bash", "zsh", "fish", "sh", "dash", "ksh", "ash"];

/// The user's shell by the system's list of users.
pub fn user_shell(users: &str, id: u32) -> Option<String> {
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&id.to_string()))?;
    line.split(':').nth(6).filter(|shell| shell.starts_with('/')).map(str::to_owned)
}

/// The `PATH` that the user's shell has after it has read their profile; None if that cannot be
/// found out. `variables` say who the user is.
pub fn user_path(shell: &Path, home: &Path, variables: &[(String, String)]) -> Option<OsString> {
    let name = shell.file_name()?.to_str()?;
    if !KNOWN.contains(&name) || !shell.is_absolute() {
        return None;
    }
    let mut command = itself()?;
    command.arg(LOGIN).arg(shell);
    // Only the larger shells tell profiles of logins from those of terminals; many users have what
    // they add in the other one.
    let (options, first): (&[&str], _) = match name {
        "bash" => (&["-l", "-i", "-c"], "[ -f ~/.bashrc ] && . ~/.bashrc >/dev/null 2>&1; "),
        "zsh" | "fish" => (&["-l", "-i", "-c"], ""),
        _ => (&["-l", "-c"], ""),
    };
    command.args(options).arg(format!(r#"{first}printf '{MARK}%s{MARK}' "$PATH""#));
    command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
    command.env("HOME", home).env("SHELL", shell).env("TERM", "dumb").current_dir(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let out = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        use std::io::Read;
        let mut bytes = Vec::new();
        let _ = out.take(1 << 20).read_to_end(&mut bytes);
        bytes
    });
    let start = Instant::now();
    while !reader.is_finished() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8(reader.join().ok()?).ok()?;
    absolute(text.split(MARK).nth(1)?)
}

/// The folders of a `PATH` that do not depend on where a program is, each once.
fn absolute(path: &str) -> Option<OsString> {
    let mut found: Vec<&str> = Vec::new();
    for folder in path.split(':').filter(|folder| folder.starts_with('/')) {
        if !found.contains(&folder) {
            found.push(folder);
        }
    }
    (!found.is_empty()).then(|| found.join(":").into())
}

/// Whether this program begins with [`crate::entered`].
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

pub(crate) fn mark_entered() {
    IS_ENTERED.store(true, Ordering::Relaxed);
}

/// Starts a program where it has no terminal, in a group of its own: neither it nor what it starts
/// can read keys or write to the screen. None if this program does not begin with
/// [`crate::entered`], which does this.
pub fn apart(program: &str) -> Option<Command> {
    if !cfg!(unix) || !IS_ENTERED.load(Ordering::Relaxed) {
        return None;
    }
    let mut command = itself()?;
    command.arg(LOGIN).arg(program);
    Some(command)
}

#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it is not known")]
fn itself() -> Option<Command> {
    Some(Command::new("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
fn itself() -> Option<Command> {
    std::env::current_exe().ok().map(Command::new)
}

/// Leaves the terminal behind, and becomes the program.
#[cfg(unix)]
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    use std::os::unix::process::CommandExt;
    let _ = rustix::process::setsid();
    let Some(shell) = arguments.next() else { return 2 };
    // It returns only if that is impossible.
    let _ = Command::new(shell).args(arguments).exec();
    127
}

#[cfg(not(unix))]
pub(crate) fn run(_: impl Iterator<Item = OsString>) -> u8 {
    2
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
