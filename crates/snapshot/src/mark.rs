//! What shows that a file may have changed, from its metadata alone.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};

/// How long after its last change a file is too young to tell: a change within the same tick of
/// the system's clock leaves the same times.
const TICK: Duration = Duration::from_millis(50);
/// The same on file systems that know only seconds.
const COARSE: Duration = Duration::from_millis(2100);

/// The metadata of something, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    /// With the type.
    bits: u32,
    /// When its content was changed: seconds and nanoseconds.
    modified: (i64, u32),
    /// When its inode was. Programs cannot set this time, so they cannot hide a change.
    changed: (i64, u32),
}

impl From<&Metadata> for Found {
    fn from(found: &Metadata) -> Found {
        let nanos = |nanos: i64| u32::try_from(nanos).unwrap_or_default();
        Found {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            bits: found.mode(),
            modified: (found.mtime(), nanos(found.mtime_nsec())),
            changed: (found.ctime(), nanos(found.ctime_nsec())),
        }
    }
}

impl From<&Stat> for Found {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the types are other ones on some systems"
    )]
    fn from(found: &Stat) -> Found {
        Found {
            device: found.st_dev.try_into().unwrap_or_default(),
            inode: found.st_ino.try_into().unwrap_or_default(),
            size: found.st_size.try_into().unwrap_or_default(),
            bits: found.st_mode.into(),
            modified: (
                found.st_mtime.try_into().unwrap_or_default(),
                found.st_mtime_nsec.try_into().unwrap_or_default(),
            ),
            changed: (
                found.st_ctime.try_into().unwrap_or_default(),
                found.st_ctime_nsec.try_into().unwrap_or_default(),
            ),
        }
    }
}

impl Found {
    fn kind(self) -> FileType {
        #[allow(clippy::useless_conversion, reason = "the type is another one on some systems")]
        FileType::from_raw_mode(self.bits.try_into().unwrap_or_default())
    }

    pub(crate) fn is_folder(self) -> bool {
        self.kind() == FileType::Directory
    }

    pub(crate) fn is_link(self) -> bool {
        self.kind() == FileType::Symlink
    }

    pub(crate) fn is_file(self) -> bool {
        self.kind() == FileType::RegularFile
    }

    /// The permission bits.
    pub(crate) fn mode(self) -> u32 {
        self.bits & 0o7777
    }

    /// When its content was changed last, in nanoseconds.
    pub(crate) fn stamp(self) -> u64 {
        let (seconds, nanos) = self.modified;
        u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).unwrap_or_default()
    }

    /// A number that differs if inode, size, times or mode do; 0 if the file is too young to tell.
    pub(crate) fn mark(self, now: SystemTime) -> u64 {
        if self.is_young(now) {
            return 0;
        }
        let mut mixed = 0x9e37_79b9_7f4a_7c15;
        for word in [
            self.device,
            self.inode,
            self.size,
            u64::from(self.bits),
            self.modified.0.cast_unsigned(),
            u64::from(self.modified.1),
            self.changed.0.cast_unsigned(),
            u64::from(self.changed.1),
        ] {
            mixed = mix(mixed ^ word);
        }
        mixed.max(1)
    }

    fn is_young(self, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed.max(self.modified);
        let Ok(seconds) = u64::try_from(seconds) else { return false };
        let wait = if self.changed.1 == 0 { COARSE } else { TICK };
        UNIX_EPOCH + Duration::new(seconds, nanos) + wait >= now
    }
}

/// The mark of what the standard library found.
pub(crate) fn mark(found: &Metadata, now: SystemTime) -> u64 {
    Found::from(found).mark(now)
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
