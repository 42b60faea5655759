//! The agent at work beside whoever does not mean well: a model, an API, a file, a page, a folder; and in a world
//! where readers go away and processes are killed. One test for each finding, of the built program.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use testkit::api::{Reply, Server};

use crate::env::Env;

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
            .env("CLAUDE_CODE_MAX_RETRIES", "0");
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

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs, and is no mere entry that nobody has read.
fn is_alive(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default().to_owned();
    let has = Command::new("kill").args(["-0", id]).stderr(Stdio::null()).status().unwrap();
    has.success() && !state.starts_with('Z')
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
        .command(&["--session-id", SESSION, "--permission-mode", "acceptEdits", "Write."])
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
        record(json!({"type": "user", "uuid": first, "parentUuid": null, "message": {"role": "user", "content": "Hello"}})),
        format!("{snapshot}\n"),
        record(json!({"type": "assistant", "uuid": "aaaaaaaa-0000-4000-8000-000000000002", "parentUuid": first, "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [text("Hi.")],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }})),
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
        assert_eq!(names, [".claude", "demo", "tmp"], "{id}");
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
    let told = lab.server.requests()[1]["messages"].to_string();
    assert!(
        !told.contains("very secret") && told.contains("was not permitted"),
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
    let code = ended(&mut child, Duration::from_secs(10));
    let taken = begin.elapsed().as_secs_f64();
    let mut told = String::new();
    if code.is_some() {
        child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    }
    let mut numbers = told.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
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
            if place.ends_with(".jsonl") {
                command = lab.command(&["--resume", path.to_str().unwrap(), "Hello"]);
            }
            let (code, taken, memory) = measured(&command);
            assert!(code.is_some() && taken < 2.0, "{place}, {what}: {code:?} after {taken} s");
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
    assert!(code == Some(0) && taken < 2.0, "{code:?} after {taken} s");
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
    let start = r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let open = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let tool = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"Write","input":{}}}"#;
    let long = "x".repeat(100_000);
    let delta = |kind: &str, member: &str, text: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"{kind}\",\"{member}\":\"{text}\"}}}}\n\n"
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
        assert!(taken < 8.0 && memory < 128, "{name}: {taken} s, {memory} MB");
        assert!(fs::metadata(lab.file()).unwrap().len() < 16 << 20, "{name}");
        let told = lab.transcript();
        assert!(
            told.contains("does not end") || told.contains("nothing came any more"),
            "{name}: {told}"
        );
    }
}

/// What must not be found: the key, as it is and within base64.
fn shapes() -> Vec<String> {
    let encoded = (0..3).map(|before| {
        let text = format!("{}{KEY}", "x".repeat(before));
        let whole = base64::engine::general_purpose::STANDARD_NO_PAD.encode(text);
        whole[4..whole.len() - 4].to_owned()
    });
    [KEY.to_owned()].into_iter().chain(encoded).collect()
}

/// Whether a file or an output holds the key, also broken into lines.
fn holds_key(text: &str) -> bool {
    let joined = text.replace(['\n', '\r'], "").replace("\\n", "");
    shapes().iter().any(|shape| joined.contains(shape))
}

/// All files below a folder that hold the key.
fn holding(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(holding(&path));
        } else if kind.is_file() && holds_key(&String::from_utf8_lossy(&fs::read(&path).unwrap())) {
            found.push(path);
        }
    }
    found
}

/// What a command finds that looks for the key everywhere.
const LOOK: &str = "env; tr '\\0' '\\n' </proc/$PPID/environ; for p in /proc/[0-9]*; do \
    c=$(tr '\\0' ' ' <$p/cmdline 2>/dev/null); case $c in *quipu*|*watcher*) \
    cat $p/environ 2>/dev/null | tr '\\0' '\\n';; esac; done; cat /proc/$PPID/cmdline; ls -l /proc/$PPID/fd";

#[test]
fn e14_no_command_sees_the_key() {
    let runs = |lab: &Lab, command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
        // It went to the API, and the prompt came by the standard input that was there before.
        let told = lab.server.requests().last().unwrap()["messages"].to_string();
        assert!(told.contains("PATH=/usr/local/bin"), "{told}");
        assert!(!told.contains("only-here") && !told.contains("[redacted api key]"), "{told}");
        assert!(!told.contains("hunter2222") && !told.contains("oauth-token-value"), "{told}");
        assert!(holding(&lab.env.path("")).is_empty());
    };
    let answers: [&[Value]; 2] = [&[bash("c1", LOOK)], &[text("Done.")]];
    let lab = Lab::new(&answers);
    let mut command =
        lab.command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Look."]);
    // One of its own: others that are just starting have theirs.
    command.env("ANTHROPIC_API_KEY", "sk-ant-this-key-is-only-here-0123456789");
    command.env("CLAUDE_CODE_OAUTH_TOKEN", "oauth-token-value");
    command.env("HTTPS_PROXY", "http://me:hunter2222@127.0.0.1:9");
    runs(&lab, &mut command);
    // Keys that settings bring do not reach commands either.
    let lab = Lab::new(&answers);
    let settings =
        json!({"env": {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_FOUNDRY_API_KEY": KEY}}).to_string();
    let args = [
        "--session-id",
        SESSION,
        "--dangerously-skip-permissions",
        "--settings",
        &settings,
        "--",
        "Look.",
    ];
    let output = lab.run(&args);
    let told = lab.server.requests()[1]["messages"].to_string();
    // The command line is the user's own: there it is found, and hidden.
    assert!(told.contains("PATH=") && !holds_key(&told), "{}", shown(&output));
    // As another user, who may not look into the process at all.
    let lab = Lab::new(&answers);
    if !Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("not tried as another user: this one may not become another");
        return;
    }
    let quipu = lab.command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Look."]);
    let program = lab.env.put("bin/quipu", fs::read(quipu.get_program()).unwrap());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let everything = ["-R", "a+rwX", lab.env.path("").to_str().unwrap()].map(str::to_owned);
    assert!(Command::new("chmod").args(everything).status().unwrap().success());
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(quipu.get_args());
    other.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.current_dir(lab.env.path("demo")).stdin(Stdio::null());
    let output = other.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let told = lab.server.requests()[1]["messages"].to_string();
    assert!(told.contains("Permission denied") && !holds_key(&told), "{told}");
}

#[test]
fn e14_starting_again_changes_nothing_else() {
    // The prompt by the standard input, the name by which it was called, and the exit code.
    let lab = Lab::new(&[&[text("Done.")]]);
    let link = lab.env.path("claude");
    symlink(env!("CARGO_BIN_EXE_quipu"), &link).unwrap();
    let quipu = lab.command(&[]);
    let mut command = Command::new(&link);
    command.args(["-p", "--output-format", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.current_dir(lab.env.path("demo")).spawn().unwrap();
    let id = child.id();
    child.stdin.take().unwrap().write_all(b"From the pipe.").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{} {id}", shown(&output));
    assert!(lab.server.requests()[0]["messages"].to_string().contains("From the pipe."));
    // A mark that somebody forged is no reason to wait, nor to take what a host says.
    let lab = Lab::new(&[&[text("Done.")]]);
    let script = "QUIPU_HANDOVER=$$ exec \"$@\"";
    let quipu = lab.command(&["Hello"]);
    let mut forged = Command::new("bash");
    forged.args(["-c", script, "bash"]).arg(quipu.get_program()).args(quipu.get_args());
    forged.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    forged.current_dir(lab.env.path("demo")).stdin(std::os::fd::OwnedFd::from(theirs));
    let begin = Instant::now();
    let mut child = forged.stdout(Stdio::piped()).spawn().unwrap();
    (&ours).write_all(b"quip and more").unwrap();
    drop(ours);
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((child.wait().unwrap().code(), told.as_str()), (Some(0), "Done.\n"));
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert!(lab.server.requests()[0]["messages"].to_string().contains("quip and more"));
}

#[test]
fn e14_the_key_is_nowhere_afterwards() {
    let half = KEY.len() / 2;
    let (first, last) = KEY.split_at(half);
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("ab{KEY}\n"));
    let shown_key = [
        bash(
            "c1",
            &format!(
                "echo {KEY}; printf 'x%s' {KEY} | base64; printf %s {KEY} | base64 -w0 | tr '+/' '-_'"
            ),
        ),
        bash("c2", &format!("echo {KEY} >&2; exit 3")),
        // Long enough to be put aside, with the key across a border of any size.
        bash(
            "c3",
            &format!(
                "head -c 65500 /dev/zero | tr '\\0' x; echo {KEY}; head -c 40000 /dev/zero | tr '\\0' y"
            ),
        ),
        bash(
            "c4",
            &format!(
                "head -c 1950 /dev/zero | tr '\\0' x; head -c {half} ../raw.key; sleep 2.6; tail -c +{} ../raw.key; sleep 2.2",
                half + 1
            ),
        ),
        call(
            "c5",
            "Bash",
            &json!({"command": format!("head -c {half} ../raw.key; sleep 0.7; tail -c +{} ../raw.key; sleep 0.3; echo; base64 ../raw.key", half + 1), "run_in_background": true}),
        ),
        call("c6", "Write", &json!({"file_path": "made.txt", "content": KEY})),
        call("c7", "Read", &json!({"file_path": "key.txt"})),
        call("c8", "Grep", &json!({"pattern": "sk-ant", "path": ".", "output_mode": "content"})),
        bash("c9", "sleep 0.4"),
    ];
    let mut lab = Lab::new(&[]);
    lab.env.put("demo/key.txt", format!("one\n{KEY}\n{encoded}\n"));
    lab.env.put("raw.key", KEY);
    let mut reply = vec![text(&format!("The key is {KEY}, and {encoded}."))];
    reply.extend(shown_key);
    lab.server =
        Server::start(vec![reply, vec![text(KEY)], vec![text(&encoded)], vec![text("Done.")]])
            .unwrap();
    let args = [
        "--session-id",
        SESSION,
        "--dangerously-skip-permissions",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "Show me.",
    ];
    let output = lab.run(&args);
    let printed = shown(&output);
    assert!(!holds_key(&printed), "{printed}");
    assert!(!printed.contains(first) && !printed.contains(&last[..last.len() - 2]), "{printed}");
    assert!(printed.contains("[redacted api key]"));
    let requests = lab.server.requests();
    assert!(requests.len() >= 3 && !requests.iter().any(|request| holds_key(&request.to_string())));
    fs::remove_file(lab.path("key.txt")).unwrap();
    fs::remove_file(lab.env.path("raw.key")).unwrap();
    assert_eq!(holding(&lab.env.path("")), Vec::<PathBuf>::new());
    let transcript = lab.transcript();
    assert!(!transcript.contains(first), "a half of it is there");
    assert_eq!(lab.check(), "full");
    // An error of the API may quote it.
    let body = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("invalid x-api-key: {KEY}")}});
    let lab = Lab::play(vec![Reply::Status(401, String::new(), body.to_string())]);
    let output = lab.begin(&["Hello"]);
    assert!(
        output.status.code() == Some(1) && shown(&output).contains("[redacted api key]"),
        "{}",
        shown(&output)
    );
    assert!(!holds_key(&shown(&output)) && holding(&lab.env.path("")).is_empty());
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
    let told = lab.server.requests()[1]["messages"].to_string();
    assert_eq!(told.matches("is not on the public internet").count(), hosts.len() - 1, "{told}");
}

/// A terminal for a program: what reaches it.
fn on_a_terminal(command: &Command) -> Vec<u8> {
    let mut script = Command::new("script");
    let quoted =
        |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    script.args(["-qec", &words.join(" "), "/dev/null"]);
    script.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    script.output().unwrap().stdout
}

#[test]
fn e16_a_terminal_obeys_nothing_that_a_model_says() {
    let nasty = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{9b}2Jc\u{202e}d\u{e0041}e\tf\ng\u{8}\u{7f}";
    if !Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("not tried: there is no `script` to make a terminal");
        return;
    }
    let is_plain = |told: &str| {
        told.chars().all(|c| {
            c == '\n'
                || c == '\r'
                || c == '\t'
                || (!c.is_control() && c != '\u{202e}' && c != '\u{e0041}')
        })
    };
    for format in ["text", "json"] {
        let lab = Lab::new(&[&[text(nasty)]]);
        let told = on_a_terminal(&lab.command(&["--output-format", format, "Hello"]));
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("ZXZpbA==") && is_plain(&told), "{told:?}");
    }
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": nasty}})
            .to_string();
    let lab = Lab::play(vec![Reply::Status(400, String::new(), body)]);
    let told = String::from_utf8(on_a_terminal(&lab.command(&["Hello"]))).unwrap();
    assert!(told.contains("ZXZpbA==") && is_plain(&told), "{told:?}");
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
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("not `user`") && is_plain(&told), "{told:?}");
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

#[test]
fn g5_nothing_is_done_that_nobody_reads() {
    let stream = ["--output-format", "stream-json", "--verbose"];
    // Somebody reads a line and goes, as `head -1` does; or a host dies while a command runs and nothing is said.
    for (name, args, reads) in [("events", &stream[..], true), ("a text", &[][..], false)] {
        let lab = Lab::new(&[
            &[bash("c1", "echo $$ >one; sleep 1.5")],
            &[bash("c2", "touch two")],
            &[text("Done.")],
        ]);
        let all: Vec<&str> = ["--session-id", SESSION, "--dangerously-skip-permissions"]
            .iter()
            .chain(args)
            .copied()
            .chain(["Go."])
            .collect();
        let mut child = lab.command(&all).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        if reads {
            out.read_line(&mut String::new()).unwrap();
        }
        until("the first command", || lab.path("one").exists());
        drop(out);
        let begin = Instant::now();
        assert_eq!(ended(&mut child, Duration::from_secs(10)), Some(141), "{name}");
        assert!(
            begin.elapsed() < Duration::from_millis(1_200),
            "{name}: the command was waited for"
        );
        thread::sleep(Duration::from_millis(300));
        assert_eq!(lab.server.requests().len(), 1, "{name}");
        assert!(!lab.path("two").exists(), "{name}");
        assert!(lab.transcript().contains("[Request interrupted by user for tool use]"), "{name}");
        assert_eq!(lab.check(), "full", "{name}");
    }
    // While the API is asked.
    let lab = Lab::play(vec![Reply::Silent(
        vec![text("One."), bash("c1", "touch one")],
        3,
        Duration::from_secs(5),
    )]);
    let mut child = lab
        .command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Go."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("the request", || !lab.server.requests().is_empty());
    drop(child.stdout.take());
    assert_eq!(ended(&mut child, Duration::from_secs(3)), Some(141));
    assert!(!lab.path("one").exists());
    // Whoever goes when all is said has what they wanted.
    let lab = Lab::new(&[&[text("Done.")]]);
    let mut child =
        lab.command(&["--session-id", SESSION, "Go."]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    assert_eq!(ended(&mut child, Duration::from_secs(10)), Some(0));
}

#[test]
fn g5_a_file_that_changed_is_never_replaced_unread() {
    // Each puts other work in the place of what was read, with an older time.
    let ways = [
        "cp -p ../work/README.md README.md",
        "rm README.md; tar -C ../work -cf - README.md | tar -xf -",
        "rsync -a ../work/README.md README.md",
        "touch -r README.md ../stamp; echo '# Work' >README.md; touch -r ../stamp README.md",
    ];
    for way in ways {
        let tool = way.split(' ').next().unwrap();
        if !Command::new("which").arg(tool).stdout(Stdio::null()).status().unwrap().success() {
            println!("not tried: there is no `{tool}`");
            continue;
        }
        for resumed in [true, false] {
            let mut lab = Lab::new(&[]);
            let work = lab.env.put("work/README.md", "# Work\n");
            let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            fs::File::options().append(true).open(&work).unwrap().set_modified(old).unwrap();
            let readme = lab.path("README.md");
            let read = vec![call("c1", "Read", &json!({"file_path": readme}))];
            let write =
                vec![call("c3", "Write", &json!({"file_path": readme, "content": "mine\n"}))];
            let args = ["--dangerously-skip-permissions"];
            if resumed {
                lab.server =
                    Server::start(vec![read, vec![text("Read.")], write, vec![text("Done.")]])
                        .unwrap();
                lab.begin(&[args[0], "Read."]);
                let done = Command::new("bash")
                    .args(["-c", way])
                    .current_dir(lab.path(""))
                    .status()
                    .unwrap();
                assert!(done.success(), "{way}");
                lab.run(&[args[0], "--resume", SESSION, "Write."]);
            } else {
                lab.server =
                    Server::start(vec![read, vec![bash("c2", way)], write, vec![text("Done.")]])
                        .unwrap();
                lab.begin(&[args[0], "Write."]);
            }
            assert_eq!(
                fs::read_to_string(&readme).unwrap(),
                "# Work\n",
                "{way}, resumed: {resumed}"
            );
            assert!(lab.transcript().contains("File has changed since it was read"), "{way}");
        }
    }
}

#[test]
fn g5_what_is_known_after_a_resume() {
    let lines = (1..=30).map(|line| format!("line {line}\n")).collect::<String>();
    let edit = |id: &str, name: &str| {
        call(
            id,
            "Edit",
            &json!({"file_path": name, "old_string": "line 7\n", "new_string": "seven\n"}),
        )
    };
    let read = |id: &str, name: &str| call(id, "Read", &json!({"file_path": name}));
    let part = call("r2", "Read", &json!({"file_path": "part.txt", "offset": 1, "limit": 10}));
    let lab = Lab::new(&[
        &[
            read("r1", "whole.txt"),
            part,
            read("r3", "touched.txt"),
            read("r4", "edited.txt"),
            call("w1", "Write", &json!({"file_path": "written.txt", "content": lines})),
        ],
        &[call(
            "e0",
            "Edit",
            &json!({"file_path": "edited.txt", "old_string": "line 9\n", "new_string": "nine\n"}),
        )],
        &[text("Read.")],
        &[
            edit("e1", "whole.txt"),
            edit("e2", "part.txt"),
            edit("e3", "touched.txt"),
            edit("e4", "edited.txt"),
            edit("e5", "written.txt"),
        ],
        &[text("Done.")],
    ]);
    for name in ["whole.txt", "part.txt", "touched.txt", "edited.txt"] {
        lab.env.put(&format!("demo/{name}"), &lines);
    }
    lab.begin(&["--dangerously-skip-permissions", "Read."]);
    // Another time is no other content.
    let later = std::time::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    fs::File::options()
        .append(true)
        .open(lab.path("touched.txt"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    lab.run(&["--dangerously-skip-permissions", "--resume", SESSION, "Edit."]);
    let has = |name: &str| fs::read_to_string(lab.path(name)).unwrap().contains("seven");
    let found = ["whole.txt", "part.txt", "touched.txt", "edited.txt", "written.txt"].map(has);
    // What was read in part has to be read again.
    assert_eq!(found, [true, false, true, true, true], "{}", lab.transcript());
}

#[test]
fn g3_what_had_come_before_an_interrupt_stays() {
    let half = vec![text("All that I know about knots is this.")];
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    for (name, blocks, after, kept) in
        [("a text", half.clone(), 3, true), ("thinking", vec![thinking], 3, false)]
    {
        let mut lab = Lab::play(vec![Reply::Silent(blocks, after, Duration::from_secs(20))]);
        let mut command = lab.command(&["--session-id", SESSION, "Tell me."]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        until("the request", || !lab.server.requests().is_empty());
        thread::sleep(Duration::from_millis(400));
        assert!(
            Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told.contains("about knots is this."), kept, "{name}: {told}");
        assert!(told.ends_with("Interrupted.\n"), "{told}");
        let said = |line: &Value| {
            line["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
        };
        let assistant = lab
            .lines()
            .iter()
            .filter(|line| line["type"] == "assistant")
            .map(said)
            .collect::<Vec<_>>();
        assert_eq!(
            assistant,
            if kept { vec!["All that I know about knots is this.".to_owned()] } else { vec![] },
            "{name}"
        );
        assert_eq!(lab.check(), "full", "{name}");
        // It goes on from there.
        lab.server = Server::start(vec![vec![text("And so on.")]]).unwrap();
        let output = lab.run(&["--resume", SESSION, "Go on."]);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "And so on.\n",
            "{name}: {}",
            shown(&output)
        );
        let told = lab.server.requests()[0]["messages"].to_string();
        assert_eq!(told.contains("about knots is this."), kept, "{name}: {told}");
        assert!(told.contains("[Request interrupted by user]"), "{name}: {told}");
    }
}

#[test]
fn g5_a_killed_agent_leaves_no_command_and_no_output() {
    let lab = Lab::new(&[
        &[
            call(
                "c1",
                "Bash",
                &json!({"command": "echo $$ >first; sleep 61 & echo $! >child; sleep 62", "run_in_background": true}),
            ),
            bash("c2", "echo $$ >second; sleep 63"),
        ],
        &[text("Done.")],
    ]);
    let args = ["--session-id", SESSION, "--dangerously-skip-permissions", "Wait."];
    // Killed with its group, as a terminal or a host may do it.
    let mut command = lab.command(&args);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let number =
        |name: &str| fs::read_to_string(lab.path(name)).unwrap_or_default().trim().to_owned();
    until("the commands", || {
        ["first", "child", "second"].iter().all(|name| !number(name).is_empty())
    });
    let all = ["first", "child", "second"].map(number);
    assert!(all.iter().all(|id| is_alive(id)), "{all:?}");
    assert!(
        Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", child.id())])
            .status()
            .unwrap()
            .success()
    );
    child.wait().unwrap();
    until("the end of the commands", || !all.iter().any(|id| is_alive(id)));
    // What they had put out is removed by the next run that runs one.
    let left = || {
        fs::read_dir(lab.env.path("tmp"))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(left().len(), 1);
    let next = Lab {
        server: Server::start(vec![vec![bash("c1", "true")], vec![text("Done.")]]).unwrap(),
        env: lab.env,
    };
    let output = next.run(&["--resume", SESSION, "--dangerously-skip-permissions", "Go on."]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert_eq!(fs::read_dir(next.env.path("tmp")).unwrap().count(), 0);
}

#[test]
fn g5_a_history_without_its_beginning_is_told_the_same() {
    let mut lab = Lab::new(&[&[text("One.")], &[text("Two.")]]);
    lab.env.put("demo/CLAUDE.md", "Be brief.\n");
    lab.begin(&["First."]);
    let kept: String = lab
        .transcript()
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).unwrap()["type"] != "user")
        .fold(String::new(), |all, line| all + line + "\n");
    fs::write(lab.file(), kept).unwrap();
    fs::remove_dir_all(lab.file().with_extension("")).unwrap();
    lab.server = Server::start(vec![vec![text("Three.")]]).unwrap();
    let output = lab.run(&["--resume", SESSION, "Second."]);
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 1, "{}", shown(&output));
    let messages = requests[0]["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    assert!(messages[0].to_string().contains("Be brief."), "{messages:?}");
}
