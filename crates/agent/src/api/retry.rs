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
mod tests {
    use super::*;

    fn wait(failures: u32, error: &ApiError) -> Option<u128> {
        Retry { most: 4 }.wait(failures, error, 1.0).map(|wait| wait.as_millis())
    }

    #[test]
    fn waits_grow_and_end() {
        let busy = ApiError::new(Why::Status(529), "busy");
        let waits: Vec<_> = (1..=5).map(|failures| wait(failures, &busy)).collect();
        assert_eq!(waits, [Some(625), Some(1_250), Some(2_500), Some(5_000), None]);
        assert_eq!(Retry { most: 99 }.wait(90, &busy, 0.0), Some(LONGEST));
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        for status in [400, 401, 403, 404, 413] {
            assert_eq!(wait(1, &ApiError::new(Why::Status(status), "no")), None);
        }
        assert_eq!(wait(1, &ApiError::new(Why::Setup, "no key")), None);
        assert_eq!(wait(1, &ApiError::new(Why::Endless, "too long")), None);
        for why in [Why::Status(429), Why::Status(500), Why::Cut, Why::Idle, Why::Unreachable] {
            assert_eq!(wait(1, &ApiError::new(why, "later")), Some(625));
        }
    }

    #[test]
    fn the_api_has_the_last_word() {
        let asked = |seconds| ApiError {
            retry_after: Some(Duration::from_secs(seconds)),
            ..ApiError::new(Why::Status(429), "slow down")
        };
        assert_eq!(wait(1, &asked(3)), Some(3_000));
        assert_eq!(wait(1, &asked(3_600)), None);
        let never = ApiError { should_retry: Some(false), ..ApiError::new(Why::Status(500), "no") };
        assert_eq!(wait(1, &never), None);
    }
}
