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

/// `docs/configuration.md` says of every command what it writes, or that it only reads.
#[test]
fn every_command_is_known_to_write_or_only_to_read() {
    let text = std::fs::read_to_string(testkit::root().join("docs/configuration.md")).unwrap();
    let (_, text) = text.split_once("## What Quipu writes").unwrap();
    let (table, reading) = text.split_once("These only read:").unwrap();
    let (reading, _) = reading.split_once("\n\n").unwrap();
    // Every second part stands between back quotes.
    let quoted = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(|name| name.replace('\n', " ")).collect()
    };
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let writing: Vec<String> = rows.flat_map(quoted).collect();
    let reading = quoted(reading);
    let commands = commands(&Env::bare());
    let is_group = |name: &str| commands.iter().any(|one| one.starts_with(&format!("{name} ")));
    for command in commands.iter().filter(|name| !name.is_empty() && !is_group(name)) {
        let (writes, reads) = (writing.contains(command), reading.contains(command));
        assert!(writes != reads, "{command}: in the table {writes}, in the list {reads}");
    }
    for name in writing.iter().chain(&reading) {
        // With the flag that makes it write, or what the client calls.
        let command = name.split(" --").next().unwrap();
        let is_known = commands.iter().any(|one| one == command) || command == "hook stop";
        assert!(is_known, "{name} is no command");
    }
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
