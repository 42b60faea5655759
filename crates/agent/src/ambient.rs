//! What the engine takes from its environment: time, new ids, random numbers. Tests supply fixed
//! ones.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// The source of time, ids and random numbers.
pub trait Ambient: Send + Sync {
    /// Milliseconds since 1970.
    fn now(&self) -> i64;
    /// Milliseconds since some moment, by a clock that cannot be set. Used to measure durations.
    fn elapsed(&self) -> i64;
    /// A new, unique id: a UUID.
    fn id(&self) -> String;
    /// A random number from 0 to 1.
    fn chance(&self) -> f64;
}

/// The real clock, ids and random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Real;

impl Ambient for Real {
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

/// A clock that does not advance, and consecutive ids: what is written is the same each time.
#[derive(Debug)]
pub struct Stopped {
    now: i64,
    ids: AtomicI64,
}

impl Stopped {
    /// A clock that always shows this time.
    pub fn at(now: i64) -> Stopped {
        Stopped { now, ids: AtomicI64::new(1) }
    }
}

impl Ambient for Stopped {
    fn now(&self) -> i64 {
        self.now
    }

    fn elapsed(&self) -> i64 {
        0
    }

    fn id(&self) -> String {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        // Two sessions at different times have different ids.
        format!("{:08x}-0000-4000-8000-{number:012x}", (self.now / 1_000) & 0xffff_ffff)
    }

    fn chance(&self) -> f64 {
        0.0
    }
}
