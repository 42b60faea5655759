//! The messages' own hashes: clients since 2.1.325 record a hash of each message that they send.
//!
//! Rebuilds what would be sent and compares it with what the last request of the session itself
//! recorded. Invariants: a difference is only counted, because files are verified by their own
//! hashes, and a client may have sent a message in another form; a session that is too long to hold
//! is not compared.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use transcript::client::history::{Rules, history};
use transcript::conversation::Conversation;
use transcript::format::file::{Body, From, Lines};

/// The longest session that is compared, in bytes: what is sent is held in memory.
const LONGEST: u64 = 16 << 20;
/// The type of the records that have hashes.
const REQUEST: &[u8] = b"\"api-request\"";

/// How many messages of the last recorded request were compared, and how many have the hash that
/// was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHashes {
    pub recorded: u64,
    pub matching: u64,
}

/// Whether a session may have recorded hashes, and is short enough to be compared.
pub(super) fn has_requests(file: &File) -> io::Result<bool> {
    if file.metadata()?.len() > LONGEST {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    From::new(file, 0).take(LONGEST).read_to_end(&mut bytes)?;
    Ok(memchr::memmem::find(&bytes, REQUEST).is_some())
}

/// Compares a session with the hashes in it; `None` if it has none.
pub(super) fn compare(
    conversation: &Conversation,
    file: &File,
    rules: Rules,
) -> io::Result<Option<MessageHashes>> {
    let Some((hashes, setting)) = last_request(file)? else { return Ok(None) };
    let sent = history(conversation, rules, None).map_err(transcript::Error::into_io)?;
    let mut known = HashSet::new();
    for message in sent.iter().flat_map(|sent| &sent.messages) {
        let blocks =
            message.blocks.iter().filter_map(|block| serde_json::from_slice(block.raw()).ok());
        let message =
            json!({"role": message.role.name(), "content": blocks.collect::<Vec<Value>>()});
        known.extend(forms(message, &setting));
    }
    let matching = hashes.iter().filter(|hash| known.contains(*hash)).count() as u64;
    Ok(Some(MessageHashes { recorded: hashes.len() as u64, matching }))
}

/// The hashes of the messages of the session's last request, and the setting that it was made with.
fn last_request(file: &File) -> io::Result<Option<(Vec<String>, Value)>> {
    let mut lines = Lines::new(From::new(file, 0));
    let mut by_id: HashMap<String, Vec<String>> = HashMap::new();
    let (mut last, mut setting) = (None, Value::Null);
    while let Some(line) = lines.next_line().map_err(transcript::Error::into_io)? {
        let Body::Held(bytes) = line.body else { continue };
        if memchr::memmem::find(bytes, REQUEST).is_none() {
            continue;
        }
        let Ok(request) = serde_json::from_slice::<Value>(bytes) else { continue };
        if request["type"] != "api-request" {
            continue;
        }
        if setting.is_null() {
            setting = request["params"]["output_config"].clone();
        }
        let base = request["base"].as_str().and_then(|base| by_id.get(base));
        let keep =
            request["keep"].as_u64().and_then(|keep| usize::try_from(keep).ok()).unwrap_or(0);
        let mut hashes: Vec<String> = base.into_iter().flatten().take(keep).cloned().collect();
        let tail = request["tail"].as_array().into_iter().flatten();
        hashes.extend(tail.filter_map(|hash| hash.as_str().map(str::to_owned)));
        if let Some(id) = request["id"].as_str() {
            by_id.insert(id.to_owned(), hashes.clone());
        }
        // Sub-agents have other messages.
        if request["querySource"].as_str().is_some_and(|source| !source.contains("agent")) {
            last = Some(hashes);
        }
    }
    Ok(last.map(|hashes| (hashes, setting)))
}

/// The hashes that a message may have: a lone text can be sent as a string, and the client's own
/// message carries a setting of the request.
fn forms(message: Value, setting: &Value) -> Vec<String> {
    let mut forms = Vec::new();
    if message["role"] == "system" {
        let mut with = message.clone();
        with["output_config"] = setting.clone();
        forms.push(hash(with));
    }
    if let Some([only]) = message["content"].as_array().map(Vec::as_slice)
        && only["type"] == "text"
    {
        forms.push(hash(json!({"role": message["role"], "content": only["text"]})));
    }
    forms.push(hash(message));
    forms
}

/// Of the compact JSON with sorted keys.
fn hash(mut message: Value) -> String {
    message.sort_all_objects();
    format!("{:x}", Sha256::digest(message.to_string()))
}
