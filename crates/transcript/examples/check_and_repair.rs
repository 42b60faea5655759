//! Checks whether a session resumes, and writes a repaired copy if it does not resume fully.
//!
//! `cargo run -p transcript --example check_and_repair -- SESSION.jsonl REPAIRED.jsonl`

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use transcript::client::change::{self, Subject};
use transcript::client::check::Verdict;
use transcript::client::history::Rules;
use transcript::{Session, check};

/// Reports what is wrong with a session, by the rules of the newest client, and repairs a copy.
pub(crate) fn run(path: &Path, copy: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let rules = Rules::newest();
    let report = check(&Session::at(path)?, rules, None)?;
    writeln!(out, "{}", report.verdict.words())?;
    for finding in &report.findings {
        writeln!(out, "  {}: {}", finding.code, finding.text)?;
    }
    if report.verdict == Verdict::Full {
        return Ok(());
    }
    let subject = Subject::open(path, rules)?;
    let repaired = change::repair(&subject, rules, &mut tempfile::tempfile)?;
    // What was planned is written, read again and judged: nothing is believed.
    let source = repaired.source.as_ref().unwrap_or(&subject);
    let mut file = BufWriter::new(File::create_new(copy)?);
    change::write(source, &repaired.change, None, &mut file)?;
    file.flush()?;
    let after = check(&Session::at(copy)?, rules, None)?;
    writeln!(out, "repaired: {}", after.verdict.words())?;
    Ok(())
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(copy)) = (args.next(), args.next()) else {
        return Err("usage: check_and_repair SESSION.jsonl REPAIRED.jsonl".into());
    };
    run(Path::new(&path), Path::new(&copy), &mut std::io::stdout())
}
