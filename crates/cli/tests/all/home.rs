//! `quipu` alone.

use insta::assert_snapshot;

#[cfg(unix)]
use crate::env::in_a_terminal;
use crate::env::{Env, set_age};

#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// Samples are for people who try the program; whatever reads its output must not take them for
/// sessions.
#[cfg(unix)]
#[test]
fn without_a_claude_home_the_samples_are_shown() {
    let env = Env::bare();
    let (code, seen) = in_a_terminal(env.command(&[]), "", PATIENCE);
    assert_eq!(code, Some(0), "{seen}");
    assert_snapshot!(env.cleaned(&seen));
    // All of them are here: the first one is the last.
    let (code, seen) = in_a_terminal(env.command(&["show", "last"]), "", PATIENCE);
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("weekend tide chart"), "{seen}");
    assert_snapshot!(env.run(&[]), @r"
    exit 3
    --- stderr
    error: no Claude home found (looked for `[HOME]/.claude`, `[HOME]/.config/claude`)
    hint: set `--home` or `CLAUDE_CONFIG_DIR`; in a terminal, quipu shows sample sessions
    ");
    for args in [&["ls", "--json"][..], &["check", "--all"], &["inventory", "--all"]] {
        let output = env.output(args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{args:?}");
    }
}

/// A home that somebody names must be there, also in a terminal.
#[test]
fn a_home_that_is_named_and_missing_is_an_error() {
    let env = Env::with_sessions();
    let missing = env.path("none");
    let both = format!("{},{}", env.path(".claude").display(), missing.display());
    let mut commands = vec![env.command(&["ls", "--json", "--home", missing.to_str().unwrap()])];
    for value in [missing.to_str().unwrap(), &both] {
        let mut command = env.command(&["ls", "--json"]);
        command.env("CLAUDE_CONFIG_DIR", value);
        commands.push(command);
    }
    let configured = Env::with_sessions();
    configured.put(".config/quipu/config.toml", format!("homes = [{missing:?}]\n"));
    commands.push(configured.command(&["ls", "--json"]));
    for mut command in commands {
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{command:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("is not a Claude home") && text.contains("names it"), "{text}");
        #[cfg(unix)]
        assert_eq!(in_a_terminal(command, "", PATIENCE).0, Some(2));
    }
}

/// Sessions that cannot be read are not sessions that are not there. Nobody may read these, root
/// included.
#[cfg(unix)]
#[test]
fn projects_that_cannot_be_read_are_said_to_be_so() {
    let env = Env::bare();
    let projects = env.put(".claude/projects", "no folder");
    for kind in ["a file", "a loop"] {
        if kind == "a loop" {
            std::fs::remove_file(&projects).unwrap();
            std::os::unix::fs::symlink(&projects, &projects).unwrap();
        }
        for args in [
            &[][..],
            &["ls"],
            &["ls", "--all", "--json"],
            &["inventory", "--all"],
            &["check", "--all"],
            &["drift", "--all"],
            &["ship", "--all", "--dry-run"],
            &["show", "last"],
        ] {
            let text = env.run(args);
            assert!(text.starts_with("exit 4\n--- stderr\nerror: cannot read"), "{args:?} {text}");
            assert!(text.contains("`[HOME]/.claude/projects`"), "{args:?} {text}");
        }
    }
}

/// What `check` finds, the overview finds: here a session whose file is whole at both ends and
/// loses its beginning.
#[test]
fn the_overview_says_what_check_says() {
    let env = Env::with_sessions();
    let script = testkit::session::Script::new()
        .prompt("p1", "-", "one")
        .says("a1", "p1", "m1", "answer")
        .prompt("p2", "-", "two")
        .says("a2", "p2", "m2", "last");
    env.put(".claude/projects/-w/lossy123-0000.jsonl", script.text());
    env.put(".claude/projects/-w/empty123-0000.jsonl", "");
    env.put(".claude/projects/-w/silent12-0000.jsonl", "{\"type\":\"mode\",\"mode\":\"x\"}\n");
    let text = env.run(&[]);
    let all = String::from_utf8(env.output(&["check", "--all", "--json"]).stdout).unwrap();
    let bad = |line: &&str| !line.contains(r#""verdict":"full""#);
    let mut expected = 0;
    for line in all.lines().filter(bad) {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        let codes = found["findings"].as_array().unwrap().iter();
        let is_silent = codes.map(|one| &one["code"]).any(|code| code == "no-conversation");
        let id = &found["id"].as_str().unwrap()[..8];
        assert_eq!(
            text.contains(&format!("quipu repair {id} --dry-run")),
            !is_silent,
            "{id}\n{text}"
        );
        expected += usize::from(!is_silent);
    }
    assert!(expected >= 2 && text.matches("--dry-run").count() == expected, "{text}");
    assert!(text.contains("10 of 10 checked: ") && text.contains("2 more are empty"), "{text}");
    assert!(text.contains("contains no conversation"), "{text}");
    assert!(!text.to_lowercase().contains("broken"), "{text}");
    // The commands that it shows work.
    for line in text.lines().filter(|line| line.contains("quipu check ")) {
        let words = line.split("  ").find(|part| part.starts_with("quipu")).unwrap();
        let args: Vec<&str> = words.split(' ').skip(1).collect();
        assert!(matches!(env.output(&args).status.code(), Some(10..=12)), "{words}");
    }
}

/// However many sessions there are, the overview comes at once, and says how many it has looked at.
#[test]
fn twenty_thousand_sessions_are_no_reason_to_wait() {
    let env = Env::bare();
    let script =
        testkit::session::Script::new().prompt("p1", "-", "one").says("a1", "p1", "m1", "a");
    for number in 0..20_000 {
        let project = number % 200;
        env.put(&format!(".claude/projects/-w-{project}/{number:08}-0.jsonl"), script.text());
    }
    // A machine that does other things at the same time is slow now and then, not always.
    let mut best = f64::MAX;
    for _ in 0..30 {
        if best < 0.6 {
            break;
        }
        let begin = std::time::Instant::now();
        let output = env.command(&[]).env_remove("QUIPU_NOW").output().unwrap();
        best = best.min(begin.elapsed().as_secs_f64());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("20000 sessions in 200 projects"), "{text}");
        assert!(text.contains(" of 20000 checked"), "{text}");
        assert!(text.contains("quipu check --all"), "{text}");
    }
    println!("{best:.2} s");
    assert!(best < 0.6, "{best} s");
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
