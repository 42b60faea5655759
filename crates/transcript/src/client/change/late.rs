//! What is kept at the end of a conversation that is stripped.
//!
//! Invariant: of two [`Keep::Seen`], the one with fewer turns and fewer answers keeps nothing that
//! the other does not keep.

use hashbrown::HashSet;

use super::spans::Spans;
use crate::conversation::Conversation;
use crate::conversation::table::RowId;

/// What is kept at the end of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything in this many last turns.
    Turns(usize),
    /// What the model sees of the last turns. A turn can have hundreds of answers, so calls,
    /// results and images are only kept in the last answers. Thinking is kept by whole turns,
    /// because the API accepts it only unchanged.
    Seen {
        /// How many turns.
        turns: usize,
        /// How many answers.
        answers: usize,
    },
}

impl Default for Keep {
    fn default() -> Self {
        Keep::Turns(0)
    }
}

/// The rows at the end of the live conversation that are exempt, by kind of content.
pub(super) struct Late {
    /// Rows whose calls, results and images are kept.
    pub(super) blocks: Vec<bool>,
    /// Rows whose thinking is kept.
    pub(super) thinking: Vec<bool>,
    /// Rows of which also what no model sees is kept.
    pub(super) unseen: Vec<bool>,
}

impl Late {
    /// Everything is exempt, except these turns, counted from 1.
    pub(super) fn outside(conversation: &Conversation, turns: &[usize]) -> Late {
        let spans = Spans::live(conversation);
        let is_outside =
            |(row, _): (RowId, _)| spans.owner(row).is_none_or(|turn| !turns.contains(&(turn + 1)));
        let outside: Vec<bool> = conversation.table.numbered().map(is_outside).collect();
        Late { blocks: outside.clone(), thinking: outside.clone(), unseen: outside }
    }

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
        // The row where each answer begins.
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
