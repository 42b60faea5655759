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
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn attributes_go_from_one_file_to_another() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("a"), root.path().join("b"));
        fs::write(&one, "x").unwrap();
        fs::set_permissions(&one, fs::Permissions::from_mode(0o640)).unwrap();
        let file = File::open(&one).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let has_extended = rustix::fs::fsetxattr(&file, "user.note", b"kept", flags).is_ok();
        if !has_extended {
            eprintln!("left out: this file system has no extended attributes");
        }
        let found = Attributes::of(&file).unwrap();
        assert_eq!(found.mode, 0o640);
        let noted = found.extended.iter().any(|(name, value)| {
            (name.as_slice(), value.as_slice()) == (b"user.note".as_slice(), b"kept".as_slice())
        });
        assert_eq!(noted, has_extended);
        found.give(&File::create(&other).unwrap()).unwrap();
        assert_eq!(Attributes::of(&File::open(&other).unwrap()).unwrap(), found);
    }

    #[test]
    fn what_protects_a_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, "x").unwrap();
        assert_eq!(protection(&path).unwrap(), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(protection(&path).unwrap(), Some(Protection::ReadOnly));
        fs::hard_link(&path, root.path().join("b")).unwrap();
        assert_eq!(protection(&path).unwrap(), Some(Protection::HardLinked(2)));
    }
}
