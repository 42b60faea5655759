use super::*;

#[cfg(unix)]
#[test]
fn a_session_has_one_owner_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    let (locks, path) = (root.path().join("locks"), root.path().join("s.jsonl"));
    let link = root.path().join("link.jsonl");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut first = SessionLocks::default();
    // Also if it does not exist yet.
    first.take(&locks, &path, "chat").unwrap();
    std::io::Write::write_all(&mut fs::File::create(&path).unwrap(), b"x").unwrap();
    first.take(&locks, &link, "repair").unwrap();
    let mut second = SessionLocks::default();
    let Err(LockError::Busy(who)) = second.take(&locks, &link, "strip") else {
        panic!("the first has it")
    };
    assert_eq!(who, format!("process {} (quipu chat)", std::process::id()));
    drop(first);
    assert_eq!(fs::read_dir(&locks).unwrap().count(), 0, "its file goes with it");
    second.take(&locks, &path, "strip").unwrap();
}
