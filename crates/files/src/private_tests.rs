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
    assert!(create_private(&pipe).is_err());
    // Also if somebody reads from it.
    let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
    assert!(create_private(&pipe).is_err());
}

#[test]
fn a_file_is_put_in_one_step_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let (path, part) = (root.path().join("a"), root.path().join("a.part"));
    let victim = root.path().join("victim");
    fs::write(&victim, "old").unwrap();
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    let put =
        |access, write: fn(&mut File) -> io::Result<()>| put_with(&path, &part, access, write);
    put(NewAccess::Private, |file| file.write_all(b"one")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), 0o600));
    assert_eq!(fs::read(&victim).unwrap(), b"old");
    // What fails leaves what was there, and nothing else.
    put(NewAccess::Usual, |file| {
        file.write_all(b"two")?;
        Err(io::ErrorKind::StorageFull.into())
    })
    .unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert!(!part.exists());
    put(NewAccess::Usual, |file| file.write_all(b"two")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let (victim, link) = (root.path().join("victim"), root.path().join("link"));
    fs::write(&victim, "old").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    for refused in [create_private(&link), append_private(&link)] {
        assert_eq!(refused.unwrap_err().to_string(), "it is a link, not a regular file");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"old");
}
