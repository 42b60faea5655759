//! What a file has besides its bytes: mode, owner, extended attributes; and what protects it from
//! being replaced.
//!
//! Invariant: a file that gets the attributes of another one has exactly these, as far as the user
//! may set them. What the system does not allow (the owner, labels of security modules) stays
//! unchanged.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The mode, owner and extended attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits.
    pub mode: u32,
    /// The ids of the user and of the group that own it.
    pub owner: (u32, u32),
    /// The names and values of the extended attributes.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a file must not be replaced without asking the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It has that many names (hard links): replacing one of them would separate them.
    HardLinked(u64),
    /// Its owner may not write to it.
    ReadOnly,
    /// It belongs to another user, with that id.
    OtherOwner(u32),
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    use rustix::fs::{
        XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fsetxattr,
    };
    use rustix::io::Errno;

    use super::{Attributes, File, Path, Protection, fs, io};

    impl Attributes {
        /// Reads the attributes of a file.
        pub fn of(file: &File) -> io::Result<Attributes> {
            let found = file.metadata()?;
            Ok(Attributes {
                mode: found.mode() & 0o7777,
                owner: (found.uid(), found.gid()),
                extended: extended(file)?,
            })
        }

        /// Sets these attributes on another file.
        pub fn give(&self, file: &File) -> io::Result<()> {
            // A user who may not change the owner keeps the file. This comes first, because
            // changing the owner clears bits of the mode.
            let _ = fchown(file, Some(self.owner.0), Some(self.owner.1));
            file.set_permissions(fs::Permissions::from_mode(self.mode))?;
            for (name, value) in &self.extended {
                match fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                    Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) | Ok(()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }
    }

    fn extended(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let size = match flistxattr_query(file) {
            Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => return Ok(Vec::new()),
            size => size?,
        };
        let mut names = vec![0; size];
        let size = flistxattr(file, names.as_mut_slice())?;
        names.truncate(size);
        let mut found = Vec::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let value = || {
                let mut value = vec![0; fgetxattr_query(file, name)?];
                let size = fgetxattr(file, name, value.as_mut_slice())?;
                value.truncate(size);
                Ok(value)
            };
            match value() {
                Ok(value) => found.push((name.to_vec(), value)),
                Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// What protects a file from being replaced, if anything does.
    pub fn protection(path: &Path) -> io::Result<Option<Protection>> {
        let found = fs::metadata(path)?;
        let user = rustix::process::geteuid().as_raw();
        Ok(if found.nlink() > 1 {
            Some(Protection::HardLinked(found.nlink()))
        } else if found.uid() != user {
            Some(Protection::OtherOwner(found.uid()))
        } else if found.mode() & 0o200 == 0 {
            Some(Protection::ReadOnly)
        } else {
            None
        })
    }
}

#[cfg(unix)]
pub use unix::protection;

#[cfg(not(unix))]
impl Attributes {
    /// Reads the attributes of a file.
    pub fn of(file: &File) -> io::Result<Attributes> {
        let mode = if file.metadata()?.permissions().readonly() { 0o400 } else { 0o600 };
        Ok(Attributes { mode, ..Attributes::default() })
    }

    /// Sets these attributes on another file.
    pub fn give(&self, file: &File) -> io::Result<()> {
        let mut permissions = file.metadata()?.permissions();
        permissions.set_readonly(self.mode & 0o200 == 0);
        file.set_permissions(permissions)
    }
}

/// What protects a file from being replaced, if anything does.
#[cfg(not(unix))]
pub fn protection(path: &Path) -> io::Result<Option<Protection>> {
    Ok(fs::metadata(path)?.permissions().readonly().then_some(Protection::ReadOnly))
}

#[cfg(all(test, unix))]
#[path = "attributes_tests.rs"]
mod tests;
