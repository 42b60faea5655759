//! `Write`: a whole file, new or replaced; and how the tools that change files do it.
//!
//! Invariants: a file that the model has not read, or that has changed since, stays as it is ([`guard`]); what a file was is kept before it is changed, and a file is
//! replaced whole or not at all ([`save`]); permissions stay, and a link stays a link.

pub(super) mod patch;

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;

use super::read::numbered;
use super::{Answer, Call, Site, Trouble, text};
use crate::seen::State;
use patch::{Hunk, hunks};

/// How much of a replaced file is shown, in bytes.
const SHOWN: usize = 16_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    r#type: &'a str,
    file_path: &'a str,
    content: &'a str,
    structured_patch: Vec<Hunk>,
    original_file: Option<&'a str>,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let path = site.path(text(call, "file_path"));
    let content = text(call, "content");
    let name = path.to_string_lossy();
    let old = match guard(&path, site)? {
        Some(_) => Some(fs::read(&path).map_err(|why| unreadable(&path, &why))?),
        None => None,
    };
    save(&path, content.as_bytes(), site)?;
    let Some(old) = old else {
        let detail = Detail {
            r#type: "create",
            file_path: &name,
            content,
            structured_patch: Vec::new(),
            original_file: None,
        };
        return Ok(Answer::text(format!("File created successfully at: {name}"), &detail));
    };
    let old = String::from_utf8_lossy(&old).replace("\r\n", "\n");
    let detail = Detail {
        r#type: "update",
        file_path: &name,
        content,
        structured_patch: hunks(&old, &content.replace("\r\n", "\n")),
        original_file: Some(&old),
    };
    let head = format!(
        "The file {name} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:"
    );
    Ok(Answer::text(format!("{head}\n{}", shown(content)), &detail))
}

/// The text with line numbers, as far as it is shown.
fn shown(content: &str) -> String {
    if content.len() <= SHOWN {
        return numbered(content.split('\n'), 1);
    }
    let end = content.as_bytes()[..SHOWN].iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let more = content[end..].matches('\n').count();
    format!("{}\n({more} more lines)", numbered(content[..end].split('\n'), 1))
}

/// Whether a file may be changed, and what it is; nothing if there is none.
pub(super) fn guard(path: &Path, site: &Site) -> Result<Option<Metadata>, Trouble> {
    let found = match fs::metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|why| unreadable(path, &why))?,
    };
    if found.is_dir() {
        return Err(Trouble::wrong(format!("{} is a folder.", path.display())));
    }
    if !found.is_file() {
        return Err(Trouble::wrong(format!("{} is not a regular file.", path.display())));
    }
    match site.seen.state(path) {
        State::Known => Ok(Some(found)),
        State::Unread => {
            Err(Trouble::wrong("File has not been read yet. Read it first before writing to it."))
        }
        State::Changed => Err(Trouble::wrong(
            "File has changed since it was read. Read it again before writing to it.",
        )),
    }
}

/// Why a file cannot be read.
pub(super) fn unreadable(path: &Path, why: &io::Error) -> Trouble {
    Trouble::failed(format!("Cannot read {}: {why}", path.display()))
}

/// Keeps what a file was, writes it, and notes it as known.
pub(super) fn save(path: &Path, content: &[u8], site: &Site) -> Result<(), Trouble> {
    let failed = |what, why| Trouble::failed(format!("{what} {}: {why}", path.display()));
    site.backups.keep(path).map_err(|why| failed("Cannot keep a copy of", why))?;
    put(path, content, &site.nature.id()).map_err(|why| failed("Cannot write", why))?;
    site.seen.note(path);
    Ok(())
}

pub(super) fn put(path: &Path, content: &[u8], id: &str) -> io::Result<()> {
    // What a link leads to is replaced, not the link.
    let target = match fs::canonicalize(path) {
        Err(_) if path.is_symlink() => return Err(io::Error::other("the link leads nowhere")),
        Err(_) => path.to_owned(),
        Ok(target) => target,
    };
    let folder = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let old = fs::metadata(&target).ok().map(|found| found.permissions());
    if old.as_ref().is_some_and(fs::Permissions::readonly) {
        // A rename would not mind.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let part = folder.join(format!(".{id}.part"));
    let written = File::create_new(&part).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(old) = old {
            file.set_permissions(old)?;
        }
        file.sync_all()?;
        fs::rename(&part, &target)
    });
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
#[path = "bench.rs"]
pub(super) mod bench;

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
