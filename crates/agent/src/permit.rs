//! What a session may do, and in what words that is said.
//!
//! The rules themselves are in the crate `rules`; here they meet the tools and folders of a
//! session. Invariant: a tool that was switched off is neither offered nor run, in any mode.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

pub use rules::Mode;
use rules::{Access, Decision, Judgement, Place, Question, Rulebook, plain};

use crate::guard::runs_nothing;
use crate::sensitive::is_sensitive;
use crate::tool::{Call, Pins, Site, Trouble};

/// What is allowed in a session.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    /// The permission mode.
    pub mode: Mode,
    /// The rules.
    pub book: Rulebook,
    /// Whether commands in a sandbox that holds need no question, in every mode.
    pub allows_sandboxed: bool,
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
        self.book.offers(tool)
    }

    /// Decides about a call, by rules and mode.
    pub fn judge(&self, call: &Call, site: &Site) -> Judgement {
        let access = site.tools.find(&call.name).map(|tool| tool.access(call, site));
        let access = access.unwrap_or_default();
        let resolved = Resolved::default();
        let judgement = self.judge_resolved(&call.name, &access, site, &resolved);
        // What was judged is what is used, wherever links lead by then.
        let paths = access.reads.iter().chain(&access.writes).map(|path| plain(path));
        let paths = paths.map(|path| (path.clone(), resolved.real(&path))).collect();
        let closed = with_place(site, &resolved, |place| self.book_in(site).closed(place));
        let pins = Pins { paths, closed };
        site.pins.lock().unwrap_or_else(PoisonError::into_inner).insert(call.id.clone(), pins);
        judgement
    }

    /// Decides about what a tool would do.
    pub fn judge_access(&self, tool: &str, access: &Access, site: &Site) -> Judgement {
        self.judge_resolved(tool, access, site, &Resolved::default())
    }

    fn judge_resolved(
        &self,
        tool: &str,
        access: &Access,
        site: &Site,
        resolved: &Resolved,
    ) -> Judgement {
        let has_sandbox = site.guard.as_ref().is_some_and(crate::guard::Guard::holds);
        let mode = match self.mode {
            Mode::Auto if !has_sandbox => Mode::Default,
            mode => mode,
        };
        let is_free = has_sandbox && (mode == Mode::Auto || self.allows_sandboxed);
        let book = Rulebook { allows_sandboxed: is_free, ..self.book_in(site) };
        let question = Question { tool, access };
        with_place(site, resolved, |place| {
            let judgement = book.judge(&question, mode, place);
            let mut scopes = site.scopes.iter().filter(|_| judgement.decision != Decision::Deny);
            let refusal = scopes.find_map(|scope| scope.refusal(&question, place));
            refusal.unwrap_or(judgement)
        })
    }

    /// The rules of the session, and those of the agent that works there.
    fn book_in(&self, site: &Site) -> Rulebook {
        let more = site.scopes.iter().flat_map(|scope| &scope.refused);
        let rules = self.book.rules.iter().chain(more).cloned().collect();
        Rulebook { rules, allows_sandboxed: self.book.allows_sandboxed }
    }

    /// Why a call does not run, in words for the model.
    pub(crate) fn refusal(call: &Call, judgement: &Judgement) -> Trouble {
        let why = &judgement.why;
        Trouble::failed(match judgement.decision {
            rules::Decision::Deny => format!("{} was not permitted: {why}.", call.name),
            _ => format!(
                "{} was not permitted: {why}. This needs a question, and nobody can be asked.",
                call.name
            ),
        })
    }
}

/// Where paths lead: each is looked up once, so that a link that is changed meanwhile leads to one
/// place.
#[derive(Debug, Default)]
struct Resolved {
    paths: RefCell<HashMap<PathBuf, PathBuf>>,
    patterns: RefCell<HashMap<PathBuf, Option<Vec<PathBuf>>>>,
}

impl Resolved {
    fn real(&self, path: &Path) -> PathBuf {
        let mut known = self.paths.borrow_mut();
        known.entry(path.to_owned()).or_insert_with(|| real(path)).clone()
    }

    fn fitting(&self, pattern: &Path) -> Option<Vec<PathBuf>> {
        let mut known = self.patterns.borrow_mut();
        known.entry(pattern.to_owned()).or_insert_with(|| fitting(pattern)).clone()
    }
}

/// Where a session works, for rules.
fn with_place<T>(site: &Site, resolved: &Resolved, judge: impl FnOnce(&Place<'_>) -> T) -> T {
    let cwd = site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let folders = site.all_folders();
    // Files that tools stored aside belong to the session. A link in their place leads elsewhere
    // and is not followed.
    let mut readable = vec![real(&site.shells.folder)];
    if site.is_own_folder {
        readable.push(real(&site.folder).join("tool-results"));
    }
    readable.retain(|folder| real(folder) == *folder);
    let home = site.home.as_deref().map(real);
    let sensitive = |path: &Path| {
        below(path, site).is_some_and(|(folder, rest)| {
            is_sensitive(&folder, &rest, site.home.as_deref())
                || is_sensitive(&folder, &rest, home.as_deref())
        })
    };
    let is_hidden = |path: &Path| site.guard.as_ref().is_some_and(|guard| guard.hides(path));
    let mut writable = vec![site.shells.folder.join("tmp")];
    writable.extend(site.guard.iter().flat_map(|guard| guard.writable.clone()));
    let hold = rules::Hold { is_hidden: &is_hidden, writable: &writable };
    judge(&Place {
        hold: site.guard.is_some().then_some(hold),
        cwd: &cwd,
        root: &site.root,
        folders: &folders,
        readable: &readable,
        home: site.home.as_deref(),
        real: &|path| resolved.real(path),
        fitting: &|pattern| resolved.fitting(pattern),
        is_sensitive: &sensitive,
        has_other_names: &has_other_names,
        runs_nothing: &|folder| runs_nothing(folder, site.trusted_repository.as_deref()),
    })
}

/// The rule that would have allowed a call.
pub(crate) fn suggestion(tool: &str, access: &Access, judgement: &Judgement) -> String {
    if judgement.why.contains(rules::UNDECIDED) {
        return tool.to_owned();
    }
    let first = judgement.parts.iter().find(|part| part.decision != rules::Decision::Allow);
    if let Some(part) = first.or(judgement.parts.first())
        && let Some(content) = rules::suggested(&part.text)
    {
        return format!("{tool}({content})");
    }
    match (access.reads.first(), access.reaches.first()) {
        (Some(path), _) if tool == "Read" => format!("Read(/{})", path.display()),
        (_, Some(host)) => format!("{tool}(domain:{host})"),
        _ => tool.to_owned(),
    }
}

#[cfg(unix)]
fn has_other_names(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.nlink() > 1)
}

#[cfg(not(unix))]
fn has_other_names(_: &Path) -> bool {
    false
}

/// The innermost of the session's folders that contains a path, and the path below it; None if no
/// folder contains it.
pub(crate) fn below(path: &Path, site: &Site) -> Option<(PathBuf, PathBuf)> {
    let folders = site.all_folders().into_iter();
    let folders = folders.flat_map(|folder| [real(&folder), folder]);
    let rests = folders.filter_map(|folder| {
        let rest = path.strip_prefix(&folder).ok()?.to_owned();
        Some((folder, rest))
    });
    rests.min_by_key(|(_, rest)| rest.components().count())
}

/// How many entries of folders are looked at for a pattern, and how many paths may fit it.
const LOOKED_AT: usize = 20_000;
const FITTING: usize = 2_000;

/// The paths that a pattern of file names in a shell fits now, and perhaps some more; None if they
/// are too many.
pub(crate) fn fitting(pattern: &Path) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    let mut looked_at = 0;
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        let Some(sign) = text.find(['*', '?', '[']) else {
            let next = |path: PathBuf| match part {
                // The system leaves the folder to which a link has led.
                Component::ParentDir => path.canonicalize().ok()?.parent().map(Path::to_owned),
                _ => Some(path.join(part)).filter(|path| path.symlink_metadata().is_ok()),
            };
            found = found.into_iter().filter_map(next).collect();
            continue;
        };
        // What a sign in brackets means is not looked at: it may be more.
        let wanted = text.find('[').map_or(text.to_string(), |at| format!("{}*", &text[..at]));
        let wanted = wanted.replace('?', "*");
        let is_hidden = sign > 0 && text.starts_with('.');
        let mut next = Vec::new();
        for folder in &found {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for name in entries.map(|entry| entry.file_name()) {
                looked_at += 1;
                if looked_at > LOOKED_AT {
                    return None;
                }
                let name = name.to_string_lossy().into_owned();
                if name.starts_with('.') == is_hidden && rules::fits(&wanted, &name) {
                    next.push(folder.join(name));
                }
            }
            if is_hidden && rules::fits(&wanted, "..") {
                next.extend(folder.canonicalize().ok()?.parent().map(Path::to_owned));
            }
        }
        found = next;
    }
    (found.len() <= FITTING).then_some(found)
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
