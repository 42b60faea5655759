//! Compares estimates of tokens with recorded usage that was held back.
//!
//! `cargo run --release -p transcript --example token_table -- FOLDER…`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use transcript::Conversation;
use transcript::client::context::{Prediction, predictions};
use transcript::client::history::Rules;
use transcript::conversation::place::{is_agent, transcripts_under};

/// How many calls one after the other are added up.
const CALLS: usize = 10;
/// Sessions with fewer calls have no second half to speak of.
const FEWEST: usize = 8;

/// How many tokens were added, estimated and recorded.
fn growth(calls: &[Prediction]) -> [u64; 2] {
    let sum = |of: fn(&Prediction) -> u64| calls.iter().map(of).sum::<u64>();
    [
        sum(|one| one.tokens.saturating_sub(one.before)),
        sum(|one| one.recorded.read().saturating_sub(one.before)),
    ]
}

/// The number below which that share of the errors is, in percent; errors are sorted.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index"
)]
fn percentile(errors: &[f64], share: f64) -> String {
    let at = (errors.len() as f64 * share) as usize;
    let error = errors.get(at.min(errors.len().saturating_sub(1)));
    error.map_or("–".to_owned(), |error| format!("{:.1} %", error * 100.0))
}

#[allow(clippy::cast_precision_loss, reason = "tokens are fewer")]
fn errors(pairs: &[[u64; 2]]) -> Vec<f64> {
    let share = |[estimated, recorded]: &[u64; 2]| {
        estimated.abs_diff(*recorded) as f64 / (*recorded).max(1) as f64
    };
    let mut errors: Vec<f64> = pairs.iter().map(share).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// Writes the table, in Markdown.
pub(crate) fn run(folders: &[&Path], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let [mut whole, mut all, mut halves, mut tens] = [const { Vec::new() }; 4];
    let mut damaged = 0;
    for folder in folders {
        for path in transcripts_under(folder)?.into_iter().filter(|path| !is_agent(path)) {
            let conversation = Conversation::open(&path)?;
            // What stood on such a line was sent, and is not in the file.
            if conversation.table.damaged > 0 {
                damaged += 1;
                continue;
            }
            let mut calls = predictions(&conversation, Rules::newest())?;
            // What became smaller lost something that the file does not show.
            calls.retain(|one| !one.is_other_model && one.recorded.read() > one.before);
            whole.extend(calls.iter().map(|one| [one.tokens, one.recorded.read()]));
            if calls.len() >= FEWEST {
                all.push(growth(&calls));
                halves.push(growth(&calls[calls.len() / 2..]));
            }
            tens.extend(calls.chunks_exact(CALLS).skip(1).map(growth));
        }
    }
    writeln!(out, "| | how many | error: median | 95 % |")?;
    writeln!(out, "|---|---|---|---|")?;
    let mut line = |name: &str, pairs: &[[u64; 2]]| {
        let errors = errors(pairs);
        let (median, most) = (percentile(&errors, 0.5), percentile(&errors, 0.95));
        writeln!(out, "| {name} | {} | {median} | {most} |", pairs.len())
    };
    line("the whole request, at each call", &whole)?;
    line("what a session added after its first call", &all)?;
    line("what the second half of a session added", &halves)?;
    line("what ten calls one after the other added", &tens)?;
    writeln!(out, "\nNot among them: {damaged} sessions with damaged lines.")?;
    Ok(())
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let folders: Vec<&Path> = folders.iter().map(Path::new).collect();
    run(&folders, &mut std::io::stdout())
}
