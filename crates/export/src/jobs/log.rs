//! The log of hooks, in a file: their output is not visible anywhere.
//!
//! Invariants: it does not grow beyond twice [`MOST`], whatever is written; what is written is one
//! line, if the program's `printable` leaves no newline; a failure to write it is not a failure of
//! the hook.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;

const MOST: u64 = 1 << 20;
/// The maximum length of a line, in bytes; other people may choose the names in it.
const LONGEST_LINE: usize = 1 << 10;

/// The log of hooks.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
    printable: fn(&str) -> String,
}

impl Log {
    /// The log in the folder with the state of receivers. `printable` makes a text one line that a
    /// terminal shows and does not obey.
    pub fn at(folder: &Path, printable: fn(&str) -> String) -> Log {
        Log { path: folder.join("log"), printable }
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a line. If this fails, the line is missing from the log.
    pub fn write(&self, now: SystemTime, text: &str) {
        let _ = self.add(now, text);
    }

    fn add(&self, now: SystemTime, text: &str) -> io::Result<()> {
        let path = &self.path;
        if fs::metadata(path).is_ok_and(|found| found.len() > MOST - LONGEST_LINE as u64) {
            fs::rename(path, path.with_extension("old"))?;
        }
        let now = Timestamp::try_from(now).unwrap_or_default();
        let mut line = format!("{} ", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
        let room = LONGEST_LINE - line.len() - "…\n".len();
        let cut =
            |text: &str| (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let end = cut(text).unwrap_or_default();
        // Visible replacements take more bytes than the characters that they replace.
        let shown = (self.printable)(&text[..end]);
        let shown_end = cut(&shown).unwrap_or_default();
        line.push_str(&shown[..shown_end]);
        if end < text.len() || shown_end < shown.len() {
            line.push('…');
        }
        line.push('\n');
        // One write, so that lines of two processes do not mix.
        files::append_private(path)?.write_all(line.as_bytes())
    }

    /// The last lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let text = files::read_text(&self.path, 4 * MOST).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().rev().take(count).map(str::to_owned).collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
