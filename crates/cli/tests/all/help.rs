//! Help texts, completions and manual pages.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::env::Env;

/// The whole reference: a change of any help text shows in review.
#[test]
fn reference() {
    let env = Env::bare();
    let mut text = String::new();
    let commands = [
        "",
        "ls",
        "show",
        "tree",
        "turns",
        "export",
        "export md",
        "export json",
        "hook",
        "hook install",
        "hook uninstall",
        "hook status",
        "cat",
        "inventory",
        "drift",
        "follow",
        "files",
        "completions",
        "man",
        "check",
        "history",
        "repair",
        "strip",
        "clone",
        "fork",
        "undo",
        "chat",
        "ship",
        "hook stop",
    ];
    for command in commands {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        writeln!(text, "### quipu {command}\n{}", env.run(&args)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn completions_and_manual_are_made() {
    let env = Env::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = env.output(&["completions", shell]);
        assert!(
            output.status.success()
                && String::from_utf8_lossy(&output.stdout).contains("inventory")
        );
    }
    let page = String::from_utf8(env.output(&["man"]).stdout).unwrap();
    assert!(page.contains(".TH quipu 1") && page.contains("inventory"), "{page}");
    env.output(&["man", "--out", env.path("man").to_str().unwrap()]);
    assert!(env.path("man/quipu-ls.1").is_file() && env.path("man/quipu.1").is_file());
}
