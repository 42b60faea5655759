use std::io::Write;

use super::*;

fn seen(bytes: &[u8]) -> Preview {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    preview(file.path()).unwrap()
}

fn user(content: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"u\",\"cwd\":\"/p\",\"version\":\"2.1.45\",\"gitBranch\":\"main\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":{content}}}}}\n"
    )
}

#[test]
fn the_first_prompt_and_the_newest_title() {
    let session = [
        "{\"type\":\"custom-title\",\"customTitle\":\"old\"}\n",
        "{\"type\":\"tag\",\"tag\":\"red\",\"sessionId\":\"s\"}\n",
        "{\"type\":\"tag\",\"tag\":\"blue\",\"sessionId\":\"s\"}\n",
        &user("\"<local-command-caveat>no</local-command-caveat>\""),
        &user("\"first\""),
        &user("\"second\""),
        "{\"type\":\"ai-title\",\"aiTitle\":\"by the model\"}\n",
        "{\"type\":\"custom-title\",\"customTitle\":\"new\"}\n",
        "{\"type\":\"user\",\"timestamp\":\"2026-01-02T00:00:00.000Z\",\"message\":{\"content\":\"\\\"custom-title\\\"\"}}\n",
    ]
    .concat();
    let expected = Preview {
        title: Some("new".to_owned()),
        tag: Some("blue".to_owned()),
        prompt: Some("first".to_owned()),
        is_prompt_cut: false,
        cwd: Some("/p".to_owned()),
        branch: Some("main".to_owned()),
        version: Some("2.1.45".to_owned()),
        started: Some(Time(1_767_225_600_000)),
        ended: Some(Time(1_767_312_000_000)),
        troubles: Vec::new(),
    };
    assert_eq!(seen(session.as_bytes()), expected);
}

#[test]
fn prompts_are_shown_as_they_were_typed() {
    for (content, typed) in [
        (
            r#""<command-message>x</command-message>\n<command-name>/model</command-name>\n<command-args>opus</command-args>""#,
            "/model opus",
        ),
        (r#""<bash-input>ls -l</bash-input>""#, "! ls -l"),
        (
            r#""what is <command-name>foo</command-name>""#,
            "what is <command-name>foo</command-name>",
        ),
        (
            r#"[{"type":"text","text":"<ide_opened_file>f</ide_opened_file>"},{"type":"text","text":" go on "}]"#,
            "go on",
        ),
        (r#"[{"type":"image"},{"type":"text","text":"what is this"}]"#, "what is this"),
    ] {
        assert_eq!(seen(user(content).as_bytes()).prompt.as_deref(), Some(typed));
    }
}

#[test]
fn troubles_are_seen_at_the_ends() {
    let troubles = |bytes: &[u8]| seen(bytes).troubles;
    let good = user("\"x\"");
    assert_eq!(troubles(b""), [Trouble::Empty]);
    assert_eq!(troubles(good.as_bytes()), []);
    assert_eq!(troubles(good.trim_end().as_bytes()), []);
    assert_eq!(troubles(&good.as_bytes()[..60]), [Trouble::Torn]);
    assert_eq!(troubles(format!("{good}\0\0\0").as_bytes()), [Trouble::Nul]);
    assert_eq!(troubles(format!("{good}no json\n").as_bytes()), [Trouble::Damaged]);
    assert_eq!(troubles(format!("no json\n{good}").as_bytes()), [Trouble::Damaged]);
    let glued = good.trim_end().repeat(2);
    assert_eq!(troubles(format!("{glued}\n{good}").as_bytes()), [Trouble::Damaged]);
    assert_eq!(troubles(format!("{good}{glued}\n").as_bytes()), [Trouble::Damaged]);
    // Far longer than what is read otherwise.
    let long = user(&format!("\"{}\"", "x".repeat(2_000_000)));
    assert_eq!(troubles(format!("{good}{}", &long[..1_500_000]).as_bytes()), [Trouble::Torn]);
    assert_eq!(troubles(format!("{good}{long}").as_bytes()), []);
}

#[test]
fn a_long_first_record_hides_nothing() {
    let image = format!(
        r#"[{{"type":"image","source":{{"data":"{}"}}}},{{"type":"text","text":"see"}}]"#,
        "x".repeat(3 << 20)
    );
    assert_eq!(seen(user(&image).as_bytes()).prompt.as_deref(), Some("see"));
}

#[test]
fn a_long_file_is_looked_at_from_both_ends() {
    let filler = format!("{{\"type\":\"mode\",\"mode\":\"{}\"}}\n", "x".repeat(1_000));
    let long = [
        filler.repeat(200),
        user("\"behind 200 KB\""),
        filler.repeat(2_000),
        "{\"type\":\"ai-title\",\"aiTitle\":\"late\"}\n".to_owned(),
        filler,
    ]
    .concat();
    let seen = seen(long.as_bytes());
    assert_eq!(seen.prompt.as_deref(), Some("behind 200 KB"));
    assert_eq!(seen.title.as_deref(), Some("late"));
    assert_eq!(seen.troubles, []);
}

/// Of a line that is too long to hold, the middle is missing.
#[test]
fn a_prompt_that_is_cut_says_so() {
    for (length, is_cut) in [(1_000, false), (17 << 20, true)] {
        let first = seen(user(&format!("\"{}\"", "word ".repeat(length / 5))).as_bytes());
        assert!(first.prompt.is_some_and(|prompt| prompt.starts_with("word word")));
        assert_eq!(first.is_prompt_cut, is_cut, "{length}");
    }
}

#[test]
fn the_last_answer_is_the_last_text_of_the_model() {
    let record = |kind: &str, more: &str, blocks: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"u\"{more},\"message\":{{\"role\":\"{kind}\",\"content\":[{blocks}]}}}}\n"
        )
    };
    let text = |text: &str| format!("{{\"type\":\"text\",\"text\":\"{text}\"}}");
    let last = |lines: &[String]| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.concat().as_bytes()).unwrap();
        last_answer(file.path()).unwrap()
    };
    let mut lines = vec![
        record("assistant", "", &[text("one"), text("two")].join(",")),
        record("assistant", ",\"isSidechain\":true", &text("a helper's")),
        record("assistant", "", r#"{"type":"tool_use","id":"t","name":"Bash","input":{}}"#),
        record("assistant", "", &text("  ")),
        record("user", "", &text("thanks")),
    ];
    assert_eq!(last(&lines).as_deref(), Some("two"));
    lines.push(user(&format!("\"{}\"", "x".repeat(GLANCE_TAIL))));
    assert_eq!(last(&lines), None, "it is too far from the end");
    assert_eq!(last(&[]), None);
}

#[test]
fn the_last_time_is_known_before_a_title_and_a_tag() {
    let lines = concat!(
        "{\"type\":\"user\",\"uuid\":\"a\",\"timestamp\":\"2026-03-01T10:00:00.000Z\",",
        "\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n",
        "{\"type\":\"custom-title\",\"customTitle\":\"Boots\",\"sessionId\":\"s\"}\n",
        "{\"type\":\"tag\",\"tag\":\"red\",\"sessionId\":\"s\"}\n",
    );
    let seen = seen(lines.as_bytes());
    assert_eq!((seen.ended.is_some(), seen.ended), (true, seen.started));
}

#[test]
fn an_empty_tag_removes_the_one_before() {
    let tag = |tag: &str| format!("{{\"type\":\"tag\",\"tag\":\"{tag}\",\"sessionId\":\"s\"}}\n");
    assert_eq!(seen(tag("red").as_bytes()).tag.as_deref(), Some("red"));
    assert_eq!(seen((tag("red") + &tag("")).as_bytes()).tag, None);
    assert_eq!(seen((tag("") + &tag("red")).as_bytes()).tag.as_deref(), Some("red"));
}
