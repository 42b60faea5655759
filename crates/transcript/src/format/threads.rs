//! Distributes work over the cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many threads can work at once.
pub(crate) fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` for each number below `pieces`, on that many threads including this one. Each thread
/// takes the next number that is still free.
pub(crate) fn each(pieces: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= pieces {
                break;
            }
            work(at);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(pieces) {
            scope.spawn(take);
        }
        take();
    });
}

/// Takes a lock, even if a thread panicked while it had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
