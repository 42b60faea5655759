//! Text with colours on lines of a given width.
//!
//! Words are wrapped at spaces, and text without spaces (Chinese, Japanese) between wide
//! characters; a word that is wider than a line is broken between grapheme clusters. Widths are
//! those of a terminal. Invariant: every line fits, and text from transcripts is made printable
//! before it gets here.

use std::io::{self, Write};

use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::out::{DIM, Out};
use crate::text::columns;

/// A piece of text in one style: ratatui's, as on a screen.
pub(crate) type Span = ratatui::text::Span<'static>;

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

pub(crate) fn width(spans: &[Span]) -> usize {
    spans.iter().map(|span| columns(&span.content)).sum()
}

/// Wraps words into lines of that width.
pub(crate) fn wrap(spans: &[Span], room: usize) -> Vec<Vec<Span>> {
    let mut lines: Vec<Vec<Span>> = vec![Vec::new()];
    let mut used = 0;
    // The spaces before the next word, if it fits on the same line; and the word, which may have
    // several styles.
    let mut gap: Vec<Span> = Vec::new();
    let mut word: Vec<Span> = Vec::new();
    let mut place = |gap: &mut Vec<Span>, word: &mut Vec<Span>| {
        let wide = width(word);
        if wide == 0 {
            return;
        }
        if used > 0 && used + width(gap) + wide > room {
            lines.push(Vec::new());
            used = 0;
            gap.clear();
        }
        for span in gap.drain(..).chain(word.drain(..)) {
            for (number, piece) in chop(&span.content, used, room).into_iter().enumerate() {
                if number > 0 {
                    lines.push(Vec::new());
                    used = 0;
                }
                used += columns(&piece);
                if let Some(line) = lines.last_mut() {
                    line.push(styled(span.style, piece));
                }
            }
        }
    };
    // The cluster before; a word may continue in another style.
    let mut before = "";
    for span in spans {
        for piece in span.content.split_inclusive(' ') {
            let letters = piece.trim_end_matches(' ');
            let mut start = 0;
            for (at, cluster) in clusters(letters) {
                if can_part(before, cluster) {
                    if start < at {
                        word.push(styled(span.style, &letters[start..at]));
                    }
                    place(&mut gap, &mut word);
                    start = at;
                }
                before = cluster;
            }
            if start < letters.len() {
                word.push(styled(span.style, &letters[start..]));
            }
            if letters.len() < piece.len() {
                place(&mut gap, &mut word);
                gap.push(styled(span.style, &piece[letters.len()..]));
                before = "";
            }
        }
    }
    place(&mut gap, &mut word);
    lines
}

/// The clusters of a word at which it may be parted, with their places. Of ASCII, which has no wide
/// characters, only the first and the last can be beside one.
fn clusters(word: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_ascii = word.is_ascii();
    let last = word.len().saturating_sub(1);
    let ends = [0, last].into_iter().take(if last == 0 { word.len() } else { 2 });
    let ends = ends.filter(move |_| is_ascii).map(|at| (at, &word[at..=at]));
    let all = if is_ascii { "" } else { word };
    ends.chain(all.grapheme_indices(true))
}

/// Whether a line may end between two clusters of a word.
fn can_part(before: &str, after: &str) -> bool {
    let is_any = |set: &str, c: Option<char>| c.is_some_and(|c| set.contains(c));
    // ASCII has no wide characters.
    !(before.is_empty() || before.is_ascii() && after.is_ascii())
        && (before.width() > 1 || after.width() > 1)
        && !is_any(OPENING, before.chars().last())
        && !is_any(CLOSING, after.chars().next())
}

/// What no line ends with.
const OPENING: &str = "「『（【〔〈《｛［([{“‘«";

/// What no line begins with: punctuation that closes something, small kana, marks of repetition.
const CLOSING: &str = "、。，．・：；？！」』）】〕〉》｝］,.:;?!)]}”’»…‥ー々%％\
    ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ";

/// Breaks a text into pieces; the first one goes after the part of a line that is already used.
fn chop(text: &str, used: usize, room: usize) -> Vec<String> {
    if used + columns(text) <= room {
        return vec![text.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let mut at = used;
    for cluster in text.graphemes(true) {
        let wide = cluster.width();
        if at + wide > room && at > 0 {
            pieces.push(String::new());
            at = 0;
        }
        at += wide;
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(cluster);
        }
    }
    pieces
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
