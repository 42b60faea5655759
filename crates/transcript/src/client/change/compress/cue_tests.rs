use super::*;

#[test]
fn a_text_is_cut_into_sentences() {
    let text = "## Plan\n\nI read v1.2 of it. We use SQLite instead of files, e.g. for tests. Done!\n\
                ```\nlet x = because;\n```\n- The cause is a lock.";
    let found: Vec<&str> = sentences(text).collect();
    let wanted = [
        "Plan",
        "I read v1.2 of it.",
        "We use SQLite instead of files, e.g.",
        "for tests. Done!",
        "The cause is a lock.",
    ];
    assert_eq!(found, wanted);
    assert!(weight("We use SQLite instead of files.") > weight("We use SQLite."));
    assert_eq!(weight("Reading the file."), 0);
    for decision in ["We picked SQLite.", "Redis is ruled out.", "We'll keep it.", "Stick to it."] {
        assert!(weight(decision) >= 3, "{decision}");
    }
}

#[test]
fn the_lines_that_say_most_are_kept() {
    let output =
        "Compiling\nerror[E0425]: cannot find value `x`\n  --> src/main.rs\nerror: aborting\n";
    let first = ["error[E0425]: cannot find value `x`".to_owned()];
    assert_eq!(key_lines(output, Failed::Yes, 1), first);
    let output = "running 3 tests\ntest a ... ok\ntest result: ok. 3 passed\n\n";
    assert_eq!(key_lines(output, Failed::No, 1), ["test result: ok. 3 passed".to_owned()]);
    assert_eq!(key_lines("one\n\u{1b}[31mtwo\u{1b}[0m\n", Failed::No, 2), ["two".to_owned()]);
    assert!(key_lines("", Failed::Yes, 2).is_empty());
}

#[test]
fn what_is_kept_is_clean_and_short() {
    assert_eq!(clean(" a\n\tb \u{1b}[1mc\u{7} ", 10), "a b c");
    assert_eq!(clean("äöüß", 2), "äö…");
    assert_eq!(clean("", 2), "");
}
