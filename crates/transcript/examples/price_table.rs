//! Compares predictions of what requests cost with what sessions have recorded.
//!
//! `cargo run --release -p transcript --example price_table -- FOLDER…`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use transcript::Conversation;
use transcript::client::context::{Prediction, predictions};
use transcript::client::history::Rules;
use transcript::conversation::place::{is_agent, transcripts_under};

/// A cache that lived for five minutes is clearly gone after this many times as long.
const CLEARLY: f64 = 1.2;

/// Calls of one cause.
struct Row {
    name: &'static str,
    calls: Vec<Prediction>,
}

/// What is known before a call.
const ROWS: [&str; 5] = [
    "within the lifetime",
    "clearly after the lifetime",
    "about at the end of the lifetime",
    "after another model",
    "a record has no time",
];

#[allow(clippy::cast_precision_loss, reason = "times are shorter")]
fn row(one: &Prediction) -> usize {
    let Some(gap) = one.gap else { return 4 };
    match gap as f64 / one.lifetime.millis() as f64 {
        _ if one.is_other_model => 3,
        ..=1.0 => 0,
        CLEARLY.. => 1,
        _ => 2,
    }
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

/// By how much predicted numbers miss the recorded ones, as shares of these, sorted.
#[allow(clippy::cast_precision_loss, reason = "tokens are fewer")]
fn errors(pairs: impl Iterator<Item = [u64; 2]>) -> Vec<f64> {
    let share = |[predicted, recorded]: [u64; 2]| {
        predicted.abs_diff(recorded) as f64 / recorded.max(1) as f64
    };
    let mut errors: Vec<f64> = pairs.map(share).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// Writes the table, in Markdown.
pub(crate) fn run(folders: &[&Path], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut rows = ROWS.map(|name| Row { name, calls: Vec::new() });
    let mut all: Vec<Prediction> = Vec::new();
    let mut sessions = 0;
    for folder in folders {
        for path in transcripts_under(folder)?.into_iter().filter(|path| !is_agent(path)) {
            let found = predictions(&Conversation::open(&path)?, Rules::newest())?;
            sessions += usize::from(!found.is_empty());
            all.extend(found);
        }
    }
    for one in &all {
        rows[row(one)].calls.push(one.clone());
    }
    writeln!(out, "{} calls that follow another, in {sessions} sessions:\n", all.len())?;
    writeln!(out, "| | calls | cached or not: right | error of new tokens: median | 90 % |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    let mut line = |name: &str, calls: &[&Prediction]| {
        let right = calls.iter().filter(|one| one.is_cached == one.was_cached()).count();
        let errors = errors(calls.iter().map(|one| [one.new, one.was_new()]));
        let share = match calls.len() {
            0 => "–".to_owned(),
            #[allow(clippy::cast_precision_loss, reason = "few calls")]
            all => format!("{:.1} %", right as f64 * 100.0 / all as f64),
        };
        let (median, most) = (percentile(&errors, 0.5), percentile(&errors, 0.9));
        writeln!(out, "| {name} | {} | {share} | {median} | {most} |", calls.len())
    };
    for row in &rows {
        line(row.name, &row.calls.iter().collect::<Vec<_>>())?;
    }
    let is_smaller = |one: &&Prediction| one.recorded.read() < one.before;
    line("of all: the request became smaller", &all.iter().filter(is_smaller).collect::<Vec<_>>())?;
    let judged = |one: &&Prediction| matches!(row(one), 0 | 1);
    line("**within or clearly after**", &all.iter().filter(judged).collect::<Vec<_>>())?;
    line("**all**", &all.iter().collect::<Vec<_>>())?;
    let is_final = |is: bool| all.iter().filter(move |one| one.is_final == is);
    line("the output before is recorded in full", &is_final(true).collect::<Vec<_>>())?;
    line("the output before is a lower bound", &is_final(false).collect::<Vec<_>>())?;
    let judged: Vec<&Prediction> = all.iter().filter(judged).collect();
    let cached = judged.iter().filter(|one| one.was_cached()).count();
    #[allow(clippy::cast_precision_loss, reason = "few calls")]
    let share = cached as f64 * 100.0 / judged.len().max(1) as f64;
    writeln!(out, "\nWho always says \"cached\" is right for {share:.1} % of the calls within or")?;
    writeln!(out, "clearly after the lifetime.")?;
    let whole = errors(all.iter().map(|one| [one.tokens, one.recorded.read()]));
    let [median, most] = [0.5, 0.95].map(|share| percentile(&whole, share));
    writeln!(out, "\nThe size of the whole request: off by {median} at the median, {most} at the")?;
    writeln!(out, "95th percentile.")?;
    Ok(())
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let folders: Vec<&Path> = folders.iter().map(Path::new).collect();
    run(&folders, &mut std::io::stdout())
}
