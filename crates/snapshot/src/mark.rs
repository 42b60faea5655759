//! What shows that a file may have changed, from its metadata alone.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long after its last change a file is too young to tell: a change within the same tick of
/// the system's clock leaves the same times.
const TICK: Duration = Duration::from_millis(50);
/// The same on file systems that know only seconds.
const COARSE: Duration = Duration::from_millis(2100);

/// A number that differs if inode, size, times or mode do; 0 if the file is too young to tell.
/// Programs cannot set the time of the last change of the inode, so they cannot hide a change.
pub(crate) fn mark(found: &Metadata, now: SystemTime) -> u64 {
    if is_young(found, now) {
        return 0;
    }
    let mut mixed = 0x9e37_79b9_7f4a_7c15;
    for word in [
        found.dev(),
        found.ino(),
        found.size(),
        u64::from(found.mode()),
        found.mtime().cast_unsigned(),
        found.mtime_nsec().cast_unsigned(),
        found.ctime().cast_unsigned(),
        found.ctime_nsec().cast_unsigned(),
    ] {
        mixed = mix(mixed ^ word);
    }
    mixed.max(1)
}

fn is_young(found: &Metadata, now: SystemTime) -> bool {
    let changed = found.ctime().max(found.mtime());
    let nanos =
        if found.ctime() >= found.mtime() { found.ctime_nsec() } else { found.mtime_nsec() };
    let Ok(seconds) = u64::try_from(changed) else { return false };
    let since = Duration::new(seconds, u32::try_from(nanos).unwrap_or_default());
    let wait = if found.ctime_nsec() == 0 { COARSE } else { TICK };
    UNIX_EPOCH + since + wait >= now
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
