//! `quipu lake`: what a person sees, a push that never ends, and one that is killed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::Value;
use testkit::Rng;
use testkit::s3::{Mood, S3};

use crate::env::Env;

/// How often a push is killed.
const KILLS: usize = 50;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A user whose machine and name do not depend on where the tests run.
fn user() -> Env {
    let env = Env::with_samples();
    env.put(".config/quipu/config.toml", "[lake]\nmachine = \"m1\"\nuser = \"ada\"\n");
    env
}

fn json(env: &Env, args: &[&str]) -> Value {
    let output = env.output(args);
    assert!(output.status.success(), "{args:?}: {}", env.show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the lake has: its objects, and what a stopped push left.
fn files(env: &Env) -> BTreeMap<String, Vec<u8>> {
    let lake = env.path("lake");
    let mut found = BTreeMap::new();
    let mut open = vec![lake.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                let key = path.strip_prefix(&lake).unwrap().to_str().unwrap().to_owned();
                found.insert(key, bytes);
            }
        }
    }
    found
}

fn is_visible(key: &str) -> bool {
    !key.rsplit('/').next().unwrap().starts_with('.')
}

#[test]
fn what_a_person_sees() {
    let env = user();
    let mut text = String::new();
    for args in [
        &["lake", "push", "--all"][..],
        &["lake", "push", "--to", "lake"],
        &["lake", "push", "--all", "--to", "lake", "--raw"],
        &["lake", "push", "--all", "--to", "s3://bucket", "--no-redact"],
        &["lake", "push", "--all", "--to", "s3://key:secret@bucket"],
        &["lake", "push", "--all", "--to", ".claude/lake"],
        &["lake", "push", "--all", "--to", "lake"],
        &["lake", "push", "--all", "--to", "lake"],
        &["lake", "check", "--to", "lake"],
        &["lake", "erase", "43ba080a", "--to", "lake"],
        &["lake", "erase", "43ba080a", "--to", "lake"],
        // An id is the same without its hyphens, and in capitals.
        &["lake", "erase", "9414e40a430649ca872bed6b7c51ee17", "--to", "lake"],
        &["lake", "erase", "D51C8060-43E2-4943-83AC-DF8CE666B53D", "--to", "lake"],
        &["lake", "push", "--all", "--to", "lake"],
        &["lake", "push", "43ba080a", "--to", "lake"],
        // A folder has one state, however it is named.
        &["lake", "push", "--all", "--to", "lake/"],
        &["lake", "check", "--to", "nowhere/lake"],
        &["lake", "push", "--all", "--to", "s3://my bucket/x"],
    ] {
        writeln!(text, "$ quipu {}\n{}", args.join(" "), env.run(args)).unwrap();
    }
    for lake in [
        "machine = \"../m1\"\nto = \"~/lake\"",
        "machine = \"m1\"\nto = \"lake\"",
        "machine = \"m2\"\nto = \"~/lake\"",
    ] {
        env.put(".config/quipu/config.toml", format!("[lake]\n{lake}\n"));
        writeln!(text, "[lake] {lake}\n{}", env.run(&["lake", "push", "43ba080a"])).unwrap();
    }
    text.push_str(&env.run(&["lake", "check"]));
    assert!(!env.path("nowhere").exists());
    assert_snapshot!(without_sizes(&text));
}

/// How large Parquet is depends on the version of its writer.
fn without_sizes(text: &str) -> String {
    let parts = text.split(" KB").map(|part| part.trim_end_matches(|c: char| c.is_ascii_digit()));
    parts.collect::<Vec<_>>().join("[SIZE] KB")
}

/// Through a link, a folder may be in a home without looking like it.
#[cfg(unix)]
#[test]
fn a_lake_is_never_in_a_home() {
    let env = user();
    std::os::unix::fs::symlink(env.path(".claude"), env.path("link")).unwrap();
    let output = env.output(&["lake", "push", "--all", "--to", "link/lake"]);
    assert_eq!(output.status.code(), Some(2), "{}", env.show(&output));
    assert!(!env.path(".claude/lake").exists());
}

/// What only the catalog still knows is counted by `usage`, which says how much that is; the lake
/// has the rest.
#[test]
fn usage_says_what_only_the_catalog_knows() {
    let env = user();
    env.output(&["index"]);
    let count = |args: &[&str]| json(&env, &[&["usage", "--by", "day", "--json"], args].concat());
    let before = count(&[]);
    assert_eq!(before["only_in_catalog"], Value::Null);
    let gone =
        env.path(".claude/projects/-home-dev-tidepool/43ba080a-0442-4d99-87ca-a26536b12d23.jsonl");
    fs::remove_file(&gone).unwrap_or_else(|error| panic!("{}: {error}", gone.display()));
    // Noticed by the catalog, and not yet.
    for round in 0..2 {
        let after = count(&[]);
        assert_eq!(after["total"], before["total"], "round {round}");
        let there = count(&["--no-catalog"]);
        assert_eq!(there["only_in_catalog"], Value::Null);
        let lost = &after["only_in_catalog"];
        for name in ["messages", "input", "output", "cache_read", "cache_write_5m"] {
            let number = |value: &Value| value[name].as_u64().unwrap();
            let sum = number(&there["total"]) + number(lost);
            assert_eq!(sum, number(&after["total"]), "{name} in round {round}");
        }
        assert!(lost["messages"].as_u64().unwrap() > 0);
        let pushed = json(&env, &["lake", "push", "--all", "--to", "lake", "--json"]);
        assert_eq!(&pushed["only_in_catalog"], lost);
        assert_eq!(pushed["unreadable"], Value::Array(Vec::new()), "round {round}");
        env.output(&["index"]);
    }
    let shown = env.run(&["usage"]);
    assert!(shown.contains("of sessions whose files are gone, as the catalog has them"), "{shown}");
}

/// Ends with this.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_watch_pushes_what_changes_and_lets_others_work() {
    let env = user();
    let server = S3::start().unwrap();
    // At first there is no bucket: it is tried again.
    server.set_mood(Mood::Refusing(404));
    let mut command = with_keys(env.command(&[]), &server);
    command.args(["lake", "push", "--all", "--to", "s3://fleet", "--watch", "--every", "1"]);
    let _watcher = Watcher(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("the first failures", || server.served() > 3);
    server.set_mood(Mood::Good);
    let sessions = || {
        let keys = server.objects().into_keys();
        keys.filter(|key| key.starts_with("fleet/sessions/")).count()
    };
    let is_complete = || sessions() == 10;
    wait_until("the first push", is_complete);
    let id = "0a0b0c0d-0000-4000-8000-000000000001";
    let line = r#"{"type":"user","uuid":"a","timestamp":"2026-03-04T05:06:07.000Z","message":{"role":"user","content":"hello"}}"#;
    env.put(&format!(".claude/projects/-home-dev-new/{id}.jsonl"), format!("{line}\n"));
    let key = format!("fleet/sessions/day=2026-03-04/m1-{id}.parquet");
    wait_until("the new session", || server.objects().contains_key(&key));
    // While it watches, a session can be erased, and stays away.
    wait_until("the erasure", || {
        let mut command =
            with_keys(env.command(&["lake", "erase", id, "--to", "s3://fleet"]), &server);
        command.output().unwrap().status.success()
    });
    let path = env.path(&format!(".claude/projects/-home-dev-new/{id}.jsonl"));
    fs::write(path, format!("{line}\n{line}\n")).unwrap();
    let other = "0a0b0c0d-0000-4000-8000-000000000002";
    env.put(&format!(".claude/projects/-home-dev-new/{other}.jsonl"), format!("{line}\n"));
    let other = key.replace(id, other);
    wait_until("the third session", || server.objects().contains_key(&other));
    assert!(!server.objects().contains_key(&key));
}

fn with_keys(mut command: Command, server: &S3) -> Command {
    command
        .env("AWS_ENDPOINT_URL", server.url())
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1");
    command
}

/// A lake whose pushes are killed.
struct Victim<'a> {
    env: &'a Env,
    /// What it has in the end.
    wanted: BTreeMap<String, Vec<u8>>,
    push: &'a dyn Fn() -> Command,
    /// What it has now.
    seen: &'a dyn Fn() -> BTreeMap<String, Vec<u8>>,
    empty: &'a dyn Fn(),
    /// Grows with each thing that is stored.
    steps: &'a dyn Fn() -> usize,
}

impl Victim<'_> {
    fn forget(&self) {
        let _ = fs::remove_dir_all(self.env.path(".local/state/quipu/lake"));
    }

    /// Begins a push and kills it after so many steps, or after so long. Whether it was killed.
    fn kill(&self, steps: usize, time: Duration) -> bool {
        let (begin, before) = (Instant::now(), (self.steps)());
        let mut child = (self.push)().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            if (self.steps)() >= before + steps || begin.elapsed() > time {
                child.kill().unwrap();
                return child.wait().unwrap().code().is_none();
            }
            sleep(Duration::from_micros(200));
        }
        false
    }

    /// What can be seen is whole, and as it should be; returns how many objects that are.
    fn whole(&self) -> usize {
        let seen = (self.seen)();
        let visible = seen.iter().filter(|(key, _)| is_visible(key));
        let wrong = visible.clone().find(|(key, bytes)| self.wanted.get(*key) != Some(bytes));
        assert_eq!(wrong.map(|(key, _)| key), None, "torn, or nothing of ours");
        visible.count()
    }

    fn complete(&self) {
        let output = (self.push)().output().unwrap();
        assert!(output.status.success(), "{}", self.env.show(&output));
        let found = (self.seen)();
        let [have, want] = [&found, &self.wanted].map(|all| all.keys().collect::<Vec<_>>());
        assert_eq!(have, want, "something is left, or missing");
        assert!(found == self.wanted);
    }
}

/// Kills pushes at any moment, several in a row; then one completes what they left.
fn killed(victim: &Victim<'_>) {
    let mut chance = Rng::new(5);
    (victim.empty)();
    victim.forget();
    let begin = Instant::now();
    victim.complete();
    let whole = usize::try_from(begin.elapsed().as_micros()).unwrap();
    let (mut killed, mut midway) = (0, 0);
    for round in 0.. {
        assert!(round < 20 * KILLS, "it is too quick to be killed");
        if round % 5 == 0 {
            (victim.empty)();
        }
        if round % 5 == 0 || chance.below(4) == 0 {
            // As if the state had been lost: everything is pushed again.
            victim.forget();
        }
        let time = Duration::from_micros(chance.below(2 * whole) as u64);
        if victim.kill(1 + chance.below(victim.wanted.len() / 4), time) {
            killed += 1;
            midway += usize::from((1..victim.wanted.len()).contains(&victim.whole()));
        }
        if round % 5 == 4 {
            victim.complete();
        }
        if killed >= KILLS {
            break;
        }
    }
    assert!(2 * midway > KILLS, "only {midway} of {killed} pushes were writing");
    victim.complete();
}

#[test]
fn a_push_to_a_folder_that_is_killed_at_any_moment_is_completed_by_the_next_one() {
    let env = user();
    let push = || env.command(&["lake", "push", "--all", "--to", "lake"]);
    assert!(push().output().unwrap().status.success());
    let wanted = files(&env);
    assert_eq!(wanted.len(), 70);
    let empty = || drop(fs::remove_dir_all(env.path("lake")));
    killed(&Victim {
        env: &env,
        wanted,
        push: &push,
        seen: &|| files(&env),
        empty: &empty,
        steps: &|| files(&env).len(),
    });
}

#[test]
fn a_push_to_a_bucket_that_is_killed_at_any_moment_is_completed_by_the_next_one() {
    let env = user();
    let server = S3::start().unwrap();
    server.set_mood(Mood::Slow(Duration::from_millis(2)));
    let push = || with_keys(env.command(&["lake", "push", "--all", "--to", "s3://fleet"]), &server);
    killed(&Victim {
        env: &env,
        wanted: in_bucket(&env, &[]),
        push: &push,
        seen: &|| server.objects(),
        empty: &|| server.clear(),
        steps: &|| server.served(),
    });
}

/// What a push to the bucket stores: the same as one to a folder.
fn in_bucket(env: &Env, args: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let args = [&["lake", "push", "--all", "--to", "lake"], args].concat();
    assert!(env.output(&args).status.success());
    let name = |(key, bytes): (String, Vec<u8>)| (format!("fleet/{key}"), bytes);
    files(env).into_iter().map(name).collect()
}

/// An object that is sent in parts is not there before the last one is.
#[test]
fn an_upload_in_parts_that_is_killed_leaves_nothing_to_see() {
    let env = Env::bare();
    env.put(".config/quipu/config.toml", "[lake]\nmachine = \"m1\"\n");
    let mut chance = Rng::new(7);
    let mut lines = String::new();
    for number in 0..14 {
        // Words that no compression makes shorter.
        let letter =
            |_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789+/.:,;()  "[chance.below(46)]);
        let text: String = (0..1_000_000).map(letter).collect();
        let before = number - 1;
        writeln!(
            lines,
            r#"{{"type":"user","uuid":"u{number}","parentUuid":"u{before}","timestamp":"2026-03-04T05:06:07.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
        .unwrap();
    }
    env.put(".claude/projects/-p/0a0b0c0d-0000-4000-8000-000000000003.jsonl", lines);
    let wanted = in_bucket(&env, &["--content", "full"]);
    assert!(wanted.values().any(|bytes| bytes.len() > 8 << 20), "one part is enough");
    let server = S3::start().unwrap();
    server.set_mood(Mood::Slow(Duration::from_millis(20)));
    let args = ["lake", "push", "--all", "--content", "full", "--to", "s3://fleet"];
    let push = || with_keys(env.command(&args), &server);
    let victim = Victim {
        env: &env,
        wanted,
        push: &push,
        seen: &|| server.objects(),
        empty: &|| server.clear(),
        steps: &|| server.parts(),
    };
    for _ in 0..3 {
        assert!(victim.kill(1, PATIENCE), "it ended before a part was stored");
        assert!(victim.whole() < victim.wanted.len());
    }
    assert!(server.parts() >= 3);
    victim.complete();
}
