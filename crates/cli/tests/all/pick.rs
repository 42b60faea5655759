//! The picker in a real terminal, and `quipu resume`: what keys do, what the client is started
//! with, and how the terminal is left.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::env::{Env, in_a_terminal, set_age};

const PATIENCE: Duration = Duration::from_secs(30);
const FIRST: &str = "11111111-0000-4000-8000-000000000000";
const SECOND: &str = "22222222-0000-4000-8000-000000000000";

/// A program in a terminal, and everything that it wrote there.
struct Terminal {
    child: Child,
    ours: File,
    /// The program's end, to look at the terminal's settings.
    theirs: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(mut command: Command) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let end = || File::options().read(true).write(true).open(&name).unwrap();
        let theirs = end();
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        let ours = File::from(ours);
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (mut reader, written) = (ours.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                written.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Terminal { child, ours, theirs, seen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until the terminal shows a text.
    fn until(&self, text: &str) {
        self.until_so(text, |written| shown(written).contains(text));
    }

    /// Waits until the terminal was sent something.
    fn until_sent(&self, bytes: &str) {
        self.until_so(bytes, |written| written.contains(bytes));
    }

    fn until_so(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while !is_so(&self.text()) {
            assert!(begin.elapsed() < PATIENCE, "no {what:?} in {:?}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether keys are passed on one by one, and not shown.
    fn is_raw(&self) -> bool {
        use rustix::termios::LocalModes;
        !tcgetattr(&self.theirs).unwrap().local_modes.intersects(LocalModes::ICANON)
    }

    /// Waits for the end. Returns the exit code, and what came after the screen.
    fn end(mut self) -> (Option<i32>, String) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end: {:?}", self.text());
            thread::sleep(Duration::from_millis(5));
        };
        self.until_sent(LEAVE);
        assert!(!self.is_raw(), "the terminal stays as it was");
        // What was written before the end is still on its way.
        thread::sleep(Duration::from_millis(50));
        let text = self.text();
        let (before, after) = text.rsplit_once(LEAVE).unwrap();
        assert!(before.contains(ENTER), "{before:?}");
        (status.code(), after.replace("\r\n", "\n"))
    }
}

/// What a terminal of 80 columns and 24 lines shows after these bytes: only what the screen uses.
fn shown(written: &str) -> String {
    let mut cells = vec![[' '; 80]; 24];
    let (mut x, mut y, mut rest) = (0, 0, written);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\x1b' {
            let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { break };
            let (sequence, after) = rest.split_at(end + 1);
            rest = after;
            if let Some((row, column)) =
                sequence.strip_suffix('H').and_then(|place| place[1..].split_once(';'))
            {
                let number = |text: &str| text.parse::<usize>().unwrap() - 1;
                (y, x) = (number(row), number(column));
            } else if sequence == "[2J" {
                cells.fill([' '; 80]);
            }
        } else if x < 80 && y < 24 {
            cells[y][x] = c;
            x += 1;
        }
    }
    cells.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
}

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A session of one turn in that project, of that age in hours.
fn put(env: &Env, home: &str, id: &str, prompt: &str, hours: u64) -> PathBuf {
    let cwd = env.path("a folder's name").to_string_lossy().into_owned();
    let base = format!(
        r#""sessionId":"{id}","cwd":{},"version":"2.1.325","timestamp":"2026-11-01T00:00:00.000Z","isSidechain":false,"userType":"external""#,
        serde_json::to_string(&cwd).unwrap()
    );
    let lines = format!(
        "{{\"type\":\"user\",\"uuid\":\"{id}-u\",\"parentUuid\":null,{base},\"message\":{{\"role\":\"user\",\"content\":\"{prompt}\"}}}}\n\
         {{\"type\":\"assistant\",\"uuid\":\"{id}-a\",\"parentUuid\":\"{id}-u\",{base},\"message\":{{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus-4-5\",\"content\":[{{\"type\":\"text\",\"text\":\"The answer to {prompt}: stove.\"}}],\"stop_reason\":\"end_turn\",\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}}}\n"
    );
    let path = env.put(&format!("{home}/projects/-w/{id}.jsonl"), lines);
    set_age(&path, hours * 3_600);
    path
}

/// A user with two sessions whose folder is there, and a `claude` that writes down how it was
/// started.
fn surroundings() -> Env {
    let env = Env::bare();
    put(&env, ".claude", FIRST, "dry boots", 1);
    put(&env, ".claude", SECOND, "fix the parser", 2);
    fs::create_dir(env.path("a folder's name")).unwrap();
    put_client(&env, "bin/claude", "real");
    env
}

fn put_client(env: &Env, name: &str, what: &str) {
    let record = env.path("started");
    let script = format!(
        "#!/bin/sh\n{{ echo {what}; pwd; echo \"${{CLAUDE_CONFIG_DIR-none}}\"; printf '<%s>' \"$@\"; }} > '{}'\necho client\n",
        record.display()
    );
    let path = env.put(name, script);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(env: &Env, args: &[&str]) -> Command {
    let mut command = env.command(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    command.env("QUIPU_PAGER", "");
    command
}

/// How the client was started, if it was.
fn started(env: &Env) -> String {
    let text = fs::read_to_string(env.path("started")).unwrap_or("not started".to_owned());
    let _ = fs::remove_file(env.path("started"));
    env.cleaned(&text)
}

fn open(env: &Env, args: &[&str]) -> Terminal {
    let terminal = Terminal::start(command(env, args));
    terminal.until("fix the parser");
    terminal
}

#[test]
fn leaving_changes_nothing() {
    let env = surroundings();
    for key in ["\x1b", "\x03"] {
        let mut terminal = open(&env, &["pick"]);
        assert!(terminal.is_raw());
        terminal.press(key);
        assert_eq!(terminal.end(), (Some(130), String::new()));
    }
}

#[test]
fn enter_shows_what_is_selected() {
    let env = surroundings();
    for args in [&["pick"][..], &["show"], &["search", "-i"]] {
        let mut terminal = open(&env, args);
        terminal.press("pars");
        terminal.until("1/2");
        terminal.press("\r");
        let (code, shown) = terminal.end();
        let same = in_a_terminal(env.command(&["show", SECOND]), "", PATIENCE);
        assert_eq!((code, shown), same, "{args:?}");
    }
}

#[test]
fn the_command_that_opened_it_gets_the_session() {
    let env = surroundings();
    let mut terminal = open(&env, &["clone", "--dry-run"]);
    terminal.until("clone");
    terminal.press("\x1b[B\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("fix the parser") && shown.contains("nothing was written"), "{shown}");
    // From there, a session can also be forked: a new one beside it.
    let mut terminal = open(&env, &["check"]);
    terminal.press("\x06");
    let (code, shown) = terminal.end();
    let count = fs::read_dir(env.path(".claude/projects/-w")).unwrap().count();
    assert_eq!((code, count), (Some(0), 3), "{shown}");
}

#[test]
fn words_inside_of_sessions_are_found_while_typing() {
    let env = surroundings();
    let mut terminal = open(&env, &["pick"]);
    // In no title, prompt or folder.
    terminal.press("stove");
    terminal.until("turn 1 answer");
    terminal.until("2026-11-01 00:00 to 00:00");
    terminal.press("\r");
    let (code, shown) = terminal.end();
    assert!(code == Some(0) && shown.contains("The answer to dry boots: stove."), "{shown}");
}

#[test]
fn the_id_goes_to_the_clipboard() {
    let env = surroundings();
    let coded = base64::engine::general_purpose::STANDARD.encode(FIRST);
    for (tmux, sent) in [
        (None, format!("\x1b]52;c;{coded}\x07")),
        (Some("x"), format!("\x1bPtmux;\x1b\x1b]52;c;{coded}\x07\x1b\\")),
    ] {
        let mut command = command(&env, &["pick"]);
        command.envs(tmux.map(|name| ("TMUX", name)));
        let mut terminal = Terminal::start(command);
        terminal.until("fix the parser");
        terminal.press("\x19");
        terminal.until_sent(&sent);
        terminal.press("\x1b");
        assert_eq!(terminal.end().0, Some(130));
    }
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let env = surroundings();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let terminal = open(&env, &["pick"]);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert_eq!(terminal.end(), (Some(code), String::new()));
    }
}

#[test]
fn the_client_is_started_in_the_folder_of_the_session() {
    let env = surroundings();
    let mut terminal = open(&env, &["pick"]);
    terminal.press("\x12");
    let (code, shown) = terminal.end();
    assert_snapshot!(format!("exit {code:?}\n{}---\n{}", env.cleaned(&shown), started(&env)));
}

/// A terminal that cannot show a screen, and no terminal at all.
#[test]
fn without_a_screen_everything_is_as_before() {
    let env = surroundings();
    let dumb = |args: &[&str]| {
        let mut command = command(&env, args);
        command.env("TERM", "dumb");
        let (code, shown) = in_a_terminal(command, "", PATIENCE);
        format!("### dumb {args:?}\nexit {code:?}\n{}", env.cleaned(&shown))
    };
    let piped = |args: &[&str]| format!("### piped {args:?}\n{}", env.run(args));
    let mut all = Vec::new();
    for args in [&["pick"][..], &["search", "-i"], &["strip", "--calls"], &["fork"], &["resume"]] {
        all.extend([dumb(args), piped(args)]);
    }
    assert_snapshot!(all.join("\n"));
    let output = env.output(&["show", "--last", "1"]);
    // Not the last one of this folder, which has none.
    assert_eq!(output.status.code(), Some(3));
}

/// The line that people can copy does what the program does.
#[test]
fn the_command_and_the_process_agree() {
    let env = surroundings();
    put(&env, "other home/.claude", FIRST, "elsewhere", 1);
    let dashed = put(&env, ".claude", "-rf", "an option", 3);
    let alone = env.put("alone.jsonl", fs::read(&dashed).unwrap());
    let other = env.path("other home/.claude").to_string_lossy().into_owned();
    let usual = env.path(".claude").to_string_lossy().into_owned();
    let [dashed, alone] = [dashed, alone].map(|path| path.to_string_lossy().into_owned());
    let cases: [(&[&str], Option<&str>); 6] = [
        (&["resume", FIRST], None),
        (&["--home", &other, "resume", FIRST], None),
        (&["--home", "other home/.claude", "resume", FIRST], None),
        (&["--home", &usual, "resume", SECOND], Some("/elsewhere")),
        (&["resume", &dashed], None),
        (&["resume", &alone], None),
    ];
    let mut all = Vec::new();
    for (args, named) in cases {
        let mut command = command(&env, args);
        command.envs(named.map(|home| ("CLAUDE_CONFIG_DIR", home)));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?} {output:?}");
        let process = started(&env);
        let text = String::from_utf8(output.stderr).unwrap();
        let line = text.lines().last().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
        shell.envs(named.map(|home| ("CLAUDE_CONFIG_DIR", home)));
        assert!(shell.status().unwrap().success());
        assert_eq!(process, started(&env), "{line}");
        all.push(format!(
            "### {}\n{}\n{process}",
            env.cleaned(&format!("{args:?}")),
            env.cleaned(line)
        ));
    }
    assert_snapshot!(all.join("\n"));
}

#[test]
fn what_cannot_be_resumed() {
    let env = surroundings();
    let run = |command: &mut Command| -> Output { command.output().unwrap() };
    let mut all = Vec::new();
    let mut note = |what: &str, output: &Output| {
        let text = format!("### {what}\n{}{}\n", env.show(output), started(&env));
        all.push(text);
    };
    note("no client", &run(env.command(&["resume", FIRST]).env("PATH", "/nowhere")));
    // A client in the current folder, or in the session's, is a stranger's.
    put_client(&env, "a folder's name/claude", "stranger");
    let mut command_here = env.command(&["resume", FIRST]);
    command_here.env("PATH", ".::bin:a folder's name").current_dir(env.path("a folder's name"));
    note("only relative folders", &run(&mut command_here));
    note("with quipu", &run(&mut command(&env, &["resume", FIRST, "--with", "quipu"])));
    note("no such session", &run(&mut command(&env, &["resume", "33333333"])));
    env.put(
        ".claude/projects/-w/empty000.jsonl",
        "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n",
    );
    note("nothing to resume", &run(&mut command(&env, &["resume", "empty000"])));
    let glued = put(&env, ".claude", "glued000", "glued", 5);
    let lines = fs::read_to_string(&glued).unwrap();
    env.put(".claude/projects/-w/glued000.jsonl", lines.replacen("}\n{", "}{", 1));
    note("with loss", &run(&mut command(&env, &["resume", "glued000"])));
    fs::remove_dir_all(env.path("a folder's name")).unwrap();
    note("no folder", &run(&mut command(&env, &["resume", FIRST])));
    assert_snapshot!(all.join("\n"));
}
