//! What is done at the keyboard: editor, suspending, vi, history, pastes, images, commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::api::Reply;

use super::{Desk, blocks};
use crate::chat::{call, text};
use crate::env::Env;

const OFF: [&str; 3] = ["--sandbox", "off", "--no-snapshots"];
/// The smallest image.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

fn script(env: &Env, name: &str, text: &str) {
    let path = env.put(&format!("bin/{name}"), text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn answers(words: &[&str]) -> Vec<Reply> {
    words.iter().map(|words| blocks(&[text(words)])).collect()
}

/// What a request says last.
fn last(desk: &Desk) -> Value {
    let request = desk.server.requests().pop().unwrap();
    request["messages"].as_array().unwrap().last().unwrap()["content"].clone()
}

#[test]
fn it_is_suspended_and_comes_back() {
    let replies = answers(&["ANSWER-ONE.", "ANSWER-TWO."]);
    let line = std::cell::RefCell::new(String::new());
    let Some(desk) = Desk::in_shell(replies, Env::bare(), (100, 30), |start| {
        start.clone_into(&mut line.borrow_mut());
        "PS1='shell> ' exec bash --norc --noprofile -i".to_owned()
    }) else {
        return;
    };
    desk.wait("shell>");
    desk.line(&format!("clear; {} --sandbox off --no-snapshots", line.borrow()));
    desk.wait("lists the keys");
    desk.line("first");
    desk.wait("ANSWER-ONE.");
    desk.text("half a line");
    desk.keys(&["C-z"]);
    desk.wait("Stopped");
    // The terminal is the shell's: what is typed is seen, and no key is reported in another form.
    desk.line("echo back in the shell");
    desk.until("the shell", |screen| screen.matches("back in the shell").count() == 2);
    desk.line("fg");
    desk.wait("❯ half a line");
    desk.line(" and the rest");
    desk.wait("ANSWER-TWO.");
    assert_eq!(
        last(&desk),
        json!([{"type": "text", "text": "half a line and the rest",
        "cache_control": {"type": "ephemeral"}}])
    );
    desk.keys(&["C-d"]);
    desk.wait("quipu chat --resume");
    let screen = desk.screen();
    assert_eq!(screen.matches("ANSWER-ONE.").count(), 1, "{screen}");
    desk.line("stty -a");
    desk.until("a terminal as before", |screen| {
        screen.contains(" icanon") && screen.contains(" echo ")
    });
}

#[test]
fn an_editor_vi_the_history_and_pastes() {
    let replies = answers(&["ANSWER-ONE.", "ANSWER-TWO.", "ANSWER-THREE.", "ANSWER-FOUR."]);
    let env = Env::bare();
    script(&env, "editor", "#!/bin/sh\nprintf 'written with\\nan editor\\n' > \"$1\"\n");
    let old = json!({"display": "a prompt of last week", "pastedContents": {}, "timestamp": 1,
        "project": env.path("demo"), "sessionId": "x"});
    env.put(".claude/history.jsonl", format!("{old}\n"));
    let Some(desk) = Desk::in_shell(replies, env, (100, 30), |line| {
        format!("{line} --sandbox off --no-snapshots; echo left $?; cat")
    }) else {
        return;
    };
    desk.wait("lists the keys");
    let sent = |desk: &Desk| {
        let blocks = last(desk);
        let block = blocks.as_array().unwrap().last().unwrap();
        block["text"].as_str().unwrap_or_default().to_owned()
    };
    // What a terminal answers late is nothing that was typed.
    desk.bytes(b"\x1b]11;rgb:1e1e/2121/2727\x07\x1b[?62;4c\x1b]10;rgb:ffff/ffff/ffff\x1b\\\x1b[24;80R\x1b[?1u");
    desk.keys(&["C-g"]);
    desk.wait("an editor");
    desk.keys(&["Enter"]);
    desk.wait("ANSWER-ONE.");
    assert_eq!(sent(&desk), "written with\nan editor");
    // A search in what was sent in other sessions.
    desk.keys(&["C-r"]);
    desk.text("last we");
    desk.wait("(search) last we: a prompt of last week");
    desk.keys(&["Enter"]);
    desk.line("!");
    desk.wait("ANSWER-TWO.");
    assert_eq!(sent(&desk), "a prompt of last week!");
    // A pasted newline sends nothing, a long paste is a mark; every way to a new line.
    desk.paste("pasted\nlines");
    desk.text("\\");
    desk.keys(&["Enter"]);
    desk.text("second");
    desk.keys(&["C-j"]);
    desk.paste(&"long ".repeat(400));
    desk.wait("[Pasted text #1]");
    desk.keys(&["M-Enter"]);
    desk.text("end");
    desk.keys(&["Enter"]);
    desk.wait("ANSWER-THREE.");
    let wanted = format!("pasted\nlines\nsecond\n{}\nend", "long ".repeat(400));
    assert_eq!(sent(&desk), wanted);
    desk.line("/vim");
    desk.wait("/vim off");
    desk.text("one three");
    desk.keys(&["Escape"]);
    desk.text("bitwo ");
    desk.keys(&["Escape"]);
    desk.text("0x");
    desk.keys(&["Enter"]);
    desk.wait("ANSWER-FOUR.");
    assert_eq!(sent(&desk), "ne two three");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    let history = fs::read_to_string(desk.env.path(".claude/history.jsonl")).unwrap();
    let displays: Vec<String> = history
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["display"].to_string())
        .collect();
    let wanted = [
        r#""a prompt of last week""#,
        r#""written with\nan editor""#,
        r#""a prompt of last week!""#,
        r#""pasted\nlines\nsecond\n[Pasted text #1]\nend""#,
        r#""/vim""#,
        r#""ne two three""#,
    ];
    assert_eq!(displays, wanted);
}

/// What is approved is the plan as the user left it in the editor, also in the record.
#[test]
fn a_plan_is_edited_before_it_is_approved() {
    let env = Env::bare();
    let editor =
        "#!/bin/sh\ngrep -q 'Tie a knot' \"$1\" && sed -i 's/Tie a knot/Tie two bows/' \"$1\"\n";
    script(&env, "editor", editor);
    let plan = json!({"plan": "# Plan\n\n- Tie a knot\n- Look at it"});
    let replies =
        vec![blocks(&[call("toolu_01", "ExitPlanMode", &plan)]), blocks(&[text("ANSWER-ONE.")])];
    let Some(desk) = Desk::in_shell(replies, env, (80, 24), |line| {
        let flags = "--sandbox off --no-snapshots --permission-mode plan";
        format!("{line} {flags}; echo left $?; cat")
    }) else {
        return;
    };
    desk.wait("lists the keys");
    desk.line("plan it");
    let screen = desk.wait("Ctrl-G: edit the plan");
    assert!(screen.contains("Tie a knot"), "{screen}");
    sleep(Duration::from_millis(400));
    desk.keys(&["C-g"]);
    desk.wait("Tie two bows");
    desk.answer("2");
    desk.wait("ANSWER-ONE.");
    let status = last(&desk).to_string();
    assert!(status.contains("approved") && status.contains("Tie two bows"), "{status}");
    assert!(!status.contains("Tie a knot"), "{status}");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    let records = desk.records();
    let approved = records.iter().find(|record| record["toolUseResult"]["plan"].is_string());
    assert_eq!(
        approved.unwrap()["toolUseResult"]["plan"],
        "# Plan\n\n- Tie two bows\n- Look at it"
    );
    let left = fs::read_dir(desk.env.path(".local/state/quipu/drafts")).into_iter().flatten();
    let is_plan = |one: &fs::DirEntry| one.file_name().to_string_lossy().starts_with("plan");
    assert_eq!(left.flatten().filter(is_plan).count(), 0);
}

#[test]
fn images_from_the_clipboard_and_from_files() {
    let env = Env::bare();
    let image = env.path("demo/a picture.png");
    fs::create_dir_all(env.path("demo")).unwrap();
    fs::write(&image, PNG).unwrap();
    script(&env, "wl-paste", "#!/bin/sh\nexit 1\n");
    script(&env, "xclip", &format!("#!/bin/sh\ncat '{}'\n", image.display()));
    let Some(desk) = Desk::in_shell(answers(&["Two dots."]), env, (100, 30), |line| {
        format!("{line} --sandbox off --no-snapshots; echo left $?; cat")
    }) else {
        return;
    };
    desk.wait("lists the keys");
    desk.keys(&["C-v"]);
    desk.wait("[Image #1]");
    desk.text(" and ");
    desk.paste(&format!("'{}'", image.display()));
    desk.wait("[Image #2]");
    desk.keys(&["Enter"]);
    desk.wait("Two dots.");
    let kinds: Vec<Value> =
        last(&desk).as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    // The first text is what the client says.
    assert_eq!(kinds, ["text", "image", "image", "text"]);
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    let check = desk.quipu(&["check", super::SESSION]);
    assert!(check.contains("resumes"), "{check}");
}

#[test]
fn commands_of_the_user_and_the_terminal() {
    let spoof = "echo SPOOF > /dev/tty; head -c 1 < /dev/tty; echo after";
    let bash = json!({"command": spoof, "description": "x"});
    let replies = vec![
        blocks(&[text("ANSWER-ONE.")]),
        blocks(&[call("toolu_01", "Bash", &bash)]),
        blocks(&[text("ANSWER-TWO.")]),
    ];
    let flags = [&OFF[..], &["--dangerously-skip-permissions"]].concat();
    let Some(desk) = Desk::start(replies, &flags, (100, 40)) else { return };
    desk.line("!printf 'one\\ntwo\\n'; echo wrong >&2; echo SPOOF > /dev/tty");
    desk.wait("ANSWER-ONE.");
    let screen = desk.screen();
    assert!(!screen.lines().any(|line| line.starts_with("SPOOF")), "{screen}");
    desk.line("now you");
    desk.wait("ANSWER-TWO.");
    let screen = desk.screen();
    assert!(!screen.lines().any(|line| line.starts_with("SPOOF")), "{screen}");
    // One that hangs is stopped, and nothing is sent.
    desk.line("!sleep 60");
    desk.wait("Esc stops");
    sleep(Duration::from_millis(300));
    desk.keys(&["Escape"]);
    desk.wait("interrupted");
    desk.line("/rename knots and cords");
    desk.wait("is called");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    let records = desk.records();
    let contents: Vec<&Value> = records
        .iter()
        .filter(|record| record["type"] == "user" && record.get("toolUseResult").is_none())
        .map(|record| &record["message"]["content"])
        .collect();
    assert_eq!(contents.len(), 3, "{contents:?}");
    let command = contents[0].as_str().unwrap();
    assert!(command.starts_with("<bash-input>printf") && command.ends_with("</bash-input>"));
    let printed = contents[1].as_str().unwrap();
    let start = "<bash-stdout>one\ntwo</bash-stdout><bash-stderr>wrong\n";
    assert!(printed.starts_with(start), "{printed}");
    // As the original records them: the second hangs on the first, and both are plain.
    let of = |text: &str| {
        records.iter().find(|record| {
            record["message"]["content"].as_str().is_some_and(|content| content.starts_with(text))
        })
    };
    let (input, output) = (of("<bash-input>").unwrap(), of("<bash-stdout>").unwrap());
    assert_eq!(output["parentUuid"], input["uuid"]);
    for record in [input, output] {
        assert!(record.get("isMeta").is_none() && record.get("permissionMode").is_none());
    }
    let titles: Vec<&Value> = records.iter().map(|record| &record["customTitle"]).collect();
    assert!(titles.contains(&&json!("knots and cords")));
}

#[test]
fn the_session_is_in_a_browser_while_the_console_runs() {
    let Some(desk) = Desk::start(answers(&["ANSWER-ONE."]), &OFF, (100, 30)) else { return };
    desk.line("first");
    desk.wait("ANSWER-ONE.");
    desk.line("/view");
    let screen = desk.wait("the address works once");
    let (_, rest) = screen.rsplit_once(".localhost:").unwrap();
    let port: u16 = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let answers = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(answers());
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    assert!(!answers());
}
