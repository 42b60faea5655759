//! The terminal: finished lines that go to its scrollback, and a live area below them.
//!
//! No alternate screen, no mouse. A finished line is written once, as a logical line, and the
//! terminal wraps it; then it is the terminal's. The live area is drawn below and taken away before
//! anything is printed. Invariants:
//!
//! - No row of the live area is left in the scrollback, also if the window changes at any moment:
//!   while something happens, the terminal's cursor rests on the first cell of the live area, and
//!   terminals keep it on that cell whatever they do with lines that no longer fit. Only when
//!   nothing happens, and the caret is near the top, does it rest on the caret, where input methods
//!   look for it; elsewhere the caret is a cell in reverse.
//! - The live area is so small that it fits a window of [`NARROW`] columns and the same height, so
//!   that a terminal that breaks its rows does not push it out.
//! - A drawing is one write, between the marks of synchronised output; terminals that do not know
//!   them ignore them, and nothing depends on them.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::composer::with_caret;
use crate::text::{self, Colors, Line, look};

/// The columns of the narrowest window that the live area fits into at the same height.
pub const NARROW: usize = 40;

/// Erases everything from the start of the row on. In the first cell of the window, tmux moves what
/// it is asked to erase below into the scrollback: so the first row goes first, and the others are
/// erased from the second cell on.
const ERASE: &str = "\u{1b}[0m\u{1b}[K\u{1b}[C\u{1b}[J\r";

/// How many rows below the top of the live area the terminal's cursor may rest.
const NEAR: usize = 2;

/// The size of a window in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// What is shown below the finished lines.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The rows, each at most as wide as the window.
    pub rows: Vec<Line<'static>>,
    /// The row and column of the caret, if something can be typed.
    pub caret: Option<(usize, usize)>,
    /// The row that is there in any case, if it is not that of the caret.
    pub focus: Option<usize>,
    /// Whether nothing is drawn until a key is pressed: then the terminal's cursor may be the
    /// caret.
    pub is_still: bool,
}

/// Whether what is drawn arrives in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The terminal is asked to show a drawing when it is complete.
    On,
    /// It is not asked.
    Off,
}

/// What a terminal does with lines that become too wide for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reflow {
    /// It breaks them into several, as most do.
    Yes,
    /// It cuts them.
    No,
}

/// The terminal.
#[derive(Debug)]
pub struct Terminal<W: Write> {
    out: W,
    size: Size,
    colors: Colors,
    sync: Sync,
    reflow: Reflow,
    /// Finished lines that are not written yet.
    finished: String,
    /// The rows on the terminal, as bytes, and their widths.
    drawn: Vec<(String, usize)>,
    /// Where the terminal's cursor rests, from the first cell of the live area.
    at: (usize, usize),
    /// Whether everything is drawn anew next time.
    is_stale: bool,
}

impl<W: Write> Terminal<W> {
    /// A terminal whose cursor is at the start of an empty line.
    pub fn new(out: W, size: Size, colors: Colors) -> Terminal<W> {
        Terminal {
            out,
            size,
            colors,
            sync: Sync::On,
            reflow: Reflow::Yes,
            finished: String::new(),
            drawn: Vec::new(),
            at: (0, 0),
            is_stale: true,
        }
    }

    /// The same for a terminal of this kind.
    #[must_use]
    pub fn of_kind(self, sync: Sync, reflow: Reflow) -> Terminal<W> {
        Terminal { sync, reflow, ..self }
    }

    /// Uses other colours from now on.
    pub fn set_colors(&mut self, colors: Colors) {
        self.colors = colors;
        self.is_stale = true;
    }

    /// Where it writes to.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Adds finished lines. They are written with the next drawing.
    pub fn print(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            self.finished.push_str(&text::ansi(line, self.colors));
            self.finished.push_str("\r\n");
        }
    }

    /// The window has another size now.
    pub fn resize(&mut self, size: Size) {
        self.is_stale |= size != self.size;
        self.size = size;
    }

    /// Draws everything anew next time, whatever the terminal shows now.
    pub fn redraw(&mut self) {
        self.is_stale = true;
    }

    /// Writes the finished lines, and the live area below them.
    pub fn draw(&mut self, live: &Live) -> io::Result<()> {
        let mut live = self.bounded(live);
        let near = live.caret.filter(|(row, _)| live.is_still && *row <= NEAR);
        if let Some((row, column)) = live.caret.filter(|_| near.is_none())
            && let Some(line) = live.rows.get_mut(row)
        {
            *line = with_caret(line, column);
        }
        let rows: Vec<(String, usize)> =
            live.rows.iter().map(|row| (text::ansi(row, self.colors), text::width(row))).collect();
        let rest = near.unwrap_or((0, 0));
        let is_whole = self.is_stale || !self.finished.is_empty() || rows.len() != self.drawn.len();
        if !is_whole && rows == self.drawn && rest == self.at {
            return Ok(());
        }
        let mut out = String::new();
        self.begin(&mut out);
        if is_whole {
            out.push_str(ERASE);
            out.push_str(&self.finished);
        }
        // Rows are cut at the edge: the window may be narrower already than is known here.
        out.push_str("\u{1b}[?7l");
        if !is_whole {
            // The way down may be shorter than is known here, and the way back must not be longer.
            out.push_str("\u{1b}7");
        }
        let below = rows.len().saturating_sub(1);
        if is_whole && below > 0 {
            // Makes room, at the bottom by moving what is above into the scrollback.
            out.push_str(&"\n".repeat(below));
            up(&mut out, below);
        }
        let mut row_now = 0;
        for (number, (bytes, wide)) in rows.iter().enumerate() {
            if !is_whole && self.drawn.get(number).is_some_and(|(old, _)| old == bytes) {
                continue;
            }
            down(&mut out, number - row_now);
            row_now = number;
            out.push('\r');
            out.push_str(bytes);
            if !is_whole && *wide < usize::from(self.size.width) {
                out.push_str("\u{1b}[K");
            }
        }
        if is_whole {
            up(&mut out, row_now);
        } else {
            out.push_str("\u{1b}8");
        }
        down(&mut out, rest.0);
        out.push('\r');
        if rest.1 > 0 {
            let _ = write!(out, "\u{1b}[{}C", rest.1);
        }
        out.push_str("\u{1b}[?7h");
        if near.is_some() {
            out.push_str("\u{1b}[?25h");
        }
        self.end(&mut out);
        self.finished.clear();
        self.drawn = rows;
        self.at = rest;
        self.is_stale = false;
        self.out.write_all(out.as_bytes())?;
        self.out.flush()
    }

    /// Writes the finished lines and takes the live area away; the cursor is at the start of the
    /// line below.
    pub fn clear(&mut self) -> io::Result<()> {
        let mut out = String::new();
        self.begin(&mut out);
        out.push_str(ERASE);
        out.push_str(&self.finished);
        out.push_str("\u{1b}[?25h");
        self.end(&mut out);
        self.finished.clear();
        self.drawn.clear();
        self.at = (0, 0);
        self.is_stale = true;
        self.out.write_all(out.as_bytes())?;
        self.out.flush()
    }

    /// The bytes that take the live area away, for a moment when nothing else works any more.
    pub fn farewell(&self) -> String {
        let mut out = String::from("\r");
        up(&mut out, self.rows_above());
        out.push_str(ERASE);
        out.push_str("\u{1b}[?7h\u{1b}[?25h");
        out
    }

    fn begin(&self, out: &mut String) {
        if self.sync == Sync::On {
            out.push_str("\u{1b}[?2026h");
        }
        out.push_str("\u{1b}[?25l\r");
        up(out, self.rows_above());
    }

    /// How many rows of the live area are above the terminal's cursor now. A terminal may have
    /// broken those that no longer fit.
    fn rows_above(&self) -> usize {
        if self.reflow == Reflow::No {
            return self.at.0;
        }
        let width = usize::from(self.size.width.max(1));
        let rows = |(_, wide): &(String, usize)| wide.div_ceil(width).max(1);
        let above: usize = self.drawn.iter().take(self.at.0).map(rows).sum();
        above + self.at.1 / width
    }

    fn end(&self, out: &mut String) {
        if self.sync == Sync::On {
            out.push_str("\u{1b}[?2026l");
        }
    }

    /// As much of the live area as fits: rows around the caret first.
    fn bounded(&self, live: &Live) -> Live {
        let width = usize::from(self.size.width.max(1));
        let narrow = width.min(NARROW);
        let most = usize::from(self.size.height).saturating_sub(1).max(1);
        let rows: Vec<Line<'static>> = live.rows.iter().map(|row| text::clip(row, width)).collect();
        let need = |row: &Line<'_>| text::width(row).div_ceil(narrow).max(1);
        let anchor = live.caret.map(|(row, _)| row).or(live.focus).unwrap_or(usize::MAX);
        let anchor = anchor.min(rows.len().saturating_sub(1));
        let (mut first, mut last, mut used) = (anchor, anchor, rows.get(anchor).map_or(0, need));
        loop {
            let below = rows.get(last + 1).filter(|row| used + need(row) <= most);
            if let Some(row) = below {
                used += need(row);
                last += 1;
                continue;
            }
            let above = first.checked_sub(1).filter(|at| used + need(&rows[*at]) <= most);
            let Some(at) = above else { break };
            used += need(&rows[at]);
            first = at;
        }
        let caret =
            live.caret.map(|(row, column)| (row.saturating_sub(first), column.min(width - 1)));
        let count = rows.len();
        let mut rows = if rows.is_empty() { rows } else { rows[first..=last].to_vec() };
        // What is left out of a choice is said.
        if live.focus.is_some() {
            let more = |text: &str| text::clip(&text::line(look::DIM, text), narrow);
            if last + 1 < count && last > anchor {
                rows[last - first] = more("  ↓ more");
            }
            if first > 0 && first < anchor {
                rows[0] = more("  ↑ more");
            }
        }
        Live { rows, caret, focus: None, is_still: live.is_still }
    }
}

fn up(out: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(out, "\u{1b}[{rows}A");
    }
}

fn down(out: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(out, "\u{1b}[{rows}B");
    }
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
