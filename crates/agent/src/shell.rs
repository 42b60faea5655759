//! Commands that run: in a process group of their own, their output in a file.
//!
//! Output goes straight into a file, so that nothing is lost however much it is, and nothing has to be read for a command to go on. Invariants: whoever ends a command ends all that it
//! started; when the site goes, so do its commands.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The commands of a session.
#[derive(Debug)]
pub struct Shells {
    /// Where output goes.
    folder: PathBuf,
    all: Mutex<BTreeMap<String, Shell>>,
}

/// One command.
#[derive(Debug)]
struct Shell {
    command: String,
    description: String,
    child: Child,
    status: Status,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    /// It ended by itself, with this code.
    Ended(i32),
    /// Somebody ended it.
    Killed,
}

/// What is known of a command.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) command: String,
    pub(crate) description: String,
    pub(crate) status: Status,
}

impl Shells {
    /// Output goes into files there.
    pub fn new(folder: PathBuf) -> Shells {
        Shells { folder, all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Shell>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the output of a command is.
    pub(crate) fn output(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.output"))
    }

    /// Starts a command in a folder. Where it is at its end is written beside its output.
    pub(crate) fn start(
        &self,
        id: &str,
        command: &str,
        description: &str,
        cwd: &Path,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let output = File::create(self.output(id))?;
        let mut shell = Command::new("bash");
        shell
            .args(["-c", r#"trap 'pwd -P > "$QUIPU_CWD"' EXIT; eval "$QUIPU_COMMAND""#])
            .env("QUIPU_COMMAND", command)
            .env("QUIPU_CWD", self.folder.join(format!("{id}.cwd")))
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = shell.spawn()?;
        let shell = Shell {
            command: command.to_owned(),
            description: description.to_owned(),
            child,
            status: Status::Running,
        };
        self.all().insert(id.to_owned(), shell);
        Ok(())
    }

    /// What is known of a command by now.
    pub(crate) fn known(&self, id: &str) -> Option<Known> {
        let mut all = self.all();
        let shell = all.get_mut(id)?;
        shell.look();
        Some(Known {
            command: shell.command.clone(),
            description: shell.description.clone(),
            status: shell.status,
        })
    }

    /// Waits until a command has ended, the time is over, or somebody has had enough of it; looked after now and then.
    pub(crate) fn wait(
        &self,
        id: &str,
        most: Duration,
        mut enough: impl FnMut(Duration) -> bool,
    ) -> Status {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let status = self.known(id).map_or(Status::Killed, |known| known.status);
            let taken = start.elapsed();
            if status != Status::Running || taken >= most || enough(taken) {
                return status;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Ends a command and all that it started.
    pub(crate) fn kill(&self, id: &str) {
        if let Some(shell) = self.all().get_mut(id) {
            shell.kill();
        }
    }

    /// Ends all commands, and removes what they have put out.
    pub fn end(&self) {
        for shell in self.all().values_mut() {
            shell.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Where a command was at its end.
    pub(crate) fn cwd(&self, id: &str) -> Option<PathBuf> {
        let path = self.folder.join(format!("{id}.cwd"));
        let text = fs::read_to_string(&path).ok()?;
        let _ = fs::remove_file(path);
        Some(PathBuf::from(text.trim_end_matches('\n'))).filter(|path| path.is_dir())
    }

    /// Forgets a command that has ended, and its output.
    pub(crate) fn forget(&self, id: &str) {
        self.all().remove(id);
        let _ = fs::remove_file(self.output(id));
    }
}

impl Shell {
    fn look(&mut self) {
        if self.status == Status::Running
            && let Ok(Some(ended)) = self.child.try_wait()
        {
            self.status = Status::Ended(code(ended));
        }
    }

    fn kill(&mut self) {
        self.look();
        if self.status != Status::Running {
            return;
        }
        end_group(&self.child);
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.status = Status::Killed;
    }
}

/// What a shell would say: a signal is its number and 128.
fn code(ended: std::process::ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return 128 + signal;
    }
    ended.code().unwrap_or(1)
}

/// Ends all processes that a command has started.
fn end_group(child: &Child) {
    // A negative number means the group, which has the number of its first process.
    let group = format!("-{}", child.id());
    let kill = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    drop(kill);
}

impl Drop for Shells {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first bytes of a file, as text, and how long the whole is.
pub(crate) fn head(path: &Path, most: usize) -> io::Result<(String, u64)> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), len))
}
