//! What is kept is bounded, private and verified.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use snapshot::plan::{Clash, Others, plan};
use snapshot::store::no_hook;
use snapshot::upkeep::{forget, tidy};
use snapshot::{Bounds, Event, Limits, Recorder, ScanError};

use crate::world::{Setting, World, about, sh, take};

fn packs(world: &World) -> u64 {
    let found = fs::read_dir(world.store().join("packs")).unwrap();
    found.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// A program that another test starts has our locks for a moment, and nothing is tidied up then.
fn until(mut is_done: impl FnMut() -> bool) {
    assert!((0..100).any(|_| {
        let done = is_done();
        if !done {
            std::thread::sleep(Duration::from_millis(10));
        }
        done
    }));
}

#[test]
fn deleting_a_session_deletes_its_images() {
    let world = World::new(Setting::Repository);
    let secret = "a-secret-that-only-one-session-saw";
    {
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
    }
    fs::write(world.root().join("secret"), secret.repeat(3)).unwrap();
    {
        let mut other =
            Recorder::open(&world.store(), "other", &world.roots, Limits::default()).unwrap();
        take(&mut other, Event::Before, "c1");
    }
    let hash = snapshot::Hash::of(secret.repeat(3).as_bytes());
    let has = || snapshot::Store::open(&world.store(), no_hook()).unwrap().has(hash);
    assert!(has());
    forget(&world.store(), "other", no_hook()).unwrap();
    assert!(!has());
    // What the other one needs is there.
    fs::remove_file(world.root().join("secret")).unwrap();
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "rm -rf src notes.txt");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 1, Others::Respect);
    assert_eq!(world.record(), before);
    drop(recorder);
    forget(&world.store(), "session", no_hook()).unwrap();
    assert_eq!(packs(&world), 0);
    assert_eq!(fs::read_dir(world.store().join("objects")).unwrap().count(), 0);
}

#[test]
fn what_is_too_old_or_too_much_goes() {
    let world = World::new(Setting::Plain);
    for session in ["one", "two"] {
        let mut recorder =
            Recorder::open(&world.store(), session, &world.roots, Limits::default()).unwrap();
        fs::write(world.root().join(session), session.repeat(1000)).unwrap();
        take(&mut recorder, Event::Before, "c1");
    }
    let now = SystemTime::now();
    tidy(&world.store(), Bounds::default(), None, now, no_hook()).unwrap();
    assert!(packs(&world) > 0);
    let later = now + Duration::from_secs(31 * 86_400);
    let sessions = || fs::read_dir(world.store().join("sessions")).unwrap().count();
    until(|| {
        tidy(&world.store(), Bounds::default(), Some("two"), later, no_hook()).unwrap();
        sessions() == 1
    });
    until(|| {
        tidy(&world.store(), Bounds { days: 1000, bytes: 0 }, None, now, no_hook()).unwrap();
        packs(&world) == 0
    });
}

#[test]
fn a_damaged_content_is_never_restored() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm -rf src");
    take(&mut recorder, Event::After, "c1");
    for entry in fs::read_dir(world.store().join("packs")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        if path.extension().is_some_and(|ending| ending == "pack") {
            let mut bytes = fs::read(&path).unwrap();
            bytes.iter_mut().step_by(20).for_each(|byte| *byte ^= 0x40);
            fs::write(&path, bytes).unwrap();
        }
    }
    let store = snapshot::Store::open(&world.store(), no_hook()).unwrap();
    let moments = recorder.log().read().unwrap();
    let about = (Limits::default(), SystemTime::now());
    let planned = plan((&store, recorder.vault()), &moments, 0, Others::Respect, about);
    assert!(matches!(planned, Err(ScanError::Store(_))), "{planned:?}");
    assert!(!world.root().join("src").exists());
}

/// The copies of git's objects are verified, too: by what git calls them.
#[test]
fn a_damaged_object_is_never_put_back() {
    let world = World::new(Setting::Repository);
    let before = world.git();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    let damage = "find objects -type f ! -name where -exec sh -c \
        'for f; do chmod u+w \"$f\"; echo more >> \"$f\"; done' - {} +";
    // They are as private as the rest.
    assert_eq!(sh(&world.store(), "find . -type f ! -perm 600"), "");
    sh(&world.store(), damage);
    sh(world.root(), "git commit -qam more");
    take(&mut recorder, Event::After, "c1");
    // What is still there is not mended with them.
    let plan = world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, []);
    assert_eq!(world.git(), before);
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "rm -rf .git/objects/??");
    take(&mut recorder, Event::After, "c2");
    let plan = world.plan(&recorder, 2, Others::Respect);
    assert!(plan.clashes.len() > 10, "{:?}", plan.clashes);
    assert!(plan.clashes.iter().all(|(_, clash)| *clash == Clash::Damaged), "{:?}", plan.clashes);
    // It is the user's to say that they are better than nothing.
    world.rewind(&recorder, 2, Others::Overwrite);
    let back = sh(world.root(), "find .git/objects -path '*/objects/??/*' -type f");
    assert_eq!(back.lines().count(), plan.clashes.len());
}

#[test]
fn a_tree_that_is_too_large_is_an_error() {
    let world = World::new(Setting::Plain);
    let limits = Limits { walk: Duration::ZERO, ..Limits::default() };
    let mut recorder = Recorder::open(&world.store(), "session", &world.roots, limits).unwrap();
    let taken = recorder.take(Event::Before, about("c1"), SystemTime::now());
    assert!(matches!(taken, Err(ScanError::TooMany { .. })), "{taken:?}");
    assert_eq!(recorder.log().read().unwrap(), []);
    let inside = Recorder::open(&world.root().join("s"), "session", &world.roots, limits);
    assert!(matches!(inside, Err(ScanError::Inside { .. })));
}

#[test]
fn a_store_in_the_folder_is_an_error_also_behind_a_link() {
    let world = World::new(Setting::Plain);
    fs::create_dir(world.root().join("state")).unwrap();
    let link = world.temp.path().join("link");
    std::os::unix::fs::symlink(world.root().join("state"), &link).unwrap();
    for store in [world.root().join("state"), link] {
        let opened = Recorder::open(&store, "session", &world.roots, Limits::default());
        assert!(matches!(opened, Err(ScanError::Inside { .. })), "{opened:?}");
    }
}

#[test]
fn files_over_the_limit_are_counted_and_left_alone() {
    let world = World::new(Setting::Plain);
    let limits = Limits { file: 2000, ..Limits::default() };
    let mut recorder = Recorder::open(&world.store(), "session", &world.roots, limits).unwrap();
    let moment = recorder.take(Event::Before, about("c1"), SystemTime::now()).unwrap();
    assert_eq!(moment.left_out.large, 1);
    assert_eq!(moment.left_out.ignored, 0);
}

#[test]
fn large_files_are_stored_too() {
    let world = World::new(Setting::Plain);
    sh(
        world.root(),
        "head -c 20000000 /dev/urandom > large.bin; head -c 3000000 /dev/urandom > middle.bin",
    );
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "echo x >> large.bin; rm middle.bin");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
}

/// What another process sweeps while a session runs is stored again.
#[test]
fn what_was_swept_meanwhile_is_stored_again() {
    let world = World::new(Setting::Repository);
    let mut other =
        Recorder::open(&world.store(), "other", &world.roots, Limits::default()).unwrap();
    take(&mut other, Event::Before, "c1");
    drop(other);
    let before = (world.git(), world.record());
    // All that it has seen belongs to the other session, and is in no log of its own.
    let mut recorder = world.recorder();
    recorder.warm(SystemTime::now()).unwrap();
    forget(&world.store(), "other", no_hook()).unwrap();
    take(&mut recorder, Event::Before, "c1");
    sh(
        world.root(),
        "rm -rf src notes.txt; git branch -D side; git reflog expire --all \
        --expire=now; git gc -q --prune=now",
    );
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!((world.git(), world.record()), before);
}

fn objects(world: &World) -> usize {
    let count = sh(&world.store(), "find objects -type f ! -name where | wc -l");
    count.trim().parse().unwrap()
}

/// Of a repository that is in use those objects go that no image has.
#[test]
fn objects_that_no_image_needs_go() {
    let world = World::new(Setting::Repository);
    let now = SystemTime::now();
    {
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
    }
    let all = objects(&world);
    tidy(&world.store(), Bounds::default(), None, now, no_hook()).unwrap();
    assert_eq!(objects(&world), all);
    sh(
        world.root(),
        "git stash clear; git branch -D side; git reflog expire --all --expire=now; \
        git gc -q --prune=now",
    );
    {
        let mut other =
            Recorder::open(&world.store(), "other", &world.roots, Limits::default()).unwrap();
        take(&mut other, Event::Before, "c1");
    }
    assert!(objects(&world) > all);
    forget(&world.store(), "session", no_hook()).unwrap();
    // A pack, and its index.
    assert!((2..=3).contains(&objects(&world)), "{}", objects(&world));
    let before = (world.git(), world.record());
    let mut other =
        Recorder::open(&world.store(), "other", &world.roots, Limits::default()).unwrap();
    take(&mut other, Event::Before, "c2");
    sh(world.root(), "rm -rf .git/objects");
    take(&mut other, Event::After, "c2");
    world.rewind(&other, 0, Others::Respect);
    assert_eq!((world.git(), world.record()), before);
}

/// Damages what is stored, from an offset on in each pack.
fn damage(world: &World, is_wanted: impl Fn(usize) -> bool) {
    for entry in fs::read_dir(world.store().join("packs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "pack") {
            let mut bytes = fs::read(&path).unwrap();
            let wanted = bytes.iter_mut().enumerate().filter(|(at, _)| is_wanted(*at));
            wanted.for_each(|(_, byte)| *byte ^= 0x40);
            fs::write(&path, bytes).unwrap();
        }
    }
}

/// What is damaged does not count as stored: the next image has it again.
#[test]
fn what_is_damaged_is_stored_again() {
    let world = World::new(Setting::Plain);
    let before = world.record();
    take(&mut world.recorder(), Event::Before, "c1");
    damage(&world, |at| at % 20 == 0);
    let undone = |call: &str| {
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, call);
        sh(world.root(), "rm -rf src notes.txt blob.bin");
        take(&mut recorder, Event::After, call);
        let count = recorder.log().read().unwrap().len();
        world.rewind(&recorder, count - 2, Others::Respect);
        assert_eq!(world.record(), before);
    };
    undone("c2");
    // Also by processes that have not seen the damage themselves, and after it was swept out.
    undone("c3");
    assert!(world.store().join("damaged").exists());
    let now = SystemTime::now();
    tidy(&world.store(), Bounds::default(), None, now, no_hook()).unwrap();
    assert!(!world.store().join("damaged").exists());
    undone("c4");
}

/// Contents that no image reads are looked over from time to time.
#[test]
fn damage_that_nobody_has_seen_is_found_when_it_is_tidied_up() {
    let world = World::new(Setting::Plain);
    take(&mut world.recorder(), Event::Before, "c1");
    // The first block has the files, and the second one the listings.
    damage(&world, |at| at < 8);
    let store = || snapshot::Store::open(&world.store(), no_hook()).unwrap();
    let hash = snapshot::Hash::of(&fs::read(world.root().join("notes.txt")).unwrap());
    assert!(store().has(hash));
    let now = SystemTime::now();
    tidy(&world.store(), Bounds::default(), None, now, no_hook()).unwrap();
    assert!(!store().has(hash));
    take(&mut world.recorder(), Event::Before, "c2");
    store().verify(hash).unwrap();
}

/// Rewinds are kept only as long as there is room for what they need.
#[test]
fn rewinds_go_when_there_is_too_much() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "head -c 100000 /dev/urandom > blob.bin");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    drop(recorder);
    let now = SystemTime::now() + Duration::from_secs(5);
    take(&mut world.recorder(), Event::Before, "c2");
    tidy(&world.store(), Bounds { days: 1000, bytes: 0 }, Some("session"), now, no_hook()).unwrap();
    assert_eq!(fs::read_dir(world.store().join("rewinds")).unwrap().count(), 0);
}
