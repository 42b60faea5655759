//! What a turn is about, on one line.

use transcript::conversation::Conversation;
use transcript::conversation::turn::Turn;
use transcript::conversation::view;

use crate::failure::Failure;
use crate::text::one_line;

/// The words that opened the turn; in parentheses, what stands in for them.
pub(crate) fn headline(conversation: &Conversation, turn: &Turn) -> Result<String, Failure> {
    let text = view::headline(conversation, turn);
    Ok(one_line(&text?))
}
