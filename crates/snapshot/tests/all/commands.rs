//! Every command of the table destroys something, and a rewind brings all of it back.

use snapshot::Event;
use snapshot::plan::Others;

use crate::world::{Setting, World, sh, take};

const TABLE: &str = include_str!("destroy.txt");

fn run(setting: Setting) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for command in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let is_git = command.starts_with("git") || command.contains(".git");
        if setting == Setting::Plain && is_git {
            continue;
        }
        let world = World::new(setting);
        // So that the index is written before, and not by the command that looks at it.
        let before = (world.git(), world.record());
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
        sh(world.root(), command);
        take(&mut recorder, Event::After, "c1");
        let is_chmod = command.contains("chmod -R 000");
        if is_chmod {
            // An independent record cannot be made of what nobody may read.
        } else if world.record() == before.1 && world.git() == before.0 {
            // A worktree has one commit less, and some commands find nothing to do there.
            if setting != Setting::Worktree {
                wrong.push(format!("{setting:?}: `{command}` destroys nothing"));
            }
            continue;
        }
        count += 1;
        let plan = world.rewind(&recorder, 0, Others::Respect);
        let record = world.record();
        if record != before.1 {
            let differ =
                |(path, state): &(&std::path::PathBuf, &String)| before.1.get(*path) != Some(state);
            let new: Vec<_> = record.iter().filter(differ).map(|(path, _)| path).collect();
            let gone: Vec<_> = before.1.keys().filter(|path| !record.contains_key(*path)).collect();
            wrong.push(format!(
                "{setting:?}: `{command}` is not undone: new or changed {new:?}, gone {gone:?}, stays {:?}",
                plan.stays
            ));
        }
        let git = world.git();
        if git != before.0 {
            wrong.push(format!("{setting:?}: `{command}`: git says\n{git}\nnot\n{}", before.0));
        }
    }
    let least = if setting == Setting::Plain { 30 } else { 55 };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= least, "{count}");
}

#[test]
fn in_a_repository() {
    run(Setting::Repository);
}

#[test]
fn in_a_worktree() {
    run(Setting::Worktree);
}

#[test]
fn outside_of_git() {
    run(Setting::Plain);
}
