//! Continues a session: its messages, and where it ended.
//!
//! The messages are those that the newest client would send. What that client adds to close an
//! unfinished turn is also written, as it does. Invariant: what is sent after a resume begins with
//! what was sent before it, byte for byte.

mod background;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde::Deserialize;
use transcript::client::history::{self, Note, Refusal, Role, Rules, takes_system};
use transcript::conversation::Conversation;
use transcript::conversation::table::{Id, Row, RowId};
use transcript::format::content::BlockKind;
use transcript::format::entry::Kind;
use transcript::format::input::Input;
use transcript::format::json::Json;
use uuid::Uuid;

use crate::api::request::{Message, text_block};
use crate::backup::Backup;
use crate::block::{is_unsigned, text_of};
use crate::context;
use crate::freshness::Print;
use crate::model::{self, Usage};
use crate::record::{Pending, Point};
use crate::turn::Waypoint;

pub(crate) use background::notification;

/// A session as it was found.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// The messages of the conversation.
    pub messages: Vec<Message>,
    /// Where prompts begin in them.
    pub waypoints: Vec<Waypoint>,
    /// Where the session continues.
    pub point: Point,
    /// The model of the last answer.
    pub model: Option<String>,
    /// The names of the watched files in the session, and their last copies.
    pub backups: Vec<(String, Backup)>,
    /// The files that the model has read or written completely, and fingerprints of their content
    /// at that time.
    pub seen: Vec<(String, Print)>,
    /// The session's id according to its records, if it is a UUID: no other text from a file is
    /// used to build paths.
    pub session: Option<String>,
    /// The tokens of the last request and its answer, unless a summary took their place.
    pub usage: Usage,
    /// What ran in the background when the session was left: ids and names.
    pub ended: Vec<(String, String)>,
    /// Whether something in it is damaged or missing. More of it may be sent once that is repaired.
    pub is_damaged: bool,
}

/// A placeholder for the prompt that is to come.
const NEXT: &str = "\u{1}";

/// Reads a session, and only those parts that are needed. `model` is the model that continues it,
/// if the user named one.
pub fn open(path: &Path, model: Option<&str>) -> io::Result<Result<Resumed, Refusal>> {
    open_at(path, model, None)
}

/// The same; `at` is the id of the record that it goes on from, if it is not the last.
pub fn open_at(
    path: &Path,
    model: Option<&str>,
    at: Option<&str>,
) -> io::Result<Result<Resumed, Refusal>> {
    // What a tool was called in an answer is part of what was sent before.
    let rules = Rules { keeps_names: true, ..Rules::newest() };
    let conversation = match at {
        Some(_) => Conversation::open(path)?,
        None => history::open(path, rules)?,
    };
    let table = &conversation.table;
    let row = at.map(|at| table.numbered().find(|(_, row)| table.text(row.uuid) == Some(at)));
    let found = match row {
        None => history::history_for(&conversation, rules, Some(NEXT), model)?,
        Some(Some((row, _))) => history::history_at(&conversation, rules, Some(NEXT), model, row)?,
        Some(None) => Err(Refusal::NoEnd),
    };
    let found = match found {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let is_gap = |note: &Note| matches!(note, Note::Missing { .. });
    let is_damaged = conversation.table.damaged > 0 || found.notes.iter().any(is_gap);
    let seen = seen(&found.messages, &conversation)?;
    let ended = background::left_open(&found.messages);
    let usage = usage(&found, &conversation);
    let prompts = prompts(&conversation);
    let (messages, made, waypoints) =
        messages(found.messages, takes_system(&found.model), (&conversation, &prompts));
    let leaf = found.leaf.map(|leaf| conversation.table.row(leaf));
    let times = conversation.table.rows().iter().filter_map(|row| row.time);
    let slug = match found.leaf {
        Some(leaf) => conversation.look(leaf, |entry| entry.text("slug").map(String::from))?,
        None => None,
    };
    let ids = conversation.table.rows().iter().filter_map(|row| conversation.table.text(row.uuid));
    let point = Point {
        last: leaf.and_then(|leaf| conversation.table.text(leaf.uuid)).map(str::to_owned),
        time: times.max().map_or(0, |time| time.0),
        slug,
        taken: ids.filter_map(|id| Uuid::try_parse(id).ok()).collect(),
        pending: made.into_iter().map(|(role, block)| Pending::Closing(role, block)).collect(),
        prompts: prompts.into_values().collect(),
    };
    // Without any answer, it is the client's own choice and does not apply here.
    let has_spoken = |model: &String| {
        let mut models =
            conversation.table.answers().iter().map(|answer| conversation.table.text(answer.model));
        models.any(|name| name == Some(model))
    };
    let model =
        Some(found.model).filter(|model| model::known(model).is_some() && has_spoken(model));
    let backups = backups(&conversation)?;
    let session = leaf.and_then(|leaf| conversation.table.text(leaf.session));
    let session = session.and_then(|id| Uuid::try_parse(id).ok()).map(|id| id.to_string());
    Ok(Ok(Resumed {
        messages,
        waypoints,
        point,
        model,
        backups,
        seen,
        session,
        usage,
        ended,
        is_damaged,
    }))
}

/// What the last answer reports, if it was asked for with what is sent now.
fn usage(found: &history::History, conversation: &Conversation) -> Usage {
    let table = &conversation.table;
    let blocks = found.messages.iter().rev().flat_map(|message| message.blocks.iter().rev());
    let mut rows = blocks.filter_map(|block| Some(table.block(block.origin()?).row));
    let answer = rows.find_map(|row| Some((row, table.row(row).answer?)));
    // What a summary has kept was said before it.
    let answer = answer.filter(|(row, _)| found.boundary.is_none_or(|boundary| *row > boundary));
    let usage = answer.and_then(|(_, answer)| table.answer(answer).usage.clone());
    usage.map_or_else(Usage::default, |reported| reported.usage)
}

/// The prompts of the conversation: their ids, their parents and their times.
type Prompts = HashMap<RowId, (String, (Option<String>, i64))>;

fn prompts(conversation: &Conversation) -> Prompts {
    let table = &conversation.table;
    let is_said = |row: &Row| {
        use Input::{Command, IdeOpenedFile, IdeSelection, Plain, Queued, Shell};
        let is_typed = |input| {
            matches!(input, Plain | IdeSelection | IdeOpenedFile | Command | Shell | Queued)
        };
        row.kind != Kind::Attachment && !row.is_sidechain && row.input.is_some_and(is_typed)
    };
    let rows = table.numbered().filter(|(_, row)| is_said(row));
    let prompts = rows.filter_map(|(id, row)| {
        let parent = table.text(row.parent).map(str::to_owned);
        let time = row.time.map_or(0, |time| time.0);
        Some((id, (table.text(row.uuid)?.to_owned(), (parent, time))))
    });
    prompts.collect()
}

/// Messages, what closes the last turn (roles and blocks), and where prompts begin.
type Sent = (Vec<Message>, Vec<(&'static str, String)>, Vec<Waypoint>);

/// The messages as they are sent, without the prompt that is still to come; what closes the last
/// turn; and where prompts begin.
fn messages(
    found: Vec<history::Message>,
    takes_system: bool,
    (conversation, prompts): (&Conversation, &Prompts),
) -> Sent {
    let mut messages: Vec<Message> = Vec::new();
    let mut waypoints: Vec<Waypoint> = Vec::new();
    let (mut made, mut is_before) = (Vec::new(), true);
    let next = text_block(NEXT);
    for message in found {
        let role = message.role.name();
        let mut blocks = Vec::new();
        for block in message.blocks {
            let (origin, kind) = (block.origin(), block.kind());
            let text = String::from_utf8(block.into_raw())
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            // Claude Code sends such thinking, and the API refuses the request because of it.
            if kind == BlockKind::Thinking && is_unsigned(&text) {
                continue;
            }
            // What the client says after the prompt stays after it. The newline where a text met
            // the prompt is added again with the real prompt.
            if text == next {
                is_before = false;
                let seam = blocks.last().and_then(|last: &String| text_of(last));
                if let Some(text) = seam {
                    blocks.pop();
                    blocks.push(text_block(text.strip_suffix('\n').unwrap_or(&text)));
                }
                continue;
            }
            match origin {
                Some(_) if is_before => made.clear(),
                None if is_before && role != "system" => made.push((role, text.clone())),
                _ => {}
            }
            let prompt =
                origin.and_then(|origin| prompts.get(&conversation.table.block(origin).row));
            if let Some((id, _)) = prompt {
                let words = text_of(&text).unwrap_or_default();
                match waypoints.last_mut().filter(|last| last.id == *id) {
                    Some(last) if last.text.is_empty() => last.text = words,
                    Some(last) => last.text = format!("{}\n{words}", last.text),
                    None => {
                        let (message, block) = (messages.len(), blocks.len());
                        waypoints.push(Waypoint { id: id.clone(), text: words, message, block });
                    }
                }
            }
            blocks.push(text);
        }
        // Older models get the same as a reminder.
        if message.role == Role::System && !takes_system {
            let texts = blocks.iter().filter_map(|block| text_of(block));
            let reminders = texts.map(|text| text_block(&context::tagged(&text)));
            if let Some(last) = messages.last_mut().filter(|last| last.role == "user") {
                last.blocks.extend(reminders);
            }
        } else if !blocks.is_empty() {
            messages.push(Message { role, blocks });
        }
    }
    (messages, made, waypoints)
}

/// The files that were read or written by calls that succeeded, with fingerprints of their content,
/// where a record contains all of it. The newest such record counts.
fn seen(
    messages: &[history::Message],
    conversation: &Conversation,
) -> io::Result<Vec<(String, Print)>> {
    let blocks = || messages.iter().flat_map(|message| &message.blocks);
    let calls = blocks().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(|block| {
        let part = conversation.table.block(block.origin()?);
        let is_whole = matches!(conversation.table.text(part.name)?, "Read" | "Edit" | "Write");
        Some((part.id?, block.input("file_path").filter(|_| is_whole)?))
    });
    let calls: HashMap<Id, String> = calls.collect();
    let mut results: BTreeMap<&String, Vec<RowId>> = BTreeMap::new();
    for block in blocks().filter(|block| block.kind() == BlockKind::ToolResult) {
        let Some(part) = block.origin().map(|origin| conversation.table.block(origin)) else {
            continue;
        };
        let path = part.id.and_then(|id| calls.get(&id)).filter(|_| !part.is_error);
        if let Some(path) = path {
            results.entry(path).or_default().push(part.row);
        }
    }
    let mut seen = Vec::new();
    for (path, rows) in results {
        for row in rows.into_iter().rev() {
            let print =
                conversation.look(row, |entry| entry.get("toolUseResult").and_then(held))?;
            if let Some(print) = print {
                seen.push((path.clone(), print));
                break;
            }
        }
    }
    Ok(seen)
}

/// The content of a file after a call, if the call's result contains all of it.
fn held(result: Json<'_>) -> Option<Print> {
    let result = result.object()?;
    if let Some(file) = result.get("file").and_then(Json::object) {
        let number = |name: &str| -> Option<u64> {
            std::str::from_utf8(file.get(name)?.raw()).ok()?.parse().ok()
        };
        let is_whole = number("startLine")? == 1 && number("numLines")? == number("totalLines")?;
        return file.text("content").filter(|_| is_whole).map(|text| Print::of_text(&text));
    }
    let Some(old) = result.text("oldString") else {
        return result.text("content").map(|text| Print::of_text(&text));
    };
    let (before, new) = (result.text("originalFile")?, result.text("newString")?);
    let is_all = result.get("replaceAll").is_some_and(|all| all.raw() == b"true");
    let (before, old) = (before.replace("\r\n", "\n"), old.replace("\r\n", "\n"));
    // A match that was found in another way is not reconstructed here.
    if !before.contains(&old) || (old.is_empty() && !before.is_empty()) {
        return None;
    }
    let after = if is_all { before.replace(&old, &new) } else { before.replacen(&old, &new, 1) };
    Some(Print::of_text(&after))
}

/// The copies of files that the session's last snapshot lists.
fn backups(conversation: &Conversation) -> io::Result<Vec<(String, Backup)>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Copy {
        backup_file_name: Option<String>,
        version: u32,
        backup_time: Option<String>,
    }
    let is_snapshot = |(_, row): &(RowId, &Row)| row.kind == Kind::FileHistorySnapshot;
    let last = conversation.table.numbered().rfind(is_snapshot);
    let Some((last, _)) = last else { return Ok(Vec::new()) };
    let files = conversation.look(last, |entry| {
        let files = entry.get("snapshot").and_then(|snapshot| snapshot.get("trackedFileBackups"));
        files.and_then(|files| serde_json::from_slice::<BTreeMap<String, Copy>>(files.raw()).ok())
    })?;
    let files = files.unwrap_or_default().into_iter().map(|(path, copy)| {
        let Copy { backup_file_name: name, version, backup_time: time } = copy;
        (path, Backup { name, version, time })
    });
    Ok(files.collect())
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
