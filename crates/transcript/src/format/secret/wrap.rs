//! Secrets that were broken over lines: by a terminal, in a listing, a diff, a comment, a string of
//! several parts.
//!
//! Lines that may have been one are joined, with what is around, and the rules search that. Joining
//! glues words together that are none, so what is found counts only if it goes over a break, and
//! what follows the break looks like more of it. Invariant: work and memory are linear in the text.

use std::cmp::Ordering;
use std::ops::Range;

use super::border::begins;
use super::deep::{Hit, is_in, is_within};
use super::lines::Break;
use super::plain::Joined;
use super::shape::{Class, Rule, Shape};
use super::table::TABLE;
use super::{Found, Redactor, words};

/// How much of a line is looked at before and after a break.
const AROUND: usize = 512;
/// How much of what is before and after a break is looked at to see whether it was one word.
const WORD: usize = 64;
/// What was one word has so many characters at least.
const SHORTEST: usize = 14;
/// The front of a secret that nothing else shows to be one has so many.
const LONG: usize = 12;
/// More of a secret has so many.
const REST: usize = 4;
/// What announces a key has so many at most, of those that are looked at.
const ANCHOR: usize = 24;

/// Where a word goes on in the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrap {
    /// Where the line begins.
    pub(super) line: usize,
    /// Where its text ends.
    pub(super) end: usize,
    /// Where the text of the next line begins.
    pub(super) begin: usize,
}

/// The places where a word may go on in the next line.
pub(super) fn wraps(text: &[u8], data: &[Range<usize>], found: &[Hit<'_>]) -> Vec<Wrap> {
    let mut wraps = Vec::new();
    let mut line = 0;
    let mut data = data.iter().peekable();
    for at in memchr::memchr2_iter(b'\n', b'\\', text) {
        if at < line {
            continue;
        }
        // Nearly all lines end with what cannot be a part of a secret, and most backslashes are of
        // other escapes.
        let last = at.checked_sub(1).map_or(b' ', |last| text[last]);
        if text[at] == b'\n' && !ENDS[usize::from(last)] {
            line = at + 1;
            continue;
        }
        if text[at] == b'\\' && !matches!(text.get(at + 1), Some(b'n' | b'\n' | b'\\')) {
            continue;
        }
        let Some(found_break) = Break::at(text, at) else { continue };
        let start = std::mem::replace(&mut line, found_break.after);
        let is_end = ENDS[usize::from(last)] && found_break.end > start;
        if !is_end || !is_token(text[found_break.end - 1]) {
            continue;
        }
        while data.next_if(|run| run.end < at).is_some() {}
        if data.peek().is_some_and(|run| run.start < at) {
            continue;
        }
        let Some(begin) = found_break.next(text, start) else { continue };
        let wrap = Wrap { line: start, end: found_break.end, begin };
        if wrap.is_likely(text) && !wrap.begins_another(text, found) {
            wraps.push(wrap);
        }
    }
    wraps
}

/// What a secret may have.
const TOKEN: [bool; 256] = {
    let (mut table, signs, mut byte) = ([false; 256], b"_-.~+/=%:@!#$&*^?", 0_u8);
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < signs.len() {
        table[signs[at] as usize] = true;
        at += 1;
    }
    table
};
/// What a line may end with that ends with a part of a secret: that, or what does not belong to it.
const ENDS: [bool; 256] = {
    let (mut table, signs, mut at) = (TOKEN, b" \t\r\"'`|\x82\\", 0);
    while at < signs.len() {
        table[signs[at] as usize] = true;
        at += 1;
    }
    table
};

fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

impl Wrap {
    /// Whether the words around the break look like parts of one that no person wrote.
    fn is_likely(&self, text: &[u8]) -> bool {
        let before = &text[self.line.max(self.end.saturating_sub(WORD))..self.end];
        let after = &text[self.begin..text.len().min(self.begin + WORD)];
        let front = before.iter().rev().take_while(|byte| is_token(**byte)).count();
        let back = after.iter().take_while(|byte| is_token(**byte)).count();
        if front == 0 || back == 0 || front + back < SHORTEST {
            return false;
        }
        let (front, back) = (&before[before.len() - front..], &after[..back]);
        if is_assignment(back) {
            // The name itself may be broken.
            return front.iter().all(|byte| Class::Word.has(*byte))
                && front.len() + back.len() > 20;
        }
        // What most lines are not costs little; whether words are read is asked last.
        let can_be_front = front.len() >= LONG && is_mixed(front);
        if !can_be_front && !is_mixed(back) {
            return false;
        }
        // What is assigned ends at the break, or goes on: a word is a value of its own.
        let assigned = front.iter().rposition(|byte| b"=:/@".contains(byte));
        let is_sign = assigned.is_some_and(|at| {
            at + 1 == front.len() || front.contains(&b'=') && is_made(&front[at + 1..])
        });
        let is_key = match anchor_at(front, back) {
            Anchor::Before | Anchor::Spans => true,
            Anchor::Nowhere if is_sign || can_be_front => false,
            Anchor::Begins | Anchor::Nowhere => return false,
        };
        let is_front = can_be_front && is_made(front);
        (is_key || is_sign || is_front) && (is_front && is_odd(back) || is_made(back))
    }

    /// Whether a secret that was found begins the next line.
    fn begins_another(&self, text: &[u8], found: &[Hit<'_>]) -> bool {
        let next = found.partition_point(|hit| hit.range.start < self.begin);
        let is_here = |hit: &Hit<'_>| {
            let between = text.get(self.begin..hit.range.start);
            between.is_some_and(|between| {
                between.len() < WORD && between.iter().all(|byte| is_token(*byte))
            })
        };
        found.get(next).is_some_and(is_here)
    }
}

/// Where what announces a key stands in two words that may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Anchor {
    Nowhere,
    /// In the first one.
    Before,
    /// At the start of the second one, which is no part of the first, then.
    Begins,
    /// In both.
    Spans,
}

fn anchor_at(front: &[u8], back: &[u8]) -> Anchor {
    let front = &front[front.len().saturating_sub(ANCHOR)..];
    let (mut both, length) = ([0; 2 * ANCHOR], front.len() + back.len().min(ANCHOR));
    both[..front.len()].copy_from_slice(front);
    both[front.len()..length].copy_from_slice(&back[..length - front.len()]);
    let both = &both[..length];
    let mut found = Anchor::Nowhere;
    TABLE.finder.each(&TABLE.anchors, both, |number, start| {
        let anchor = &TABLE.anchors[number];
        let is_key =
            matches!(anchor.shape, Shape::Parts { .. } | Shape::Rule(Rule::Jwt | Rule::Url));
        if !is_key || !begins(both, start) {
            return;
        }
        let place = match (start.cmp(&front.len()), start + anchor.text.len() > front.len()) {
            (Ordering::Less, false) => Anchor::Before,
            (Ordering::Less, true) => Anchor::Spans,
            (Ordering::Equal, _) => Anchor::Begins,
            (Ordering::Greater, _) => Anchor::Nowhere,
        };
        found = found.max(place);
    });
    let scheme = back.iter().take(ANCHOR).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if scheme > 0 && back[scheme..].starts_with(b"://") { Anchor::Begins } else { found }
}

/// Whether a word is not one that a person wrote.
fn is_made(word: &[u8]) -> bool {
    is_mixed(word) && !words::reads_as_words(word)
}

/// Whether there are letters and digits in it, or a capital in the middle of a word.
fn is_mixed(word: &[u8]) -> bool {
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let is_change = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    (has_digit || word.windows(2).any(is_change)) && word.iter().any(u8::is_ascii_alphabetic)
}

/// The same for what may be the end of one.
fn is_odd(word: &[u8]) -> bool {
    let has_capital = word.iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    // Numbers and dates begin lines of their own.
    let has_letter = word.iter().any(u8::is_ascii_alphabetic);
    has_letter && (has_capital || word.len() >= 2 * REST) && !words::reads_as_words(word)
}

/// Whether a line is the next assignment of a list, and not the rest of a word.
fn is_assignment(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| Class::Word.has(**byte)).count();
    let Some(rest) = line.get(name..).filter(|_| name > 0) else { return false };
    match rest {
        [b'=', rest @ ..] => rest.iter().any(|byte| *byte != b'='),
        [b':'] => true,
        _ => false,
    }
}

impl Redactor {
    /// The secrets that go over line breaks. `found` are those that do not, in order.
    pub(super) fn find_wrapped<'a>(
        &'a self,
        text: &[u8],
        data: &[Range<usize>],
        found: &[Hit<'_>],
    ) -> Vec<Hit<'a>> {
        let wraps = wraps(text, data, found);
        let mut hits: Vec<Hit<'a>> = Vec::new();
        for Joined { plain, joints } in Joined::of(text, &wraps, AROUND) {
            for (range, named) in self.find_ranked(&plain.text) {
                let source = plain.source(&range);
                let is_known = is_in(found, &source);
                if !is_within(found, &source)
                    && goes_on(&plain.text, &joints, &(range.clone(), named), is_known)
                {
                    let value = plain.text[range].to_vec();
                    hits.push(Hit { kind: named.0, range: source, value });
                }
            }
        }
        hits
    }
}

/// Whether a secret in joined lines is one: what follows a break must look like more of it, unless
/// only the whole has a form that nothing else has.
fn goes_on(
    text: &[u8],
    joints: &[usize],
    (range, (_, number)): &Found<'_>,
    is_known: bool,
) -> bool {
    let first = joints.partition_point(|joint| *joint <= range.start);
    let within = joints[first..].iter().copied().take_while(|joint| *joint < range.end);
    let within: Vec<usize> = within.collect();
    if within.is_empty() {
        // What announces it is broken, or it begins with the line.
        let near = first.checked_sub(1).is_some_and(|last| range.start - joints[last] < WORD);
        return near && !is_known && is_made(&text[range.clone()]);
    }
    let is_strict = match &TABLE.anchors.get(*number).map(|anchor| &anchor.shape) {
        Some(Shape::Parts { is_weak, .. }) => !is_weak,
        Some(Shape::Rule(rule)) => matches!(rule, Rule::Jwt | Rule::Discord | Rule::Telegram),
        None => false,
    };
    let ends = within[1..].iter().copied().chain([range.end]);
    let mut pieces = within.iter().zip(ends).map(|(from, to)| &text[*from..to]);
    // The last line may be a letter.
    let is_rest = |(number, piece): (usize, &[u8])| {
        is_odd(piece) && piece.len() >= REST || number > 0 && piece.len() < REST
    };
    is_strict && !is_known || pieces.by_ref().enumerate().all(is_rest)
}

#[cfg(test)]
#[path = "wrap_tests.rs"]
mod tests;
