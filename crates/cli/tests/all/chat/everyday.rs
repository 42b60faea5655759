//! Commands of every day work in the sandbox, without a question once a rule allows them.
//!
//! The table is `everyday.txt`; what is not installed is left out, and said. All of it runs in one
//! session, in a small project. `./test real` installs what is missing, and sets `QUIPU_EVERYDAY`:
//! then nothing is left out.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

use super::{Lab, call, text};

const TABLE: &str = include_str!("everyday.txt");

fn project(lab: &Lab) {
    let files = [
        (".gitignore", "target\n*.o\nhello\n"),
        ("Makefile", "all: a.o b.o\n%.o: %.c\n\tcc -c -o $@ $<\n"),
        ("a.c", "int a(void) { return 1; }\n"),
        ("b.c", "int b(void) { return 2; }\n"),
        ("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n"),
        (
            "rust/Cargo.toml",
            "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("rust/src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n"),
        ("js/a.test.js", "require('node:test')('adds', () => {});\n"),
        (
            "package.json",
            r#"{"name":"small","version":"1.0.0","scripts":{"test":"node -e 0","build":"node -e 0"}}"#,
        ),
        ("lib.py", "def one():\n    return 1\n"),
        (
            "test_lib.py",
            "import unittest, lib\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(lib.one(), 1)\n",
        ),
        (
            "server.py",
            "import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\nthreading.Thread(target=lambda: s.accept()[0].sendall(b'ok')).start()\nprint(socket.create_connection(s.getsockname()).recv(9))\n",
        ),
        (
            "test_server.py",
            "import socket, threading\n\ndef test_answer():\n    s = socket.create_server(('127.0.0.1', 0))\n    threading.Thread(target=lambda: s.accept()[0].sendall(b'ok')).start()\n    assert socket.create_connection(s.getsockname()).recv(9) == b'ok'\n",
        ),
        ("app.ts", "const n: number = 1 + 1;\nconsole.log( `n is ${n}` )\n"),
        ("run.sh", "#!/bin/sh\necho ran\n"),
    ];
    for (name, content) in files {
        lab.env.put(&format!("demo/{name}"), content);
    }
    for args in
        [&["init", "-q"][..], &["config", "user.name", "a"], &["config", "user.email", "a@b"]]
    {
        let mut git = Command::new("git");
        git.args(args).current_dir(lab.cwd()).env("HOME", "/nonexistent").stdout(Stdio::null());
        assert!(git.status().unwrap().success());
    }
}

fn is_there(program: &str) -> bool {
    let mut which = Command::new("bash");
    which.args(["-c", &format!("command -v {program}")]).stdout(Stdio::null());
    which.status().is_ok_and(|status| status.success())
}

/// Whether a program is there; says so where it is not.
#[allow(clippy::print_stdout, reason = "what is left out is part of the result")]
fn has(program: &str) -> bool {
    let is_there = is_there(program);
    assert!(is_there || !is_all(), "{program} is not installed");
    if !is_there {
        println!("left out: {program} is not installed");
    }
    is_there
}

/// Whether nothing may be left out.
fn is_all() -> bool {
    std::env::vars_os().any(|(name, _)| name == "QUIPU_EVERYDAY")
}

/// Runs with the tools of whoever runs this, wherever they are.
fn run(lab: &mut Lab, args: &[&str], more: &[(&str, String)]) -> Output {
    let mut command = lab.command(args);
    let tools = std::env::vars_os().filter(|(name, _)| name == "PATH");
    let homes = [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")].map(|(name, folder)| {
        let given = std::env::vars_os().find(|(key, _)| key == name).map(|(_, value)| value);
        let usual = std::env::home_dir().unwrap_or_default().join(folder).into_os_string();
        (std::ffi::OsString::from(name), given.unwrap_or(usual))
    });
    command.envs(tools).envs(homes).envs(more.iter().map(|(name, value)| (name, value)));
    command.output().unwrap()
}

/// One command as the model runs it: whether it works, and what the model gets.
fn tried(lab: &mut Lab, command: &str, flags: &[&str], more: &[(&str, String)]) -> (bool, String) {
    let run_it = call("c1", "Bash", &json!({"command": command, "timeout": 120_000}));
    lab.server = testkit::api::Server::start(vec![vec![run_it], vec![text("done")]]).unwrap();
    let output = run(lab, &[&["Go.", "--allowedTools", "Bash"], flags].concat(), more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests = lab.server.requests();
    let results =
        &requests.last().unwrap()["messages"].as_array().unwrap().last().unwrap()["content"];
    (results[0]["is_error"] != true, results[0]["content"].to_string())
}

/// Answers requests over HTTP, one connection after the other.
fn answer(stream: &mut (impl Read + Write), reply: impl Fn(&str) -> Option<Vec<u8>>) {
    let mut lines = BufReader::new(&mut *stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, body) = match reply(&path) {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Whoever asked may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// A session in a worktree whose repository is elsewhere.
#[test]
fn a_commit_in_a_worktree_works() {
    let mut lab = Lab::says(&[]);
    let git = |lab: &Lab, folder: &str, args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(lab.env.path(folder)).env("HOME", "/nonexistent");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    lab.env.put("main/a", "1\n");
    git(&lab, "main", &["init", "-q"]);
    git(&lab, "main", &["config", "user.name", "a"]);
    git(&lab, "main", &["config", "user.email", "a@b"]);
    git(&lab, "main", &["add", "a"]);
    git(&lab, "main", &["commit", "-qm", "first"]);
    fs::remove_dir_all(lab.cwd()).unwrap();
    git(&lab, "main", &["worktree", "add", "-q", "-b", "topic", "../demo"]);
    let command =
        "echo 2 >> a && git commit -qam second && git status --short && git log --oneline";
    let (works, printed) = tried(&mut lab, command, &[], &[]);
    assert!(works && printed.contains("second"), "{printed}");
    assert_eq!(git(&lab, "main", &["log", "--format=%s", "topic"]), "second\nfirst\n");
    assert_eq!(git(&lab, "main", &["status", "--short"]), "");
}

/// A registry on this machine stands for the one on the network.
#[test]
fn packages_are_installed_where_the_network_is_allowed() {
    if !has("npm") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let registry = format!("http://{}/", listener.local_addr().unwrap());
    let mut lab = Lab::says(&[]);
    lab.env.put("made/package/package.json", r#"{"name":"dep","version":"1.0.0"}"#);
    lab.env.put("made/package/index.js", "module.exports = 42;\n");
    let mut tar = Command::new("tar");
    let status = tar.args(["czf", "dep.tgz", "package"]).current_dir(lab.env.path("made")).status();
    assert!(status.unwrap().success());
    let packed = fs::read(lab.env.path("made/dep.tgz")).unwrap();
    let name = "/dep/-/dep-1.0.0.tgz";
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            answer(&mut stream, |path| (path == name).then(|| packed.clone()));
        }
    });
    let package = json!({"name": "small", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}});
    let lock = json!({"name": "small", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
        "packages": {"": package,
            "node_modules/dep": {"version": "1.0.0", "resolved": format!("{registry}dep/-/dep-1.0.0.tgz")}}});
    lab.env.put("demo/package.json", package.to_string());
    lab.env.put("demo/package-lock.json", lock.to_string());
    let more = [("npm_config_registry", registry), ("npm_config_fetch_retries", "0".to_owned())];
    let command = "npm ci --no-audit --no-fund && node -p 'require(\"dep\")'";
    let (works, printed) = tried(&mut lab, command, &[], &more);
    assert!(!works, "without the network: {printed}");
    let (works, printed) = tried(&mut lab, command, &["--sandbox-network", "on"], &more);
    assert!(works && printed.contains("42"), "{printed}");
    assert!(!lab.env.path(".npm").exists(), "the cache is in the temporary folder");
}

/// It needs the socket of a daemon, which runs whatever it is asked to.
#[test]
fn docker_works_outside_or_where_sockets_are_allowed() {
    if !has("docker") {
        return;
    }
    let mut lab = Lab::says(&[]);
    let socket = lab.env.path("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answers = |path: &str| path.ends_with("/containers/json").then(|| b"[]".to_vec());
            answer(&mut stream, |path| {
                answers(path).or_else(|| path.ends_with("_ping").then(Vec::new))
            });
        }
    });
    let more = [("DOCKER_HOST", format!("unix://{}", socket.display()))];
    let (works, printed) = tried(&mut lab, "docker ps", &[], &more);
    assert!(!works && !printed.contains("CONTAINER ID"), "{printed}");
    let (works, printed) = tried(&mut lab, "docker ps", &["--sandbox", "off"], &more);
    assert!(works && printed.contains("CONTAINER ID"), "{printed}");
    let settings = json!({"sandbox": {"network": {"allowAllUnixSockets": true}}});
    lab.env.put(".claude/settings.json", settings.to_string());
    let (works, printed) = tried(&mut lab, "docker ps", &[], &more);
    assert!(works && printed.contains("CONTAINER ID"), "{printed}");
}

#[test]
fn commands_of_every_day_work_without_a_question() {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.filter_map(|line| line.split_once(" | "));
    let (there, missing): (Vec<_>, Vec<_>) = rows.partition(|(program, _)| is_there(program));
    let calls: Vec<Value> = there
        .iter()
        .enumerate()
        .map(|(number, (_, command))| {
            let input = json!({"command": command, "timeout": 120_000});
            call(&format!("e{number}"), "Bash", &input)
        })
        .collect();
    let mut lab = Lab::says(&[&calls, &[text("done")]]);
    project(&lab);
    let output = run(&mut lab, &["Go.", "--allowedTools", "Bash"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests = lab.server.requests();
    let last = requests.last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
    let results = last["content"].as_array().unwrap();
    let mut broken = Vec::new();
    for ((_, command), result) in there.iter().zip(results) {
        let works = result["is_error"] != true;
        println!("{} {command}", if works { "works:" } else { "does not:" });
        if !works {
            broken.push(format!("{command}: {}", result["content"]));
        }
    }
    println!("not installed: {missing:?}");
    assert!(missing.is_empty() || !is_all(), "not installed: {missing:?}");
    assert!(there.len() - broken.len() >= 24, "{broken:#?}");
    assert_eq!(broken, Vec::<String>::new());
}
