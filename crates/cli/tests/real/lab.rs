//! The real client in a home of its own, talking to a scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::api::Server;

/// The clients that `./test real` has installed: version and how to start it.
pub(crate) fn clients() -> Vec<(String, Vec<PathBuf>)> {
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

pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
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
            write(&path, state.to_string());
        }
        write(&lab.cwd().join("README.md"), "# Demo\n\nA widget counter.\n");
        lab
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A name with everything that a slug must change.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().join("home/my_app v1.0 é中😀")
    }

    /// A client in this home, and nothing else of the machine's.
    pub(crate) fn command(&self, start: &[PathBuf], server: &Server) -> Command {
        let mut command = Command::new(&start[0]);
        command
            .args(&start[1..])
            .arg("-p")
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
            .env("CLAUDE_CODE_MAX_RETRIES", "2")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs the client, whatever comes of it.
    pub(crate) fn try_run(&self, start: &[PathBuf], server: &Server, args: &[&str]) -> Output {
        let mut command = self.command(start, server);
        command.arg("--dangerously-skip-permissions").args(args).output().unwrap()
    }

    /// Runs the client, which must end well.
    pub(crate) fn run(&self, start: &[PathBuf], server: &Server, args: &[&str]) {
        let output = self.try_run(start, server, args);
        assert!(
            output.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn quipu(&self, args: &[&str]) -> String {
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
    pub(crate) fn listed(&self) -> Vec<Value> {
        let text = self.quipu(&["ls", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The id of the only one.
    pub(crate) fn session(&self) -> String {
        self.listed()[0]["id"].as_str().unwrap().to_owned()
    }
}

#[allow(clippy::disallowed_methods, reason = "tests make the files they need")]
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
}
