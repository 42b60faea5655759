//! `rename`, `tag`, `rm` and `move`: what is said, what is written, and what `undo` restores.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::Env;

/// A session with a sub-agent in its folder, and one with sub-agents beside it.
const NESTED: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const FLAT: &str = "ade43c95-f68a-4a69-9e1e-f0407a2ad094";
const DAMAGED: &str = "badc0ffe-0000-4000-8000-00000000d00d";
const PROJECT: &str = ".claude/projects/-home-dev-demo";

/// All files of the home, with times.
fn files(env: &Env) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut open = vec![env.path(".claude")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                let modified = entry.metadata().unwrap().modified().unwrap();
                found.insert(entry.path(), (fs::read(entry.path()).unwrap(), modified));
            }
        }
    }
    found
}

fn bytes(env: &Env) -> BTreeMap<PathBuf, Vec<u8>> {
    files(env).into_iter().map(|(path, (bytes, _))| (path, bytes)).collect()
}

/// A home in which sessions have everything that can belong to one.
fn home() -> Env {
    let env = Env::with_sessions();
    for id in [NESTED, FLAT] {
        env.put(&format!(".claude/todos/{id}-agent-{id}.json"), "[]");
        env.put(&format!(".claude/file-history/{id}/0123456789abcdef@v1"), "old text\n");
        env.put(&format!(".claude/session-env/{id}/hook.sh"), "export A=1\n");
        env.put(&format!("{PROJECT}/{id}/tool-results/toolu_1.txt"), "a long result\n");
        env.put(&format!("{PROJECT}/{id}/archived.json"), "{\"archived\":true}");
        env.put(&format!("{PROJECT}/{id}/later/kept.bin"), [0, 1, 2]);
    }
    let prompt = format!(
        "{{\"display\":\"hi\",\"project\":\"/home/dev/demo\",\"sessionId\":\"{NESTED}\"}}\n"
    );
    env.put(".claude/history.jsonl", prompt);
    env.put(&format!("{PROJECT}/memory/MEMORY.md"), "remember\n");
    env
}

fn ok(env: &Env, args: &[&str]) -> String {
    let output = env.run(args);
    assert!(output.starts_with("exit 0"), "{args:?}: {output}");
    output
}

#[test]
fn each_says_what_it_does() {
    let mut text = String::new();
    for args in [
        &["rename", NESTED, "The  widget counter"][..],
        &["rename", NESTED, "The  widget\ncounter"],
        &["rename", NESTED, ""],
        &["rename", NESTED, "Another", "--dry-run"],
        &["tag", NESTED, "blue"],
        &["tag", NESTED, "--remove"],
        &["tag", NESTED],
        &["rm", NESTED],
        &["rm", NESTED, "--dry-run"],
        &["rm", NESTED, "--purge"],
        &["rm", NESTED, "--purge", "--yes"],
        &["rm", "no such session"],
        &["move", NESTED, "/home/dev/new place"],
        &["move", NESTED, "/home/dev/demo"],
        &["move", NESTED, "elsewhere", "--dry-run"],
        &["move", "--project", "/home/dev/demo", "/home/dev/app"],
        &["move", "--project", "/home/dev/demo", "/home/dev/app", "--dry-run"],
        &["move", "--project", "/no/such", "/home/dev/app"],
    ] {
        let env = home();
        writeln!(text, "### quipu {}\n{}", args.join(" "), env.run(args)).unwrap();
    }
    assert_snapshot!(text);
}

/// Newer clients keep the title as the name of the agent, too.
#[test]
fn a_title_is_the_name_of_the_agent_in_newer_sessions() {
    let env = home();
    let id = "0b204f87-d4e4-4d02-8e5b-d7f25f98d168";
    ok(&env, &["rename", id, "A title", "--force"]);
    let after = fs::read_to_string(env.path(&format!("{PROJECT}/{id}.jsonl"))).unwrap();
    let names = format!(
        "{{\"type\":\"custom-title\",\"customTitle\":\"A title\",\"sessionId\":\"{id}\"}}\n\
         {{\"type\":\"agent-name\",\"agentName\":\"A title\",\"sessionId\":\"{id}\"}}\n"
    );
    assert!(after.ends_with(&names), "{after}");
}

#[test]
fn titles_and_tags_are_records_at_the_end() {
    let env = home();
    let path = env.path(&format!("{PROJECT}/{NESTED}.jsonl"));
    let before = fs::read_to_string(&path).unwrap();
    ok(&env, &["rename", NESTED, "A \"new\" title"]);
    ok(&env, &["tag", NESTED, "blue", "--force"]);
    let title = format!(
        r#"{{"type":"custom-title","customTitle":"A \"new\" title","sessionId":"{NESTED}"}}"#
    );
    let tag = format!(r#"{{"type":"tag","tag":"blue","sessionId":"{NESTED}"}}"#);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{before}{title}\n{tag}\n"));
    assert!(ok(&env, &["ls", "--all", "blue"]).contains("[blue] A \"new\" title"));
    let listed = String::from_utf8(env.output(&["ls", "--all", "--json", "blue"]).stdout).unwrap();
    assert!(listed.contains(r#""tag":"blue""#), "{listed}");
    assert!(ok(&env, &["show", NESTED]).contains("tag blue"));
    assert_eq!(ok(&env, &["tag", NESTED]), "exit 0\n--- stdout\nblue\n");
    // Another tag than this one stays; a title and a tag that are there already change nothing.
    let is = bytes(&env);
    ok(&env, &["tag", NESTED, "red", "--remove"]);
    ok(&env, &["tag", NESTED, "blue"]);
    ok(&env, &["rename", NESTED, "A \"new\" title"]);
    assert_eq!(bytes(&env), is);
    ok(&env, &["tag", NESTED, "--remove", "--force"]);
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .ends_with(&format!("{{\"type\":\"tag\",\"tag\":\"\",\"sessionId\":\"{NESTED}\"}}\n"))
    );
    assert!(!ok(&env, &["ls", "--all"]).contains("[blue]"));
    for _ in 0..3 {
        ok(&env, &["undo", "--force"]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn each_can_be_undone() {
    for args in [
        &["rename", NESTED, "x"][..],
        &["tag", FLAT, "x"],
        &["rm", NESTED],
        &["rm", FLAT],
        &["rm", DAMAGED],
        &["move", NESTED, "/x/y"],
        &["move", FLAT, "/x/y.z"],
        &["move", "--project", "/home/dev", "/x"],
        // The same folder in the home.
        &["move", NESTED, "/home/dev.demo"],
        &["move", NESTED, "/home/dev_demo"],
    ] {
        let env = home();
        let before = files(&env);
        ok(&env, args);
        assert_ne!(files(&env), before, "{args:?}");
        ok(&env, &["undo"]);
        assert_eq!(files(&env), before, "{args:?}");
        assert!(!env.path(".claude/projects/-x-y").exists());
    }
}

fn is_in_catalog(env: &Env, id: &str) -> bool {
    let query = format!("SELECT count(*) FROM sessions WHERE session = '{id}'");
    let output = env.output(&["sql", "--json", &query]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    found["rows"][0][0] != 0
}

/// The catalog has one name for a home; people and their settings have others.
#[test]
fn a_removed_session_is_forgotten_whatever_its_home_is_called() {
    for name in [".claude/", ".claude", "./.claude//"] {
        let env = home();
        ok(&env, &["index"]);
        assert!(is_in_catalog(&env, NESTED));
        let mut command = env.command(&["rm", NESTED, "--purge", "--yes"]);
        let output = command.env("CLAUDE_CONFIG_DIR", name).output().unwrap();
        assert!(output.status.success(), "{}", env.show(&output));
        assert!(!is_in_catalog(&env, NESTED), "{name}");
    }
}

#[test]
fn a_removed_session_leaves_only_what_others_use() {
    for purge in [&["--purge", "--yes"][..], &[]] {
        let env = home();
        ok(&env, &["index"]);
        let before = bytes(&env);
        ok(&env, &[&["rm", NESTED], purge].concat());
        let gone: Vec<PathBuf> =
            before.keys().filter(|path| !bytes(&env).contains_key(*path)).cloned().collect();
        assert!(gone.len() >= 7, "{gone:?}");
        let names_it = |path: &PathBuf| path.to_string_lossy().contains(NESTED);
        assert!(gone.iter().all(names_it), "{gone:?}");
        let left: Vec<PathBuf> = bytes(&env).into_keys().filter(names_it).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        assert!(!env.path(&format!("{PROJECT}/{NESTED}")).exists());
        // The catalog does not know it any more.
        assert!(!is_in_catalog(&env, NESTED));
        assert!(env.run(&["show", NESTED]).starts_with("exit 3"));
        // Nothing of it is in the journal, either.
        let journal = env.path(".local/state/quipu/undo");
        let kept = fs::read_dir(journal).into_iter().flatten().flatten().count();
        assert_eq!(kept, usize::from(purge.is_empty()));
    }
}

/// A purge also removes the copies that the journal has of earlier changes.
#[test]
fn a_purge_leaves_no_copy_in_the_journal() {
    let env = home();
    ok(&env, &["rename", NESTED, "x"]);
    ok(&env, &["rm", NESTED, "--purge", "--yes", "--force"]);
    assert_eq!(fs::read_dir(env.path(".local/state/quipu/undo")).unwrap().count(), 0);
}

#[test]
fn a_session_in_use_is_left_alone() {
    let env = home();
    let pid = std::process::id();
    env.put(
        &format!(".claude/sessions/{pid}.json"),
        format!("{{\"pid\":{pid},\"sessionId\":\"{NESTED}\"}}"),
    );
    let before = files(&env);
    for args in [
        &["rename", NESTED, "x"][..],
        &["tag", NESTED, "x"],
        &["rm", NESTED],
        &["rm", NESTED, "--purge", "--yes"],
        &["move", NESTED, "/x"],
        &["move", "--project", "/home/dev/demo", "/x"],
    ] {
        let output = env.run(args);
        assert!(output.starts_with("exit 5"), "{args:?}: {output}");
        assert_eq!(files(&env), before, "{args:?}");
    }
    ok(&env, &["rm", NESTED, "--force"]);
}

#[test]
fn there_and_back_is_byte_for_byte() {
    for (what, back) in [
        (&["move", NESTED, "/x/new place"][..], &["move", NESTED, "/home/dev/demo"][..]),
        (&["move", FLAT, "/home/dev/demo/below"], &["move", FLAT, "/home/dev/demo"]),
        (
            &["move", "--project", "/home/dev/demo", "/srv/app"],
            &["move", "--project", "/srv/app", "/home/dev/demo"],
        ),
    ] {
        let env = home();
        let before = files(&env);
        ok(&env, what);
        assert_ne!(bytes(&env), bytes(&home()), "{what:?}");
        ok(&env, back);
        let changed: Vec<_> = before
            .keys()
            .filter(|path| files(&env).get(*path) != before.get(*path))
            .cloned()
            .collect();
        assert_eq!((changed, files(&env).len()), (Vec::new(), before.len()), "{what:?}");
    }
}

/// What is moved is where the client looks for it, and names the new place everywhere.
#[test]
fn a_moved_session_is_where_the_client_looks() {
    let env = home();
    ok(&env, &["move", NESTED, "/srv/my app"]);
    let new = env.path(".claude/projects/-srv-my-app");
    let text = fs::read_to_string(new.join(format!("{NESTED}.jsonl"))).unwrap();
    assert!(text.contains(r#""cwd":"/srv/my app""#) && !text.contains("/home/dev/demo"));
    assert!(new.join(NESTED).join("subagents").is_dir());
    assert!(new.join(NESTED).join("tool-results/toolu_1.txt").is_file());
    assert!(!env.path(&format!("{PROJECT}/{NESTED}")).exists());
    assert!(env.path(&format!(".claude/file-history/{NESTED}")).is_dir());
    // The memory belongs to the project, which stays.
    assert!(env.path(&format!("{PROJECT}/memory/MEMORY.md")).is_file());
    let check = env.run(&["check", NESTED]);
    assert!(check.starts_with("exit 0"), "{check}");
}

#[test]
fn a_name_that_is_taken_is_not_overwritten() {
    let env = home();
    env.put(&format!(".claude/projects/-x/{NESTED}.jsonl"), "{}\n");
    let before = files(&env);
    let output = env.run(&["move", &format!("{PROJECT}/{NESTED}.jsonl"), "/x"]);
    assert!(output.starts_with("exit 2") && output.contains("already exists"), "{output}");
    assert_eq!(files(&env), before);
}

/// Nothing is removed or read through a link.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let env = home();
    let precious = env.put("precious/file", "keep me");
    let folder = env.path(&format!("{PROJECT}/{NESTED}"));
    std::os::unix::fs::symlink(env.path("precious"), folder.join("linked")).unwrap();
    std::os::unix::fs::symlink(&precious, folder.join("tool-results/linked.txt")).unwrap();
    let output = ok(&env, &["rm", NESTED]);
    assert!(output.contains("a link"), "{output}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "keep me");
    let env = home();
    let path = env.path(&format!("{PROJECT}/{NESTED}.jsonl"));
    let real = env.path("real.jsonl");
    fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    for args in [&["rm", NESTED][..], &["rm", NESTED, "--purge", "--yes"], &["move", NESTED, "/x"]]
    {
        assert!(env.run(args).starts_with("exit 5"), "{args:?}");
        assert!(real.is_file() && path.is_file());
    }
}
