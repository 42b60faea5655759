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
