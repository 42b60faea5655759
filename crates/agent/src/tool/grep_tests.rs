//! `Grep` as it was recorded, and what it refuses.

use std::fs;

use serde_json::{Value, json};

use super::super::write::test_site::TestSite;
use super::run;

fn demo() -> TestSite {
    let bench = TestSite::new();
    bench.aged("README.md", "# Demo\n\nA small widget counter.\n", 1);
    bench.aged("src/widget.py", "def count(items):\n    return len(items)\n", 2);
    bench.aged("src/util.py", "def twice(n):\n    return n * 2\n", 3);
    bench
}

fn search(bench: &TestSite, input: &Value) -> String {
    bench.run(run, input).0
}

#[test]
fn lines() {
    let input = json!({"pattern": "return", "output_mode": "content", "-n": true});
    let (output, detail) = demo().run(run, &input);
    assert_eq!(output, "src/util.py:2:    return n * 2\nsrc/widget.py:2:    return len(items)");
    assert_eq!(
        detail,
        r#"{"mode":"content","numFiles":0,"filenames":[],"content":"src/util.py:2:    return n * 2\nsrc/widget.py:2:    return len(items)","numLines":2}"#
    );
}

#[test]
fn files_the_newest_first() {
    let bench = demo();
    let input = json!({"pattern": "def", "output_mode": "files_with_matches"});
    let (output, detail) = bench.run(run, &input);
    assert_eq!(output, "Found 2 files\nsrc/util.py\nsrc/widget.py");
    assert_eq!(
        detail,
        r#"{"mode":"files_with_matches","filenames":["src/util.py","src/widget.py"],"numFiles":2}"#
    );
    bench.aged("src/widget.py", "def count(items):\n", 4);
    assert_eq!(bench.run(run, &input).0, "Found 2 files\nsrc/widget.py\nsrc/util.py");
    // It is also the default.
    let (output, _) = bench.run(run, &json!({"pattern": "twice"}));
    assert_eq!(output, "Found 1 file\nsrc/util.py");
}

#[test]
fn counts() {
    let bench = demo();
    let (output, detail) = bench.run(run, &json!({"pattern": "def", "output_mode": "count"}));
    assert_eq!(
        output,
        "src/util.py:1\nsrc/widget.py:1\n\nFound 2 total occurrences across 2 files."
    );
    assert_eq!(
        detail,
        r#"{"mode":"count","numFiles":2,"filenames":[],"content":"src/util.py:1\nsrc/widget.py:1","numMatches":2}"#
    );
    let (output, _) = bench.run(run, &json!({"pattern": "twice", "output_mode": "count"}));
    assert_eq!(output, "src/util.py:1\n\nFound 1 total occurrence across 1 file.");
}

#[test]
fn nothing() {
    let bench = demo();
    let (output, detail) = bench.run(run, &json!({"pattern": "zzz", "output_mode": "content"}));
    assert_eq!(output, "No matches found");
    assert_eq!(
        detail,
        r#"{"mode":"content","numFiles":0,"filenames":[],"content":"","numLines":0}"#
    );
    let (output, detail) = bench.run(run, &json!({"pattern": "zzz"}));
    assert_eq!(output, "No files found");
    assert_eq!(detail, r#"{"mode":"files_with_matches","filenames":[],"numFiles":0}"#);
    let (output, _) = bench.run(run, &json!({"pattern": "zzz", "output_mode": "count"}));
    assert_eq!(output, "No matches found\n\nFound 0 total occurrences across 0 files.");
}

#[test]
fn lines_around() {
    let bench = TestSite::new();
    bench.file("a.txt", "1\n2\nhit\n4\n5\n6\nhit\n8\n");
    bench.file("b.txt", "hit\n");
    let input = |context: Value| {
        let mut input = json!({"pattern": "hit", "output_mode": "content"});
        input.as_object_mut().unwrap().extend(context.as_object().unwrap().clone());
        input
    };
    assert_eq!(
        search(&bench, &input(json!({"-C": 1}))),
        "a.txt-2-2\na.txt:3:hit\na.txt-4-4\n--\na.txt-6-6\na.txt:7:hit\na.txt-8-8\n--\nb.txt:1:hit"
    );
    assert_eq!(
        search(&bench, &input(json!({"-A": 1, "-n": false, "path": "a.txt"}))),
        "hit\n4\n--\nhit\n8"
    );
    assert_eq!(
        search(&bench, &input(json!({"-B": 2, "path": "a.txt"}))),
        "1-1\n2-2\n3:hit\n--\n5-5\n6-6\n7:hit"
    );
}

#[test]
fn parts() {
    let bench = TestSite::new();
    bench.file("a.txt", "x1\nx2\nx3\nx4\n");
    let input = json!({"pattern": "x", "output_mode": "content", "head_limit": 2, "offset": 1});
    let (output, detail) = bench.run(run, &input);
    assert_eq!(
        output,
        "a.txt:2:x2\na.txt:3:x3\n\n[Showing results with pagination = limit: 2, offset: 1]"
    );
    assert_eq!(
        detail,
        r#"{"mode":"content","numFiles":0,"filenames":[],"content":"a.txt:2:x2\na.txt:3:x3","numLines":2,"appliedLimit":2}"#
    );
    let all = json!({"pattern": "x", "output_mode": "content", "head_limit": 4});
    assert_eq!(bench.run(run, &all).0, "a.txt:1:x1\na.txt:2:x2\na.txt:3:x3\na.txt:4:x4");
    bench.aged("b.txt", "x", 0);
    let (output, detail) = bench.run(run, &json!({"pattern": "x", "head_limit": 1}));
    assert_eq!(output, "Found 1 file\na.txt\n\n[Showing results with pagination = limit: 1]");
    assert_eq!(
        detail,
        r#"{"mode":"files_with_matches","filenames":["a.txt"],"numFiles":1,"appliedLimit":1}"#
    );
}

#[test]
fn too_much_is_cut() {
    let bench = TestSite::new();
    bench.file("wide.txt", "é".repeat(600));
    let wide = json!({"pattern": "é", "output_mode": "content"});
    assert_eq!(search(&bench, &wide), format!("wide.txt:1:{}… [line cut]", "é".repeat(500)));
    bench.file("long.txt", "0123456789\n".repeat(5_000));
    let output = search(&bench, &json!({"pattern": "0", "output_mode": "content"}));
    assert!(
        output.ends_with(
            ":0123456789\n\n(There is more. Use offset, or a narrower pattern, path or glob.)"
        ),
        "{output}"
    );
    assert!(output.len() < 20_200);
}

#[test]
fn case_lines_globs_and_types() {
    let bench = demo();
    let files = |input: Value| search(&bench, &input);
    assert_eq!(files(json!({"pattern": "DEF T", "-i": true})), "Found 1 file\nsrc/util.py");
    assert_eq!(
        files(json!({"pattern": "n\\):.*return", "multiline": true, "output_mode": "content"})),
        "src/util.py:1:def twice(n):\nsrc/util.py:2:    return n * 2"
    );
    assert_eq!(files(json!({"pattern": "t", "glob": "*.md"})), "Found 1 file\nREADME.md");
    assert_eq!(
        files(json!({"pattern": "t", "glob": "*.md,src/w*.py"})),
        "Found 2 files\nsrc/widget.py\nREADME.md"
    );
    assert_eq!(files(json!({"pattern": "t", "glob": "*.{md,rs}"})), "Found 1 file\nREADME.md");
    assert_eq!(
        files(json!({"pattern": "t", "type": "py"})),
        "Found 2 files\nsrc/util.py\nsrc/widget.py"
    );
    assert_eq!(
        files(json!({"pattern": "t", "path": "/demo/src", "glob": "u*"})),
        "Found 1 file\nsrc/util.py"
    );
    assert_eq!(files(json!({"pattern": "^return$"})), "No files found");
}

#[test]
fn what_is_left_out() {
    let bench = TestSite::new();
    fs::create_dir(bench.path(".git")).unwrap();
    bench.file(".gitignore", "built\n");
    bench.file("built/x", "hit");
    bench.file(".git/x", "hit");
    bench.file("binary", b"hit\0");
    bench.file(".hidden/x", "hit");
    assert_eq!(search(&bench, &json!({"pattern": "hit"})), "Found 1 file\n.hidden/x");
    assert_eq!(search(&bench, &json!({"pattern": "hit", "path": ".git"})), "Found 1 file\n.git/x");
    assert_eq!(
        search(&bench, &json!({"pattern": "hit", "path": "built/x"})),
        "Found 1 file\nbuilt/x"
    );
}

#[test]
fn what_it_refuses() {
    let bench = demo();
    assert_eq!(
        bench.refusal(run, &json!({"pattern": "a", "path": "src/gone"})),
        (true, "Path does not exist: src/gone".into())
    );
    assert_eq!(
        bench.refusal(run, &json!({"pattern": "a", "output_mode": "lines"})),
        (true, "There is no output_mode lines.".into())
    );
    let (is_tagged, message) = bench.refusal(run, &json!({"pattern": "a("}));
    assert!(!is_tagged && message.starts_with("regex parse error:\n"), "{message}");
    assert!(message.ends_with("error: unclosed group"), "{message}");
    let (is_tagged, message) = bench.refusal(run, &json!({"pattern": "a", "type": "none"}));
    assert!(is_tagged && message.starts_with("Bad type: "), "{message}");
    let (is_tagged, message) = bench.refusal(run, &json!({"pattern": "a", "glob": "a["}));
    assert!(is_tagged && message.starts_with("Bad glob: "), "{message}");
    assert_eq!(bench.cancelled(run, &json!({"pattern": "a"})), "The search was cancelled.");
}

/// As in ripgrep: deeper files take precedence, `.ignore` takes precedence over git's files, and
/// what a glob names is searched anyway.
#[test]
fn what_names_what_is_left_out() {
    let bench = TestSite::new();
    for name in ["a.log", "b.log", "keep.log", "sub/a.log", "sub/c.txt", "excluded"] {
        bench.file(name, "hit");
    }
    let found =
        |bench: &TestSite| search(bench, &json!({"pattern": "hit", "output_mode": "count"}));
    let names = |output: &str| {
        let lines = output.lines().filter(|line| line.contains(':'));
        lines.map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Git's files apply in a repository.
    bench.file(".gitignore", "*.log\n!keep.log\n");
    assert_eq!(names(&found(&bench)).len(), 6);
    bench.file(".git/info/exclude", "excluded\n");
    assert_eq!(names(&found(&bench)), ["keep.log", "sub/c.txt"]);
    bench.file("sub/.gitignore", "!a.log\n");
    assert_eq!(names(&found(&bench)), ["keep.log", "sub/a.log", "sub/c.txt"]);
    bench.file(".ignore", "keep.log\n!b.log\n");
    assert_eq!(names(&found(&bench)), ["b.log", "sub/a.log", "sub/c.txt"]);
    let logs = json!({"pattern": "hit", "output_mode": "count", "glob": "*.log"});
    assert_eq!(names(&search(&bench, &logs)).len(), 4);
}

/// The ignore files come with the folder and are not trusted either.
#[cfg(unix)]
#[test]
fn ignore_files_that_are_no_files_name_nothing() {
    let bench = TestSite::new();
    bench.file("sub/x", "hit");
    bench.file(".git/HEAD", "ref: refs/heads/main\n");
    for (name, to) in
        [(".ignore", "/dev/zero"), (".gitignore", "/dev/zero"), (".git/info/exclude", "/dev/zero")]
    {
        fs::create_dir_all(bench.path(".git/info")).unwrap();
        std::os::unix::fs::symlink(to, bench.path(name)).unwrap();
        std::os::unix::fs::symlink(to, bench.path("sub").join(".ignore")).ok();
    }
    assert_eq!(search(&bench, &json!({"pattern": "hit"})), "Found 1 file\nsub/x");
}
