//! What the real client has just written: read whole, with nothing unknown, where we look for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::api::Server;

/// The clients that `./test real` has installed: version and how to start it.
fn clients() -> Vec<(String, Vec<PathBuf>)> {
    let folder = testkit::root().join("target/real/clients");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).expect("`./test real` installs the clients").flatten() {
        let modules = entry.path().join("node_modules/@anthropic-ai");
        let binary = modules.join("claude-code-linux-x64/claude");
        let script = modules.join("claude-code/cli.js");
        let start = if binary.is_file() { vec![binary] } else { vec!["node".into(), script] };
        found.push((entry.file_name().to_string_lossy().into_owned(), start));
    }
    found.sort();
    assert!(!found.is_empty(), "no client under {}", folder.display());
    found
}

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab { folder };
        fs::create_dir_all(lab.cwd()).unwrap();
        fs::create_dir_all(lab.home().join(".claude")).unwrap();
        let cwd = lab.cwd().to_string_lossy().into_owned();
        let state = json!({
            "hasCompletedOnboarding": true,
            "projects": {cwd: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
        });
        for path in [lab.home().join(".claude.json"), lab.home().join(".claude/.claude.json")] {
            write(&path, &state.to_string());
        }
        write(&lab.cwd().join("README.md"), "# Demo\n\nA widget counter.\n");
        lab
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A name with everything that a slug must change.
    fn cwd(&self) -> PathBuf {
        self.folder.path().join("home/my_app v1.0 é中😀")
    }

    fn run(&self, start: &[PathBuf], server: &Server, args: &[&str]) {
        let output = Command::new(&start[0])
            .args(&start[1..])
            .args(["-p", "--dangerously-skip-permissions"])
            .args(args)
            .current_dir(self.cwd())
            .env_clear()
            .env("PATH", std::env::join_paths(["/usr/local/bin", "/usr/bin", "/bin"]).unwrap())
            .env("HOME", self.home())
            .env("CLAUDE_CONFIG_DIR", self.home().join(".claude"))
            .env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key")
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("DISABLE_TELEMETRY", "1")
            .env("IS_SANDBOX", "1")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn quipu(&self, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(args)
            .current_dir(self.cwd())
            .env_clear()
            .env("HOME", self.home())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The sessions that we find in the project.
    fn listed(&self) -> Vec<Value> {
        let text = self.quipu(&["ls", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The id of the only one.
    fn session(&self) -> String {
        self.listed()[0]["id"].as_str().unwrap().to_owned()
    }
}

#[allow(clippy::disallowed_methods, reason = "tests make the files they need")]
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

fn answers(cwd: &Path) -> Vec<Vec<Value>> {
    let file = cwd.join("README.md");
    vec![
        vec![
            json!({"type": "text", "text": "I will read it."}),
            json!({"type": "tool_use", "id": "toolu_test1", "name": "Read", "input": {"file_path": file}}),
        ],
        vec![json!({"type": "text", "text": "A widget counter."})],
        vec![json!({"type": "text", "text": "Still one."})],
    ]
}

#[test]
fn what_every_client_writes_is_read() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab.cwd())).unwrap();
        lab.run(&start, &server, &["What does README.md say?"]);
        lab.run(&start, &server, &["--resume", &lab.session(), "And now?"]);

        // Found through the folder's name, which is ours and the client's.
        let listed = lab.listed();
        assert_eq!(listed.len(), 1, "{version}: {listed:?}");
        assert_eq!(listed[0]["prompt"], "What does README.md say?", "{version}");
        assert_eq!(listed[0]["cwd"], lab.cwd().to_str().unwrap(), "{version}");
        assert_eq!(listed[0]["version"], version.as_str());
        assert_eq!(listed[0]["flags"], json!([]), "{version}");

        // All of it known: this fails when a release brings something new, and says what.
        assert_eq!(lab.quipu(&["drift", "--all"]), "", "{version}");

        let text = lab.quipu(&["inventory", "last", "--json"]);
        let total = &serde_json::from_str::<Value>(&text).unwrap()["total"];
        assert_eq!(total["human_turns"], 2, "{version}: {text}");
        assert_eq!(total["tools"], json!({"Read": 1}), "{version}");
        assert_eq!((&total["damaged"], &total["recovered"]), (&json!(0), &json!(0)), "{version}");

        let path = listed[0]["path"].as_str().unwrap();
        let raw = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["cat", "--raw", path]).output();
        assert_eq!(raw.unwrap().stdout, fs::read(path).unwrap(), "{version}");
        println!(
            "{version}: {} records read, {} requests",
            total["records"],
            server.requests().len()
        );
    }
}

/// Following a session while the client writes it.
#[test]
fn a_session_is_followed_while_it_is_written() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab.cwd())).unwrap();
        lab.run(&start, &server, &["What does README.md say?"]);
        let out = lab.folder.path().join("followed.jsonl");
        let mut follow = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["follow", "last", "--from-start", "--json"])
            .env_clear()
            .env("HOME", lab.home())
            .stdout(fs::File::create(&out).unwrap())
            .spawn()
            .unwrap();
        lab.run(&start, &server, &["--resume", &lab.session(), "And now?"]);
        let expected = lab.quipu(&["cat", "last"]);
        let end = Instant::now() + Duration::from_secs(20);
        while fs::read_to_string(&out).unwrap() != expected && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        follow.kill().unwrap();
        follow.wait().unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), expected, "{version}");
    }
}
