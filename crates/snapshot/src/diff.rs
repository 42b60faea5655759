//! Changes of files for people and programs: unified diffs, and counts.

use std::path::Path;

use similar::{ChangeTag, TextDiff};

use crate::store::Store;
use crate::tree::State;

/// A file that is compared line by line, at most.
const MOST: u64 = 4 << 20;

/// What a change does to a path, with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// `created`, `deleted`, `changed`, `mode` …
    pub kind: Kind,
    /// The hunks; empty if there is nothing to show line by line.
    pub hunks: String,
    pub added: u64,
    pub removed: u64,
    /// What there is instead of hunks.
    pub note: Option<String>,
}

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Created,
    Deleted,
    Changed,
    Mode,
}

impl Kind {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Created => "created",
            Kind::Deleted => "deleted",
            Kind::Changed => "changed",
            Kind::Mode => "mode",
        }
    }
}

/// Describes a change. Contents that are missing from the store are noted.
pub fn show(store: &Store, before: Option<&State>, after: Option<&State>) -> Shown {
    let kind = match (before, after) {
        (None, _) => Kind::Created,
        (_, None) => Kind::Deleted,
        (Some(State::File { hash: one, .. }), Some(State::File { hash: other, .. }))
            if one == other =>
        {
            Kind::Mode
        }
        (Some(State::Folder { .. }), Some(State::Folder { .. })) => Kind::Mode,
        _ => Kind::Changed,
    };
    let mut shown = Shown { kind, hunks: String::new(), added: 0, removed: 0, note: None };
    if kind == Kind::Mode {
        let mode = |state: Option<&State>| match state {
            Some(State::File { mode, .. } | State::Folder { mode }) => format!("{mode:04o}"),
            _ => String::new(),
        };
        shown.note = Some(format!("mode {} → {}", mode(before), mode(after)));
        return shown;
    }
    let texts = (text(store, before), text(store, after));
    match texts {
        (Ok(one), Ok(other)) => {
            let diff = TextDiff::from_lines(&one, &other);
            for change in diff.iter_all_changes() {
                match change.tag() {
                    ChangeTag::Insert => shown.added += 1,
                    ChangeTag::Delete => shown.removed += 1,
                    ChangeTag::Equal => {}
                }
            }
            shown.hunks = diff.unified_diff().context_radius(3).to_string();
            if let Some(note) = both(before, after) {
                shown.note = Some(note);
            }
        }
        (Err(note), _) | (_, Err(note)) => shown.note = Some(note),
    }
    shown
}

/// What changes besides the lines.
fn both(before: Option<&State>, after: Option<&State>) -> Option<String> {
    let words = |state: Option<&State>| match state {
        None => "nothing".to_owned(),
        Some(State::File { mode, .. }) => format!("a file ({mode:04o})"),
        Some(State::Link(target)) => format!("a link to {}", String::from_utf8_lossy(target)),
        Some(State::Folder { .. }) => "a folder".to_owned(),
        Some(State::Object) => "an object".to_owned(),
        Some(State::Outside(why, _)) => format!("not covered ({})", why.words()),
    };
    match (before, after) {
        (Some(State::File { mode: one, .. }), Some(State::File { mode: other, .. })) => {
            (one != other).then(|| format!("mode {one:04o} → {other:04o}"))
        }
        (None, Some(State::File { .. })) | (Some(State::File { .. }), None) => None,
        _ => Some(format!("{} → {}", words(before), words(after))),
    }
}

/// The text of a state; or why there is none.
fn text(store: &Store, state: Option<&State>) -> Result<String, String> {
    match state {
        Some(State::File { size, .. }) if *size > MOST => Err(format!("{size} bytes")),
        Some(State::File { hash, .. }) => {
            let bytes = store.get(*hash).map_err(|error| error.to_string())?;
            if bytes.iter().take(8000).any(|byte| *byte == 0) {
                return Err("binary".to_owned());
            }
            String::from_utf8(bytes).map_err(|_| "binary".to_owned())
        }
        _ => Ok(String::new()),
    }
}

/// Whether a path is one of git's own files, which are covered but not worth reading.
pub fn is_gits(path: &Path) -> bool {
    path.iter().any(|name| name == ".git")
}
