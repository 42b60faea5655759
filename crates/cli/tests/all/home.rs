//! `quipu` alone.

use insta::assert_snapshot;

use crate::env::{Env, set_age};

#[test]
fn without_a_claude_home_the_samples_are_shown() {
    assert_snapshot!(Env::bare().run(&[]));
}

#[test]
fn with_sessions_it_says_how_things_stand() {
    let env = Env::with_sessions();
    env.put(".claude/settings.json", r#"{"cleanupPeriodDays": 60}"#);
    assert_snapshot!(env.run(&[]));
}

#[test]
fn an_empty_home_is_no_error() {
    let env = Env::bare();
    env.put(".claude/projects/.keep", "");
    assert_snapshot!(env.run(&[]));
}

#[test]
fn several_homes_are_taken_together() {
    let env = Env::with_sessions();
    let line = "{\"type\":\"user\",\"uuid\":\"u\",\"cwd\":\"/w\",\"message\":{\"content\":\"in the second home\"}}\n";
    let file = env.put("second/projects/-w/12345678.jsonl", line);
    set_age(&file, 60);
    let both = format!("{},{}", env.path(".claude").display(), env.path("second").display());
    let output = env.command(&[]).env("CLAUDE_CONFIG_DIR", &both).output().unwrap();
    let text = env.show(&output);
    assert!(text.contains("10 sessions in 3 projects"), "{text}");
    assert!(text.contains("in the second home"), "{text}");
}

/// One home reached in two ways is one home.
#[cfg(unix)]
#[test]
fn a_link_to_a_home_doubles_nothing() {
    let env = Env::with_sessions();
    std::fs::create_dir_all(env.path(".config")).unwrap();
    std::os::unix::fs::symlink(env.path(".claude"), env.path(".config/claude")).unwrap();
    assert!(env.run(&[]).contains("9 sessions in 2 projects"));
    assert_eq!(env.output(&["cat", "badc0ffe"]).status.code(), Some(0));
}

/// File, then environment, then flags.
#[test]
fn settings_come_in_order() {
    let env = Env::bare();
    let line = |text: &str| {
        format!("{{\"type\":\"user\",\"uuid\":\"u\",\"message\":{{\"content\":\"{text}\"}}}}\n")
    };
    for name in ["file", "environment", "flag"] {
        env.put(&format!("{name}/projects/-w/1.jsonl"), line(&format!("from the {name}")));
    }
    let homes = format!("homes = [{:?}]\ncolor = \"always\"\n", env.path("file"));
    env.put(".config/quipu/config.toml", homes);
    let run = |args: &[&str], set: bool| {
        let mut command = env.command(args);
        if set {
            command.env("CLAUDE_CONFIG_DIR", env.path("environment"));
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let first = run(&["ls", "--all"], false);
    assert!(first.contains("from the file") && first.contains("\u{1b}[1m"), "{first}");
    let second = run(&["ls", "--all"], true);
    assert!(second.contains("from the environment") && second.contains('\u{1b}'), "{second}");
    let plain = env.command(&["ls", "--all"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!plain.stdout.contains(&0x1b), "the environment wins over the file");
    let flag = env.path("flag");
    let last = run(&["ls", "--all", "--color", "never", "--home", flag.to_str().unwrap()], true);
    assert!(last.contains("from the flag") && !last.contains('\u{1b}'), "{last}");
}
