//! Reads what a folder's git repository contains.
//!
//! The branch is read from the repository's files: no process is started, and only a valid name is
//! accepted. Changes and recent commits come from git, and git obeys the repository's own
//! configuration. So git runs only in repositories that the user trusts, and only through
//! [`status`]: without hooks, file system monitors, signatures, filters, fetches from other
//! repositories, pagers or questions, and for [`PATIENCE`] at most.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of a file that names a folder or a branch.
const LONGEST: u64 = 1 << 16;
/// The most bytes that the configuration of a repository may have.
const LONGEST_CONFIG: u64 = 1 << 20;
/// The most bytes of git's output that are read.
const LONGEST_ANSWER: u64 = 1 << 18;
/// How long to wait for git.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest name that a branch can have, on most file systems.
const LONGEST_NAME: usize = 255;

/// Settings that a repository cannot override.
const SETTINGS: [&str; 8] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "log.showSignature=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
];

/// Variables that would make git use something else, or start a program.
const VARIABLES: [&str; 19] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXTERNAL_DIFF",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PAGER",
    "GIT_QUARANTINE_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TRACE",
    "GIT_WORK_TREE",
];

/// The top folder of the repository that contains a folder.
pub(crate) fn root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// The `.git` folder of the repository with this top folder.
fn folder(root: &Path) -> Option<PathBuf> {
    let found = root.join(".git");
    if found.is_dir() {
        return Some(found);
    }
    // In a worktree, `.git` is a file that names the folder.
    let text = files::read_text(&found, LONGEST).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(root.join(named))
}

/// Whether git would treat the folder itself as a repository: because of `.git` in it, or because
/// it looks like a bare repository.
pub(crate) fn is_repository_itself(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has(".git") || (has("HEAD") && ((has("objects") && has("refs")) || has("commondir")))
}

/// The branch that is checked out in a folder; `HEAD` if none is.
pub fn branch(cwd: &Path) -> Option<String> {
    let head = files::read_text(folder(root(cwd)?)?.join("HEAD"), LONGEST).ok()?;
    match head.trim().strip_prefix("ref: refs/heads/") {
        Some(name) => is_branch_name(name).then(|| name.to_owned()),
        None => Some("HEAD".to_owned()),
    }
}

/// Whether git accepts this as the name of a branch.
fn is_branch_name(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let is_part = |part: &str| {
        let is_lock = Path::new(part).extension().is_some_and(|ending| ending == "lock");
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !is_lock
    };
    name.len() <= LONGEST_NAME
        && name != "@"
        && !name.starts_with('-')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_odd)
        && name.split('/').all(is_part)
}

/// Branch, changes and recent commits of a repository that the user trusts; None if git does not
/// report them.
pub(crate) fn status(cwd: &Path) -> Option<String> {
    let root = root(cwd)?;
    let folder = folder(root)?;
    if !is_harmless(&folder) {
        return None;
    }
    // Both at once: neither has to wait for the other.
    let status = ["status", "--short", "--branch", "--ignore-submodules=all"];
    let log = ["log", "--oneline", "--no-show-signature", "--no-ext-diff", "--no-textconv", "-5"];
    let [status, log] = [&status[..], &log[..]].map(|args| Asked::start(root, &folder, cwd, args));
    let end = Instant::now() + PATIENCE;
    let log = log.ok().and_then(|log| log.answer(end)).unwrap_or_default();
    let status = status.ok()?.answer(end)?;
    let lines: Vec<&str> = status.lines().take(40).collect();
    Some(format!("{}\nLast commits:\n{log}", lines.join("\n")))
}

/// Whether a repository's own configuration contains nothing that [`SETTINGS`] cannot switch off:
/// filters can have any name, and included files can contain anything.
fn is_harmless(folder: &Path) -> bool {
    let common = files::read_text(folder.join("commondir"), LONGEST).ok();
    let common = common.map_or_else(|| folder.to_owned(), |name| folder.join(name.trim_end()));
    let files = [common.join("config"), folder.join("config"), folder.join("config.worktree")];
    files.iter().all(|file| match files::read(file, LONGEST_CONFIG) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            !text.contains("[filter") && !text.contains("[include")
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    })
}

/// A running git command.
struct Asked {
    child: Child,
    output: Receiver<io::Result<Vec<u8>>>,
}

impl Asked {
    fn start(root: &Path, folder: &Path, cwd: &Path, args: &[&str]) -> io::Result<Asked> {
        let mut git = Command::new("git");
        git.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        // Otherwise git searches for a repository by itself, and the configuration of what it finds
        // decides what belongs to it.
        for (option, path) in [("--git-dir=", folder), ("--work-tree=", root)] {
            let mut option = OsString::from(option);
            option.push(path);
            git.arg(option);
        }
        git.arg("--no-optional-locks").arg("--no-pager").args(args).current_dir(cwd);
        for name in VARIABLES {
            git.env_remove(name);
        }
        git.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        // In a partial clone, git would fetch missing objects.
        git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut git, 0);
        let mut child = git.spawn()?;
        let pipe = child.stdout.take();
        let (tell, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.map_or(Ok(0), |pipe| pipe.take(LONGEST_ANSWER).read_to_end(&mut bytes));
            // Fails if the receiver no longer waits.
            let _ = tell.send(read.map(|_| bytes));
        });
        Ok(Asked { child, output })
    }

    /// The output of git up to then. A process that has not ended is killed.
    fn answer(mut self, end: Instant) -> Option<String> {
        let output = self.output.recv_timeout(end.saturating_duration_since(Instant::now()));
        let is_done = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.success(),
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
                _ => break false,
            }
        };
        let bytes = output.ok()?.ok().filter(|_| is_done)?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }
}

/// Kills git and everything that it has started.
impl Drop for Asked {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        #[cfg(unix)]
        if let Some(group) =
            i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            // It may have ended by itself.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
