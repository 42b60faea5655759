//! Pipes, devices and links to them in the place of every file that the program reads: nothing
//! waits, nothing grows, nothing is left out without a word.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::session::Script;

use crate::env::{Env, set_age};

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";

/// A place where a file is read.
struct Place {
    /// Its path, where `P` is the project's folder and `ID` the session.
    path: &'static str,
    /// Whether lists of sessions have to say that they leave it out.
    is_session: bool,
}

const PLACES: [Place; 19] = [
    place("P/bbbbbbbb.jsonl").session(),
    place("P/agent-beside.jsonl"),
    place("P/ID/subagents/agent-inside.jsonl"),
    place("P/ID/subagents/agent-inside.meta.json"),
    place("P/ID/tool-results/toolu_1.txt"),
    place("P/ID/context.json"),
    place("P/sessions-index.json"),
    place(".claude/history.jsonl"),
    place(".claude/sessions/1.json"),
    place(".claude/file-history/ID/0123456789abcdef@v1"),
    place(".claude/todos/ID-agent-ID.json"),
    place(".claude/settings.json"),
    place(".claude/CLAUDE.md"),
    place("work/.claude/settings.json"),
    place("work/.claude/settings.local.json"),
    place(".config/quipu/config.toml"),
    place("work/CLAUDE.md"),
    place("work/.git"),
    place("work/.git/HEAD"),
];

const fn place(path: &'static str) -> Place {
    Place { path, is_session: false }
}

impl Place {
    const fn session(self) -> Place {
        Place { is_session: true, ..self }
    }

    fn in_(&self, env: &Env) -> PathBuf {
        let path = self.path.replace("ID", ID);
        let project = format!(".claude/projects/{}", slug(&env.path("work")));
        match path.strip_prefix("P/") {
            Some(below) => env.path(&project).join(below),
            None => env.path(&path),
        }
    }
}

fn slug(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Everything that reads. Those that change something do it in surroundings of their own.
const COMMANDS: [&[&str]; 32] = [
    &[],
    &["ls"],
    &["ls", "--all", "--count"],
    &["ls", "--all", "--json"],
    &["show", ID],
    &["show", ID, "--full", "--markdown"],
    &["turns", ID],
    &["turns", ID, "--json"],
    &["tree", ID],
    &["export", "md", ID],
    &["export", "json", ID],
    &["check", ID],
    &["check", "--all"],
    &["history", ID],
    &["repair", ID, "--dry-run"],
    &["strip", ID, "--preset", "extreme", "--dry-run"],
    &["strip", ID, "--results", "--in-place"],
    &["clone", ID],
    &["fork", ID, "--at", "1"],
    &["undo", "--list"],
    &["cat", ID],
    &["cat", "last", "--raw"],
    &["inventory", "--all"],
    &["inventory", ID, "--json"],
    &["drift", "--all"],
    &["files", ID],
    &["ship", "--all", "--dry-run"],
    &["hook", "status"],
    &["hook", "install", "--dry-run"],
    &["hook", "uninstall", "--dry-run"],
    &["chat", "--offline=script.json", "-p", "hi"],
    &["chat", "--offline=script.json", "-p", "hi", "--continue"],
];

/// A user with a project, in which a session has everything beside it that a session can have.
fn surroundings() -> Env {
    let env = Env::bare();
    let script = Script::new()
        .prompt("p1", "-", "one")
        .call("c1", "p1", "m1", "toolu_1", "Task")
        .result("r1", "c1", "toolu_1", &"done ".repeat(100))
        .says("a1", "r1", "m2", "two");
    let text = script.text().replace("\"sessionId\":\"s\"", &format!("\"sessionId\":\"{ID}\""));
    let project = format!(".claude/projects/{}", slug(&env.path("work")));
    let session = env.put(&format!("{project}/{ID}.jsonl"), &text);
    set_age(&session, 3_600);
    env.put(
        "work/script.json",
        r#"{"name":"s","replies":[{"content":[{"type":"text","text":"hi"}]}]}"#,
    );
    env
}

/// What stands in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    Pipe,
    LinkToDevice,
    Device,
}

impl Special {
    /// Puts it there. Whether that could be done.
    fn put(self, path: &Path) -> bool {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match self {
            Special::Pipe => {
                let done = Command::new("mkfifo").arg(path).status().unwrap();
                assert!(done.success());
                true
            }
            Special::LinkToDevice => symlink("/dev/zero", path).is_ok(),
            Special::Device => {
                let mut command = Command::new("mknod");
                let command = command.arg(path).args(["c", "1", "5"]).stderr(Stdio::null());
                // Also where it can be made it may not be one: some containers forbid to open it.
                command.status().is_ok_and(|status| status.success())
            }
        }
    }
}

/// What came of a run.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
    /// The most memory that it had at once, in kilobytes.
    memory: u64,
}

/// Runs a command until it ends, or for so long.
fn run(env: &Env, args: &[&str], patience: Duration) -> Ran {
    let [stdout, stderr] = ["out", "err"].map(|name| env.path(name));
    let mut child = env
        .command(args)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key")
        .current_dir(env.path("work"))
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let mut memory = 0;
    let code = loop {
        // It only ever grows, so the last look is the one that counts. Before the program is loaded
        // it is that of these tests.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let is_loaded = status.starts_with("Name:\tquipu\n");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok());
        memory = most.filter(|_| is_loaded).unwrap_or(0).max(memory);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begin.elapsed() > patience {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let took = begin.elapsed();
    Ran { code, stdout: read(&stdout), stderr: read(&stderr), took, memory }
}

const PATIENCE: Duration = Duration::from_secs(2);
const MOST_MEMORY: u64 = 64 << 10;

/// What is wrong with a run of a command where something special stands.
fn fault(place: &Place, special: Special, args: &[&str]) -> Option<String> {
    // A machine that does other things at the same time may be slow once; what hangs, hangs again.
    let mut tries = 0;
    let (ran, path) = loop {
        let env = surroundings();
        let path = place.in_(&env);
        if !special.put(&path) {
            return None;
        }
        let ran = run(&env, args, PATIENCE);
        tries += 1;
        if ran.code.is_some() || tries == 2 {
            break (ran, path);
        }
    };
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_list = matches!(args, [] | ["ls", ..]) || args.contains(&"--all");
    let wrong = if ran.code.is_none() {
        format!("does not end ({:?})", ran.took)
    } else if ran.memory > MOST_MEMORY {
        format!("takes {} kB", ran.memory)
    } else if ran.stderr.contains("panicked") {
        "panics".to_owned()
    } else if place.is_session && is_list && ran.stderr.matches(name).count() != 1 {
        "does not say once what it leaves out".to_owned()
    } else if place.is_session && is_list && ran.code != Some(0) {
        "fails because of one file of many".to_owned()
    } else {
        return None;
    };
    let (code, out, err) = (ran.code, ran.stdout.len(), ran.stderr);
    Some(format!("{special:?} as {}: {args:?} {wrong}: {code:?}, {out} bytes, {err}", place.path))
}

#[test]
fn nothing_waits_or_grows_or_is_left_out_in_silence() {
    let mut cases = Vec::new();
    for place in &PLACES {
        for special in [Special::Pipe, Special::LinkToDevice, Special::Device] {
            // A device that is not a link is looked at in the same way: a few places are enough.
            if special == Special::Device && !place.is_session {
                continue;
            }
            cases.extend(COMMANDS.iter().map(|args| (place, special, *args)));
        }
    }
    let next = std::sync::Mutex::new(cases.iter());
    let wrong = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let Some((place, special, args)) = next.lock().unwrap().next() else { return };
                    wrong.lock().unwrap().extend(fault(place, *special, args));
                }
            });
        }
    });
    println!("{} cases", cases.len());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The surroundings are right: without anything special all of these do what they should.
#[test]
fn without_them_all_is_well() {
    for args in COMMANDS {
        let ran = run(&surroundings(), args, Duration::from_secs(20));
        assert_eq!(ran.code, Some(0), "{args:?} {}", ran.stderr);
    }
}

/// What was asked for by name and is no file is refused at once, by its path, by its id, and as a
/// stream.
#[test]
fn what_is_named_and_special_is_refused() {
    let env = surroundings();
    for (name, special) in [("pipe", Special::Pipe), ("zero", Special::LinkToDevice)] {
        let project = format!(".claude/projects/{}", slug(&env.path("work")));
        assert!(special.put(&env.path(&format!("{project}/{name}0000.jsonl"))));
        assert!(special.put(&env.path(&format!("work/{name}.jsonl"))));
        for by in [format!("{name}0000"), format!("{name}.jsonl")] {
            for args in [
                &["show"][..],
                &["turns"],
                &["tree"],
                &["export", "md"],
                &["check"],
                &["history"],
                &["repair"],
                &["strip", "--noise"],
                &["clone"],
                &["fork"],
                &["cat"],
                &["cat", "--raw"],
                &["inventory"],
                &["drift"],
                &["files"],
                &["follow"],
                &["ship", "--dry-run"],
                &["chat", "--offline=script.json", "-p", "hi", "--resume"],
            ] {
                let args: Vec<&str> = args.iter().copied().chain([by.as_str()]).collect();
                let ran = run(&env, &args, PATIENCE);
                assert_eq!(ran.code, Some(4), "{args:?} {}", ran.stderr);
                assert!(ran.stderr.contains("not a regular file"), "{args:?} {}", ran.stderr);
                assert!(ran.stderr.contains("save its output to a file"), "{}", ran.stderr);
                assert_eq!(ran.stdout, "");
            }
        }
    }
    // A pipe that never says anything, as a shell gives it for `<(…)`.
    let mut child = env
        .command(&["cat", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let open = child.stdin.take();
    let begin = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(begin.elapsed() < PATIENCE);
    drop(open);
    // A file that comes that way is one.
    let file = env.put("real.jsonl", "{\"type\":\"user\"}\n");
    let mut command = env.command(&["cat", "/dev/stdin"]);
    assert!(command.stdin(File::open(file).unwrap()).output().unwrap().status.success());
}

/// A file that is being followed and becomes a pipe is no longer followed.
#[test]
fn a_file_that_becomes_a_pipe_is_not_waited_for() {
    let env = Env::bare();
    let path = env.put("s.jsonl", "{\"type\":\"mode\"}\n");
    let mut child = env
        .command(&["follow", "s.jsonl", "--from-start"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut first).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(Special::Pipe.put(&path));
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it waits");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(child.wait().unwrap().code(), Some(4));
}
