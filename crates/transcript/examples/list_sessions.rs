//! Lists the sessions in a Claude home, newest first.
//!
//! `cargo run -p transcript --example list_sessions -- ~/.claude`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use transcript::conversation::place::Home;
use transcript::conversation::preview::preview;

/// Writes a line per session: its id, its size, and its title or first prompt.
pub(crate) fn run(home: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut sessions = Home::open(home)?.sessions();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    for session in sessions {
        // Reads the ends of the file only, however long it is.
        let preview = preview(&session.path)?;
        let title = preview.title.or(preview.prompt).unwrap_or_default();
        writeln!(out, "{}  {:>9}  {title}", session.id, session.size)?;
    }
    Ok(())
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let home = std::env::args().nth(1).ok_or("usage: list_sessions HOME")?;
    run(Path::new(&home), &mut std::io::stdout())
}
