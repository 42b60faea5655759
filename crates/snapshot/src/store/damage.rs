//! Damaged contents: found, written down, and not counted as stored from then on, so that the next
//! image stores them again.
//!
//! Invariants: what is written down here is in no table that is read later; a content of which
//! there is another copy is still found; what cannot be read because of something that may pass is
//! not taken for damaged.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Block, LARGE, Part, Store, hash_of, open_block};
use crate::hash::Hash;

/// The file with the places of damaged contents: a line for each.
const DAMAGED: &str = "damaged";
/// That file, at most.
const MOST: u64 = 1 << 28;

/// A damaged content: the name of its pack, where its block begins there, and its name.
pub(super) type Damage = (String, u64, Hash);

/// Whether contents are damaged that are still in a store's folder.
pub(crate) fn has_damage(folder: &Path) -> bool {
    folder.join(DAMAGED).exists()
}

/// Whether an error means that what is on disk is not what was written.
fn is_damage(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(number) => number == rustix::io::Errno::IO.raw_os_error(),
        None => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge),
    }
}

/// The name by which a pack is written down.
pub(super) fn name(pack: &Path) -> String {
    pack.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Store {
    /// Whether contents are damaged that are still there.
    pub(crate) fn has_damage(&self) -> bool {
        has_damage(&self.folder)
    }

    /// The damage that was found so far.
    pub(super) fn damage(&self) -> HashSet<Damage> {
        let text = files::read_text(self.folder.join(DAMAGED), MOST).unwrap_or_default();
        let read = |line: &str| {
            let mut parts = line.split(' ');
            let (pack, offset) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            Some((pack, offset, Hash::parse(parts.next()?)?))
        };
        text.lines().filter_map(read).collect()
    }

    /// What reading a content came to. If it is damaged, what is beside it may be, too: all of it
    /// is looked at.
    pub(super) fn read<T>(&self, hash: Hash, read: io::Result<T>) -> io::Result<T> {
        if read.as_ref().is_err_and(is_damage)
            && let Ok((spot, ..)) = self.spot(hash)
        {
            self.look_at(&[spot.block], None)?;
        }
        read
    }

    /// Looks at contents, beginning with the block of this number, for at most so long.
    pub(crate) fn look_over(&self, begin: usize, most: Option<Duration>) -> io::Result<()> {
        let count = self.table().blocks.len();
        let numbers: Vec<usize> = (0..count).map(|at| (at + begin) % count).collect();
        self.look_at(&numbers, most)
    }

    /// Reads blocks, and writes down what is damaged in them.
    fn look_at(&self, numbers: &[usize], most: Option<Duration>) -> io::Result<()> {
        let begin = Instant::now();
        let listed = self.listed();
        let mut found: HashSet<Damage> = HashSet::new();
        for number in numbers {
            if most.is_some_and(|most| begin.elapsed() > most) {
                break;
            }
            let Some((block, parts)) = listed.get(*number) else { continue };
            let Some(path) = self.table().packs.get(block.pack).cloned() else { continue };
            let damaged = damaged(&path, *block, parts);
            found.extend(damaged.into_iter().map(|hash| (name(&path), block.offset, hash)));
        }
        if found.is_empty() {
            return Ok(());
        }
        let lines = written(found.iter());
        files::append_private(&self.folder.join(DAMAGED))?.write_all(lines.as_bytes())?;
        self.reload()
    }

    /// Forgets damage in packs that are gone.
    pub(super) fn forget_damage(&self) -> io::Result<()> {
        if !self.has_damage() {
            return Ok(());
        }
        let path = self.folder.join(DAMAGED);
        let is_there = |(pack, ..): &Damage| self.folder.join("packs").join(pack).exists();
        let lines = written(self.damage().iter().filter(|damage| is_there(damage)));
        if lines.is_empty() {
            return super::sweep::remove(&path);
        }
        files::put(&path, lines.as_bytes(), files::Durability::Process)
    }
}

fn written<'a>(all: impl Iterator<Item = &'a Damage>) -> String {
    let lines = all.map(|(pack, offset, hash)| format!("{pack} {offset} {hash}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// The contents of a block that are damaged.
fn damaged(path: &Path, block: Block, parts: &[Part]) -> Vec<Hash> {
    let all = || parts.iter().map(|(hash, ..)| *hash).collect();
    let read = || -> io::Result<Vec<Hash>> {
        let mut reader = open_block(path, block)?.take(block.raw + 1);
        if block.raw >= LARGE * 4 {
            let (found, _) = hash_of(&mut reader)?;
            return Ok(parts.iter().map(|part| part.0).filter(|hash| *hash != found).collect());
        }
        let mut raw = Vec::new();
        reader.read_to_end(&mut raw)?;
        let is_damaged = |(hash, start, length): &Part| {
            let range = usize::try_from(*start).ok().zip(usize::try_from(*length).ok());
            let part = range.and_then(|(start, length)| raw.get(start..start.checked_add(length)?));
            part.is_none_or(|part| Hash::of(part) != *hash)
        };
        Ok(parts.iter().filter(|part| is_damaged(part)).map(|part| part.0).collect())
    };
    match read() {
        Ok(damaged) => damaged,
        Err(error) if is_damage(&error) => all(),
        Err(_) => Vec::new(),
    }
}
