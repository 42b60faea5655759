//! Takes contents out of the store that nothing needs any more.
//!
//! Invariants: a content that is needed is complete in one pack before the other one is removed;
//! the pack of a running process stays as it is; whenever this is stopped, the store is whole.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use super::{BLOCK, Block, LARGE, Part, Store, Table, damage, open_block, wrong};
use crate::hash::Hash;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Contents.
    pub contents: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Store {
    /// Removes every content that is not in `live`. The caller has the store's lock for itself.
    pub(crate) fn keep_only(&self, live: &HashSet<Hash>) -> io::Result<Swept> {
        self.reload()?;
        (self.hook)("mark a sweep")?;
        files::put(&self.folder.join(super::SWEPT), b"", files::Durability::Process)?;
        let before = self.size();
        let mut swept = Swept::default();
        let packs = self.table().packs.clone();
        let damage: HashSet<String> = self.damage().into_iter().map(|(pack, ..)| pack).collect();
        for (number, path) in packs.iter().enumerate() {
            let held = match OpenOptions::new().write(true).open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if held.try_lock().is_err() {
                continue;
            }
            let mut all = self.listed();
            all.retain(|(block, _)| block.pack == number);
            let is_dead = |parts: &[Part]| parts.iter().any(|(hash, ..)| !live.contains(hash));
            let is_damaged = damage.contains(&damage::name(path));
            if !is_damaged && !all.is_empty() && !all.iter().any(|(_, parts)| is_dead(parts)) {
                continue;
            }
            let mut raw: Vec<u8> = Vec::new();
            let mut parts: Vec<Part> = Vec::new();
            for (block, listed) in &all {
                for (hash, ..) in listed {
                    if !live.contains(hash) {
                        swept.contents += 1;
                        continue;
                    }
                    // A content that cannot be read is lost either way.
                    if block.raw >= LARGE * 4 {
                        if self.verify(*hash).is_ok() {
                            self.move_large(path, *block, *hash)?;
                        }
                        continue;
                    }
                    let Ok(bytes) = self.get(*hash) else { continue };
                    parts.push((*hash, raw.len() as u64, bytes.len() as u64));
                    raw.extend(bytes);
                    if raw.len() >= BLOCK {
                        self.put(&parts, &raw)?;
                        parts.clear();
                        raw.clear();
                    }
                }
            }
            self.put(&parts, &raw)?;
            self.sync()?;
            (self.hook)("remove the index of a pack")?;
            remove(&path.with_extension("idx"))?;
            (self.hook)("remove a pack")?;
            remove(path)?;
        }
        self.remove_scraps()?;
        self.forget_damage()?;
        self.reload()?;
        swept.bytes = before.saturating_sub(self.size());
        Ok(swept)
    }

    /// All blocks, by their numbers, with those contents that are read from there.
    pub(super) fn listed(&self) -> Vec<(Block, Vec<Part>)> {
        let table: &Table = &self.table();
        let mut all: Vec<(Block, Vec<Part>)> =
            table.blocks.iter().map(|block| (*block, Vec::new())).collect();
        for (hash, spot) in &table.spots {
            if let Some((_, parts)) = all.get_mut(spot.block) {
                parts.push((*hash, spot.start, spot.length));
            }
        }
        for (_, parts) in &mut all {
            parts.sort_by_key(|(_, start, _)| *start);
        }
        all
    }

    /// Copies a large block to the pack of this process.
    fn move_large(&self, path: &Path, block: Block, hash: Hash) -> io::Result<()> {
        let mut file = tempfile_in(&self.folder)?;
        io::copy(&mut open_block(path, block)?, &mut file.0)?;
        io::Seek::seek(&mut file.0, io::SeekFrom::Start(0))?;
        let (found, size) = super::hash_of(&mut file.0)?;
        if found != hash {
            return Err(wrong(hash));
        }
        io::Seek::seek(&mut file.0, io::SeekFrom::Start(0))?;
        let mut writer = self.writer();
        let writer = self.opened(&mut writer)?;
        let offset = writer.end;
        let (_, _, packed) = super::pour(&mut file.0, &writer.data)?;
        writer.end += packed;
        let block = Block { pack: writer.pack, offset, packed, raw: size };
        let listed = self.list(writer, block, &[(hash, 0, size)]);
        remove(&file.1)?;
        listed
    }

    /// Removes packs without an index, and the other way round, of processes that have ended.
    fn remove_scraps(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.join("packs"))? {
            let path = entry?.path();
            let other = match path.extension().and_then(|ending| ending.to_str()) {
                Some("pack") => "idx",
                Some("idx") => "pack",
                _ => continue,
            };
            let is_held = || {
                let file = OpenOptions::new().write(true).open(&path);
                file.is_ok_and(|file| file.try_lock().is_err())
            };
            if !path.with_extension(other).exists() && !is_held() {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

fn tempfile_in(folder: &Path) -> io::Result<(fs::File, std::path::PathBuf)> {
    let path = folder.join(format!("moving.{}", std::process::id()));
    drop(files::create_private(&path)?);
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    Ok((file, path))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
