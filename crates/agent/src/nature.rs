//! What the engine takes from its surroundings: the time, new ids, chance. Tests give others.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// Where time, ids and chance come from.
pub trait Nature: Send + Sync {
    /// Milliseconds since 1970.
    fn now(&self) -> i64;
    /// Milliseconds since some moment, by a clock that nobody sets: how long something takes is
    /// measured by it.
    fn elapsed(&self) -> i64;
    /// An id that nothing has: a UUID.
    fn id(&self) -> String;
    /// A number from 0 to 1.
    fn chance(&self) -> f64;
}

/// As they are.
#[derive(Clone, Copy, Debug)]
pub struct Real;

impl Nature for Real {
    fn now(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }

    fn elapsed(&self) -> i64 {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        i64::try_from(BEGIN.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn chance(&self) -> f64 {
        f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 255.0
    }
}

/// A clock that stands still, and ids that are counted: what is written is the same each time.
#[derive(Debug)]
pub struct Stopped {
    now: i64,
    ids: AtomicI64,
}

impl Stopped {
    /// The time that it is.
    pub fn at(now: i64) -> Stopped {
        Stopped { now, ids: AtomicI64::new(1) }
    }
}

impl Nature for Stopped {
    fn now(&self) -> i64 {
        self.now
    }

    fn elapsed(&self) -> i64 {
        0
    }

    fn id(&self) -> String {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        // Of two sessions at different times the ids are different.
        format!("{:08x}-0000-4000-8000-{number:012x}", (self.now / 1_000) & 0xffff_ffff)
    }

    fn chance(&self) -> f64 {
        0.0
    }
}
