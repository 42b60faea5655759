use super::*;

#[test]
fn what_hangs_is_given_up() {
    let long = Duration::from_secs(60);
    assert_eq!(within(long, |_| 7), Some(7));
    let begin = Instant::now();
    let hung = within(Duration::from_millis(50), |_| sleep(Duration::from_secs(60)));
    assert_eq!(hung, None);
    assert!(begin.elapsed() < Duration::from_secs(10));
    // Slow work does not hang.
    let slow = within(Duration::from_millis(400), |alive| {
        for _ in 0..20 {
            sleep(Duration::from_millis(40));
            alive();
        }
        8
    });
    assert_eq!(slow, Some(8));
}
