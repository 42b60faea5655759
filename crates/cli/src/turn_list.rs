//! Turns on the command line: `3`, `3-7`, `3..7`, `5-`, `-3`, and lists of these.
//!
//! Invariant: what is parsed names at least one number, and no number is 0.

use std::str::FromStr;

use crate::failure::Failure;

/// Turns by their numbers, as `quipu turns` counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnList(Vec<(usize, Option<usize>)>);

impl FromStr for TurnList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        parts.map(range).collect::<Result<Vec<_>, _>>().map(TurnList)
    }
}

/// The first and the last turn of a range; without a last one it is open.
fn range(text: &str) -> Result<(usize, Option<usize>), String> {
    let number = |part: &str| {
        let number = part.trim().parse::<usize>();
        match number
            .map_err(|_| format!("`{part}` is not a number: a turn, or a range like 3-7"))?
        {
            0 => Err("turns are counted from 1".to_owned()),
            number => Ok(number),
        }
    };
    let parts = text.split_once("..").or_else(|| text.split_once('-'));
    let Some((first, last)) = parts else {
        let number = number(text)?;
        return Ok((number, Some(number)));
    };
    let last = last.trim_start_matches('=');
    let (first, last) = match (first.trim(), last.trim()) {
        ("", "") => return Err(format!("`{text}` is not a range")),
        ("", last) => (1, Some(number(last)?)),
        (first, "") => (number(first)?, None),
        (first, last) => (number(first)?, Some(number(last)?)),
    };
    match last {
        Some(last) if first > last => Err(format!("{first} comes after {last}")),
        last => Ok((first, last)),
    }
}

impl TurnList {
    /// For each of so many turns, whether it is in the list. Every number must be there.
    pub(crate) fn among(&self, count: usize) -> Result<Vec<bool>, Failure> {
        let mut chosen = vec![false; count];
        for (first, last) in &self.0 {
            let end = last.unwrap_or(count);
            if *first > count || end > count {
                let wanted = if *first > count { *first } else { end };
                let turns = if count == 1 { "turn" } else { "turns" };
                return Err(Failure::not_found(
                    format!("there is no turn {wanted}: there are {count} {turns}"),
                    "`quipu turns` lists the turns",
                ));
            }
            chosen[first - 1..end].fill(true);
        }
        Ok(chosen)
    }
}

#[cfg(test)]
#[path = "turn_list_tests.rs"]
mod tests;
