//! Room for what waits to be written: whoever brings more than fits waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A number of bytes that may wait.
pub(super) struct Room {
    free: Mutex<u64>,
    left: Condvar,
    size: u64,
}

impl Room {
    pub(super) fn new(size: u64) -> Room {
        Room { free: Mutex::new(size), left: Condvar::new(), size }
    }

    /// Waits until there is room. What is larger than the whole room takes all of it.
    pub(super) fn enter(&self, bytes: u64) {
        let bytes = bytes.min(self.size);
        let mut free = self
            .left
            .wait_while(self.free(), |free| *free < bytes)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
    }

    /// Gives back the room of what has entered.
    pub(super) fn leave(&self, bytes: u64) {
        let mut free = self.free();
        *free = free.saturating_add(bytes.min(self.size));
        self.left.notify_all();
    }

    /// Lets everybody in: nothing waits any more.
    pub(super) fn open(&self) {
        *self.free() = u64::MAX;
        self.left.notify_all();
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
