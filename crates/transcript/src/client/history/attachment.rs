//! What a client sends for an attachment.
//!
//! The newest clients store with each attachment what they sent. Without that, and in older ones,
//! the text is created again, for the types that the client knows. The product's own words are not
//! copied: a reminder has the type of the attachment on its first line, and then the session's
//! content. Models that accept messages of the role `system` get it in such a message, without
//! tags; others get it in a reminder.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::kinds;
use super::rules::{Attachments, Rules};
use crate::conversation::table::RowId;
use crate::format::content::blocks;
use crate::format::entry::Entry;
use crate::format::json::{Json, Object};

/// One text or image of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) text: String,
    /// A block with an image, instead of the text.
    pub(super) image: Option<Vec<u8>>,
    /// Whether it can be in the single message with the role `system` after the user's.
    pub(super) system: System,
    /// It goes next to a tool result, never into it.
    pub(super) is_beside: bool,
    /// The type of the attachment that it was created from; `None` if it was stored.
    pub(super) kind: Option<&'static str>,
}

/// What becomes of a text if the model accepts messages of the role `system`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum System {
    /// It stays a reminder of the user's.
    #[default]
    No,
    /// It goes into such a message.
    Yes,
    /// It is not sent.
    Dropped,
}

/// How a reminder begins and ends.
const REMINDER: &str = "<system-reminder>";
const END: &str = "</system-reminder>";

impl Sent {
    /// Shortens the text so that it only shows whether it is a reminder, and whether it is blank;
    /// of an image, only that it is one.
    pub(super) fn shorten(&mut self) {
        if self.image.is_some() {
            self.image = Some(br#"{"type":"image"}"#.to_vec());
        }
        if is_reminder(&self.text) {
            self.text = String::from(REMINDER);
        } else if !self.text.trim_start().is_empty() {
            self.text = String::from("...");
        }
    }
}

/// What decides what is sent for an attachment, apart from the attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    attachments: Attachments,
    /// The types that the client knows.
    known: kinds::Known,
}

impl Sending {
    pub(super) fn new(rules: Rules) -> Sending {
        Sending { attachments: rules.attachments, known: kinds::known(rules.version) }
    }
}

/// Cache of what is sent for attachments, shortened. Many versions send the same.
#[derive(Debug, Default)]
pub(crate) struct AttachmentCache(Mutex<HashMap<(RowId, Sending), Vec<Sent>>>);

impl AttachmentCache {
    /// Whether an attachment need not be read.
    pub(super) fn has(&self, row: RowId, sending: Sending) -> bool {
        sending.attachments == Attachments::No || self.known().contains_key(&(row, sending))
    }

    /// What is sent for an attachment: the cached texts, or the ones just read.
    pub(super) fn in_short(&self, row: RowId, sending: Sending, mut read: Vec<Sent>) -> Vec<Sent> {
        read.iter_mut().for_each(Sent::shorten);
        self.known().entry((row, sending)).or_insert(read).clone()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(RowId, Sending), Vec<Sent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is sent for an attachment, one entry per text.
pub(super) fn sent(entry: &Entry<'_>, sending: Sending) -> Vec<Sent> {
    let Some(attachment) = entry.get("attachment").and_then(Json::object) else {
        return Vec::new();
    };
    let rendered = entry.get("rendered");
    match (sending.attachments, rendered) {
        (Attachments::No, _) => Vec::new(),
        (Attachments::Rendered, Some(rendered)) => stored(entry, &attachment, rendered),
        _ => created(&attachment, sending),
    }
}

/// The texts that were stored as sent.
fn stored(entry: &Entry<'_>, attachment: &Object<'_>, rendered: Json<'_>) -> Vec<Sent> {
    let is_system = entry.get("renderedRole").is_some_and(|role| role.is("system"));
    let is_queued = attachment.get("type").is_some_and(|name| name.is("queued_command"));
    let system = if is_system && !is_queued { System::Yes } else { System::No };
    let is_beside = entry.flag("renderedBesideToolResult") || (is_system && is_queued);
    let mut found = Vec::new();
    for one in rendered.elements() {
        for block in one.get("content").into_iter().flat_map(blocks) {
            let text = block.text().unwrap_or_default();
            let text = if is_system && is_queued { untagged(&text).into() } else { text };
            found.push(Sent { text: text.into_owned(), system, is_beside, ..Sent::default() });
        }
    }
    found
}

/// Whether a text is a reminder.
pub(super) fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with(REMINDER)
}

/// The text of a reminder, without its tags.
pub(super) fn untagged(text: &str) -> &str {
    let inner = text.trim().strip_prefix(REMINDER);
    inner.and_then(|inner| inner.strip_suffix(END)).map_or(text, str::trim)
}

pub(super) fn reminder(text: &str) -> String {
    format!("{REMINDER}\n{text}\n{END}")
}

/// What a client creates for the types that it knows.
fn created(attachment: &Object<'_>, sending: Sending) -> Vec<Sent> {
    let kind = attachment.text("type").unwrap_or_default();
    let (parts, known, is_dropped) = kinds::parts(&kind, attachment, sending.known);
    let has_image = parts.iter().any(|part| matches!(part, kinds::Part::Image(_)));
    let system = match (is_dropped, has_image) {
        (true, _) => System::Dropped,
        // Images cannot go into a message of the role `system`, so their texts do not either.
        (false, true) => System::No,
        (false, false) => System::Yes,
    };
    // What a user typed stays together with the images in it.
    let is_beside = has_image && kind == "queued_command";
    let one = |part| match part {
        kinds::Part::Text(text) => {
            let text = reminder(&format!("{kind}\n{text}"));
            Sent { text, system, is_beside, image: None, kind: known }
        }
        kinds::Part::Image(block) => {
            Sent { image: Some(block), is_beside: true, ..Sent::default() }
        }
    };
    parts.into_iter().map(one).collect()
}
