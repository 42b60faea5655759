//! What a session may do without asking. Where nobody can be asked, what would be asked is refused.
//!
//! By mode and by tool name; rules about commands and paths come here later. Invariant: a tool that was switched off is neither offered nor run, in any mode.

use std::path::{Path, PathBuf};

use crate::tool::{Call, Site, Trouble, text};

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
    /// The name that clients have for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Bypass => "bypassPermissions",
        }
    }

    /// The mode of a name.
    pub fn named(name: &str) -> Option<Mode> {
        [Mode::Default, Mode::AcceptEdits, Mode::Bypass]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// What is allowed in a session.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    /// By mode.
    pub mode: Mode,
    /// Tools that may do anything.
    pub allowed: Vec<String>,
    /// Tools that are switched off.
    pub refused: Vec<String>,
    /// Folders beside the project's.
    pub folders: Vec<PathBuf>,
}

impl Permit {
    /// Whether a tool is there at all.
    pub fn offers(&self, tool: &str) -> bool {
        !self.refused.iter().any(|refused| refused == tool)
    }

    /// Whether a call may run; if not, what the model is told.
    pub(crate) fn check(&self, call: &Call, site: &Site) -> Result<(), Trouble> {
        if !self.offers(&call.name) {
            return Err(crate::tool::unknown(&call.name));
        }
        if self.mode == Mode::Bypass || self.allowed.contains(&call.name) {
            return Ok(());
        }
        let path = |name: &str| site.path(text(call, name));
        let (is_allowed, what) = match call.name.as_str() {
            "TodoWrite" | "TaskOutput" | "TaskStop" => return Ok(()),
            "Read" => self.reads(&path("file_path"), site),
            "Glob" | "Grep" => self.reads(&path("path"), site),
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

    fn reads(&self, path: &Path, site: &Site) -> (bool, String) {
        (self.is_inside(path, site), path.display().to_string())
    }

    fn writes(&self, path: &Path, site: &Site) -> (bool, String) {
        let is_allowed =
            self.mode == Mode::AcceptEdits && self.is_inside(path, site) && !is_sensitive(path);
        (is_allowed, path.display().to_string())
    }

    /// Whether a path lies in the session's folders, links followed.
    fn is_inside(&self, path: &Path, site: &Site) -> bool {
        let path = real(path);
        let folders = std::iter::once(&site.root).chain(&self.folders);
        folders.into_iter().any(|folder| path.starts_with(real(folder)))
            || path.starts_with(real(&site.folder))
    }
}

/// A path with its links followed, as far as it is there.
fn real(path: &Path) -> PathBuf {
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

/// Files that decide what programs do: nobody changes them by the way.
fn is_sensitive(path: &Path) -> bool {
    let folders = [".git", ".vscode", ".idea", ".claude"];
    let names = [".bashrc", ".zshrc", ".profile", ".bash_profile", ".gitconfig", ".mcp.json"];
    let has = |name: &std::ffi::OsStr, list: &[&str]| list.iter().any(|own| name == *own);
    path.parent().is_some_and(|folder| folder.iter().any(|part| has(part, &folders)))
        || path.file_name().is_some_and(|name| has(name, &names))
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
