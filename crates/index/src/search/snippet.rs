//! The part of a text around what was found.

use std::collections::VecDeque;
use std::ops::Range;

use regex::Regex;

use super::query::{Query, Term, TermWord};
use crate::words::{Word, words};

/// A short text with the places that were found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// One line.
    pub text: String,
    /// Where it fits the query, in bytes.
    pub marks: Vec<Range<usize>>,
}

/// How many characters are shown before and after the first place.
const BEFORE: usize = 50;
const AFTER: usize = 110;
/// How many words of a text are looked at.
const LONGEST: usize = 1 << 20;

impl Snippet {
    /// The part of a text around the first place that fits the query; `None` if there is none.
    pub(super) fn of(text: &str, query: &Query) -> Option<Snippet> {
        let terms: Vec<&Term> = query.terms.iter().filter(|term| !term.is_excluded).collect();
        let mut places = places(text, &terms, &query.patterns);
        places.sort_by_key(|place| place.start);
        let first = places.first()?.clone();
        Some(Snippet::around(text, &first, &places))
    }

    /// The start of a text.
    pub(super) fn start(text: &str) -> Snippet {
        Snippet::around(text, &(0..0), &[])
    }

    fn around(text: &str, first: &Range<usize>, places: &[Range<usize>]) -> Snippet {
        let before = text[..first.start].char_indices().rev().take(BEFORE).last();
        let start = before.map_or(first.start, |(at, _)| at);
        let end = text[first.start..]
            .char_indices()
            .nth(AFTER)
            .map_or(text.len(), |(at, _)| first.start + at);
        let mut snippet = Snippet::default();
        if start > 0 {
            snippet.text.push('…');
        }
        let mut is_blank = true;
        let mut open = None;
        for (at, c) in text[start..end].char_indices().map(|(at, c)| (start + at, c)) {
            if let Some(from) = open
                && !places.iter().any(|place| place.contains(&at))
            {
                snippet.marks.push(from..snippet.text.len());
                open = None;
            }
            if c.is_whitespace() {
                if !is_blank {
                    snippet.text.push(' ');
                }
                is_blank = true;
                continue;
            }
            is_blank = false;
            if open.is_none() && places.iter().any(|place| place.contains(&at)) {
                open = Some(snippet.text.len());
            }
            snippet.text.push(c);
        }
        if let Some(from) = open {
            snippet.marks.push(from..snippet.text.len());
        }
        snippet.text.truncate(snippet.text.trim_end().len());
        let len = snippet.text.len();
        snippet.marks.iter_mut().for_each(|mark| mark.end = mark.end.min(len));
        if end < text.len() {
            snippet.text.push('…');
        }
        snippet
    }
}

/// Where a text fits any of the terms or patterns, as far as the first place and what is shown
/// behind it: a word that occurs often is not looked for in the whole text.
fn places(text: &str, terms: &[&Term], patterns: &[Regex]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for pattern in patterns {
        found.extend(pattern.find_iter(text).take(16).map(|place| place.range()));
    }
    found.retain(|place| !place.is_empty());
    let shown = |found: &[Range<usize>]| {
        let first = found.iter().map(|place| place.start).min();
        first.map_or(usize::MAX, |first| first.saturating_add(AFTER * char::MAX.len_utf8()))
    };
    let mut end = shown(&found);
    let most = terms.iter().map(|term| term.words.len()).max().unwrap_or(0);
    let mut coming = words(text).take(LONGEST);
    let mut ahead: VecDeque<Word<'_>> = coming.by_ref().take(most).collect();
    while ahead.front().is_some_and(|word| word.range.start < end) {
        let next = ahead.make_contiguous();
        for term in terms {
            if let Some(count) = term.fits(next) {
                found.push(place(term, &next[..count]));
                end = end.min(shown(&found));
            }
        }
        ahead.pop_front();
        ahead.extend(coming.next());
    }
    found.retain(|place| !place.is_empty());
    found
}

/// The place of a term that fits these words: all of them, or a part of a run without spaces.
fn place(term: &Term, words: &[Word<'_>]) -> Range<usize> {
    let (first, last) = (&words[0], &words[words.len() - 1]);
    if let [TermWord::Dense(run)] = term.words.as_slice()
        && let Some(at) = first.text.find(run.as_str())
    {
        let start = first.range.start + at;
        return start..start + run.len();
    }
    first.range.start..last.range.end
}
