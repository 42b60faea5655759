//! The little that is known about git's own files: where they are, which are objects, and what an
//! index lists.
//!
//! Invariant: everything here is total; what cannot be understood is empty or false.

use std::fs;
use std::path::{Path, PathBuf};

/// The index, at most.
const INDEX_MOST: u64 = 1 << 28;

/// The folder with the index, HEAD and so on of the repository at `top`: `.git`, or where the file
/// `.git` leads.
pub(crate) fn folder_of(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    let found = fs::symlink_metadata(&git).ok()?;
    if found.is_dir() {
        return Some(git);
    }
    let text = files::read_text(&git, 1 << 12).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(top.join(named))
}

/// The folder that the worktrees of a repository share.
pub(crate) fn common(git: &Path) -> PathBuf {
    let named = files::read_text(git.join("commondir"), 1 << 12);
    named.map_or_else(|_| git.to_owned(), |named| git.join(named.trim()))
}

/// Whether a folder with these names in it is one of git's own.
pub(crate) fn is_git(names: &dyn Fn(&[u8]) -> bool) -> bool {
    names(b"HEAD") && names(b"objects") && names(b"refs")
}

/// Whether a name in a folder of `objects` is that of a file that never changes.
pub(crate) fn is_object(folder: &[u8], name: &[u8]) -> bool {
    let is_hex = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if folder != b"pack" {
        return matches!(name.len(), 38 | 62) && is_hex(name);
    }
    let Some(rest) = name.strip_prefix(b"pack-") else { return false };
    let Some(at) = rest.iter().position(|byte| *byte == b'.') else { return false };
    let is_kind = matches!(&rest[at..], b".pack" | b".idx" | b".rev");
    is_kind && matches!(at, 40 | 64) && is_hex(&rest[..at])
}

/// Whether a name in `objects` is that of a folder with objects.
pub(crate) fn is_object_folder(name: &[u8]) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name == b"pack" || (name.len() == 2 && name.iter().all(is_hex))
}

/// The paths that an index lists, sorted. Of one that is split, also those of its other part.
pub(crate) fn tracked(index: &Path) -> Vec<Vec<u8>> {
    let bytes = files::read(index, INDEX_MOST).unwrap_or_default();
    let Some(Index { mut entries, is_split }) = read_index(&bytes) else { return Vec::new() };
    for part in shared_parts(index).filter(|_| is_split) {
        let bytes = files::read(part, INDEX_MOST).unwrap_or_default();
        entries.extend(listed(&bytes).unwrap_or_default());
    }
    let mut paths: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.path).collect();
    paths.sort();
    paths
}

/// The parts of split indexes beside an index; which of them it goes on from does not matter.
fn shared_parts(index: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = index.parent().and_then(|folder| fs::read_dir(folder).ok());
    let paths = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"sharedindex."))
    })
}

/// Whether two indexes list the same: every command that looks at the tree rewrites the rest.
pub(crate) fn is_same_index(one: &[u8], other: &[u8]) -> bool {
    match (listed(one), listed(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// An entry of the index, without what is only known about the file on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: Vec<u8>,
    mode: [u8; 4],
    id: Vec<u8>,
    /// Stage, and what the user has marked.
    flags: (u16, u16),
}

/// An index, or one part of it: then entries without a path replace some of the other part.
struct Index {
    entries: Vec<Entry>,
    is_split: bool,
}

/// Everything that an index lists; None if that is not known without another file.
fn listed(bytes: &[u8]) -> Option<Vec<Entry>> {
    read_index(bytes).filter(|index| !index.is_split).map(|index| index.entries)
}

fn read_index(bytes: &[u8]) -> Option<Index> {
    // Whether ids have 32 bytes is not written in the index: the reading that fits is right.
    read_with(bytes, 20).or_else(|| read_with(bytes, 32))
}

fn read_with(bytes: &[u8], width: usize) -> Option<Index> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    if !bytes.starts_with(b"DIRC") {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) || u64::from(count) * 40 > bytes.len() as u64 * 4 {
        return None;
    }
    let (mut at, mut entries): (usize, Vec<Entry>) = (12, Vec::new());
    for _ in 0..count {
        let begin = at;
        let mode = *bytes.get(at + 24..)?.first_chunk::<4>()?;
        let id = bytes.get(at + 40..at + 40 + width)?.to_vec();
        at += 40 + width;
        let flags = short(at)?;
        at += 2;
        let mut extended = 0;
        if flags & 0x4000 != 0 {
            extended = short(at)?;
            at += 2;
        }
        let mut path = Vec::new();
        if version == 4 {
            let cut = varint(bytes, &mut at)?;
            let last = entries.last().map(|last| &last.path[..]).unwrap_or_default();
            path.extend(last.get(..last.len().checked_sub(cut)?)?);
        }
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        path.extend(&rest[..end]);
        at += end + 1;
        if version < 4 {
            at = begin + (at - begin).div_ceil(8) * 8;
        }
        // Without the length of the name, and whether extended flags follow.
        entries.push(Entry { path, mode, id, flags: (flags & 0xb000, extended) });
    }
    // Extensions have names of letters, and the rest is a checksum.
    let rest = bytes.get(at..)?;
    let is_end = rest.len() == width || rest.first().is_some_and(u8::is_ascii_alphabetic);
    let is_split = has_extension(rest, *b"link");
    let is_named = is_split || entries.iter().all(|entry| !entry.path.is_empty());
    (is_end && is_named).then_some(Index { entries, is_split })
}

/// Whether one of the extensions at the end of an index has this name.
fn has_extension(mut rest: &[u8], name: [u8; 4]) -> bool {
    while let Some((found, after)) = rest.split_first_chunk::<4>() {
        if *found == name {
            return true;
        }
        let Some((length, after)) = after.split_first_chunk::<4>() else { return false };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        rest = after.get(length..).unwrap_or_default();
    }
    false
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value = value.checked_shl(7)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
