//! The output: data to stdout, everything else to stderr.
//!
//! All output of commands goes through here. Colours are only added to text that says the same
//! without them. Text from a file goes through `text::printable`, as JSON through [`harmless`], or
//! unchanged through [`Verbatim`].

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use ::console::text::Style;
pub(crate) use ::console::text::look::{BAD, BOLD, DIM, GOOD, WARN};

use crate::global::Color;
use crate::pager::{Choice, Pager};
use crate::text::{is_harmful, printable, visible};

/// The version of all JSON output. It changes when a field changes its meaning or is removed; new
/// fields may be added at any time.
pub(crate) const JSON_VERSION: u32 = 1;

#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<Sink>,
    is_terminal: bool,
    color: bool,
    /// How many columns there are; `None` if the width is unknown because this is not a terminal.
    pub(crate) width: Option<usize>,
}

/// Where data goes.
#[derive(Debug)]
enum Sink {
    Stdout(StdoutLock<'static>),
    Pager(Pager),
    #[cfg(test)]
    Memory(Vec<u8>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::Pager(pager) => pager.write(bytes),
            #[cfg(test)]
            Sink::Memory(memory) => memory.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::Pager(pager) => pager.flush(),
            #[cfg(test)]
            Sink::Memory(memory) => memory.flush(),
        }
    }
}

impl Out {
    /// `columns` is the width that the user sets for output that is not a terminal.
    pub(crate) fn new(color: Color, columns: Option<usize>) -> Self {
        let terminal = io::stdout().is_terminal();
        let color = match color {
            Color::Auto => terminal,
            Color::Always => true,
            Color::Never => false,
        };
        let width = terminal
            .then(|| terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)));
        let stdout = BufWriter::with_capacity(1 << 16, Sink::Stdout(io::stdout().lock()));
        Out { stdout, is_terminal: terminal, color, width: width.or(columns) }
    }

    #[cfg(test)]
    pub(crate) fn to_memory(columns: usize) -> Self {
        let stdout = BufWriter::new(Sink::Memory(Vec::new()));
        Out { stdout, is_terminal: false, color: false, width: Some(columns) }
    }

    #[cfg(test)]
    pub(crate) fn into_text(mut self) -> String {
        self.stdout.flush().unwrap_or_default();
        match self.stdout.get_mut() {
            Sink::Memory(memory) => String::from_utf8_lossy(memory).into_owned(),
            Sink::Stdout(_) | Sink::Pager(_) => String::new(),
        }
    }

    /// Sends all further output through a pager, if it goes to a terminal.
    pub(crate) fn page(&mut self, choice: &Choice) -> io::Result<()> {
        self.stdout.flush()?;
        if self.is_terminal
            && let Some(pager) = Pager::start(choice)
        {
            self.stdout = BufWriter::with_capacity(1 << 16, Sink::Pager(pager));
        }
        Ok(())
    }

    /// Writes what is buffered, and waits for the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        if let Sink::Pager(pager) = self.stdout.get_mut() {
            pager.finish()?;
        }
        flushed
    }

    /// A writer for the contents of a file.
    pub(crate) fn verbatim(&mut self, form: Form) -> Verbatim<'_> {
        Verbatim { out: self, form, held: Vec::new() }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn has_color(&self) -> bool {
        self.color
    }

    /// The text in that style, if colours are on.
    pub(crate) fn style(&self, style: Style, text: &str) -> String {
        if self.color { ::console::text::styled(style, text) } else { text.to_owned() }
    }

    /// Writes one JSON value as a line.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        write_json(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Asks a question; only `y` and `yes` count as yes. `None` if there is no terminal to ask on.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<Option<bool>> {
        let stdin = io::stdin();
        if !self.is_terminal || !stdin.is_terminal() {
            return Ok(None);
        }
        write!(self.stdout, "{question} [y/N] ")?;
        self.stdout.flush()?;
        let mut answer = String::new();
        stdin.read_line(&mut answer)?;
        Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Prints something that is not data, on stderr.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        // Earlier output must appear before it.
        self.stdout.flush()?;
        // A closed stderr is not a reason to stop.
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
        Ok(())
    }
}

/// Writes a value as JSON in which no character can harm a terminal: plain JSON allows some that
/// do.
pub(crate) fn write_json(out: impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Harmless))?;
    Ok(())
}

/// Writes an object without its end, so that more members can follow.
pub(crate) fn open_object(out: &mut impl Write, head: &impl serde::Serialize) -> io::Result<()> {
    let mut text = Vec::new();
    write_json(&mut text, head)?;
    text.pop();
    out.write_all(&text)
}

struct Harmless;

impl serde_json::ser::Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        harmless(out, text)
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, out: &mut W, json: &str) -> io::Result<()> {
        // Outside its strings, JSON contains none of these.
        harmless(out, json)
    }
}

/// Writes JSON text with harmful characters escaped; its meaning stays the same.
pub(crate) fn harmless<W: ?Sized + Write>(out: &mut W, text: &str) -> io::Result<()> {
    let mut rest = text;
    while let Some((at, c)) = next_harmful(rest) {
        out.write_all(&rest.as_bytes()[..at])?;
        if c == '\r' {
            // It can only be between values, where a space means the same.
            out.write_all(b" ")?;
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

/// The next harmful character, and its place. Newlines and tabs are not harmful in JSON.
fn next_harmful(text: &str) -> Option<(usize, char)> {
    let is_odd = |byte: &u8| !matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let mut at = 0;
    loop {
        at += text.as_bytes()[at..].iter().position(is_odd)?;
        let c = text[at..].chars().next()?;
        if is_harmful(c) {
            return Some((at, c));
        }
        at += c.len_utf8();
    }
}

/// Passes on the contents of a file. To a file or a program: unchanged, or with bytes that are not
/// UTF-8 replaced. To a terminal: also with harmful characters escaped as in JSON. A character that
/// is split between two writes stays whole.
#[derive(Debug)]
pub(crate) struct Verbatim<'a> {
    out: &'a mut Out,
    form: Form,
    /// The start of a character whose rest is still to come.
    held: Vec<u8>,
}

/// What is done to the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing.
    Bytes,
    /// Bytes that are not UTF-8 are replaced.
    Text,
}

impl Verbatim<'_> {
    /// Passes on what is held back. Without this, the last character may be missing.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.held);
        self.pass(&rest)
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if self.out.is_terminal {
            harmless(&mut self.out, &text)
        } else {
            self.out.write_all(text.as_bytes())
        }
    }
}

impl Write for Verbatim<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.form == Form::Bytes && !self.out.is_terminal {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        // A character has at most four bytes: the first byte of an incomplete one is among the last
        // three.
        let cut = (1..=3.min(all.len())).find(|back| {
            let byte = all[all.len() - back];
            byte >= 0xc0 && usize::try_from(byte.leading_ones()).is_ok_and(|len| len > *back)
        });
        self.held = all.split_off(all.len() - cut.unwrap_or(0));
        self.pass(&all)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Passes JSON on, with harmful characters escaped. Callers write whole strings.
#[derive(Debug)]
pub(crate) struct HarmlessJson<'a>(pub(crate) &'a mut Out);

impl Write for HarmlessJson<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        harmless(self.0, &String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes text on, with harmful characters made visible; newlines and tabs stay.
#[derive(Debug)]
pub(crate) struct Visible<W>(pub(crate) W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Callers write whole texts; bytes that are not UTF-8 are a character that was cut in two.
        let end = match std::str::from_utf8(bytes) {
            Err(error) if error.valid_up_to() > 0 => error.valid_up_to(),
            Ok(_) | Err(_) => bytes.len(),
        };
        let text = String::from_utf8_lossy(&bytes[..end]);
        let keep = |c: char| c == '\n' || c == '\t';
        let safe: String = text.chars().map(|c| if keep(c) { c } else { visible(c) }).collect();
        self.0.write_all(safe.as_bytes())?;
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
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
