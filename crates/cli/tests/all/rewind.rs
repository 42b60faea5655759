//! Undo that cannot miss, with the program as users run it: `rewind`, `changes`, `undo`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::chat::{Lab, SESSION, call, text};
use crate::env::set_age;

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
        let is_read = name != "index" && found.is_file();
        let bytes = if is_read { fs::read(path).unwrap_or_default() } else { Vec::new() };
        let text = if bytes.len() > 1 << 20 {
            // Too long to be printed.
            format!(
                "{:?}",
                bytes.iter().fold(7_u64, |sum, byte| sum * 31 % 65_521 + u64::from(*byte))
            )
        } else {
            format!("{bytes:?}")
        };
        all.insert(path.to_owned(), format!("file {mode:o} {} {text}", bytes.len()));
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
    unpack(&folder, setup);
    (lab, folder)
}

/// Puts files into a folder. They are made once for each setup: most of the time would be git's.
fn unpack(folder: &Path, setup: &[&str]) {
    static MADE: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let packed = made.entry(setup.join(";")).or_insert_with(|| {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("base");
        fs::create_dir(&base).unwrap();
        for step in setup {
            sh(&base, step);
        }
        Command::new("tar").args(["cf", "-", "."]).current_dir(&base).output().unwrap().stdout
    });
    let mut tar = Command::new("tar")
        .args(["xpf", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(packed).unwrap();
    assert!(tar.wait().unwrap().success());
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
    // Beside the project nothing can be written, so that a copy there destroys nothing.
    let count = table(&[FILES, GIT], |command| {
        !command.contains("chmod -R 000") && !command.contains("../copy")
    });
    assert!(count >= 40, "{count}");
}

#[test]
fn outside_of_git_too() {
    let count = table(&[FILES], |command| {
        let is_other = ["git", "chmod -R", "../copy"].iter().any(|part| command.contains(part));
        !is_other && command.len() % 2 == 0
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
    let output = lab.env.output(&["rewind", SESSION, "--files", "--dry-run"]);
    let shown = lab.env.show(&output);
    assert!(shown.contains("it would be refused: ") && shown.contains("notes.txt"), "{shown}");
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
    set_age(&lab.file(SESSION), 60);
    run(&lab, &["rm", SESSION, "--purge", "--yes"]);
    assert_eq!(fs::read_dir(&packs).unwrap().count(), 0);
}

/// What a person reads: before, after, and where it is refused.
#[test]
fn what_a_person_reads() {
    let command = "echo agent >> notes.txt; rm -rf src; chmod 700 run.sh; ln -sfn x link; mkdir new; \
        echo 1 > new/file; printf 'a\\0b' > blob.bin; rm -rf node_modules; mkfifo pipe; git add -A";
    let setup = [FILES, "head -c 20 /dev/zero > blob.bin", "git init -q -b main ."];
    let (mut lab, folder) = project(command, &setup);
    destroy(&mut lab, &[]);
    let mut shown = String::new();
    let mut show = |lab: &Lab, args: &[&str]| {
        let output = lab.env.output(args);
        let text = |bytes: &[u8]| lab.clean(&String::from_utf8_lossy(bytes));
        writeln!(
            shown,
            "$ quipu {}\n{}{}(exit code {:?})\n",
            args.join(" "),
            text(&output.stdout),
            text(&output.stderr),
            output.status.code(),
        )
        .unwrap();
    };
    show(&lab, &["changes", SESSION]);
    show(&lab, &["changes", SESSION, "--turn", "2"]);
    show(&lab, &["rewind", SESSION, "--files", "--dry-run"]);
    show(&lab, &["rewind", SESSION, "--to", "7"]);
    fs::write(folder.join("notes.txt"), "mine\n").unwrap();
    show(&lab, &["rewind", SESSION, "--files", "--yes"]);
    show(&lab, &["rewind", SESSION, "--files", "--yes", "--force"]);
    show(&lab, &["rewind", SESSION, "--conversation", "--yes"]);
    show(&lab, &["undo"]);
    insta::assert_snapshot!(shown);
}

/// What hooks change belongs to the prompt: before it is recorded, around calls, and at the end.
#[test]
fn what_hooks_change_is_undone() {
    let (mut lab, folder) = project("echo agent >> notes.txt", &[FILES]);
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({"hooks": {
        "UserPromptSubmit": hook("echo asked > asked.txt"),
        "PreToolUse": hook("rm -rf deep"),
        "PostToolUse": hook("echo formatted >> notes.txt"),
        "Stop": hook("rm -rf src"),
    }});
    lab.env.put(".claude/settings.json", hooks.to_string());
    let before = state(&folder);
    destroy(&mut lab, &[]);
    let read = || fs::read_to_string(folder.join("notes.txt")).unwrap();
    assert_eq!(read(), "one\ntwo\nthree\nagent\nformatted\n");
    assert!(folder.join("asked.txt").exists() && !folder.join("src").exists());
    let rows = run(&lab, &["changes", SESSION, "--json"]);
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        assert_eq!((&row["by"], &row["turn"]), (&json!("turn"), &json!(1)), "{row}");
    }
    run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    assert_eq!(state(&folder), before);
}

/// A session that goes on from another one can go back to before it began.
#[test]
fn a_fork_goes_back_through_the_turns_that_it_has() {
    let mut lab = Lab::says(&[
        &[bash("toolu_1", "echo one > one.txt")],
        &[text("done")],
        &[bash("toolu_2", "rm README.md")],
        &[text("done")],
        &[bash("toolu_3", "rm -rf src")],
        &[text("done")],
    ]);
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    let before = state(&folder);
    destroy(&mut lab, &[]);
    let one = state(&folder);
    let fork = "22222222-2222-4222-8222-222222222222";
    let go_on = |lab: &mut Lab, more: &[&str]| {
        let args: Vec<&str> = more.iter().chain(&FREE).chain(&["more"]).copied().collect();
        let output = lab.run(&args);
        assert!(output.status.success(), "{}", lab.env.show(&output));
    };
    // As `chat` forks,
    go_on(&mut lab, &["-r", SESSION, "--fork-session", "--session-id", fork]);
    let two = state(&folder);
    go_on(&mut lab, &["-r", fork]);
    // as `rewind` does,
    let json = run(&lab, &["rewind", fork, "--to", "3", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let made = json["conversation"].as_str().unwrap();
    assert_eq!(state(&folder), two);
    run(&lab, &["rewind", made, "--to", "2", "--files", "--yes"]);
    assert_eq!(state(&folder), one);
    // and as `fork` does.
    let json = run(&lab, &["fork", made, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let forked = json["session"].as_str().unwrap();
    run(&lab, &["rewind", forked, "--to", "1", "--files", "--yes"]);
    assert_eq!(state(&folder), before);
    let rows = run(&lab, &["changes", forked, "--turn", "1", "--json"]);
    assert!(rows.contains("one.txt") && rows.lines().count() == 1, "{rows}");
}

/// Turns without images, as of Claude Code, and then turns with them.
#[test]
fn a_session_that_has_images_only_of_later_turns() {
    let mut lab = Lab::says(&[]);
    let write = json!({"file_path": lab.path("made.txt"), "content": "one\n"});
    let answers = vec![
        vec![call("toolu_1", "Write", &write)],
        vec![bash("toolu_2", "echo bash > bash.txt")],
        vec![text("done")],
        vec![bash("toolu_3", "echo two >> made.txt; rm README.md")],
        vec![text("done")],
    ];
    lab.server = testkit::api::Server::start(answers).unwrap();
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    destroy(&mut lab, &["--no-snapshots"]);
    let args: Vec<&str> = ["-r", SESSION, "more"].iter().chain(&FREE).copied().collect();
    assert!(lab.run(&args).status.success());
    let has = |name: &str| folder.join(name).exists();
    assert!(has("made.txt") && !has("README.md"));
    let output = lab.env.output(&["rewind", SESSION, "--to", "1", "--files", "--yes"]);
    let shown = lab.env.show(&output);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("there are no images of turn 1"), "{shown}");
    assert!(!has("made.txt") && has("README.md") && has("bash.txt"), "{shown}");
    run(&lab, &["undo"]);
    assert_eq!(fs::read_to_string(folder.join("made.txt")).unwrap(), "one\ntwo\n");
    // Back to the later turn there is nothing to say.
    let output = lab.env.output(&["rewind", SESSION, "--files", "--yes"]);
    assert!(!lab.env.show(&output).contains("there are no images"));
    assert_eq!(fs::read_to_string(folder.join("made.txt")).unwrap(), "one\n");
}

/// A turn after those with images, in which none were taken.
#[test]
fn a_later_turn_without_images_is_put_back_from_copies() {
    let mut lab = Lab::says(&[]);
    let path = lab.path("src/made.txt");
    let (write, more) = (json!({"file_path": path, "content": "one\n"}), "echo two > bash.txt");
    let answers = vec![
        vec![bash("toolu_1", "mkdir -p src; echo first > src/made.txt")],
        vec![text("done")],
        vec![call("toolu_2", "Read", &json!({"file_path": path}))],
        vec![call("toolu_3", "Write", &write)],
        vec![bash("toolu_4", &format!("{more}; rm -rf src"))],
        vec![text("done")],
    ];
    lab.server = testkit::api::Server::start(answers).unwrap();
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    destroy(&mut lab, &[]);
    let go_on = ["-r", SESSION, "more", "--no-snapshots"];
    let args: Vec<&str> = go_on.iter().chain(&FREE).copied().collect();
    assert!(lab.run(&args).status.success());
    assert!(!folder.join("src").exists());
    let output = lab.env.output(&["rewind", SESSION, "--files", "--yes"]);
    let shown = lab.env.show(&output);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("there are no images of turn 2"), "{shown}");
    // With the folder around it; what the command made stays.
    assert_eq!(fs::read_to_string(folder.join("src/made.txt")).unwrap(), "first\n");
    assert!(folder.join("bash.txt").exists());
}

/// An edit where no image is taken: outside of the folder, or in an ignored one.
#[test]
fn an_edit_that_no_image_covers_is_listed_and_undone() {
    let mut lab = Lab::says(&[]);
    let (ignored, outside) = (lab.path("node_modules/x/index.js"), lab.path("../outside.txt"));
    let outside = outside.replace("demo/../", "");
    let answers = vec![
        vec![call("toolu_1", "Write", &json!({"file_path": outside, "content": "agent\n"}))],
        vec![call("toolu_2", "Read", &json!({"file_path": ignored}))],
        vec![call("toolu_3", "Write", &json!({"file_path": ignored, "content": "agent\n"}))],
        vec![text("done")],
    ];
    lab.server = testkit::api::Server::start(answers).unwrap();
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    sh(&folder, FILES);
    sh(&folder, "git init -q -b main .");
    destroy(&mut lab, &[]);
    let is = |path: &str| fs::read_to_string(path).unwrap_or_default();
    assert_eq!((is(&outside), is(&ignored)), ("agent\n".to_owned(), "agent\n".to_owned()));
    let shown = run(&lab, &["changes", SESSION, "--turn", "1"]);
    assert!(shown.contains("outside.txt") && shown.contains("index.js"), "{shown}");
    run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    assert_eq!(is(&ignored), "ignored\n");
    assert!(!Path::new(&outside).exists());
}

/// Killed at random moments: files and conversation are as before, or both are rewound; likewise
/// while that is taken back.
#[test]
fn a_killed_rewind_leaves_files_and_conversation_alike() {
    let command = bash("toolu_1", "rm -rf many; echo x > made.txt");
    let mut lab = Lab::says(&[&[text("hello")], &[command], &[text("done")]]);
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    sh(&folder, "mkdir many; for i in $(seq 200); do echo $i > many/$i; done");
    destroy(&mut lab, &[]);
    let args: Vec<&str> = ["-r", SESSION, "more"].iter().chain(&FREE).copied().collect();
    assert!(lab.run(&args).status.success());
    let projects = lab.env.path(".claude/projects");
    let sessions = || sh(&projects, "find . -name '*.jsonl' | wc -l").trim().to_owned();
    let begin = std::time::Instant::now();
    run(&lab, &["rewind", SESSION, "--dry-run"]);
    let whole = begin.elapsed() * 3;
    // Killed after so long; then completed, or taken back. Returns whether both are rewound.
    let killed = |args: &[&str], round: u32| {
        let mut child = lab.env.command(args);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * round / 24);
        let _ = child.kill();
        child.wait().unwrap();
        lab.env.output(&["undo", "--list"]);
        let is_back = folder.join("many/200").exists() && !folder.join("made.txt").exists();
        let is_left = !folder.join("many").exists() && folder.join("made.txt").exists();
        let is = (is_back, is_left, sessions());
        let expected = [(true, false, "2".to_owned()), (false, true, "1".to_owned())];
        assert!(expected.contains(&is), "{args:?}, round {round}: {is:?}");
        is_back
    };
    for round in 0..24 {
        if killed(&["rewind", SESSION, "--yes"], round) && killed(&["undo"], (round * 7) % 24) {
            run(&lab, &["undo"]);
        }
    }
}

/// That a command in the background has ended is a turn, but no prompt to go back to.
#[test]
fn the_last_prompt_is_what_somebody_asked() {
    let input = json!({"command": "sleep 0.2; rm -rf src", "run_in_background": true});
    let aside = call("toolu_1", "Bash", &input);
    let then = bash("toolu_2", "sleep 1; echo x > made.txt");
    let mut lab = Lab::says(&[&[aside], &[then], &[text("done")], &[text("noted")]]);
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    unpack(&folder, &[FILES]);
    destroy(&mut lab, &[]);
    assert!(!folder.join("src").exists() && folder.join("made.txt").exists());
    let printed = run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    assert!(printed.starts_with("back to before turn 1\n"), "{printed}");
    assert!(folder.join("src/main.c").exists() && !folder.join("made.txt").exists());
}

/// A rewind that fails leaves no session behind.
#[test]
fn a_rewind_that_fails_does_nothing() {
    let (mut lab, folder) = project("rm -rf src", &[FILES]);
    destroy(&mut lab, &[]);
    let rewinds = lab.env.path(".local/state/quipu/snapshots/rewinds");
    fs::write(&rewinds, "not a folder").unwrap();
    let output = lab.env.output(&["rewind", SESSION, "--files", "--yes"]);
    assert_eq!(output.status.code(), Some(5), "{}", lab.env.show(&output));
    fs::remove_file(&rewinds).unwrap();
    fs::write(folder.join("notes.txt"), "mine\n").unwrap();
    let rows = run(&lab, &["changes", SESSION, "--json"]);
    let row = rows.lines().find(|row| row.contains("notes.txt")).unwrap();
    let row: Value = serde_json::from_str(row).unwrap();
    assert_eq!(row["by"], "other");
    run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    assert_eq!(fs::read_to_string(folder.join("notes.txt")).unwrap(), "mine\n");
    assert!(folder.join("src/main.c").exists());
}

/// The commands of a user's command run before its prompt is recorded, and belong to it.
#[test]
fn what_the_commands_of_a_prompt_change_is_undone_with_it() {
    let mut lab = Lab::says(&[
        &[bash("toolu_1", "echo one > one.txt")],
        &[text("done")],
        &[bash("toolu_2", "echo two > two.txt")],
        &[text("done")],
    ]);
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    let body = "---\nallowed-tools: Bash\n---\nDo it !`echo early > early.txt` now\n";
    lab.env.put(".claude/commands/early.md", body);
    destroy(&mut lab, &[]);
    let args: Vec<&str> = ["-r", SESSION, "/early"].iter().chain(&FREE).copied().collect();
    let output = lab.run(&args);
    assert!(output.status.success(), "{}", lab.env.show(&output));
    assert!(folder.join("early.txt").exists());
    let rows = run(&lab, &["changes", SESSION, "--turn", "2", "--json"]);
    assert!(rows.contains("early.txt") && rows.contains("two.txt"), "{rows}");
    run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    let has = |name: &str| folder.join(name).exists();
    assert!(has("one.txt") && !has("early.txt") && !has("two.txt"));
}

/// Also after there were images: the command is not run by itself, and nobody can be asked.
#[test]
fn without_a_further_image_a_command_is_a_question() {
    let mut lab = Lab::says(&[]);
    let sessions = lab.env.path(".local/state/quipu/snapshots/sessions");
    let break_it = format!("rm -rf '{0}'; echo x > '{0}'", sessions.display());
    let answers = vec![
        vec![bash("toolu_1", "echo one > one.txt")],
        vec![bash("toolu_2", &break_it)],
        vec![bash("toolu_3", "echo three > three.txt")],
        vec![bash("toolu_4", "echo four > four.txt")],
        vec![text("done")],
    ];
    lab.server = testkit::api::Server::start(answers).unwrap();
    let folder = fs::canonicalize(lab.cwd()).unwrap();
    let args: Vec<&str> = ["go"].iter().chain(&FREE).copied().collect();
    lab.new_session(&args);
    let has = |name: &str| folder.join(name).exists();
    assert!(has("one.txt") && !has("three.txt") && !has("four.txt"));
    let lines = fs::read_to_string(lab.file(SESSION)).unwrap();
    assert!(lines.contains("no image can be taken that it could be undone with"), "{lines}");
}

/// What a person does after a command was stopped with its process is not undone without a word.
#[test]
fn what_is_done_after_a_killed_command_may_be_someone_elses() {
    let (mut lab, folder) = project("echo agent >> notes.txt; echo x > began; sleep 60", &[FILES]);
    let args: Vec<&str> = ["--session-id", SESSION, "go"].iter().chain(&FREE).copied().collect();
    let mut child = lab.command(&args);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..600 {
        if folder.join("began").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.join("mine.txt"), "a day of work\n").unwrap();
    let more = vec![vec![bash("toolu_2", "echo z > z.txt")], vec![text("done")]];
    lab.server = testkit::api::Server::start(more).unwrap();
    let args: Vec<&str> = ["-r", SESSION, "more"].iter().chain(&FREE).copied().collect();
    assert!(lab.run(&args).status.success());
    let shown = run(&lab, &["changes", SESSION]);
    assert!(shown.contains("turn 1 or someone else\n"), "{shown}");
    let args = ["rewind", SESSION, "--to", "1", "--files", "--yes"];
    let refused = lab.env.output(&args);
    let shown = lab.env.show(&refused);
    assert_eq!(refused.status.code(), Some(5), "{shown}");
    assert!(shown.contains("mine.txt"), "{shown}");
    assert!(folder.join("mine.txt").exists());
    run(&lab, &["rewind", SESSION, "--files", "--yes"]);
    assert!(folder.join("mine.txt").exists() && !folder.join("z.txt").exists());
}
