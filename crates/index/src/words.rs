//! Texts as words: what the index contains, and what a query asks for.
//!
//! A word is a run of letters, digits and `_`, in lower case. An identifier of several parts
//! (`parse_line`, `parseLine`) is one word, and its parts are listed apart. Chinese, Japanese and
//! Korean are written without spaces, so a run of them becomes all pairs of neighbours, and its
//! last character: any two characters that follow each other are found. Invariant: texts and
//! queries are divided by the same code.

use std::ops::Range;

/// The words of a text, as they are put into the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segmented {
    /// All words in order, with a space behind each.
    pub(crate) words: String,
    /// The parts of identifiers.
    pub(crate) parts: String,
}

/// One word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// The word as it stands in the text.
    pub(crate) text: &'a str,
    /// Its place in the text, in bytes.
    pub(crate) range: Range<usize>,
    /// It is a run of characters that are written without spaces.
    pub(crate) is_dense: bool,
}

/// Longer words are cut: they are hashes or encoded bytes, and nobody looks for their ends.
pub(crate) const LONGEST: usize = 64;

impl Segmented {
    /// Adds the words of a text. No phrase reaches from one text into the next.
    pub(crate) fn add(&mut self, text: &str) {
        if !self.words.is_empty() {
            self.words.push_str("_ ");
        }
        for word in words(text) {
            if word.is_dense {
                for pair in dense(word.text) {
                    self.words.push_str(pair);
                    self.words.push(' ');
                }
                continue;
            }
            push_lower(&mut self.words, word.text);
            if word.text.len() > 4 * LONGEST {
                continue;
            }
            for part in parts(word.text) {
                push_lower(&mut self.parts, part);
            }
        }
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.words.len() + self.parts.len()
    }
}

/// The words of a text, in order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, first) = loop {
            let found = char_at(text, at)?;
            at += found.len_utf8();
            if is_word(found) {
                break (at - found.len_utf8(), found);
            }
        };
        let is_dense = is_dense(first);
        while let Some(next) = char_at(text, at)
            && is_word(next)
            && self::is_dense(next) == is_dense
        {
            at += next.len_utf8();
        }
        Some(Word { text: &text[start..at], range: start..at, is_dense })
    })
}

/// The character that begins at a byte. Most are ASCII, and need no decoding.
fn char_at(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at)? {
        byte if byte.is_ascii() => Some(char::from(*byte)),
        _ => text[at..].chars().next(),
    }
}

/// A word in lower case, cut if it is too long.
pub(crate) fn lower(word: &str) -> String {
    let mut out = String::new();
    push_lower(&mut out, word);
    out.truncate(out.trim_end().len());
    out
}

/// Adds a word in lower case, with a space behind it.
fn push_lower(out: &mut String, word: &str) {
    let word = match word.len() {
        0..=LONGEST => word,
        _ => word.char_indices().nth(LONGEST).map_or(word, |(end, _)| &word[..end]),
    };
    if word.is_ascii() {
        let start = out.len();
        out.push_str(word);
        out[start..].make_ascii_lowercase();
    } else {
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    out.push(' ');
}

/// The parts of an identifier; none if it is only one word. `HTTPServer_v2` has the parts `HTTP`,
/// `Server` and `v2`.
pub(crate) fn parts(word: &str) -> Vec<&str> {
    // Most words: nothing divides them.
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if word.bytes().skip(1).all(|byte| is_plain(&byte)) && !word.starts_with('_') {
        return Vec::new();
    }
    let mut found = Vec::new();
    for piece in word.split('_').filter(|piece| !piece.is_empty()) {
        let mut start = 0;
        let mut before = [None::<char>; 2];
        for (at, c) in piece.char_indices() {
            let [two, one] = before;
            // `parseLine` is divided before `L`; `HTTPServer` before `S`, which is known at `e`.
            if c.is_uppercase() && one.is_some_and(|one| !one.is_uppercase()) {
                found.push(&piece[start..at]);
                start = at;
            } else if let (true, Some(two), Some(one)) = (c.is_lowercase(), two, one)
                && two.is_uppercase()
                && one.is_uppercase()
            {
                let border = at - one.len_utf8();
                found.push(&piece[start..border]);
                start = border;
            }
            before = [one, Some(c)];
        }
        found.push(&piece[start..]);
    }
    found.retain(|part| !part.is_empty());
    if found.as_slice() == [word] { Vec::new() } else { found }
}

/// The pairs of neighbours in a run of characters, and the last character.
pub(crate) fn dense(run: &str) -> impl Iterator<Item = &str> {
    let places = run.char_indices().map(|(at, _)| at);
    let ends = run.char_indices().skip(2).map(|(at, _)| at).chain([run.len(), run.len()]);
    places.zip(ends).map(|(start, end)| &run[start..end])
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || (!c.is_ascii() && c.is_alphanumeric())
}

/// Whether a character is of a script that is written without spaces, or with few.
pub(crate) fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3130}'..='\u{318f}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}'
    )
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
