//! Where things are kept, who can read them, and who is listened to: what surrounds shipping.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::otlp::{Fault, Limits, Receiver};

use super::hooked::{GROWING, SESSION, answered, hook_input, log, prompt_line, until_done};
use crate::env::Env;

/// Everything below the state folder, with its mode.
#[cfg(unix)]
fn modes(folder: &Path) -> Vec<(String, bool, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        found.push((name, metadata.is_dir(), metadata.permissions().mode() & 0o777));
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        }
    }
    found
}

/// Whatever the umask, and whoever makes a folder first.
#[cfg(unix)]
#[test]
fn nobody_else_can_read_what_is_kept() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let hook = |stdin: &str, url: &str| {
        let quipu = env!("CARGO_BIN_EXE_quipu");
        let line = format!("umask 0; exec '{quipu}' hook stop --to '{url}'");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).env_clear().env("HOME", env.path(""));
        command.env("QUIPU_NOW", crate::env::NOW.to_string()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    };
    // The log comes first.
    hook("nonsense", &url);
    hook(&hook_input(&env, SESSION, "SessionEnd"), &url);
    until_done(&env);
    // What waits, and what is set aside.
    let port = receiver.port();
    receiver.stop();
    let missing = json!({"session_id": "m", "transcript_path": "/nowhere/m.jsonl"}).to_string();
    for _ in 0..3 {
        hook(&missing, &format!("http://127.0.0.1:{port}"));
        std::thread::sleep(Duration::from_millis(900));
    }
    let found = modes(&env.path(".local/state/quipu/ship"));
    assert!(found.iter().any(|(name, ..)| name.ends_with("jobs/taken")), "{found:?}");
    assert!(found.iter().any(|(name, ..)| name.ends_with("lock")), "{found:?}");
    for (name, is_folder, mode) in found {
        assert_eq!(mode, if is_folder { 0o700 } else { 0o600 }, "`{name}`: {mode:o}");
    }
}

#[test]
fn a_long_name_does_not_fill_the_log() {
    let env = Env::bare();
    let filler = "x".repeat(3 << 20);
    let event = json!({"session_id": filler, "transcript_path": "/a/b.jsonl"}).to_string();
    let path = json!({"session_id": "s", "transcript_path": format!("/{filler}")}).to_string();
    for event in [event, path] {
        let output = super::hooked::hook(&env, &["--to", "http://127.0.0.1:1"], &event);
        assert_eq!(env.show(&output), "exit 0\n");
    }
    let log = log(&env);
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.len() <= 2 << 10, "{} bytes", log.len());
    let jobs = fs::read_dir(env.path(".local/state/quipu/ship")).unwrap().flatten();
    assert_eq!(jobs.filter(|entry| entry.path().is_dir()).count(), 0, "no job was made");
}

/// Stdin that is never closed.
#[test]
fn whoever_keeps_stdin_open_is_not_waited_for() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let run = |event: &str, extra: &[&str]| {
        let mut command = env.command(&[&["hook", "stop", "--to", &url], extra].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.as_bytes()).unwrap();
        let status = child.wait().unwrap();
        drop(stdin);
        (status.code(), begin.elapsed())
    };
    let (code, took) = run(&hook_input(&env, SESSION, "SessionEnd"), &[]);
    assert!(code == Some(0) && took < Duration::from_secs(2), "{code:?} after {took:?}");
    until_done(&env);
    assert!(receiver.count().spans > 0, "{}", log(&env));
    for (event, extra, wanted) in [("", &[] as &[&str], 0), ("{\"session_id\"", &["--strict"], 1)] {
        let (code, took) = run(event, extra);
        assert_eq!(code, Some(wanted));
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
    assert!(log(&env).contains("nothing arrived for 5 seconds"), "{}", log(&env));
}

/// A server that has signed its own certificate, named by the user.
#[test]
fn a_certificate_that_signs_itself() {
    let env = Env::with_sessions();
    let check = |server: &str, trusted: &str| {
        let port = testkit::tls::serve(server).unwrap();
        let file = env.put("trusted.pem", testkit::tls::pem(trusted).unwrap());
        let mut command =
            env.command(&["ship", "--check", "--to", &format!("https://127.0.0.1:{port}")]);
        env.show(&command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", file).output().unwrap())
    };
    let shown = check("here", "here");
    assert!(shown.starts_with("exit 0") && shown.contains("accepts traces"), "{shown}");
    for (server, trusted) in
        [("here", "elsewhere"), ("elsewhere", "elsewhere"), ("expired", "expired")]
    {
        let shown = check(server, trusted);
        assert!(shown.starts_with("exit 7"), "{server}, {trusted}: {shown}");
        assert!(shown.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{server}, {trusted}: {shown}");
    }
}

/// Gives everything in a folder to somebody who has no rights of his own.
#[cfg(unix)]
fn give_away(path: &Path) {
    const NOBODY: u32 = 65534;
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| give_away(&entry.path()));
    }
}

/// A folder of projects that cannot be looked into is no success.
#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_no_success() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    for closed in [".claude/projects/-home-dev-other", ".claude/projects"] {
        let env = Env::with_sessions();
        let receiver = Receiver::start().unwrap();
        let mut command = env.command(&["ship", "--all", "--to", &receiver.url()]);
        // Modes keep no administrator out.
        if fs::metadata(env.path("")).unwrap().uid() == 0 {
            give_away(&env.path(""));
            command.uid(65534).gid(65534);
        }
        let folder = env.path(closed);
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o000);
        let output = command.output();
        mode(0o700);
        let shown = env.show(&output.unwrap());
        assert!(shown.starts_with("exit 4") && shown.contains(closed), "{shown}");
        assert_eq!(receiver.count().spans > 0, closed.ends_with("other"));
    }
}

/// The bar moves while one session goes.
#[cfg(unix)]
#[test]
fn progress_within_a_session() {
    let env = Env::bare();
    let slow = (0..20).map(|_| Fault::Slow(Duration::from_millis(150)));
    let receiver = Receiver::with(Limits::default(), slow.collect()).unwrap();
    let (mut text, mut last) = (String::new(), String::new());
    for turn in 0..4_000 {
        let (prompt, answer) = (format!("p{turn}"), format!("a{turn}"));
        text += &prompt_line(&prompt, &last, "more");
        text +=
            &answered(&answer, &prompt, &format!("m{turn}"), r#"{"type":"text","text":"Well."}"#);
        last = answer;
    }
    env.put(&format!(".claude/projects/-p/{GROWING}.jsonl"), text);
    env.put(".claude/projects/-p/00000000-0000-4000-8000-000000000000.jsonl", "");
    let mut command = env.command(&["ship", "--all", "--to", &receiver.url()]);
    command.env("TERM", "xterm");
    let shown = crate::hook::shown_in_a_terminal(command, "");
    assert!(receiver.count().spans >= 7_999);
    let places = shown.split(['\r', '\n']).filter_map(|line| line.split(" of ").next());
    let mut places: Vec<&str> = places.filter(|text| text.contains("iB")).collect();
    places.dedup();
    assert!(places.len() >= 5, "{places:?} in {shown}");
}
