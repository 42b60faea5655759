//! The shape of the tree, as a test: file ceilings, crate direction, a header on every module.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have, tests aside. Splitting is easier before it is reached.
const CEILING: usize = 800;

/// Files that are over it. The list may only become shorter.
const OVER: &[&str] = &[];

/// Each crate's folder, its name, and which crates it may use, tests aside.
const DIRECTION: &[(&str, &str, &[&str])] = &[
    ("files", "files", &[]),
    ("transcript", "transcript", &["files"]),
    ("agent", "agent", &["files", "transcript"]),
    ("export", "export", &["files", "transcript"]),
    ("cli", "quipu", &["agent", "export", "files", "transcript"]),
    ("testkit", "testkit", &[]),
];

fn sources() -> Vec<PathBuf> {
    files("crates", &["rs"])
}

/// The files in a folder that have one of these endings.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![testkit::root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|ending| endings.iter().any(|one| ending == *one))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.ends_with("_tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

fn name(path: &Path) -> String {
    path.strip_prefix(testkit::root()).unwrap().to_string_lossy().replace('\\', "/")
}

#[test]
fn files_stay_short() {
    for path in sources().iter().filter(|path| !is_test(path)) {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        let known = OVER.contains(&name(path).as_str());
        assert!(lines <= CEILING || known, "{} has {lines} lines", name(path));
        assert!(lines > CEILING || !known, "{} is short enough: take it off the list", name(path));
    }
}

#[test]
fn every_module_opens_with_what_it_is() {
    for path in sources() {
        let name_of = name(&path);
        // Unit tests belong to the module beside them.
        if name_of.ends_with("_tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! ") && first.len() > 12, "{name_of} has no header");
    }
}

#[test]
fn crates_use_only_what_they_may() {
    let crates = testkit::root().join("crates");
    let mut folders: Vec<String> = fs::read_dir(&crates)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut listed: Vec<&str> = DIRECTION.iter().map(|row| row.0).collect();
    listed.sort_unstable();
    assert_eq!(folders, listed, "a new crate needs a row in DIRECTION");
    for (folder, package, allowed) in DIRECTION {
        let manifest = fs::read_to_string(crates.join(folder).join("Cargo.toml")).unwrap();
        let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap_or_default();
        assert!(manifest.contains(&format!("name = \"{package}\"")), "{folder} is not {package}");
        for (_, other, _) in DIRECTION {
            let named = |line: &str| {
                line.strip_prefix(other).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            };
            let used = section.lines().any(named);
            assert!(!used || allowed.contains(other), "{folder} may not use {other}");
        }
    }
}

#[test]
fn the_changelog_has_a_place_for_what_is_new() {
    let text = fs::read_to_string(testkit::root().join("CHANGELOG.md")).unwrap();
    let section = text.split("## Unreleased").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    assert!(section.contains("\n- "), "CHANGELOG.md has nothing under Unreleased");
}

/// Nothing of one machine belongs into the project.
#[test]
fn no_paths_of_a_machine() {
    let here = testkit::root().parent().unwrap().to_string_lossy().into_owned() + "/";
    // A checkout right under the root would make this mean nothing.
    if here.len() < 4 {
        return;
    }
    let more = files("docs", &["md"]).into_iter().chain(files("bench", &["py", "rs"]));
    for path in sources().into_iter().chain(files("crates", &["py"])).chain(more) {
        // A benchmark's own build has files that are no text.
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains(&here), "{} names {here}", name(&path));
    }
}
