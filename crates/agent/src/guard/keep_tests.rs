use std::os::unix::fs::symlink;

use super::*;

fn kept(folder: &Path, survey: &mut Survey) -> Kept {
    let found = survey.look(folder);
    Kept::new(&[folder.to_owned()], &found, Vec::new(), folder.join("../aside"))
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
