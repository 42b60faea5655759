use std::os::unix::fs::symlink;

use super::*;

fn kept(folder: &Path, survey: &mut Survey) -> Kept {
    let views = vec![(folder.to_owned(), survey.look(folder))];
    let sight = Sight { views, ..Sight::default() };
    Kept::new(sight, Vec::new(), folder.join("../aside"))
}

#[test]
fn deep_files_and_links_are_put_back_and_new_ones_taken_away() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let folder = root.join("work");
    let deep = folder.join("a/b/c/d/e/f/g");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(root.join("home")).unwrap();
    fs::write(deep.join(".envrc"), "old").unwrap();
    fs::write(folder.join("notes"), "").unwrap();
    symlink("notes", folder.join("CLAUDE.md")).unwrap();
    let mut survey = Survey::default();
    let before = kept(&folder, &mut survey);
    assert_eq!(before.restore(&mut survey), []);
    // A link in the place of a folder leads to where a shell would obey the file.
    fs::remove_dir_all(&deep).unwrap();
    symlink(root.join("home"), &deep).unwrap();
    fs::remove_file(folder.join("CLAUDE.md")).unwrap();
    symlink("evil", folder.join("CLAUDE.md")).unwrap();
    fs::create_dir(folder.join("evil")).unwrap();
    fs::write(folder.join("evil/pre-commit"), "evil").unwrap();
    symlink("evil", folder.join(".husky")).unwrap();
    fs::write(folder.join("a/b/.mcp.json"), "evil").unwrap();
    let mut taken = before.restore(&mut survey);
    taken.sort_by_key(Taken::in_words);
    let expected = [
        Taken::Made(folder.join(".husky")),
        Taken::Changed(folder.join("CLAUDE.md")),
        Taken::Made(folder.join("a/b/.mcp.json")),
        Taken::Changed(deep.join(".envrc")),
    ];
    assert_eq!(taken.len(), 4, "{taken:?}");
    assert!(expected.iter().all(|one| taken.contains(one)), "{taken:?}");
    assert!(!root.join("home/.envrc").exists());
    assert_eq!(fs::read_to_string(deep.join(".envrc")).unwrap(), "old");
    assert!(!deep.is_symlink());
    assert_eq!(fs::read_link(folder.join("CLAUDE.md")).unwrap(), Path::new("notes"));
    assert!(!folder.join(".husky").is_symlink());
    // What was taken away is not lost.
    let aside: Vec<_> = fs::read_dir(root.join("aside")).unwrap().flatten().collect();
    assert_eq!(fs::read_to_string(aside[0].path()).unwrap(), "evil");
    assert_eq!(before.restore(&mut survey), []);
}

#[test]
fn a_change_is_seen_whatever_times_are_set() {
    let place = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(place.path()).unwrap();
    let inner = folder.join("x/y");
    fs::create_dir_all(&inner).unwrap();
    let mut survey = Survey::default();
    std::thread::sleep(std::time::Duration::from_millis(150));
    let before = kept(&folder, &mut survey);
    let time = fs::metadata(&inner).unwrap().modified().unwrap();
    fs::write(inner.join(".envrc"), "evil").unwrap();
    fs::File::open(&inner).unwrap().set_modified(time).unwrap();
    assert_eq!(before.restore(&mut survey), [Taken::Made(inner.join(".envrc"))]);
}

#[test]
fn what_a_permitted_tool_has_written_stays() {
    let place = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(place.path()).unwrap();
    let mut survey = Survey::default();
    let mut before = kept(&folder, &mut survey);
    fs::write(folder.join(".envrc"), "wanted").unwrap();
    before.admit(&folder.join(".envrc"));
    assert_eq!(before.restore(&mut survey), []);
}

#[test]
fn names_with_control_characters_do_not_reach_a_terminal() {
    let taken = Taken::Made(PathBuf::from("a\u{1b}[2J/.envrc"));
    assert!(!taken.in_words().contains('\u{1b}'));
}

/// More than anybody would look at, and folders that cannot be read.
#[test]
fn many_files_and_shut_folders_hide_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(place.path()).unwrap();
    let mut survey = Survey::default();
    let before = kept(&folder, &mut survey);
    fs::create_dir_all(folder.join(".husky/in")).unwrap();
    for number in 0..4_000 {
        fs::write(folder.join(format!(".husky/{number}")), "").unwrap();
    }
    fs::write(folder.join(".husky/in/pre-commit"), "evil").unwrap();
    fs::create_dir(folder.join("shut")).unwrap();
    fs::write(folder.join("shut/.envrc"), "evil").unwrap();
    for (name, mode) in [(".husky/in", 0o100), (".husky", 0o555), ("shut", 0o100)] {
        let path = folder.join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let taken = before.restore(&mut survey);
    assert_eq!(taken.len(), 4_002);
    assert!(taken.iter().all(|one| matches!(one, Taken::Made(_))), "{taken:?}");
    assert!(!folder.join("shut/.envrc").exists());
    assert!(!folder.join(".husky/in/pre-commit").exists());
    assert_eq!(before.restore(&mut survey), []);
}

/// A mounted file can be changed by another name.
#[test]
fn a_file_with_another_name_is_put_back() {
    let place = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(place.path()).unwrap();
    fs::write(folder.join(".envrc"), "old").unwrap();
    fs::hard_link(folder.join(".envrc"), folder.join("other")).unwrap();
    let mut survey = Survey::default();
    let views = vec![(folder.clone(), survey.look(&folder))];
    let sight = Sight { views, ..Sight::default() };
    let before = Kept::new(sight, vec![folder.join(".envrc")], folder.join("../aside"));
    fs::write(folder.join("other"), "evil").unwrap();
    assert_eq!(before.restore(&mut survey), [Taken::Changed(folder.join(".envrc"))]);
    assert_eq!(fs::read_to_string(folder.join(".envrc")).unwrap(), "old");
    // It is no longer the same file.
    assert_eq!(fs::read_to_string(folder.join("other")).unwrap(), "evil");
}

/// The repository of a worktree is outside the session's folder, and commands write to it.
#[test]
fn nothing_new_is_obeyed_in_the_repository_of_a_worktree() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let (folder, git) = (root.join("work"), root.join("main/.git"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&git).unwrap();
    fs::write(git.join("config"), "").unwrap();
    let mut survey = Survey::default();
    let views = vec![(folder.clone(), survey.look(&folder))];
    let sight = Sight { views, gits: vec![git.clone()], ..Sight::default() };
    let before = Kept::new(sight, vec![git.join("config")], root.join("aside"));
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::create_dir_all(git.join("rebase-merge")).unwrap();
    let made = ["commondir", "hooks/pre-commit", "rebase-merge/git-rebase-todo"];
    for name in made {
        fs::write(git.join(name), "pick 1\n  exec evil\n").unwrap();
    }
    let mut taken = before.restore(&mut survey);
    taken.sort_by_key(Taken::in_words);
    assert_eq!(taken, made.map(|name| Taken::Made(git.join(name))));
}

#[test]
fn what_may_not_be_made_is_taken_away() {
    let place = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(place.path()).unwrap().join("work");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("old.lock"), "old").unwrap();
    let rule = rules::Pattern::new("*.lock", &folder, &folder, None);
    let mut survey = Survey::new(Vec::new(), vec![rule]);
    let views = vec![(folder.clone(), survey.look(&folder))];
    let missing = vec![folder.join("locked")];
    let sight = Sight { views, missing, ..Sight::default() };
    let before = Kept::new(sight, Vec::new(), folder.join("../aside"));
    assert_eq!(before.restore(&mut survey), []);
    fs::create_dir(folder.join("locked")).unwrap();
    fs::write(folder.join("locked/a"), "new").unwrap();
    fs::write(folder.join("new.lock"), "new").unwrap();
    fs::write(folder.join("old.lock"), "new").unwrap();
    let mut taken = before.restore(&mut survey);
    taken.sort_by_key(Taken::in_words);
    let made = ["locked/a", "new.lock"].map(|name| Taken::Made(folder.join(name)));
    let [first, second] = made;
    assert_eq!(taken, [first, second, Taken::Changed(folder.join("old.lock"))]);
    assert_eq!(fs::read_to_string(folder.join("old.lock")).unwrap(), "old");
}
