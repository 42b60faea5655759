//! What waits on disk is damaged: nothing of it is sent, and everything arrives.

use std::fs;
use std::path::PathBuf;

use testkit::Rng;
use testkit::otlp::{Keep, Limits, Receiver};

use super::hooked::{ended, log, until_done};
use super::{everything, held, killed};
use crate::env::Env;

/// So many batches are damaged in each way.
const BATCHES: usize = 40;

fn receiver_dir(env: &Env) -> PathBuf {
    let state = env.path(".local/state/quipu/ship");
    let mut found = fs::read_dir(state).unwrap().flatten().map(|entry| entry.path());
    found.find(|path| path.is_dir()).unwrap()
}

fn batches(env: &Env) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(receiver_dir(env).join("spool"))
        .unwrap()
        .flatten()
        .map(|one| one.path())
        .collect();
    found.sort();
    found
}

/// A receiver that lets nobody in: what it is sent waits on disk, at once.
fn closed(port: u16) -> Receiver {
    let limits = Limits { key: Some("right".to_owned()), ..Limits::default() };
    Receiver::at(port, Keep::Spans, limits, Vec::new()).unwrap()
}

/// Damages a batch in one of eight ways; `other` is another batch.
fn damage(way: usize, bytes: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let head = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut damaged = bytes.to_vec();
    let any = rng.below(bytes.len());
    match way {
        0 => (0..3).for_each(|_| damaged[rng.below(bytes.len())] ^= 1 << rng.below(8)),
        1 => {
            let end = (any + 64).min(bytes.len());
            damaged[any..end].fill(0);
        }
        2 => damaged.truncate(any),
        3 => damaged.clear(),
        // In what says which turns it brings.
        4 => damaged[rng.below(head(bytes) - 1)] ^= 1 << rng.below(7),
        5 => drop(damaged.splice(any..any, (0..=rng.below(40)).map(|_| rng.byte()))),
        // The head of one, the body of another.
        6 => damaged = [&bytes[..head(bytes)], &other[head(other)..]].concat(),
        _ => damaged.extend(&other[head(other)..]),
    }
    damaged
}

#[test]
fn nothing_damaged_is_sent_and_everything_arrives() {
    let env = killed::many();
    let wanted = everything(&env);
    let receiver = closed(0);
    let (port, url) = (receiver.port(), receiver.url());
    let files = testkit::files_under(&[env.path(".claude/projects")]);
    for file in files.iter().take(BATCHES + 12) {
        ended(&env, &url, &file.path);
    }
    until_done(&env);
    receiver.stop();
    let (state, kept) = (env.path(".local/state/quipu/ship"), env.path("kept"));
    testkit::copy_folder(&state, &kept).unwrap();
    let (mut rng, mut count) = (Rng::new(16), 0);
    for way in 0..8 {
        fs::remove_dir_all(&state).unwrap();
        testkit::copy_folder(&kept, &state).unwrap();
        let waiting = batches(&env);
        assert!(waiting.len() >= BATCHES, "only {} wait", waiting.len());
        let whole: Vec<Vec<u8>> = waiting.iter().map(|path| fs::read(path).unwrap()).collect();
        for at in 0..BATCHES {
            let other = &whole[(at + 1) % whole.len()];
            let damaged = damage(way, &whole[at], other, &mut rng);
            if damaged != whole[at] {
                count += 1;
                fs::write(&waiting[at], damaged).unwrap();
            }
        }
        let receiver = closed(port);
        let ship = ["ship", "--all", "--to", &url, "--header", "authorization: right"];
        let shown = env.run(&ship);
        assert!(shown.starts_with("exit 0"), "way {way}: {shown}");
        assert!(shown.contains("is corrupt and was not sent"), "way {way}: {shown}");
        assert_eq!(held(&receiver), wanted, "way {way}");
        let status = env.run(&["hook", "status", "--to", &url]);
        assert!(!status.contains("damaged"), "way {way}: {status}");
        assert!(env.run(&ship).contains("Nothing new"), "way {way}");
    }
    assert!(count >= 300, "only {count} were damaged");
}

/// A hook finds the damage: it goes on, and a person is told what to do.
#[test]
fn a_hook_goes_on_and_the_status_says_so() {
    let env = killed::many();
    let wanted = everything(&env);
    let receiver = closed(0);
    let (port, url) = (receiver.port(), receiver.url());
    let files = testkit::files_under(&[env.path(".claude/projects")]);
    ended(&env, &url, &files[0].path);
    until_done(&env);
    receiver.stop();
    let path = batches(&env).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    ended(&env, &url, &files[1].path);
    until_done(&env);
    assert!(log(&env).contains("is corrupt and was not sent"), "{}", log(&env));
    let status = env.run(&["hook", "status", "--to", &url]);
    assert!(status.contains("damaged") && status.contains("1 batch"), "{status}");
    assert!(held(&receiver).is_subset(&wanted), "something else was sent");
    // Another home was gone through, or not all of it: what was damaged is not forgotten.
    let other = env.path("other");
    fs::create_dir_all(other.join("projects")).unwrap();
    for part in [&["--home", other.to_str().unwrap()][..], &[]] {
        let since: &[&str] = if part.is_empty() { &["--since", "1d"] } else { &[] };
        env.run(&[part, &["ship", "--all", "--to", &url], since].concat());
        let status = env.run(&["hook", "status", "--to", &url]);
        assert!(status.contains("damaged") && status.contains("1 batch"), "{part:?}: {status}");
    }
    let shown = env.run(&["ship", "--all", "--to", &url]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert_eq!(held(&receiver), wanted);
    assert!(!env.run(&["hook", "status", "--to", &url]).contains("damaged"));
}

/// The notes of what has arrived are damaged: it costs time, and nothing is missing.
#[test]
fn damaged_notes_cost_time_only() {
    let env = killed::many();
    let wanted = everything(&env);
    let receiver = Receiver::start().unwrap();
    let (port, url) = (receiver.port(), receiver.url());
    env.run(&["ship", "--all", "--to", &url]);
    receiver.stop();
    let mut rng = Rng::new(9);
    for entry in fs::read_dir(receiver_dir(&env).join("sessions")).unwrap().flatten() {
        let mut bytes = fs::read(entry.path()).unwrap();
        for _ in 0..3 {
            let at = rng.below(bytes.len() - 1);
            bytes[at] ^= 1 << rng.below(8);
        }
        fs::write(entry.path(), bytes).unwrap();
    }
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    let shown = env.run(&["ship", "--all", "--to", &url]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert_eq!(held(&receiver), wanted);
}
