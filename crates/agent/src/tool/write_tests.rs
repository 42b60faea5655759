//! `Write` as it was recorded, and what it refuses.

use std::fs;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::thread;

use serde_json::json;

use files::{FixedFolder, Missing};

use super::run;
use super::test_site::TestSite;
use crate::freshness::Print;

#[test]
fn a_new_file_with_its_folders() {
    let bench = TestSite::new();
    let input = json!({"file_path": "/demo/a/b/notes.txt", "content": "alpha\nbeta\ngamma\n"});
    let (output, detail) = bench.run(run, &input);
    assert_eq!(output, "File created successfully at: /demo/a/b/notes.txt");
    assert_eq!(
        detail,
        r#"{"type":"create","filePath":"/demo/a/b/notes.txt","content":"alpha\nbeta\ngamma\n","structuredPatch":[],"originalFile":null}"#
    );
    assert_eq!(bench.text("a/b/notes.txt"), "alpha\nbeta\ngamma\n");
    // The new content counts as known.
    bench.run(run, &input);
}

#[test]
fn a_file_is_replaced_and_kept() {
    let bench = TestSite::new();
    let path = bench.known("notes.txt", "alpha\ndelta\ngamma\n");
    let (output, detail) =
        bench.run(run, &json!({"file_path": "/demo/notes.txt", "content": "all new\n"}));
    assert_eq!(
        output,
        "The file /demo/notes.txt has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n     1→all new\n     2→"
    );
    assert_eq!(
        detail,
        r#"{"type":"update","filePath":"/demo/notes.txt","content":"all new\n","structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":1,"lines":["-alpha","-delta","-gamma","+all new"]}],"originalFile":"alpha\ndelta\ngamma\n"}"#
    );
    let kept = bench.site.backups.recorded("now");
    assert_eq!(kept[0].0, path);
    let name = kept[0].1.name.as_ref().unwrap();
    let copy = bench.site.root.parent().unwrap().join("history").join(name);
    assert_eq!(fs::read_to_string(copy).unwrap(), "alpha\ndelta\ngamma\n");
    let names: Vec<_> = fs::read_dir(&bench.site.root).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file stays");
}

#[test]
fn a_long_text_is_shown_in_part() {
    let bench = TestSite::new();
    bench.known("long.txt", "");
    let content = "0123456789012345678\n".repeat(1_000);
    let (output, _) = bench.run(run, &json!({"file_path": "/demo/long.txt", "content": content}));
    assert!(output.ends_with("\n   150→0123456789012345678\n(851 more lines)"), "{output}");
    assert_eq!(bench.text("long.txt"), content);
}

#[test]
fn line_ends_are_as_given() {
    let bench = TestSite::new();
    bench.known("dos.txt", "a\r\n");
    bench.run(run, &json!({"file_path": "/demo/dos.txt", "content": "b\nc\r\n"}));
    assert_eq!(bench.text("dos.txt"), "b\nc\r\n");
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_permissions_too() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let bench = TestSite::new();
    let script = bench.known("bin/script.sh", "old\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("bin/script.sh", bench.path("link")).unwrap();
    let link = bench.path("link");
    bench.site.seen.note(&link, Print::of(b"old\n"));
    bench.run(run, &json!({"file_path": "/demo/link", "content": "new\n"}));
    assert!(bench.path("link").is_symlink());
    assert_eq!(bench.text("bin/script.sh"), "new\n");
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o751);

    symlink("nowhere", bench.path("dangling")).unwrap();
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/demo/dangling", "content": ""})),
        (false, "Cannot write /demo/dangling: the link leads nowhere".into())
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_is_read_only_stays() {
    use std::os::unix::fs::PermissionsExt;
    let bench = TestSite::new();
    let path = bench.known("fixed.txt", "old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/demo/fixed.txt", "content": ""})),
        (false, "Cannot write /demo/fixed.txt: permission denied".into())
    );
    assert_eq!(bench.text("fixed.txt"), "old\n");
}

#[test]
fn what_was_not_read_or_has_changed_stays() {
    let bench = TestSite::new();
    bench.file("unread.txt", "a");
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/demo/unread.txt", "content": ""})),
        (true, "File has not been read yet. Read it first before writing to it.".into())
    );
    bench.known("changed.txt", "a");
    bench.file("changed.txt", "longer");
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/demo/changed.txt", "content": ""})),
        (true, "File has changed since it was read. Read it again before writing to it.".into())
    );
    assert_eq!(bench.text("changed.txt"), "longer");
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/demo", "content": ""})),
        (true, "/demo is a folder.".into())
    );
    let (is_tagged, message) =
        bench.refusal(run, &json!({"file_path": "/demo/unread.txt/x", "content": ""}));
    assert!(!is_tagged && message.starts_with("Cannot read /demo/unread.txt/x: "), "{message}");
}

#[cfg(unix)]
#[test]
fn owners_and_other_names_stay() {
    use std::os::unix::fs::{MetadataExt, chown};
    let bench = TestSite::new();
    let path = bench.known("owned.txt", "old\n");
    // Only the superuser can give files away.
    let owner =
        if chown(&path, Some(1234), Some(2345)).is_ok() { Some((1234, 2345)) } else { None };
    bench.run(run, &json!({"file_path": "/demo/owned.txt", "content": "new\n"}));
    let found = fs::metadata(&path).unwrap();
    assert!(owner.is_none_or(|owner| (found.uid(), found.gid()) == owner));
    let path = bench.known("one.txt", "old\n");
    fs::hard_link(&path, bench.path("two.txt")).unwrap();
    bench.run(run, &json!({"file_path": "/demo/one.txt", "content": "new\n"}));
    assert_eq!(bench.text("two.txt"), "new\n");
    // The new content counts as known.
    bench.run(run, &json!({"file_path": "/demo/one.txt", "content": "newer\n"}));
}

#[cfg(unix)]
#[test]
fn nobody_else_reads_what_they_could_not() {
    use std::os::unix::fs::PermissionsExt;
    let bench = TestSite::new();
    let path = bench.known("secret.txt", "old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let old = fs::metadata(&path).unwrap();
    // The rename fails: a folder is in its place.
    let (part, folder) = (bench.path("part"), bench.path("folder"));
    fs::create_dir(&folder).unwrap();
    let root = FixedFolder::open(&bench.site.root, Missing::Error).unwrap();
    let replace = |name: &str, content: &[u8]| {
        super::replace(&root, name.as_ref(), content, ("part", Some(&old)))
    };
    replace("folder", b"new\n").unwrap_err();
    assert!(!part.exists());
    let (done, long) = (AtomicBool::new(false), vec![b'x'; 16 << 20]);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let mode = fs::metadata(&part).map(|found| found.permissions().mode() & 0o777);
                assert!(matches!(mode, Err(_) | Ok(0o600 | 0o640)), "{mode:?}");
            }
        });
        replace("secret.txt", &long).unwrap();
        done.store(true, Ordering::SeqCst);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    });
}

#[cfg(unix)]
#[test]
fn a_file_in_a_folder_that_cannot_be_changed_is_written() {
    use std::os::unix::fs::PermissionsExt;
    let bench = TestSite::new();
    let path = bench.known("fixed/a.txt", "old\n");
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
    bench.run(run, &json!({"file_path": "/demo/fixed/a.txt", "content": "new\n"}));
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(bench.text("fixed/a.txt"), "new\n");
    let busy = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
    assert!(super::is_held(&busy) && !super::is_held(&std::io::ErrorKind::StorageFull.into()));
    let at = FixedFolder::open(folder, Missing::Error).unwrap();
    super::in_place(&at, "a.txt".as_ref(), b"newest\n").unwrap();
    assert_eq!(bench.text("fixed/a.txt"), "newest\n");
}

#[test]
fn a_huge_file_is_replaced_but_not_recorded() {
    let bench = TestSite::new();
    let path = bench.known("huge.bin", "");
    fs::File::options().write(true).open(&path).unwrap().set_len(super::LARGEST + 1).unwrap();
    bench.site.seen.note(&path, Print::of(&fs::read(&path).unwrap()));
    let (output, detail) =
        bench.run(run, &json!({"file_path": "/demo/huge.bin", "content": "small\n"}));
    assert!(output.starts_with("The file /demo/huge.bin has been updated."));
    assert_eq!(
        detail,
        r#"{"type":"update","filePath":"/demo/huge.bin","content":"small\n","structuredPatch":[],"originalFile":null}"#
    );
    assert!(bench.site.backups.recorded("now")[0].1.name.is_some());
}

#[test]
fn what_would_be_written_is_shown_before() {
    use super::preview;
    use crate::tool::{Call, Cancel};
    let bench = TestSite::new();
    let previewed = |name: &str| {
        let input = json!({"file_path": name, "content": "new\n"});
        let input = input.as_object().unwrap().clone();
        let (id, name) = ("toolu_01".to_owned(), "Write".to_owned());
        preview(&Call { id, name, input, cancel: Cancel::default() }, &bench.site)
    };
    let none = previewed("a.txt").unwrap();
    assert_eq!((none.path, none.before), (bench.path("a.txt").display().to_string(), None));
    // What is no text is there all the same, and so is what is long.
    bench.known("a.txt", b"old \xff\r\n");
    let some = previewed("./x/../a.txt").unwrap();
    assert_eq!(some.before.as_deref(), Some("old \u{fffd}\r\n"));
    assert_eq!(some.after, "new\n");
    bench.known("long.txt", "x".repeat(5 << 20));
    assert_eq!(previewed("long.txt").unwrap().before.unwrap().len(), 5 << 20);
    bench.file("unread.txt", "x");
    assert!(previewed("unread.txt").unwrap_err().text.contains("has not been read"));
    // Paths begin where the shell is.
    *bench.site.cwd.lock().unwrap() = bench.path("sub");
    assert_eq!(previewed("a.txt").unwrap().path, bench.path("sub/a.txt").display().to_string());
}
