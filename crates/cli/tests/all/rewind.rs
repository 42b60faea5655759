//! Undo that cannot miss, with the program as users run it: `rewind`, `changes`, `undo`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chat::{Lab, SESSION, call, text};

/// The same table as that of the library.
const TABLE: &str = include_str!("../../../snapshot/tests/all/destroy.txt");

const FILES: &str = "mkdir -p src deep/er empty node_modules/x && printf 'int one;\nint two;\n' > src/main.c \
    && printf 'int one;\n' > src/side.c && printf 'one\ntwo\nthree\n' > notes.txt \
    && head -c 3000 /dev/urandom > blob.bin && echo 'echo hi' > run.sh && chmod 755 run.sh \
    && echo deep > deep/er/file.txt && ln -s src/main.c link && echo KEY=1 > .env \
    && echo ignored > node_modules/x/index.js && printf 'node_modules/\n.env\n' > .gitignore";
const GIT: &str = "git init -q -b main . && git config user.email a@b && git config user.name me \
    && git add -A && git commit -qm first && git tag v1 && echo four >> notes.txt \
    && git commit -qam second && git checkout -q -b side && echo side >> src/side.c \
    && git commit -qam side && git checkout -q main && echo stashed >> notes.txt && git stash -q \
    && echo open >> notes.txt && echo staged >> src/main.c && git add src/main.c \
    && echo untracked > untracked.txt";

fn sh(folder: &Path, command: &str) -> String {
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.parent().unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&done.stdout), text(&done.stderr))
}

/// Everything in a folder, as an independent program sees it; an ignored folder is not covered.
fn record(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let found = fs::symlink_metadata(path).unwrap();
    let mode = found.permissions().mode() & 0o7777;
    let name = path.file_name().unwrap();
    if found.is_dir() {
        if name == "node_modules" {
            return;
        }
        all.insert(path.to_owned(), format!("folder {mode:o}"));
        for entry in fs::read_dir(path).into_iter().flatten() {
            record(&entry.unwrap().path(), all);
        }
    } else if found.is_symlink() {
        all.insert(path.to_owned(), format!("link {}", fs::read_link(path).unwrap().display()));
    } else {
        let bytes = if name == "index" { Vec::new() } else { fs::read(path).unwrap_or_default() };
        all.insert(path.to_owned(), format!("file {mode:o} {bytes:?}"));
    }
}

type State = (String, BTreeMap<PathBuf, String>);

fn state(folder: &Path) -> State {
    let git = sh(
        folder,
        "git status --porcelain=v2 --branch; git log --all --format='%H %D'; git stash list; git fsck",
    );
    let mut all = BTreeMap::new();
    record(folder, &mut all);
    (git, all)
}

/// What a command prints; it must succeed.
fn run(lab: &Lab, args: &[&str]) -> String {
    let output = lab.env.output(args);
    assert!(output.status.success(), "{args:?}: {}", lab.env.show(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn bash(id: &str, command: &str) -> Value {
    call(id, "Bash", &json!({"command": command, "description": "destroy"}))
}

const FREE: [&str; 3] = ["--dangerously-skip-permissions", "--sandbox", "off"];

fn destroy(lab: &mut Lab, more: &[&str]) {
    let args: Vec<&str> = ["go"].iter().chain(&FREE).chain(more).copied().collect();
    let output = lab.new_session(&args);
    assert!(output.status.success(), "{}", lab.env.show(&output));
}

/// A project that the agent destroys with one command.
fn project(command: &str, setup: &[&str]) -> (Lab, PathBuf) {
    let lab = Lab::says(&[&[bash("toolu_1", command)], &[text("done")]]);
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    sh(&folder, "rm -rf README.md src");
    for step in setup {
        sh(&folder, step);
    }
    (lab, folder)
}

fn table(setup: &[&str], is_wanted: impl Fn(&str) -> bool) -> usize {
    let mut wrong = Vec::new();
    let mut count = 0;
    for command in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if !is_wanted(command) {
            continue;
        }
        // First without images: it destroys something.
        let (mut lab, folder) = project(command, setup);
        let before = state(&folder);
        destroy(&mut lab, &["--no-snapshots"]);
        if state(&folder) == before {
            wrong.push(format!("`{command}` destroys nothing"));
            continue;
        }
        let (mut lab, folder) = project(command, setup);
        let before = state(&folder);
        destroy(&mut lab, &[]);
        let output = lab.env.output(&["rewind", SESSION, "--files", "--yes"]);
        let after = state(&folder);
        if !output.status.success() || after != before {
            let keys = |state: &State| state.1.keys().cloned().collect::<Vec<_>>();
            wrong.push(format!(
                "`{command}` is not undone: {}\n{}\n{}\n{}",
                lab.env.show(&output),
                before.0,
                after.0,
                keys(&after).len(),
            ));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    count
}

#[test]
fn what_forty_commands_destroy_comes_back() {
    let count = table(&[FILES, GIT], |command| !command.contains("chmod -R 000"));
    assert!(count >= 40, "{count}");
}

#[test]
fn outside_of_git_too() {
    let count = table(&[FILES], |command| {
        !command.contains("git") && !command.contains("chmod -R") && command.len() % 2 == 0
    });
    assert!(count >= 10, "{count}");
}

#[test]
fn a_rewind_is_shown_asked_refused_forced_and_taken_back() {
    let (mut lab, folder) = project("echo agent >> notes.txt; rm -rf src", &[FILES]);
    destroy(&mut lab, &[]);
    let read = || fs::read_to_string(folder.join("notes.txt")).unwrap();
    let shown = run(&lab, &["rewind", SESSION, "--files", "--dry-run"]);
    assert!(shown.contains("-agent"), "{shown}");
    assert!(shown.contains("created") && shown.contains("src/main.c"), "{shown}");
    assert!(read().contains("agent"));
    // Someone else.
    fs::write(folder.join("notes.txt"), "mine\n").unwrap();
    let refused = lab.env.output(&["rewind", SESSION, "--files"]);
    assert_eq!(refused.status.code(), Some(5), "{}", lab.env.show(&refused));
    assert_eq!(read(), "mine\n");
    run(&lab, &["rewind", SESSION, "--files", "--force"]);
    assert_eq!(read(), "one\ntwo\nthree\n");
    assert!(folder.join("src/main.c").exists());
    let list = run(&lab, &["undo", "--list"]);
    assert!(list.contains("rewind"), "{list}");
    let undone = run(&lab, &["undo"]);
    assert!(undone.contains("rewind of 11111111 undone"), "{undone}");
    assert_eq!(read(), "mine\n");
    assert!(!folder.join("src").exists());
}

#[test]
fn both_go_back_and_undo_takes_both_back() {
    let mut lab =
        Lab::says(&[&[text("hello")], &[bash("toolu_1", "echo two > two.txt")], &[text("done")]]);
    lab.new_session(&["hi"]);
    let args: Vec<&str> = ["-r", SESSION, "go"].iter().chain(&FREE).copied().collect();
    let output = lab.run(&args);
    assert!(output.status.success(), "{}", lab.env.show(&output));
    assert!(lab.cwd().join("two.txt").exists());
    let json = run(&lab, &["rewind", SESSION, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["turn"], 2);
    assert_eq!(json["source"], "images");
    let made = json["conversation"].as_str().unwrap().to_owned();
    assert!(!lab.cwd().join("two.txt").exists());
    let turns = run(&lab, &["turns", &made, "--json"]);
    assert!(turns.contains("hello") && !turns.contains("two.txt"), "{turns}");
    run(&lab, &["undo"]);
    assert!(lab.cwd().join("two.txt").exists());
    assert_eq!(lab.env.output(&["turns", &made]).status.code(), Some(3));
}

#[test]
fn changes_belong_to_their_turns_or_to_someone_else() {
    let mut lab = Lab::says(&[
        &[bash("toolu_1", "echo one >> log.txt")],
        &[text("done")],
        &[bash("toolu_2", "echo three >> log.txt")],
        &[text("done")],
    ]);
    destroy(&mut lab, &[]);
    let path = lab.cwd().join("log.txt");
    fs::write(&path, "one\nperson\n").unwrap();
    let args: Vec<&str> = ["-r", SESSION, "more"].iter().chain(&FREE).copied().collect();
    assert!(lab.run(&args).status.success());
    let rows = run(&lab, &["changes", SESSION, "--json"]);
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let added = |row: &Value| {
        let diff = row["diff"].as_str().unwrap().to_owned();
        let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++");
        diff.lines().filter(is_added).map(str::to_owned).collect::<Vec<_>>().join(",")
    };
    let got: Vec<_> =
        rows.iter().map(|row| (row["by"].clone(), row["turn"].clone(), added(row))).collect();
    let expected = [
        (json!("turn"), json!(1), "+one".to_owned()),
        (json!("other"), Value::Null, "+person".to_owned()),
        (json!("turn"), json!(2), "+three".to_owned()),
    ];
    assert_eq!(got, expected);
    let text = run(&lab, &["changes", SESSION, "--turn", "2"]);
    assert!(text.contains("+three") && !text.contains("+one"), "{text}");
}

#[test]
fn without_an_image_no_command_runs() {
    let (mut lab, folder) = project("rm -rf src", &[FILES]);
    // The store cannot be written: it is a file.
    lab.env.put(".local/state/quipu/snapshots", "not a folder");
    destroy(&mut lab, &[]);
    assert!(folder.join("src").exists());
    let output = lab.env.output(&["rewind", SESSION, "--files"]);
    assert!(!output.status.success());
    let (mut lab, folder) = project("rm -rf src", &[FILES]);
    lab.env.put(".local/state/quipu/snapshots", "not a folder");
    destroy(&mut lab, &["--no-snapshots"]);
    assert!(!folder.join("src").exists());
}

#[test]
fn a_session_that_is_deleted_for_good_leaves_no_images() {
    let (mut lab, _) = project("rm -rf src", &[FILES]);
    destroy(&mut lab, &[]);
    let packs = lab.env.path(".local/state/quipu/snapshots/packs");
    assert!(fs::read_dir(&packs).unwrap().count() > 0);
    run(&lab, &["rm", SESSION, "--purge", "--yes"]);
    assert_eq!(fs::read_dir(&packs).unwrap().count(), 0);
}
