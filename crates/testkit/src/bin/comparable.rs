//! For `./observe`: reads one request per line, writes it in the form in which it is compared.
//!
//! A line is `{"file": PATH, "cut": BYTES or null, "messages": [...]}`; the answer is
//! `{"messages": [...], "applied": {NAME: COUNT}}`. The last line, after the end of the input, is
//! the table of patterns: `{"patterns": {NAME: WHY}}`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a tool for developers")]

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use testkit::comparable::{Applied, SessionTexts, comparable, fresh, whole_characters};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let job: Value = serde_json::from_str(&whole_characters(&line?))?;
        let mut file = std::fs::read(job["file"].as_str().ok_or("no file")?)?;
        let cut = job["cut"].as_u64().and_then(|cut| usize::try_from(cut).ok());
        file.truncate(cut.unwrap_or(usize::MAX));
        let mut applied = Applied::default();
        let messages = job["messages"].as_array().ok_or("no messages")?;
        let messages = comparable(messages, &SessionTexts::read(&file), &mut applied);
        let applied: serde_json::Map<_, _> =
            applied.counts().map(|(name, count)| (name.to_owned(), count.into())).collect();
        writeln!(out, "{}", json!({"messages": messages, "applied": applied}))?;
    }
    let patterns = fresh::PATTERNS.iter().map(|one| (one.name.to_owned(), one.why.into()));
    let effort = "a message of role system without content, which sets the effort";
    let patterns = patterns.chain([(fresh::EFFORT.to_owned(), effort.into())]);
    // Nobody may be listening any more.
    let _ = writeln!(out, "{}", json!({"patterns": patterns.collect::<serde_json::Map<_, _>>()}));
    Ok(())
}
