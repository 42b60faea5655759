//! Everything that can go wrong, and the message that the user gets.
//!
//! One type for the whole binary: a kind, which is the exit code; a message; at most one hint.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use files::NotRegular;
use transcript::client::check::{Finding, Verdict};
use transcript::conversation::place::{HomeError, NameError, Session};

use crate::text::printable;

/// The hint for a pipe or a device.
const REGULAR: &str = "only regular files are supported: save its output to a file first";

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    source: Option<io::Error>,
    /// What to do about it.
    hint: Option<String>,
    /// Lines to choose from, printed below the message.
    list: Vec<String>,
    /// An exit code that is not one of [`Kind`].
    code: Option<u8>,
}

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Output = 1,
    Usage = 2,
    NotFound = 3,
    Unreadable = 4,
    InUse = 5,
    Worse = 6,
    Undelivered = 7,
    Unknown = 8,
    Secrets = 9,
    Loss = 10,
    Rejected = 11,
    Refused = 12,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: Option<&str>) -> Self {
        let hint = hint.map(str::to_owned);
        Failure {
            kind: Kind::Usage,
            message: message.into(),
            source: None,
            hint,
            list: Vec::new(),
            code: None,
        }
    }

    pub(crate) fn unreadable(path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let is_stream = NotRegular::is_why(&source) && !path.is_dir();
        let hint = is_stream.then_some(REGULAR);
        let message = format!("cannot read `{}`", path.display());
        let source = Some(source);
        Failure { kind: Kind::Unreadable, source, ..Failure::usage(message, hint) }
    }

    /// A file that the user named, and that is not there or cannot be read.
    pub(crate) fn named_file(path: &Path, source: impl Into<io::Error>, hint: &str) -> Self {
        let source = source.into();
        if source.kind() == io::ErrorKind::NotFound {
            return Failure::not_found(format!("there is no file `{}`", path.display()), hint);
        }
        Failure::unreadable(path, source)
    }

    /// Some files that the user named could not be read; each was reported already.
    pub(crate) fn some_unreadable(count: usize) -> Self {
        let message = format!("{count} of the files could not be read");
        Failure { kind: Kind::Unreadable, ..Failure::usage(message, None) }
    }

    /// A folder that cannot be read, so that its sessions are missing.
    pub(crate) fn closed(folder: &Path, hint: &str) -> Self {
        let message =
            format!("the sessions in `{}` are missing: cannot read the folder", folder.display());
        Failure { kind: Kind::Unreadable, ..Failure::usage(message, Some(hint)) }
    }

    /// A session that a client does not resume.
    pub(crate) fn refused(why: &str, version: &str) -> Self {
        let message = format!("Claude Code {version} does not resume this session: {why}");
        Failure { kind: Kind::Refused, ..Failure::usage(message, None) }
    }

    /// The same, with something to do about it.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Failure { hint: Some(hint.to_owned()), ..self }
    }

    /// A program that cannot be started.
    pub(crate) fn not_started(program: &Path, source: io::Error) -> Self {
        let message = format!("cannot start `{}`", program.display());
        Failure { kind: Kind::Unreadable, source: Some(source), ..Failure::usage(message, None) }
    }

    /// A verdict that was printed already; only its exit code is left.
    pub(crate) fn verdict(verdict: Verdict) -> Self {
        let kind = match verdict {
            Verdict::Full | Verdict::Loss => Kind::Loss,
            Verdict::Rejected => Kind::Rejected,
            Verdict::Refused => Kind::Refused,
        };
        Failure { kind, ..Failure::usage("", None) }
    }

    /// Unknown data that was listed already; only its exit code is left.
    pub(crate) fn unknown() -> Self {
        Failure { kind: Kind::Unknown, ..Failure::usage("", None) }
    }

    /// Secrets that were listed already; only the exit code is left.
    pub(crate) fn secrets() -> Self {
        Failure { kind: Kind::Secrets, ..Failure::usage("", None) }
    }

    /// A run whose end was reported already, with its exit code.
    pub(crate) fn ended(code: u8) -> Self {
        Failure { code: Some(code), ..Failure::usage("", None) }
    }

    /// Success, or the exit code of a verdict that was printed already.
    pub(crate) fn of_verdict(verdict: Verdict) -> Result<(), Self> {
        match verdict {
            Verdict::Full => Ok(()),
            verdict => Err(Failure::verdict(verdict)),
        }
    }

    /// A file that another process writes to.
    pub(crate) fn in_use(path: &Path, why: &str) -> Self {
        let message = format!("`{}` is not touched: {why}", path.display());
        let hint = "close the program that uses it, or use `--force`";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A file that is protected from being replaced, and that no flag lets us replace.
    pub(crate) fn kept(message: String, hint: &str) -> Self {
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A change that cannot be undone, because the journal is damaged.
    pub(crate) fn damaged(message: impl Into<String>, hint: &str) -> Self {
        Failure { kind: Kind::Unreadable, ..Failure::usage(message, Some(hint)) }
    }

    /// A file that has changed since it was read.
    pub(crate) fn changed(path: &Path) -> Self {
        let message =
            format!("`{}` is not touched: it has changed since it was read", path.display());
        let hint = "run it again to see what would change now";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// Traces that did not arrive.
    pub(crate) fn undelivered(message: impl Into<String>, hint: Option<&str>) -> Self {
        Failure { kind: Kind::Undelivered, ..Failure::usage(message, hint) }
    }

    /// A name that matches nothing.
    pub(crate) fn not_found(message: impl Into<String>, hint: &str) -> Self {
        Failure { kind: Kind::NotFound, ..Failure::usage(message, Some(hint)) }
    }

    /// An error of an operation that both reads a file and writes output: a closed pipe is an error
    /// of the output.
    pub(crate) fn mixed(path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::StorageFull => Failure::from(source),
            _ => Failure::unreadable(path, source),
        }
    }

    /// A home that the user named and that does not exist, or cannot be read.
    pub(crate) fn home(error: HomeError, named_by: &str) -> Self {
        let message = error.to_string();
        match error {
            HomeError::Unreadable { path, source } => Failure::unreadable(&path, source),
            HomeError::Missing { .. } => {
                let hint =
                    format!("{named_by} names it; a home is a folder that contains `projects`");
                Failure::usage(message, Some(&hint))
            }
        }
    }

    /// A name that leads to no session. If it matches several, `describe` gives a row for each.
    pub(crate) fn name(
        error: NameError,
        describe: impl FnOnce(Vec<Session>) -> Vec<String>,
    ) -> Failure {
        let message = error.to_string();
        match error {
            NameError::NotFound { .. } => {
                Failure::not_found(message, "`quipu ls --all` lists all sessions")
            }
            NameError::NoFile { .. } => Failure::not_found(
                message,
                "give a path or an id: `quipu ls --all` lists all sessions",
            ),
            NameError::Ambiguous { candidates, .. } => {
                let hint = "give more of the id, or the path; the newest session is listed first";
                Failure { list: describe(candidates), ..Failure::not_found(message, hint) }
            }
            NameError::Unreadable { path, source } => Failure::unreadable(&path, source),
        }
    }

    /// No home was named, and none exists.
    pub(crate) fn no_home(looked: &str) -> Self {
        let message = format!("no Claude home found ({looked})");
        let hint =
            "set `--home` or `CLAUDE_CONFIG_DIR`; in a terminal, quipu shows sample sessions";
        Failure::not_found(message, hint)
    }

    pub(crate) fn unwritable(path: &Path, source: io::Error) -> Self {
        let message = format!("cannot write `{}`", path.display());
        Failure { message, ..Failure::from(source) }
    }

    /// Names the file, if its output could not be written.
    pub(crate) fn while_writing(self, path: &Path) -> Self {
        match (self.kind, self.source) {
            (Kind::Output, Some(source)) => Failure::unwritable(path, source),
            (_, source) => Failure { source, ..self },
        }
    }

    /// Whether there is nothing to report except the exit code.
    pub(crate) fn is_verdict(&self) -> bool {
        self.message.is_empty()
    }

    pub(crate) fn is_closed_pipe(&self) -> bool {
        let pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        self.kind == Kind::Output && self.source.as_ref().is_some_and(pipe)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code.unwrap_or(self.kind as u8))
    }

    /// Prints the failure on stderr. If stderr is closed too, nothing can be reported.
    pub(crate) fn report(&self) {
        if self.is_verdict() {
            return;
        }
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "error: {self}");
        for row in &self.list {
            let _ = writeln!(err, "  {}", printable(row));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "hint: {}", printable(hint));
        }
    }
}

/// The message and its causes, on one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.message))?;
        let mut cause: Option<&dyn Error> = self.source.as_ref().map(|source| source as &dyn Error);
        while let Some(error) = cause {
            write!(f, ": {}", printable(&error.to_string()))?;
            cause = error.source();
        }
        Ok(())
    }
}

/// A file that could not be read; without a path, output that could not be written.
impl From<transcript::Error> for Failure {
    fn from(error: transcript::Error) -> Self {
        let Some(path) = error.path().map(Path::to_owned) else {
            return Failure::from(error.into_io());
        };
        let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
        let failure = Failure::unreadable(&path, error.into_io());
        Failure { message: failure.message + &line, ..failure }
    }
}

/// A change that was not made.
impl From<workshop::Error> for Failure {
    fn from(error: workshop::Error) -> Self {
        use workshop::{Error, OutputError};
        let message = error.to_string();
        let mut list = Vec::new();
        let (kind, hint) = match error {
            Error::Unreadable { path, source } => return Failure::unreadable(&path, source),
            Error::Unwritable { path, source } => return Failure::unwritable(&path, source),
            Error::InUse { path, why } => return Failure::in_use(&path, &why),
            Error::Locked { .. } => (Kind::InUse, "wait until it has ended, then try again"),
            Error::Protected { .. } => {
                let hint = "use `--force`; without `--in-place`, commands that have it write a new session";
                (Kind::InUse, hint)
            }
            Error::Worse { why, .. } => {
                list.extend(why.iter().take(REASONS).map(reason));
                (
                    Kind::Worse,
                    "nothing was changed; if you named a turn, try it at another turn; `quipu \
                     check` says what is wrong with the session as it is",
                )
            }
            Error::Leaks { .. } => (
                Kind::Worse,
                "nothing was changed; please report it, with the kinds that `quipu secrets` lists",
            ),
            Error::NoState => (Kind::Usage, "set `HOME`, or `XDG_STATE_HOME`"),
            Error::Output { why, .. } => {
                let hint = match why {
                    OutputError::Session => {
                        "use another name, or `--in-place`, if the command has it"
                    }
                    OutputError::BrokenLink => "use another name",
                    OutputError::Folder => "use the name of a file in it",
                    OutputError::Special => "use `--force` to write into it",
                    OutputError::Exists => "use another name, or `--force` to overwrite it",
                };
                (Kind::Usage, hint)
            }
        };
        Failure { kind, list, ..Failure::usage(message, Some(hint)) }
    }
}

/// How many reasons are printed.
const REASONS: usize = 8;

/// What would be wrong with a result, on one line.
pub(crate) fn reason(finding: &Finding) -> String {
    let place = finding.line.map_or(String::new(), |line| format!("line {line}: "));
    format!("{} {}: {place}{}", finding.severity.name(), finding.code, finding.text)
}

/// An error while writing the output; errors while reading always name the file.
impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Self {
        let source = Some(source);
        Failure { kind: Kind::Output, source, ..Failure::usage("cannot write the output", None) }
    }
}
