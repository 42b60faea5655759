//! What is said to a session: the prompt, the standard input, signals.

use std::io::{self, BufRead, IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use agent::drive::{Note, Said};
use serde_json::Value;

use super::demo::Lab;
use super::{ChatArgs, In};
use crate::failure::Failure;

/// How long a prompt waits for the rest of it on a standard input that says nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// Says the prompt; with `stream-json`, everything that comes.
pub(super) fn read(
    args: &ChatArgs,
    demo: Option<&Lab>,
    notes: Sender<Note>,
) -> Result<(), Failure> {
    if args.input_format == In::StreamJson {
        let again = args.replay_user_messages;
        thread::spawn(move || lines(&notes, again));
        return Ok(());
    }
    let prompt = args.prompt.clone().or_else(|| demo.map(|demo| demo.prompt.clone()));
    let more = if demo.is_some() { String::new() } else { rest(prompt.is_some())? };
    let text = match (prompt, more.trim_end()) {
        (Some(prompt), "") => prompt,
        (Some(prompt), more) => format!("{prompt}\n{more}"),
        (None, more) => more.to_owned(),
    };
    if text.trim().is_empty() {
        let hint = "give one as an argument, or on the standard input";
        return Err(Failure::usage("there is no prompt", Some(hint)));
    }
    // The receiver is there as long as the program.
    let _ = notes.send(Note::Say(Said::text(&text)));
    let _ = notes.send(Note::Closed);
    Ok(())
}

/// What comes on the standard input; nothing if that is a terminal, or silent beside a prompt.
fn rest(has_prompt: bool) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(String::new());
    }
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = io::stdin().read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    let text = if has_prompt {
        match text.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => return Ok(String::new()),
            text => text.map_err(|_| RecvTimeoutError::Disconnected),
        }
    } else {
        text.recv().map_err(|_| RecvTimeoutError::Disconnected)
    };
    let text = text.unwrap_or_else(|_| Ok(String::new()));
    text.map_err(|error| Failure::unreadable("standard input".as_ref(), error))
}

/// A message a line.
fn lines(notes: &Sender<Note>, again: bool) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        let note = match message(&line, again) {
            Ok(Some(note)) => note,
            Ok(None) => continue,
            Err(why) => Note::Nonsense(why),
        };
        if notes.send(note).is_err() {
            return;
        }
    }
    let _ = notes.send(Note::Closed);
}

fn message(line: &str, again: bool) -> Result<Option<Note>, String> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| format!("a line of the input is no JSON: {error}"))?;
    match value["type"].as_str() {
        Some("user") => {}
        Some("control_request") if value["request"]["subtype"] == "interrupt" => {
            return Ok(Some(Note::Interrupt));
        }
        Some("control_request" | "control_response" | "control_cancel_request" | "keep_alive") => {
            return Ok(None);
        }
        other => return Err(format!("a line of the input has the type {other:?}, not `user`")),
    }
    let message = &value["message"];
    if message["role"] != "user" {
        return Err("a message of the input is not of the role `user`".to_owned());
    }
    let blocks: Vec<String> = match &message["content"] {
        Value::String(text) => Said::text(text).blocks,
        Value::Array(blocks) => blocks.iter().map(Value::to_string).collect(),
        _ => return Err("a message of the input has no content".to_owned()),
    };
    let line = again.then(|| value.clone());
    Ok(Some(Note::Say(Said { blocks, line })))
}

/// Signals end the session as a person would.
#[cfg(unix)]
pub(super) fn signals(notes: &Sender<Note>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    let notes = notes.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            // What a shell says of a program that a signal ended.
            let code = u8::try_from(128 + signal).unwrap_or(1);
            let _ = notes.send(Note::End(code));
        }
    });
}

#[cfg(not(unix))]
pub(super) fn signals(_: &Sender<Note>) {}
