//! Reading from a source that may never write anything.

use std::io;
use std::time::Duration;

/// Waits until something can be read from `input`, or until its end, but no longer than `patience`.
/// Returns whether a read would not wait. On systems without such a check it returns true, and the
/// read itself waits.
#[cfg(unix)]
pub fn is_ready(input: &impl std::os::fd::AsFd, patience: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::time::Instant;
    let begin = Instant::now();
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns true: this system has no such check, and the read itself waits.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub fn is_ready<T>(_input: &T, _patience: Duration) -> io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, unix))]
#[path = "ready_tests.rs"]
mod tests;
