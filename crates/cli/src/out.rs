//! The two ways out: data to stdout, everything else to stderr.
//!
//! All output of commands goes through here. Colours are only ever added to what says the same without.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anstyle::Style;

use crate::args::Color;
use crate::text::printable;

#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<StdoutLock<'static>>,
    color: bool,
    /// How many columns there are; nothing if it is no terminal.
    pub(crate) width: Option<usize>,
}

impl Out {
    pub(crate) fn new(color: Color) -> Self {
        let terminal = io::stdout().is_terminal();
        let color = match color {
            Color::Auto => terminal,
            Color::Always => true,
            Color::Never => false,
        };
        let width = terminal
            .then(|| terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)));
        Out { stdout: BufWriter::with_capacity(1 << 16, io::stdout().lock()), color, width }
    }

    /// The text in that style, if colours are on.
    pub(crate) fn style(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Writes one JSON value as a line.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Says something that is not data.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        // What was written before it should be seen before it.
        self.stdout.flush()?;
        // A closed stderr is no reason to stop.
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const WARN: Style = anstyle::AnsiColor::Yellow.on_default();
