//! What a session may do without asking. If the user cannot be asked, what would need a question is
//! refused.
//!
//! Decided by mode and by tool name; rules about commands and paths will be added here. Invariant:
//! a tool that was switched off is neither offered nor run, in any mode.

use std::path::{Path, PathBuf};

use crate::sensitive::is_sensitive;
use crate::tool::{Call, Site, Trouble, glob, text};

/// How much is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Reading in the session's folders.
    #[default]
    Default,
    /// Also changing files there.
    AcceptEdits,
    /// Everything.
    Bypass,
}

impl Mode {
    /// The name of the mode in Claude Code.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Bypass => "bypassPermissions",
        }
    }

    /// The mode with this name.
    pub fn named(name: &str) -> Option<Mode> {
        [Mode::Default, Mode::AcceptEdits, Mode::Bypass]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// What is allowed in a session.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    /// The permission mode.
    pub mode: Mode,
    /// Tools that may do anything.
    pub allowed: Vec<String>,
    /// Tools that are switched off.
    pub refused: Vec<String>,
    /// Whether a host may have everything permitted later.
    pub bypass: Bypass,
}

/// Whether a session may be switched to permit everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bypass {
    /// It was started in that mode, or with the option to switch to it.
    Offered,
    /// It was started without that option.
    #[default]
    NotOffered,
    /// Settings forbid it.
    Forbidden,
}

impl Permit {
    /// Whether a tool is offered at all.
    pub fn offers(&self, tool: &str) -> bool {
        !self.refused.iter().any(|refused| refused == tool)
    }

    /// Whether a call may run; if not, the message for the model.
    pub(crate) fn check(&self, call: &Call, site: &Site) -> Result<(), Trouble> {
        let is_there = crate::tool::all().iter().any(|tool| tool.name == call.name);
        if !is_there || !self.offers(&call.name) {
            return Err(crate::tool::unknown(&call.name));
        }
        if self.mode == Mode::Bypass || self.allowed.contains(&call.name) {
            return Ok(());
        }
        let path = |name: &str| site.path(text(call, name));
        let (is_allowed, what) = match call.name.as_str() {
            "TodoWrite" | "TaskOutput" | "TaskStop" => return Ok(()),
            "Read" => Permit::reads(&path("file_path"), site),
            "Glob" => Permit::reads(&glob::folder(call, site), site),
            "Grep" => Permit::reads(&path("path"), site),
            "Write" | "Edit" => self.writes(&path("file_path"), site),
            "NotebookEdit" => self.writes(&path("notebook_path"), site),
            _ => (false, String::new()),
        };
        if is_allowed {
            return Ok(());
        }
        let what = if what.is_empty() { String::new() } else { format!(" on {what}") };
        Err(Trouble::failed(format!(
            "{} was not permitted{what}: this session may not do it without asking, and nobody can be asked.",
            call.name
        )))
    }

    fn reads(path: &Path, site: &Site) -> (bool, String) {
        let found = real(path);
        // Files that tools stored aside belong to the session. A link in their place leads
        // elsewhere and is not followed.
        let mut aside = vec![real(&site.shells.folder)];
        if site.is_own_folder {
            aside.push(real(&site.folder).join("tool-results"));
        }
        let is_allowed = below(&found, site).is_some()
            || aside.into_iter().any(|folder| found.starts_with(folder));
        (is_allowed, path.display().to_string())
    }

    fn writes(&self, path: &Path, site: &Site) -> (bool, String) {
        // A link may have a harmless name, or lead from a sensitive name to a harmless one.
        let home = site.home.as_deref().map(real);
        let is_plain = |(folder, rest): (PathBuf, PathBuf)| {
            !is_sensitive(&folder, &rest, site.home.as_deref())
                && !is_sensitive(&folder, &rest, home.as_deref())
        };
        let is_allowed = self.mode == Mode::AcceptEdits
            && below(&real(path), site).is_some_and(is_plain)
            && below(path, site).is_none_or(is_plain);
        (is_allowed, path.display().to_string())
    }
}

/// The innermost of the session's folders that contains a path, and the path below it; None if no
/// folder contains it.
pub(crate) fn below(path: &Path, site: &Site) -> Option<(PathBuf, PathBuf)> {
    let folders = std::iter::once(&site.root).chain(&site.folders);
    let folders = folders.flat_map(|folder| [folder.clone(), real(folder)]);
    let rests = folders.filter_map(|folder| {
        let rest = path.strip_prefix(&folder).ok()?.to_owned();
        Some((folder, rest))
    });
    rests.min_by_key(|(_, rest)| rest.components().count())
}

/// The path with its links followed, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return rest.iter().rev().fold(found, |path: PathBuf, name| path.join(name));
        }
        match above.file_name() {
            Some(name) => rest.push(name.to_owned()),
            None => break,
        }
    }
    path.to_owned()
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
