//! `quipu follow`, with a writer at work.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::env::Env;

/// A running `follow` whose lines arrive one by one.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(env: &Env, args: &[&str]) -> Self {
        let mut child =
            env.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        let stderr = child.stderr.take().unwrap();
        let other = send.clone();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|l| drop(send.send(l)));
        });
        thread::spawn(move || {
            // What it follows is said first, whichever of the two arrives first.
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            let lines = lines.filter(|line| !line.starts_with("following `"));
            lines.for_each(|l| drop(other.send(l)));
        });
        Following { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(20)).expect("a line in time")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn new_records_are_printed_as_they_come() {
    let env = Env::bare();
    let path = env.put("s.jsonl", "{\"type\":\"mode\",\"mode\":\"old\"}\n");
    let following = Following::start(&env, &["follow", "--from-start", path.to_str().unwrap()]);
    assert_eq!(following.next(), "          mode");
    let mut file = File::options().append(true).open(&path).unwrap();
    let record = "{\"type\":\"user\",\"timestamp\":\"2026-11-15T10:20:30.000Z\",\"message\":{\"content\":\"do it\"}}";
    // In two writes, as a slow disk would.
    file.write_all(&record.as_bytes()[..30]).unwrap();
    thread::sleep(Duration::from_millis(300));
    file.write_all(&record.as_bytes()[30..]).unwrap();
    file.write_all(b"\n").unwrap();
    assert_eq!(following.next(), "10:20:30  user  do it");
    file.write_all(b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"name\":\"Read\",\"input\":{\"a\":1}}]}}\n").unwrap();
    assert_eq!(following.next(), "          assistant  call Read {\"a\":1}");
    file.write_all(b"no json\n").unwrap();
    assert_eq!(following.next(), "line 4, bytes 209..216: not a record: unexpected `n`");
    drop(file);
    File::create(&path)
        .unwrap()
        .write_all(b"{\"type\":\"summary\",\"summary\":\"new\"}\n")
        .unwrap();
    // Said on stderr, so either may come first.
    let mut both = [following.next(), following.next()];
    both.sort();
    assert_eq!(
        both,
        ["          summary  new", "the file was truncated: reading it from its start"]
    );
    fs::remove_file(&path).unwrap();
    assert_eq!(following.next(), "the file is gone: waiting for it to come back");
}

#[test]
fn json_is_that_of_cat() {
    let env = Env::with_sessions();
    let following = Following::start(&env, &["follow", "badc0ffe", "--from-start", "--json"]);
    let cat = String::from_utf8(env.output(&["cat", "badc0ffe"]).stdout).unwrap();
    // The torn end is waited for; all before it is given.
    for expected in cat.lines().take(15) {
        assert_eq!(following.next(), expected);
    }
}
