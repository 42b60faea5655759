//! Runs commands, each in its own process group, with its output in a file.
//!
//! Output goes straight into a file, so that nothing is lost however much there is, and a command
//! never has to wait for a reader. Invariants: killing a command kills everything that it started;
//! what a command that ended by itself has left running continues until the session ends; then
//! everything is killed, and nothing can be started. Output is bounded (`MOST`), even if nothing
//! waits for the command. A command does not see the keys of the API. Only the user can read its
//! output. A process that leaves its group (`setsid`) is not tracked. If the agent is killed, a
//! `Watcher` kills what still runs, and the next run removes the output.
//!
//! A group has the process id of its first process. Until that process is waited for, the system
//! does not reuse the id; after that, it does not reuse it while the group has processes. So a
//! process that has the id of a shell that was waited for is unrelated, and nothing is done to its
//! group.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use files::{Held, Lock};

use sandbox::{Layers, Network, Probe, Spec, Waiting};

use crate::guard::{Guard, Kept, Taken};
use crate::prelude::Preludes;
use crate::scratch::{LOCK, sweep};
use crate::secret::{Extent, Secrets};
use crate::variables::{self, UserPath};
use crate::watcher::Watcher;

/// How many bytes a command may write. More than this counts as endless.
pub(crate) const MOST: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };
/// How often commands are checked.
const OFTEN: Duration = Duration::from_millis(50);
/// How long the end of what was killed is waited for.
const ENDING: Duration = Duration::from_secs(10);

/// The commands of a session.
#[derive(Debug)]
pub struct Shells {
    /// The folder of the output files.
    pub(crate) folder: PathBuf,
    /// Variables that commands see in addition to the program's own.
    pub env: Vec<(String, String)>,
    /// Where the user's own shell finds programs.
    pub(crate) path: UserPath,
    /// What comes before the commands of the model.
    pub(crate) preludes: Preludes,
    state: Arc<Mutex<ShellState>>,
}

#[derive(Debug, Default)]
struct ShellState {
    all: BTreeMap<String, Shell>,
    /// What still runs of commands that were forgotten.
    left: Vec<Group>,
    /// Whether a thread checks them.
    is_watched: bool,
    /// Whether the session has ended.
    is_closed: bool,
    /// Kills the commands if the agent no longer can.
    watcher: Option<Watcher>,
    /// Held while the output folder is in use.
    lock: Option<Held>,
    /// Processes for the next command.
    ready: Option<Ready>,
    /// What the sensitive files were before the first of the commands that still run.
    baseline: Option<(Kept, Guard)>,
    /// What commands had no right to make or to change, until it is reported.
    taken: Vec<Taken>,
    /// What of that could not be put right, and was reported.
    left_over: HashSet<PathBuf>,
    /// The control groups of commands.
    control: Vec<PathBuf>,
}

/// Processes that wait for a command.
#[derive(Debug)]
struct Ready {
    waiting: Waiting,
    network: Network,
    output: File,
    /// Where the output is until the command has an id.
    path: PathBuf,
}

impl Ready {
    /// The processes that `start` starts, with their output in this folder.
    fn new<More>(
        folder: &Path,
        network: Network,
        start: impl FnOnce(&File) -> io::Result<(Waiting, More)>,
    ) -> io::Result<(Ready, More)> {
        let path = folder.join(format!("{}.output", uuid::Uuid::new_v4().simple()));
        let output = files::create_private(&path)?;
        let (waiting, more) = start(&output)?;
        Ok((Ready { waiting, network, output, path }, more))
    }

    fn start(folder: &Path, layers: &Layers, network: Network) -> io::Result<Ready> {
        let start = |output: &File| Ok((Waiting::start(layers, network, output)?, ()));
        Ready::new(folder, network, start).map(|(ready, ())| ready)
    }
}

/// How a command is held.
#[derive(Debug)]
pub(crate) struct Hold {
    /// What it may do.
    pub(crate) spec: Spec,
    /// Variables that it sees in addition.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Variables that it does not see.
    pub(crate) removed: Vec<String>,
    /// The control group in which its own is made.
    pub(crate) group: Option<PathBuf>,
    /// What sensitive files are before it, and what holds it; None if it can write nothing.
    pub(crate) kept: Option<(Kept, Guard)>,
}

/// One command.
#[derive(Debug)]
struct Shell {
    command: String,
    description: String,
    group: Group,
    /// Runs in the background, and its end has not been reported yet.
    is_news: bool,
}

/// The processes of a command.
#[derive(Debug)]
struct Group {
    shell: Child,
    output: File,
    status: Status,
    /// Whether the watcher knows the group.
    is_listed: bool,
}

/// What happened to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    /// It ended by itself, with this exit code.
    Ended(i32),
    /// It was killed on request.
    Killed,
    /// It was killed because it wrote too much.
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
    /// Its name for people: the description, else the command.
    pub(crate) fn name(&self) -> &str {
        if self.description.is_empty() { &self.command } else { &self.description }
    }
}

impl Shells {
    /// Output goes into files in this folder.
    pub fn new(folder: PathBuf) -> Shells {
        Shells {
            folder,
            env: Vec::new(),
            path: UserPath::default(),
            preludes: Preludes::default(),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, ShellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output file of a command.
    pub(crate) fn output(&self, id: &str) -> PathBuf {
        self.beside(id, "output")
    }

    fn beside(&self, id: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{id}.{what}"))
    }

    /// Starts a command in a folder. The command's last working directory is written to a file next
    /// to its output.
    ///
    /// The first text of two comes before the command. `hold` says how it is held. It is called
    /// when nothing of an earlier command can change any more what it finds: what that command made
    /// is not taken for something that was there.
    pub(crate) fn start(
        &self,
        id: &str,
        (before, command): (&str, &str),
        description: &str,
        cwd: &Path,
        hold: impl FnOnce() -> io::Result<Option<Hold>>,
    ) -> io::Result<()> {
        // Locked until the command is registered: it starts before the session ends and is then
        // killed, or it does not start.
        let mut state = self.state();
        if state.is_closed {
            return Err(io::Error::other("the session has ended"));
        }
        self.open(&mut state)?;
        files::create_private(&self.beside(id, "cwd"))?;
        files::create_private(&self.beside(id, "sh"))?
            .write_all([before, command].concat().as_bytes())?;
        if !state.is_watched {
            let watched = self.state.clone();
            thread::Builder::new().spawn(move || watch(&watched))?;
            state.is_watched = true;
        }
        state.settle();
        let (shell, output) = match hold()? {
            None => self.plain(id, cwd)?,
            Some(hold) => self.held(&mut state, id, cwd, hold)?,
        };
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

    /// Creates the output folder and starts the watcher. Removes what agents left that were killed.
    fn open(&self, state: &mut ShellState) -> io::Result<()> {
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

    /// What the shell is given. The command is in a file: it can have any length, and its children
    /// do not see it.
    fn script(&self, id: &str) -> io::Result<String> {
        // A deleted folder has no name. `>|` overwrites even if the shell was told not to.
        let last = format!("pwd -P 2>/dev/null >| {}", quoted(&self.beside(id, "cwd"))?);
        let (last, command) = (quoted(Path::new(&last))?, quoted(&self.beside(id, "sh"))?);
        Ok(format!(r#"trap {last} EXIT; eval "$(<{command})""#))
    }

    /// The shell, without a sandbox.
    fn plain(&self, id: &str, cwd: &Path) -> io::Result<(Child, File)> {
        let output = files::create_private(&self.output(id))?;
        let apart = sandbox::apart("bash");
        let is_apart = apart.is_some();
        let mut shell = apart.unwrap_or_else(|| Command::new("bash"));
        shell.args(["-c", &self.script(id)?]).stdin(Stdio::null()).current_dir(cwd);
        shell.env_clear().envs(variables::of_command(&self.env, Vec::new(), &[], &self.path));
        shell.stdout(output.try_clone()?).stderr(output.try_clone()?);
        #[cfg(unix)]
        if !is_apart {
            std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        }
        Ok((shell.spawn()?, output))
    }

    /// The shell in the sandbox. Its standard input is a pipe: when that is closed, everything that
    /// the command started ends.
    fn held(
        &self,
        state: &mut ShellState,
        id: &str,
        cwd: &Path,
        hold: Hold,
    ) -> io::Result<(Child, File)> {
        // Under the lock that is held until the command is registered: nothing may count as over
        // in between. If something of an earlier command still runs, what was before that counts.
        if let Some((kept, guard)) = hold.kept {
            match &mut state.baseline {
                Some((before, _)) => before.narrow(&kept),
                None => state.baseline = Some((kept, guard)),
            }
        }
        let mut spec = hold.spec;
        spec.program = ["bash", "-c", &self.script(id)?].map(str::to_owned).to_vec();
        spec.env = variables::of_command(&self.env, hold.variables, &hold.removed, &self.path);
        cwd.clone_into(&mut spec.cwd);
        if let Some(groups) = hold.group {
            let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
            let group = groups.join(format!("{name}-{id}"));
            state.control.push(group.clone());
            spec.group = Some(group);
        }
        let ready = match state.ready.take() {
            Some(ready) if ready.network == spec.network => ready,
            other => {
                if let Some(other) = other {
                    other.waiting.end();
                    let _ = fs::remove_file(other.path);
                }
                Ready::start(&self.folder, &spec.layers, spec.network)?
            }
        };
        fs::rename(&ready.path, self.output(id))?;
        Ok((ready.waiting.begin(&spec)?, ready.output))
    }

    /// Starts the processes of the first command, which find out what the kernel can enforce.
    pub(crate) fn probe(&self, network: Network) -> io::Result<Probe> {
        let place = self.folder.join("probe");
        folder(&place.join("blank"))?;
        let start = |output: &File| Waiting::first(&place, network, output);
        let (ready, probe) = Ready::new(&self.folder, network, start)?;
        self.state().ready = Some(ready);
        Ok(probe)
    }

    /// Starts the processes of the next command, so that it does not wait for them.
    pub(crate) fn make_ready(&self, layers: &Layers, network: Network) {
        let mut state = self.state();
        if !state.is_closed && state.ready.is_none() && self.open(&mut state).is_ok() {
            // Then it is done when it is needed, and that reports what is wrong.
            state.ready = Ready::start(&self.folder, layers, network).ok();
        }
    }

    /// Accepts what a tool that was permitted to has changed.
    pub(crate) fn admit(&self, paths: &[PathBuf]) {
        if let Some((kept, _)) = &mut self.state().baseline {
            for path in paths {
                kept.admit(path);
            }
        }
    }

    /// Accepts the sensitive files as they are: what runs outside the sandbox may change them.
    pub(crate) fn admit_all(&self) {
        self.state().baseline = None;
    }

    /// Puts right what commands had no right to make or to change. Returns what that was, each
    /// thing once.
    pub(crate) fn settle(&self) -> Vec<Taken> {
        let mut state = self.state();
        state.settle();
        std::mem::take(&mut state.taken)
    }

    /// The files of a command that its shell writes.
    pub(crate) fn written(&self, id: &str) -> Vec<PathBuf> {
        vec![self.beside(id, "cwd"), self.output(id)]
    }

    /// A folder for what commands write aside; a fresh one for a single command.
    pub(crate) fn temp(&self, id: Option<&str>) -> io::Result<PathBuf> {
        let path = self.folder.join(id.map_or("tmp".to_owned(), |id| format!("{id}.tmp")));
        folder(&path)?;
        Ok(path)
    }

    /// An empty folder for the sandbox.
    pub(crate) fn blank(&self) -> io::Result<PathBuf> {
        let path = self.folder.join("blank");
        folder(&path)?;
        Ok(path)
    }

    /// Kills all commands that run. Returns their names.
    pub(crate) fn kill_all(&self) -> Vec<String> {
        let mut state = self.state();
        let mut names = Vec::new();
        for shell in state.all.values_mut() {
            let known = shell.known();
            if known.status == Status::Running {
                names.push(known.name().to_owned());
            }
            shell.group.kill(Status::Killed);
        }
        for group in &mut state.left {
            group.kill(Status::Killed);
        }
        state.wait_for_end();
        names
    }

    /// The commands that run in the background: their ids and names.
    pub(crate) fn running(&self) -> Vec<(String, String)> {
        let mut state = self.state();
        let all = state.all.iter_mut().filter(|(_, shell)| shell.is_news);
        let known = all.map(|(id, shell)| (id.clone(), shell.known()));
        let running = known.filter(|(_, known)| known.status == Status::Running);
        running.map(|(id, known)| (id, known.name().to_owned())).collect()
    }

    /// What is known of a command now.
    pub(crate) fn known(&self, id: &str) -> Option<Known> {
        self.state().all.get_mut(id).map(Shell::known)
    }

    /// Sets whether the end of a command is to be reported, because nothing waits for it.
    pub(crate) fn set_news(&self, id: &str, is_news: bool) {
        if let Some(shell) = self.state().all.get_mut(id) {
            shell.is_news = is_news;
        }
    }

    /// Whether there is a command whose end is to be reported.
    pub(crate) fn awaits_news(&self) -> bool {
        self.state().all.values().any(|shell| shell.is_news)
    }

    /// A command that has ended and whose end has not been reported. It counts as reported from now
    /// on.
    pub(crate) fn news(&self) -> Option<(String, Known)> {
        let mut state = self.state();
        let mut news = state.all.iter_mut().filter(|(_, shell)| shell.is_news);
        news.find_map(|(id, shell)| {
            let known = shell.known();
            shell.is_news = known.status == Status::Running;
            (!shell.is_news).then(|| (id.clone(), known))
        })
    }

    /// Waits until a command has ended, the time is over, or `enough` returns true. It is called
    /// now and then.
    pub(crate) fn wait(
        &self,
        id: &str,
        most: Duration,
        mut enough: impl FnMut(Duration) -> bool,
    ) -> Status {
        let start = Instant::now();
        let end = self.end_of(id);
        let mut pause = Duration::from_millis(1);
        loop {
            let status = self.known(id).map_or(Status::Killed, |known| known.status);
            let taken = start.elapsed();
            if status != Status::Running || taken >= most || enough(taken) {
                return status;
            }
            match &end {
                Some(end) => _ = files::is_ready(end, OFTEN.min(most.saturating_sub(taken))),
                None => thread::sleep(pause),
            }
            pause = (pause * 2).min(OFTEN);
        }
    }

    /// Something that becomes ready when the command ends, where the system has that.
    #[cfg(target_os = "linux")]
    fn end_of(&self, id: &str) -> Option<std::os::fd::OwnedFd> {
        let number = self.state().all.get(id)?.group.number()?;
        rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn end_of(&self, _: &str) -> Option<File> {
        None
    }

    /// Kills a command and everything that it started.
    pub(crate) fn kill(&self, id: &str) {
        if let Some(shell) = self.state().all.get_mut(id) {
            shell.group.kill(Status::Killed);
        }
    }

    /// Kills all commands and what they left running, and removes their output. No command can be
    /// started after that.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        drop(state.ready.take());
        for group in state.groups() {
            group.kill(Status::Killed);
        }
        state.wait_for_end();
        state.settle();
        state.baseline = None;
        state.unlist();
        drop(state.watcher.take());
        let _ = fs::remove_dir_all(&self.folder);
        state.lock = None;
    }

    /// The working directory of a command at its end.
    pub(crate) fn cwd(&self, id: &str) -> Option<PathBuf> {
        let text = files::read_text(self.beside(id, "cwd"), 1 << 16).ok()?;
        // The command can write to that file: what it says need not be what a shell would.
        let found = fs::canonicalize(text.trim_end_matches('\n')).ok()?;
        found.is_dir().then_some(found)
    }

    /// Forgets a command that has ended, and removes its output.
    pub(crate) fn forget(&self, id: &str) {
        let mut state = self.state();
        if let Some(shell) = state.all.remove(id) {
            state.left.push(shell.group);
        }
        for what in ["output", "cwd", "sh"] {
            let _ = fs::remove_file(self.beside(id, what));
        }
        let _ = fs::remove_dir_all(self.beside(id, "tmp"));
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

impl ShellState {
    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.values_mut().map(|shell| &mut shell.group).chain(&mut self.left)
    }

    /// Puts right what commands had no right to make or to change. If nothing of them runs any
    /// more, the files count as they are from now on.
    fn settle(&mut self) {
        if let Some((kept, guard)) = &self.baseline {
            let mut survey = guard.survey.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = kept.restore(&mut survey);
            drop(survey);
            taken.retain(|one| match one {
                Taken::Left(path) | Taken::Unseen(path) => self.left_over.insert(path.clone()),
                Taken::Made(_) | Taken::Changed(_) => true,
            });
            self.taken.extend(taken);
        }
        if !self.groups().any(|group| group.is_alive()) {
            self.baseline = None;
            self.control.retain(|group| {
                sandbox::remove_group(group);
                group.exists()
            });
        }
    }

    /// Waits until nothing runs in a sandbox any more after everything was killed: the system ends
    /// processes in its own time, and until then they can change files.
    fn wait_for_end(&mut self) {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        while start.elapsed() < ENDING && self.groups().any(|group| group.is_held()) {
            thread::sleep(pause);
            pause = (pause * 2).min(OFTEN);
        }
    }

    /// Has the watcher forget the groups that have no processes left.
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

/// Checks the commands as long as there are any.
fn watch(state: &Mutex<ShellState>) {
    loop {
        thread::sleep(OFTEN);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.groups().for_each(Group::look);
        state.unlist();
        state.left.retain(Group::is_alive);
        if state.is_closed || !state.groups().any(|group| group.is_alive()) {
            state.settle();
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

    /// Kills everything in the group that runs.
    fn kill(&mut self, status: Status) {
        if !self.is_alive() {
            return;
        }
        // Ends everything in its sandbox. The pipe stays open: it shows when that has happened.
        self.end_sandbox();
        #[cfg(unix)]
        if let Some(number) =
            self.number().filter(|_| self.status == Status::Running || self.has_left())
        {
            // It may have ended just now.
            let _ = rustix::process::kill_process_group(number, rustix::process::Signal::KILL);
        }
        if self.status == Status::Running {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
            self.status = status;
        }
    }

    /// Says that the command is no longer wanted.
    #[cfg(unix)]
    fn end_sandbox(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(pipe) = &mut self.shell.stdin else { return };
        let mut watched = [PollFd::new(&*pipe, PollFlags::OUT)];
        let _ = poll(&mut watched, Some(&Timespec::default()));
        let has_room = watched[0].revents().contains(PollFlags::OUT);
        // Closing it means the same, also to a process that does not read yet.
        if !has_room || pipe.write_all(b"\n").is_err() {
            drop(self.shell.stdin.take());
        }
    }

    #[cfg(not(unix))]
    fn end_sandbox(&mut self) {
        drop(self.shell.stdin.take());
    }

    /// Whether anything in the group runs: the shell, or what it left running.
    fn is_alive(&self) -> bool {
        self.status == Status::Running || self.has_left() || self.is_held()
    }

    /// Whether anything runs in the sandbox of the command: then the pipe to it has a reader.
    #[cfg(unix)]
    fn is_held(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(pipe) = &self.shell.stdin else { return false };
        let mut watched = [PollFd::new(pipe, PollFlags::empty())];
        let _ = poll(&mut watched, Some(&Timespec::default()));
        !watched[0].revents().contains(PollFlags::ERR)
    }

    #[cfg(not(unix))]
    fn is_held(&self) -> bool {
        false
    }

    /// Whether the shell was waited for and its group still has processes.
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

/// The exit code that a shell would report: 128 plus the number for a signal.
fn code(ended: std::process::ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return 128 + signal;
    }
    ended.code().unwrap_or(1)
}

/// The path as one word for a shell.
fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("a folder's name is not UTF-8"))?;
    Ok(rules::single_quoted(text))
}

/// Creates a folder that only the user can access.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// The first bytes of a file as text with secrets redacted, and the length of the file.
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

/// The last bytes of a file as text with secrets redacted, and the number of bytes before them.
pub(crate) fn tail(path: &Path, most: usize, secrets: &Secrets) -> io::Result<(String, u64)> {
    let mut file = files::open(path)?;
    let len = file.metadata()?.len();
    let from = len.saturating_sub((most + secrets.span()) as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take((most + secrets.span()) as u64).read_to_end(&mut bytes)?;
    // A character that was cut is left out.
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
