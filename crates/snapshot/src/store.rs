//! The store: contents by their names, compressed together, in files that only grow.
//!
//! Contents are put into blocks of a few megabytes, so that they are compressed with their
//! neighbours; blocks are appended to a pack of the process, and what is in them to the pack's
//! index. Invariants: a content counts as stored when its line in the index is complete, which is
//! after its bytes are; what is read has the name that was asked for, or is an error, and then it
//! does not count as stored any more; no process writes into the pack of another; a half-written
//! end is ignored.

mod damage;
mod sweep;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use crate::hash::{Hash, Hasher};

use damage::Damage;
pub(crate) use damage::has_damage;
pub use sweep::Swept;

/// The size of a block before it is compressed. Larger ones compress hardly better; smaller ones
/// worse.
pub(crate) const BLOCK: usize = 4 << 20;
/// A content of this size or more has a block of its own, and is never in memory as a whole.
pub(crate) const LARGE: u64 = 2 << 20;
/// How many blocks are remembered after they were read.
const RECENT: usize = 8;
/// A content that is read into memory, at most.
const MOST: u64 = 1 << 30;
/// The index of a pack, at most.
const INDEX_MOST: u64 = 1 << 30;
const LEVEL: i32 = 3;
/// The file that every sweep replaces.
const SWEPT: &str = "swept";

/// Called before every single write; tests stop the program there.
pub type Hook = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// A hook that does nothing.
pub fn no_hook() -> Hook {
    Arc::new(|_| Ok(()))
}

/// Where a content is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    block: usize,
    start: u64,
    length: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    pack: usize,
    offset: u64,
    packed: u64,
    raw: u64,
}

#[derive(Debug, Default)]
struct Table {
    packs: Vec<PathBuf>,
    blocks: Vec<Block>,
    spots: HashMap<Hash, Spot>,
    /// What is not read from where it is.
    damage: HashSet<Damage>,
}

/// The pack that this process writes.
#[derive(Debug)]
struct Writer {
    pack: usize,
    data: File,
    index: File,
    end: u64,
    /// Whether something was written that may not be on disk.
    is_unsynced: bool,
    /// Whether the names of its files are on disk.
    is_listed: bool,
}

/// The store in a folder.
pub struct Store {
    folder: PathBuf,
    table: RwLock<Table>,
    writer: Mutex<Option<Writer>>,
    /// The blocks that were read last.
    recent: Mutex<VecDeque<(usize, Arc<Vec<u8>>)>>,
    /// The last sweep by anyone that the table knows of, and how many were seen.
    swept: Mutex<(Option<Sweep>, u64)>,
    pub(crate) hook: Hook,
}

/// Which sweep it was: the inode and the time of its mark.
type Sweep = (u64, SystemTime);

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Where a content is in a block.
pub(crate) type Part = (Hash, u64, u64);

impl Store {
    /// Opens the store in a folder, which is created if it is missing.
    pub fn open(folder: &Path, hook: Hook) -> io::Result<Store> {
        files::make_private_folder(&folder.join("packs"))?;
        let store = Store {
            // Whether it is in a folder of which it has images shows only without links.
            folder: fs::canonicalize(folder)?,
            table: RwLock::default(),
            writer: Mutex::default(),
            recent: Mutex::default(),
            swept: Mutex::default(),
            hook,
        };
        store.swept().0 = store.last_sweep();
        store.reload()?;
        Ok(store)
    }

    /// The folder that it is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A lock for as long as images are taken or used: nothing is swept meanwhile. What was swept
    /// before is known from here on.
    pub fn share(&self) -> io::Result<File> {
        let file = files::append_private(&self.folder.join("lock"))?;
        file.lock_shared()?;
        let mut swept = self.swept();
        let last = self.last_sweep();
        if swept.0 != last {
            self.reload()?;
            *swept = (last, swept.1 + 1);
        }
        Ok(file)
    }

    fn swept(&self) -> MutexGuard<'_, (Option<Sweep>, u64)> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_sweep(&self) -> Option<Sweep> {
        let found = fs::symlink_metadata(self.folder.join(SWEPT)).ok()?;
        Some((std::os::unix::fs::MetadataExt::ino(&found), found.modified().ok()?))
    }

    /// How many sweeps of others were seen: after each of them, what is not in a log may be gone.
    pub(crate) fn sweeps(&self) -> u64 {
        self.swept().1
    }

    /// Reads what other processes have stored.
    pub fn reload(&self) -> io::Result<()> {
        let mut table = Table { damage: self.damage(), ..Table::default() };
        let mut names: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(self.folder.join("packs"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "idx") {
                names.push(path);
            }
        }
        names.sort();
        for name in names {
            let index = match files::read(&name, INDEX_MOST) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                index => index?,
            };
            let data = name.with_extension("pack");
            let Ok(size) = fs::metadata(&data).map(|found| found.len()) else { continue };
            table.add(data, &index, size);
        }
        let mut writer = self.writer();
        if let Some(writer) = writer.as_mut() {
            let path = self.table().packs[writer.pack].clone();
            let at = table.packs.iter().position(|known| *known == path);
            writer.pack = at.unwrap_or_else(|| {
                table.packs.push(path);
                table.packs.len() - 1
            });
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        self.recent().clear();
        Ok(())
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(usize, Arc<Vec<u8>>)>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a content is stored.
    pub fn has(&self, hash: Hash) -> bool {
        self.table().spots.contains_key(&hash)
    }

    /// Stores contents that lie one behind the other in `raw`.
    pub(crate) fn put(&self, parts: &[Part], raw: &[u8]) -> io::Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        let packed = zstd::bulk::compress(raw, LEVEL)?;
        let mut writer = self.writer();
        let writer = self.opened(&mut writer)?;
        (self.hook)("append a block")?;
        let offset = writer.end;
        writer.append(&packed)?;
        let block =
            Block { pack: writer.pack, offset, packed: packed.len() as u64, raw: raw.len() as u64 };
        self.list(writer, block, parts)
    }

    /// Stores a content that may be too large for memory. Returns its name, and its size.
    pub(crate) fn put_large(&self, file: &mut File) -> io::Result<(Hash, u64)> {
        let (hash, size) = hash_of(file)?;
        if self.has(hash) {
            return Ok((hash, size));
        }
        file.seek(SeekFrom::Start(0))?;
        let mut writer = self.writer();
        let writer = self.opened(&mut writer)?;
        (self.hook)("append a large block")?;
        let offset = writer.end;
        let written = pour(file, &writer.data);
        let (hash, size, packed) = match written {
            Ok(written) => written,
            Err(error) => {
                // What is left is not in the index; the next block overwrites it.
                let _ = writer.data.set_len(offset);
                let _ = writer.data.seek(SeekFrom::Start(offset));
                return Err(error);
            }
        };
        writer.end += packed;
        let block = Block { pack: writer.pack, offset, packed, raw: size };
        self.list(writer, block, &[(hash, 0, size)])?;
        Ok((hash, size))
    }

    fn opened<'a>(&self, writer: &'a mut Option<Writer>) -> io::Result<&'a mut Writer> {
        if writer.is_none() {
            (self.hook)("begin a pack")?;
            *writer = Some(self.begin()?);
        }
        writer.as_mut().ok_or_else(|| io::Error::other("there is no pack"))
    }

    /// Begins a pack of this process.
    fn begin(&self) -> io::Result<Writer> {
        let packs = self.folder.join("packs");
        files::make_private_folder(&packs)?;
        let mut number = 0;
        loop {
            let data = packs.join(format!("{}-{number:04}.pack", std::process::id()));
            number += 1;
            let file = match files::create_new(&data, files::NewAccess::Private) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            // Whoever sweeps sees that it is in use.
            file.lock_shared()?;
            let index = files::append_private(&data.with_extension("idx"))?;
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            table.packs.push(data);
            return Ok(Writer {
                pack: table.packs.len() - 1,
                data: file,
                index,
                end: 0,
                is_unsynced: true,
                is_listed: false,
            });
        }
    }

    /// Adds a block to the index: from here on its contents are stored.
    fn list(&self, writer: &mut Writer, block: Block, parts: &[Part]) -> io::Result<()> {
        (self.hook)("append to the index")?;
        writer.is_unsynced = true;
        writer.index.write_all(&line(block, parts))?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(block, parts);
        Ok(())
    }

    /// Waits until everything that this process stored is on disk. Returns whether there was
    /// anything.
    pub(crate) fn sync(&self) -> io::Result<bool> {
        let mut writer = self.writer();
        let Some(writer) = writer.as_mut().filter(|writer| writer.is_unsynced) else {
            return Ok(false);
        };
        (self.hook)("sync a pack")?;
        writer.data.sync_data()?;
        writer.index.sync_data()?;
        if !writer.is_listed {
            files::sync_folder(&self.folder.join("packs"))?;
            writer.is_listed = true;
        }
        writer.is_unsynced = false;
        Ok(true)
    }

    fn spot(&self, hash: Hash) -> io::Result<(Spot, Block, PathBuf)> {
        let look = |table: &Table| {
            let spot = *table.spots.get(&hash)?;
            let block = *table.blocks.get(spot.block)?;
            Some((spot, block, table.packs.get(block.pack)?.clone()))
        };
        let missing = || {
            let text = format!("the content {hash} is not in the store any more");
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        look(&self.table()).ok_or_else(missing)
    }

    /// A content, verified.
    pub fn get(&self, hash: Hash) -> io::Result<Vec<u8>> {
        match self.get_known(hash) {
            // Another process may have stored it, or moved it to another pack.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.reload()?;
                self.get_known(hash)
            }
            // There may be another copy.
            Err(error) => self.get_known(hash).map_err(|_| error),
            found => found,
        }
    }

    fn get_known(&self, hash: Hash) -> io::Result<Vec<u8>> {
        self.read(hash, self.get_once(hash))
    }

    fn get_once(&self, hash: Hash) -> io::Result<Vec<u8>> {
        let (spot, block, path) = self.spot(hash)?;
        if block.raw > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let raw = self.block(spot.block, block, &path)?;
        let range = usize::try_from(spot.start).ok().zip(usize::try_from(spot.length).ok());
        let part = range.and_then(|(start, length)| raw.get(start..start.checked_add(length)?));
        let part = part.filter(|part| Hash::of(part) == hash).ok_or_else(|| wrong(hash))?;
        Ok(part.to_vec())
    }

    fn block(&self, number: usize, block: Block, path: &Path) -> io::Result<Arc<Vec<u8>>> {
        let mut recent = self.recent();
        let at = recent.iter().position(|(known, _)| *known == number);
        if let Some(found) = at.and_then(|at| recent.remove(at)) {
            let raw = Arc::clone(&found.1);
            recent.push_back(found);
            return Ok(raw);
        }
        let mut raw = Vec::with_capacity(usize::try_from(block.raw).unwrap_or_default());
        open_block(path, block)?.take(block.raw + 1).read_to_end(&mut raw)?;
        let raw = Arc::new(raw);
        if block.raw < LARGE * 4 {
            recent.push_back((number, Arc::clone(&raw)));
        }
        if recent.len() > RECENT {
            recent.pop_front();
        }
        Ok(raw)
    }

    /// Writes a content to a file, verified. An error leaves the file half written.
    pub fn write_to(&self, hash: Hash, file: &mut File) -> io::Result<()> {
        let (_, block, path) = self.spot(hash)?;
        if block.raw < LARGE * 4 {
            return file.write_all(&self.get(hash)?);
        }
        self.read(hash, pour_out(&mut open_block(&path, block)?.take(block.raw + 1), hash, file))
    }

    /// Reads a content to the end, to see whether it is what it should be.
    pub fn verify(&self, hash: Hash) -> io::Result<()> {
        let (_, block, path) = self.spot(hash)?;
        if block.raw < LARGE * 4 {
            return self.get(hash).map(drop);
        }
        let reader = &mut open_block(&path, block)?.take(block.raw + 1);
        self.read(hash, pour_out(reader, hash, &mut io::sink()))
    }

    /// The bytes that it takes on disk.
    pub fn size(&self) -> u64 {
        let found = fs::read_dir(self.folder.join("packs")).into_iter().flatten().flatten();
        found.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
    }
}

fn wrong(hash: Hash) -> io::Error {
    let text = format!("the stored content {hash} is damaged: it does not have this hash");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Writes what is read, which must have this name.
fn pour_out(from: &mut impl Read, hash: Hash, to: &mut impl Write) -> io::Result<()> {
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 1 << 17]);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.add(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    if hasher.finish() == hash { Ok(()) } else { Err(wrong(hash)) }
}

fn open_block(path: &Path, block: Block) -> io::Result<impl Read> {
    let mut file = files::open(path)?;
    file.seek(SeekFrom::Start(block.offset))?;
    zstd::stream::read::Decoder::new(file.take(block.packed))
}

/// Reads to the end. Returns the name and the size.
pub(crate) fn hash_of(reader: &mut impl Read) -> io::Result<(Hash, u64)> {
    let (mut hasher, mut size, mut buffer) = (Hasher::default(), 0, vec![0; 1 << 17]);
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok((hasher.finish(), size));
        }
        size += count as u64;
        hasher.add(&buffer[..count]);
    }
}

/// Compresses a file to the end of another one. Returns name, size, and compressed size.
fn pour(from: &mut File, to: &File) -> io::Result<(Hash, u64, u64)> {
    let counted = Counted { to, count: 0 };
    let mut encoder = zstd::stream::write::Encoder::new(counted, LEVEL)?;
    let (mut hasher, mut size, mut buffer) = (Hasher::default(), 0, vec![0; 1 << 17]);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        size += count as u64;
        hasher.add(&buffer[..count]);
        encoder.write_all(&buffer[..count])?;
    }
    Ok((hasher.finish(), size, encoder.finish()?.count))
}

/// Counts what is written.
struct Counted<'a> {
    to: &'a File,
    count: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.data.write_all(bytes) {
            let _ = self.data.set_len(self.end);
            let _ = self.data.seek(SeekFrom::Start(self.end));
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// A block in the index: its length, its fields, and the first bytes of its hash.
fn line(block: Block, parts: &[Part]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40 + parts.len() * 28);
    for number in [block.offset, block.packed, block.raw] {
        bytes.extend(number.to_le_bytes());
    }
    for (hash, start, length) in parts {
        bytes.extend(hash.0);
        // What is larger has a block of its own.
        let (start, length) = if parts.len() == 1 { (0, 0) } else { (*start, *length) };
        bytes.extend(u32::try_from(start).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    let mut all = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    all.extend(&bytes);
    all.extend(&Hash::of(&bytes).0[..8]);
    all
}

/// Reads a line of the index from the start of `rest`.
fn read_line(rest: &mut &[u8]) -> Option<(Block, Vec<Part>)> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (bytes, after) = after.split_at_checked(length)?;
    let (seal, after) = after.split_first_chunk::<8>()?;
    if Hash::of(bytes).0[..8] != seal[..] {
        return None;
    }
    *rest = after;
    let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?));
    let block = Block { pack: 0, offset: number(0)?, packed: number(8)?, raw: number(16)? };
    let mut parts = Vec::new();
    for part in bytes.get(24..)?.chunks_exact(28) {
        let hash = Hash(*part.first_chunk::<20>()?);
        let short =
            |at: usize| Some(u64::from(u32::from_le_bytes(*part.get(at..)?.first_chunk()?)));
        parts.push((hash, short(20)?, short(24)?));
    }
    if let [only] = parts.as_mut_slice() {
        (only.1, only.2) = (0, block.raw);
    }
    Some((block, parts))
}

impl Table {
    /// Adds a pack with its index. What is beyond the end of the pack does not count.
    fn add(&mut self, data: PathBuf, index: &[u8], size: u64) {
        let (pack, name) = (self.packs.len(), damage::name(&data));
        self.packs.push(data);
        let mut rest = index;
        while let Some((block, mut parts)) = read_line(&mut rest) {
            let is_damaged = |hash| self.damage.contains(&(name.clone(), block.offset, hash));
            if !self.damage.is_empty() {
                parts.retain(|(hash, ..)| !is_damaged(*hash));
            }
            if block.offset.checked_add(block.packed).is_some_and(|end| end <= size) {
                self.insert(Block { pack, ..block }, &parts);
            }
        }
    }

    fn insert(&mut self, block: Block, parts: &[Part]) {
        let number = self.blocks.len();
        self.blocks.push(block);
        for (hash, start, length) in parts {
            let spot = Spot { block: number, start: *start, length: *length };
            self.spots.entry(*hash).or_insert(spot);
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
