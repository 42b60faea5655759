//! The programs in `examples/` do what they say.

use std::path::Path;

#[path = "../../examples/check_and_repair.rs"]
mod check_and_repair;
#[path = "../../examples/list_sessions.rs"]
mod list_sessions;
#[path = "../../examples/print_conversation.rs"]
mod print_conversation;

fn samples() -> std::path::PathBuf {
    testkit::fixtures().join("samples")
}

fn session(id: &str) -> std::path::PathBuf {
    let files = testkit::files_under(&[samples()]);
    let is_it = |path: &Path| path.file_stem().unwrap().to_string_lossy().starts_with(id);
    files.into_iter().find(|file| is_it(&file.path)).unwrap().path
}

#[test]
fn sessions_are_listed() {
    let mut out = Vec::new();
    list_sessions::run(&samples(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.contains("badc0ffe-0000-4000-8000-00000000d00d      10820  Do a round"), "{text}");
}

#[test]
fn a_conversation_is_printed() {
    let mut out = Vec::new();
    print_conversation::run(&session("2bb8"), &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}

#[test]
fn a_session_is_checked_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("22222222-2222-4222-8222-222222222222.jsonl");
    let mut out = Vec::new();
    check_and_repair::run(&session("badc0ffe"), &copy, &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}
