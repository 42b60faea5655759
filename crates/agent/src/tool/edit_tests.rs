//! `Edit` as it was recorded, and what it refuses.

use std::fs;

use serde_json::{Value, json};

use super::super::write::test_site::TestSite;
use super::run;

fn input(old: &str, new: &str) -> Value {
    json!({"file_path": "/demo/notes.txt", "old_string": old, "new_string": new, "replace_all": false})
}

#[test]
fn a_word_for_another() {
    let bench = TestSite::new();
    let path = bench.known("notes.txt", "alpha\nbeta\ngamma\n");
    let (output, detail) = bench.run(run, &input("beta", "delta"));
    assert_eq!(output, "The file /demo/notes.txt has been updated successfully.");
    assert_eq!(
        detail,
        r#"{"filePath":"/demo/notes.txt","oldString":"beta","newString":"delta","originalFile":"alpha\nbeta\ngamma\n","structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" alpha","-beta","+delta"," gamma"]}],"userModified":false,"replaceAll":false}"#
    );
    assert_eq!(bench.text("notes.txt"), "alpha\ndelta\ngamma\n");
    assert_eq!(bench.site.backups.recorded("now")[0].0, path);
}

#[test]
fn all_of_them() {
    let bench = TestSite::new();
    bench.known("notes.txt", "a b a\na");
    let mut input = input("a", "cc");
    input["replace_all"] = true.into();
    let (output, detail) = bench.run(run, &input);
    assert_eq!(
        output,
        "The file /demo/notes.txt has been updated. All occurrences were successfully replaced."
    );
    assert!(detail.ends_with(r#""userModified":false,"replaceAll":true}"#), "{detail}");
    assert_eq!(bench.text("notes.txt"), "cc b cc\ncc");
}

#[test]
fn the_text_has_to_be_there_once() {
    let bench = TestSite::new();
    bench.known("notes.txt", "one\ntwo\none\n");
    assert_eq!(
        bench.refusal(run, &input("not there", "x")),
        (true, "String to replace not found in file.\nString: not there".into())
    );
    assert_eq!(
        bench.refusal(run, &input("one", "x")),
        (
            true,
            "Found 2 matches of the string to replace, but replace_all is false. Set it to true, or give more of the text around the one that is meant.\nString: one".into()
        )
    );
    let same = "No changes to make: old_string and new_string are exactly the same.";
    assert_eq!(bench.refusal(run, &input("two", "two")), (true, same.into()));
    assert_eq!(bench.refusal(run, &input("two", "two  ")), (true, same.into()));
    assert_eq!(
        bench.refusal(run, &input("", "x")),
        (true, "old_string is empty, but the file is not.".into())
    );
    assert_eq!(bench.text("notes.txt"), "one\ntwo\none\n");
}

#[test]
fn nothing_is_found_in_no_file_and_becomes_one() {
    let bench = TestSite::new();
    assert_eq!(bench.refusal(run, &input("a", "b")), (true, "File does not exist.".into()));
    let (_, detail) = bench.run(run, &input("", "a\n"));
    assert_eq!(
        detail,
        r#"{"filePath":"/demo/notes.txt","oldString":"","newString":"a\n","originalFile":"","structuredPatch":[{"oldStart":1,"oldLines":0,"newStart":1,"newLines":1,"lines":["+a"]}],"userModified":false,"replaceAll":false}"#
    );
    assert_eq!(bench.text("notes.txt"), "a\n");
    bench.known("notes.txt", "");
    bench.run(run, &input("", "b\n"));
    assert_eq!(bench.text("notes.txt"), "b\n");
}

#[test]
fn white_space_before_line_ends_goes_but_in_markdown() {
    let bench = TestSite::new();
    bench.known("notes.txt", "a b\n");
    bench.run(run, &input("b", "c  \n\td \t\n  "));
    assert_eq!(bench.text("notes.txt"), "a c\n\td\n\n");
    // Within a line, white space is part of what is meant.
    bench.run(run, &input("a ", "x "));
    assert_eq!(bench.text("notes.txt"), "x c\n\td\n\n");

    bench.known("notes.md", "a\n");
    bench.run(run, &json!({"file_path": "/demo/notes.md", "old_string": "a", "new_string": "b  "}));
    assert_eq!(bench.text("notes.md"), "b  \n");
}

#[test]
fn line_ends_and_the_mark_stay() {
    let bench = TestSite::new();
    bench.known("notes.txt", "\u{feff}one\r\ntwo\nthree\r\nfour\r\n");
    let (_, detail) = bench.run(run, &input("three\nfour", "3\n4\n5"));
    assert_eq!(bench.text("notes.txt"), "\u{feff}one\r\ntwo\n3\r\n4\r\n5\r\n");
    assert!(detail.contains(r#""originalFile":"one\ntwo\nthree\nfour\n","#), "{detail}");
    bench.run(run, &input("one\r\n", ""));
    assert_eq!(bench.text("notes.txt"), "\u{feff}two\n3\r\n4\r\n5\r\n");
    bench.run(run, &input("\n4", "!"));
    assert_eq!(bench.text("notes.txt"), "\u{feff}two\n3!\r\n5\r\n");

    // Here most lines end with `\n`.
    bench.known("notes.txt", "a\r\nb\nc\n");
    bench.run(run, &input("a\nb", "x\ny"));
    assert_eq!(bench.text("notes.txt"), "x\ny\nc\n");
}

#[test]
fn what_is_not_for_it() {
    let bench = TestSite::new();
    let path = bench.known("notes.txt", b"caf\xe9\n");
    assert_eq!(
        bench.refusal(run, &input("caf", "x")),
        (false, "File is not UTF-8 text: it cannot be edited.".into())
    );
    assert_eq!(fs::read(path).unwrap(), b"caf\xe9\n");
    bench.file("unread.txt", "a");
    assert_eq!(
        bench.refusal(
            run,
            &json!({"file_path": "/demo/unread.txt", "old_string": "a", "new_string": "b"})
        ),
        (true, "File has not been read yet. Read it first before writing to it.".into())
    );
    assert_eq!(
        bench.refusal(
            run,
            &json!({"file_path": "/demo/a.ipynb", "old_string": "a", "new_string": "b"})
        ),
        (true, "This is a notebook: use NotebookEdit.".into())
    );
}

#[test]
fn quotes_are_found_however_they_are_written() {
    let bench = TestSite::new();
    bench.known("a.txt", "é it’s “quoted” here\nand ‘there’\n");
    let edit = |old: &str, new: &str| json!({"file_path": "/demo/a.txt", "old_string": old, "new_string": new});
    bench.run(run, &edit("it's \"quoted\"", "it is"));
    assert_eq!(bench.text("a.txt"), "é it is here\nand ‘there’\n");
    bench.run(run, &edit("'there'", "gone"));
    assert_eq!(bench.text("a.txt"), "é it is here\nand gone\n");
}

#[test]
fn what_an_edit_would_do_is_what_it_does() {
    use super::preview;
    use crate::tool::{Call, Cancel};
    let bench = TestSite::new();
    let path = bench.known("notes.txt", "\u{feff}one\r\n“two”\r\n");
    let call = |old: &str| {
        let mut input = input(old, "2  \n3");
        input["file_path"] = path.display().to_string().into();
        let input = input.as_object().unwrap().clone();
        let (id, name) = ("toolu_01".to_owned(), "Edit".to_owned());
        Call { id, name, input, cancel: Cancel::default() }
    };
    let shown = preview(&call("\"two\""), &bench.site).unwrap();
    assert_eq!(shown.before.as_deref(), Some("\u{feff}one\r\n“two”\r\n"));
    run(&call("\"two\""), &bench.site).unwrap();
    assert_eq!(bench.text("notes.txt"), shown.after);
    assert_eq!(shown.after, "\u{feff}one\r\n2\r\n3\r\n");
    assert!(preview(&call("four"), &bench.site).unwrap_err().text.contains("not found in file"));
}
