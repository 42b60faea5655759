//! Searches a text more thoroughly than what leaves the program in a moment: also what is wrapped
//! over several lines, what has colours or escapes in it, and what is inside base64.
//!
//! Also leaves out what only looks like a key inside a long run of base64, such as an image: there,
//! any few letters occur by chance. Invariant: work and memory are linear in the text; what most
//! texts do not have costs them one look.

use std::ops::Range;

use super::border::begins;
use super::coded::{Decoded, runs};
use super::media::Media;
use super::plain::{self, Plain, same_length};
use super::{Redactor, Secret, context};

/// A secret in a text.
pub(super) struct Hit<'a> {
    pub(super) kind: &'a str,
    pub(super) range: Range<usize>,
    /// The secret itself, joined and decoded.
    pub(super) value: Vec<u8>,
}

/// How often base64 and escapes are decoded.
const DEPTH: usize = 3;
/// Runs of base64 of this length are data: what looks like a key within one is a coincidence.
const DATA: usize = 200;
/// How many letters of an escape, or signs, may be before the first word of a line.
const ESCAPE: usize = 6;

impl Redactor {
    /// The secrets in a text, in order, without overlap.
    pub(super) fn find_deep<'a>(&'a self, member: Option<&str>, text: &str) -> Vec<Hit<'a>> {
        self.find_to(member, text, DEPTH)
    }

    /// Whether a text of this length is too short for a secret.
    pub(super) fn needs_more(&self, length: usize) -> bool {
        self.custom.is_empty() && length < context::SHORTEST_PASSWORD
    }

    fn find_to<'a>(&'a self, member: Option<&str>, text: &str, depth: usize) -> Vec<Hit<'a>> {
        let bytes = text.as_bytes();
        let found = self.find_in(member, text).into_iter();
        let mut hits: Vec<Hit<'a>> = found
            .map(|Secret { kind, range }| Hit { kind, value: bytes[range.clone()].to_vec(), range })
            .collect();
        let (mut coded, mut data) = (Vec::new(), Vec::new());
        runs(bytes, |lines| {
            let run = lines[0].start..lines[lines.len() - 1].end;
            if depth > 0
                && let Some(media) = Media::of(&bytes[run.clone()])
            {
                coded.extend(self.find_in_media(&media, run.start, depth - 1));
                data.push(run);
            } else if depth > 0
                && let Some(inner) = Decoded::of(bytes, lines)
            {
                let hits = self.find_to(None, &same_length(&inner.text), depth - 1).into_iter();
                coded.extend(hits.map(|hit| Hit { range: inner.source(&hit.range), ..hit }));
            } else if run.len() >= DATA {
                data.extend_from_slice(lines);
            }
        });
        let is_data = |range: &Range<usize>| {
            let next = data.partition_point(|line| line.start < range.start);
            next.checked_sub(1).is_some_and(|at| {
                let line = &data[at];
                // Keys stand one below the other, too: what begins a line is no coincidence.
                let is_first = range.start - line.start <= ESCAPE && begins(bytes, range.start);
                range.end <= line.end && !is_first
            })
        };
        hits.retain(|hit| !is_data(&hit.range));
        let mut longer = self.find_wrapped(bytes, &data, &hits);
        if depth > 0 {
            for part in plain_parts(bytes) {
                let member = member.filter(|_| part.is_all_of(bytes));
                let inner = self.find_to(member, &part.to_str(), depth - 1).into_iter();
                let inner = inner.filter(|hit| !hit.range.is_empty());
                longer.extend(inner.map(|hit| Hit { range: part.source(&hit.range), ..hit }));
            }
        }
        // What is known by its surroundings needs no look inside.
        coded.retain(|hit: &Hit<'_>| !is_in(&hits, &hit.range));
        longer.sort_by_key(|hit| hit.range.start);
        coded.retain(|hit| !is_in(&longer, &hit.range));
        hits = united(hits, longer);
        hits.extend(coded);
        hits.sort_by_key(|hit| hit.range.start);
        hits
    }

    /// The secrets in what an image says beside its picture. Its base64 begins at `base`.
    fn find_in_media<'a>(&'a self, media: &Media, base: usize, depth: usize) -> Vec<Hit<'a>> {
        let texts = media.texts().into_iter();
        let hits = texts.flat_map(|part| {
            let hits = self.find_to(None, &media.text(&part), depth).into_iter();
            hits.map(move |hit| {
                let coded =
                    Media::coded(&(part.start + hit.range.start..part.start + hit.range.end));
                Hit { range: base + coded.start..base + coded.end, ..hit }
            })
        });
        hits.collect()
    }
}

/// The parts of a text that are written in another way.
fn plain_parts(text: &[u8]) -> Vec<Plain> {
    let escapes = plain::escapes(text);
    let mut parts = if escapes.is_empty() { Vec::new() } else { plain::parts(text, &escapes) };
    parts.extend(Plain::of_wide_text(text));
    parts
}

/// Adds hits that were found in another reading of a text to those in it, all in order: what is
/// within another is not needed, and what only overlaps becomes one.
fn united<'a>(hits: Vec<Hit<'a>>, mut more: Vec<Hit<'a>>) -> Vec<Hit<'a>> {
    more.retain(|hit| !is_within(&hits, &hit.range));
    if more.is_empty() {
        return hits;
    }
    let mut all: Vec<(Hit<'a>, bool)> = hits.into_iter().map(|hit| (hit, false)).collect();
    all.extend(more.into_iter().map(|hit| (hit, true)));
    all.sort_by_key(|(hit, _)| (hit.range.start, std::cmp::Reverse(hit.range.end)));
    let mut united: Vec<(Hit<'a>, bool)> = Vec::with_capacity(all.len());
    for (hit, is_more) in all {
        match united.last_mut() {
            Some((last, was_more)) if hit.range.start < last.range.end => {
                let end = last.range.end.max(hit.range.end);
                // The other reading shows more of the secret.
                if is_more && !*was_more {
                    let start = last.range.start;
                    *last = Hit { range: start..end, ..hit };
                    *was_more = true;
                } else {
                    last.range.end = end;
                }
            }
            _ => united.push((hit, is_more)),
        }
    }
    united.into_iter().map(|(hit, _)| hit).collect()
}

/// Whether one of some hits, which are in order, overlaps a range.
pub(super) fn is_in(hits: &[Hit<'_>], range: &Range<usize>) -> bool {
    let next = hits.partition_point(|hit| hit.range.end <= range.start);
    hits.get(next).is_some_and(|hit| hit.range.start < range.end)
}

/// Whether one of some hits, which are in order, contains a range.
pub(super) fn is_within(hits: &[Hit<'_>], range: &Range<usize>) -> bool {
    let next = hits.partition_point(|hit| hit.range.start <= range.start);
    next.checked_sub(1).is_some_and(|at| range.end <= hits[at].range.end)
}
