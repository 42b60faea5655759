//! Lines of words: where a line of a given width ends.
//!
//! Words are wrapped at spaces, and text without spaces (Chinese, Japanese) between wide
//! characters; a word that is wider than a line is broken between grapheme clusters. Widths are
//! those of a terminal. Invariant: every line fits.

use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::text::columns;

/// A piece of text in one style: ratatui's, as on a screen.
pub type Span = ratatui::text::Span<'static>;

/// How many columns spans take.
pub fn width(spans: &[Span]) -> usize {
    spans.iter().map(|span| columns(&span.content)).sum()
}

/// Wraps words into lines of that width.
pub fn wrap(spans: &[Span], room: usize) -> Vec<Vec<Span>> {
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
                    line.push(Span::styled(piece, span.style));
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
                        word.push(part(span.style, &letters[start..at]));
                    }
                    place(&mut gap, &mut word);
                    start = at;
                }
                before = cluster;
            }
            if start < letters.len() {
                word.push(part(span.style, &letters[start..]));
            }
            if letters.len() < piece.len() {
                place(&mut gap, &mut word);
                gap.push(part(span.style, &piece[letters.len()..]));
                before = "";
            }
        }
    }
    place(&mut gap, &mut word);
    lines
}

fn part(style: Style, text: &str) -> Span {
    Span::styled(text.to_owned(), style)
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
pub fn chop(text: &str, used: usize, room: usize) -> Vec<String> {
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
