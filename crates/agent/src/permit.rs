//! What a session may do without asking. Where nobody can be asked, what would be asked is refused.
//!
//! By mode and by tool name; rules about commands and paths come here later. Invariant: a tool that was switched off is neither offered nor run, in any mode.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

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
    /// Whether a host may have everything permitted later.
    pub bypass: Bypass,
}

/// Whether a session may come to permit everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bypass {
    /// It was started so, or with the offer.
    Offered,
    /// Nobody spoke of it when it was started.
    #[default]
    NotOffered,
    /// Settings forbid it.
    Forbidden,
}

impl Permit {
    /// Whether a tool is there at all.
    pub fn offers(&self, tool: &str) -> bool {
        !self.refused.iter().any(|refused| refused == tool)
    }

    /// Whether a call may run; if not, what the model is told.
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
        // What tools put aside is the session's own.
        let aside = [&site.folder, &site.shells.folder];
        let is_allowed = below(&found, site).is_some()
            || aside.into_iter().any(|folder| found.starts_with(real(folder)));
        (is_allowed, path.display().to_string())
    }

    fn writes(&self, path: &Path, site: &Site) -> (bool, String) {
        // A link may have a harmless name, or lead from a name that is not to a harmless one.
        let is_allowed = self.mode == Mode::AcceptEdits
            && below(&real(path), site).is_some_and(|rest| !is_sensitive(&rest))
            && below(path, site).is_none_or(|rest| !is_sensitive(&rest));
        (is_allowed, path.display().to_string())
    }
}

/// What a path is below the session's folder that it lies in, the innermost of them; nothing if it lies in none.
fn below(path: &Path, site: &Site) -> Option<PathBuf> {
    let folders = std::iter::once(&site.root).chain(&site.folders);
    let folders = folders.flat_map(|folder| [folder.clone(), real(folder)]);
    let rests = folders.filter_map(|folder| path.strip_prefix(folder).ok().map(Path::to_owned));
    rests.min_by_key(|rest| rest.components().count())
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

/// Files that decide what programs do: nobody changes them by the way. Where a session works is no such thing: only what is below its folder counts.
fn is_sensitive(below: &Path) -> bool {
    // In a worktree `.git` is a file.
    let parts = [".git", ".vscode", ".idea", ".claude"];
    let names = [".bashrc", ".zshrc", ".profile", ".bash_profile", ".gitconfig", ".mcp.json"];
    below.iter().any(|part| parts.iter().any(|own| is_same(part, own)))
        || below.file_name().is_some_and(|name| names.iter().any(|own| is_same(name, own)))
}

/// Whether two names mean the same file here.
fn is_same(name: &OsStr, own: &str) -> bool {
    if cfg!(any(target_os = "macos", windows)) {
        name.eq_ignore_ascii_case(own)
    } else {
        name == own
    }
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
