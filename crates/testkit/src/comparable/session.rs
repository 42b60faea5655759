//! What a session file says: the texts of its messages, and those of its attachments.
//!
//! They decide what in a request is content of the session. Invariant: names of kinds, ids and
//! times are no content, or every reminder would seem to carry some.

use std::collections::BTreeSet;

use serde_json::Value;

/// Members of an attachment that name or number something, and say nothing.
const NAMES: &[&str] = &[
    "type",
    "hookEvent",
    "hookEventName",
    "hookName",
    "commandMode",
    "toolUseID",
    "uuid",
    "sessionId",
    "mode",
    "source_uuid",
    "timestamp",
    "level",
    "mediaType",
    "role",
    "origin",
    "kind",
    "itemCount",
    "command",
    "displayPath",
];

/// Attachments that say what is installed or set, or that are never sent; see `fresh`.
const LISTS: &[&str] = &[
    "agent_listing_delta",
    "auto_mode",
    "command_permissions",
    "date",
    "deferred_tools_delta",
    "deferred_tools_record",
    "environment",
    "instructions",
    "mcp_instructions_delta",
    "model",
    "output_style",
    "prompt_snapshot",
    "remote_session_change",
    "session_context",
    "skill_listing",
];

/// The texts of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionTexts {
    spoken: BTreeSet<String>,
    /// The texts of attachments with single spaces, longest first.
    attached: Vec<String>,
}

impl SessionTexts {
    /// The texts in a session file; what cannot be read is skipped.
    pub fn read(file: &[u8]) -> SessionTexts {
        let (mut spoken, mut attached) = (BTreeSet::new(), BTreeSet::new());
        let text = String::from_utf8_lossy(file);
        for line in text.split('\n') {
            let line = line.trim().trim_start_matches('\u{feff}');
            let line = whole_characters(line);
            let records = serde_json::Deserializer::from_str(&line).into_iter::<Value>();
            for record in records.map_while(Result::ok) {
                let attachment = &record["attachment"];
                if !LISTS.iter().any(|kind| attachment["type"] == *kind) {
                    leaves(attachment, NAMES, &mut attached);
                }
                // What was sent for it is stored with its tags, which may be left out.
                let mut stored = BTreeSet::new();
                leaves(&record["rendered"], NAMES, &mut stored);
                let bare = |text: &String| text.replace(super::OPEN, "").replace(super::CLOSE, "");
                attached.extend(stored.iter().map(bare));
                leaves(&record["message"], &[], &mut spoken);
                leaves(&record["content"], &[], &mut spoken);
            }
        }
        // Recordings have this where the product's own words were.
        spoken.remove("<system-reminder>[cut]</system-reminder>");
        let attached: BTreeSet<String> = attached.iter().map(|text| single_spaced(text)).collect();
        let mut attached: Vec<String> =
            attached.into_iter().filter(|text| text.chars().count() > 2).collect();
        attached.sort_by_key(|text| std::cmp::Reverse(text.len()));
        SessionTexts { spoken, attached }
    }

    /// Whether a message of the session is this text.
    pub(super) fn says(&self, text: &str) -> bool {
        self.spoken.contains(text)
    }

    /// The texts of attachments that this text carries; none that is part of another one. In a
    /// list of what is installed (`is_list`), a single word proves nothing.
    pub(super) fn carried(&self, text: &str, is_list: bool) -> Vec<String> {
        let is_notice = text.trim_start().starts_with(NOTICE);
        let text = single_spaced(text);
        let mut found: Vec<String> = Vec::new();
        // A notice is a message of the session, with words of the product before and after it.
        let spoken = self.spoken.iter().filter(|one| is_notice && one.starts_with(TASK));
        found.extend(spoken.map(|one| single_spaced(one)).filter(|one| text.contains(one)));
        for one in &self.attached {
            let is_evidence = !is_list || one.contains(' ') || one.len() > LONG_WORD;
            if is_evidence && text.contains(one) && !found.iter().any(|long| long.contains(one)) {
                found.push(one.clone());
            }
        }
        found.sort();
        found
    }
}

/// How a reminder begins that tells the model about a background task.
pub(super) const NOTICE: &str = "[SYSTEM NOTIFICATION - NOT USER INPUT]";

/// How a message begins that says what became of a background task.
const TASK: &str = "<task-notification>";

/// From this length on, a word is not in a list by chance.
const LONG_WORD: usize = 12;

/// JSON in which every half of a surrogate pair that stands alone is a character of its own, far
/// from all others. Some clients send such halves; JSON readers refuse them.
pub fn whole_characters(json: &str) -> String {
    let unit = |at: usize| {
        let escape = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(escape, 16).ok()
    };
    let mut found = String::with_capacity(json.len());
    let (mut done, mut at) = (0, 0);
    while let Some(step) = json[at..].find('\\') {
        at += step;
        let second = unit(at + 6).filter(|unit| (0xDC00..0xE000).contains(unit));
        match unit(at) {
            Some(0xD800..0xDC00) if second.is_some() => at += 12,
            Some(half @ 0xD800..0xE000) => {
                found.push_str(&json[done..at]);
                found.extend(char::from_u32(0xF_0000 + half));
                at += 6;
                done = at;
            }
            _ => at += 2,
        }
        if at > json.len() || !json.is_char_boundary(at) {
            break; // not JSON
        }
    }
    found.push_str(&json[done..]);
    found
}

/// Whether a text says what became of a background task.
pub(super) fn is_notice(text: &str) -> bool {
    text.starts_with(TASK)
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every text and every longer number in a value, except under these members.
fn leaves(value: &Value, skipped: &[&str], found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Number(number) if number.as_f64().is_some_and(|number| number.abs() > 999.0) => {
            found.insert(number.to_string());
        }
        Value::Array(list) => list.iter().for_each(|one| leaves(one, skipped, found)),
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !skipped.contains(&name.as_str()));
            kept.for_each(|(_, one)| leaves(one, skipped, found));
        }
        _ => {}
    }
}
