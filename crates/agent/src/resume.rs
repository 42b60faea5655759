//! A session that goes on: what was said, and where.
//!
//! The messages are those that the newest client would send; what it makes up to close an unfinished turn is written too, as it does. Invariant: what is sent after a resume begins with what was
//! sent before it, byte for byte.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde::Deserialize;
use transcript::content::BlockKind;
use transcript::conversation::Conversation;
use transcript::entry::Kind;
use transcript::history::{self, Note, Refusal, Role, Rules};
use transcript::table::{Id, Row, RowId};
use uuid::Uuid;

use crate::api::request::{Message, text_block};
use crate::backup::Backup;
use crate::block::text_of;
use crate::context;
use crate::model;
use crate::record::{Pending, Point};

/// A session as it is found.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// What was said.
    pub messages: Vec<Message>,
    /// Where it goes on.
    pub point: Point,
    /// The model that spoke last.
    pub model: Option<String>,
    /// The files that were watched, as they are called there, and their last copies.
    pub backups: Vec<(String, Backup)>,
    /// The files that the model has read or written, and when.
    pub seen: Vec<(String, i64)>,
    /// The session that it says it is.
    pub session: Option<String>,
    /// Something in it is damaged, or missing: more of it may be sent once that is mended.
    pub is_damaged: bool,
}

/// Stands for the prompt that is to come.
const NEXT: &str = "\u{1}";

/// Reads a session. Only what is needed of it is read. The model is the one that goes on, if that was said.
pub fn open(path: &Path, model: Option<&str>) -> io::Result<Result<Resumed, Refusal>> {
    let rules = Rules::newest();
    let own = history::open(path, rules)?;
    let found = match history::history_for(&own, rules, Some(NEXT), model)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let is_gap = |note: &Note| matches!(note, Note::Missing { .. });
    let is_damaged = own.table.damaged > 0 || found.notes.iter().any(is_gap);
    let seen = seen(&found.messages, &own);
    let (messages, made) = messages(found.messages, model::takes_system(&found.model));
    let leaf = found.leaf.map(|leaf| own.table.row(leaf));
    let times = own.table.rows().iter().filter_map(|row| row.time);
    let slug = match found.leaf {
        Some(leaf) => own.look(leaf, |entry| entry.text("slug").map(String::from))?,
        None => None,
    };
    let ids = own.table.rows().iter().filter_map(|row| own.table.text(row.uuid));
    let point = Point {
        last: leaf.and_then(|leaf| own.table.text(leaf.uuid)).map(str::to_owned),
        time: times.max().map_or(0, |time| time.0),
        slug,
        taken: ids.filter_map(|id| Uuid::try_parse(id).ok()).collect(),
        pending: made.into_iter().map(|(role, block)| Pending::Closing(role, block)).collect(),
    };
    // Without any answer it is the client's own choice, and not ours.
    let has_spoken = |model: &String| {
        let mut models = own.table.answers().iter().map(|answer| own.table.text(answer.model));
        models.any(|own| own == Some(model))
    };
    let model =
        Some(found.model).filter(|model| model::known(model).is_some() && has_spoken(model));
    let backups = backups(&own)?;
    let session = leaf.and_then(|leaf| own.table.text(leaf.session)).map(str::to_owned);
    Ok(Ok(Resumed { messages, point, model, backups, seen, session, is_damaged }))
}

/// The messages as they are sent, without the prompt that is not said yet; and what closes the last turn: a block and who says it.
fn messages(
    found: Vec<history::Message>,
    takes_system: bool,
) -> (Vec<Message>, Vec<(&'static str, String)>) {
    let mut messages: Vec<Message> = Vec::new();
    let (mut made, mut is_before) = (Vec::new(), true);
    let next = text_block(NEXT);
    for message in found {
        let role = message.role.name();
        let mut blocks = Vec::new();
        for block in message.blocks {
            let origin = block.origin();
            let text = String::from_utf8(block.into_raw())
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            // What the client says behind the prompt stays behind it. The newline where a text met the prompt comes again with the prompt that is said.
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
            blocks.push(text);
        }
        // Older models are told the same as a reminder.
        if message.role == Role::System && !takes_system {
            let told = blocks.iter().filter_map(|block| text_of(block));
            let told = told.map(|text| text_block(&context::tagged(&text)));
            if let Some(last) = messages.last_mut().filter(|last| last.role == "user") {
                last.blocks.extend(told);
            }
        } else if !blocks.is_empty() {
            messages.push(Message { role, blocks });
        }
    }
    (messages, made)
}

/// The files that were read or written, by the calls that succeeded.
fn seen(messages: &[history::Message], own: &Conversation) -> Vec<(String, i64)> {
    let blocks = || messages.iter().flat_map(|message| &message.blocks);
    let calls = blocks().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(|block| {
        let part = own.table.part(block.origin()?);
        let name = match own.table.text(part.name)? {
            "Read" | "Edit" | "Write" => "file_path",
            "NotebookEdit" => "notebook_path",
            _ => return None,
        };
        Some((part.id?, block.input(name)?))
    });
    let calls: HashMap<Id, String> = calls.collect();
    let results = blocks().filter(|block| block.kind() == BlockKind::ToolResult);
    let seen = results.filter_map(|block| {
        let part = own.table.part(block.origin()?);
        let path = calls.get(&part.id?).filter(|_| !part.is_error)?;
        Some((path.clone(), own.table.row(part.row).time?.0))
    });
    seen.collect()
}

/// What the last snapshot of the session's files tells.
fn backups(own: &Conversation) -> io::Result<Vec<(String, Backup)>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Copy {
        backup_file_name: Option<String>,
        version: u32,
        backup_time: Option<String>,
    }
    let is_snapshot = |(_, row): &(RowId, &Row)| row.kind == Kind::FileHistorySnapshot;
    let last = own.table.numbered().rfind(is_snapshot);
    let Some((last, _)) = last else { return Ok(Vec::new()) };
    let files = own.look(last, |entry| {
        let files = entry.get("snapshot").and_then(|snapshot| snapshot.get("trackedFileBackups"));
        files.and_then(|files| serde_json::from_slice::<BTreeMap<String, Copy>>(files.raw()).ok())
    })?;
    let files = files.unwrap_or_default().into_iter().map(|(path, copy)| {
        let Copy { backup_file_name: name, version, backup_time: time } = copy;
        (path, Backup { name, version, time })
    });
    Ok(files.collect())
}
