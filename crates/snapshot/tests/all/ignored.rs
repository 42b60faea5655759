//! Folders that git ignores: what was never covered is never touched, what was covered once stays
//! covered.

use std::fs;

use snapshot::plan::Others;
use snapshot::{Event, Limits, Recorder};

use crate::world::{Setting, World, sh, take};

/// Commands after which git ignores less than before.
const UNCOVERING: [&str; 4] = [
    "rm .gitignore",
    "rm -rf .git",
    "mkdir -p node_modules/more; : > .gitignore",
    "printf 'src/\n' > .gitignore && rm -rf src",
];

#[test]
fn what_was_ignored_before_is_not_deleted() {
    for command in UNCOVERING {
        let world = World::new(Setting::Repository);
        let ignored = world.root().join("node_modules/x/index.js");
        let before = (world.git(), world.record());
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
        sh(world.root(), command);
        take(&mut recorder, Event::After, "c1");
        assert_ne!(world.record(), before.1, "`{command}`");
        let plan = world.rewind(&recorder, 0, Others::Respect);
        assert_eq!((world.git(), world.record()), before, "`{command}`");
        assert_eq!(fs::read_to_string(&ignored).unwrap(), "ignored\n", "`{command}`");
        let stays: Vec<_> = plan.stays.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(stays, [world.root().join("node_modules")], "`{command}`");
    }
}

/// It is covered from when git does not ignore it any more.
#[test]
fn what_is_not_ignored_any_more_is_covered() {
    let world = World::new(Setting::Repository);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm .gitignore");
    take(&mut recorder, Event::After, "c1");
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "rm -rf node_modules");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 0, Others::Respect);
    let path = world.root().join("node_modules/x/index.js");
    assert_eq!(fs::read_to_string(path).unwrap(), "ignored\n");
}

#[test]
fn a_folder_that_was_covered_stays_so_in_a_session_that_is_resumed() {
    let world = World::new(Setting::Repository);
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "git rm -rq --cached src; echo src/ >> .gitignore");
    take(&mut recorder, Event::After, "c1");
    drop(recorder);
    // Someone else takes an image in between, in which the folder is not.
    let roots = &world.roots;
    let mut other = Recorder::open(&world.store(), "other", roots, Limits::default()).unwrap();
    take(&mut other, Event::Look, "x");
    drop(other);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "rm -rf src");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
}

#[test]
fn a_folder_that_was_covered_stays_so_when_it_is_made_again() {
    let world = World::new(Setting::Repository);
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "git rm -rqf src; echo src/ >> .gitignore");
    take(&mut recorder, Event::After, "c1");
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "mkdir src; echo x > src/main.c");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
}

/// What git tracks is covered wherever it is, also if the index is in two parts.
#[test]
fn what_a_split_index_tracks_is_covered() {
    let world = World::new(Setting::Repository);
    let setup = "mkdir build; echo build/ >> .gitignore; echo 1 > build/x; git add -f build/x; \
        git update-index --split-index; ls .git/sharedindex.*";
    assert!(sh(world.root(), setup).starts_with(".git/sharedindex."));
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm -rf build");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(fs::read_to_string(world.root().join("build/x")).unwrap(), "1\n");
}
