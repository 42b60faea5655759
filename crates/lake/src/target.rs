//! Where objects go: a folder, or a bucket.
//!
//! Invariants: an object is visible as a whole or not at all; nothing outside of the named folder
//! or prefix is touched; links in a folder are not followed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bucket::{Bucket, Surroundings};
use crate::schema::TABLES;
use crate::sheet::Object;
use crate::{LakeError, Trouble};

/// A place for objects.
#[derive(Debug)]
pub enum Target {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A bucket of S3, Google Cloud Storage or Azure.
    Bucket(Box<Bucket>),
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// Its name below the target.
    pub key: String,
    /// How many bytes it has.
    pub size: u64,
}

/// Whether a target keeps what is deleted or overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// It does not.
    Gone,
    /// It keeps old versions.
    Kept,
    /// Its answers do not show it.
    Unknown,
}

/// The end of the name of a file that is being written.
const PART: &str = ".part";
/// No longer object is read back.
const LONGEST: u64 = 16 << 20;

impl Target {
    /// The target that a text names: a folder, `s3://…`, `gs://…` or `az://…`.
    pub fn open(text: &str, surroundings: &Surroundings) -> Result<Target, LakeError> {
        if text.is_empty() {
            return Err(LakeError::Target("the target has no name".to_owned()));
        }
        if text.contains("://") {
            return Ok(Target::Bucket(Box::new(Bucket::open(text, surroundings)?)));
        }
        let path = std::path::absolute(text)
            .map_err(|source| LakeError::Write { path: text.into(), source })?;
        if path.exists() && !path.is_dir() {
            return Err(LakeError::Target(format!("`{text}` is not a folder")));
        }
        Ok(Target::Folder(canonical(&path)))
    }

    /// Whether a folder is not there or has no tables: whatever was pushed to it is not there.
    pub(crate) fn is_removed(&self) -> bool {
        match self {
            Target::Folder(folder) => TABLES.iter().all(|table| !folder.join(table.name).is_dir()),
            Target::Bucket(_) => false,
        }
    }

    /// What it is told from other targets by: its name, and where a bucket of that name is.
    pub fn identity(&self) -> String {
        match self {
            Target::Folder(_) => self.shown(),
            Target::Bucket(bucket) => bucket.identity(),
        }
    }

    /// Its name, without credentials.
    pub fn shown(&self) -> String {
        match self {
            Target::Folder(path) => path.display().to_string(),
            Target::Bucket(bucket) => bucket.shown().to_owned(),
        }
    }

    /// Puts an object in place; one of that name is replaced.
    pub fn put(&self, key: &str, object: &mut Object) -> Result<(), LakeError> {
        match self {
            Target::Folder(folder) => {
                let path = folder.join(key);
                let failed = |source| LakeError::Write { path: path.clone(), source };
                without_links(folder, key).map_err(failed)?;
                put_file(&path, object)
            }
            Target::Bucket(bucket) => bucket.put(key, object),
        }
    }

    /// The bytes of an object; `None` if it is not there, or longer than what is read back.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, LakeError> {
        use io::ErrorKind::{FileTooLarge, NotFound};
        match self {
            Target::Folder(folder) => {
                let path = folder.join(key);
                let read = without_links(folder, key).and_then(|()| files::read(&path, LONGEST));
                match read {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(error) if matches!(error.kind(), FileTooLarge | NotFound) => Ok(None),
                    Err(error) => Err(unreadable(&path, &error)),
                }
            }
            Target::Bucket(bucket) => bucket.get(key, LONGEST),
        }
    }

    /// Whether an object of that size is there.
    pub(crate) fn has(&self, key: &str, size: u64) -> Result<bool, LakeError> {
        match self {
            Target::Folder(folder) => {
                let found = fs::symlink_metadata(folder.join(key));
                Ok(found.is_ok_and(|found| found.is_file() && found.len() == size))
            }
            Target::Bucket(bucket) => bucket.has(key, size),
        }
    }

    /// The objects below a folder whose names pass.
    pub fn list(
        &self,
        under: &str,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Stored>, LakeError> {
        let mut found = match self {
            Target::Folder(folder) => {
                let mut found = Vec::new();
                list_files(folder, under, passes, 3, &mut found)?;
                found
            }
            Target::Bucket(bucket) => bucket.list(under, "", passes)?,
        };
        // A bucket may say a name twice.
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// The objects of a table whose names begin so.
    pub(crate) fn list_from(&self, table: &str, start: &str) -> Result<Vec<Stored>, LakeError> {
        match self {
            Target::Folder(_) => self.list(table, &|name| name.starts_with(start)),
            Target::Bucket(bucket) => bucket.list(table, start, &|_| true),
        }
    }

    /// Removes an object; it need not exist.
    pub fn delete(&self, key: &str) -> Result<(), LakeError> {
        match self {
            Target::Folder(folder) => {
                let path = folder.join(key);
                match without_links(folder, key).and_then(|()| fs::remove_file(&path)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(LakeError::Write { path, source: error })
                    }
                    _ => {
                        // A day without sessions needs no folder; one that is not empty stays.
                        let _ = path.parent().map(fs::remove_dir);
                        Ok(())
                    }
                }
            }
            Target::Bucket(bucket) => bucket.delete(key),
        }
    }

    /// Removes what stopped pushes left of objects whose names begin so.
    pub(crate) fn remove_parts(&self, start: &str) -> Result<(), LakeError> {
        // A bucket shows only what is complete.
        let Target::Folder(_) = self else { return Ok(()) };
        for table in &TABLES {
            let is_left = |name: &str| {
                is_part(name) && name.strip_prefix('.').is_some_and(|name| name.starts_with(start))
            };
            for stored in self.list(table.name, &is_left)? {
                self.delete(&stored.key)?;
            }
        }
        Ok(())
    }

    /// Whether old versions of an object are kept.
    pub fn versions(&self, key: &str) -> Result<Versions, LakeError> {
        match self {
            Target::Folder(_) => Ok(Versions::Gone),
            Target::Bucket(bucket) => bucket.versions(key),
        }
    }

    /// Whether old versions of what is not there are kept.
    pub(crate) fn unseen_versions(&self) -> Versions {
        match self {
            Target::Folder(_) => Versions::Gone,
            Target::Bucket(_) => Versions::Unknown,
        }
    }

    /// Whether it was seen that what was deleted is kept as an old version.
    pub(crate) fn only_marks(&self) -> bool {
        match self {
            Target::Folder(_) => false,
            Target::Bucket(bucket) => bucket.only_marks(),
        }
    }

    /// How many uploads there are at once.
    pub(crate) fn lanes(&self) -> usize {
        match self {
            Target::Folder(_) => 1,
            Target::Bucket(_) => 8,
        }
    }
}

/// A path in the one form that all paths to a folder have: `lake`, `lake/` and `../here/lake` are
/// the same lake, with one state. What is not there yet is taken as it is.
fn canonical(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    let Some((folder, found)) = there else { return path.to_owned() };
    let rest = path.strip_prefix(folder).unwrap_or(Path::new(""));
    // Collected, so that nothing is left of a slash at the end.
    found.components().chain(rest.components()).collect()
}

/// Fails if a folder between that of the lake and an object is a link: it could lead anywhere.
fn without_links(folder: &Path, key: &str) -> io::Result<()> {
    let mut path = folder.to_owned();
    for part in Path::new(key).parent().into_iter().flat_map(Path::components) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let text = format!("`{}` is a link, which is not followed", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

fn put_file(path: &Path, object: &mut Object) -> Result<(), LakeError> {
    let failed = |source| LakeError::Write { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The same name each time: what a stopped run left is replaced by the next one.
    let part = folder.join(format!(".{name}{PART}"));
    // With the permissions that the user's new files have: a lake is shared.
    let write = |object: &mut Object| {
        files::put_with(path, &part, files::NewAccess::Usual, |file| {
            io::copy(&mut object.bytes()?, file).map(drop)
        })
    };
    let mut done = write(object);
    if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        fs::create_dir_all(folder).map_err(failed)?;
        done = write(object);
    }
    done.map_err(failed)
}

fn list_files(
    root: &Path,
    under: &str,
    passes: &dyn Fn(&str) -> bool,
    depth: usize,
    found: &mut Vec<Stored>,
) -> Result<(), LakeError> {
    let folder = root.join(under);
    let failed = |error| unreadable(&folder, &error);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        // The type of the entry itself: links are not followed.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && depth > 0 {
            list_files(root, &key, passes, depth - 1, found)?;
        } else if kind.is_file() && passes(&name) {
            let size = entry.metadata().map_err(failed)?.len();
            found.push(Stored { key, size });
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> LakeError {
    LakeError::Store {
        what: format!("cannot read `{}`", path.display()),
        why: error.to_string(),
        trouble: Trouble::Refused,
    }
}

/// Whether a file is one that a stopped push left.
pub(crate) fn is_part(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(PART)
}
