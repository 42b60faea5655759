//! The agent at work beside whoever does not mean well: a model, an API, a file, a page, a folder;
//! and in a world where readers go away and processes are killed. One test for each finding, of the
//! built program.
#![cfg(unix)]

mod faults;
mod keys;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::api::{Reply, Server};

use crate::env::{Env, in_a_terminal};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";
/// Long enough for `base64` to break its line.
const KEY: &str = "sk-ant-api03-Zk9yQ4tB7wXn2LpRv8mHs5cJd1fGa6eUo3iKq0TzYxWb-0123456789abcdefghijklmnopqrstuvwxyz";

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn bash(id: &str, command: &str) -> Value {
    call(id, "Bash", &json!({"command": command}))
}

/// A user with a project, a folder for what is temporary, and the API beside them.
struct Lab {
    env: Env,
    server: Server,
}

impl Lab {
    fn new(answers: &[&[Value]]) -> Lab {
        Lab::play(answers.iter().map(|blocks| Reply::Blocks(blocks.to_vec())).collect())
    }

    fn play(replies: Vec<Reply>) -> Lab {
        let env = Env::bare();
        env.put("demo/README.md", "# Demo\n");
        fs::create_dir_all(env.path("tmp")).unwrap();
        Lab { env, server: Server::play(replies).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.env.path("demo")).unwrap().join(name)
    }

    fn home(&self, name: &str) -> PathBuf {
        self.env.path(".claude").join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(&["chat", "-p"]);
        command
            .args(args)
            .current_dir(self.env.path("demo"))
            .stdin(Stdio::null())
            .env_remove("QUIPU_NOW")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TMPDIR", self.env.path("tmp"))
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", self.server.url())
            .env("CLAUDE_CODE_MAX_RETRIES", "0")
            // Root may bypass permissions only where nothing can be broken.
            .env("IS_SANDBOX", "1");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Begins the session.
    fn begin(&self, args: &[&str]) -> Output {
        let all: Vec<&str> = ["--session-id", SESSION].iter().chain(args).copied().collect();
        self.run(&all)
    }

    fn file(&self) -> PathBuf {
        let project = fs::read_dir(self.home("projects")).unwrap().flatten().next().unwrap();
        project.path().join(format!("{SESSION}.jsonl"))
    }

    fn transcript(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.transcript().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn check(&self) -> String {
        let path = self.file().display().to_string();
        let output = self.env.output(&["check", &path, "--json"]);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["verdict"].as_str().unwrap_or_default().to_owned()
    }
}

fn shown(output: &Output) -> String {
    format!(
        "{:?}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The end of a program that may take so long; what it has printed by then is lost.
fn ended(child: &mut Child, most: Duration) -> Option<i32> {
    let begin = Instant::now();
    while begin.elapsed() < most {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn e02_nobody_makes_a_repository_by_the_way() {
    let write =
        |id: &str, path: PathBuf| call(id, "Write", &json!({"file_path": path, "content": "x\n"}));
    let mut lab = Lab::new(&[]);
    let folder = lab.path("pkg");
    let at = |name: &str| folder.join(name);
    lab.server = Server::start(vec![
        vec![
            write("c1", at("config")),
            write("c2", at("HEAD")),
            write("c3", at("objects/x")),
            write("c4", at("refs/x")),
            write("c5", at("src/refs/x")),
        ],
        vec![text("Done.")],
    ])
    .unwrap();
    lab.begin(&["--permission-mode", "acceptEdits", "Write."]);
    assert!(at("config").exists() && at("objects/x").exists() && at("src/refs/x").exists());
    assert!(!at("refs").exists(), "{}", lab.transcript());
    // And none that is there is changed.
    let lab = Lab::new(&[&[write("c1", PathBuf::from("pkg/config"))], &[text("Done.")]]);
    for name in ["demo/pkg/HEAD", "demo/pkg/objects/x", "demo/pkg/refs/x", "demo/pkg/config"] {
        lab.env.put(name, "old\n");
    }
    lab.begin(&["--permission-mode", "acceptEdits", "Write."]);
    assert_eq!(fs::read_to_string(lab.path("pkg/config")).unwrap(), "old\n");
}

#[test]
fn e07_what_decides_what_programs_do_is_not_written() {
    let names = [
        ".gitmodules",
        ".zshenv",
        ".zprofile",
        ".bash_login",
        ".bash_logout",
        ".ripgreprc",
        ".claude.json",
        ".ssh/authorized_keys",
        ".config/git/config",
        ".config/fish/config.fish",
        ".local/bin/ls",
        ".husky/pre-commit",
        ".envrc",
        ".npmrc",
        ".cargo/config.toml",
        ".devcontainer/devcontainer.json",
        ".pre-commit-config.yaml",
        ".github/workflows/a.yml",
        "CLAUDE.md",
        "AGENTS.md",
        "sub/CLAUDE.local.md",
        ".gitlab-ci.yml",
        ".netrc",
        ".vimrc",
        ".gdbinit",
    ];
    let write = |(number, name): (usize, &&str)| {
        call(&format!("c{number}"), "Write", &json!({"file_path": name, "content": "x"}))
    };
    let calls: Vec<Value> = names.iter().enumerate().map(write).collect();
    let mut all = calls.clone();
    all.push(call("plain", "Write", &json!({"file_path": "src/plain.rs", "content": "x"})));
    let lab = Lab::new(&[&all, &[text("Done.")]]);
    lab.begin(&["--permission-mode", "acceptEdits", "Write."]);
    for name in names {
        assert!(!lab.path(name).exists(), "{name}");
    }
    assert!(lab.path("src/plain.rs").exists());
    // In the user's own folder no file with a dot is.
    let write =
        |id: &str, name: &str| call(id, "Write", &json!({"file_path": name, "content": "x"}));
    let lab = Lab::new(&[
        &[write("c1", ".anything"), write("c2", "a/.b"), write("c3", "plain")],
        &[text("Done.")],
    ]);
    let output = lab
        .command(&["--session-id", SESSION, "--permission-mode", "acceptEdits"])
        .args(["--sandbox", "off", "Write."])
        .current_dir(lab.env.path(""))
        .output()
        .unwrap();
    assert!(lab.env.path("plain").exists(), "{}", shown(&output));
    assert!(!lab.env.path(".anything").exists() && !lab.env.path("a/.b").exists());
}

/// A session whose records say what they like: an id, and the files that were kept.
fn hostile_session(cwd: &Path, id: &str, tracked: &Value) -> String {
    let common = json!({
        "isSidechain": false, "userType": "external", "cwd": cwd, "sessionId": id, "version": "2.1.45",
        "gitBranch": "", "timestamp": "2026-11-01T00:00:00.000Z",
    });
    let record = |more: Value| {
        let mut record = common.clone();
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let first = "aaaaaaaa-0000-4000-8000-000000000001";
    let snapshot = json!({
        "type": "file-history-snapshot", "messageId": first, "isSnapshotUpdate": false,
        "snapshot": {"messageId": first, "trackedFileBackups": tracked, "timestamp": "2026-11-01T00:00:00.000Z"},
    });
    [
        record(json!({
            "type": "user", "uuid": first, "parentUuid": null,
            "message": {"role": "user", "content": "Hello"},
        })),
        format!("{snapshot}\n"),
        record(json!({
            "type": "assistant", "uuid": "aaaaaaaa-0000-4000-8000-000000000002",
            "parentUuid": first,
            "message": {
                "id": "msg_1", "type": "message", "role": "assistant",
                "model": "claude-sonnet-5-5", "content": [text("Hi.")],
                "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        })),
    ]
    .concat()
}

#[test]
fn e08_an_id_from_a_file_is_no_path() {
    for id in ["/[HOME]/escaped", "../../../escaped", "..", "a/b"] {
        let mut lab = Lab::new(&[]);
        let readme = lab.path("README.md");
        let home = fs::canonicalize(lab.env.path("")).unwrap();
        let id = id.replace("/[HOME]", home.to_str().unwrap());
        lab.server = Server::start(vec![
            vec![call("c1", "Read", &json!({"file_path": readme}))],
            vec![
                call("c2", "Write", &json!({"file_path": readme, "content": "new\n"})),
                call(
                    "c3",
                    "TodoWrite",
                    &json!({"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]}),
                ),
            ],
            vec![text("Done.")],
        ])
        .unwrap();
        let session =
            lab.env.put("demo/any.jsonl", hostile_session(&lab.path(""), &id, &json!({})));
        let args = ["--permission-mode", "acceptEdits", "--output-format", "json", "--resume"];
        let output =
            lab.command(&args).args([session.to_str().unwrap(), "Go on."]).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let new = result["session_id"].as_str().unwrap();
        assert!(uuid::Uuid::try_parse(new).is_ok(), "{id}: {new}");
        // The copy of what was changed is where copies are, and nowhere else.
        assert_eq!(fs::read_dir(lab.home("file-history").join(new)).unwrap().count(), 1, "{id}");
        let entries = fs::read_dir(lab.env.path("")).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        // `.local` has our own locks and seals.
        assert_eq!(names, [".claude", ".local", "demo", "tmp"], "{id}");
        assert_eq!(fs::read_dir(lab.home("todos")).unwrap().count(), 1, "{id}");
    }
}

#[test]
fn e09_what_lies_beside_a_file_is_nobodys_business() {
    let mut lab = Lab::new(&[]);
    // The session's file lies beside a folder of the same name: somebody's home.
    let secret = lab.env.put("u/secret.txt", "very secret\n");
    let aside = lab.env.put("u/tool-results/a.txt", "very secret\n");
    let session = lab.env.put("u.jsonl", hostile_session(&lab.path(""), SESSION, &json!({})));
    lab.server = Server::start(vec![
        vec![
            call("c1", "Read", &json!({"file_path": secret})),
            call("c2", "Read", &json!({"file_path": aside})),
        ],
        vec![text("Done.")],
    ])
    .unwrap();
    let output = lab.run(&["--resume", session.to_str().unwrap(), "Read it."]);
    let sent_text = lab.server.requests()[1]["messages"].to_string();
    assert!(
        !sent_text.contains("very secret") && sent_text.contains("was not permitted"),
        "{}",
        shown(&output)
    );
}

#[test]
fn e10_a_record_does_not_have_files_copied() {
    let mut lab = Lab::new(&[]);
    let outside = lab.env.put("outside.txt", "outside\n");
    symlink(&outside, lab.path("link.txt")).unwrap();
    let none =
        json!({"backupFileName": null, "version": 1, "backupTime": "2026-11-01T00:00:00.000Z"});
    let last = json!({"backupFileName": null, "version": 4_294_967_295_u32, "backupTime": "2026-11-01T00:00:00.000Z"});
    let tracked = json!({
        outside.to_str().unwrap(): none, "../outside.txt": none, "link.txt": none, "/etc/passwd": none,
        "/proc/kmsg": none, "/dev/zero": none, "README.md": last,
    });
    let session = lab.env.put("demo/any.jsonl", hostile_session(&lab.path(""), SESSION, &tracked));
    lab.server = Server::start(vec![vec![text("Done.")]]).unwrap();
    let begin = Instant::now();
    let output = lab.run(&["--resume", session.to_str().unwrap(), "Go on."]);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(!lab.home("file-history").exists());
}

/// Runs a command and measures it; the exit code, the seconds, the most memory in MB.
fn measured(command: &Command) -> (Option<i32>, f64, u64) {
    let mut timed = Command::new("bash");
    // The shell of the test is small: what its child takes is what is measured.
    let script = "ulimit -v 4000000; \"$@\" >/dev/null 2>&1 & p=$!; most=0; while kill -0 $p 2>/dev/null; do \
        now=$(sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$p/status 2>/dev/null); \
        [ \"${now:-0}\" -gt \"$most\" ] && most=$now; sleep 0.02; done; wait $p; echo \"$? $most\"";
    timed.args(["-c", script, "bash"]).arg(command.get_program()).args(command.get_args());
    timed.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    timed.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    timed.stdout(Stdio::piped()).stderr(Stdio::null());
    let begin = Instant::now();
    let mut child = timed.spawn().unwrap();
    let code = ended(&mut child, Duration::from_secs(60));
    let taken = begin.elapsed().as_secs_f64();
    let mut output = String::new();
    if code.is_some() {
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    }
    let mut numbers = output.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
    let code = numbers.next().and_then(|code| i32::try_from(code).ok());
    (code, taken, numbers.next().unwrap_or(0) / 1_024)
}

/// Starts a session beside pipes and devices in these places, one after the other.
fn beside_pipes_and_devices(places: &[&str]) {
    for place in places {
        for what in ["pipe", "/dev/zero"] {
            let lab = Lab::new(&[&[text("Done.")]]);
            let path = lab.env.path(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if what == "pipe" {
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            } else {
                symlink(what, &path).unwrap();
            }
            let mut command = lab.command(&["--session-id", SESSION, "Hello"]);
            if *place == "demo/old.jsonl" {
                command = lab.command(&["--resume", path.to_str().unwrap(), "Hello"]);
            }
            let (code, taken, memory) = measured(&command);
            assert!(code.is_some() && taken < 20.0, "{place}, {what}: {code:?} after {taken} s");
            assert!(memory < 64, "{place}, {what}: {memory} MB");
        }
    }
}

#[test]
fn e12_a_repository_of_pipes_and_devices_is_not_waited_for() {
    beside_pipes_and_devices(&["demo/.git", "demo/.git/HEAD"]);
}

#[test]
fn e12_pipes_and_devices_are_not_waited_for() {
    beside_pipes_and_devices(&[
        ".claude/settings.json",
        "demo/.claude/settings.json",
        "demo/.claude/settings.local.json",
        "demo/CLAUDE.md",
        ".claude/CLAUDE.md",
        "demo/old.jsonl",
    ]);
    // Also as the newest session of a folder.
    let lab = Lab::new(&[&[text("One.")], &[text("Two.")]]);
    lab.begin(&["Hello"]);
    let pipe = lab.file().with_file_name("22222222-2222-4222-8222-222222222222.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (code, taken, _) = measured(&lab.command(&["--continue", "Hello"]));
    assert!(code == Some(0) && taken < 20.0, "{code:?} after {taken} s");
}

/// An API that says this, and then that again and again, until nobody listens.
fn endless(first: &str, again: &str, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (first, again) = (first.to_owned(), again.to_owned());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (first, again) = (first.clone(), again.clone());
            thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                lines
                    .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                    .for_each(drop);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                let mut sent = stream.write_all(format!("{head}{first}").as_bytes());
                while sent.is_ok() {
                    thread::sleep(pause);
                    sent = stream.write_all(again.as_bytes());
                }
            });
        }
    });
    url
}

#[test]
fn e13_an_answer_without_an_end_is_given_up() {
    let start = concat!(
        r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","#,
        r#""role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"#,
        r#""stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#,
    );
    let open = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let tool = concat!(
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","#,
        r#""id":"c1","name":"Write","input":{}}}"#,
    );
    let long = "x".repeat(100_000);
    let delta = |kind: &str, member: &str, text: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\
                \"delta\":{{\"type\":\"{kind}\",\"{member}\":\"{text}\"}}}}\n\n"
        )
    };
    let block = format!(
        "{open}\n\n{}data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n",
        delta("text_delta", "text", "a")
    );
    let now = Duration::ZERO;
    for (name, first, again, pause) in [
        ("a text", format!("{start}\n\n{open}\n\n"), delta("text_delta", "text", &long), now),
        (
            "an input",
            format!("{start}\n\n{tool}\n\n"),
            delta("input_json_delta", "partial_json", &long),
            now,
        ),
        ("blocks", format!("{start}\n\n"), block, now),
        (
            "pings",
            format!("{start}\n\n"),
            "data: {\"type\":\"ping\"}\n\n".to_owned(),
            Duration::from_millis(200),
        ),
        ("bytes", format!("{start}\n\n"), ":".to_owned(), Duration::from_millis(200)),
    ] {
        let lab = Lab::new(&[]);
        let mut command = lab.command(&["--session-id", SESSION, "Hello"]);
        command
            .env("ANTHROPIC_BASE_URL", endless(&first, &again, pause))
            .env("API_TIMEOUT_MS", "1000");
        let (code, taken, memory) = measured(&command);
        assert_eq!(code, Some(1), "{name}");
        assert!(taken < 40.0 && memory < 128, "{name}: {taken} s, {memory} MB");
        assert!(fs::metadata(lab.file()).unwrap().len() < 16 << 20, "{name}");
        let transcript = lab.transcript();
        assert!(
            transcript.contains("does not end") || transcript.contains("nothing came any more"),
            "{name}: {transcript}"
        );
    }
}

#[test]
fn e15_nothing_near_is_fetched() {
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = inside.local_addr().unwrap().port();
    inside.set_nonblocking(true).unwrap();
    let fetch = |(number, host): (usize, &&str)| {
        let url = format!("http://{host}:{port}/");
        call(&format!("c{number}"), "WebFetch", &json!({"url": url, "prompt": "?"}))
    };
    let hosts = [
        "127.0.0.1",
        "localhost",
        "0.0.0.0",
        "2130706433",
        "0177.1",
        "[::ffff:127.0.0.1]",
        "me:pass@127.0.0.1",
    ];
    let calls: Vec<Value> = hosts.iter().enumerate().map(fetch).collect();
    let lab = Lab::new(&[&calls, &[text("Done.")]]);
    let output = lab.begin(&["--dangerously-skip-permissions", "Fetch."]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(inside.accept().is_err(), "somebody came");
    let sent_text = lab.server.requests()[1]["messages"].to_string();
    assert_eq!(
        sent_text.matches("is not on the public internet").count(),
        hosts.len() - 1,
        "{sent_text}"
    );
}

/// What a terminal gets of a program.
fn on_a_terminal(command: Command) -> String {
    in_a_terminal(command, "", Duration::from_secs(60)).1
}

#[test]
fn e16_a_terminal_obeys_nothing_that_a_model_says() {
    let nasty = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{9b}2Jc\u{202e}d\u{e0041}e\tf\ng\u{8}\u{7f}";
    let is_plain = |output: &str| {
        output.chars().all(|c| {
            c == '\n'
                || c == '\r'
                || c == '\t'
                || (!c.is_control() && c != '\u{202e}' && c != '\u{e0041}')
        })
    };
    for format in ["text", "json"] {
        let lab = Lab::new(&[&[text(nasty)]]);
        let screen = on_a_terminal(lab.command(&["--output-format", format, "Hello"]));
        assert!(screen.contains("ZXZpbA==") && is_plain(&screen), "{screen:?}");
    }
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": nasty}})
            .to_string();
    let lab = Lab::play(vec![Reply::Status(400, String::new(), body)]);
    let screen = on_a_terminal(lab.command(&["Hello"]));
    assert!(screen.contains("ZXZpbA==") && is_plain(&screen), "{screen:?}");
    // A program gets the bytes as they are.
    let lab = Lab::new(&[&[text(nasty)]]);
    assert_eq!(lab.begin(&["Hello"]).stdout, format!("{nasty}\n").into_bytes());
    // What a host says wrongly is told without harm.
    let lab = Lab::new(&[]);
    let mut host = lab.command(&[
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    let mut host =
        host.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    host.stdin
        .take()
        .unwrap()
        .write_all("{\"type\":\"\\u001b]0;x\\u0007\\u009b2J\"}\n".as_bytes())
        .unwrap();
    let output = host.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("not `user`") && is_plain(&stderr), "{stderr:?}");
}

#[test]
fn e19_what_is_kept_is_for_its_user_alone() {
    let mut lab = Lab::new(&[]);
    let readme = lab.path("README.md");
    lab.server = Server::start(vec![
        vec![call("c1", "Read", &json!({"file_path": readme}))],
        vec![
            call("c2", "Write", &json!({"file_path": readme, "content": "new\n"})),
            call(
                "c3",
                "TodoWrite",
                &json!({"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]}),
            ),
            bash("c4", "head -c 50000 /dev/zero | tr '\\0' x"),
        ],
        vec![text("Done.")],
    ])
    .unwrap();
    let quipu = lab.command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Go."]);
    let mut open = Command::new("bash");
    open.args(["-c", "umask 0; exec \"$@\"", "bash"])
        .arg(quipu.get_program())
        .args(quipu.get_args());
    open.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = open.current_dir(lab.env.path("demo")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let found =
        Command::new("find").arg(lab.env.path(".claude")).args(["-perm", "/077"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    for name in ["projects", "todos", "file-history"] {
        assert!(lab.home(name).is_dir(), "{name}");
    }
    assert!(lab.file().with_extension("").join("context.json").is_file());
}
