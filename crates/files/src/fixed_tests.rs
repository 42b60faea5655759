use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn no_link_is_followed_anywhere() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    fs::create_dir_all(root.join("outside/in")).unwrap();
    fs::write(root.join("outside/in/secret"), "secret").unwrap();
    fs::create_dir(root.join("work")).unwrap();
    symlink(root.join("outside"), root.join("work/link")).unwrap();
    symlink(root.join("outside/in/secret"), root.join("work/file")).unwrap();
    assert_eq!(read_fixed(&root.join("outside/in/secret"), 99).unwrap(), b"secret");
    for path in ["work/link/in/secret", "work/file", "work/../outside/in/secret"] {
        assert!(open_fixed(&root.join(path)).is_err(), "{path}");
    }
    for missing in [Missing::Error, Missing::Made] {
        assert!(FixedFolder::open(&root.join("work/link/new"), missing).is_err());
        assert!(FixedFolder::open(&root.join("work/link"), missing).is_err());
    }
    assert!(!root.join("outside/new").exists());
    let work = FixedFolder::open(&root.join("work"), Missing::Error).unwrap();
    assert!(work.truncate("file".as_ref()).is_err());
    assert_eq!(fs::read_to_string(root.join("outside/in/secret")).unwrap(), "secret");
    // A pipe does not wait.
    let made = std::process::Command::new("mkfifo").arg(root.join("work/pipe")).status();
    assert!(made.unwrap().success());
    assert!(crate::NotRegular::is_why(&open_fixed(&root.join("work/pipe")).unwrap_err()));
    assert!(crate::NotRegular::is_why(&open_fixed(&root.join("outside/in")).unwrap_err()));
}

#[test]
fn files_are_made_and_replaced() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let folder = FixedFolder::open(&root.join("a/b"), Missing::Made).unwrap();
    let (part, name) = (OsStr::new("part"), OsStr::new("name"));
    folder.create(part, NewAccess::Private).unwrap().write_all(b"one").unwrap();
    assert!(folder.create(part, NewAccess::Usual).is_err());
    folder.rename(part, name).unwrap();
    assert_eq!(read_text_fixed(&root.join("a/b/name"), 9).unwrap(), "one");
    folder.truncate(name).unwrap().write_all(b"2").unwrap();
    assert_eq!(read_text_fixed(&root.join("a/b/name"), 9).unwrap(), "2");
    folder.remove(name).unwrap();
    assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 0);
}
