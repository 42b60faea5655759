use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn attributes_go_from_one_file_to_another() {
    let root = tempfile::tempdir().unwrap();
    let (one, other) = (root.path().join("a"), root.path().join("b"));
    fs::write(&one, "x").unwrap();
    fs::set_permissions(&one, fs::Permissions::from_mode(0o640)).unwrap();
    let file = File::open(&one).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let has_extended = rustix::fs::fsetxattr(&file, "user.note", b"kept", flags).is_ok();
    if !has_extended {
        eprintln!("left out: this file system has no extended attributes");
    }
    let found = Attributes::of(&file).unwrap();
    assert_eq!(found.mode, 0o640);
    let noted = found.extended.iter().any(|(name, value)| {
        (name.as_slice(), value.as_slice()) == (b"user.note".as_slice(), b"kept".as_slice())
    });
    assert_eq!(noted, has_extended);
    found.give(&File::create(&other).unwrap()).unwrap();
    assert_eq!(Attributes::of(&File::open(&other).unwrap()).unwrap(), found);
}

#[test]
fn what_protects_a_file_is_found() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, "x").unwrap();
    assert_eq!(protection(&path).unwrap(), None);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(protection(&path).unwrap(), Some(Protection::ReadOnly));
    fs::hard_link(&path, root.path().join("b")).unwrap();
    assert_eq!(protection(&path).unwrap(), Some(Protection::HardLinked(2)));
}
