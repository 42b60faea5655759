//! Keeps the objects of git: a second name for each, so that they survive the first.
//!
//! Git never changes an object, so that a hard link is an image of it that takes no space; on
//! another file system it is a copy, up to a limit. Invariant: what is taken out of the vault is
//! never the only name of anything; what is put into it is never changed by us.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::Hash;
use crate::rules::path_of;

/// The bytes of objects that are copied by one process, at most.
const COPIED: u64 = 256 << 20;

/// A file in the vault of a repository with the path of its `objects`.
const WHERE: &str = "where";

/// The vault in a folder.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    copied: AtomicU64,
    /// Objects that could not be kept.
    pub(crate) lost: AtomicU64,
}

impl Vault {
    /// The vault of a store's folder. It is beside the contents, because its files belong to
    /// others.
    pub fn new(folder: &Path) -> Vault {
        Vault { folder: folder.to_owned(), copied: AtomicU64::new(0), lost: AtomicU64::new(0) }
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
        if kept.exists() {
            return;
        }
        if self.try_keep(&path_of(root, place), &kept).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
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
        if linked.is_ok() || kept.exists() {
            return Ok(());
        }
        if self.copied.fetch_add(found.size(), Ordering::Relaxed) > COPIED {
            return Err(io::ErrorKind::StorageFull.into());
        }
        copy(path, kept)
    }

    /// Puts an object back, under a name that does not exist.
    pub(crate) fn put_back(kept: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(kept, to) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => copy(kept, to),
            _ => Ok(()),
        }
    }

    /// Removes the vaults of repositories that are not below one of these folders.
    pub(crate) fn keep_only(&self, roots: &HashSet<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let vault = entry.path();
            let objects = files::read(vault.join(WHERE), 1 << 16).unwrap_or_default();
            let objects = Path::new(OsStr::from_bytes(&objects));
            let is_needed = roots.iter().any(|root| objects.starts_with(root));
            if !is_needed && entry.file_type()?.is_dir() {
                fs::remove_dir_all(vault)?;
            }
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let part = to.with_file_name(format!("tmp_quipu_{}", std::process::id()));
    let mut file = files::create_private(&part)?;
    files::copy(from, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    fs::rename(&part, to)
}
