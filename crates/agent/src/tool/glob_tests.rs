//! `Glob` as it was recorded, and what it refuses.

use serde_json::{Value, json};

use super::super::write::test_site::TestSite;
use super::run;

/// The detail without the duration.
fn detail(bench: &TestSite, input: &Value) -> String {
    let (_, detail) = bench.run(run, input);
    let (before, rest) = detail.split_once(r#""durationMs":"#).unwrap();
    let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!(r#"{before}"durationMs":0{after}"#)
}

fn search(bench: &TestSite, pattern: &str) -> String {
    bench.run(run, &json!({"pattern": pattern})).0
}

#[test]
fn the_oldest_is_first() {
    let bench = TestSite::new();
    bench.aged("src/widget.py", "", 1);
    bench.aged("src/util.py", "", 2);
    bench.aged("README.md", "", 3);
    let input = json!({"pattern": "**/*.py"});
    assert_eq!(bench.run(run, &input).0, "/demo/src/widget.py\n/demo/src/util.py");
    assert_eq!(
        detail(&bench, &input),
        r#"{"filenames":["/demo/src/widget.py","/demo/src/util.py"],"durationMs":0,"numFiles":2,"truncated":false}"#
    );
}

#[test]
fn nothing() {
    let bench = TestSite::new();
    let input = json!({"pattern": "*.rs"});
    assert_eq!(bench.run(run, &input).0, "No files found");
    assert_eq!(
        detail(&bench, &input),
        r#"{"filenames":[],"durationMs":0,"numFiles":0,"truncated":false}"#
    );
    assert_eq!(search(&bench, "nowhere/*.rs"), "No files found");
}

#[test]
fn patterns() {
    let bench = TestSite::new();
    bench.aged("a.txt", "", 1);
    bench.aged("one/a.txt", "", 2);
    bench.aged("one/two/a.txt", "", 3);
    let all = "/demo/a.txt\n/demo/one/a.txt\n/demo/one/two/a.txt";
    assert_eq!(search(&bench, "a.txt"), all);
    assert_eq!(search(&bench, "**/a.*"), all);
    assert_eq!(search(&bench, "./a.txt"), "/demo/a.txt");
    assert_eq!(search(&bench, "one/*.txt"), "/demo/one/a.txt");
    assert_eq!(search(&bench, "one/**"), "/demo/one/a.txt\n/demo/one/two/a.txt");
    assert_eq!(search(&bench, "{one,two}/two/?.{txt,md}"), "/demo/one/two/a.txt");
    assert_eq!(search(&bench, "/demo/one/a.txt"), "/demo/one/a.txt");
    assert_eq!(search(&bench, "/demo/*/a.txt"), "/demo/one/a.txt");
    let (output, _) = bench.run(run, &json!({"pattern": "two/*.txt", "path": "./one"}));
    assert_eq!(output, "/demo/one/two/a.txt");
    let (output, _) = bench.run(run, &json!({"pattern": "../*.txt", "path": "one/./two/"}));
    assert_eq!(output, "/demo/one/a.txt");
    let (output, _) = bench.run(run, &json!({"pattern": "*/../../*.txt", "path": "one"}));
    assert_eq!(output, "No files found");
}

#[test]
fn hidden_and_ignored_files_but_no_history() {
    let bench = TestSite::new();
    bench.aged(".gitignore", "built\n", 1);
    bench.aged("built/x", "", 2);
    bench.aged(".hidden/x", "", 3);
    bench.aged(".git/x", "", 4);
    assert_eq!(search(&bench, "x"), "/demo/built/x\n/demo/.hidden/x");
    assert_eq!(search(&bench, ".git/*"), "/demo/.git/x");
}

#[test]
fn of_too_many_the_newest() {
    let bench = TestSite::new();
    for n in 0..103 {
        bench.aged(&format!("{n}.txt"), "", n);
    }
    let output = search(&bench, "*.txt");
    assert!(output.starts_with("/demo/3.txt\n/demo/4.txt\n"), "{output}");
    assert!(
        output
            .ends_with("\n/demo/102.txt\n(The newest 100 of 103. Use a narrower pattern or path.)"),
        "{output}"
    );
    let detail = detail(&bench, &json!({"pattern": "*.txt"}));
    assert!(detail.ends_with(r#""durationMs":0,"numFiles":100,"truncated":true}"#), "{detail}");
}

#[test]
fn what_it_refuses() {
    let bench = TestSite::new();
    bench.file("a.txt", "");
    assert_eq!(
        bench.refusal(run, &json!({"pattern": "*", "path": "gone"})),
        (true, "Path does not exist: gone".into())
    );
    assert_eq!(
        bench.refusal(run, &json!({"pattern": "*", "path": "a.txt"})),
        (true, "/demo/a.txt is not a folder.".into())
    );
    let (is_tagged, message) = bench.refusal(run, &json!({"pattern": "a[", "path": ""}));
    assert!(is_tagged && message.starts_with("Bad pattern: "), "{message}");
    assert_eq!(bench.cancelled(run, &json!({"pattern": "a"})), "The search was cancelled.");
}
