use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn what_is_put_is_whole_and_private() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/c");
    put(&path, b"one", Durability::PowerCut).unwrap();
    put(&path, b"two", Durability::Process).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn what_is_added_to_is_private_and_no_pipe() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/log");
    append_private(&path).unwrap().write_all(b"one").unwrap();
    append_private(&path).unwrap().write_all(b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let pipe = root.path().join("pipe");
    let both = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, both).unwrap();
    assert!(append_private(&pipe).is_err());
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let (victim, link) = (root.path().join("victim"), root.path().join("link"));
    fs::write(&victim, "old").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    assert!(create_private(&link).is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"old");
}
