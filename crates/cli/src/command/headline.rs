//! What a turn is about, in a line.

use transcript::conversation::Conversation;
use transcript::input::{Input, typed};
use transcript::turn::{Piece, Step, Turn, What};

use crate::failure::Failure;
use crate::text::one_line;

/// How much of a prompt is looked at: no terminal is wider.
const LONGEST: usize = 1_000;

/// What was asked, on one line; in brackets, what stands in for it.
pub(super) fn of(conversation: &Conversation, turn: &Turn) -> Result<String, Failure> {
    let rows = turn.steps.iter().filter_map(|step| match step {
        Step::Said(row) => Some(*row),
        _ => None,
    });
    let opening = |input: Option<Input>| input == turn.input || input.is_none_or(Input::opens);
    let mut rows = rows.filter(|row| opening(conversation.table.row(*row).input));
    let Some(row) = rows.next() else { return Ok("(goes on)".to_owned()) };
    if turn.input == Some(Input::Summary) {
        return Ok("(goes on after a compaction)".to_owned());
    }
    let pieces = conversation
        .pieces_of(row)
        .map_err(|error| Failure::unreadable(&conversation.path, error))?;
    Ok(words(&pieces).unwrap_or_else(|| "(no text)".to_owned()))
}

/// The words of a record, on one line.
pub(super) fn words(pieces: &[Piece]) -> Option<String> {
    let texts = pieces.iter().filter_map(|piece| match &piece.what {
        What::Text(text) => Some(text.as_str().into()),
        _ => None,
    });
    let start: String = typed(texts)?.chars().take(LONGEST).collect();
    Some(one_line(&start)).filter(|text| !text.is_empty())
}
