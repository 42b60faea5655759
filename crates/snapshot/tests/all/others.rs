//! What a person changes stays, or the rewind says so.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use snapshot::moment::{Actor, spans};
use snapshot::plan::{Clash, Others};
use snapshot::tree::{Folder, State, differences};
use snapshot::{About, Event};

use crate::world::{Setting, World, about, sh, take};

#[test]
fn an_edit_between_two_commands_survives() {
    let world = World::new(Setting::Repository);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "sed -i s/int/long/ src/main.c");
    take(&mut recorder, Event::After, "c1");
    fs::write(world.root().join("notes.txt"), "mine\n").unwrap();
    fs::write(world.root().join("new.txt"), "mine too\n").unwrap();
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "git checkout -q -f . && rm -f new.txt");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 0, Others::Respect);
    let read = |name: &str| fs::read_to_string(world.root().join(name)).unwrap();
    assert_eq!(read("notes.txt"), "mine\n");
    assert_eq!(read("new.txt"), "mine too\n");
    assert_eq!(read("src/main.c"), "int one;\nint two;\nstaged\n");
}

#[test]
fn what_both_changed_is_a_clash() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "echo agent >> notes.txt; rm -rf src; mkdir made; echo x > made/x");
    take(&mut recorder, Event::After, "c1");
    sh(world.root(), "echo person >> notes.txt; echo mine > made/mine");
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(world.root().join("notes.txt"), Clash::Changed)]);
    world.rewind(&recorder, 0, Others::Overwrite);
    let read = |name: &str| fs::read_to_string(world.root().join(name)).unwrap();
    assert_eq!(read("notes.txt"), "one\ntwo\nthree\n");
    assert_eq!(read("made/mine"), "mine\n");
    assert!(!world.root().join("made/x").exists());
}

#[test]
fn a_commit_of_a_person_keeps_the_objects_that_it_needs() {
    let world = World::new(Setting::Repository);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "echo agent > agent.txt; git add agent.txt");
    take(&mut recorder, Event::After, "c1");
    assert_eq!(sh(world.root(), "git commit -qm person"), "");
    let plan = world.plan(&recorder, 0, Others::Respect);
    let objects = plan.steps.iter().filter(|step| step.from == Some(State::Object));
    assert_eq!(objects.count(), 0);
    world.rewind(&recorder, 0, Others::Overwrite);
    assert!(!sh(world.root(), "git fsck --strict").contains("missing"));
}

#[test]
fn what_looking_at_the_tree_writes_is_no_clash() {
    let world = World::new(Setting::Repository);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "git add -A");
    take(&mut recorder, Event::After, "c1");
    sh(world.root(), "touch notes.txt src/main.c; git status");
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, []);
}

#[test]
fn a_folder_that_is_ignored_later_stays_covered() {
    let world = World::new(Setting::Repository);
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "git rm -rq --cached src; echo src/ >> .gitignore");
    take(&mut recorder, Event::After, "c1");
    take(&mut recorder, Event::Before, "c2");
    sh(world.root(), "rm -rf src/");
    take(&mut recorder, Event::After, "c2");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
}

#[test]
fn what_is_tracked_in_an_ignored_folder_is_covered() {
    let world = World::new(Setting::Repository);
    sh(
        world.root(),
        "mkdir -p dist && echo a > dist/a && git add -f dist/a; echo dist/ >> .gitignore",
    );
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    assert_eq!(
        recorder.outside(),
        [(world.root().join("node_modules"), snapshot::tree::Why::Ignored)]
    );
    sh(world.root(), "rm -rf dist");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
}

#[test]
fn one_path_is_brought_up_to_date_alone() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    let path = world.root().join("new/folder/file.txt");
    recorder.touch(Event::Before, about("e1"), &path, std::time::SystemTime::now()).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "edited\n").unwrap();
    // Someone else, at the same time.
    fs::write(world.root().join("notes.txt"), "person\n").unwrap();
    recorder.touch(Event::After, about("e1"), &path, std::time::SystemTime::now()).unwrap();
    take(&mut recorder, Event::Before, "c2");
    let moments = recorder.log().read().unwrap();
    let mut seen: Vec<(Actor, PathBuf)> = Vec::new();
    for span in spans(&moments) {
        let Some(to) = span.to else { continue };
        let load = |image| Folder::load(recorder.store(), image).unwrap();
        let (one, other) = (load(span.from.trees[0].image), load(to.trees[0].image));
        for change in differences(&one, &other) {
            let name = String::from_utf8(change.place).unwrap();
            seen.push((span.actor, name.into()));
        }
    }
    let expected = [
        (Actor::Agent, "new".into()),
        (Actor::Agent, "new/folder".into()),
        (Actor::Agent, "new/folder/file.txt".into()),
        (Actor::Other, "notes.txt".into()),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_link_on_the_way_is_never_followed() {
    let world = World::new(Setting::Plain);
    let other = world.temp.path().join("elsewhere");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("main.c"), "not mine").unwrap();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm -rf src && ln -s ../elsewhere src");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(fs::read_to_string(other.join("main.c")).unwrap(), "not mine");
    assert!(!fs::symlink_metadata(world.root().join("src")).unwrap().is_symlink());
}

#[test]
fn what_changed_while_a_command_had_not_ended_is_a_clash() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm -rf src; echo person > notes.txt");
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(world.root().join("notes.txt"), Clash::Unended)]);
    world.rewind(&recorder, 0, Others::Overwrite);
    assert!(world.root().join("src/main.c").exists());
}

/// A folder that cannot go stays, so what was there before it cannot come back: nothing happens.
#[test]
fn a_file_that_is_too_large_to_be_kept_is_in_the_way() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(
        world.root(),
        "echo x >> src/main.c; rm notes.txt; mkdir notes.txt; truncate -s 5G notes.txt/huge",
    );
    take(&mut recorder, Event::After, "c1");
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(world.root().join("notes.txt"), Clash::InTheWay)]);
}

/// The log says when the process was killed only by what is missing in it.
#[test]
fn what_a_person_changed_after_a_killed_command_is_a_clash() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "killed");
    sh(world.root(), "echo person > notes.txt");
    let next = About { prompt: Some("p2".to_owned()), ..about("c2") };
    recorder.take(Event::Before, next.clone(), SystemTime::now()).unwrap();
    fs::write(world.root().join("made.txt"), "agent\n").unwrap();
    recorder.take(Event::After, next, SystemTime::now()).unwrap();
    fs::write(world.root().join("mine.txt"), "mine\n").unwrap();
    let moments = recorder.log().read().unwrap();
    let actors: Vec<Actor> = spans(&moments).iter().map(|span| span.actor).collect();
    assert_eq!(actors, [Actor::Unsure, Actor::Agent, Actor::Other]);
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(world.root().join("notes.txt"), Clash::Unended)]);
    world.rewind(&recorder, 1, Others::Respect);
    let read = |name: &str| fs::read_to_string(world.root().join(name)).unwrap();
    assert_eq!((read("notes.txt"), read("mine.txt")), ("person\n".into(), "mine\n".into()));
    assert!(!world.root().join("made.txt").exists());
}

/// From where it goes on by itself, nobody knows who acted, until it ends; what is done between two
/// images of another call is that call's.
#[test]
fn what_changes_while_a_command_is_in_the_background_is_a_clash() {
    let world = World::new(Setting::Plain);
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "server");
    fs::write(world.root().join("started.txt"), "agent\n").unwrap();
    take(&mut recorder, Event::Look, "server");
    sh(world.root(), "echo person > notes.txt");
    take(&mut recorder, Event::Before, "c2");
    fs::write(world.root().join("made.txt"), "agent\n").unwrap();
    take(&mut recorder, Event::After, "c2");
    take(&mut recorder, Event::After, "server");
    fs::write(world.root().join("mine.txt"), "mine\n").unwrap();
    let moments = recorder.log().read().unwrap();
    let actors: Vec<Actor> = spans(&moments).iter().map(|span| span.actor).collect();
    let expected =
        [Actor::Agent, Actor::Unsure, Actor::Agent, Actor::Unsure, Actor::Other].to_vec();
    assert_eq!(actors, expected);
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(world.root().join("notes.txt"), Clash::Unended)]);
    let paths: Vec<_> = plan.steps.iter().map(snapshot::plan::Step::path).collect();
    let all = ["made.txt", "notes.txt", "started.txt"].map(|name| world.root().join(name));
    assert_eq!(paths, all);
}

/// What a restored branch needs comes back with it, whoever collected it.
#[test]
fn objects_that_someone_else_removed_come_back_or_are_named() {
    let world = World::new(Setting::Repository);
    let before = world.git();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "git branch -D side");
    take(&mut recorder, Event::After, "c1");
    sh(world.root(), "git reflog expire --expire=now --all; git gc -q --prune=now");
    world.rewind(&recorder, 0, Others::Overwrite);
    let commits = |text: &str| text.contains("side") && !text.contains("bad object");
    assert!(commits(&before) && commits(&sh(world.root(), "git log --oneline side; git fsck")));
    // Without copies it is said beforehand.
    sh(world.root(), "git update-ref -d refs/heads/side; git gc -q --prune=now");
    sh(&world.store(), "find objects -type f ! -name where -delete");
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert!(plan.clashes.iter().any(|(_, clash)| *clash == Clash::Gone), "{:?}", plan.clashes);
}

#[test]
fn a_lock_of_git_does_not_come_back() {
    let world = World::new(Setting::Repository);
    let lock = world.root().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "rm .git/index.lock; rm -rf src");
    take(&mut recorder, Event::After, "c1");
    world.rewind(&recorder, 0, Others::Respect);
    assert!(world.root().join("src/main.c").exists() && !lock.exists());
}

/// An edit is undone wherever it is, also where no image is taken.
#[test]
fn an_edit_that_no_image_covers_is_undone_by_itself() {
    let world = World::new(Setting::Repository);
    let outside = fs::canonicalize(world.temp.path()).unwrap().join("far/away/notes.txt");
    let ignored = world.root().join("node_modules/x/index.js");
    let new = world.root().join("node_modules/new/made.js");
    fs::create_dir_all(outside.parent().unwrap()).unwrap();
    fs::write(&outside, "mine\n").unwrap();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Look, "l");
    for (at, path) in [&outside, &ignored, &new].into_iter().enumerate() {
        let call = format!("e{at}");
        recorder.touch(Event::Before, about(&call), path, SystemTime::now()).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "agent\n").unwrap();
        recorder.touch(Event::After, about(&call), path, SystemTime::now()).unwrap();
    }
    let outcome = snapshot::moment::deeds(&recorder.log().read().unwrap()).len();
    assert_eq!(outcome, 3);
    // The folder around it may be gone.
    fs::remove_dir_all(world.temp.path().join("far")).unwrap();
    let plan = world.plan(&recorder, 0, Others::Respect);
    assert_eq!(plan.clashes, [(outside.clone(), Clash::Changed)]);
    world.rewind(&recorder, 0, Others::Overwrite);
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!((read(&outside), read(&ignored)), ("mine\n".into(), "ignored\n".into()));
    assert!(!new.exists());
}

/// A folder that git ignores is not covered because a file is made in it.
#[test]
fn a_file_in_a_new_ignored_folder_covers_nothing_else() {
    let world = World::new(Setting::Repository);
    sh(world.root(), "rm -rf node_modules");
    let path = world.root().join("node_modules/made/file.js");
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Look, "l");
    recorder.touch(Event::Before, about("e1"), &path, SystemTime::now()).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "agent\n").unwrap();
    recorder.touch(Event::After, about("e1"), &path, SystemTime::now()).unwrap();
    take(&mut recorder, Event::Look, "l");
    let ignored = (world.root().join("node_modules"), snapshot::tree::Why::Ignored);
    assert_eq!(recorder.outside(), [ignored]);
}
