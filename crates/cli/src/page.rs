//! Text with colours on lines of a given width.
//!
//! Spans, their widths and where lines are broken are the console's (`console::words`). Invariant:
//! every line fits, and text from transcripts is made printable before it gets here.

use std::io::{self, Write};

use ::console::words::chop;
pub(crate) use ::console::words::{Span, width, wrap};
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use crate::out::{DIM, Out};

/// A text in a style.
pub(crate) fn styled(style: Style, text: impl Into<String>) -> Span {
    Span::styled(text.into(), style)
}

/// A text in the usual style.
pub(crate) fn unstyled(text: impl Into<String>) -> Span {
    Span::raw(text.into())
}

/// The label of a line, in a column of labels.
pub(crate) fn label(name: &str) -> Span {
    styled(DIM, format!("  {name:<9}"))
}

/// The text before the first line of a paragraph, and before the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lead {
    pub(crate) first: Vec<Span>,
    pub(crate) rest: Vec<Span>,
}

impl Lead {
    /// The same before all lines.
    pub(crate) fn all(span: Span) -> Self {
        Lead { first: vec![span.clone()], rest: vec![span] }
    }

    /// Spaces before all lines.
    pub(crate) fn spaces(count: usize) -> Self {
        Lead::all(unstyled(" ".repeat(count)))
    }

    /// A text before the first line, and as many spaces before the others.
    pub(crate) fn hanging(span: Span) -> Self {
        let rest = vec![unstyled(" ".repeat(span.content.width()))];
        Lead { first: vec![span], rest }
    }

    /// This lead, followed by an inner one.
    pub(crate) fn then(&self, inner: &Lead) -> Self {
        let join = |one: &[Span], other: &[Span]| [one, other].concat();
        Lead { first: join(&self.first, &inner.first), rest: join(&self.rest, &inner.rest) }
    }

    /// This lead as it is before lines that are not the first.
    pub(crate) fn inside(&self) -> Self {
        Lead { first: self.rest.clone(), rest: self.rest.clone() }
    }
}

/// Writes lines.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) out: &'a mut Out,
    pub(crate) width: usize,
    /// The text before every line.
    pub(crate) margin: Lead,
}

/// The minimum width of a column of text.
const NARROWEST: usize = 20;

impl<'a> Page<'a> {
    /// A page as wide as the terminal, or 80 columns wide without one.
    pub(crate) fn new(out: &'a mut Out) -> Self {
        let width = out.width.unwrap_or(80).max(NARROWEST);
        Page { out, width, margin: Lead::default() }
    }

    /// How many columns are left after a lead.
    pub(crate) fn room(&self, lead: &Lead) -> usize {
        let used = width(&self.margin.rest) + width(&lead.rest).max(width(&lead.first));
        self.width.saturating_sub(used).max(NARROWEST)
    }

    /// Writes one line without wrapping.
    pub(crate) fn line(&mut self, spans: &[Span]) -> io::Result<()> {
        let all: Vec<&Span> = self.margin.rest.iter().chain(spans).collect();
        let mut text = String::new();
        for run in all.chunk_by(|one, other| one.style == other.style) {
            let words: String = run.iter().map(|span| span.content.as_ref()).collect();
            text.push_str(&self.out.style(run[0].style, &words));
        }
        let text = if self.out.has_color() { text } else { text.trim_end().to_owned() };
        writeln!(self.out, "{text}")
    }

    /// Writes a paragraph, wrapped.
    pub(crate) fn paragraph(&mut self, lead: &Lead, spans: &[Span]) -> io::Result<()> {
        for (number, line) in wrap(spans, self.room(lead)).into_iter().enumerate() {
            let before = if number == 0 { &lead.first } else { &lead.rest };
            self.line(&[before.as_slice(), &line].concat())?;
        }
        Ok(())
    }

    /// Writes a line that is broken where it is full, not between words: code, diffs, output.
    pub(crate) fn code(&mut self, lead: &Lead, span: &Span) -> io::Result<()> {
        let lines = chop(&span.content, 0, self.room(lead));
        for (number, line) in lines.into_iter().enumerate() {
            let before = if number == 0 { &lead.first } else { &lead.rest };
            self.line(&[before.as_slice(), &[styled(span.style, line)]].concat())?;
        }
        Ok(())
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        self.line(&[])
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
