use super::*;

#[test]
fn a_folder_that_was_left_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(folder_name());
    drop(files::try_lock(&folder.join(LOCK), "a session").unwrap());
    sweep(&place.path().join("none"));
    assert!(!folder.exists());
}

#[test]
fn a_folder_whose_lock_nobody_has_taken_yet_stays() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(folder_name());
    crate::shell::folder(&folder).unwrap();
    fs::write(folder.join(LOCK), "").unwrap();
    sweep(&place.path().join("none"));
    assert!(folder.exists());
}
