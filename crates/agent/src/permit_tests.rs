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

/// A process that may write to the folder swaps a link after a call was permitted.
#[cfg(unix)]
#[test]
fn a_link_that_is_swapped_leads_nowhere_else() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let site = project(&folder, "project");
    let outside = folder.join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(site.root.join("in")).unwrap();
    fs::write(outside.join("a"), "secret").unwrap();
    fs::write(site.root.join("in/a"), "open").unwrap();
    let path = |name: &str| site.root.join(name).to_str().unwrap().to_owned();
    let calls = [
        call("Read", &json!({"file_path": path("d/a")})),
        call("Grep", &json!({"pattern": "e", "path": path("d"), "output_mode": "content"})),
        call("Write", &json!({"file_path": path("d/new"), "content": "evil"})),
        call(
            "Edit",
            &json!({"file_path": path("d/a"), "old_string": "open", "new_string": "evil"}),
        ),
    ];
    let swap = |to: &Path| {
        let _ = fs::remove_file(site.root.join("d"));
        symlink(to, site.root.join("d")).unwrap();
    };
    let shown = |call: &Call| format!("{:?}", crate::tool::run(call, &site));
    for one in &calls {
        swap(&site.root.join("in"));
        assert!(allows(&mode(Mode::AcceptEdits), one, &site), "{one:?}");
        swap(&outside);
        // It is done where it was permitted, or not at all.
        assert!(!shown(one).contains("secret"), "{one:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "secret");
    assert!(!outside.join("new").exists() && site.root.join("in/new").exists());
    // The folder itself is swapped.
    for one in &calls {
        assert!(!allows(&mode(Mode::AcceptEdits), one, &site), "{one:?}");
        let _ = fs::remove_file(site.root.join("in"));
        let _ = fs::remove_dir_all(site.root.join("in"));
        fs::create_dir(site.root.join("in")).unwrap();
        fs::write(site.root.join("in/a"), "open").unwrap();
        swap(&site.root.join("in"));
        assert!(allows(&mode(Mode::AcceptEdits), one, &site), "{one:?}");
        fs::remove_dir_all(site.root.join("in")).unwrap();
        symlink(&outside, site.root.join("in")).unwrap();
        assert!(!shown(one).contains("secret"), "{one:?}");
        swap(&outside);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Without a judgement, it leads where it leads: the attack works.
    assert!(shown(&calls[0]).contains("secret"));
}

#[test]
fn searches_leave_out_what_rules_keep_from_being_read() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let site = project(&folder, "project");
    fs::create_dir_all(site.root.join("secrets")).unwrap();
    fs::write(site.root.join("secrets/a"), "needle").unwrap();
    fs::write(site.root.join("open"), "needle").unwrap();
    let root = site.root.to_str().unwrap();
    let calls = [
        call("Grep", &json!({"pattern": "needle", "path": root})),
        call("Glob", &json!({"pattern": "**/*", "path": root})),
    ];
    for rule in ["Read(./secrets/**)", "Read(secrets)", "Read(./secrets/a)"] {
        let permit = with(rules::Kind::Deny, rule, Mode::Default);
        for one in &calls {
            assert!(allows(&permit, one, &site), "{rule} {one:?}");
            let shown = format!("{:?}", crate::tool::run(one, &site));
            assert!(shown.contains("open") && !shown.contains("secrets"), "{rule}: {shown}");
        }
    }
    for one in &calls {
        assert!(allows(&mode(Mode::Default), one, &site));
        assert!(format!("{:?}", crate::tool::run(one, &site)).contains("secrets"), "{one:?}");
    }
}

/// Where nothing is asked, tools keep to what a command could do.
#[test]
fn the_sandbox_holds_tools_where_everything_is_allowed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let mut site = project(&folder, "project");
    for name in ["keys", "beside"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let write = |name: &str| call("Write", &json!({"file_path": path(name), "content": ""}));
    let read = |name: &str| call("Read", &json!({"file_path": path(name)}));
    let calls = [
        (write("project/a"), true),
        (write("project/.git/config"), false),
        (write("project/CLAUDE.md"), false),
        (write("other"), false),
        (write("beside/a"), true),
        (read("other"), true),
        (read("keys/a"), false),
        (call("Grep", &json!({"pattern": "x", "path": path("")})), false),
        (call("Read", &json!({"file_path": "/proc/self/environ"})), false),
    ];
    // Without a sandbox, everything is allowed.
    let judged =
        |permit: &Permit, site: &Site| calls.clone().map(|(one, _)| allows(permit, &one, site));
    assert_eq!(judged(&mode(Mode::Bypass), &site), [true; 9]);
    site.guard = Some(crate::guard::Guard {
        hidden: vec![folder.join("keys")],
        writable: vec![folder.join("beside")],
        ..crate::guard::Guard::default()
    });
    assert_eq!(judged(&mode(Mode::Bypass), &site), calls.clone().map(|(_, expected)| expected));
    let write_rule = with(rules::Kind::Allow, "Edit", Mode::Bypass);
    assert!(allows(&write_rule, &write("other"), &site));
    assert!(!allows(&write_rule, &read("keys/a"), &site));
}

#[cfg(unix)]
#[test]
fn a_pattern_of_a_shell_means_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["one/a.txt", "one/b.txt", "one/.c.txt", "two/a.txt"] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("/etc", root.join("three")).unwrap();
    let fit = |pattern: &str| {
        let found = fitting(&root.join(pattern)).unwrap();
        let mut names: Vec<String> = found
            .iter()
            .map(|path| path.strip_prefix(&root).unwrap_or(path).display().to_string())
            .collect();
        names.sort();
        names
    };
    assert_eq!(fit("*/a.txt"), ["one/a.txt", "two/a.txt"]);
    assert_eq!(fit("one/*"), ["one/a.txt", "one/b.txt"]);
    assert_eq!(fit("one/?.txt"), ["one/a.txt", "one/b.txt"]);
    assert_eq!(fit("*/passwd"), ["three/passwd"]);
    assert!(fit("three/../passw*").is_empty());
    assert!(fit("three/../et*").contains(&"/etc".to_owned()));
    assert!(fit("one/.*").contains(&"one/.c.txt".to_owned()));
    assert!(fit("one/.*").contains(&String::new()), "a folder above");
    assert!(fit("nothing/*").is_empty());

    // What a link among them leads to is not read without a question.
    let site = project(folder.path(), "project");
    std::os::unix::fs::symlink("/etc/passwd", site.root.join("users")).unwrap();
    fs::write(site.root.join("a.txt"), "").unwrap();
    let reads = |command: &str| {
        allows(&mode(Mode::Default), &call("Bash", &json!({"command": command})), &site)
    };
    assert!(reads("cat a.txt") && reads("cat *.txt") && !reads("cat *") && !reads("cat u*"));
}
