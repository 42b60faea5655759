use std::fmt::Write;

use super::*;

fn of(tool: &str, input: &str, structured: Option<&str>) -> Option<FileChange> {
    let parse = |text: &'static str| Json::parse(text.as_bytes()).unwrap();
    let leak = |text: &str| parse(text.to_owned().leak());
    touched(tool, leak(input), structured.map(leak), "")
}

fn counts(touched: &FileChange) -> [usize; 2] {
    [touched.added, touched.removed]
}

fn shown(touched: &FileChange) -> String {
    let mut text = format!("{} {} {:?}", touched.path, touched.action.name(), counts(touched));
    for hunk in &touched.diff {
        write!(text, "\n@{:?}", hunk.start).unwrap();
        for line in &hunk.lines {
            write!(text, "\n{line}").unwrap();
        }
    }
    text
}

#[test]
fn the_clients_own_patch_is_taken() {
    let result = r#"{"filePath":"/w/a","structuredPatch":[{"oldStart":4,"newStart":5,"lines":[" x","-y","+ŷ","\\ No newline at end of file"]}]}"#;
    let touched = of("Edit", r#"{"file_path":"/other"}"#, Some(result)).unwrap();
    insta::assert_snapshot!(shown(&touched), @r"
    /w/a changed [1, 1]
    @Some([4, 5])
     x
    -y
    +ŷ
    \ No newline at end of file
    ");
}

#[test]
fn where_there_is_none_the_input_tells() {
    let edit =
        of("Edit", r#"{"file_path":"/a","old_string":"one\ntwo","new_string":"one\n2"}"#, None);
    insta::assert_snapshot!(shown(&edit.unwrap()), @r"
    /a changed [1, 1]
    @None
     one
    -two
    +2
    ");
    let multi = r#"{"file_path":"/a","edits":[{"old_string":"a","new_string":"b"},{"old_string":"c","new_string":""}]}"#;
    assert_eq!(counts(&of("MultiEdit", multi, None).unwrap()), [1, 2]);
    let write = of(
        "Write",
        r#"{"file_path":"/n","content":"x\ny\n"}"#,
        Some(r#"{"type":"create","filePath":"/n","content":"x\ny\n","structuredPatch":[]}"#),
    );
    insta::assert_snapshot!(shown(&write.unwrap()), @r"
    /n created [2, 0]
    @Some([1, 1])
    +x
    +y
    ");
    let notebook =
        of("NotebookEdit", r#"{"notebook_path":"/n.ipynb","new_source":"1"}"#, None).unwrap();
    assert_eq!((notebook.path.as_str(), counts(&notebook)), ("/n.ipynb", [1, 0]));
}

#[test]
fn reading_touches_and_other_tools_do_not() {
    let read =
        of("Read", r#"{"file_path":"a"}"#, Some(r#"{"type":"text","file":{"filePath":"/w/a"}}"#));
    let expected = FileChange::new("/w/a".to_owned(), Action::Read, Vec::new());
    assert_eq!(read, Some(expected));
    assert_eq!(of("Bash", r#"{"command":"rm x"}"#, None), None);
    assert_eq!(of("Edit", "{}", None), None);
    assert_eq!(of("Edit", "[]", Some("\"Error: no\"")), None);
}
