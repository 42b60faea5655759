//! The input of a session: the prompt, the standard input, signals.

use std::io::{self, BufRead, IsTerminal, Read};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use agent::drive::{NOBODY, Note, Said};
use agent::tool::Site;
use serde_json::Value;

use super::demo::Lab;
use super::{ChatArgs, In};
use crate::failure::Failure;
use crate::text::printable;
use crate::world::World;

/// How long a prompt waits for more text on a standard input that is silent.
const PATIENCE: Duration = Duration::from_secs(3);

/// The prompt; `None` with `stream-json`, where prompts come later. Nothing starts before the
/// prompt is complete.
pub(super) fn prompt(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
) -> Result<Option<String>, Failure> {
    if args.input_format == In::StreamJson {
        return Ok(None);
    }
    let prompt = args.prompt.clone().or_else(|| demo.map(|demo| demo.prompt.clone()));
    let more = if demo.is_some() { String::new() } else { rest(world, prompt.is_some())? };
    let text = match (prompt, more.trim_end()) {
        (Some(prompt), "") => prompt,
        (Some(prompt), more) => format!("{prompt}\n{more}"),
        (None, more) => more.to_owned(),
    };
    if text.trim().is_empty() {
        let hint = "pass one as an argument, or on the standard input";
        return Err(Failure::usage("no prompt given", Some(hint)));
    }
    Ok(Some(text))
}

/// Sends the prompt to the session; with `stream-json`, every message from the standard input.
pub(super) fn say(prompt: Option<String>, again: bool, notes: Sender<Note>) {
    let Some(prompt) = prompt else {
        thread::spawn(move || lines(&notes, again));
        return;
    };
    // The receiver lives as long as the program.
    let _ = notes.send(Note::Say(Said::text(&prompt)));
    let _ = notes.send(Note::Closed);
}

/// The text on the standard input; empty if that is a terminal, or silent although there is a
/// prompt.
fn rest(world: &mut World, has_prompt: bool) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(String::new());
    }
    // The thread reports first that something arrives, then all of it.
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        let mut input = io::stdin().lock();
        let read = input.read(&mut bytes).and_then(|count| {
            bytes.truncate(count);
            let _ = tell.send(None);
            input.read_to_end(&mut bytes)
        });
        let _ = tell.send(Some(read.map(|_| String::from_utf8_lossy(&bytes).into_owned())));
    });
    let patience = if has_prompt { PATIENCE } else { Duration::MAX };
    let first = match heard.recv_timeout(patience) {
        Err(RecvTimeoutError::Timeout) => {
            let message = "no data on the standard input: continuing without it (use `< /dev/null` to avoid the wait)";
            world.out.note(message)?;
            return Ok(String::new());
        }
        first => first.ok().flatten(),
    };
    let text = first.or_else(|| heard.recv().ok().flatten()).unwrap_or_else(|| Ok(String::new()));
    text.map_err(|error| Failure::unreadable("standard input".as_ref(), error))
}

/// Reads one message per line.
fn lines(notes: &Sender<Note>, again: bool) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let note = match message(&line, again) {
            Ok(Some(note)) => note,
            Ok(None) => continue,
            Err(why) => Note::Nonsense(printable(&why)),
        };
        if notes.send(note).is_err() {
            return;
        }
    }
    let _ = notes.send(Note::Closed);
}

fn message(line: &[u8], again: bool) -> Result<Option<Note>, String> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("a line of the input is not JSON: {error}"))?;
    match value["type"].as_str() {
        Some("user") => {}
        Some("control_request") => return Ok(Some(Note::Control(value))),
        Some("control_response") => return Ok(Some(Note::Reply(value))),
        Some("control_cancel_request" | "keep_alive") => return Ok(None),
        other => return Err(format!("a line of the input has the type {other:?}, not `user`")),
    }
    let message = &value["message"];
    if message["role"] != "user" {
        return Err("a message of the input does not have the role `user`".to_owned());
    }
    let blocks = match &message["content"] {
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => Said::text(text).blocks,
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        _ => return Err("a message of the input has no content".to_owned()),
    };
    if blocks.is_empty() {
        return Err("a message of the input is empty".to_owned());
    }
    let id = value["uuid"].as_str().map(str::to_owned);
    let line = again.then(|| value.clone());
    let is_verbatim = value["client_composed"] == true;
    Ok(Some(Note::Say(Said { blocks, id, line, is_verbatim, ..Said::default() })))
}

/// A block as it is sent: without blank texts, which the API refuses, and without cache marks,
/// which are ours to set.
fn block(block: &Value) -> Option<String> {
    let mut block = block.clone();
    block.as_object_mut()?.shift_remove("cache_control");
    let is_blank = block["text"].as_str().is_some_and(|text| text.trim().is_empty());
    (!is_blank).then(|| block.to_string())
}

/// A signal ends the session as a person would. A second signal does not wait for that: it ends
/// only the commands and exits.
#[cfg(unix)]
#[allow(clippy::exit, reason = "any wait could last for ever")]
pub(super) fn signals(notes: &Sender<Note>, site: &Arc<Site>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    let Ok(mut signals) = signal_hook::iterator::Signals::new(all) else { return };
    let (notes, site) = (notes.clone(), site.clone());
    thread::spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            // The exit code that shells report for a program that a signal ended.
            let code = u8::try_from(128 + signal).unwrap_or(1);
            if count > 0 {
                site.shells.end();
                std::process::exit(i32::from(code));
            }
            let _ = notes.send(Note::End(code));
        }
    });
}

#[cfg(not(unix))]
pub(super) fn signals(_: &Sender<Note>, _: &Arc<Site>) {}

/// Ends the session when its output is no longer read, as if the user had interrupted it. This is
/// noticed at once, even while nothing is printed.
#[cfg(unix)]
pub(super) fn reader(notes: &Sender<Note>) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    let notes = notes.clone();
    thread::spawn(move || {
        let out = io::stdout();
        // No events are requested: a closed other end is always reported.
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        while let Err(error) = poll(&mut watched, None) {
            if error != Errno::INTR {
                return;
            }
        }
        if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            let _ = notes.send(Note::End(NOBODY));
        }
    });
}

#[cfg(not(unix))]
pub(super) fn reader(_: &Sender<Note>) {}
