use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;

#[test]
fn results_come_in_order_and_wait_in_bounds() {
    for threads in [1, 2, 5] {
        let (begun, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |at: usize| {
            let ahead = begun.fetch_add(1, Ordering::SeqCst) + 1 - taken.load(Ordering::SeqCst);
            assert!(ahead <= threads * (WAITING + 1), "{ahead} wait for {threads} threads");
            // Later ones may be finished first.
            thread::sleep(Duration::from_micros((at * 7 % 5) as u64 * 50));
            at * 2
        };
        let mut seen = Vec::new();
        let all = in_order(200, threads, work, |at, result| {
            taken.fetch_add(1, Ordering::SeqCst);
            seen.push((at, result));
            Ok::<(), ()>(())
        });
        all.unwrap();
        assert_eq!(seen, (0..200).map(|at| (at, at * 2)).collect::<Vec<_>>());
    }
}

/// Of large results, fewer wait.
#[test]
fn no_more_wait_than_was_said() {
    let (begun, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |_| {
        let ahead = begun.fetch_add(1, Ordering::SeqCst) + 1 - taken.load(Ordering::SeqCst);
        assert!(ahead <= 2 * (3 + 1), "{ahead} wait for 2 threads");
    };
    let all = in_order_within(3, 100, 2, work, |_, ()| {
        thread::sleep(Duration::from_micros(200));
        taken.fetch_add(1, Ordering::SeqCst);
        Ok::<(), ()>(())
    });
    assert_eq!((all, begun.into_inner()), (Ok(()), 100));
}

#[test]
fn an_error_ends_the_work() {
    let begun = AtomicUsize::new(0);
    let work = |_| begun.fetch_add(1, Ordering::SeqCst);
    let all = in_order(10_000, 3, work, |at, _| if at == 5 { Err(at) } else { Ok(()) });
    assert_eq!(all, Err(5));
    assert!(begun.load(Ordering::SeqCst) < 100);
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_panic_is_not_waited_for() {
    let work = |at| assert!(at != 7, "seven");
    let _ = in_order(1_000, 2, work, |_, ()| Ok::<(), ()>(()));
}

#[test]
fn divided_work_divides_its_threads_too() {
    let shares = |pieces, threads| {
        let mut found = Vec::new();
        in_order(
            pieces,
            threads,
            |_| count(),
            |_, share| {
                found.push(share);
                Ok::<(), ()>(())
            },
        )
        .unwrap();
        found.dedup();
        found
    };
    assert_eq!(shares(1, 4), [4]);
    assert_eq!(shares(2, 4), [2]);
    assert_eq!(shares(9, 4), [1]);
    assert_eq!(shares(9, 1), [1]);
    assert_eq!(count(), thread::available_parallelism().unwrap().get());
}
