//! How a session is resumed in Claude Code, or by this program's agent: as a command to read and
//! copy, and as a process.
//!
//! Invariants: both do the same; no shell runs, and no text of a session becomes an option or the
//! name of the program; the program is never taken from a folder that is relative to the session's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::text::quoted;
use crate::version;
use crate::world::World;

/// The variable that names the client's home.
const HOME: &str = "CLAUDE_CONFIG_DIR";

/// A program that resumes sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    /// Claude Code
    Claude,
    /// Quipu's agent: `quipu chat --resume`
    Quipu,
}

/// What resumes a session.
#[derive(Clone, Debug)]
pub(crate) struct Resumption {
    client: Client,
    /// The folder that the session belongs to.
    folder: Option<String>,
    home: ClientHome,
    /// The session's id, or its path if it is in no home.
    what: String,
}

/// Which home the client has to use.
#[derive(Clone, Debug)]
enum ClientHome {
    /// The one that it uses anyway.
    Usual,
    /// The usual one, although the environment names another one.
    NotNamed,
    Named(PathBuf),
}

impl Resumption {
    /// Of the session of that id beside a session's file; `cwd` is the folder that it belongs to.
    pub(crate) fn new(world: &World, beside: &Path, id: &str, cwd: Option<&str>) -> Self {
        let beside = std::path::absolute(beside).unwrap_or_else(|_| beside.to_owned());
        let folder = cwd.map(str::to_owned);
        let is_home = beside.ancestors().nth(2).is_some_and(|folder| folder.ends_with("projects"));
        if !is_home {
            let path = beside.with_file_name(format!("{id}.jsonl"));
            let what = path.to_string_lossy().into_owned();
            return Resumption { client: Client::Claude, folder, home: ClientHome::Usual, what };
        }
        let home = match beside.ancestors().nth(3) {
            Some(root) if !world.is_usual_home(root) => ClientHome::Named(root.to_owned()),
            _ if world.variable(HOME).is_some() => ClientHome::NotNamed,
            _ => ClientHome::Usual,
        };
        Resumption { client: Client::Claude, folder, home, what: id.to_owned() }
    }

    /// The same with another client.
    pub(crate) fn with(self, client: Client) -> Self {
        Resumption { client, ..self }
    }

    /// The arguments of the client.
    fn args(&self) -> Vec<String> {
        let mut args = match self.client {
            Client::Claude => Vec::new(),
            Client::Quipu => vec!["chat".to_owned()],
        };
        if self.what.starts_with('-') {
            // As a word alone, it would be an option.
            args.push(format!("--resume={}", self.what));
        } else {
            args.extend(["--resume".to_owned(), self.what.clone()]);
        }
        args
    }

    /// The command, for people.
    pub(crate) fn text(&self) -> String {
        // A folder that is not absolute is none: `ready` refuses it.
        let folder = self.folder.as_ref().filter(|folder| Path::new(folder).is_absolute());
        let place = folder.map(|folder| format!("cd {} && ", quoted(folder)));
        let home = match &self.home {
            ClientHome::Usual => String::new(),
            ClientHome::NotNamed => format!("env -u {HOME} "),
            ClientHome::Named(home) => format!("{HOME}={} ", quoted(&home.display().to_string())),
        };
        let client = match self.client {
            Client::Claude => "claude",
            Client::Quipu => "quipu",
        };
        let args: Vec<String> = self.args().iter().map(|arg| quoted(arg)).collect();
        format!("{}{home}{client} {}", place.unwrap_or_default(), args.join(" "))
    }

    /// The process, if the folder and the client are there.
    pub(crate) fn ready(&self, world: &World) -> Result<Ready, Failure> {
        if let Some(folder) = &self.folder {
            let path = Path::new(folder);
            if !path.is_absolute() || !path.is_dir() {
                let message = format!("the session's folder `{folder}` is not there");
                let hint = "make the folder again; `quipu show` reads the session without it";
                return Err(Failure::not_found(message, hint));
            }
        }
        let program = match self.client {
            Client::Claude => version::client(world.programs()).ok_or_else(|| {
                let hint = "install Claude Code, or add its folder to `PATH`; folders that are not \
                            absolute do not count";
                Failure::not_found("there is no `claude` in `PATH`", hint)
            })?,
            Client::Quipu => world.program()?.into(),
        };
        let mut command = Command::new(&program);
        command.args(self.args());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        match &self.home {
            ClientHome::Usual => {}
            ClientHome::NotNamed => drop(command.env_remove(HOME)),
            ClientHome::Named(home) => drop(command.env(HOME, home)),
        }
        Ok(Ready { program: program.into_os_string(), command })
    }
}

/// A process that can be started.
#[derive(Debug)]
pub(crate) struct Ready {
    program: OsString,
    command: Command,
}

impl Ready {
    /// Replaces this program. Returns only if that is not possible.
    #[cfg(unix)]
    pub(crate) fn run(mut self) -> Failure {
        let error = std::os::unix::process::CommandExt::exec(&mut self.command);
        Failure::not_started(Path::new(&self.program), error)
    }

    /// Runs the client, and ends with its exit code.
    #[cfg(not(unix))]
    pub(crate) fn run(mut self) -> Failure {
        match self.command.status() {
            Ok(status) => Failure::ended(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
            Err(error) => Failure::not_started(Path::new(&self.program), error),
        }
    }
}

/// The command that resumes the session of that id beside a session's file.
pub(crate) fn resume_command(world: &World, beside: &Path, id: &str, cwd: Option<&str>) -> String {
    Resumption::new(world, beside, id, cwd).text()
}
