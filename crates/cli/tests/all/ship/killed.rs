//! The program is killed at random, again and again, while the receiver is under load and fails: in
//! the end it has everything, once.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use testkit::Rng;
use testkit::otlp::{Fault, Limits, Receiver};

use super::{everything, held};
use crate::env::Env;

/// How often it is killed.
const KILLS: usize = 100;

/// Many sessions that differ in nothing but their ids.
pub(super) fn many() -> Env {
    let env = Env::bare();
    let samples = testkit::root().join("crates/testkit/fixtures/samples/projects/-home-dev-demo");
    for entry in fs::read_dir(samples).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(id) = name.strip_suffix(".jsonl").filter(|id| id.len() == 36) else { continue };
        let text = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
        for copy in 0..24 {
            let other = format!("{copy:08}{}", &id[8..]);
            let path = format!(".claude/projects/-home-dev-{copy}/{other}.jsonl");
            env.put(&path, text.replace(id, &other));
        }
    }
    env
}

#[test]
fn at_any_moment() {
    let env = many();
    let wanted = everything(&env);
    let mut chance = Rng::new(7);
    let faults = (0..400).map(|_| match chance.below(6) {
        0 => Fault::Cut,
        1 => Fault::Stored,
        2 => Fault::Status(429, "retry-after: 0\r\n".to_owned(), String::new()),
        _ => Fault::Slow(Duration::from_millis(chance.below(12) as u64)),
    });
    let receiver = Receiver::with(Limits::default(), faults.collect()).unwrap();
    let url = receiver.url();
    let mut killed = 0;
    let mut runs = 0;
    while killed < KILLS {
        runs += 1;
        let mut child = env.command(&["ship", "--all", "--to", &url]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(chance.below(60_000) as u64));
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            killed += 1;
        }
        child.wait().unwrap();
        // Once it is through, it begins anew: as if the state had been lost.
        if receiver.count().distinct == wanted.len() as u64 && chance.below(4) == 0 {
            super::forget(&env);
        }
        assert!(runs < 20 * KILLS, "it is too quick to be killed");
    }
    // Some failures may be left.
    let outputs = (0..9).map(|_| env.run(&["ship", "--all", "--to", &url]));
    assert!(
        outputs.into_iter().any(|output| output.starts_with("exit 0")),
        "it does not come through"
    );
    let have = held(&receiver);
    let missing: BTreeSet<_> = wanted.difference(&have).collect();
    let extra: BTreeSet<_> = have.difference(&wanted).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
}

/// The processes that work for a hook, by the address that they send to.
#[cfg(target_os = "linux")]
pub(super) fn workers(url: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let is_ours = |pid: &String| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.contains("hook work") && words.contains(url)
    };
    all.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_ours).collect()
}

/// The work of hooks is killed as well: what was told is still to be done, and is done by the next.
#[cfg(target_os = "linux")]
#[test]
fn while_hooks_work() {
    let env = many();
    let wanted = everything(&env);
    let mut chance = Rng::new(11);
    let slow = (0..300).map(|_| Fault::Slow(Duration::from_millis(chance.below(30) as u64)));
    let receiver = Receiver::with(Limits::default(), slow.collect()).unwrap();
    let url = receiver.url();
    let files = testkit::files_under(&[env.path(".claude/projects")]);
    let mut killed = 0;
    for file in &files {
        super::hooked::ended(&env, &url, &file.path);
        std::thread::sleep(Duration::from_millis(chance.below(40) as u64));
        for pid in workers(&url).iter().filter(|_| chance.below(3) == 0) {
            let ended = std::process::Command::new("kill").args(["-9", pid]).status().unwrap();
            killed += usize::from(ended.success());
        }
    }
    assert!(killed > files.len() / 10, "only {killed} were killed");
    // One more hook, which finds what is left.
    super::hooked::ended(&env, &url, &files[0].path);
    super::hooked::until_done(&env);
    let have = held(&receiver);
    let missing: BTreeSet<_> = wanted.difference(&have).collect();
    let extra: BTreeSet<_> = have.difference(&wanted).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
}
