//! How many tokens a strip saves, without carrying it out.
//!
//! Invariant: by the same count as the proof of the strip, apart from what the client joins or
//! makes up differently afterwards.

use super::edit::BlockEdit;
use super::{Change, Strip, Subject, strip};
use crate::client::context::{Context, ContextPart, PartKind};

/// How many tokens less would be sent after a strip.
pub fn saving(subject: &Subject, context: &Context, what: &Strip) -> crate::Result<u64> {
    let change = strip(subject, what)?;
    let note = note_tokens(context);
    // Short results become longer: that counts too.
    let parts = context.parts.iter();
    let [gone, added] = parts
        .map(|part| replaced(subject, &change, part, note))
        .fold([0_u64; 2], |[gone, added], [less, more]| [gone + less, added + more]);
    Ok(gone.saturating_sub(added))
}

/// About how many tokens the note is that replaces a result or an image.
pub(super) fn note_tokens(context: &Context) -> u64 {
    context.of_note("[result removed: 12345 bytes]")
}

/// How many tokens of a part go, and how many a note has that replaces them.
fn replaced(subject: &Subject, change: &Change, part: &ContextPart, note: u64) -> [u64; 2] {
    let Some(block) = part.block else { return [0, 0] };
    if !change.keeps(subject.conversation(), block) {
        return [part.tokens, 0];
    }
    let table = &subject.conversation().table;
    let place = table.place(block);
    let edits = change.edits.get(&table.block(block).row);
    let mut edits = edits.into_iter().flat_map(|edit| &edit.blocks);
    let is_media = matches!(part.kind, PartKind::Image | PartKind::Document);
    match edits.find(|(at, _)| *at as usize == place) {
        // One note for a result with an image.
        Some((_, BlockEdit::Emptied)) if is_media => [part.tokens, 0],
        Some((_, BlockEdit::Emptied)) => [part.tokens, note],
        Some((_, BlockEdit::WithoutImages)) if is_media => [part.tokens, note],
        _ => [0, 0],
    }
}
