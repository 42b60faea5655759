//! Removes, joins, strips and rewords turns of the live conversation.
//!
//! A turn goes as a whole: its prompt, its answers, the results, and what hangs on them beside the
//! path, up to the next prompt. Compactions stay, because they are about other turns. Invariants:
//! never a call without its result, or a result without its call; what is left of the live
//! conversation stays the live one; nothing else is removed, except branches that would become
//! live, or would lose all that is before them.

mod content;
mod leftovers;

use hashbrown::HashSet;
use thiserror::Error;

pub use content::prompt_text;

use super::fork::{ForkError, main_record};
use super::spans::Spans;
use super::strip::{self, Strip};
use super::{Change, Subject};
use crate::conversation::Conversation;
use crate::conversation::table::RowId;
use crate::format::entry::Kind;

/// What happens to one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnAction {
    /// It stays.
    Keep,
    /// It goes.
    Drop,
    /// Its calls, results and thinking go.
    Strip,
    /// Its prompt is added to that of the nearest turn before it that stays, whose answers go.
    Squash,
    /// Its prompt gets another text.
    Reword(String),
}

/// What happens to the turns of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rework {
    /// One for each turn of the live conversation.
    pub turns: Vec<TurnAction>,
    /// Abandoned branches that go, each by the id of one of its records, or the start of it.
    pub branches: Vec<String>,
}

/// Why turns cannot be changed that way. Turns are counted from 1.
#[derive(Debug, Error)]
pub enum ReworkError {
    /// Nothing would be left.
    #[error("nothing would be left of the conversation")]
    Nothing,
    /// The plan is for another number of turns.
    #[error("the plan is for {planned} turns, but the live conversation has {turns}")]
    Turns {
        /// How many turns the plan has.
        planned: usize,
        /// How many turns there are.
        turns: usize,
    },
    /// There is no turn to squash into.
    #[error("turn {0} cannot be squashed: no turn is kept before it")]
    First(usize),
    /// A compaction is between two turns that are to become one.
    #[error("turn {0} cannot be squashed: a compaction is between it and the turn before it")]
    Compaction(usize),
    /// The turn does not begin with a prompt that a person typed.
    #[error("turn {0} does not begin with a typed prompt, so it cannot be reworded or squashed")]
    NoPrompt(usize),
    /// The prompt is too long to hold in memory.
    #[error("the prompt of turn {0} is too long to be reworded or squashed")]
    TooLong(usize),
    /// The new text of a prompt is blank.
    #[error("turn {0} would have an empty prompt")]
    Blank(usize),
    /// The branch is the live one.
    #[error("the record `{0}` is in the live conversation, not on an abandoned branch")]
    Live(String),
    /// There is no such branch.
    #[error(transparent)]
    Branch(#[from] ForkError),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

/// What stays of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Whole,
    Nothing,
    /// The prompt and what is attached to it.
    Prompt,
    /// What is attached to the prompt, without the prompt.
    Attached,
    /// Everything but the prompt.
    Answers,
}

/// Plans changes of turns.
pub fn rework(subject: &Subject, plan: &Rework) -> Result<Change, ReworkError> {
    let conversation = &subject.case.conversation;
    let spans = Spans::live(conversation);
    let actions = &plan.turns;
    if actions.len() != spans.len() {
        return Err(ReworkError::Turns { planned: actions.len(), turns: spans.len() });
    }
    if actions.iter().all(|action| *action == TurnAction::Drop) {
        return Err(ReworkError::Nothing);
    }
    let stripped = numbers(actions, |action| *action == TurnAction::Strip);
    let change = if stripped.is_empty() {
        Change::new(conversation)
    } else {
        let only = Some(stripped);
        let what = Strip { calls: true, thinking: true, only, ..Strip::default() };
        strip::plan(subject, &what)?
    };
    let rests = vec![Rest::Whole; actions.len()];
    let mut reworking =
        Reworking { subject, conversation, spans, change, rests, reworded: Vec::new() };
    reworking.squash(actions)?;
    reworking.reword(actions)?;
    reworking.drop(actions);
    reworking.rows()?;
    reworking.branches(&plan.branches)?;
    reworking.make_live();
    reworking.change.keep_pairs(conversation);
    reworking.asides()?;
    let mut change = reworking.change;
    if change.leaves_nothing(conversation) {
        return Err(ReworkError::Nothing);
    }
    change.relink(subject)?;
    Ok(change)
}

/// The numbers of turns, counted from 1.
fn numbers(actions: &[TurnAction], wanted: impl Fn(&TurnAction) -> bool) -> Vec<usize> {
    let numbered = (1..).zip(actions);
    numbered.filter(|(_, action)| wanted(action)).map(|(number, _)| number).collect()
}

struct Reworking<'a> {
    subject: &'a Subject,
    conversation: &'a Conversation,
    spans: Spans,
    change: Change,
    rests: Vec<Rest>,
    /// Records of prompts whose text is no longer as it was.
    reworded: Vec<RowId>,
}

impl Reworking<'_> {
    fn drop(&mut self, actions: &[TurnAction]) {
        let dropped = numbers(actions, |action| *action == TurnAction::Drop);
        for number in &dropped {
            self.rests[number - 1] = Rest::Nothing;
        }
        let (sent, _) = self.subject.sent();
        let sent: HashSet<RowId> = sent.iter().copied().collect();
        let is_sent = |number: &usize| {
            self.spans.rows(number - 1).iter().any(|row| {
                let fixed = self.conversation.table.row(*row).kind;
                sent.contains(row) && matches!(fixed, Kind::User | Kind::Assistant)
            })
        };
        let (seen, unseen): (Vec<usize>, Vec<usize>) = dropped.into_iter().partition(is_sent);
        for (list, why) in
            [(seen, ""), (unseen, ", not sent before either: a compaction replaces it")]
        {
            if let Some(turns) = named(&list) {
                self.change.did(None, None, format!("removed: {turns}{why}"));
            }
        }
    }

    /// Turns what stays of each turn into records that go.
    fn rows(&mut self) -> crate::Result<()> {
        let table = &self.conversation.table;
        let mut fixed: HashSet<RowId> = HashSet::new();
        // A compaction after everything that stays would hide it.
        let stays = self.rests.iter().rposition(|rest| *rest != Rest::Nothing).unwrap_or(0);
        for turn in 0..=stays {
            fixed.extend(self.spans.fixed(table, turn));
        }
        fixed.extend(self.opening()?);
        let prompts: Vec<Vec<RowId>> =
            (0..self.spans.len()).map(|turn| self.spans.prompt(table, turn)).collect();
        // Where the first answer of each turn is on the path.
        let answered: Vec<Option<usize>> = (0..self.spans.len())
            .map(|turn| {
                let mut rows = self.spans.rows(turn).iter();
                let first = rows.find(|row| table.row(**row).kind == Kind::Assistant);
                first.and_then(|row| self.spans.place(*row))
            })
            .collect();
        for (id, row) in table.numbered() {
            let Some(turn) = self.spans.owner(id) else { continue };
            let rest = self.rests[turn];
            if rest == Rest::Whole || fixed.contains(&id) || !is_step(row.kind) {
                continue;
            }
            let is_prompt = prompts[turn].contains(&id);
            let is_attached = row.kind == Kind::Attachment
                && self.spans.place(id).is_some()
                && answered[turn].is_none_or(|answer| self.spans.place(id) < Some(answer));
            let stays = match rest {
                Rest::Whole => true,
                Rest::Nothing => false,
                Rest::Prompt => prompts[turn].first() == Some(&id) || is_attached,
                Rest::Attached => is_attached,
                Rest::Answers => !is_prompt,
            };
            if !stays {
                self.change.drop(id);
            }
            if is_prompt {
                self.reworded.push(id);
            }
        }
        Ok(())
    }

    /// What the client attaches to the first prompt about the session as a whole.
    fn opening(&self) -> crate::Result<Vec<RowId>> {
        let table = &self.conversation.table;
        let rows = self.spans.rows(0).iter().copied();
        let rows = rows.take_while(|row| table.row(*row).kind != Kind::Assistant);
        let mut found = Vec::new();
        for row in rows.filter(|row| table.row(*row).kind == Kind::Attachment) {
            let is_opening = self.conversation.look(row, |entry| {
                let kind = entry.get("attachment").and_then(|attachment| attachment.get("type"));
                kind.is_some_and(|kind| OPENING.iter().any(|known| kind.is(known)))
            })?;
            found.extend(is_opening.then_some(row));
        }
        Ok(found)
    }

    /// Marks abandoned branches: each from where it parts from the live conversation.
    fn branches(&mut self, names: &[String]) -> Result<(), ReworkError> {
        let graph = &self.conversation.graph;
        for name in names {
            let mut top = main_record(self.conversation, name)?;
            if self.spans.place(top).is_some() {
                return Err(ReworkError::Live(name.clone()));
            }
            while let Some(above) =
                graph.link(top).parent().filter(|above| self.spans.place(*above).is_none())
            {
                top = above;
            }
            let gone = self.take_below(top);
            let messages = if gone == 1 { "message" } else { "messages" };
            let text = format!("removed: an abandoned branch of {gone} {messages}");
            self.change.did(None, None, text);
        }
        Ok(())
    }

    /// Marks a record beside the path and everything below it; returns how many messages that are.
    fn take_below(&mut self, top: RowId) -> usize {
        let table = &self.conversation.table;
        let mut is_below = vec![false; table.rows().len()];
        let mut gone = 0;
        for row in self.conversation.graph.order() {
            let link = self.conversation.graph.link(*row);
            let above = link.parent().is_some_and(|above| is_below[above.index()]);
            let known = table.row(*row);
            if (*row != top && !above) || self.spans.place(*row).is_some() {
                continue;
            }
            is_below[row.index()] = true;
            if is_step(known.kind) && !self.change.goes(*row) {
                self.change.drop(*row);
                gone += usize::from(matches!(known.kind, Kind::User | Kind::Assistant));
            }
        }
        gone
    }
}

/// The attachments that are about the session as a whole.
const OPENING: [&str; 10] = [
    "agent_listing_delta",
    "auto_mode",
    "date",
    "deferred_tools_delta",
    "environment",
    "instructions",
    "mcp_instructions_delta",
    "model",
    "session_context",
    "skill_listing",
];

/// Whether records of that kind are part of the conversation.
pub(super) fn is_step(kind: Kind) -> bool {
    matches!(kind, Kind::User | Kind::Assistant | Kind::Attachment | Kind::System | Kind::Progress)
}

/// Turns by their numbers, in ranges; `None` if there are none.
pub(super) fn named(numbers: &[usize]) -> Option<String> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == *number => *last = *number,
            _ => ranges.push([*number, *number]),
        }
    }
    let list: Vec<String> = ranges
        .iter()
        .map(
            |[first, last]| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    match numbers.len() {
        0 => None,
        1 => Some(format!("turn {}", list[0])),
        _ => Some(format!("turns {}", list.join(", "))),
    }
}
