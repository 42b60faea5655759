//! `Write`: creates or replaces a whole file; and the functions with which all tools change files.
//!
//! Invariants: a file that the model has not read, or that has changed since, stays as it is
//! ([`guard`]); a file is copied before it is changed, and is replaced completely or not at all
//! ([`save`]), unless it has other names, or is in a place where nothing can be replaced: then it
//! is written in place. Owner and permissions stay, no other user can read what they could not read
//! before, and a link stays a link.

pub(super) mod patch;

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;

use files::{FixedFolder, Missing, NewAccess};
use serde::Serialize;

use super::read::numbered;
use super::{Answer, Call, Site, Trouble, text};
use crate::freshness::{Print, State};
use crate::host::Preview;
use crate::secret::Extent;
use patch::{Hunk, hunks};

/// How many bytes of a replaced file are shown.
const SHOWN: usize = 3_000;

/// The largest file that is included in the record of a call, in bytes.
pub(super) const LARGEST: u64 = 32 << 20;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteDetail<'a> {
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
    let at = site.pinned(call, &path);
    let found = guard(&path, site)?;
    let old = match &found {
        Some(found) if found.len() <= LARGEST => {
            let old = files::read_fixed(&at, LARGEST).map_err(|why| unreadable(&path, &why))?;
            Some(String::from_utf8_lossy(&old).replace("\r\n", "\n"))
        }
        _ => None,
    };
    save((&path, &at), content.as_bytes(), site)?;
    if found.is_none() {
        let detail = WriteDetail {
            r#type: "create",
            file_path: &name,
            content,
            structured_patch: Vec::new(),
            original_file: None,
        };
        return Ok(Answer::text(format!("File created successfully at: {name}"), &detail));
    }
    let changes = old.as_deref().map(|old| hunks(old, &content.replace("\r\n", "\n")));
    let detail = WriteDetail {
        r#type: "update",
        file_path: &name,
        content,
        structured_patch: changes.unwrap_or_default(),
        original_file: old.as_deref(),
    };
    let head = format!(
        "The file {name} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:"
    );
    Ok(Answer::text(format!("{head}\n{}", shown(content)), &detail))
}

/// What a call would do.
pub(super) fn preview(call: &Call, site: &Site) -> Result<Preview, Trouble> {
    let path = site.path(text(call, "file_path"));
    let at = site.pinned(call, &path);
    let before = match guard(&path, site)? {
        None => None,
        Some(found) if found.len() > LARGEST => {
            Some(format!("({} bytes, too many to be shown)\n", found.len()))
        }
        Some(_) => {
            let old = files::read_fixed(&at, LARGEST).map_err(|why| unreadable(&path, &why))?;
            Some(String::from_utf8_lossy(&old).into_owned())
        }
    };
    Ok(previewed((&path, &at), before, text(call, "content"), site))
}

/// A change as a person is shown it: where a link leads, and no keys.
pub(super) fn previewed(
    (path, at): (&Path, &Path),
    before: Option<String>,
    after: &str,
    site: &Site,
) -> Preview {
    let clean = |text: &str| site.secrets.redacted(text, Extent::Whole).into_owned();
    let name = path.display().to_string();
    let path = if path == at { name } else { format!("{name} → {}", at.display()) };
    Preview { path, before: before.map(|before| clean(&before)), after: clean(after) }
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

/// Checks whether a file may be changed, and returns its metadata; None if it does not exist.
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

/// Copies a file, writes it, and records the new content as known. `at` is where the path led when
/// the call was permitted.
pub(super) fn save((path, at): (&Path, &Path), content: &[u8], site: &Site) -> Result<(), Trouble> {
    // Checked again directly before writing: preparing the content may have taken a while.
    if guard(path, site)?.is_some_and(|found| found.len() <= LARGEST) {
        let old = files::read_fixed(at, LARGEST).map_err(|why| unreadable(path, &why))?;
        if site.secrets.would_be_lost(&old, content) {
            return Err(Trouble::wrong(format!(
                "{} holds a key of the API that you were not shown, and this would take its place. Edit other lines of the file one by one.",
                path.display()
            )));
        }
    }
    let failed = |what, why| Trouble::failed(format!("{what} {}: {why}", path.display()));
    site.backups.keep(path).map_err(|why| failed("Cannot keep a copy of", why))?;
    put(at, content, &site.nature.id()).map_err(|why| failed("Cannot write", why))?;
    site.seen.note(path, Print::of(content));
    Ok(())
}

/// Writes a file at a path without links.
fn put(target: &Path, content: &[u8], id: &str) -> io::Result<()> {
    let old = fs::symlink_metadata(target).ok();
    if old.as_ref().is_some_and(Metadata::is_symlink) {
        return Err(io::Error::other("the link leads nowhere"));
    }
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = FixedFolder::open(folder, Missing::Made)?;
    if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
        // A rename would ignore that.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if old.as_ref().is_some_and(has_more_names) {
        return in_place(&folder, name, content);
    }
    match replace(&folder, name, content, (&format!(".{id}.part"), old.as_ref())) {
        Err(why) if old.is_some() && is_held(&why) => in_place(&folder, name, content),
        done => done,
    }
}

/// Writes a new file next to another, and renames it into its place.
fn replace(
    folder: &FixedFolder,
    name: &OsStr,
    content: &[u8],
    (part, old): (&str, Option<&Metadata>),
) -> io::Result<()> {
    let part = OsStr::new(part);
    // Only its future owner may read it.
    let access = if old.is_some() { NewAccess::Private } else { NewAccess::Usual };
    let written = folder.create(part, access).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(old) = old {
            give(&file, old);
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        folder.rename(part, name)
    });
    if written.is_err() {
        let _ = folder.remove(part);
    }
    written
}

fn in_place(folder: &FixedFolder, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let mut file = folder.truncate(name)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Gives a file the owner and group of another, as far as permitted.
#[cfg(unix)]
fn give(file: &File, old: &Metadata) {
    use std::os::unix::fs::MetadataExt;
    let (user, group) = (old.uid(), old.gid());
    let _ = std::os::unix::fs::fchown(file, None, Some(group));
    let _ = std::os::unix::fs::fchown(file, Some(user), None);
}

#[cfg(not(unix))]
fn give(_: &File, _: &Metadata) {}

/// Whether a file has other names, which would keep the old content.
fn has_more_names(found: &Metadata) -> bool {
    #[cfg(unix)]
    let count = std::os::unix::fs::MetadataExt::nlink(found);
    #[cfg(not(unix))]
    let count = u64::from(found.is_file());
    count > 1
}

/// Whether a file cannot be replaced where it is, but perhaps can be written.
fn is_held(why: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(why.kind(), CrossesDevices | PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

#[cfg(test)]
#[path = "test_site.rs"]
pub(super) mod test_site;

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
