//! Patches as they were recorded.

use super::hunks;

fn json(old: &str, new: &str) -> String {
    serde_json::to_string(&hunks(old, new)).unwrap()
}

#[test]
fn a_line_between_others() {
    assert_eq!(
        json("alpha\nbeta\ngamma\n", "alpha\ndelta\ngamma\n"),
        r#"[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" alpha","-beta","+delta"," gamma"]}]"#
    );
}

#[test]
fn an_end_without_newline_is_marked_on_each_side() {
    assert_eq!(
        json("a\nb", "a\nc"),
        r#"[{"oldStart":1,"oldLines":2,"newStart":1,"newLines":2,"lines":[" a","-b","\\ No newline at end of file","+c","\\ No newline at end of file"]}]"#
    );
    assert_eq!(
        json("a\nb", "c\nb"),
        r#"[{"oldStart":1,"oldLines":2,"newStart":1,"newLines":2,"lines":["-a","+c"," b","\\ No newline at end of file"]}]"#
    );
    assert_eq!(
        json("a", "a\nb\n"),
        r#"[{"oldStart":1,"oldLines":1,"newStart":1,"newLines":2,"lines":["-a","\\ No newline at end of file","+a","+b"]}]"#
    );
}

#[test]
fn distant_changes_are_hunks_of_their_own() {
    let lines: Vec<String> = (1..=20).map(|n| format!("{n}\n")).collect();
    let old = lines.concat();
    let new = old.replace("2\n3\n", "2\nx\n").replace("18\n", "y\n");
    let found = hunks(&old, &new);
    let starts: Vec<_> = found.iter().map(|hunk| (hunk.old_start, hunk.old_lines)).collect();
    assert_eq!(starts, [(1, 6), (15, 6)]);
}

#[test]
fn tabs_at_the_beginning_are_two_spaces() {
    assert_eq!(
        json("\t\ta\tb\n", "\tc\n"),
        r#"[{"oldStart":1,"oldLines":1,"newStart":1,"newLines":1,"lines":["-    a\tb","+  c"]}]"#
    );
}

#[test]
fn nothing_changed_and_all_is_new() {
    assert_eq!(json("a\n", "a\n"), "[]");
    assert_eq!(
        json("", "a\n"),
        r#"[{"oldStart":1,"oldLines":0,"newStart":1,"newLines":1,"lines":["+a"]}]"#
    );
}
