//! Distributes work over the cores.
//!
//! Invariants: results do not depend on the number of threads; how many of them wait to be taken is
//! bounded; a panic in a thread is a panic of the caller; work that is divided again takes no more
//! threads than its part of them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

thread_local! {
    /// How many threads the work of this thread may use; 0: as many as there are cores.
    static SHARE: Cell<usize> = const { Cell::new(0) };
}

/// How many threads can work at once: as many as there are cores; within work that is divided
/// already, its part of them.
pub fn count() -> usize {
    match SHARE.get() {
        0 => thread::available_parallelism().map_or(1, usize::from),
        share => share,
    }
}

/// Sets the part of the threads that the work of this thread may use, until it is dropped.
struct Share(usize);

impl Share {
    fn set(share: usize) -> Share {
        Share(SHARE.replace(share.max(1)))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        SHARE.set(self.0);
    }
}

/// Runs `work` on this thread only, also the parts that it would divide.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _share = Share::set(1);
    work()
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

/// How many results for each thread may wait to be taken.
const WAITING: usize = 32;

/// Runs `work` for each number below `pieces`, on that many threads, and passes the results to
/// `take`, in order. Ends at the first error of `take`.
///
/// ```
/// use transcript::format::threads::in_order;
///
/// let mut squares = Vec::new();
/// in_order(5, 2, |number| number * number, |_, square| {
///     squares.push(square);
///     Ok::<(), ()>(())
/// })?;
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// # Ok::<(), ()>(())
/// ```
pub fn in_order<T: Send, E>(
    pieces: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    in_order_within(WAITING, pieces, threads, work, take)
}

/// Like [`in_order`]; only so many results for each thread wait to be taken: they are large.
pub(crate) fn in_order_within<T: Send, E>(
    waiting: usize,
    pieces: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let share = threads / pieces.clamp(1, threads.max(1));
    let threads = threads.min(pieces);
    if threads <= 1 {
        let _share = Share::set(share);
        return (0..pieces).try_for_each(|at| take(at, work(at)));
    }
    let queue = Queue::new(pieces, threads * waiting);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (_alarm, _share) = (Alarm(&queue), Share::set(share));
                while let Some(at) = queue.begin() {
                    queue.finish(at, work(at));
                }
            });
        }
        let _alarm = Alarm(&queue);
        let mut all = (0..pieces).map_while(|at| Some((at, queue.take()?)));
        let taken = all.try_for_each(|(at, result)| take(at, result));
        queue.end();
        taken
    })
}

/// Results that wait to be taken.
struct Queue<T> {
    state: Mutex<Waiting<T>>,
    is_finished: Condvar,
    has_room: Condvar,
    pieces: usize,
}

struct Waiting<T> {
    /// The results from number `taken` on; `None` while one is being worked on.
    results: VecDeque<Option<T>>,
    taken: usize,
    begun: usize,
    is_over: bool,
}

impl<T> Queue<T> {
    fn new(pieces: usize, length: usize) -> Self {
        let results = (0..length).map(|_| None).collect();
        let state = Waiting { results, taken: 0, begun: 0, is_over: false };
        let (is_finished, has_room) = (Condvar::new(), Condvar::new());
        Queue { state: Mutex::new(state), is_finished, has_room, pieces }
    }

    /// The next number to work on, when there is room for its result; `None` at the end.
    fn begin(&self) -> Option<usize> {
        let is_full = |state: &mut Waiting<T>| {
            !state.is_over && state.begun - state.taken >= state.results.len()
        };
        let state = self.has_room.wait_while(lock(&self.state), is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_over || state.begun == self.pieces {
            return None;
        }
        state.begun += 1;
        Some(state.begun - 1)
    }

    fn finish(&self, at: usize, result: T) {
        let mut state = lock(&self.state);
        let place = at - state.taken;
        state.results[place] = Some(result);
        self.is_finished.notify_one();
    }

    /// The next result; `None` if a thread has panicked.
    fn take(&self) -> Option<T> {
        let is_awaited = |state: &mut Waiting<T>| !state.is_over && state.results[0].is_none();
        let state = self.is_finished.wait_while(lock(&self.state), is_awaited);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let result = state.results[0].take()?;
        state.results.rotate_left(1);
        state.taken += 1;
        self.has_room.notify_all();
        Some(result)
    }

    /// Nothing more is begun or waited for.
    fn end(&self) {
        lock(&self.state).is_over = true;
        self.has_room.notify_all();
        self.is_finished.notify_all();
    }
}

/// Ends the work if a thread panics: the others must not wait for it.
struct Alarm<'a, T>(&'a Queue<T>);

impl<T> Drop for Alarm<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

/// Takes a lock, even if a thread panicked while it had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
