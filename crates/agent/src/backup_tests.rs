use std::fs::{self, File};
use std::io::Write;

use super::*;

fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn of_each_prompt_there_is_what_files_were_then() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("a.txt"), folder.path().join("new.txt"));
    let copies = folder.path().join("copies");
    let backups = Backups::new(Some(copies.clone()));
    let rows_of = |backups: &Backups| -> Vec<(String, u32, Option<String>)> {
        let all = backups.recorded("now").into_iter();
        all.map(|(path, backup)| {
            let text = backup.name.map(|name| fs::read_to_string(copies.join(name)).unwrap());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, backup.version, text)
        })
        .collect()
    };
    let row = |name: &str, version, text: Option<&str>| {
        (name.to_owned(), version, text.map(str::to_owned))
    };
    write(&file, "one");
    for text in ["two", "three"] {
        // Two changes in one turn: the state at the prompt counts.
        backups.keep(&file).unwrap();
        backups.keep(&new).unwrap();
        write(&file, text);
        write(&new, text);
    }
    assert!(backups.has_new() && !backups.has_new());
    assert_eq!(rows_of(&backups), [row("a.txt", 1, Some("one")), row("new.txt", 1, None)]);
    backups.renew();
    assert_eq!(
        rows_of(&backups),
        [row("a.txt", 2, Some("three")), row("new.txt", 2, Some("three"))]
    );
    fs::remove_file(&new).unwrap();
    backups.renew();
    assert_eq!(rows_of(&backups), [row("a.txt", 2, Some("three")), row("new.txt", 3, None)]);
    // After a resume it continues from there; copies of other files are not restored.
    let later = Backups::new(Some(copies.clone()));
    let other = (folder.path().join("b.txt"), backups.recorded("")[0].1.clone());
    later.restore(backups.recorded("").into_iter().chain([other]));
    assert_eq!(rows_of(&later), rows_of(&backups));
}

#[test]
fn a_record_may_say_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copies) = (folder.path().join("a.txt"), folder.path().join("copies"));
    write(&file, "one");
    let hash = hash(&file);
    let restored = |name: &str, version| {
        let backups = Backups::new(Some(copies.clone()));
        let backup = Backup { name: Some(name.to_owned()), version, time: None };
        backups.restore([(file.clone(), backup)].into_iter());
        backups.renew();
        backups.recorded("now").pop().map(|(_, backup)| (backup.name, backup.version))
    };
    for name in ["@v1", "/../../x@v1", "@v", "@v1/../x", "@v1x", ""] {
        assert_eq!(restored(&format!("{hash}{name}"), 1).is_some(), name == "@v1", "{name}");
    }
    // There is no version after the last possible one.
    let (name, version) = restored(&format!("{hash}@v9"), u32::MAX).unwrap();
    assert_eq!((name, version), (Some(format!("{hash}@v9")), u32::MAX));
}

#[cfg(unix)]
#[test]
fn copies_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (file, copies) = (folder.path().join("a.txt"), folder.path().join("history/copies"));
    write(&file, "one");
    Backups::new(Some(copies.clone())).keep(&file).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let copy = fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&copies), mode(&copy)), (0o700, 0o600));
}
