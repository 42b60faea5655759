//! What a person changes stays, or the rewind says so.

use std::fs;
use std::path::PathBuf;

use snapshot::Event;
use snapshot::moment::{Actor, spans};
use snapshot::plan::{Clash, Others};
use snapshot::tree::{Folder, State, differences};

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
