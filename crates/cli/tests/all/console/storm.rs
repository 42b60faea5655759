//! The window changes again and again while an answer arrives.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;
use crate::env::Env;

/// How long the API waits between two pieces of an answer.
const PAUSE: Duration = Duration::from_millis(2);

/// An API that answers with these texts in turn, a few characters at a time. Returns its port.
fn slow(texts: Vec<String>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let texts = Arc::new(Mutex::new(VecDeque::from(texts)));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let texts = texts.clone();
            thread::spawn(move || drop(serve(&connection, &texts)));
        }
    });
    port
}

fn serve(mut connection: &TcpStream, texts: &Mutex<VecDeque<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let (mut length, mut header) = (0, String::new());
    while {
        header.clear();
        reader.read_line(&mut header)?
    } > 2
    {
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if body["stream"] != true {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 20";
        return write!(connection, "{head}\r\nconnection: close\r\n\r\n{{\"input_tokens\": 100}}");
    }
    let text = texts.lock().unwrap().pop_front().unwrap_or_default();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    write!(connection, "{head}")?;
    let mut event = |kind: &str, mut value: Value| {
        value["type"] = kind.into();
        write!(connection, "event: {kind}\ndata: {value}\n\n")
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": body["model"], "stop_reason": null, "usage": usage});
    event("message_start", json!({"message": message}))?;
    let block = json!({"type": "text", "text": ""});
    event("content_block_start", json!({"index": 0, "content_block": block}))?;
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(11) {
        let delta = json!({"type": "text_delta", "text": piece.iter().collect::<String>()});
        event("content_block_delta", json!({"index": 0, "delta": delta}))?;
        sleep(PAUSE);
    }
    event("content_block_stop", json!({"index": 0}))?;
    event(
        "message_delta",
        json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
    )?;
    event("message_stop", json!({}))
}

#[test]
fn the_scrollback_holds_every_line_once_while_an_answer_streams() {
    an_answer_streams("on");
}

#[test]
fn and_without_synchronised_output() {
    an_answer_streams("off");
}

fn an_answer_streams(sync: &str) {
    // Wide characters only where nothing is wrapped: tmux 3.3a puts the cursor into the text above
    // it when it breaks lines anew in front of them, whatever the program does.
    let code: Vec<String> = (0..20).map(|n| format!("let code{n} = \"你好\";")).collect();
    let line = |turn: usize, n: usize| {
        format!("turn {turn} line {n} {}", "wörd über ".repeat(n % 30)).trim_end().to_owned()
    };
    let answer = |turn: usize| {
        let lines: Vec<String> = (0..40).map(|n| line(turn, n)).collect();
        format!("{}\n\n```\n{}\n```\n\nEND {turn}.", lines.join("\n\n"), code.join("\n"))
    };
    let port = slow((0..4).map(answer).collect());
    let Some(tmux) = Desk::in_shell(Vec::new(), Env::bare(), (80, 24), |line| {
        let (start, rest) = line.split_once("http://127.0.0.1:").unwrap();
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let url = format!("http://127.0.0.1:{port}");
        let line = format!("{start}{url}{rest} --sandbox off --no-snapshots; echo left $?; cat");
        let with_sync = line.replacen("'-i'", &format!("'-i' 'QUIPU_SYNC={sync}'"), 1);
        assert_ne!(line, with_sync);
        with_sync
    }) else {
        return;
    };
    tmux.wait("lists the keys");
    let mut seed: u32 = 23;
    let mut random = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % most
    };
    for turn in 0..4 {
        tmux.line(&format!("prompt {turn} of the storm"));
        for step in 0..125 {
            let (width, height) = ((40 + random(160)).to_string(), (8 + random(52)).to_string());
            tmux.run(&["resize-window", "-t", ":0", "-x", &width, "-y", &height]);
            if step == 60 {
                // What is typed meanwhile stays in the composer.
                tmux.run(&["send-keys", "-t", ":0", "-l", "typed in between"]);
            }
            sleep(Duration::from_millis(u64::from(random(14))));
        }
        tmux.run(&["resize-window", "-t", ":0", "-x", "100", "-y", "30"]);
        tmux.wait(&format!("END {turn}."));
        tmux.wait("❯ typed in between");
        tmux.keys(&["C-u"]);
        sleep(Duration::from_millis(200));
    }
    tmux.keys(&["C-d"]);
    tmux.wait("left 0");
    let lines = tmux.scrollback();
    let count = |text: &str| lines.iter().filter(|found| *found == text).count();
    let all = lines.join("\n");
    for turn in 0..4 {
        for n in 0..40 {
            assert_eq!(count(&line(turn, n)), 1, "{:?}\n{all}", line(turn, n));
        }
        assert_eq!(count(&format!("❯ prompt {turn} of the storm")), 1, "{all}");
        assert_eq!(count(&format!("END {turn}.")), 1, "{all}");
    }
    for line in &code {
        assert_eq!(count(line), 4, "{line}\n{all}");
    }
    // Nothing of the live area is left, and nothing is out of order.
    for left in ["manual mode", "Esc stops", "typed in between"] {
        assert!(!all.contains(left), "{left}\n{all}");
    }
    let is_numbered = |line: &&String| line.starts_with("turn ") || line.starts_with("END ");
    let found: Vec<&String> = lines.iter().filter(is_numbered).collect();
    let wanted: Vec<String> = (0..4)
        .flat_map(|turn| (0..40).map(move |n| (turn, Some(n))).chain([(turn, None)]))
        .map(|(turn, n)| n.map_or(format!("END {turn}."), |n| line(turn, n)))
        .collect();
    assert_eq!(found, wanted.iter().collect::<Vec<_>>());
}
