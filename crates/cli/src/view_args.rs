//! Which turns of a conversation are shown, and how much of them.

use std::ops::RangeInclusive;

use clap::value_parser;
use transcript::conversation::view::{Detail, Show, Thinking};

use crate::failure::Failure;
use crate::range::range;
use crate::text::count;

/// The options of `show` and `export md`.
#[derive(clap::Args, Debug)]
pub(crate) struct ViewArgs {
    /// Show only this turn, or these: `3`, `3..5`, `3..`
    #[arg(long, value_name = "N", value_parser = range)]
    turn: Option<RangeInclusive<u64>>,
    /// Show only the last N turns
    #[arg(long, value_name = "N", conflicts_with = "turn", value_parser = value_parser!(u64).range(1..))]
    last: Option<u64>,
    /// Show everything: inputs and results of calls, whole diffs, reminders, what sub-agents did
    #[arg(long)]
    full: bool,
    /// Show the model's thinking
    #[arg(long)]
    thinking: bool,
}

impl ViewArgs {
    /// How much to show.
    pub(crate) fn show(&self) -> Show {
        Show {
            detail: if self.full { Detail::Full } else { Detail::Folded },
            thinking: if self.thinking { Thinking::Shown } else { Thinking::Hidden },
        }
    }

    /// Fails if the user asked for a turn after the last one. `longest` is the number of turns of
    /// the longest branch.
    pub(crate) fn check(&self, longest: usize) -> Result<(), Failure> {
        match &self.turn {
            Some(turn) if *turn.start() > longest as u64 => {
                let message = format!("there is no turn {}", turn.start());
                let hint = format!("the conversation has {}", count(longest as u64, "turn"));
                Err(Failure::usage(message, Some(&hint)))
            }
            _ => Ok(()),
        }
    }

    /// Whether to show the turn of that number, of a branch that has so many.
    pub(crate) fn has(&self, number: usize, all: usize) -> bool {
        let is_last = self.last.is_none_or(|last| ((all - number) as u64) < last);
        is_last && self.turn.as_ref().is_none_or(|turn| turn.contains(&(number as u64)))
    }
}
