//! When to retry a request, and after how long. Pure: the random number is an argument.

use std::time::Duration;

use super::{ApiError, Why};

/// How often to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How many times a request is retried.
    pub most: u32,
}

/// As many times as Claude Code retries by default.
impl Default for Retry {
    fn default() -> Self {
        Retry { most: 10 }
    }
}

/// The longest wait if the API does not ask for one.
const LONGEST: Duration = Duration::from_secs(32);
/// If the API asks for a longer wait than this, the request is not retried.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

impl Retry {
    /// How long to wait before a request that failed so often is retried; None if it is not.
    /// `chance` is from 0 to 1.
    pub fn wait(self, failures: u32, error: &ApiError, chance: f64) -> Option<Duration> {
        if failures > self.most || !is_passing(error) {
            return None;
        }
        if let Some(asked) = error.retry_after {
            return (asked <= LONGEST_ASKED).then_some(asked);
        }
        let steps = failures.saturating_sub(1).min(16);
        let base = Duration::from_millis(500) * (1 << steps);
        Some(base.min(LONGEST).mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0))
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &ApiError) -> bool {
    if let Some(should_retry) = error.should_retry {
        return should_retry;
    }
    match error.why {
        Why::Status(status) => matches!(status, 408 | 409 | 429 | 500..),
        Why::InStream => {
            matches!(
                error.kind.as_deref(),
                Some("overloaded_error" | "api_error" | "rate_limit_error") | None
            )
        }
        Why::Unreachable | Why::Cut | Why::Idle | Why::Nonsense => true,
        // A response without an end would be sent, and paid for, again.
        Why::Setup | Why::Endless => false,
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
