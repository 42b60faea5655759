use super::*;

#[test]
fn the_second_is_told_who_has_it() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("locks/a");
    let Lock::Held(first) = try_lock(&path, "process 1 (a)").unwrap() else {
        panic!("nobody else has it")
    };
    let Lock::Busy(who) = lock(&path, "b", Duration::from_millis(30)).unwrap() else {
        panic!("the first has it")
    };
    assert_eq!(who, "process 1 (a)");
    drop(first);
    assert!(matches!(try_lock(&path, "b").unwrap(), Lock::Held(_)));
}

#[test]
fn locks_that_nobody_holds_are_swept() {
    let root = tempfile::tempdir().unwrap();
    let (held, dead) = (root.path().join("held"), root.path().join("dead"));
    let Lock::Held(lock) = try_lock(&held, "a").unwrap() else { panic!("it is free") };
    drop(try_lock(&dead, "b").unwrap());
    sweep_locks(root.path()).unwrap();
    assert!(held.exists() && !dead.exists());
    lock.remove().unwrap();
    assert!(!held.exists());
    sweep_locks(&root.path().join("nowhere")).unwrap();
}

/// Many threads take and remove the same lock file; two never hold it at once.
#[test]
fn a_lock_that_is_removed_is_never_held_twice() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    let is_held = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    if let Lock::Held(held) = try_lock(&path, "x").unwrap() {
                        assert!(!is_held.swap(true, Ordering::SeqCst), "two have it");
                        thread::yield_now();
                        is_held.store(false, Ordering::SeqCst);
                        held.remove().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn processes_run_or_do_not() {
    assert!(is_running(std::process::id()));
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(!is_running(child.id()));
}
