//! Why a change is not made.

use std::io;
use std::path::PathBuf;

use files::Protection;
use transcript::client::change::Proof;
use transcript::client::check::{Finding, Severity, Verdict};

/// Why a change is not made. Nothing has happened to the session then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// Another program uses the session, or has written to it since it was read.
    #[error("`{}` is not touched: {why}", path.display())]
    InUse { path: PathBuf, why: String },
    /// Another quipu writes to the session; `who` is empty if it does not say who it is.
    #[error("`{}` is not touched: {} is writing to it", path.display(), named(who))]
    Locked { path: PathBuf, who: String },
    #[error("`{}` is not touched: {}", path.display(), crate::live::words(why))]
    Protected { path: PathBuf, why: Protection },
    /// The result would resume less well, so it is not written; `why` is what would be wrong with
    /// it, worst first.
    #[error("not written: verdict before: {}; after: {}", before.words(), after.words())]
    Worse { before: Verdict, after: Verdict, why: Vec<Finding> },
    /// A second search still finds secrets in what was written, so it is not kept.
    #[error("not written: `{}` would still have {count} of the secrets", path.display())]
    Leaks { path: PathBuf, count: usize },
    /// The file that the result should become cannot be used.
    #[error("{}", why.words(path))]
    Output { path: PathBuf, why: OutputError },
    /// There is no folder for the journal and for locks.
    #[error("cannot determine the state folder")]
    NoState,
}

fn named(who: &str) -> &str {
    if who.is_empty() { "another process" } else { who }
}

/// Why a result cannot be written to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// It is the file of the session itself.
    Session,
    BrokenLink,
    Folder,
    /// A pipe or a device, into which only force writes.
    Special,
    Exists,
}

impl OutputError {
    fn words(self, path: &std::path::Path) -> String {
        let what = match self {
            OutputError::Session => return "that is the session's own file".to_owned(),
            OutputError::BrokenLink => "is a broken link",
            OutputError::Folder => "is a folder",
            OutputError::Special => "is a pipe or a device",
            OutputError::Exists => "already exists",
        };
        format!("`{}` {what}", path.display())
    }
}

impl From<transcript::Error> for Error {
    fn from(error: transcript::Error) -> Self {
        let path = error.path().map(PathBuf::from).unwrap_or_default();
        Error::Unreadable { path, source: error.into_io() }
    }
}

impl Error {
    /// Of a result that resumes less well.
    pub(crate) fn worse(proof: Proof) -> Error {
        let (before, after) = (proof.before.verdict, proof.after.verdict);
        let mut why = proof.after.findings;
        why.retain(|finding| finding.severity >= Severity::Loss);
        Error::Worse { before, after, why }
    }

    pub(crate) fn unreadable(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Unreadable { path: path.into(), source }
    }

    pub(crate) fn unwritable<E: Into<io::Error>>(
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Error {
        move |source| {
            let (path, source) = (path.into(), source.into());
            match source.kind() {
                io::ErrorKind::ResourceBusy => Error::InUse { path, why: source.to_string() },
                _ => Error::Unwritable { path, source },
            }
        }
    }
}
