//! Who may change folders: one process at a time.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RestoreError;

/// How long to wait for a lock that somebody else has.
const PATIENCE: Duration = Duration::from_secs(1);

/// A lock on the rewinds of a store, while it is held.
#[derive(Debug, Default)]
pub(super) struct Hold(Mutex<Option<File>>);

impl Hold {
    fn held(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other process rewinds, and keeps it so.
    pub(super) fn take(&self, store: &Path) -> Result<(), RestoreError> {
        let mut held = self.held();
        if held.is_none() {
            let path = store.join("rewinding");
            let file = files::append_private(&path).and_then(|file| file.lock().map(|()| file));
            *held = Some(file.map_err(|error| RestoreError::Io(path, error))?);
        }
        Ok(())
    }

    /// The same without waiting for long: a process that has just been started may still have what
    /// another thread held. Returns whether it worked.
    pub(super) fn try_take(&self, store: &Path) -> Result<bool, RestoreError> {
        let mut held = self.held();
        if held.is_none() {
            let path = store.join("rewinding");
            let file = files::append_private(&path);
            let file = file.map_err(|error| RestoreError::Io(path, error))?;
            let end = Instant::now() + PATIENCE;
            let mut is_held = file.try_lock().is_ok();
            while !is_held && Instant::now() < end {
                std::thread::sleep(PATIENCE / 50);
                is_held = file.try_lock().is_ok();
            }
            *held = is_held.then_some(file);
        }
        Ok(held.is_some())
    }

    pub(super) fn release(&self) {
        *self.held() = None;
    }
}
