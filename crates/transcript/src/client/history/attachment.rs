//! What a client sends for an attachment.
//!
//! The newest client stores with each attachment what it sent. Older clients create the text again,
//! for the types that they know. The product's own texts are abbreviated here; a comparison with a
//! real client must leave reminders out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::rules::{Attachments, Rules};
use crate::conversation::table::RowId;
use crate::format::content::blocks;
use crate::format::entry::Entry;
use crate::format::json::{Json, Object};

/// One text of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) text: String,
    /// It goes into the single message with the role `system` after the user's.
    pub(super) to_system: bool,
    /// It goes next to a tool result, never into it.
    pub(super) is_beside: bool,
}

/// How a reminder begins.
const REMINDER: &str = "<system-reminder>";

impl Sent {
    pub(super) fn is_reminder(&self) -> bool {
        self.text.trim_start().starts_with(REMINDER)
    }

    /// Shortens the text so that it only shows whether it is a reminder, and whether it is blank.
    pub(super) fn shorten(&mut self) {
        if self.is_reminder() {
            self.text = String::from(REMINDER);
        } else if !self.text.trim_start().is_empty() {
            self.text = String::from("...");
        }
    }
}

/// Cache of what is sent for attachments, shortened. The key contains the rule for attachments,
/// which many versions share.
#[derive(Debug, Default)]
pub(crate) struct AttachmentCache(Mutex<HashMap<(RowId, Attachments), Vec<Sent>>>);

impl AttachmentCache {
    /// Whether an attachment need not be read.
    pub(super) fn has(&self, row: RowId, rules: Rules) -> bool {
        rules.attachments == Attachments::No || self.known().contains_key(&(row, rules.attachments))
    }

    /// What is sent for an attachment: the cached texts, or the ones just read.
    pub(super) fn in_short(&self, row: RowId, rules: Rules, mut read: Vec<Sent>) -> Vec<Sent> {
        read.iter_mut().for_each(Sent::shorten);
        self.known().entry((row, rules.attachments)).or_insert(read).clone()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(RowId, Attachments), Vec<Sent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is sent for an attachment, one entry per text.
pub(super) fn sent(entry: &Entry<'_>, rules: Rules) -> Vec<Sent> {
    let Some(attachment) = entry.get("attachment").and_then(Json::object) else {
        return Vec::new();
    };
    let rendered = entry.get("rendered").filter(|_| rules.attachments == Attachments::Rendered);
    match (rules.attachments, rendered) {
        (Attachments::No, _) => Vec::new(),
        (_, Some(rendered)) => stored(entry, &attachment, rendered),
        (_, None) => {
            let texts = known(&attachment, rules).into_iter();
            texts.map(|text| Sent { text, to_system: false, is_beside: false }).collect()
        }
    }
}

/// The texts that were stored as sent.
fn stored(entry: &Entry<'_>, attachment: &Object<'_>, rendered: Json<'_>) -> Vec<Sent> {
    let is_system = entry.get("renderedRole").is_some_and(|role| role.is("system"));
    let is_queued = attachment.get("type").is_some_and(|name| name.is("queued_command"));
    let is_beside = entry.flag("renderedBesideToolResult") || (is_system && is_queued);
    let mut found = Vec::new();
    for one in rendered.elements() {
        for block in one.get("content").into_iter().flat_map(blocks) {
            let text = block.text().unwrap_or_default();
            let text = if is_system { untagged(&text).to_owned() } else { text.into_owned() };
            found.push(Sent { text, to_system: is_system && !is_queued, is_beside });
        }
    }
    found
}

/// The text of a reminder, without its tags.
fn untagged(text: &str) -> &str {
    let inner = text.trim().strip_prefix(REMINDER);
    inner.and_then(|inner| inner.strip_suffix("</system-reminder>")).map_or(text, str::trim)
}

pub(super) fn reminder(text: &str) -> String {
    format!("{REMINDER}\n{text}\n</system-reminder>")
}

/// The texts that a client creates for the attachment types that it knows.
fn known(attachment: &Object<'_>, rules: Rules) -> Vec<String> {
    let text = |name: &str| attachment.text(name).unwrap_or_default();
    let words = |name: &str| {
        let texts: Vec<_> = attachment
            .get(name)
            .into_iter()
            .flat_map(blocks)
            .filter_map(|block| {
                block.text().or_else(|| block.json().text()).map(std::borrow::Cow::into_owned)
            })
            .collect();
        texts.join("\n")
    };
    match text("type").as_ref() {
        "queued_command" => {
            let lead = if rules.version < [2, 1, 29] {
                "The user sent the following message:"
            } else {
                "The user sent a new message while you were working:"
            };
            let prompt = words("prompt");
            vec![reminder(&format!(
                "{lead}\n{prompt}\n\nPlease address this message and continue with your tasks."
            ))]
        }
        "hook_success" => {
            let heard = matches!(text("hookEvent").as_ref(), "SessionStart" | "UserPromptSubmit");
            let content = text("content");
            if !heard || content.is_empty() {
                return Vec::new();
            }
            vec![reminder(&format!("{} hook success: {content}", text("hookName")))]
        }
        "hook_additional_context" => {
            vec![reminder(&format!(
                "{} hook additional context: {}",
                text("hookName"),
                words("content")
            ))]
        }
        "file" => {
            let name = text("filename");
            vec![
                reminder(&format!(
                    "Called the Read tool with the following input: {{\"file_path\":\"{name}\"}}"
                )),
                reminder(&format!("Result of calling the Read tool: {}", words("content"))),
            ]
        }
        "skill_listing" => vec![reminder(&text("content"))],
        _ => Vec::new(),
    }
}
