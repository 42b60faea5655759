//! `Glob`: finds files by their names.
//!
//! Invariants: hidden and ignored files are found, too, as the client's own Glob does (recorded:
//! files in `node_modules`), except those of a version control system; the oldest is first, as
//! recorded; of too many, the newest are kept, because those are the ones being worked on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use globset::GlobBuilder;
use ignore::{DirEntry, WalkBuilder};
use rules::Pattern;
use serde::Serialize;

use crate::permit::real;

use super::{Answer, Call, Site, Trouble, plain, text};

/// The most files that are listed.
const MOST: usize = 100;

/// Folders of version control systems. No tool searches them unless the call names one.
const HISTORY: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GlobDetail<'a> {
    filenames: &'a [String],
    duration_ms: u128,
    num_files: usize,
    truncated: bool,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let begun = Instant::now();
    let base = base(call, site)?;
    if !base.is_dir() {
        return Err(Trouble::wrong(format!("{} is not a folder.", base.display())));
    }
    let folder = folder(call, site);
    let (_, glob) = split(text(call, "pattern"));
    let glob = GlobBuilder::new(&glob).literal_separator(true).build();
    let glob = glob.map_err(|why| Trouble::wrong(format!("Bad pattern: {why}")))?.compile_matcher();
    let mut found = Vec::new();
    let closed = site.closed(call);
    let is_shown = move |entry: &DirEntry| is_open(entry) && !is_closed(entry.path(), &closed);
    let walk = WalkBuilder::new(&folder).standard_filters(false).filter_entry(is_shown).build();
    for entry in walk.flatten() {
        if call.cancel.is_set() {
            return Err(cancelled());
        }
        let is_match = entry.path().strip_prefix(&folder).is_ok_and(|path| glob.is_match(path));
        if is_match && entry.file_type().is_some_and(|kind| kind.is_file()) {
            let modified = fs::metadata(entry.path()).and_then(|found| found.modified()).ok();
            found.push((modified, entry.into_path()));
        }
    }
    found.sort_unstable();
    let all = found.len();
    let shown = found.split_off(all.saturating_sub(MOST));
    let names: Vec<String> =
        shown.iter().map(|(_, path)| path.to_string_lossy().into_owned()).collect();
    let output = match all {
        0 => "No files found".to_owned(),
        1..=MOST => names.join("\n"),
        _ => {
            let names = names.join("\n");
            format!("{names}\n(The newest {MOST} of {all}. Use a narrower pattern or path.)")
        }
    };
    let detail = GlobDetail {
        filenames: &names,
        duration_ms: begun.elapsed().as_millis(),
        num_files: names.len(),
        truncated: all > MOST,
    };
    Ok(Answer::text(output, &detail))
}

/// The folder that a call wants to search.
pub(super) fn base(call: &Call, site: &Site) -> Result<PathBuf, Trouble> {
    let named = text(call, "path");
    let base = site.path(named);
    if !base.exists() {
        return Err(Trouble::wrong(format!("Path does not exist: {named}")));
    }
    Ok(base)
}

/// Whether the entry is not a folder of a version control system, or was named by the call.
pub(super) fn is_open(entry: &DirEntry) -> bool {
    entry.depth() == 0 || !HISTORY.iter().any(|name| entry.file_name() == *name)
}

/// Whether rules keep a file or folder from being read.
pub(super) fn is_closed(path: &Path, closed: &[Pattern]) -> bool {
    closed.iter().any(|pattern| pattern.matches(path) || pattern.matches(&real(path)))
}

/// The error of a cancelled call.
pub(super) fn cancelled() -> Trouble {
    Trouble::failed("The search was cancelled.")
}

/// The folder that a call searches: a pattern may lead out of the folder that the call names.
pub(crate) fn folder(call: &Call, site: &Site) -> PathBuf {
    let (folder, _) = split(text(call, "pattern"));
    let is_whole = folder.starts_with(['/', '~']);
    if is_whole { site.path(&folder) } else { plain(&site.path(text(call, "path")).join(folder)) }
}

/// The folder that a pattern begins with, and the rest of the pattern.
fn split(pattern: &str) -> (String, String) {
    if !pattern.contains('/') {
        // As in `.gitignore`, a name alone matches in every folder.
        return (String::new(), format!("**/{pattern}"));
    }
    let is_special = |part: &&str| part.contains(['*', '?', '[', '{', '\\']);
    let mut parts: Vec<&str> = pattern.split('/').collect();
    let first = parts.iter().position(is_special);
    let rest = parts.split_off(first.unwrap_or(parts.len() - 1));
    (parts.iter().flat_map(|part| [part, "/"]).collect(), rest.join("/"))
}

#[cfg(test)]
#[path = "glob_tests.rs"]
mod tests;
