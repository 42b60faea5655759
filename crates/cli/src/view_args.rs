//! Which turns of a conversation are shown, and how much of them.

use std::ops::RangeInclusive;

use transcript::view::{Detail, Show, Thinking};

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
    #[arg(long, value_name = "N", conflicts_with = "turn")]
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

    /// The numbers of the turns to show, of a conversation that has so many.
    pub(crate) fn turns(&self, all: usize) -> Result<RangeInclusive<usize>, Failure> {
        if let Some(last) = self.last {
            let last = usize::try_from(last).unwrap_or(usize::MAX);
            return Ok(all.saturating_sub(last) + 1..=all);
        }
        let Some(turn) = &self.turn else { return Ok(1..=all) };
        let number = |number: &u64| usize::try_from(*number).unwrap_or(usize::MAX);
        if number(turn.start()) > all {
            let message = format!("there is no turn {}", turn.start());
            let hint = format!("the conversation has {}", count(all as u64, "turn"));
            return Err(Failure::usage(message, Some(&hint)));
        }
        Ok(number(turn.start())..=number(turn.end()))
    }
}
