//! Help texts, completions and manual pages.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::env::Env;

/// The commands, those below others included, in the order of their names: each has a manual page.
pub(crate) fn commands(env: &Env) -> Vec<String> {
    env.output(&["man", "--out", env.path("man").to_str().unwrap()]);
    let pages = std::fs::read_dir(env.path("man")).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let mut commands: Vec<String> = names
        .map(|name| {
            let name = name.strip_prefix("quipu").unwrap().strip_suffix(".1").unwrap();
            name.replace('-', " ").trim_start().to_owned()
        })
        .collect();
    commands.sort();
    commands
}

/// The whole reference: a change of any help text shows in review.
#[test]
fn reference() {
    let env = Env::bare();
    let mut text = String::new();
    let mut commands = commands(&env);
    // What Claude Code calls is not listed, and has help all the same.
    commands.push("hook stop".to_owned());
    for command in commands {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = env.run(&args);
        assert!(help.starts_with("exit 0"), "{command}: {help}");
        writeln!(text, "### quipu {command}\n{help}").unwrap();
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
    let commands = commands(&env);
    for command in ["", "ls", "export md", "hook install"] {
        assert!(commands.iter().any(|known| known == command), "{command}: {commands:?}");
    }
}
