//! Images and documents in base64: what they say beside their pictures, and how it is hidden.
//!
//! Invariant: what is hidden is overwritten in place, so that the file keeps its size and its form,
//! and what accepted it before accepts it again.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use super::context::LENIENT;
use super::cover::Hidden;

/// What secrets are overwritten with.
const HIDDEN: u8 = b'*';

/// The kinds of files, with what they begin with, also in base64.
const KINDS: [(Kind, &[u8], &[u8]); 5] = [
    (Kind::Png, b"\x89PNG\r\n\x1a\n", b"iVBORw0KGg"),
    (Kind::Jpeg, b"\xff\xd8\xff", b"/9j/"),
    (Kind::Gif, b"GIF8", b"R0lGO"),
    (Kind::Webp, b"RIFF", b"UklGR"),
    (Kind::Pdf, b"%PDF-", b"JVBERi"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
    Pdf,
}

/// An image or a document.
pub(super) struct Media {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Media {
    /// What a text is, if that is the base64 of an image or a document and nothing else.
    pub(super) fn of(text: &[u8]) -> Option<Media> {
        let (kind, begin, _) = KINDS.iter().find(|(.., coded)| text.starts_with(coded))?;
        let bytes = LENIENT.decode(text).ok()?;
        bytes.starts_with(begin).then_some(Media { kind: *kind, bytes })
    }

    /// The parts of it that may be text: pictures are none, because in them any few letters occur
    /// by chance.
    pub(super) fn texts(&self) -> Vec<Range<usize>> {
        let bytes = &self.bytes;
        let mut texts = match self.kind {
            Kind::Png => {
                let is_text = |chunk: &Range<usize>| {
                    let name = &bytes[chunk.start - 4..chunk.start];
                    ![&b"IDAT"[..], b"PLTE", b"zTXt", b"iCCP", b"fdAT"].contains(&name)
                };
                png_chunks(bytes).into_iter().filter(is_text).collect()
            }
            Kind::Jpeg => jpeg_segments(bytes),
            Kind::Gif => gif_comments(bytes),
            Kind::Webp => webp_chunks(bytes),
            Kind::Pdf => outside_streams(bytes),
        };
        texts.retain(|range| !range.is_empty());
        texts
    }

    /// A part of it as text of the same length.
    pub(super) fn text(&self, part: &Range<usize>) -> Cow<'_, str> {
        ascii(&self.bytes[part.clone()])
    }

    /// The characters of base64 that stand for some of its bytes.
    pub(super) fn coded(range: &Range<usize>) -> Range<usize> {
        range.start / 3 * 4..range.end.div_ceil(3) * 4
    }

    /// The bytes that some characters of base64 stand for.
    pub(super) fn decoded(&self, coded: &Range<usize>) -> Range<usize> {
        let end = (coded.end * 3).div_ceil(4).min(self.bytes.len());
        (coded.start * 3 / 4).min(end)..end
    }

    /// Its base64 with these bytes overwritten.
    pub(super) fn without(mut self, ranges: &[Range<usize>]) -> String {
        for range in ranges {
            for byte in self.bytes[range.clone()].iter_mut().filter(|byte| !byte.is_ascii_control())
            {
                *byte = HIDDEN;
            }
        }
        if self.kind == Kind::Png {
            for chunk in png_chunks(&self.bytes) {
                let is_changed =
                    ranges.iter().any(|range| range.start < chunk.end && chunk.start < range.end);
                let sum = crc(&self.bytes[chunk.start - 4..chunk.end]).to_be_bytes();
                if let Some(place) = self.bytes[chunk.end..].get_mut(..4).filter(|_| is_changed) {
                    place.copy_from_slice(&sum);
                }
            }
        }
        STANDARD.encode(&self.bytes)
    }
}

/// The base64 of an image or a document without what is found in it, which is overwritten: with a
/// placeholder, it would be none. `coded` is what was found in its base64.
pub(super) fn without<'k>(
    media: Media,
    coded: &[Hidden<'k>],
    find: &dyn Fn(&str) -> Vec<Hidden<'k>>,
    named: &mut dyn FnMut(Option<usize>, &str) -> String,
) -> String {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for part in media.texts() {
        for (range, number, kind) in find(&media.text(&part)) {
            // Counts it.
            named(number, kind);
            ranges.push(part.start + range.start..part.start + range.end);
        }
    }
    for (range, number, kind) in coded {
        let place = media.decoded(range);
        if !ranges.iter().any(|range| range.start < place.end && place.start < range.end) {
            named(*number, kind);
            ranges.push(place);
        }
    }
    media.without(&ranges)
}

/// Bytes as text of the same length: each that is not ASCII is one sign.
pub(super) fn ascii(bytes: &[u8]) -> Cow<'_, str> {
    let sign = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(sign).collect()),
    }
}

/// The number of so many bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The data of the chunks of a PNG; each stands behind its name and before its checksum.
fn png_chunks(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut at = 8;
    while let Some(head) = bytes.get(at..at + 8) {
        let start = at + 8;
        let end = start.saturating_add(number(&head[..4])).min(bytes.len());
        chunks.push(start..end);
        at = end + 4;
    }
    chunks
}

/// What cameras and programs write before the picture.
fn jpeg_segments(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut segments = Vec::new();
    let mut at = 2;
    while let Some([0xff, marker, high, low]) = bytes.get(at..at + 4) {
        let end = (at + 2 + number(&[*high, *low]).max(2)).min(bytes.len());
        match marker {
            // The picture.
            0xda => break,
            0xe0..=0xef | 0xfe => segments.push((at + 4).min(end)..end),
            _ => {}
        }
        at = end;
    }
    segments
}

fn gif_comments(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut comments = Vec::new();
    for begin in memmem::find_iter(bytes, b"\x21\xfe") {
        let mut at = begin + 2;
        while let Some(length) = bytes.get(at).filter(|length| **length > 0) {
            let end = (at + 1 + usize::from(*length)).min(bytes.len());
            comments.push(at + 1..end);
            at = end;
        }
    }
    comments.sort_by_key(|range| range.start);
    comments
}

/// The parts of a WebP that are no pictures and no profiles of colours.
fn webp_chunks(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut at = 12;
    while let Some([name @ .., a, b, c, d]) = bytes.get(at..at + 8) {
        let start = at + 8;
        let length = number(&[*d, *c, *b, *a]);
        let end = start.saturating_add(length).min(bytes.len());
        if !name.starts_with(b"VP8") && ![b"ALPH", b"ANMF", b"ICCP"].iter().any(|one| name == *one)
        {
            chunks.push(start..end);
        }
        at = end + length % 2;
    }
    chunks
}

/// The parts of a document that are not compressed.
fn outside_streams(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut from = 0;
    while let Some(found) = memmem::find(&bytes[from..], b"stream") {
        let begin = from + found;
        parts.push(from..begin);
        let end = memmem::find(&bytes[begin..], b"endstream").map(|at| begin + at + 9);
        from = end.unwrap_or(bytes.len());
    }
    parts.push(from..bytes.len());
    parts
}

/// The checksum of a chunk of a PNG.
fn crc(bytes: &[u8]) -> u32 {
    let by_bit = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), by_bit))
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
