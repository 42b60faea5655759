//! Changes to byte ranges of one record; the bytes between them stay as they are.
//!
//! A change is a range and its replacement. The record is read once to find the ranges. They are
//! applied to its bytes or, for a record that is too long to hold in memory, to the file itself.
//! Invariants: ranges are in order and do not overlap; bytes outside of them are unchanged; if the
//! input was JSON, the output is too.

use std::ops::Range;

use crate::format::json::{Object, quote, unescape};
use crate::format::scan::Scanner;

/// Ranges of a record, with their replacements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Splices(Vec<(Range<usize>, Vec<u8>)>);

/// The change to one member or element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// It is removed, with its comma.
    Nothing,
    /// It is replaced with this value.
    Value(Vec<u8>),
}

impl Splices {
    /// The ranges, in order.
    pub(super) fn list(&self) -> &[(Range<usize>, Vec<u8>)] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces a range.
    pub(super) fn put(&mut self, range: Range<usize>, value: Vec<u8>) {
        let at = self.0.partition_point(|(other, _)| other.start < range.start);
        self.0.insert(at, (range, value));
    }

    /// Changes members of an object that begins at offset `start`. A missing member is added at the
    /// end. If a name occurs several times, all of them are removed, or the last one is changed.
    pub(super) fn members(&mut self, object: &Object<'_>, start: usize, changes: &[(&str, To)]) {
        if changes.is_empty() {
            return;
        }
        let bytes = object.raw();
        let places = object.places().into_iter();
        let found: Vec<(Range<usize>, Range<usize>, Option<&To>)> = places
            .map(|[key, value]| {
                let name = unescape(&bytes[key.clone()]);
                let to = changes.iter().find(|(known, _)| *known == name).map(|(_, to)| to);
                (key.start - 1..value.end, value, to)
            })
            .collect();
        let wholes: Vec<(Range<usize>, bool)> = found
            .iter()
            .map(|(whole, _, to)| (whole.clone(), matches!(to, Some(To::Nothing))))
            .collect();
        self.without(start, &wholes);
        let mut added = Vec::new();
        for (name, to) in changes {
            let To::Value(new) = to else { continue };
            let member = found.iter().rev().find(|(_, _, known)| {
                matches!((known, to), (Some(known), to) if std::ptr::eq(*known, to))
            });
            if let Some((_, value, _)) = member {
                if bytes[value.clone()] != **new {
                    self.put(start + value.start..start + value.end, new.clone());
                }
                continue;
            }
            let has_more = wholes.iter().any(|(_, goes)| !goes) || !added.is_empty();
            added.extend_from_slice(if has_more { b"," } else { b"" });
            added.extend_from_slice(quote(name).as_bytes());
            added.push(b':');
            added.extend_from_slice(new);
        }
        if !added.is_empty() {
            // After a removal at the end, whose range ends here too.
            let end = start + bytes.len() - 1;
            self.0.push((end..end, added));
            self.0.sort_by_key(|(range, _)| (range.start, range.end));
        }
    }

    /// Changes elements, by index, of the array at a range of the bytes.
    pub(super) fn elements(
        &mut self,
        bytes: &[u8],
        array: Range<usize>,
        change: impl Fn(usize, &[u8]) -> Option<To>,
    ) {
        let scanner = Scanner::new(&bytes[array.clone()]);
        let mut wholes = Vec::new();
        let mut values = Vec::new();
        for (place, range) in scanner.elements().enumerate() {
            let to = change(place, scanner.bytes(range.clone()));
            wholes.push((range.clone(), to == Some(To::Nothing)));
            if let Some(To::Value(value)) = to {
                values.push((array.start + range.start..array.start + range.end, value));
            }
        }
        self.without(array.start, &wholes);
        for (range, value) in values {
            self.put(range, value);
        }
    }

    /// Removes members or elements, each with one comma.
    fn without(&mut self, base: usize, wholes: &[(Range<usize>, bool)]) {
        let mut has_kept = false;
        for (place, (whole, goes)) in wholes.iter().enumerate() {
            if !goes {
                has_kept = true;
                continue;
            }
            let range = if has_kept {
                wholes[place - 1].0.end..whole.end
            } else {
                whole.start..wholes.get(place + 1).map_or(whole.end, |(next, _)| next.start)
            };
            self.put(base + range.start..base + range.end, Vec::new());
        }
    }

    /// The bytes with all changes applied.
    pub(super) fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for (range, value) in &self.0 {
            out.extend_from_slice(&bytes[done..range.start]);
            out.extend_from_slice(value);
            done = range.end;
        }
        out.extend_from_slice(&bytes[done..]);
        out
    }
}

/// The range of a value within the bytes that it was read from.
pub(super) fn range_of(inner: &[u8], outer: &[u8]) -> Option<Range<usize>> {
    let start = (inner.as_ptr() as usize).checked_sub(outer.as_ptr() as usize)?;
    let end = start.checked_add(inner.len())?;
    (end <= outer.len()).then_some(start..end)
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
