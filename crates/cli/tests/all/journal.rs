//! The journal as a user meets it: damaged, late, locked, full, and what runs leave behind that are
//! killed.

mod killed;
mod places;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::env::{Env, NOW, set_age};

/// A session with a sub-agent in its folder, and two others.
const NESTED: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const FLAT: &str = "ade43c95-f68a-4a69-9e1e-f0407a2ad094";
const DAMAGED: &str = "badc0ffe-0000-4000-8000-00000000d00d";
const STRIP: [&str; 5] = ["strip", NESTED, "--thinking", "--noise", "--in-place"];

fn session(env: &Env, id: &str) -> PathBuf {
    env.path(&format!(".claude/projects/-home-dev-demo/{id}.jsonl"))
}

fn project(env: &Env) -> PathBuf {
    env.path(".claude/projects/-home-dev-demo")
}

/// The folders of the journal, by name: the oldest first.
fn entries(env: &Env) -> Vec<PathBuf> {
    let found = fs::read_dir(env.path(".local/state/quipu/undo")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// Runs it at a time, so many seconds later than the tests take place.
fn at(env: &Env, seconds: u64, args: &[&str]) -> String {
    let mut command = env.command(args);
    env.show(&command.env("QUIPU_NOW", (NOW + seconds).to_string()).output().unwrap())
}

fn exits(output: &str, code: u8, with: &[&str]) {
    assert!(output.starts_with(&format!("exit {code}\n")), "not exit {code}: {output}");
    for text in with {
        assert!(output.contains(text), "no `{text}`: {output}");
    }
}

/// All files below a folder, with what they hold.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else if let Ok(bytes) = fs::read(entry.path()) {
                found.insert(entry.path(), bytes);
            }
        }
    }
    found
}

#[test]
fn a_damaged_copy_is_not_restored() {
    for (damage, why) in [
        ("cut", "has 100 bytes instead of"),
        ("emptied", "has 0 bytes instead of"),
        ("flipped", "is not what was kept: its SHA-256 differs"),
        ("removed", "the journal's copy `0` is missing"),
    ] {
        let env = Env::with_sessions();
        exits(&env.run(&STRIP), 0, &[]);
        let changed = fs::read(session(&env, NESTED)).unwrap();
        let entry = entries(&env).pop().unwrap();
        let copy = entry.join("0");
        let mut bytes = fs::read(&copy).unwrap();
        match damage {
            "cut" => bytes.truncate(100),
            "emptied" => bytes.clear(),
            "flipped" => bytes[50] ^= 4,
            _ => {}
        }
        fs::File::create(&copy).unwrap().write_all(&bytes).unwrap();
        if damage == "removed" {
            fs::remove_file(&copy).unwrap();
        }
        for args in [&["undo"][..], &["undo", "--force"], &["undo", NESTED]] {
            exits(&env.run(args), 4, &[why, "cannot be undone", "still in"]);
            assert_eq!(fs::read(session(&env, NESTED)).unwrap(), changed, "{damage}");
            assert!(entry.join("entry.json").exists(), "{damage}: the entry stays");
        }
        exits(&env.run(&["undo", "--list"]), 0, &["damaged: the journal's copy `0`", why]);
    }
}

/// Two sessions were changed; of the last change the entry is damaged: the other one is not taken
/// back in its place.
#[test]
fn a_damaged_entry_is_listed_and_stands_in_the_way() {
    for damage in ["cut", "emptied", "NULs", "flipped", "removed", "swapped"] {
        let env = Env::with_sessions();
        exits(&at(&env, 0, &["repair", DAMAGED, "--in-place"]), 0, &[]);
        exits(&at(&env, 60, &STRIP), 0, &[]);
        let [older, newer] = &entries(&env)[..] else { panic!("two changes") };
        let file = newer.join("entry.json");
        let mut bytes = fs::read(&file).unwrap();
        match damage {
            "cut" => bytes.truncate(100),
            "emptied" => bytes.clear(),
            "NULs" => bytes.fill(0),
            "flipped" => bytes[200] ^= 1,
            "swapped" => bytes = fs::read(older.join("entry.json")).unwrap(),
            _ => {}
        }
        fs::File::create(&file).unwrap().write_all(&bytes).unwrap();
        if damage == "removed" {
            fs::remove_file(&file).unwrap();
        }
        let before = files(&env.path(""));
        let newer_name = newer.file_name().unwrap().to_str().unwrap();
        for args in
            [&["undo"][..], &["undo", "--force"], &["undo", newer_name], &["undo", "c5b9db19"]]
        {
            let output = at(&env, 120, args);
            exits(&output, 4, &["is damaged", "`entry.json`", "0 (", newer_name]);
            assert_eq!(files(&env.path("")), before, "{damage}");
        }
        exits(&at(&env, 120, &["undo", "--list"]), 0, &["damaged: `entry.json`", "repair"]);
        // The other one is intact: whoever names it gets it.
        let older_name = older.file_name().unwrap().to_str().unwrap();
        exits(&at(&env, 120, &["undo", older_name]), 0, &["repair of badc0ffe undone"]);
    }
}

/// Also of a clone, whose entry is all that the journal has.
#[test]
fn a_clone_whose_entry_is_gone_stands_in_the_way_too() {
    let env = Env::with_sessions();
    exits(&at(&env, 0, &STRIP), 0, &[]);
    exits(&at(&env, 60, &["clone", FLAT]), 0, &[]);
    let newer = entries(&env).pop().unwrap();
    fs::remove_file(newer.join("entry.json")).unwrap();
    exits(&at(&env, 120, &["undo"]), 4, &["`entry.json` is missing", "cannot be undone"]);
}

/// As the first version kept it, without hashes.
#[test]
fn entries_of_the_first_version_are_taken_back_and_said_to_be_unverified() {
    for is_cut in [false, true] {
        let env = Env::with_sessions();
        let path = session(&env, NESTED);
        let old = fs::read(&path).unwrap();
        let before = fs::metadata(&path).unwrap();
        let name = "1795132700000-strip-c5b9db19";
        let folder = env.path(&format!(".local/state/quipu/undo/{name}"));
        let copy =
            env.put(&format!(".local/state/quipu/undo/{name}/0"), &old[usize::from(is_cut)..]);
        env.put(path.strip_prefix(env.path("")).unwrap().to_str().unwrap(), "changed\n");
        let mark = |file: &fs::Metadata| {
            let time = file.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
            serde_json::json!({"size": file.len(), "modified": u64::try_from(time.as_nanos()).unwrap()})
        };
        let was = serde_json::json!({"there": {"copy": copy, "before": mark(&before)}});
        let item = serde_json::json!({
            "path": path, "was": was, "after": mark(&fs::metadata(&path).unwrap()),
        });
        let entry = serde_json::json!({
            "v": 1, "time": 1_795_132_700_000_i64, "what": "strip", "session": NESTED, "items": [item],
        });
        env.put(&format!(".local/state/quipu/undo/{name}/entry.json"), entry.to_string());
        if is_cut {
            exits(&env.run(&["undo"]), 4, &["bytes instead of"]);
            assert_eq!(fs::read(&path).unwrap(), b"changed\n");
            continue;
        }
        exits(&env.run(&["undo", "--list"]), 0, &["1 file changed, without hashes"]);
        exits(&env.run(&["undo"]), 0, &["restored", "could not be verified"]);
        assert_eq!(fs::read(&path).unwrap(), old);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before.modified().unwrap());
        assert!(!folder.exists());
    }
}

/// A client that keeps the file open, and writes long after it was replaced.
#[test]
fn late_lines_of_another_writer_are_told_and_come_back() {
    let env = Env::with_sessions();
    let path = session(&env, NESTED);
    let old = fs::read(&path).unwrap();
    let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let forced: Vec<&str> = STRIP.iter().chain(&["--force"]).copied().collect();
    exits(&env.run(&forced), 0, &[]);
    let line = b"{\"type\":\"ai-title\",\"aiTitle\":\"late\"}\n";
    writer.write_all(line).unwrap();
    writer.write_all(line).unwrap();
    drop(writer);
    assert!(!fs::read_to_string(&path).unwrap().contains("late"));
    exits(&env.run(&["undo", "--list"]), 0, &["1 file changed, 2 lines written late"]);
    for args in
        [&["show", NESTED][..], &["check", NESTED], &["strip", NESTED, "--noise", "--dry-run"]]
    {
        exits(&env.run(args), 0, &["another program wrote 2 lines to this session's old file"]);
    }
    exits(&env.run(&["show", FLAT]), 0, &[]);
    assert!(!env.run(&["show", FLAT]).contains("another program"));
    exits(&env.run(&["undo"]), 0, &["restored", "with 2 lines that another program wrote late"]);
    assert_eq!(fs::read(&path).unwrap(), [&old[..], line, line].concat());
    assert!(!env.run(&["show", NESTED]).contains("another program"));
}

#[test]
fn what_a_file_has_besides_its_bytes_stays() {
    let env = Env::with_sessions();
    let path = session(&env, NESTED);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let file = fs::File::open(&path).unwrap();
    let mut attributes = files::Attributes::of(&file).unwrap();
    attributes.extended.push((b"user.note".to_vec(), b"mine".to_vec()));
    attributes.give(&file).unwrap();
    drop(file);
    let is = || files::Attributes::of(&fs::File::open(&path).unwrap()).unwrap();
    let before = is();
    if before.extended.is_empty() {
        println!("left out: this file system has no extended attributes");
    }
    let (old, modified) =
        (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    exits(&env.run(&STRIP), 0, &[]);
    assert_eq!(is(), before);
    // Nobody else gets at what the journal keeps.
    let entry = entries(&env).pop().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&entry), mode(&entry.join("entry.json"))), (0o700, 0o600));
    assert_eq!(mode(entry.parent().unwrap()), 0o700);
    exits(&env.run(&["undo"]), 0, &[]);
    assert_eq!((is(), fs::read(&path).unwrap()), (before, old));
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
}

#[test]
fn protected_files_are_replaced_only_by_force() {
    let env = Env::with_sessions();
    let path = session(&env, NESTED);
    let before = fs::read(&path).unwrap();
    let forced: Vec<&str> = STRIP.iter().chain(&["--force"]).copied().collect();
    let refused = |why: &str| {
        exits(&env.run(&STRIP), 5, &["is not touched", why, "--force"]);
        assert_eq!(fs::read(&path).unwrap(), before);
        assert!(entries(&env).is_empty(), "nothing is left of it");
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    refused("it is write-protected");
    exits(&env.run(&forced), 0, &[]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o444, "and stays so");
    exits(&env.run(&["undo"]), 0, &[]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let other = env.path("other-name.jsonl");
    fs::hard_link(&path, &other).unwrap();
    refused("it has 2 names (hard links)");
    exits(&env.run(&forced), 0, &[]);
    assert_eq!(fs::read(&other).unwrap(), before);
    assert_ne!(fs::read(&path).unwrap(), before);
    exits(&env.run(&["undo"]), 0, &[]);
    assert_eq!(fs::metadata(&path).unwrap().ino(), fs::metadata(&other).unwrap().ino());
    fs::remove_file(&other).unwrap();
    if std::os::unix::fs::chown(&path, Some(1234), Some(1234)).is_err() {
        println!("left out: only root can give files away");
        return;
    }
    refused("it belongs to another user (1234)");
    exits(&env.run(&forced), 0, &[]);
    assert_eq!(fs::metadata(&path).unwrap().uid(), 1234, "it is theirs still");
    exits(&env.run(&["undo"]), 0, &[]);
    assert_eq!(fs::metadata(&path).unwrap().uid(), 1234);
}

/// A chat that waits for its user, who says nothing.
fn idle_chat(env: &Env, args: &[&str]) -> Child {
    let script = env.put("script.json", r#"{"replies":[]}"#);
    let script = format!("--offline={}", script.display());
    let mut all = vec!["chat", &script, "--input-format", "stream-json", "--output-format"];
    // The folder of the tests is a home, in which nothing can be sandboxed.
    all.extend(["stream-json", "--verbose", "--sandbox", "off"]);
    all.extend(args);
    let mut command = env.command(&all);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let locks = env.path(".local/state/quipu/locks");
    let begin = Instant::now();
    while fs::read_dir(&locks).into_iter().flatten().count() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it takes no lock");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
    child
}

#[test]
fn a_session_is_written_to_by_one_at_a_time() {
    let env = Env::with_sessions();
    exits(&env.run(&STRIP), 0, &[]);
    let before = fs::read(session(&env, NESTED)).unwrap();
    set_age(&session(&env, NESTED), 3_600);
    let mut chat = idle_chat(&env, &["--resume", NESTED]);
    let who = format!("process {} (quipu chat) is writing to it", chat.id());
    let script = format!("--offline={}", env.path("script.json").display());
    for args in [
        &["strip", NESTED, "--copies", "--in-place"][..],
        // Nobody can force it: the other one would write into a file that is gone.
        &["strip", NESTED, "--copies", "--in-place", "--force"],
        &["undo"],
        &["undo", "--force"],
        &["chat", "-p", "hello", "--sandbox", "off", "--resume", NESTED, &script],
    ] {
        exits(&env.run(args), 5, &[&who, "wait until it has ended"]);
        assert_eq!(fs::read(session(&env, NESTED)).unwrap(), before);
    }
    // Others are free, and so is whoever only reads it.
    exits(&env.run(&["repair", DAMAGED, "--in-place"]), 0, &[]);
    exits(&env.run(&["clone", NESTED]), 0, &[]);
    // The lock dies with its process, and its file goes with the next write.
    chat.kill().unwrap();
    chat.wait().unwrap();
    let locks = || fs::read_dir(env.path(".local/state/quipu/locks")).unwrap().count();
    assert_eq!(locks(), 1);
    exits(&env.run(&["strip", NESTED, "--copies", "--in-place"]), 0, &[]);
    assert_eq!(locks(), 0);
}

/// Several at once: one does it, the others are refused or find nothing to do; what was there comes
/// back.
#[test]
fn of_several_at_once_one_does_it() {
    let env = Env::with_sessions();
    let path = session(&env, NESTED);
    let old = fs::read(&path).unwrap();
    for round in 0..10 {
        let forced: Vec<&str> = STRIP.iter().chain(&["--force"]).copied().collect();
        let start = || {
            let mut command = env.command(&forced);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<Child> = (0..4).map(|_| start()).collect();
        let outputs =
            children.into_iter().map(|child| env.show(&child.wait_with_output().unwrap()));
        let outputs: Vec<String> = outputs.collect();
        let done = outputs.iter().filter(|text| text.contains("quipu undo")).count();
        assert_eq!(done, 1, "round {round}: {outputs:?}");
        let is_known = |text: &&String| text.starts_with("exit 0") || text.starts_with("exit 5");
        assert!(outputs.iter().all(|text| is_known(&text)), "round {round}: {outputs:?}");
        assert_eq!(entries(&env).len(), 1, "round {round}");
        exits(&env.run(&["undo"]), 0, &["restored"]);
        assert_eq!(fs::read(&path).unwrap(), old, "round {round}");
    }
}

/// A session that a crash has left is mended by the chat that goes on with it: the lock is its own.
#[test]
fn a_chat_that_mends_its_session_does_not_wait_for_itself() {
    let env = Env::with_sessions();
    let mut chat = idle_chat(&env, &["--resume", DAMAGED]);
    let begin = Instant::now();
    while !entries(&env).iter().any(|folder| folder.join("entry.json").exists()) {
        assert!(begin.elapsed() < Duration::from_secs(20), "it is not mended");
        std::thread::sleep(Duration::from_millis(10));
    }
    chat.kill().unwrap();
    chat.wait().unwrap();
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let env = Env::with_sessions();
    for number in 0..4 {
        let name = format!(".claude/projects/-home-dev-demo/{NESTED}/tool-results/{number}.txt");
        env.put(&name, "x".repeat(if number == 3 { 200_000 } else { 100 }));
    }
    let before = files(&env.path(""));
    let folders = || {
        let found = fs::read_dir(project(&env)).unwrap().flatten();
        found.map(|entry| entry.file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    let there = folders();
    // The disk takes no file of more than 64 KB.
    let program = env!("CARGO_BIN_EXE_quipu");
    let script = format!("trap '' XFSZ; ulimit -f 64; exec {program} clone {NESTED}");
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", &script])
        .env_clear()
        .env("HOME", env.path(""))
        .env("PATH", "/usr/bin:/bin");
    let output = env.show(&command.output().unwrap());
    exits(&output, 1, &["cannot copy `", "3.txt`", "File too large"]);
    assert_eq!(files(&env.path("")), before);
    assert_eq!(folders(), there, "no empty folders");
}

#[test]
fn old_changes_go_if_they_are_too_old_or_too_many() {
    let day = 24 * 60 * 60;
    let env = Env::with_sessions();
    exits(&at(&env, 0, &["repair", DAMAGED, "--in-place"]), 0, &[]);
    exits(&at(&env, 5 * day, &STRIP), 0, &[]);
    let text = at(&env, 8 * day, &["undo", "--prune"]);
    exits(&text, 0, &["removed 1 change (", "older than 7 days", "removed 0 items"]);
    let text = at(&env, 8 * day, &["undo", "--list"]);
    assert!(text.contains("strip") && !text.contains("repair"), "{text}");
    exits(&at(&env, 8 * day, &["undo", "--prune", "--older-than", "0"]), 2, &[]);
    exits(&at(&env, 5 * day + 60, &["undo", "--prune", "--older-than", "1"]), 0, &["0 changes"]);
    // The configuration says how much is kept; the last day is kept whatever it says.
    env.put(".config/quipu/config.toml", "[undo]\nkeep_days = 2\nkeep_bytes = 0\n");
    let note = "1 old change (";
    let text = at(&env, 6 * day + 60, &["clone", FLAT]);
    exits(&text, 0, &[note, "can no longer be undone"]);
    let text = at(&env, 6 * day + 120, &["clone", FLAT]);
    exits(&text, 0, &[]);
    assert!(!text.contains("can no longer"), "{text}");
    assert_eq!(entries(&env).len(), 2);
}

#[test]
fn what_stopped_runs_left_is_counted_and_goes() {
    let env = Env::with_sessions();
    exits(&env.run(&["undo", "--list"]), 0, &[]);
    exits(&env.run(&STRIP), 0, &[]);
    // As a run leaves it that is killed: it has begun, and nobody holds its lock.
    let root = ".local/state/quipu/undo/1795132800001-strip-c5b9db19";
    let temp = project(&env).join(".quipu-4194998-0123456789ab.tmp");
    fs::File::create(&temp).unwrap().write_all(&[b'x'; 3_000]).unwrap();
    let intent =
        serde_json::json!({"temps": [temp, session(&env, FLAT)], "folders": [project(&env)]});
    env.put(&format!("{root}/begun.json"), intent.to_string());
    env.put(&format!("{root}/0"), "y".repeat(2_000));
    let text = env.run(&["undo", "--list"]);
    exits(&text, 0, &["interrupted runs left 2 items behind (5."]);
    assert!(temp.exists(), "listing removes nothing");
    exits(&env.run(&["clone", FLAT]), 0, &[]);
    assert!(!temp.exists() && !env.path(root).exists());
    assert!(session(&env, FLAT).exists(), "what has no name of ours stays, whatever a file says");
    assert!(!env.run(&["undo", "--list"]).contains("interrupted runs"));
    // Also where `-o` leads, of which no journal tells.
    let temp = env.put("out/.quipu-4194998-0123456789ac.tmp", "x");
    let young = env.put(&format!("out/.quipu-{}-0123456789ac.tmp", std::process::id()), "x");
    exits(&env.run(&["clone", FLAT, "-o", "out/copy.jsonl"]), 0, &[]);
    assert!(!temp.exists() && young.exists());
}
