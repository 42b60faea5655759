use std::io::{Seek, Write};

use super::{MappedPaths, PathMap};

fn map(old: &str, new: &str) -> PathMap {
    let mut map = PathMap::default();
    map.folder(old, new);
    map
}

fn text(map: &PathMap, text: &str) -> (String, MappedPaths) {
    let (mut out, mut done) = (Vec::new(), MappedPaths::default());
    map.text(text.as_bytes(), &mut out, &mut done);
    (String::from_utf8(out).unwrap(), done)
}

#[test]
fn paths_are_mapped_at_their_borders() {
    let map = map("/w/app", "/new/place");
    for (from, to) in [
        ("/w/app", "/new/place"),
        ("/w/app/src/x.rs:3", "/new/place/src/x.rs:3"),
        ("\"/w/app\"", "\"/new/place\""),
        ("in /w/app.", "in /new/place."),
        ("cd /w/app\\nls", "cd /new/place\\nls"),
        ("\\n/w/app/x\\t/w/app", "\\n/new/place/x\\t/new/place"),
        ("\\u001b/w/app", "\\u001b/new/place"),
        ("file:///w/app/x", "file:///new/place/x"),
        ("PATH=/w/app/bin:/w/app", "PATH=/new/place/bin:/new/place"),
        ("@/w/app/x", "@/new/place/x"),
        ("“/w/app”", "“/new/place”"),
        ("/w/app/w/app", "/new/place/w/app"),
    ] {
        assert_eq!(text(&map, from).0, to);
    }
    for kept in [
        "/w/app2",
        "/w/app-old",
        "/w/app.old",
        "/w/app..",
        "/w/app_",
        "/mnt/w/app",
        "x/w/app",
        "./w/app",
        "~/w/app",
        "//w/app",
        "/w/appé",
        "/w/ap",
        "https://x.y/w/app",
        "/w/app~",
    ] {
        assert_eq!(text(&map, kept), (kept.to_owned(), MappedPaths::default()), "{kept}");
    }
}

#[test]
fn names_with_escapes_are_found_as_json_has_them() {
    let map = map(r"C:\w\my app", r"D:\x");
    assert_eq!(text(&map, r#""C:\\w\\my app\\y""#).0, r#""D:\\x\\y""#);
    assert_eq!(
        text(&map, r#""{\"f\":\"C:\\\\w\\\\my app\\\\y\"}""#).0,
        r#""{\"f\":\"D:\\\\x\\\\y\"}""#
    );
}

#[test]
fn the_name_of_a_project_is_a_whole_part_of_a_path() {
    let mut map = PathMap::default();
    map.project("-w-app", "-w-b");
    assert_eq!(text(&map, "/h/.claude/projects/-w-app/x").0, "/h/.claude/projects/-w-b/x");
    for kept in
        ["/h/.claude/projects/-w-app2/x", "/h/.claude/projects/-w-app-sub/x", "projects/-w-app"]
    {
        assert_eq!(text(&map, kept).0, kept);
    }
}

#[test]
fn there_and_back_is_the_same_unless_the_new_path_was_there() {
    for (old, new) in
        [("/p", "/p/sub"), ("/w/app", "/w/app2"), ("/w/app", "/w/app-old"), ("/a", "/a/a/a")]
    {
        let from = format!("{old}/x {old}/sub/y {old} \"{old}/a\" {old}3");
        let (there, done) = text(&map(old, new), &from);
        let (back, _) = text(&map(new, old), &there);
        assert_eq!((back, done.before), (from, 0), "{old} {new}");
    }
    assert_eq!(text(&map("/w/app", "/w/b"), "/w/app and /w/b/x").1.before, 1);
}

fn written(map: &PathMap, bytes: &[u8]) -> (Vec<u8>, MappedPaths) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let mut out = Vec::new();
    let done = map.write(&file, &mut out).unwrap();
    assert_eq!(done.written.bytes, out.len() as u64);
    (out, done)
}

#[test]
fn signed_thinking_is_never_changed() {
    let line = |place: &str| {
        format!(
            concat!(
                r#"{{"type":"assistant","uuid":"a","cwd":"{0}","message":{{"role":"assistant","content":["#,
                r#"{{"type":"thinking","thinking":"in /w/app","signature":"c2ln"}},{{"type":"text","text":"{0}/x"}}]}}}}"#,
            ),
            place
        )
    };
    let (out, done) =
        written(&map("/w/app", "/new"), (line("/w/app") + "\n\n" + &line("/w/app")).as_bytes());
    assert_eq!(String::from_utf8(out).unwrap(), line("/new") + "\n\n" + &line("/new"));
    assert_eq!((done.mapped, done.written.altered), (4, 2));
}

/// A line that is too long to hold is mapped in blocks, with paths across their borders.
#[test]
fn very_long_lines_are_mapped_in_blocks() {
    let there = map("/w/app", "/elsewhere/app");
    for shift in 0..20 {
        let mut line = format!(
            r#"{{"type":"user","uuid":"a","message":{{"role":"user","content":"{}"#,
            "x".repeat(shift)
        );
        while line.len() < 17 << 20 {
            line.push_str(" /w/app/file /w/app2 ");
            line.push_str(&"y".repeat(1 << 10));
        }
        line.push_str("\"}}\n");
        let (out, done) = written(&there, line.as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), line.replace("/w/app/", "/elsewhere/app/"));
        assert_eq!((done.written.altered, done.written.kept), (1, 0));
        if shift > 1 && cfg!(debug_assertions) {
            break;
        }
    }
}

/// On all real files: everything except the paths keeps its bytes, and back is the same again.
#[test]
fn there_and_back_on_all_real_files() {
    let mut mapped = 0;
    for file in testkit::real_files() {
        let mut lines = file.bytes.split(|byte| *byte == b'\n');
        let cwd = lines.find_map(|line| {
            crate::format::entry::Entry::parse(line)?.text("cwd").map(std::borrow::Cow::into_owned)
        });
        let Some(cwd) = cwd.filter(|cwd| cwd.len() > 1) else { continue };
        let new = "/a/place that/nobody-has.named";
        let (there, done) = written(&map(&cwd, new), &file.bytes);
        let (back, _) = written(&map(new, &cwd), &there);
        assert!(back == file.bytes, "{}", file.path.display());
        assert_eq!(done.before, 0);
        mapped += done.mapped;
    }
    assert!(mapped > 1_000, "{mapped}");
}
