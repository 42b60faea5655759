//! Work shared out over the cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many threads can work at once.
pub(crate) fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does so many pieces of work by so many threads, this one among them: each takes the next piece that nobody has.
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

/// Takes a lock, whatever became of who had it before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
