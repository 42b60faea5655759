//! Three secrets of every kind in every place of a session and of its files: `quipu redact` leaves
//! none of them in any byte of any file.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Rng;

use super::kinds::{KINDS, make, random};
use super::{Env, PARTS, PROBE, SESSION, Session, WRAPS, innocents, texts};

/// The secrets: text and core of each.
fn secrets(rng: &mut Rng) -> Vec<(&'static str, String, String)> {
    let three = KINDS.iter().flat_map(|kind| [kind; 3]);
    three
        .map(|kind| {
            let (text, core) = make(kind, rng);
            (*kind, text, core)
        })
        .collect()
}

fn joined(
    secrets: &[(&'static str, String, String)],
    form: impl Fn(&str, &str) -> String,
) -> String {
    let lines = secrets.iter().map(|(_, text, core)| form(text, core));
    lines.collect::<Vec<_>>().join("\n")
}

/// The core in pieces, each on a numbered line.
fn split(core: &str, number: impl Fn(usize) -> String) -> String {
    let pieces: Vec<String> = core
        .as_bytes()
        .chunks(11)
        .enumerate()
        .map(|(at, piece)| format!("{}{}", number(at + 1), String::from_utf8_lossy(piece)))
        .collect();
    pieces.join("\n")
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// A session with all secrets everywhere, and its files.
fn plant(env: &Env, secrets: &[(&'static str, String, String)]) {
    let mut session = Session::default();
    let all = joined(secrets, |text, _| text.to_owned());
    for part in PARTS {
        match *part {
            "member" => {
                let cores: Vec<String> = secrets.iter().map(|(.., core)| core.clone()).collect();
                session.member(&cores);
            }
            "title" | "path" => {
                for (_, text, _) in secrets {
                    session.turn(part, text);
                }
            }
            part => session.turn(part, &all),
        }
    }
    let rest = ["prompt", "result", "command", "content", "answer", "nested", "structured"];
    for (at, wrap) in WRAPS.iter().enumerate() {
        session.turn(rest[at % rest.len()], &joined(secrets, |text, _| wrap.replace('§', text)));
    }
    // Forms in which no rule recognizes most of them.
    session.turn("result", &joined(secrets, |_, core| split(core, |at| format!("{at:6}→"))));
    session.turn("structured", &joined(secrets, |_, core| split(core, |at| format!("{at}\t"))));
    session.turn("answer", &joined(secrets, |_, core| split(core, |_| String::new())));
    session.turn("content", &joined(secrets, |_, core| split(core, |_| "+".to_owned())));
    for before in ["", "a", "ab"] {
        let coded =
            joined(secrets, |_, core| base64(&format!("{before}{core} and more text here")));
        session.turn("result", &coded);
    }
    // A dump of the environment, encoded as a whole and wrapped.
    let coded = base64(&joined(secrets, |text, _| format!("X={text}")));
    let wrapped: Vec<String> =
        coded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into()).collect();
    session.turn("result", &wrapped.join("\n"));
    // JSON in JSON in JSON.
    let mut inner = json!({"text": all}).to_string();
    for _ in 0..2 {
        inner = json!({"inner": inner}).to_string();
    }
    session.turn("content", &inner);
    session.turn("result", &joined(secrets, |_, core| format!("https://x.test/{core}?a=b")));
    let lines: Vec<String> = all.lines().map(|line| format!("+{line}")).collect();
    session.push(json!({"type": "file-history-snapshot", "snapshot": {"path": all}}));
    session.push(json!({"type": "something-new", "patch": {"lines": lines}, "text": all}));
    session.push(json!({"type": "last-prompt", "lastPrompt": all}));
    session.push(json!({"type": "api-request-blob", "message": {"text": all}}));
    // Every letter as an escape, and slashes, too.
    let escaped: String =
        all.bytes().fold(String::new(), |all, byte| all + &format!("\\u{byte:04x}"));
    session.lines.push(format!("{{\"type\":\"something-new\",\"text\":\"{escaped}\"}}"));
    let slashes = json!({"type": "something-new", "text": all}).to_string().replace('/', "\\/");
    session.lines.push(slashes);
    session.lines.push(format!("not JSON: {}", all.replace('\n', " ")));
    session.save(env);
    let folder = format!(".claude/projects/-home-dev-demo/{SESSION}");
    let mut agent = Session::default();
    agent.turn("prompt", &all);
    agent.turn("result", &joined(secrets, |_, core| split(core, |at| format!("{at:6}→"))));
    agent.turn("thinking", &all);
    env.put(&format!("{folder}/subagents/agent-a1.jsonl"), agent.lines.join("\n") + "\n");
    let meta = json!({"agentType": "x", "description": all}).to_string();
    env.put(&format!("{folder}/subagents/agent-a1.meta.json"), meta);
    env.put(&format!("{folder}/tool-results/one.txt"), &all);
    env.put(&format!("{folder}/tool-results/two.json"), json!({"a": [all]}).to_string());
    env.put(&format!("{folder}/tool-results/deep/er/three.txt"), &all);
    env.put(&format!("{folder}/session-memory/summary.md"), &all);
    for (_, text, _) in secrets.iter().filter(|(kind, ..)| *kind == "ghp_{a36}") {
        env.put(&format!("{folder}/tool-results/{text}.txt"), "named by a secret");
    }
    let flat = agent.lines.join("\n").replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
    env.put(".claude/projects/-home-dev-demo/agent-0b1c2d3e.jsonl", flat + "\n");
    env.put(&format!(".claude/file-history/{SESSION}/abc@v1"), &all);
    env.put(
        &format!(".claude/todos/{SESSION}-agent-{SESSION}.json"),
        json!([{"content": all}]).to_string(),
    );
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() { open.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}

/// What can be read in a text: itself, its strings, all without line breaks and line numbers.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut all = texts(&text);
    for line in text.lines() {
        all.push_str(&texts(line));
        all.push('\n');
    }
    let mut squeezed = String::new();
    for line in all.lines() {
        let line = line.trim_start();
        let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let line = number.strip_prefix('→').or(number.strip_prefix('\t')).unwrap_or(line);
        squeezed.push_str(line.trim_start_matches('+').trim_end());
    }
    all + &squeezed
}

/// Which secrets are left in some files, and where.
fn left(paths: &[PathBuf], secrets: &[(&'static str, String, String)]) -> Vec<String> {
    let mut probes: HashMap<Vec<u8>, &'static str> = HashMap::new();
    for (kind, _, core) in secrets {
        for at in [0, (core.len() - PROBE) / 2, core.len() - PROBE] {
            probes.insert(core.as_bytes()[at..at + PROBE].to_vec(), kind);
        }
        // Base64 of it, at each of three places in a longer text.
        for shift in 0..3 {
            let coded = base64(&format!("{}{core}", &"\0\0"[..shift]));
            let from = (shift * 8).div_ceil(6);
            probes.insert(coded.as_bytes()[from..from + PROBE].to_vec(), kind);
        }
    }
    let mut found: HashMap<String, String> = HashMap::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = readable(&fs::read(path).unwrap()) + "\n" + &name;
        for (at, window) in text.as_bytes().windows(PROBE).enumerate() {
            if let Some(kind) = probes.get(window) {
                let around = &text.as_bytes()[at.saturating_sub(60)..(at + 60).min(text.len())];
                let around = String::from_utf8_lossy(around).into_owned();
                found.entry(format!("{kind} in {name}")).or_insert(around);
            }
        }
    }
    let mut found: Vec<String> =
        found.into_iter().map(|(what, around)| format!("{what}: {around:?}")).collect();
    found.sort();
    found
}

#[test]
fn nothing_is_left_of_any_planted_secret() {
    let secrets = secrets(&mut Rng::new(20));
    let env = Env::bare();
    plant(&env, &secrets);
    let before = files(&env.path(".claude"));
    let output = env.output(&["redact", SESSION, "--json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let mut made = files(&env.path(".claude"));
    made.retain(|path| !before.contains(path));
    assert_eq!(made.len(), 13, "{made:?}");
    assert_eq!(left(&made, &secrets), Vec::<String>::new());
    // Nor does the report tell any.
    let report_file = env.put("report.json", &text);
    assert_eq!(left(&[report_file], &secrets), Vec::<String>::new());
    assert_eq!(report["after"]["verdict"], report["before"]["verdict"]);
    let stands: Vec<&str> = report["redacted"]["stands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert!(stands.contains(&"original") && stands.contains(&"file-copy"), "{stands:?}");
    // The original is as it was; in place, it is not.
    let all: Vec<PathBuf> = before.clone();
    assert!(left(&all, &secrets).len() > KINDS.len());
    let output = env.output(&["redact", SESSION, "--in-place", "--no-undo", "--json", "--force"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(&files(&env.path(".claude")), &secrets), Vec::<String>::new());
    assert_eq!(left(&files(&env.path(".local")), &secrets), Vec::<String>::new());
    let again = env.output(&["redact", SESSION, "--in-place"]);
    assert_eq!(String::from_utf8(again.stderr).unwrap(), "no secrets found\n");
    assert_eq!(env.output(&["secrets", "--all"]).status.code(), Some(0));
}

/// A secret that is only in the name of a file, or deep in the session's folder.
#[test]
fn names_and_folders_are_looked_through() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(8)));
    let folder = format!(".claude/projects/-home-dev-demo/{SESSION}");
    let (named, deep) = (format!("{folder}/{key}/{key}.txt"), format!("{folder}/a/b/c.md"));
    let env = Env::bare();
    let mut session = Session::default();
    session.turn("prompt", "nothing");
    session.save(&env);
    env.put(&named, "x");
    env.put(&deep, format!("it is {key}"));
    let secret = [("github-token", key.clone(), key.clone())];
    for args in [
        &["secrets", SESSION][..],
        &["secrets", "--all", "--json"],
        &["pack", SESSION, "-o", "p.html"],
        &["redact", SESSION, "--dry-run", "--json"],
        &["redact", SESSION, "--in-place", "--force"],
    ] {
        let output = env.output(args);
        let shown = env.show(&output);
        assert!(!shown.contains(&key), "{args:?}: {shown}");
        assert!(args[0] == "secrets" || output.status.success(), "{args:?}: {shown}");
    }
    let clean = format!("{folder}/[redacted-github-token-1]/[redacted-github-token-1].txt");
    assert_eq!(fs::read_to_string(env.path(&clean)).unwrap(), "x");
    let there = |env: &Env| files(&env.path(".claude"));
    assert!(there(&env).iter().all(|path| !path.display().to_string().contains(&key)));
    assert_eq!(left(&there(&env), &secret), Vec::<String>::new());
    assert!(!env.path(&format!("{folder}/{key}")).exists());
    assert!(env.output(&["undo"]).status.success());
    assert_eq!(fs::read_to_string(env.path(&named)).unwrap(), "x");
    assert!(!env.path(&clean).exists());
}

#[test]
fn the_same_secret_has_the_same_placeholder_and_look_alikes_stay() {
    let innocents = innocents(&mut Rng::new(301));
    assert!(innocents.len() >= 300);
    let rng = &mut Rng::new(7);
    let key = format!("ghp_{}", random("a", 36, rng));
    let other = format!("ghp_{}", random("a", 36, rng));
    let mut session = Session::default();
    session.turn("result", &innocents.join("\n"));
    session.turn("prompt", &format!("use {key}"));
    session.turn("result", &format!("{other} and {key}"));
    session.turn("answer", &format!("it is {}", base64(&key)));
    let env = Env::bare();
    session.save(&env);
    let output =
        env.output(&["redact", SESSION, "-o", &env.path("out.jsonl").display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = fs::read_to_string(env.path("out.jsonl")).unwrap();
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines.len(), session.lines.len());
    let changed = lines.iter().zip(&session.lines).filter(|(new, old)| **new != old.as_str());
    let changed: Vec<&str> = changed.map(|(new, _)| *new).collect();
    assert_eq!(changed.len(), 3, "{changed:?}");
    assert!(changed[0].contains("use [redacted:github-token:1]\""), "{}", changed[0]);
    let both = "[redacted:github-token:2] and [redacted:github-token:1]";
    assert!(changed[1].contains(both), "{}", changed[1]);
    assert!(changed[2].contains("it is [redacted:github-token:1]"), "{}", changed[2]);
}

/// A session with one secret, its files, a copy of it, and the prompt history.
fn spread(env: &Env, key: &str) {
    let mut session = Session::default();
    session.turn("prompt", &format!("use {key}"));
    session.turn("result", &format!("{key}\n"));
    session.save(env);
    let copy = session.lines.join("\n").replace(SESSION, "5ec7e700-0000-4000-8000-0000000000ff");
    let name = ".claude/projects/-home-dev-other/5ec7e700-0000-4000-8000-0000000000ff.jsonl";
    env.put(name, copy + "\n");
    let history =
        json!({"display": format!("use {key}"), "project": "/home/dev/demo", "sessionId": SESSION});
    env.put(".claude/history.jsonl", format!("{{\"display\":\"other\"}}\n{history}\n"));
    env.put(&format!(".claude/file-history/{SESSION}/abc@v1"), format!("key={key}\n"));
    env.put(&format!(".claude/projects/-home-dev-demo/{SESSION}/tool-results/r.txt"), key);
    env.put(".claude/paste-cache/1.txt", key);
    env.put(".claude/CLAUDE.md", format!("the key is {key}\n"));
}

#[test]
fn everywhere_is_everywhere() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(3)));
    let env = Env::bare();
    spread(&env, &key);
    // The catalog has no secrets of its own accord; an older change has.
    env.output(&["index"]);
    let short = &SESSION[..8];
    assert!(env.output(&["strip", SESSION, "--calls", "--in-place", "--force"]).status.success());
    let secrets = [("github-token", key.clone(), key.clone())];
    let stands = |args: &[&str]| {
        let output = env.output(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stands = report["redacted"]["stands"].as_array().unwrap().clone();
        let mut what: Vec<String> =
            stands.iter().map(|one| one["what"].as_str().unwrap().to_owned()).collect();
        what.sort();
        what.dedup();
        what
    };
    assert_eq!(
        stands(&["redact", SESSION, "--dry-run", "--json"]),
        ["file", "file-copy", "original", "prompt-history", "session", "undo"],
        "{short}"
    );
    let args = ["redact", SESSION, "--everywhere", "--no-undo", "--force", "--json"];
    // What people write is listed, and left alone.
    assert_eq!(stands(&args), ["file"]);
    let claude = env.path(".claude");
    let mut all = files(&claude);
    all.retain(|path| !path.ends_with("CLAUDE.md"));
    assert_eq!(left(&all, &secrets), Vec::<String>::new());
    for folder in [".local", ".cache"] {
        assert_eq!(left(&files(&env.path(folder)), &secrets), Vec::<String>::new(), "{folder}");
    }
    let history = fs::read_to_string(claude.join("history.jsonl")).unwrap();
    assert!(history.starts_with("{\"display\":\"other\"}\n"), "{history}");
    assert!(history.contains("use [redacted:github-token:1]"), "{history}");
}

#[test]
fn undo_brings_back_all_files() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(4)));
    let env = Env::bare();
    spread(&env, &key);
    let contents = || -> Vec<(PathBuf, Vec<u8>)> {
        let all = files(&env.path(".claude")).into_iter();
        all.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = contents();
    let output = env.output(&["redact", SESSION, "--in-place", "--force"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !text.contains(&key), "{text}");
    let changed: Vec<PathBuf> = contents()
        .into_iter()
        .zip(&before)
        .filter(|(new, old)| new != *old)
        .map(|((path, _), _)| path)
        .collect();
    assert_eq!(changed.len(), 3, "{changed:?}");
    let output = env.output(&["undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(contents() == before);
}

#[test]
fn people_are_hidden_on_request() {
    let mut session = Session::default();
    session
        .turn("prompt", "Author: Jane Roe <jane@roe.org>, in /home/jane/x and C:\\Users\\jane\\x");
    let env = Env::bare();
    session.save(&env);
    let rules = env.put("rules.toml", "rules = [{ name = 'ticket', pattern = 'T-[0-9]+' }]\n");
    let rules = rules.display().to_string();
    let out = env.path("out.jsonl").display().to_string();
    let none = env.output(&["redact", SESSION]);
    assert_eq!(String::from_utf8(none.stderr).unwrap(), "no secrets found\n");
    let args = ["redact", SESSION, "-o", &out, "--also", "email,names,home", "--rules", &rules];
    let done = env.output(&args);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let made = fs::read_to_string(&out).unwrap();
    let wanted = "Author: [redacted:name:1] <[redacted:email:1]>, in [redacted:home:";
    assert!(made.contains(wanted) && !made.contains("jane"), "{made}");
    assert!(!made.contains("/home/dev"), "{made}");
    for args in [
        &["export", "md", SESSION, "--also", "email"][..],
        &["export", "json", SESSION, "--also", "email"],
        &["export", "html", SESSION, "--also", "email"],
    ] {
        let text = String::from_utf8(env.output(args).stdout).unwrap();
        assert!(text.contains("[redacted:email:1]") && !text.contains("jane@"), "{args:?}");
    }
    let packed = env.output(&["pack", SESSION, "-o", "p.html", "--also", "home", "--json"]);
    let packed = String::from_utf8(packed.stdout).unwrap();
    assert!(packed.contains("[redacted:home:") && !packed.contains("/home/dev"), "{packed}");
    let allowed = env.output(&["secrets", SESSION, "--also", "email", "--allow", "*@roe.org"]);
    assert_eq!(allowed.status.code(), Some(0));
}

#[test]
fn files_go_beside_the_file_of_the_user_only_on_request() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(5)));
    let env = Env::bare();
    spread(&env, &key);
    let out = env.path("clean/s.jsonl");
    env.put("clean/x", "");
    let name = out.display().to_string();
    assert!(env.output(&["redact", SESSION, "-o", &name]).status.success());
    assert_eq!(files(&env.path("clean")).len(), 2);
    let again = env.output(&["redact", SESSION, "-o", &name, "--with-files", "--force"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let result = fs::read_to_string(env.path("clean/s/tool-results/r.txt")).unwrap();
    assert_eq!(result, "[redacted:github-token:1]");
}

/// The folder that a session was in is in every record, and in the name of its project's folder.
#[test]
fn a_secret_in_the_name_of_the_folder_is_not_printed() {
    let key = random("a", 36, &mut Rng::new(9));
    let env = Env::bare();
    let mut session = Session::default();
    session.turn("prompt", &format!("use ghp_{key}"));
    let lines = session.lines.join("\n").replace("/home/dev/demo", &format!("/srv/ghp_{key}"));
    env.put(&format!(".claude/projects/-srv-ghp-{key}/{SESSION}.jsonl"), lines + "\n");
    for args in [
        &["secrets", "--all"][..],
        &["secrets", SESSION, "--json"],
        &["redact", SESSION, "--dry-run"],
        &["redact", SESSION, "--also", "home"],
        &["redact", SESSION, "--json"],
        &["redact", SESSION, "-o", "out.jsonl", "--json"],
        &["pack", SESSION, "-o", "p.html", "--json"],
        &["unpack", "p.html", "--list"],
        &["redact", SESSION, "--in-place", "--force", "--json"],
    ] {
        let output = env.output(args);
        let shown = env.show(&output);
        assert!(args[0] == "secrets" || output.status.success(), "{args:?}: {shown}");
        assert!(!shown.contains(&key), "{args:?}: {shown}");
    }
    let made = fs::read_to_string(env.path("out.jsonl")).unwrap();
    assert!(made.contains("\"cwd\":\"/srv/[redacted:github-token:1]\""), "{made}");
}

/// What quipu itself keeps is looked through, not only the journal.
#[test]
fn what_waits_to_be_shipped_is_listed() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(10)));
    let env = Env::bare();
    spread(&env, &key);
    let waits = env.put(".local/state/quipu/receiver/spool/0000000001.batch", format!("\x12{key}"));
    env.put(".local/state/quipu/receiver/log", "nothing");
    let output = env.output(&["redact", SESSION, "--dry-run", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stands = report["redacted"]["stands"].as_array().unwrap().iter();
    let kept = stands.filter(|one| one["path"].as_str().unwrap().contains(".local"));
    let kept: Vec<&Value> = kept.collect();
    assert_eq!(kept, [&json!({"what": "file", "path": waits.display().to_string()})]);
}

/// Files that would go along are looked at before anything is written.
#[test]
fn a_file_that_is_there_already_stops_all_of_it() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(6)));
    let env = Env::bare();
    spread(&env, &key);
    env.put("clean/s/tool-results/r.txt", "mine");
    let there = |env: &Env| files(&env.path("clean"));
    let before = there(&env);
    for (to, code) in [("clean/s.jsonl", 2), ("-", 2)] {
        let output = env.output(&["redact", SESSION, "-o", to, "--with-files"]);
        assert_eq!(output.status.code(), Some(code), "{to}: {}", env.show(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{to}");
    }
    assert_eq!(there(&env), before);
    assert_eq!(fs::read_to_string(&before[0]).unwrap(), "mine");
    assert!(!env.path("-").exists());
}

/// What is passed on in other forms hides the same secrets, with the same placeholders.
#[test]
fn nothing_is_left_in_what_is_exported() {
    let secrets: Vec<_> = secrets(&mut Rng::new(22)).into_iter().step_by(9).collect();
    let env = Env::bare();
    plant(&env, &secrets);
    // The lines of a diff are texts of their own: a secret that is split over them stays (only
    // lines of private keys are known as such).
    let path = env.path(&format!(".claude/projects/-home-dev-demo/{SESSION}.jsonl"));
    let session = fs::read_to_string(&path).unwrap();
    env.put(path.to_str().unwrap(), session.replace("\"content\":\"+", "\"kept\":\"+"));
    for args in [
        &["export", "json", SESSION][..],
        &["export", "md", SESSION, "--full", "--thinking"],
        &["export", "html", SESSION],
    ] {
        let output = env.output(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        let made = env.put(&format!("made.{}", args[1]), &output.stdout);
        assert_eq!(left(&[made], &secrets), Vec::<String>::new(), "{args:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(":1]"), "{args:?}");
    }
}

/// Who unpacks a pack gets what `redact` writes, byte for byte.
#[test]
fn a_pack_has_what_redact_writes() {
    let secrets = secrets(&mut Rng::new(21));
    let env = Env::bare();
    plant(&env, &secrets);
    let out = env.path(&format!("clean/{SESSION}.jsonl")).display().to_string();
    env.put("clean/x", "");
    for args in [
        &["redact", SESSION, "-o", &out, "--with-files"][..],
        &["pack", SESSION, "-o", "pack.html"],
        &["--home", "new", "unpack", "pack.html", "--yes"],
    ] {
        let output = env.output(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
    }
    let unpacked = files(&env.path("new"));
    assert_eq!(left(&unpacked, &secrets), Vec::<String>::new());
    let below = |all: &[PathBuf], marker: &str| -> Vec<(PathBuf, Vec<u8>)> {
        let all = all.iter().filter_map(|path| {
            let text = path.display().to_string();
            let (_, inside) = text.split_once(marker)?;
            Some((PathBuf::from(inside), fs::read(path).unwrap()))
        });
        all.collect()
    };
    let clean = below(&files(&env.path("clean")), &format!("clean/{SESSION}"));
    let project = unpacked.iter().find(|path| path.ends_with(format!("{SESSION}.jsonl"))).unwrap();
    let project = project.with_extension("").display().to_string();
    assert!(clean.len() > 3);
    assert_eq!(below(&unpacked, &project), clean);
}
