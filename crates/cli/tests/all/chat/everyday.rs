//! Commands of every day work in the sandbox, without a question once a rule allows them.
//!
//! The table is `everyday.txt`; what is not installed is left out, and said. All of it runs in one
//! session, in a small project.

use std::process::{Command, Stdio};

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

#[test]
fn commands_of_every_day_work_without_a_question() {
    let is_there = |program: &str| {
        let mut which = Command::new("bash");
        which.args(["-c", &format!("command -v {program}")]).stdout(Stdio::null());
        which.status().is_ok_and(|status| status.success())
    };
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
    let mut command = lab.command(&["Go.", "--allowedTools", "Bash"]);
    // The tools of whoever runs this, wherever they are.
    let tools = std::env::vars_os().filter(|(name, _)| name == "PATH");
    let homes = [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")].map(|(name, folder)| {
        let given = std::env::vars_os().find(|(key, _)| key == name).map(|(_, value)| value);
        let usual = std::env::home_dir().unwrap_or_default().join(folder).into_os_string();
        (std::ffi::OsString::from(name), given.unwrap_or(usual))
    });
    let output = command.envs(tools).envs(homes).output().unwrap();
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
    assert!(there.len() - broken.len() >= 24, "{broken:#?}");
    assert_eq!(broken, Vec::<String>::new());
}
