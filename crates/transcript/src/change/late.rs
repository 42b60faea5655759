//! What stays at the end of a conversation that is stripped.
//!
//! Invariant: of two [`Keep::Seen`], the one with fewer turns and fewer answers keeps nothing that the other does not.

use hashbrown::HashSet;

use crate::conversation::Conversation;
use crate::table::RowId;

/// What stays at the end of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of the last turns: so many.
    Turns(usize),
    /// What the model sees of the last turns: so many. A turn can be hundreds of answers long, so of calls, results and
    /// images no more stays than the last answers have, so many. Thinking stays by whole turns: the API takes it only
    /// as it was given.
    Seen {
        /// Turns.
        turns: usize,
        /// Answers.
        answers: usize,
    },
}

impl Default for Keep {
    fn default() -> Self {
        Keep::Turns(0)
    }
}

/// Which rows stand at the end of the live conversation, of which something stays.
pub(super) struct Late {
    /// Of these, calls, results and images.
    pub(super) blocks: Vec<bool>,
    /// Of these, thinking.
    pub(super) thinking: Vec<bool>,
    /// Of these, what no model sees.
    pub(super) unseen: Vec<bool>,
}

impl Late {
    pub(super) fn new(conversation: &Conversation, keep: Keep) -> Late {
        let none = vec![false; conversation.table.rows().len()];
        let (turns, answers) = match keep {
            Keep::Turns(turns) => (turns, None),
            Keep::Seen { turns, answers } => (turns, Some(answers)),
        };
        if turns == 0 {
            return Late { blocks: none.clone(), thinking: none.clone(), unseen: none };
        }
        let live = conversation.live();
        let order: Vec<RowId> = conversation.rows(&live).collect();
        let from = |start: usize| {
            let mut late = none.clone();
            for row in &order[start..] {
                late[row.index()] = true;
            }
            late
        };
        let found = conversation.turns_in(&live);
        let first = found.len().checked_sub(turns).map(|first| found[first].rows[0]);
        let start = first.and_then(|first| order.iter().position(|row| *row == first)).unwrap_or(0);
        let Some(answers) = answers else {
            return Late { blocks: from(start), thinking: from(start), unseen: from(start) };
        };
        // Where each answer begins.
        let mut known = HashSet::new();
        let is_first =
            |row: &RowId| conversation.table.row(*row).answer.is_some_and(|id| known.insert(id));
        let begin: Vec<bool> = order.iter().map(is_first).collect();
        let mut begin = begin.iter().enumerate().rev().filter(|(_, begins)| **begins);
        let last = answers
            .checked_sub(1)
            .map_or(Some(order.len()), |back| begin.nth(back).map(|(place, _)| place));
        let blocks = from(start.max(last.unwrap_or(0)));
        Late { blocks, thinking: from(start), unseen: none }
    }
}
