//! The program is killed at random, again and again, while the receiver is under load and fails: in the end it has everything, once.

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
fn many() -> Env {
    let env = Env::bare();
    let samples = testkit::root().join("samples/projects/-home-dev-demo");
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
    let said = (0..9).map(|_| env.run(&["ship", "--all", "--to", &url]));
    assert!(said.into_iter().any(|said| said.starts_with("exit 0")), "it does not come through");
    let have = held(&receiver);
    let missing: BTreeSet<_> = wanted.difference(&have).collect();
    let extra: BTreeSet<_> = have.difference(&wanted).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
}
