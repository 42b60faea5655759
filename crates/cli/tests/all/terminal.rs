//! Names and texts of strangers that a terminal would obey, or that people would not see: in no
//! command does any of it reach a terminal, nor what is made for people when it goes elsewhere.
#![cfg(unix)]

use std::time::Duration;

use crate::env::{Env, in_a_terminal, set_age};

/// One of each kind: controls, DEL, C1, directions, separators, annotations, tags.
const EVIL: [char; 14] = [
    '\u{1b}',
    '\u{7}',
    '\u{8}',
    '\u{7f}',
    '\u{9b}',
    '\u{9d}',
    '\u{202e}',
    '\u{2066}',
    '\u{200f}',
    '\u{61c}',
    '\u{2028}',
    '\u{fff9}',
    '\u{e0041}',
    '\u{e007f}',
];

/// Whether a terminal obeys or hides a character. Told here in other words than in the program.
fn is_bad(c: char) -> bool {
    let code = c as u32;
    (c.is_control() && c != '\n' && c != '\t')
        || [0x61c, 0x200e, 0x200f, 0x2028, 0x2029].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code)
        || (0xfff9..=0xfffb).contains(&code)
        || (0xe0000..=0xe007f).contains(&code)
}

/// A word with one of each in it.
fn evil(word: &str) -> String {
    let mut text = word.to_owned();
    text.extend(EVIL);
    text + "[2Jx"
}

/// As it may stand in a file: C1, directions and tags as they are, controls escaped.
fn in_json(word: &str) -> String {
    serde_json::to_string(&evil(word)).unwrap()
}

/// A user with sessions of somebody who wants the terminal.
fn surroundings() -> Env {
    let env = Env::bare();
    // What a file's name can hold; a part of it, so that it can be typed.
    let name = format!("evil{}", evil("n").replace('/', ""));
    let (text, tool, title) = (in_json("said"), in_json("Tool"), in_json("title"));
    let (cwd, branch, version) = (in_json("/w"), in_json("main"), in_json("2.1.1"));
    let base = format!(
        r#""sessionId":"evil","cwd":{cwd},"gitBranch":{branch},"version":{version},"timestamp":"2026-11-01T00:00:00.000Z""#
    );
    let lines = [
        format!(
            r#"{{"type":"user","uuid":"u1","parentUuid":null,{base},"message":{{"role":"user","content":{text}}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"u2","parentUuid":"u1",{base},"message":{{"id":"m1","role":"assistant","model":{tool},"content":[{{"type":"thinking","thinking":{text},"signature":{text}}},{{"type":"text","text":{text}}},{{"type":"tool_use","id":{tool},"name":{tool},"input":{{"file_path":{cwd},"command":{text},"description":{text}}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"user","uuid":"u3","parentUuid":"u2",{base},"toolUseResult":{{"stdout":{text}}},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":{tool},"is_error":true,"content":{text}}}]}}}}"#
        ),
        format!(r#"{{"type":{tool},"subtype":{tool},"uuid":{tool},{base},{text}:{text}}}"#),
        format!(
            r#"{{"type":"system","subtype":{tool},"uuid":"u4","parentUuid":"u3",{base},"content":{text}}}"#
        ),
        format!(
            r#"{{"type":"assistant","uuid":"u5","parentUuid":"gone",{base},"message":{{"id":"m2","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"t2","name":"Edit","input":{{"file_path":{cwd},"old_string":{text},"new_string":{text}}}}},{{"type":{tool},"x":{text}}}]}}}}"#
        ),
        format!("damaged {}", evil("raw")),
        format!(r#"{{"type":"custom-title","customTitle":{title},"sessionId":"evil"}}"#),
        format!(r#"{{"type":"summary","summary":{title},"leafUuid":{tool}}}"#),
    ];
    let project = format!(".claude/projects/-w{}", evil("p").replace('/', ""));
    for (number, file) in [format!("{name}.jsonl"), "plain000.jsonl".to_owned()].iter().enumerate()
    {
        let path = env.put(&format!("{project}/{file}"), lines.join("\n"));
        set_age(&path, 3_600 * (number as u64 + 1));
    }
    env.put(
        &format!("{project}/plain000/subagents/agent-{}.jsonl", evil("a")),
        format!("{}\n", lines[0]),
    );
    env.put(
        &format!("{project}/plain000/subagents/agent-{}.meta.json", evil("a")),
        format!(r#"{{"agentType":{tool},"description":{text}}}"#),
    );
    env.put(&format!("{project}/plain000/tool-results/{}.txt", evil("r")), "x");
    std::os::unix::fs::symlink("/dev/zero", env.path(&format!("{project}/z{}.jsonl", evil("z"))))
        .unwrap();
    env
}

/// Everything that shows something of a session to people. What is piped of the first group is for
/// programs.
const FOR_PEOPLE: [&[&str]; 30] = [
    &[],
    &["ls", "--all"],
    &["ls", "--all", "--count"],
    &["show", "plain000"],
    &["show", "plain000", "--full", "--thinking", "--all"],
    &["show", "plain000", "--markdown", "--full"],
    &["show", "evil"],
    &["turns", "plain000"],
    &["turns", "plain000", "--compare"],
    &["tree", "plain000"],
    &["tree", "evil"],
    &["export", "md", "plain000"],
    &["check", "plain000"],
    &["check", "--all"],
    &["history", "plain000"],
    &["repair", "plain000", "--dry-run"],
    &["repair", "evil"],
    &["strip", "evil", "--preset", "extreme", "--dry-run"],
    &["strip", "plain000", "--preset", "light"],
    &["clone", "evil"],
    &["fork", "plain000", "--at", "1"],
    &["undo", "--list"],
    &["undo"],
    &["inventory", "--all"],
    &["drift", "--all"],
    &["files", "plain000"],
    &["files", "evil"],
    &["ship", "--all", "--dry-run"],
    &["cat", "\u{1b}[31m\u{e0041}"],
    &["cat", "./\u{1b}[31m\u{202e}.jsonl"],
];

/// Those whose output is data: exact where it is piped, but never in a terminal.
const DATA: [&[&str]; 12] = [
    &["cat", "plain000"],
    &["cat", "plain000", "--raw"],
    &["cat", "evil", "--kind", "damaged"],
    &["ls", "--all", "--json"],
    &["turns", "plain000", "--json"],
    &["show", "plain000", "--json"],
    &["tree", "plain000", "--json"],
    &["export", "json", "plain000"],
    &["history", "plain000", "--json"],
    &["check", "--all", "--json"],
    &["inventory", "--all", "--json"],
    &["drift", "--all", "--json"],
];

const PATIENCE: Duration = Duration::from_secs(20);

fn first_bad(text: &str) -> Option<String> {
    let at = text.find(is_bad)?;
    let before = text[..at].chars().rev().take(60).collect::<String>();
    let before: String = before.chars().rev().collect();
    Some(format!("{:?} behind {before:?}", text[at..].chars().next().unwrap()))
}

#[test]
fn nothing_of_it_reaches_a_terminal() {
    let env = surroundings();
    let mut wrong = Vec::new();
    for args in FOR_PEOPLE.iter().chain(&DATA) {
        let (code, seen) = in_a_terminal(env.command(args), "", PATIENCE);
        assert!(code.is_some() && !seen.is_empty(), "{args:?} {code:?}");
        wrong.extend(first_bad(&seen).map(|bad| format!("{args:?} in a terminal: {bad}")));
    }
    for args in FOR_PEOPLE {
        let output = env.output(args);
        for bytes in [output.stdout, output.stderr] {
            let text = String::from_utf8(bytes).unwrap();
            wrong.extend(first_bad(&text).map(|bad| format!("{args:?} piped: {bad}")));
        }
    }
    for args in DATA {
        let text = String::from_utf8(env.output(args).stderr).unwrap();
        wrong.extend(first_bad(&text).map(|bad| format!("{args:?} on stderr: {bad}")));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A screen is drawn with sequences: places, styles, and what begins and ends it. No others.
#[test]
fn a_screen_has_nothing_of_it() {
    let env = surroundings();
    let mut command = env.command(&["pick"]);
    command.env("TERM", "xterm");
    let (code, seen) = in_a_terminal(command, "\x1b", PATIENCE);
    assert!(code == Some(130) && seen.contains("title"), "{code:?} {seen:?}");
    let drawn = regex::Regex::new("\x1b\\[([0-9;]*[Hm]|2J|\\?(25|1049|2004)[hl])").unwrap();
    assert_eq!(first_bad(&drawn.replace_all(&seen, "")), None);
}

/// What is written while somebody looks on.
#[test]
fn following_shows_nothing_of_it() {
    let env = surroundings();
    for args in
        [&["follow", "plain000", "--from-start"][..], &["follow", "evil", "--from-start", "--json"]]
    {
        let (code, seen) = in_a_terminal(env.command(args), "", Duration::from_secs(2));
        assert!(code.is_none() && seen.lines().count() > 5, "{args:?} {code:?} {seen}");
        assert_eq!(first_bad(&seen), None, "{args:?}");
    }
}

/// In a terminal the same JSON; in a pipe the same bytes.
#[test]
fn cat_says_the_same_in_a_terminal_and_in_a_pipe() {
    let env = surroundings();
    let piped = String::from_utf8(env.output(&["cat", "plain000"]).stdout).unwrap();
    let (_, seen) = in_a_terminal(env.command(&["cat", "plain000"]), "", PATIENCE);
    assert_eq!(piped.lines().count(), seen.lines().count());
    for (one, other) in piped.lines().zip(seen.lines()) {
        let [one, other] =
            [one, other].map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert_eq!(one, other);
    }
    assert!(seen.contains("\\u009b") && seen.contains("\\udb40\\udc41"), "{seen}");
    assert!(piped.contains('\u{9b}') && piped.contains('\u{e0041}'));
    let raw = env.output(&["cat", "plain000", "--raw"]).stdout;
    let path = env.output(&["files", "plain000", "--json"]).stdout;
    let path: serde_json::Value =
        serde_json::from_slice(path.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert_eq!(raw, std::fs::read(path["path"].as_str().unwrap()).unwrap());
}
