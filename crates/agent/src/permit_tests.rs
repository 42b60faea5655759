use std::fs;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ambient::Real;
use crate::api::script::Script;
use crate::tool::Cancel;

fn call(name: &str, input: &serde_json::Value) -> Call {
    let input = input.as_object().cloned().unwrap();
    Call { id: "c".to_owned(), name: name.to_owned(), input, cancel: Cancel::default() }
}

/// A project in a folder.
fn project(folder: &Path, name: &str) -> Site {
    let root = folder.join(name);
    fs::create_dir_all(root.join(".git")).unwrap();
    let script = Arc::new(Script::read("{}", &[]).unwrap());
    Site::new(&root, &folder.join("session"), None, (script, String::new()), Arc::new(Real))
}

fn allows(permit: &Permit, call: &Call, site: &Site) -> bool {
    permit.judge(call, site).decision == rules::Decision::Allow
}

/// A permit with this rule.
fn with(kind: rules::Kind, rule: &str, mode: Mode) -> Permit {
    let rule = rules::Rule::parse(rule, kind, "test", PathBuf::from("/")).unwrap();
    let book = Rulebook { rules: vec![rule], ..Rulebook::default() };
    Permit { mode, book, ..Permit::default() }
}

fn mode(mode: Mode) -> Permit {
    Permit { mode, ..Permit::default() }
}

#[test]
fn modes_and_names_decide() {
    let folder = tempfile::tempdir().unwrap();
    let site = project(folder.path(), "project");
    let root = &site.root;
    let inside = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let read = call("Read", &json!({"file_path": inside("a")}));
    let read_out = call("Read", &json!({"file_path": inside("../secret")}));
    let write = call("Write", &json!({"file_path": inside("new/a"), "content": ""}));
    let hook = call("Edit", &json!({"file_path": inside(".git/hooks/x")}));
    let bash = call("Bash", &json!({"command": "make"}));
    let at = |permit: &Permit, site: &Site| {
        [&read, &read_out, &write, &hook, &bash].map(|call| allows(permit, call, site))
    };
    let allowed = |permit: &Permit| at(permit, &site);
    assert_eq!(allowed(&mode(Mode::Default)), [true, false, false, false, false]);
    assert_eq!(allowed(&mode(Mode::AcceptEdits)), [true, false, true, false, false]);
    assert_eq!(allowed(&mode(Mode::Bypass)), [true; 5]);
    let named = with(rules::Kind::Allow, "Bash", Mode::Default);
    assert_eq!(allowed(&named), [true, false, false, false, true]);
    let refused = with(rules::Kind::Deny, "Bash", Mode::Bypass);
    assert_eq!(allowed(&refused), [true, true, true, true, false]);
    let wide =
        Site { folders: vec![folder.path().to_owned()], ..project(folder.path(), "project") };
    assert_eq!(at(&Permit::default(), &wide), [true, true, false, false, false]);
    // A link does not lead out.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path(), root.join("link")).unwrap();
        let linked = call("Read", &json!({"file_path": inside("link/secret")}));
        assert!(!allows(&mode(Mode::Default), &linked, &site));
    }
}

#[test]
fn a_pattern_does_not_lead_out() {
    let folder = tempfile::tempdir().unwrap();
    let site = project(folder.path(), "project");
    let is_allowed = |pattern: &str, path: &str| {
        let call = call("Glob", &json!({"pattern": pattern, "path": path}));
        allows(&mode(Mode::Default), &call, &site)
    };
    assert!(is_allowed("*", "") && is_allowed("src/*.rs", ".") && is_allowed("../*", "src"));
    assert!(is_allowed(&format!("{}/*", site.root.display()), ""));
    assert!(!is_allowed("../*", "") && !is_allowed("src/../../*", "") && !is_allowed("*", ".."));
    assert!(!is_allowed("/*", "") && !is_allowed("~/*", "") && !is_allowed("/etc/passwd", "src"));
}

#[cfg(unix)]
#[test]
fn what_decides_what_programs_do_is_not_written_by_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let site = project(folder.path(), "project");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(site.root.join(to), site.root.join(name)).unwrap();
    };
    fs::create_dir_all(site.root.join("plain")).unwrap();
    link(".git", "link");
    link("plain", ".claude");
    let is_allowed = |name: &str| {
        let call = call("Write", &json!({"file_path": site.root.join(name), "content": ""}));
        allows(&mode(Mode::AcceptEdits), &call, &site)
    };
    assert!(is_allowed("a") && is_allowed("plain/settings.json") && is_allowed(".github/a"));
    assert!(!is_allowed("link/hooks/pre-commit") && !is_allowed(".git/config"));
    assert!(
        !is_allowed(".claude/settings.json") && !is_allowed(".git") && !is_allowed("a/.bashrc")
    );
    let is_other = !cfg!(target_os = "macos");
    assert_eq!(is_allowed(".GIT/config"), is_other);
}

#[test]
fn where_a_session_works_is_no_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folders = vec![folder.path().to_owned()];
    let site = Site { folders, ..project(folder.path(), ".claude/worktrees/x") };
    let is_allowed = |path: PathBuf| {
        allows(&mode(Mode::AcceptEdits), &call("Edit", &json!({"file_path": path})), &site)
    };
    assert!(is_allowed(site.root.join("src/a.rs")) && is_allowed(folder.path().join("b")));
    assert!(!is_allowed(site.root.join(".claude/settings.json")));
    assert!(!is_allowed(folder.path().join(".claude/settings.json")));
}

#[test]
fn what_tools_put_aside_is_read_but_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = project(folder.path(), "project");
    let check = |name, path: PathBuf, site: &Site| {
        allows(&mode(Mode::AcceptEdits), &call(name, &json!({"file_path": path})), site)
    };
    let aside = site.folder.join("tool-results/b1.txt");
    assert!(check("Read", aside.clone(), &site) && !check("Write", aside.clone(), &site));
    // The model may not read anything else next to a session.
    assert!(!check("Read", site.folder.join("context.json"), &site));
    #[cfg(unix)]
    {
        fs::create_dir_all(&site.folder).unwrap();
        std::os::unix::fs::symlink("/", site.folder.join("tool-results")).unwrap();
        assert!(!check("Read", site.folder.join("tool-results/etc/passwd"), &site));
        assert!(!check("Read", PathBuf::from("/etc/passwd"), &site));
    }
    // A session's file may be anywhere, and what is next to it may be anything.
    site.is_own_folder = false;
    assert!(!check("Read", aside, &site));
}
