//! What rules deny to the tools, the kernel keeps from commands, also where a rule is a pattern.

use std::fs;

use serde_json::{Value, json};

use super::{Lab, SESSION, call, text};

const SECRET: &str = "QUIPU-SECRET-58b2";

/// Runs programs that read and change files in their own way. Returns what the model was told, and
/// what a lock file contains afterwards.
fn results_with(flags: &[&str]) -> (String, String) {
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    let calls = [
        bash("c1", "grep -r QUIPU ."),
        bash("c2", "sh run.sh"),
        bash("c3", "mv lib moved && sh run.sh; mv moved lib"),
    ];
    let mut lab = Lab::says(&[&calls, &[text("Done.")]]);
    for name in [".env", "lib/.env.local", "lib/.config/deep/.env", "node_modules/.env"] {
        lab.env.put(&format!("demo/{name}"), format!("{SECRET}\n"));
    }
    lab.env.put("demo/lib/a.lock", "old\n");
    lab.env.put(
        "demo/run.sh",
        "cat .env */.env* */.config/*/.env; tar cf - . | tr -d '\\0' | grep -a -o 'QUIPU.*'\n\
            for file in */a.lock; do echo new > $file; rm -f $file; echo new > $file; done\n",
    );
    lab.new_session(&[&["Go.", "--allowedTools", "Bash"], flags].concat());
    let results: Vec<Value> =
        lab.lines(SESSION).into_iter().filter(|line| line["type"] == "user").collect();
    let lock = fs::read_to_string(lab.cwd().join("lib/a.lock")).unwrap();
    (Value::from(results).to_string(), lock)
}

#[test]
fn what_a_pattern_denies_is_closed_to_commands_too() {
    let (open, lock) = results_with(&["--sandbox", "off"]);
    assert!(open.matches(SECRET).count() >= 8, "the files are read without rules: {open}");
    assert_eq!(lock, "new\n");
    let mut lab = Lab::says(&[&[text("done")]]);
    if !lab.run(&["Go.", "--sandbox", "require"]).status.success() {
        return;
    }
    let rules = ["--disallowedTools", "Read(**/.env)", "Read(.env.*)", "Edit(*.lock)"];
    for mode in ["default", "acceptEdits", "bypassPermissions", "plan"] {
        let (held, lock) = results_with(&[&rules[..], &["--permission-mode", mode]].concat());
        assert!(held.contains("run.sh"), "{held}");
        assert!(!held.contains(SECRET), "{mode}: {held}");
        assert_eq!(lock, "old\n", "{mode}");
    }
}

/// What is not there yet is not made either; and paths of settings may be patterns.
#[test]
fn what_is_denied_is_not_made_and_patterns_of_settings_count() {
    let command = "mkdir -p locked; echo x > locked/a; echo x > fresh.lock; echo x > nw; \
        cat .env lib/.env; ls locked";
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    let files = json!({"denyRead": ["**/.env"], "denyWrite": ["./nw"]});
    let settings = json!({"sandbox": {"filesystem": files}}).to_string();
    let rules = ["--allowedTools", "Bash", "--settings", &settings];
    let denied = ["--disallowedTools", "Edit(locked/**)", "Edit(*.lock)"];
    for flags in [&["--sandbox", "off"][..], &[]] {
        let mut lab = Lab::says(&[&[text("Done.")]]);
        if flags.is_empty()
            && !lab
                .run(&["Go.", "--sandbox", "require", "--no-session-persistence"])
                .status
                .success()
        {
            return;
        }
        lab.env.put("demo/run.sh", command);
        lab.env.put("demo/.env", SECRET);
        lab.env.put("demo/lib/.env", SECRET);
        lab.server =
            testkit::api::Server::start(vec![vec![bash("c1", "sh run.sh")], vec![text("Done.")]])
                .unwrap();
        let free = if flags.is_empty() { &denied[..] } else { &[] };
        lab.new_session(&[&["Go."][..], &rules, free, flags].concat());
        let names = ["locked/a", "fresh.lock", "nw"];
        let made = names.map(|name| lab.cwd().join(name).exists());
        let seen = lab.server.requests()[1].to_string().matches(SECRET).count();
        if flags.is_empty() {
            assert_eq!((made, seen), ([false; 3], 0));
        } else {
            assert_eq!((made, seen), ([true; 3], 2));
        }
    }
}

#[test]
fn the_flag_is_named_also_in_a_mode_that_does_not_ask() {
    let run = call("c1", "Bash", &json!({"command": "touch x"}));
    let mut lab = Lab::says(&[&[run], &[text("done")]]);
    let output = lab.run(&["Go.", "--permission-mode", "dontAsk"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("`--allowedTools 'Bash(touch x:*)'` would allow it"), "{printed}");
}
