//! Transcripts that are none: pipes, devices, folders, nothing. Whatever a hook is told, it returns
//! at once, the work behind it ends, and what others were told is done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::otlp::Receiver;

use super::hooked::{SESSION, hook, hook_input, log, until, until_done};
use super::killed::workers;
use crate::env::Env;

/// A path for each kind of thing that is not a transcript.
fn bad_paths(env: &Env) -> Vec<(&'static str, PathBuf)> {
    let folder = env.path("bad");
    fs::create_dir_all(folder.join("folder.jsonl")).unwrap();
    let link = |to: &Path, name: &str| {
        let path = folder.join(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    };
    let pipe = folder.join("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut paths = vec![
        ("a pipe", pipe.clone()),
        ("a link to a pipe", link(&pipe, "to-pipe.jsonl")),
        ("a folder", folder.join("folder.jsonl")),
        ("nothing", folder.join("missing.jsonl")),
        ("a loop", link(&folder.join("loop.jsonl"), "loop.jsonl")),
    ];
    for name in ["/dev/zero", "/dev/random", "/proc/kmsg"] {
        paths.push(("a device", PathBuf::from(name)));
        let file = name.replace('/', "-");
        paths.push(("a link to a device", link(Path::new(name), &format!("to{file}.jsonl"))));
    }
    paths
}

fn tell(path: &Path, name: &str) -> String {
    let event = json!({"session_id": name, "transcript_path": path, "hook_event_name": "Stop"});
    event.to_string()
}

/// The peak memory of a process, in bytes; nothing if it is gone.
fn peak(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Runs a hook; how long it took. Then waits for the work behind it; its peak memory.
fn run(env: &Env, url: &str, event: &str) -> (Duration, u64) {
    let begin = Instant::now();
    let output = hook(env, &["--to", url], event);
    let took = begin.elapsed();
    assert_eq!(env.show(&output), "exit 0\n");
    let mut most = 0;
    until("the end of the work", || {
        let found = workers(url);
        most = found.iter().filter_map(|pid| peak(pid)).chain([most]).max().unwrap_or_default();
        found.is_empty()
    });
    (took, most)
}

#[test]
fn a_bad_path_blocks_nobody() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let paths = bad_paths(&env);
    for (at, (what, path)) in paths.iter().enumerate() {
        let begin = Instant::now();
        let (took, most) = run(&env, &url, &tell(path, &format!("bad-{at}")));
        let name = path.display();
        assert!(took < Duration::from_secs(2), "{what} `{name}`: the hook took {took:?}");
        assert!(most < 64 << 20, "{what} `{name}`: {most} bytes");
        let whole = begin.elapsed();
        assert!(whole < Duration::from_secs(10), "{what} `{name}`: the work took {whole:?}");
    }
    // The others get through, and after a few more hooks nothing waits.
    for _ in 0..3 {
        run(&env, &url, &hook_input(&env, SESSION, "SessionEnd"));
    }
    assert!(receiver.count().spans > 0, "{}", log(&env));
    until_done(&env);
    let status = env.run(&["hook", "status", "--json", "--to", &url]);
    let status = status.lines().find(|line| line.contains("\"aside\"")).unwrap();
    let status: serde_json::Value = serde_json::from_str(status).unwrap();
    assert_eq!(status["jobs"], 0, "{}", log(&env));
    let aside = status["aside"].as_array().unwrap();
    // What is not called a transcript is no job in the first place.
    let named = paths.iter().filter(|(_, path)| path.starts_with(env.path("bad")));
    assert_eq!(aside.len(), named.count(), "{status}");
    let whys: Vec<&str> = aside.iter().map(|one| one["why"].as_str().unwrap()).collect();
    for why in ["it is a pipe", "it is a device", "it is a folder", "No such file", "symbolic link"]
    {
        assert!(whys.iter().any(|found| found.contains(why)), "{why}: {whys:#?}");
    }
    assert!(log(&env).contains("`/dev/zero` is not a transcript"), "{}", log(&env));
    // A person is told, and what to do.
    let shown = env.run(&["hook", "status", "--to", &url]);
    for words in ["\n  aside ", "pipe.jsonl", "`quipu ship --all` tries again", " rm -r [HOME]"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// What can be read by now is shipped when a person asks, and no longer set aside.
#[test]
fn what_is_set_aside_can_be_tried_again() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let pipe = env.path("elsewhere.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for _ in 0..3 {
        run(&env, &url, &tell(&pipe, "elsewhere"));
    }
    let shown = env.run(&["ship", "--all", "--to", &url]);
    assert!(shown.contains("a job of a hook is set aside") && shown.contains("pipe"), "{shown}");
    fs::remove_file(&pipe).unwrap();
    let words = r#"{"uuid":"q1","sessionId":"elsewhere","timestamp":"2026-11-19T00:00:00.000Z","type":"user","message":{"role":"user","content":"hi"}}
{"parentUuid":"q1","uuid":"q2","sessionId":"elsewhere","timestamp":"2026-11-19T00:00:01.000Z","type":"assistant","message":{"id":"mq","role":"assistant","model":"m","content":[{"type":"text","text":"Well."}],"stop_reason":"end_turn"}}
"#;
    env.put("elsewhere.jsonl", words);
    let before = receiver.count().spans;
    let shown = env.run(&["ship", "--all", "--to", &url]);
    assert!(shown.starts_with("exit 0") && !shown.contains("set aside"), "{shown}");
    assert_eq!(receiver.count().spans, before + 2, "{}", log(&env));
    let status = env.run(&["hook", "status", "--to", &url]);
    assert!(!status.contains("\n  aside "), "{status}");
}

/// Another process holds the lock of the receiver and does not let go.
#[test]
fn a_lock_is_not_waited_for_without_end() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    env.run(&["ship", SESSION, "--to", &url]);
    let receiver_dir =
        fs::read_dir(env.path(".local/state/quipu/ship")).unwrap().flatten().next().unwrap();
    let lock = receiver_dir.path().join("lock");
    let held = fs::File::options().write(true).open(&lock).unwrap();
    held.lock().unwrap();
    fs::write(&lock, "process 17 (a test)").unwrap();
    // The work of a hook leaves its job to whoever is at work.
    let other = "375118cd-78a9-4864-8e28-5134e91c89ff";
    let before = receiver.count().spans;
    let begin = Instant::now();
    run(&env, &url, &hook_input(&env, other, "SessionEnd"));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(receiver.count().spans, before);
    // A person is told who it is, and that it is over.
    let begin = Instant::now();
    let shown = env.run(&["ship", "--all", "--to", &url]);
    assert!(shown.starts_with("exit 7"), "{shown}");
    assert!(shown.contains("process 17 (a test) is shipping to the same receiver and"), "{shown}");
    assert!(begin.elapsed() < Duration::from_secs(45), "{:?}", begin.elapsed());
    // Whoever lets go does what was left to it.
    drop(held);
    let shown = env.run(&["ship", SESSION, "--to", &url]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(receiver.count().spans > before, "{}", log(&env));
    until_done(&env);
}

/// Settings that are a pipe or a device are refused, at once.
#[test]
fn settings_that_are_no_file() {
    let env = Env::bare();
    let folder = env.path(".claude");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("settings.json");
    let pipe = env.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for target in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/proc/kmsg")] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        for args in [
            &["hook", "install", "--yes"] as &[&str],
            &["hook", "install", "--dry-run"],
            &["hook", "uninstall", "--yes"],
            &["hook", "status"],
        ] {
            let begin = Instant::now();
            let shown = env.run(args);
            let took = begin.elapsed();
            assert!(!shown.starts_with("exit 0"), "{args:?} on {}: {shown}", target.display());
            assert!(took < Duration::from_secs(2), "{args:?} on {}: {took:?}", target.display());
        }
        assert!(path.is_symlink(), "{} was replaced", target.display());
        fs::remove_file(&path).unwrap();
    }
}
