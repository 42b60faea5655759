//! What can go wrong, and what the user is told.
//!
//! One type for the whole binary: a kind, which is the exit code; what happened; at most one hint.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use files::NotRegular;
use transcript::check::Verdict;
use transcript::place::{HomeError, NameError};

use crate::text::printable;

/// What to do about a pipe or a device.
const REGULAR: &str = "only regular files are read: save what it gives to a file first";

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    source: Option<io::Error>,
    /// What to do, and lines to choose from.
    hint: Option<String>,
    list: Vec<String>,
    /// An exit code that is not one of ours.
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

    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        let is_stream = NotRegular::is_why(&source) && !path.is_dir();
        let hint = is_stream.then_some(REGULAR);
        let message = format!("cannot read `{}`", path.display());
        let source = Some(source);
        Failure { kind: Kind::Unreadable, source, ..Failure::usage(message, hint) }
    }

    /// Files that were asked for by name could not be read; each was named already.
    pub(crate) fn some_unreadable(count: usize) -> Self {
        let message = format!("{count} of the files could not be read");
        Failure {
            kind: Kind::Unreadable,
            message,
            source: None,
            hint: None,
            list: Vec::new(),
            code: None,
        }
    }

    /// A folder that nobody can look into, so that what is in it is missing.
    pub(crate) fn closed(folder: &Path, hint: &str) -> Self {
        let message =
            format!("the sessions in `{}` are missing: it cannot be read", folder.display());
        Failure { kind: Kind::Unreadable, ..Failure::usage(message, Some(hint)) }
    }

    /// A session that a client does not go on with.
    pub(crate) fn refused(why: &str, version: &str) -> Self {
        let message = format!("Claude Code {version} does not resume this session: {why}");
        Failure { kind: Kind::Refused, ..Failure::usage(message, None) }
    }

    /// A verdict that was told already: nothing but its exit code is left.
    pub(crate) fn verdict(verdict: Verdict) -> Self {
        let kind = match verdict {
            Verdict::Full | Verdict::Loss => Kind::Loss,
            Verdict::Rejected => Kind::Rejected,
            Verdict::Refused => Kind::Refused,
        };
        Failure { kind, ..Failure::usage("", None) }
    }

    /// An end that was told already, with its exit code.
    pub(crate) fn ended(code: u8) -> Self {
        Failure { code: Some(code), ..Failure::usage("", None) }
    }

    /// Success, or the exit code of a verdict that was told already.
    pub(crate) fn of_verdict(verdict: Verdict) -> Result<(), Self> {
        match verdict {
            Verdict::Full => Ok(()),
            verdict => Err(Failure::verdict(verdict)),
        }
    }

    /// A file that somebody else writes to.
    pub(crate) fn in_use(path: &Path, why: &str) -> Self {
        let message = format!("`{}` is not touched: {why}", path.display());
        let hint = "close whatever uses it, or give `--force`";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A file that is protected from being replaced.
    pub(crate) fn protected(path: &Path, why: &str) -> Self {
        let message = format!("`{}` is not touched: {why}", path.display());
        let hint = "give `--force`, or leave `--in-place` out: then a new session is written";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// The same of a file that no flag lets us replace.
    pub(crate) fn kept(message: String, hint: &str) -> Self {
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A session that another quipu writes to.
    pub(crate) fn owned(path: &Path, who: &str) -> Self {
        let who = if who.is_empty() { "another process" } else { who };
        let message = format!("`{}` is not touched: {who} writes to it", path.display());
        let hint = "wait until that has ended, and do this again";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A change in the journal that cannot be taken back, because the journal is damaged.
    pub(crate) fn damaged(message: impl Into<String>, hint: &str) -> Self {
        Failure { kind: Kind::Unreadable, ..Failure::usage(message, Some(hint)) }
    }

    /// A file that is not what it was when it was read.
    pub(crate) fn changed(path: &Path) -> Self {
        let message =
            format!("`{}` is not touched: it has changed since it was read", path.display());
        let hint = "do it again: what would change is shown anew";
        Failure { kind: Kind::InUse, ..Failure::usage(message, Some(hint)) }
    }

    /// A result that is not written, because it would resume less well.
    pub(crate) fn worse(before: &str, after: &str) -> Self {
        let message = format!("not written: before it {before}, afterwards {after}");
        let hint = "this should not happen: please report it, with what `quipu check` says";
        Failure { kind: Kind::Worse, ..Failure::usage(message, Some(hint)) }
    }

    /// Traces that did not arrive.
    pub(crate) fn undelivered(message: impl Into<String>, hint: Option<&str>) -> Self {
        Failure { kind: Kind::Undelivered, ..Failure::usage(message, hint) }
    }

    /// A name in a session that leads to nothing.
    pub(crate) fn not_found(message: impl Into<String>, hint: &str) -> Self {
        Failure { kind: Kind::NotFound, ..Failure::usage(message, Some(hint)) }
    }

    /// An error of something that both reads a file and writes output: a closed pipe is the output's.
    pub(crate) fn mixed(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::StorageFull => Failure::from(source),
            _ => Failure::unreadable(path, source),
        }
    }

    /// A home that somebody named and that is none, or cannot be read.
    pub(crate) fn home(error: HomeError, named_by: &str) -> Self {
        let message = error.to_string();
        match error {
            HomeError::Unreadable { path, source } => Failure::unreadable(&path, source),
            HomeError::Missing { .. } => {
                let hint =
                    format!("{named_by} names it; a home is the folder that holds `projects`");
                Failure::usage(message, Some(&hint))
            }
        }
    }

    /// No home was named, and there is none.
    pub(crate) fn no_home(looked: &str) -> Self {
        let message = format!("there is no Claude home ({looked})");
        let hint =
            "name one by `--home` or `CLAUDE_CONFIG_DIR`; in a terminal sample sessions are shown";
        Failure::not_found(message, hint)
    }

    pub(crate) fn unwritable(path: &Path, source: io::Error) -> Self {
        let message = format!("cannot write `{}`", path.display());
        Failure { message, ..Failure::from(source) }
    }

    /// Whether somebody else writes to a file.
    pub(crate) fn is_in_use(&self) -> bool {
        self.kind == Kind::InUse
    }

    /// Whether there is nothing to tell but the exit code.
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

    /// Tells the user, on stderr. If that is closed too there is nobody to tell.
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

/// What happened, and why, on one line.
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

/// An error of writing the output; reading always says which file.
impl From<io::Error> for Failure {
    fn from(source: io::Error) -> Self {
        Failure {
            kind: Kind::Output,
            message: "cannot write the output".to_owned(),
            source: Some(source),
            hint: None,
            list: Vec::new(),
            code: None,
        }
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        let message = error.to_string();
        let (kind, hint, source, list) = match error {
            NameError::NotFound { .. } => {
                let hint = "`quipu ls --all` lists the sessions there are";
                (Kind::NotFound, Some(hint), None, Vec::new())
            }
            NameError::NoFile { .. } => {
                let hint = "give a path, or an id: `quipu ls --all` lists the sessions there are";
                (Kind::NotFound, Some(hint), None, Vec::new())
            }
            NameError::Ambiguous { candidates, .. } => {
                let rows = candidates.iter().map(|one| one.path.display().to_string());
                let hint = "give more of the id, or the path; the newest is first";
                (Kind::NotFound, Some(hint), None, rows.collect())
            }
            NameError::Unreadable { path, source } => return Failure::unreadable(&path, source),
        };
        Failure { kind, message, source, hint: hint.map(str::to_owned), list, code: None }
    }
}
