//! What goes wrong gets a clear error, a documented exit code, and loses nothing.

use std::io::Read;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::env::{Env, set_age};

#[test]
fn names_that_lead_nowhere() {
    let env = Env::with_sessions();
    assert_snapshot!(env.run(&["cat", "zzz"]), @r"
    exit 3
    --- stderr
    error: no session is named `zzz`
    hint: `quipu ls --all` lists all sessions
    ");
    let newer = env.put(".claude/projects/-home-dev-other/badc0ffe-2222.jsonl", "{}\n");
    set_age(&newer, 60);
    assert_snapshot!(env.run(&["cat", "badc"]), @r"
    exit 3
    --- stderr
    error: `badc` matches 2 sessions
      badc0ffe-2222    1m  -
      badc0ffe-0000-4000-8000-00000000d00d   11h  Do a round of file work.
    hint: give more of the id, or the path; the newest session is listed first
    ");
    assert_snapshot!(env.run(&["cat", "./no/such.jsonl"]), @r"
    exit 3
    --- stderr
    error: there is no file `./no/such.jsonl`
    hint: give a path or an id: `quipu ls --all` lists all sessions
    ");
    for name in ["missing.jsonl", "/missing", "../missing"] {
        let text = env.run(&["show", name]);
        assert!(text.starts_with("exit 3"), "{text}");
        assert!(text.contains(&format!("there is no file `{name}`")), "{text}");
    }
    // That needs no home.
    assert!(Env::bare().run(&["show", "missing.jsonl"]).contains("there is no file"));
}

#[test]
fn a_home_named_by_hand_must_be_one() {
    assert_snapshot!(Env::bare().run(&["--home", "nowhere", "ls"]), @r"
    exit 2
    --- stderr
    error: `nowhere` is not a Claude home
    hint: `--home` names it; a home is a folder that contains `projects`
    ");
}

#[test]
fn wrong_usage() {
    let env = Env::with_sessions();
    for args in [
        &["strip"][..],
        &["ls", "--since", "yesterday"],
        &["ls", "--since", "-5m"],
        &["ls", "--since", "99999999999999m"],
        &["cat", "last", "--lines", "0"],
        &["cat", "last", "--lines", "9..3"],
        &["inventory", "--all", "badc0ffe"],
        &["nonsense"],
    ] {
        assert_eq!(env.output(args).status.code(), Some(2), "{args:?}");
    }
    assert_snapshot!(env.run(&["ls", "--since", "yesterday"]), @r"
    exit 2
    --- stderr
    error: `yesterday` is not a time
    hint: write it as `30m`, `12h`, `3d`, `2w`, or a date: `2026-11-01`
    ");
}

#[test]
fn a_bad_configuration_is_named() {
    let env = Env::with_sessions();
    env.put(".config/quipu/config.toml", "color = \"never\"\nhome = \"/x\"\n");
    let text = env.run(&["ls"]);
    assert!(text.starts_with("exit 2\n"), "{text}");
    assert!(text.contains("config.toml`, line 2: unknown field `home`"), "{text}");
}

#[test]
fn folders_are_no_sessions() {
    let env = Env::with_sessions();
    let text = env.run(&["cat", "--raw", env.path("").to_str().unwrap()]);
    assert!(text.starts_with("exit 2") && text.contains("is a folder"), "{text}");
}

/// What can be read is counted; what was asked for and cannot is an error all the same.
#[cfg(target_os = "linux")]
#[test]
fn one_unreadable_file_of_several() {
    let env = Env::with_sessions();
    for command in ["inventory", "drift"] {
        let output = env.output(&[command, "badc0ffe", "/proc/self/mem"]);
        assert_eq!(output.status.code(), Some(4), "{command}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.ends_with("error: 1 of the files could not be read\n"), "{text}");
    }
}

/// A folder without sessions holds nothing to count, to check or to look through.
#[test]
fn an_empty_folder_is_told_by_all() {
    let env = Env::with_sessions();
    std::fs::create_dir(env.path("empty")).unwrap();
    std::fs::create_dir_all(env.path("home/projects")).unwrap();
    for command in ["inventory", "check", "drift"] {
        for args in [&[command, "empty"][..], &["--home", "home", command, "--all"]] {
            assert_eq!(env.output(args).status.code(), Some(3), "{args:?}");
        }
    }
}

/// What cannot be read of a session is said by every command that shows it.
#[test]
fn damage_is_told_in_the_same_words() {
    let env = Env::bare();
    for (name, bytes) in
        [("text", b"no json\n".repeat(3)), ("binary", vec![0x80; 5_000]), ("empty", Vec::new())]
    {
        let path = env.put(&format!("{name}.jsonl"), bytes);
        for command in ["show", "turns", "tree"] {
            let text = env.run(&[command, path.to_str().unwrap()]);
            let expected = match name {
                "text" => Some("3 pieces could not be read (quipu cat --kind damaged)."),
                "binary" => Some("1 piece could not be read (quipu cat --kind damaged)."),
                _ => None,
            };
            assert_eq!(text.contains("could not be read"), expected.is_some(), "{command} {text}");
            assert!(text.contains(expected.unwrap_or_default()), "{command} {text}");
        }
    }
}

#[test]
fn much_damage_is_told_in_few_words() {
    let env = Env::bare();
    let path = env.put("noise.jsonl", "x\n".repeat(1_000));
    let output = env.output(&["cat", "--raw", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 21);
    assert!(text.ends_with("and 980 more\n"), "{text}");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_said() {
    use std::os::unix::fs::symlink;
    let env = Env::with_sessions();
    // A loop of links is unreadable for everyone, also for root.
    let link = env.path(".claude/projects/-home-dev-other/loop.jsonl");
    symlink(&link, &link).unwrap();
    for name in [link.to_str().unwrap(), "loop"] {
        let text = env.run(&["cat", name]);
        assert!(text.starts_with("exit 4") && text.contains("Too many levels"), "{text}");
    }
    let text = env.run(&["ls", "--all"]);
    assert!(text.starts_with("exit 0") && text.contains("loop.jsonl`: Too many levels"), "{text}");
    let text = env.run(&["inventory", "--all"]);
    assert!(text.starts_with("exit 0"), "{text}");
    assert!(
        text.contains("cannot read `[HOME]/.claude/projects/-home-dev-other/loop.jsonl`"),
        "{text}"
    );
    assert_eq!(env.output(&["cat", "--raw", "/proc/self/mem"]).status.code(), Some(4));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let env = Env::with_sessions();
    let file = env.put("long.jsonl", "{\"type\":\"user\"}\n".repeat(50_000));
    let mut child = env
        .command(&["cat", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// `/dev/full` takes nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let env = Env::with_sessions();
    // A verdict does not hide it.
    for args in [&["inventory", "--all"][..], &["check", "--all"], &["check", "--all", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = env.command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("error: cannot write the output: No space left"), "{text}");
    }
}

/// A transcript can hold anything; the terminal gets none of it.
#[test]
fn control_characters_are_shown_not_sent() {
    let env = Env::bare();
    let line = "{\"type\":\"user\",\"uuid\":\"u\",\"cwd\":\"/w\\u001b[2J\",\"message\":{\"content\":\"\\u001b]0;owned\\u0007 \\u202etxt\"}}\n";
    env.put(".claude/projects/-w/12345678.jsonl", line);
    for args in [&["ls", "--all"][..], &[], &["inventory", "--all"]] {
        let output = env.output(args);
        let bad = |byte: &u8| *byte < 0x20 && *byte != b'\n';
        assert!(!output.stdout.iter().any(bad), "{args:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains('\u{202e}'));
    }
    assert!(env.run(&["ls", "--all"]).contains("␛]0;owned␇"));
}
