//! Stopped at every step, and killed at random moments: as before or as after, never between.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use snapshot::plan::Others;
use snapshot::restore::{Journal, Point, Rewind};
use snapshot::store::{Hook, no_hook};
use snapshot::{Event, Limits, Recorder, Store, Vault};

use crate::world::{Setting, World, about, sh, take};

const DESTROY: &str = "rm -rf src; echo more >> notes.txt; git stash -q; rm -rf deep; ln -sfn x link; \
    mkdir -p made/by; echo x > made/by/agent; chmod 700 run.sh; truncate -s 1 blob.bin; git gc -q --prune=now";

/// Fails at the step with this number, and at every later one: like a process that is gone.
fn stop_at(step: usize) -> (Hook, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let hook: Hook = Arc::new(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) >= step {
            return Err(io::Error::other("stopped"));
        }
        Ok(())
    });
    (hook, seen)
}

/// What stands for the session that a rewind makes.
fn made(world: &World) -> PathBuf {
    world.temp.path().join("made")
}

fn remove_made(world: &World) {
    let _ = fs::remove_file(made(world));
}

/// Rewinds with a hook; true if it went through.
fn rewind(world: &World, hook: Hook) -> bool {
    let Ok(store) = Store::open(&world.store(), hook) else { return false };
    let vault = Vault::new(&world.store().join("objects"));
    let log = snapshot::Log::of(&world.store(), "session").unwrap();
    let moments = log.read().unwrap();
    let about = (Limits::default(), SystemTime::now());
    let Ok(plan) = snapshot::plan::plan((&store, &vault), &moments, 0, Others::Respect, about)
    else {
        return false;
    };
    let journal = Journal::new(&store, &vault, Limits::default());
    let name = Some("made".to_owned());
    let Ok(rewind) = journal.prepare("session", name, plan.steps, SystemTime::now()) else {
        return false;
    };
    fs::write(made(world), "").unwrap();
    journal.commit(&rewind, &mut || remove_made(world)).is_ok()
}

fn settle(world: &World) {
    let store = Store::open(&world.store(), no_hook()).unwrap();
    let vault = Vault::new(&world.store().join("objects"));
    let journal = Journal::new(&store, &vault, Limits::default());
    let mut at = |_: &Rewind, point: Point| {
        if point == Point::Undone {
            remove_made(world);
        }
    };
    journal.settle(&mut at).unwrap();
}

fn destroyed() -> (World, BTreeMap<PathBuf, String>, BTreeMap<PathBuf, String>) {
    let world = World::new(Setting::Repository);
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), DESTROY);
    take(&mut recorder, Event::After, "c1");
    let after = world.record();
    (world, before, after)
}

#[test]
fn stopped_at_every_step_of_a_rewind_and_of_taking_it_back() {
    let mut step = 0;
    let (world, before, after) = destroyed();
    loop {
        let (hook, _) = stop_at(step);
        let is_done = rewind(&world, hook);
        settle(&world);
        let is = world.record();
        assert!(is == before || is == after, "step {step}: {:?}", between(&is, &before));
        assert!(!is_done || is == before, "step {step}");
        // What the rewind makes is there if it is done, and only then.
        assert_eq!(made(&world).exists(), is == before, "step {step}");
        if is == before {
            // Taken back, stopped at the same step.
            let (hook, _) = stop_at(step);
            take_back(&world, hook);
            settle(&world);
            let is = world.record();
            assert!(is == before || is == after, "back, step {step}: {:?}", between(&is, &after));
            assert_eq!(made(&world).exists(), is == before, "back, step {step}");
            if is == before {
                take_back(&world, no_hook());
            }
            assert_eq!(world.record(), after, "back, step {step}");
            assert!(!made(&world).exists(), "back, step {step}");
        }
        if is_done {
            assert!(step > 15, "{step}");
            return;
        }
        step += 1;
    }
}

type Paths = BTreeMap<PathBuf, String>;

/// The paths at which two records differ.
fn between<'a>(one: &'a Paths, other: &'a Paths) -> Vec<&'a PathBuf> {
    let all = one.keys().chain(other.keys());
    all.filter(|path| one.get(*path) != other.get(*path)).collect()
}

fn take_back(world: &World, hook: Hook) {
    let Ok(store) = Store::open(&world.store(), hook) else { return };
    let vault = Vault::new(&world.store().join("objects"));
    let journal = Journal::new(&store, &vault, Limits::default());
    if let Some(rewind) = journal.list().first() {
        let _ = journal.take_back(rewind, &mut || remove_made(world));
    }
}

#[test]
fn stopped_at_every_step_of_an_image() {
    let world = World::new(Setting::Repository);
    let mut step = 0;
    loop {
        let (hook, _) = stop_at(step);
        let taken =
            Recorder::open_with(&world.store(), "session", &world.roots, Limits::default(), hook)
                .and_then(|mut recorder| {
                    recorder.take(Event::Before, about("c1"), SystemTime::now())
                });
        // Whatever is in the log can be read.
        let store = Store::open(&world.store(), no_hook()).unwrap();
        let moments = snapshot::Log::of(&world.store(), "session").unwrap().read().unwrap();
        for moment in &moments {
            for tree in &moment.trees {
                let image = snapshot::tree::Folder::load(&store, tree.image).unwrap();
                check(&store, &image);
            }
        }
        assert_eq!(moments.is_empty(), taken.is_err());
        if taken.is_ok() {
            assert!(step > 4, "{step}");
            return;
        }
        step += 1;
    }
}

fn check(store: &Store, folder: &snapshot::tree::Folder) {
    for item in &folder.items {
        match &item.what {
            snapshot::tree::What::File { hash, .. } => store.verify(*hash).unwrap(),
            snapshot::tree::What::Folder(below) => check(store, below),
            _ => {}
        }
    }
}

/// What the killed process does: takes images, destroys, rewinds, takes back, for ever.
#[test]
#[ignore = "the process that is killed"]
fn child() {
    let Some(base) = std::env::var_os("QUIPU_KILLED") else { return };
    let base = PathBuf::from(base);
    let (root, store) = (base.join("main"), base.join("state/snapshots"));
    let store_of = || Store::open(&store, no_hook()).unwrap();
    let vault = Vault::new(&store.join("objects"));
    loop {
        let store = store_of();
        let journal = Journal::new(&store, &vault, Limits::default());
        journal.settle(&mut |_, _| {}).unwrap();
        let moments = snapshot::Log::of(store.folder(), "session").unwrap().read().unwrap();
        let about_now = (Limits::default(), SystemTime::now());
        let plan = snapshot::plan::plan((&store, &vault), &moments, 0, Others::Respect, about_now)
            .unwrap();
        let rewind = journal.prepare("session", None, plan.steps, SystemTime::now()).unwrap();
        journal.commit(&rewind, &mut || {}).unwrap();
        let last = journal.list().first().cloned().unwrap();
        journal.take_back(&last, &mut || {}).unwrap();
        let limits = Limits::default();
        let mut other =
            Recorder::open(store.folder(), "other", std::slice::from_ref(&root), limits).unwrap();
        other.take(Event::Look, about("x"), SystemTime::now()).unwrap();
    }
}

#[test]
fn killed_at_random_moments() {
    let (world, before, after) = destroyed();
    let mut counts = (0, 0);
    for round in 0..100_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::child", "--exact", "--ignored", "--nocapture"])
            .env("QUIPU_KILLED", std::fs::canonicalize(world.temp.path()).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(8 + (round * 37) % 120));
        assert!(child.try_wait().unwrap().is_none(), "the process ended by itself, round {round}");
        child.kill().unwrap();
        child.wait().unwrap();
        settle(&world);
        let is = world.record();
        assert!(is == before || is == after, "round {round}: {:?}", between(&is, &after));
        if is == before {
            counts.0 += 1;
            take_back(&world, no_hook());
            assert_eq!(world.record(), after, "round {round}");
        } else {
            counts.1 += 1;
        }
    }
    assert!(counts.1 > 0, "{counts:?}");
}
