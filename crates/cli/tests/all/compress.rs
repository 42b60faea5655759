//! `quipu compress`, `quipu uncompress` and `--when-cold`, as a user runs them.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::{Env, set_age};

/// The time of the last call of the session, in seconds since 1970.
const LAST_CALL: u64 = 1_793_527_620 + 11 * 60;

const SECRET: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// A session of twelve turns: a prompt, an edit, a command, and an answer that decides something.
fn session() -> String {
    let mut lines = Vec::new();
    let mut parent = "null".to_owned();
    let mut add = |kind: &str, minute: usize, second: usize, message: &str| {
        let uuid = format!("{:08x}-0000-4000-8000-000000000000", lines.len() + 1);
        lines.push(format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":"/home/dev/demo","sessionId":"0c0c0c0c-0000-4000-8000-000000000001","version":"2.1.45","gitBranch":"main","type":"{kind}","message":{message},"uuid":"{uuid}","timestamp":"2026-11-01T10:{minute:02}:{second:02}.000Z"}}"#
        ));
        parent = format!("\"{uuid}\"");
    };
    for turn in 0..12 {
        let minute = turn + 7;
        let read = 12_000 + turn * 1_500;
        let answer = |at: usize, blocks: &str| {
            format!(
                r#"{{"id":"m{turn}{at}","role":"assistant","model":"claude-opus-4-5-20251101","stop_reason":"tool_use","content":[{blocks}],"usage":{{"input_tokens":5,"cache_creation_input_tokens":{read},"cache_read_input_tokens":0,"cache_creation":{{"ephemeral_5m_input_tokens":{read},"ephemeral_1h_input_tokens":0}},"output_tokens":90}}}}"#
            )
        };
        let result = |id: &str, text: &str, is_error: bool| {
            format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}{turn}","content":"{text}","is_error":{is_error}}}]}}"#
            )
        };
        let secret = if turn == 3 { SECRET } else { "nothing" };
        add(
            "user",
            minute,
            0,
            &format!(
                r#"{{"role":"user","content":"Make part {turn} of the thing, and mind {secret}."}}"#
            ),
        );
        add(
            "assistant",
            minute,
            1,
            &answer(
                1,
                &format!(
                    r#"{{"type":"tool_use","id":"e{turn}","name":"Edit","input":{{"file_path":"/home/dev/demo/src/part{turn}.rs","old_string":"a","new_string":"b"}}}}"#
                ),
            ),
        );
        add("user", minute, 2, &result("e", &"The file has been updated. ".repeat(40), false));
        add(
            "assistant",
            minute,
            3,
            &answer(
                2,
                &format!(
                    r#"{{"type":"tool_use","id":"b{turn}","name":"Bash","input":{{"command":"make test-{turn}"}}}}"#
                ),
            ),
        );
        let (output, is_error) = match turn % 4 {
            1 => (format!("Exit code 2\\nerror: part {turn} does not link\\n"), true),
            _ => (format!("{}\\n{turn} tests passed", "compiling ".repeat(60)), false),
        };
        add("user", minute, 4, &result("b", &output, is_error));
        add(
            "assistant",
            minute,
            5,
            &answer(
                3,
                &format!(
                    r#"{{"type":"text","text":"Part {turn} is there. We decided to keep its table in memory instead of a file. {}"}}"#,
                    "More words about it. ".repeat(30)
                ),
            ),
        );
    }
    lines.join("\n") + "\n"
}

fn env() -> Env {
    let env = Env::bare();
    env.put("s.jsonl", session());
    set_age(&env.path("s.jsonl"), 3_600);
    env
}

fn run(env: &Env, args: &[&str]) -> String {
    let new = "0e000000-1111-4222-8333-444444444444";
    env.show(&env.command(args).env("QUIPU_ID", new).output().unwrap())
}

fn summary(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    let records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut ours = records.filter(|one| one["isCompactSummary"] == true);
    ours.next().unwrap()["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn for_people_and_for_programs() {
    let env = env();
    let mut text = String::new();
    for args in [
        &["compress", "s.jsonl", "--dry-run"][..],
        &["compress", "s.jsonl", "--to", "1400", "--keep-turns", "2", "-o", "small.jsonl"],
        &["compress", "s.jsonl", "--to", "700", "--keep-turns", "0", "--json", "--dry-run"],
        &["compress", "s.jsonl", "--to", "1M"],
        &["compress", "s.jsonl", "--to", "100"],
        &["compress", "s.jsonl", "--to", "lots"],
        &["compress", "s.jsonl", "--with", "opus"],
        &["compress", "s.jsonl", "--wait"],
        &["uncompress", "s.jsonl"],
        &["uncompress", "small.jsonl", "--dry-run"],
        &["uncompress", "small.jsonl", "--turns", "2..3,5", "--dry-run"],
        &["uncompress", "small.jsonl", "--turns", "99", "--dry-run"],
        &["uncompress", "small.jsonl", "--to", "3k", "--dry-run"],
        &["uncompress", "small.jsonl", "--to", "1k", "--dry-run"],
    ] {
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
    }
    let made = fs::read(env.path("small.jsonl")).unwrap();
    writeln!(text, "### the summary\n{}", summary(&made)).unwrap();
    assert_snapshot!(text);
}

#[test]
fn there_and_back_is_the_same_file() {
    let env = env();
    let before = fs::read(env.path("s.jsonl")).unwrap();
    for keep in ["0", "3"] {
        let args = ["compress", "s.jsonl", "--to", "1400", "--keep-turns", keep, "--in-place"];
        assert!(run(&env, &args).starts_with("exit 0"));
        let between = fs::read(env.path("s.jsonl")).unwrap();
        assert!(between.len() > before.len());
        let text = run(&env, &["uncompress", "s.jsonl", "--in-place", "--force"]);
        assert!(text.starts_with("exit 0"), "{text}");
        assert_eq!(fs::read(env.path("s.jsonl")).unwrap(), before);
        assert!(run(&env, &["undo"]).starts_with("exit 0"));
        assert_eq!(fs::read(env.path("s.jsonl")).unwrap(), between);
        assert!(run(&env, &["undo"]).starts_with("exit 0"));
        assert_eq!(fs::read(env.path("s.jsonl")).unwrap(), before);
    }
}

/// What was wrong with a session before it was compressed is wrong again, and no reason to keep the
/// history back.
#[test]
fn there_and_back_also_if_the_session_was_rejected() {
    let env = env();
    let call = r#"{"type":"tool_use","id":"e2""#;
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"not base64"},"#;
    let before = session().replace(call, &format!("{thinking}{call}"));
    env.put("bad.jsonl", &before);
    set_age(&env.path("bad.jsonl"), 3_600);
    let check = run(&env, &["check", "bad.jsonl"]);
    assert!(check.contains("the API would refuse it"), "{check}");
    let compress = ["compress", "bad.jsonl", "--to", "1400", "-o", "small.jsonl"];
    assert!(run(&env, &compress).starts_with("exit 0"));
    for args in [
        &["uncompress", "small.jsonl", "-o", "b.jsonl"][..],
        &["uncompress", "small.jsonl", "--in-place", "--force"],
    ] {
        let text = run(&env, args);
        assert!(text.starts_with("exit 0"), "{text}");
    }
    assert_eq!(fs::read_to_string(env.path("b.jsonl")).unwrap(), before);
    assert_eq!(fs::read_to_string(env.path("small.jsonl")).unwrap(), before);
}

/// A new session has new ids; apart from them and the titles, there and back is the same.
#[test]
fn beside_only_ids_differ() {
    let env = env();
    let name = "0c0c0c0c-0000-4000-8000-000000000001";
    let folder = ".claude/projects/-home-dev-demo";
    env.put(&format!("{folder}/{name}.jsonl"), session());
    let new = "0e000000-1111-4222-8333-444444444444";
    let text = run(&env, &["compress", name, "--to", "1400"]);
    assert!(text.starts_with("exit 0"), "{text}");
    let back = "0f000000-1111-4222-8333-444444444444";
    let output = env.command(&["uncompress", new]).env("QUIPU_ID", back).output().unwrap();
    assert!(output.status.success(), "{}", env.show(&output));
    let shape = |name: &str| {
        let bytes = fs::read_to_string(env.path(&format!("{folder}/{name}.jsonl"))).unwrap();
        let ids = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
        let lines = bytes.lines().filter(|line| !line.contains("custom-title"));
        lines.map(|line| ids.replace_all(line, "ID").into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shape(back), shape(name));
}

#[test]
fn nothing_is_written_while_the_cache_is_warm() {
    let env = env();
    let at = |now: u64, args: &[&str]| {
        env.show(&env.command(args).env("QUIPU_NOW", now.to_string()).output().unwrap())
    };
    let mut text = String::new();
    let compress = ["compress", "s.jsonl", "--to", "1400", "-o", "new.jsonl", "--when-cold"];
    let cases: [&[&str]; 5] = [
        &compress,
        &["uncompress", "s.jsonl", "--when-cold"],
        &["strip", "s.jsonl", "--results", "-o", "new.jsonl", "--when-cold"],
        &["clone", "s.jsonl", "-o", "new.jsonl", "--when-cold", "--json"],
        &["fork", "s.jsonl", "--at", "1", "-o", "new.jsonl", "--when-cold"],
    ];
    for args in cases {
        writeln!(text, "### quipu {}\n{}", args.join(" "), at(LAST_CALL + 60, args)).unwrap();
    }
    assert!(!env.path("new.jsonl").exists());
    let dry = at(LAST_CALL + 60, &[&compress[..], &["--dry-run"]].concat());
    assert!(dry.starts_with("exit 0"), "{dry}");
    assert_snapshot!(text);
    // Two seconds before it expires: waits, and then writes.
    let begin = Instant::now();
    let waited = at(LAST_CALL + 303, &[&compress[..], &["--wait"]].concat());
    assert!(waited.starts_with("exit 0"), "{waited}");
    assert!(waited.contains("waiting until"), "{waited}");
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert!(fs::metadata(env.path("new.jsonl")).is_ok());
    let cold = at(LAST_CALL + 3_600, &[&compress[..], &["--force"]].concat());
    assert!(cold.starts_with("exit 0") && !cold.contains("waiting"), "{cold}");
}

/// A server that answers one request with a text. Returns its address, and the thread that returns
/// the body of the request.
fn server() -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let events = [
            r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"A summary by a model."}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let mut text = String::new();
        for event in events {
            let name = event.split('"').nth(3).unwrap();
            write!(text, "event: {name}\ndata: {event}\n\n").unwrap();
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            text.len()
        );
        (&stream).write_all(format!("{head}{text}").as_bytes()).unwrap();
        String::from_utf8(body).unwrap()
    });
    (address, serving)
}

#[test]
fn a_model_writes_the_summary_and_sees_no_secret() {
    let env = env();
    let (address, serving) = server();
    let args = ["compress", "s.jsonl", "--to", "1400", "--with", "opus", "-o", "new.jsonl"];
    let mut command = env.command(&args);
    command.env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key").env("ANTHROPIC_BASE_URL", address);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", env.show(&output));
    let body = serving.join().unwrap();
    assert!(body.contains("Make part 5"), "{body}");
    assert!(!body.contains(SECRET), "{body}");
    let text = summary(&fs::read(env.path("new.jsonl")).unwrap());
    assert!(text.contains("A summary by a model."), "{text}");
    // What the user wrote stays as it is: it is in the same file anyway.
    assert!(text.contains("Make part 3 of the thing, and mind"), "{text}");
}
