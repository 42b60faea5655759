//! Commands that run: in a process group of their own, their output in a file.
//!
//! Output goes straight into a file, so that nothing is lost however much it is, and nothing has to be read for a command to go on. Invariants: whoever ends a command ends all that it
//! started; what a command that ended by itself has left running goes on, until the session ends; then all goes, and nothing starts any more. Output is bounded (`MOST`), also that of
//! what nobody waits for. A command does not see the keys of the API. What it puts out is for its user alone. What leaves its group (`setsid`) is on its own.
//! If the agent is killed, a `Watcher` ends what still runs, and the next run removes the output.
//!
//! A group has the number of its first process. While that one was not waited for, nobody else gets the number; afterwards nobody gets it while the group has processes. So a process that has
//! the number of a shell that was waited for is a stranger, and nothing is done to its group.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use files::{Held, Lock};

use crate::scratch::{LOCK, sweep};
use crate::secret::{self, Extent, Secrets};
use crate::watcher::Watcher;

/// How much a command may put out, in bytes: who writes more writes without an end.
pub(crate) const MOST: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };
/// How often commands are looked after.
const OFTEN: Duration = Duration::from_millis(50);

/// The commands of a session.
#[derive(Debug)]
pub struct Shells {
    /// Where output goes.
    pub(crate) folder: PathBuf,
    /// What commands see beside what the program sees.
    pub env: Vec<(String, String)>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<String, Shell>,
    /// Of commands that were forgotten, what still runs.
    left: Vec<Group>,
    /// Whether a thread looks after them.
    is_watched: bool,
    /// Whether the session has ended.
    is_closed: bool,
    /// Ends commands if nobody else does any more.
    watcher: Option<Watcher>,
    /// Held as long as the folder of output is in use.
    lock: Option<Held>,
}

/// One command.
#[derive(Debug)]
struct Shell {
    command: String,
    description: String,
    group: Group,
    /// Nobody waits for it, and nobody was told of its end.
    is_news: bool,
}

/// The processes of a command.
#[derive(Debug)]
struct Group {
    shell: Child,
    output: File,
    status: Status,
    /// Whether the watcher knows it.
    is_listed: bool,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    /// It ended by itself, with this code.
    Ended(i32),
    /// Somebody ended it.
    Killed,
    /// It was ended because it put out too much.
    Flooded,
}

/// What is known of a command.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) command: String,
    pub(crate) description: String,
    pub(crate) status: Status,
}

impl Known {
    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        if self.description.is_empty() { &self.command } else { &self.description }
    }
}

impl Shells {
    /// Output goes into files there.
    pub fn new(folder: PathBuf) -> Shells {
        Shells { folder, env: Vec::new(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the output of a command is.
    pub(crate) fn output(&self, id: &str) -> PathBuf {
        self.beside(id, "output")
    }

    fn beside(&self, id: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{id}.{what}"))
    }

    /// Starts a command in a folder. Where it is at its end is written beside its output.
    pub(crate) fn start(
        &self,
        id: &str,
        command: &str,
        description: &str,
        cwd: &Path,
    ) -> io::Result<()> {
        // Held until it is known: it starts before the end, and is ended, or not at all.
        let mut state = self.state();
        if state.is_closed {
            return Err(io::Error::other("the session has ended"));
        }
        self.open(&mut state)?;
        let output = file(&self.output(id))?;
        file(&self.beside(id, "cwd"))?;
        file(&self.beside(id, "sh"))?.write_all(command.as_bytes())?;
        if !state.is_watched {
            let watched = self.state.clone();
            thread::Builder::new().spawn(move || watch(&watched))?;
            state.is_watched = true;
        }
        let mut shell = self.command(id)?;
        shell.current_dir(cwd).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let shell = shell.spawn()?;
        if let Some(watcher) = &mut state.watcher {
            watcher.runs(shell.id());
        }
        let is_listed = state.watcher.is_some();
        let group = Group { shell, output, status: Status::Running, is_listed };
        let (command, description) = (command.to_owned(), description.to_owned());
        let shell = Shell { command, description, group, is_news: false };
        state.all.insert(id.to_owned(), shell);
        Ok(())
    }

    /// Makes the folder of output, and has it watched. What others have left that were killed goes.
    fn open(&self, state: &mut State) -> io::Result<()> {
        folder(&self.folder)?;
        if state.lock.is_none() {
            let who = format!("process {}", std::process::id());
            if let Lock::Held(held) = files::try_lock(&self.folder.join(LOCK), &who)? {
                state.lock = Some(held);
            }
            sweep(&self.folder);
        }
        if state.watcher.is_none() && cfg!(unix) {
            state.watcher = Watcher::start().ok();
        }
        Ok(())
    }

    /// The shell. The command is in a file: of any length, and nothing that its children see.
    fn command(&self, id: &str) -> io::Result<Command> {
        // A folder that is gone has no name; a shell that was told not to overwrite does it here.
        let last = format!("pwd -P 2>/dev/null >| {}", quoted(&self.beside(id, "cwd"))?);
        let (last, command) = (quoted(Path::new(&last))?, quoted(&self.beside(id, "sh"))?);
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!(r#"trap {last} EXIT; eval "$(<{command})""#)]);
        let env = self.env.iter().filter(|(name, value)| !secret::is_secret(name, value));
        shell.stdin(Stdio::null()).envs(env.map(|(name, value)| (name, value)));
        for name in secret::NAMES.into_iter().chain([secret::HANDOVER]) {
            shell.env_remove(name);
        }
        // One with a password; one that settings give without one stays.
        for name in secret::PROXIES {
            let inherited = std::env::vars_os().find(|(key, _)| key == name);
            let is_set =
                self.env.iter().any(|(key, value)| key == name && !secret::is_secret(key, value));
            let is_secret = |value: &str| secret::is_secret(name, value);
            if !is_set && inherited.is_some_and(|(_, value)| is_secret(&value.to_string_lossy())) {
                shell.env_remove(name);
            }
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        Ok(shell)
    }

    /// What is known of a command by now.
    pub(crate) fn known(&self, id: &str) -> Option<Known> {
        self.state().all.get_mut(id).map(Shell::known)
    }

    /// Nobody waits for a command: its end will be news, until it is told.
    pub(crate) fn set_news(&self, id: &str, is_news: bool) {
        if let Some(shell) = self.state().all.get_mut(id) {
            shell.is_news = is_news;
        }
    }

    /// Whether there is a command whose end will be news.
    pub(crate) fn awaits_news(&self) -> bool {
        self.state().all.values().any(|shell| shell.is_news)
    }

    /// A command that has ended and of which nobody knows it; now somebody does.
    pub(crate) fn news(&self) -> Option<(String, Known)> {
        let mut state = self.state();
        let mut news = state.all.iter_mut().filter(|(_, shell)| shell.is_news);
        news.find_map(|(id, shell)| {
            let known = shell.known();
            shell.is_news = known.status == Status::Running;
            (!shell.is_news).then(|| (id.clone(), known))
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
        if let Some(shell) = self.state().all.get_mut(id) {
            shell.group.kill(Status::Killed);
        }
    }

    /// Ends all commands and what they have left running, and removes what they have put out. No other starts.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        for group in state.groups() {
            group.kill(Status::Killed);
        }
        state.unlist();
        drop(state.watcher.take());
        let _ = fs::remove_dir_all(&self.folder);
        state.lock = None;
    }

    /// Where a command was at its end.
    pub(crate) fn cwd(&self, id: &str) -> Option<PathBuf> {
        let text = files::read_text(self.beside(id, "cwd"), 1 << 16).ok()?;
        Some(PathBuf::from(text.trim_end_matches('\n'))).filter(|path| path.is_dir())
    }

    /// Forgets a command that has ended, and its output.
    pub(crate) fn forget(&self, id: &str) {
        let mut state = self.state();
        if let Some(shell) = state.all.remove(id) {
            state.left.push(shell.group);
        }
        for what in ["output", "cwd", "sh"] {
            let _ = fs::remove_file(self.beside(id, what));
        }
    }
}

impl Shell {
    fn known(&mut self) -> Known {
        self.group.look();
        Known {
            command: self.command.clone(),
            description: self.description.clone(),
            status: self.group.status,
        }
    }
}

impl State {
    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.values_mut().map(|shell| &mut shell.group).chain(&mut self.left)
    }

    /// Has the watcher forget the groups of which nothing is left.
    fn unlist(&mut self) {
        let Some(mut watcher) = self.watcher.take() else { return };
        for group in self.groups().filter(|group| group.is_listed && !group.is_alive()) {
            watcher.ended(group.shell.id());
            group.is_listed = false;
        }
        self.watcher = Some(watcher);
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks after commands as long as there are any.
fn watch(state: &Mutex<State>) {
    loop {
        thread::sleep(OFTEN);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.groups().for_each(Group::look);
        state.unlist();
        state.left.retain(Group::is_alive);
        if state.is_closed || !state.groups().any(|group| group.is_alive()) {
            state.is_watched = false;
            return;
        }
    }
}

impl Group {
    fn look(&mut self) {
        if self.status == Status::Running
            && let Ok(Some(ended)) = self.shell.try_wait()
        {
            self.status = Status::Ended(code(ended));
        }
        if self.output.metadata().is_ok_and(|found| found.len() > MOST) && self.is_alive() {
            self.kill(Status::Flooded);
            let _ = self.output.set_len(MOST);
        }
    }

    /// Ends all that runs of it.
    fn kill(&mut self, status: Status) {
        if !self.is_alive() {
            return;
        }
        #[cfg(unix)]
        if let Some(number) = self.number() {
            // It may have ended just now.
            let _ = rustix::process::kill_process_group(number, rustix::process::Signal::KILL);
        }
        if self.status == Status::Running {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
            self.status = status;
        }
    }

    /// Whether anything of it runs: the shell, or what it has left.
    fn is_alive(&self) -> bool {
        self.status == Status::Running || self.has_left()
    }

    /// Whether the shell was waited for, and something of its group is still there.
    #[cfg(unix)]
    fn has_left(&self) -> bool {
        use rustix::io::Errno;
        use rustix::process::{test_kill_process, test_kill_process_group};
        self.number().is_some_and(|number| {
            test_kill_process(number) == Err(Errno::SRCH) && test_kill_process_group(number).is_ok()
        })
    }

    #[cfg(not(unix))]
    fn has_left(&self) -> bool {
        false
    }

    #[cfg(unix)]
    fn number(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(i32::try_from(self.shell.id()).ok()?)
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

/// A path as one word for a shell.
fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("a folder's name is not UTF-8"))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

/// A folder for its user alone.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// An empty file for its user alone.
fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create(true).truncate(true).open(path)
}

/// The first bytes of a file, as text without secrets, and how long the whole is.
pub(crate) fn head(path: &Path, most: usize, secrets: &Secrets) -> io::Result<(String, u64)> {
    let file = files::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    // A little more: what is cut off may be the end of a secret.
    file.take((most + secrets.span()) as u64).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() > most;
    let text = String::from_utf8_lossy(&bytes);
    let mut text = secrets.redacted(&text, Extent::Piece).into_owned();
    if is_cut {
        let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
    }
    Ok((text, len))
}

/// The last bytes of a file, as text without secrets, and how many are before them.
pub(crate) fn tail(path: &Path, most: usize, secrets: &Secrets) -> io::Result<(String, u64)> {
    let mut file = files::open(path)?;
    let len = file.metadata()?.len();
    let from = len.saturating_sub((most + secrets.span()) as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take((most + secrets.span()) as u64).read_to_end(&mut bytes)?;
    // A character that was cut is not told.
    let is_inner = |byte: &&u8| **byte & 0xc0 == 0x80;
    let cut = if from > 0 { bytes.iter().take(3).take_while(is_inner).count() } else { 0 };
    let text = String::from_utf8_lossy(&bytes[cut..]);
    let text = secrets.redacted(&text, Extent::Piece);
    let mut starts = text.len().saturating_sub(most)..=text.len();
    let start = starts.find(|start| text.is_char_boundary(*start)).unwrap_or_default();
    let left =
        if start > 0 || from > 0 { len.saturating_sub((text.len() - start) as u64) } else { 0 };
    Ok((text[start..].to_owned(), left))
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
