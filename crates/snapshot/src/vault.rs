//! Keeps the objects of git: a second name for each, so that they survive the first.
//!
//! Git never changes an object, so that a hard link is an image of it that takes no space. What
//! someone else writes into the object is then in both; of a small repository, and of few new
//! objects, copies are kept instead. On another file system there are only copies, up to a limit.
//! Invariant: what is taken out of the vault is never the only name of anything; what is put into
//! it is never changed by us.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, statat};
use rustix::io::Errno;

use crate::hash::Hash;
use crate::mark::Found;
use crate::object;
use crate::rules::path_of;
use crate::store::hash_of;
use crate::tree::{Place, join};

/// The bytes of objects that are copied by one process, at most.
const COPIED: u64 = 256 << 20;

/// The bytes of objects that are copied although they could be linked, at most, by one process.
const SMALL: u64 = 8 << 20;

/// The ending of a file that says of an object: it was no sound one when it was kept.
const ODD: &str = ".odd";

/// A file in the vault of a repository: objects with another mode than git gives them, a line each.
const MODES: &str = "modes";
/// That file, at most.
const MOST_MODES: u64 = 1 << 28;
/// The mode that git gives to objects.
const USUAL: u32 = 0o444;
/// The mode of copies.
const PRIVATE: u32 = 0o600;

/// A file in the vault of a repository with the path of its `objects`.
const WHERE: &str = "where";

/// How objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    Copy,
    Link,
}

/// The vault in a folder.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    copied: AtomicU64,
    small: AtomicU64,
    /// What was read of the files with modes, by the names of vaults.
    modes: Mutex<HashMap<String, Modes>>,
}

/// How an object is, beside what was kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Whole,
    /// Only its mode is another one.
    OtherMode,
    /// It is gone, or has another content.
    Other,
}

/// The modes of objects, by folder and name.
type Modes = HashMap<Place, u32>;

impl Vault {
    /// The vault of a store's folder. It is beside the contents, because its files belong to
    /// others.
    pub fn new(folder: &Path) -> Vault {
        Vault {
            folder: folder.to_owned(),
            copied: AtomicU64::new(0),
            small: AtomicU64::new(0),
            modes: Mutex::default(),
        }
    }

    /// The name of the vault for the folder `objects` at this path.
    fn key(objects: &Path) -> String {
        Hash::of(objects.as_os_str().as_bytes()).to_string()
    }

    /// Where an object is kept: `<root>/<place>` is `…/objects/ab/cdef`.
    pub(crate) fn kept(&self, root: &Path, place: &[u8]) -> PathBuf {
        let path = path_of(root, place);
        let leaf = path.parent().unwrap_or(&path);
        let objects = leaf.parent().unwrap_or(leaf);
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        self.folder.join(Vault::key(objects)).join(name(leaf)).join(name(&path))
    }

    /// Keeps an object. If that is not possible, the rewind reports it as gone.
    pub(crate) fn keep(&self, root: &Path, place: &[u8]) {
        let kept = self.kept(root, place);
        if !kept.exists() && self.try_keep(&path_of(root, place), &kept).is_ok() {
            note_if_odd(&kept);
        }
    }

    /// Makes folders for objects, and says how to keep them: folders, and names in each. A copy
    /// survives what is written into the object; for many of them there is no room.
    pub(crate) fn prepare(&self, root: &Path, leaves: &[(&[u8], Vec<&[u8]>)]) -> Keeping {
        for (leaf, names) in leaves {
            if let Some(name) = names.first() {
                let place = join(leaf, name);
                let kept = self.kept(root, &place);
                // If it cannot be made, the objects cannot be kept, which the rewind reports.
                let _ = self.make(&path_of(root, &place), kept.parent().unwrap_or(&kept));
            }
        }
        let budget = SMALL.saturating_sub(self.small.load(Ordering::Relaxed));
        let mut sum = 0;
        for (leaf, names) in leaves {
            let folder = path_of(root, leaf);
            for name in names {
                let found = fs::symlink_metadata(folder.join(OsStr::from_bytes(name)));
                sum += found.map_or(0, |found| found.size());
                if sum > budget {
                    return Keeping::Link;
                }
            }
        }
        self.small.fetch_add(sum, Ordering::Relaxed);
        Keeping::Copy
    }

    /// Keeps the objects with these names in a folder of objects.
    pub(crate) fn keep_all(&self, root: &Path, leaf: &[u8], names: &[&[u8]], how: Keeping) {
        if how == Keeping::Copy {
            for name in names {
                self.keep_copy(root, &join(leaf, name));
            }
            return;
        }
        let left = self.link_all(&path_of(root, leaf), names).unwrap_or(names.len());
        // Those that are not linked: the last ones.
        for name in &names[names.len() - left..] {
            let place = join(leaf, name);
            let kept = self.kept(root, &place);
            if !kept.exists() {
                // One that cannot be kept is reported by the rewind. There are too many to be read.
                let _ = self.try_keep(&path_of(root, &place), &kept);
            }
        }
    }

    /// Keeps a copy of an object; if that is not possible, a link.
    fn keep_copy(&self, root: &Path, place: &[u8]) {
        let (path, kept) = (path_of(root, place), self.kept(root, place));
        if kept.exists() {
            return;
        }
        match copy(&path, &kept, PRIVATE) {
            Ok(()) => {
                self.note_mode(&path, &kept);
                note_if_odd(&kept);
            }
            Err(_) => self.keep(root, place),
        }
    }

    fn note_mode(&self, path: &Path, kept: &Path) {
        if let Ok(mode) = mode_at(path)
            && mode != USUAL
        {
            self.note_modes(path, &[(object_name(kept), mode)]);
        }
    }

    /// Notes unusual modes: the two names of an object have the same, whoever changes it. What
    /// cannot be noted comes back with the usual one.
    fn note_modes(&self, path: &Path, all: &[(Place, u32)]) {
        let key = Vault::key(path.ancestors().nth(2).unwrap_or(path));
        let lines = mode_lines(all.iter().map(|(name, mode)| (name, *mode)));
        let file = files::append_private(&self.folder.join(&key).join(MODES));
        let _ = file.and_then(|mut file| file.write_all(&lines));
        self.modes.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// The mode that an object had when it was kept.
    fn mode_of(&self, root: &Path, place: &[u8]) -> u32 {
        let kept = self.kept(root, place);
        let vault = kept.ancestors().nth(2).unwrap_or(&kept);
        let key = vault.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut known = self.modes.lock().unwrap_or_else(PoisonError::into_inner);
        let modes = known.entry(key).or_insert_with(|| read_modes(&vault.join(MODES)));
        modes.get(&object_name(&kept)).copied().unwrap_or(USUAL)
    }

    /// Makes the folder for the objects in that of `path`.
    fn make(&self, path: &Path, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        files::make_private_folder(folder)?;
        let objects = path.ancestors().nth(2).unwrap_or(path);
        let vault = self.folder.join(Vault::key(objects));
        files::put(&vault.join(WHERE), objects.as_os_str().as_bytes(), files::Durability::Process)
    }

    /// Links objects. Returns how many are left, because they cannot be.
    fn link_all(&self, leaf: &Path, names: &[&[u8]]) -> io::Result<usize> {
        let objects = leaf.parent().unwrap_or(leaf);
        let kept = self.folder.join(Vault::key(objects)).join(leaf.file_name().unwrap_or_default());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let from = openat(CWD, leaf, flags, Mode::empty())?;
        let to = openat(CWD, &kept, flags, Mode::empty())?;
        let (mut left, mut unusual) = (0, Vec::new());
        for (at, name) in names.iter().enumerate() {
            let name = OsStr::from_bytes(name);
            match linkat(&from, name, &to, name, AtFlags::empty()) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(_) => {
                    left = names.len() - at;
                    break;
                }
            }
            if let Ok(found) = statat(&to, name, AtFlags::SYMLINK_NOFOLLOW) {
                let mode = Found::from(&found).mode();
                unusual.extend((mode != USUAL).then(|| (object_name(&leaf.join(name)), mode)));
            }
        }
        if !unusual.is_empty() {
            self.note_modes(&leaf.join("object"), &unusual);
        }
        Ok(left)
    }

    fn try_keep(&self, path: &Path, kept: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        if !found.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let link = || fs::hard_link(path, kept);
        let linked = match link() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::make_private_folder(kept.parent().unwrap_or(kept))?;
                let objects = path.ancestors().nth(2).unwrap_or(path).as_os_str().as_bytes();
                let vault = kept.ancestors().nth(2).unwrap_or(kept);
                files::put(&vault.join(WHERE), objects, files::Durability::Process)?;
                link()
            }
            linked => linked,
        };
        if linked.is_ok() {
            self.note_mode(path, kept);
        }
        if linked.is_ok() || kept.exists() {
            return Ok(());
        }
        if self.copied.fetch_add(found.size(), Ordering::Relaxed) > COPIED {
            return Err(io::ErrorKind::StorageFull.into());
        }
        copy(path, kept, PRIVATE)?;
        self.note_mode(path, kept);
        Ok(())
    }

    /// Whether the object at a path is what was kept of it.
    pub(crate) fn is_whole(&self, root: &Path, place: &[u8]) -> bool {
        self.condition(root, place) == Condition::Whole
    }

    /// How the object at a path is. Of one that was not kept nothing else is known.
    pub(crate) fn condition(&self, root: &Path, place: &[u8]) -> Condition {
        let (path, kept) = (path_of(root, place), self.kept(root, place));
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
        let Some(is) = found else { return Condition::Other };
        let Ok(was) = fs::symlink_metadata(&kept) else { return Condition::Whole };
        let is_one = (is.dev(), is.ino()) == (was.dev(), was.ino());
        let is_equal = || is.size() == was.size() && is_equal(&path, &kept).unwrap_or(false);
        // What is damaged may be the copy.
        let is_better = || !self.is_sound(root, place) && object::is_sound(&path);
        if !(is_one || is_equal() || is_better()) {
            Condition::Other
        } else if is.mode() & 0o7777 == self.mode_of(root, place) {
            Condition::Whole
        } else {
            Condition::OtherMode
        }
    }

    /// Whether what is kept of an object is what git wrote, or at least what was there.
    pub(crate) fn is_sound(&self, root: &Path, place: &[u8]) -> bool {
        let kept = self.kept(root, place);
        object::is_sound(&kept) || odd(&kept).exists()
    }

    /// Makes an object again, under a name that does not exist.
    pub(crate) fn put_back(&self, root: &Path, place: &[u8], to: &Path) -> io::Result<()> {
        let (kept, mode) = (self.kept(root, place), self.mode_of(root, place));
        // A copy stays one, and nobody can damage it through the other name.
        if fs::symlink_metadata(&kept)?.nlink() == 1 || mode_at(&kept)? != mode {
            return copy(&kept, to, mode);
        }
        fs::hard_link(&kept, to).or_else(|_| copy(&kept, to, mode))
    }

    /// Removes the vaults of repositories that are not below one of these folders, and of the
    /// others every object that is not one of these: its folder, and its name in it.
    pub(crate) fn keep_only(
        &self,
        roots: &HashSet<PathBuf>,
        objects: &HashSet<Place>,
    ) -> io::Result<()> {
        for vault in folders(&self.folder) {
            let place = files::read(vault.join(WHERE), 1 << 16).unwrap_or_default();
            let place = Path::new(OsStr::from_bytes(&place));
            if !roots.iter().any(|root| place.starts_with(root)) {
                fs::remove_dir_all(vault)?;
                continue;
            }
            for leaf in folders(&vault) {
                for entry in fs::read_dir(&leaf)? {
                    let path = entry?.path();
                    let mut name = object_name(&path);
                    name.truncate(name.strip_suffix(ODD.as_bytes()).unwrap_or(&name).len());
                    if !objects.contains(&name) {
                        fs::remove_file(path)?;
                    }
                }
            }
            keep_modes(&vault.join(MODES), objects)?;
        }
        self.modes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// The bytes of objects that are nowhere else any more, or are copies.
    pub(crate) fn size(&self) -> u64 {
        let leaves = folders(&self.folder).into_iter().flat_map(|vault| folders(&vault));
        let all = leaves.flat_map(|leaf| fs::read_dir(leaf).into_iter().flatten().flatten());
        let found = all.filter_map(|entry| entry.metadata().ok());
        found.filter(|found| found.nlink() == 1).map(|found| found.len()).sum()
    }
}

/// The folder of an object and its name, of its path.
pub(crate) fn object_name(path: &Path) -> Place {
    let name = |path: &Path| path.file_name().unwrap_or_default().as_bytes().to_vec();
    join(&name(path.parent().unwrap_or(path)), &name(path))
}

/// The file that says that an object is none, as far as git is concerned.
fn odd(kept: &Path) -> PathBuf {
    let mut path = kept.as_os_str().to_owned();
    path.push(ODD);
    path.into()
}

/// Notes it if what is kept was no sound object: later it would seem to have been damaged since. If
/// that cannot be noted, it does.
fn note_if_odd(kept: &Path) {
    if !object::is_sound(kept) {
        let _ = files::put(&odd(kept), b"", files::Durability::Process);
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_folder).map(|entry| entry.path()).collect()
}

/// A name beside an object; git removes such ones by itself if they are left.
fn part(to: &Path) -> PathBuf {
    let number = std::thread::current().id();
    to.with_file_name(format!("tmp_quipu_{}_{number:?}", std::process::id()))
}

fn mode_at(path: &Path) -> io::Result<u32> {
    Ok(fs::symlink_metadata(path)?.mode() & 0o7777)
}

fn read_modes(file: &Path) -> Modes {
    let bytes = files::read(file, MOST_MODES).unwrap_or_default();
    let line = |line: &[u8]| {
        let at = line.iter().rposition(|byte| *byte == b' ')?;
        let mode = std::str::from_utf8(&line[at + 1..]).ok()?;
        Some((line[..at].to_vec(), u32::from_str_radix(mode, 8).ok()?))
    };
    bytes.split(|byte| *byte == b'\n').filter_map(line).collect()
}

fn mode_lines<'a>(modes: impl Iterator<Item = (&'a Place, u32)>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, mode) in modes {
        lines.extend(name);
        lines.extend(format!(" {mode:o}\n").bytes());
    }
    lines
}

/// Forgets the modes of objects that are not kept any more.
fn keep_modes(file: &Path, objects: &HashSet<Place>) -> io::Result<()> {
    let modes = read_modes(file);
    if modes.keys().all(|name| objects.contains(name)) {
        return Ok(());
    }
    let kept = modes.iter().filter(|(name, _)| objects.contains(*name));
    let lines = mode_lines(kept.map(|(name, mode)| (name, *mode)));
    files::put(file, &lines, files::Durability::Process)
}

fn copy(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let part = part(to);
    files::put_with(to, &part, files::NewAccess::Private, |file| {
        io::copy(&mut crate::scan::open(from)?, file)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    })
}

fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (crate::scan::open(one)?, crate::scan::open(other)?);
    let (one, other) = (hash_of(&mut &one)?, hash_of(&mut &other)?);
    Ok(one == other)
}
