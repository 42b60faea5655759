//! Hides known secrets in every place and every form: escaped, split over lines, in base64.
//!
//! Invariants: the same secret gets the same placeholder everywhere; what has no secret keeps its
//! bytes; JSON stays JSON; a placeholder needs no escape at any depth, and without its colons it
//! can be part of a file's name.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use hashbrown::HashMap;
use memchr::memmem::Finder;

use super::Redactor;
use super::border::{begins, printable};
use super::canon::{Canon, ESCAPINGS, Escaping};
use super::context;
use super::grams::{CONTIGUOUS, Grams};
use super::key_lines::KeyLines;
use super::media::{self, Media, ascii};
use super::placeholder;
use super::searched::Searched;
use super::strings::each_string;
use super::values::{MOST, Values, is_distinctive};
use super::words;
use crate::format::file::read_at;
use crate::format::json::{quote, unescape};

/// How often a text is searched: hiding one secret may expose the boundary of another.
const ROUNDS: usize = 4;
/// Patterns of fewer bytes count only as whole words.
const WORD: usize = 16;

/// Hides secrets.
pub struct Cover {
    redactor: Arc<Redactor>,
    values: Values,
    placeholders: Vec<String>,
    /// The canonical bytes of all forms, and what each of them is.
    exact: Grams,
    forms: Vec<FormOf>,
    /// The bytes of all forms, to pass over most lines quickly.
    nearby: Grams,
    /// How many secrets are only hidden where they are recognized.
    unpursued: u64,
}

/// What a pattern is.
struct FormOf {
    number: usize,
    /// It is text, and short: it counts only as a whole word.
    is_word: bool,
    /// The signs before and after it, which its canonical bytes lack.
    around: [Vec<u8>; 2],
}

impl fmt::Debug for Cover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cover({:?})", self.values)
    }
}

/// A range to hide, the number of the secret in it (`None` if that was not known before), and its
/// kind.
pub(super) type Hidden<'a> = (Range<usize>, Option<usize>, &'a str);

/// A text without what is found in it; `None` if nothing is. It is searched again as long as hiding
/// one secret exposes another. `named` makes the placeholders.
pub(super) fn hide<'k>(
    text: &str,
    find: impl Fn(&str) -> Vec<Hidden<'k>>,
    mut named: impl FnMut(Option<usize>, &str) -> String,
) -> Option<String> {
    let mut shown: Option<String> = None;
    for _ in 0..ROUNDS {
        let now = shown.as_deref().unwrap_or(text);
        let found = find(now);
        if found.is_empty() {
            break;
        }
        if let Some(media) = Media::of(now.as_bytes()) {
            return Some(media::without(media, &found, &find, &mut named));
        }
        let mut next = String::with_capacity(now.len());
        let mut end = 0;
        for (range, number, kind) in found {
            let range = super::whole_characters(now, range);
            let start = range.start.max(end);
            next.push_str(&now[end..start]);
            next.push_str(&named(number, kind));
            end = range.end.max(end);
        }
        next.push_str(&now[end..]);
        shown = Some(next);
    }
    shown
}

/// What a redactor finds in a text, in order, without overlap.
pub(super) fn recognized<'r>(
    redactor: &'r Redactor,
    member: Option<&str>,
    text: &str,
) -> Vec<Hidden<'r>> {
    let hits = redactor.find_deep(member, text).into_iter();
    merged(hits.map(|hit| (hit.range, None, hit.kind)).collect())
}

/// The placeholder of a secret whose number is not known.
pub(super) fn unnumbered(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

impl Cover {
    /// Hides these secrets wherever they are, and whatever else the redactor finds: the one that
    /// found them.
    pub fn new(redactor: Arc<Redactor>, values: Values) -> Cover {
        let placeholders = values.placeholders();
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut patterns, mut forms, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        let mut unpursued = 0;
        // Whole secrets first: a part of one may be another.
        for round in 0..2 {
            for (number, value) in values.list.iter().enumerate() {
                let chosen = if round == 0 { &value.forms[..1] } else { &value.forms[1..] };
                for form in chosen {
                    let canon = Canon::of(form, Escaping::Escapes).bytes;
                    if !is_distinctive(value, &canon) || number >= MOST {
                        unpursued += u64::from(round == 0);
                        continue;
                    }
                    let around = [signs(form.iter()), signs(form.iter().rev())];
                    let is_word = canon.len() < WORD;
                    let mut add = |canon: Vec<u8>, is_word: bool, around: [Vec<u8>; 2]| {
                        if !known.contains_key(&canon) {
                            known.insert(canon.clone(), forms.len());
                            patterns.push(canon);
                            forms.push(FormOf { number, is_word, around });
                        }
                    };
                    add(canon, is_word, around.clone());
                    let letters = Canon::of(form, Escaping::Letters).bytes;
                    if letters.len() >= WORD {
                        add(letters, false, around.clone());
                    }
                    // Signs at its ends may not be there: `==`.
                    let core = &form[around[0].len()..form.len() - around[1].len()];
                    for coded in in_base64(core) {
                        let canon = Canon::of(&coded, Escaping::Numbers).bytes;
                        if canon.len() >= WORD - 4 {
                            add(canon, false, [Vec::new(), Vec::new()]);
                            raw.push(coded);
                        }
                    }
                    raw.extend(telling(form));
                }
            }
        }
        let (exact, nearby) = (Grams::whole(patterns), Grams::parts(raw));
        Cover { redactor, values, placeholders, exact, forms, nearby, unpursued }
    }

    /// The same with placeholders that have no number: who gets a session bit by bit would get
    /// other numbers each time.
    #[must_use]
    pub fn without_numbers(self) -> Cover {
        Cover { placeholders: Vec::new(), ..self }
    }

    /// The secrets that it hides.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The texts in which its redactor finds nothing.
    pub(super) fn searched(&self) -> &Searched {
        &self.values.searched
    }

    /// What it finds secrets with.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// How many of them are too short, too plain or too many to be looked for in every place: they
    /// are hidden only where they are recognized.
    pub fn unpursued(&self) -> u64 {
        self.unpursued
    }

    /// Whether bytes have a known secret, in whatever form.
    pub fn stands_in(&self, bytes: &[u8]) -> bool {
        (self.nearby.touches(bytes) || has_escaped_letters(bytes)) && !self.known(bytes).is_empty()
    }

    /// A line of JSON without secrets; `None` if it has none.
    pub fn line(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut out: Vec<u8> = Vec::new();
        let mut done = 0;
        let mut key = KeyLines::default();
        let mut last = None;
        each_string(line, |string| {
            let inner = &line[string.range.clone()];
            let text = unescape(inner);
            let of_key = if string.is_in_list() { key.line(&text) } else { None };
            let shown = match of_key {
                Some((_, range)) => {
                    let placeholder = self.of_key(&text[range.clone()], &mut last);
                    Some(format!("{}{placeholder}{}", &text[..range.start], &text[range.end..]))
                }
                None if placeholder::is_name_of_call(string.member, &text) => {
                    self.name_of_call(&text)
                }
                None => self.text_in(string.member.map(unescape).as_deref(), &text),
            };
            if let Some(shown) = shown {
                out.extend_from_slice(&line[done..string.range.start - 1]);
                let quoted = quote(&shown);
                // A string without an end stays one.
                let is_open = string.range.end == line.len();
                let quoted = if is_open { &quoted[..quoted.len() - 1] } else { &quoted[..] };
                out.extend_from_slice(quoted.as_bytes());
                done = (string.range.end + 1).min(line.len());
            }
        });
        if done == 0 {
            return None;
        }
        out.extend_from_slice(&line[done..]);
        Some(out)
    }

    /// Bytes that are not JSON, or may not be, without secrets; `None` if they have none.
    pub fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(bytes);
        self.text_in(None, &text).map(String::into_bytes)
    }

    /// A text without secrets; `None` if it has none.
    pub fn text(&self, text: &str) -> Option<String> {
        self.text_in(None, text)
    }

    /// The name of a file or folder without secrets; `None` if it has none. It can be a name on
    /// every system: placeholders in it are `[redacted-github-token-1]`.
    pub fn name(&self, name: &str) -> Option<String> {
        let placeholder = |number, kind: &str| self.placeholder(number, kind).replace(':', "-");
        hide(name, |text| self.hidden(None, text), placeholder)
    }

    /// The name or the id of a call without secrets; `None` if it has none. The API accepts letters
    /// and digits, `_` and `-` in it.
    fn name_of_call(&self, name: &str) -> Option<String> {
        let placeholder = |number, kind: &str| placeholder::plain(&self.placeholder(number, kind));
        hide(name, |text| self.hidden(None, text), placeholder)
    }

    fn text_in(&self, member: Option<&str>, text: &str) -> Option<String> {
        self.hide(member, text, &mut |_| {})
    }

    /// A text without secrets; `None` if it has none. Calls `count` with the kind of each.
    pub(super) fn hide(
        &self,
        member: Option<&str>,
        text: &str,
        count: &mut dyn FnMut(&str),
    ) -> Option<String> {
        let find = |text: &str| self.hidden(member, text);
        hide(text, find, |number, kind| {
            count(kind);
            self.placeholder(number, kind)
        })
    }

    /// The placeholder of a line of a key. `number` is that of the key, as far as it is known from
    /// the lines before: the last line may be too short to be known.
    pub(super) fn of_key(&self, line: &str, number: &mut Option<usize>) -> String {
        *number = self.of_form(line.as_bytes()).or(*number);
        self.placeholder(*number, "private-key")
    }

    fn placeholder(&self, number: Option<usize>, kind: &str) -> String {
        let known = number.and_then(|number| self.placeholders.get(number));
        known.cloned().unwrap_or_else(|| unnumbered(kind))
    }

    /// What to hide in a text, in order, without overlap.
    fn hidden(&self, member: Option<&str>, text: &str) -> Vec<Hidden<'_>> {
        // What the rules found nothing in is not searched again, unless its name matters.
        let is_telling = |name: &str| context::is_telling(name.as_bytes());
        let is_clean = !member.is_some_and(is_telling) && self.searched().has_decoded(text);
        let found =
            if is_clean { Vec::new() } else { self.redactor.find_deep(member, text) }.into_iter();
        let found = found.map(|hit| {
            let number = self.values.number(&hit.value).or_else(|| self.of_form(&hit.value));
            (hit.range, number, hit.kind)
        });
        let mut all: Vec<Hidden<'_>> = found.collect();
        let bytes = text.as_bytes();
        if self.nearby.touches(bytes) || has_escaped_letters(bytes) {
            all.extend(self.known(bytes).into_iter().map(|(range, number)| {
                (range, Some(number), self.values.list[number].kind.as_str())
            }));
        }
        merged(all)
    }

    /// The number of the secret that a form belongs to.
    fn of_form(&self, form: &[u8]) -> Option<usize> {
        let canon = Canon::of(form, Escaping::Escapes).bytes;
        let mut number = None;
        self.exact.each(&canon, |pattern, range| {
            if range == (0..canon.len()) {
                number = Some(self.forms[pattern].number);
            }
        });
        number
    }

    /// Where known secrets are.
    fn known(&self, text: &[u8]) -> Vec<(Range<usize>, usize)> {
        let mut found = Vec::new();
        let is_escaped = memchr::memchr2(b'\\', b'%', text).is_some();
        let has_lines = is_escaped || memchr::memchr(b'\n', text).is_some();
        for reading in ESCAPINGS {
            let is_needed = match reading {
                Escaping::Escapes => true,
                Escaping::Letters => is_escaped,
                Escaping::Numbers => has_lines,
            };
            if !is_needed {
                continue;
            }
            let canon = Canon::of(text, reading);
            self.exact.each(&canon.bytes, |pattern, range| {
                let form = &self.forms[pattern];
                let source = canon.source(range);
                let is_part = !begins(text, source.start)
                    || text.get(source.end).is_some_and(u8::is_ascii_alphanumeric);
                if !(form.is_word && is_part) {
                    found.push((with_signs(text, source, &form.around), form.number));
                }
            });
        }
        if !found.is_empty() {
            let places = placeholder::places(&self.redactor, text);
            let cut = |(range, number): (Range<usize>, usize)| {
                let parts = placeholder::parts(range, text, &places).into_iter();
                parts.map(move |part| (part, number)).collect::<Vec<_>>()
            };
            found = found.into_iter().flat_map(cut).collect();
        }
        found
    }

    /// Copies a text file of any length without its secrets. Returns how many were hidden.
    pub fn copy_text(&self, from: &File, out: &mut dyn Write) -> crate::Result<u64> {
        let length = from.metadata()?.len();
        let places = self.places(from, 0..length)?;
        let mut at = 0;
        for (range, placeholder) in &places {
            copy_range(from, at..range.start, out)?;
            out.write_all(placeholder.as_bytes())?;
            at = range.end;
        }
        copy_range(from, at..length, out)?;
        Ok(places.len() as u64)
    }

    /// What to hide in a range of a file that is too long to hold, or is not JSON, and what to
    /// write in its place.
    pub fn places(
        &self,
        file: &File,
        range: Range<u64>,
    ) -> crate::Result<Vec<(Range<u64>, String)>> {
        let mut all: Vec<Hidden<'_>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + WINDOW + OVERLAP);
            let bytes = read_at(file, at, end - at)?;
            let base = usize::try_from(at).unwrap_or(usize::MAX);
            // Offsets stay the same: each byte that is not UTF-8 is one sign.
            let text = match simdutf8::basic::from_utf8(&bytes) {
                Ok(text) => text.into(),
                Err(_) => ascii(&bytes),
            };
            let hidden = self.hidden(None, &text).into_iter();
            all.extend(
                hidden.map(|(place, number, kind)| {
                    (base + place.start..base + place.end, number, kind)
                }),
            );
            at += WINDOW;
        }
        let places = merged(all).into_iter().map(|(place, number, kind)| {
            (place.start as u64..place.end as u64, self.placeholder(number, kind))
        });
        Ok(places.collect())
    }
}

/// How much of a long file is searched at once, and how much of that again with the next part. The
/// longest key file fits into it.
const WINDOW: u64 = 4 << 20;
const OVERLAP: u64 = 128 << 10;

fn copy_range(from: &File, range: Range<u64>, out: &mut dyn Write) -> crate::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let bytes = read_at(from, at, (range.end - at).min(1 << 20))?;
        out.write_all(&bytes)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Whether letters are written as escapes: then no bytes of a secret may be in a row.
fn has_escaped_letters(text: &[u8]) -> bool {
    static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u00"));
    ESCAPED.find_iter(text).any(|at| printable(text, at + 4).is_some())
}

/// The parts of a form that ordinary text does not have: without `/services/` and the like, most
/// lines are passed over. All of it, if it has no such part.
fn telling(form: &[u8]) -> Vec<Vec<u8>> {
    let has_digit = |part: &[u8]| part.iter().any(u8::is_ascii_digit);
    let is_telling = |part: &&[u8]| {
        part.len() >= 2 * CONTIGUOUS && (has_digit(part) || !words::reads_as_words(part))
    };
    for signs in [&b""[..], b"+/_-"] {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || signs.contains(byte);
        let parts = form.split(|byte| !is_inner(byte)).filter(is_telling);
        let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if !parts.is_empty() {
            return parts;
        }
    }
    vec![form.to_vec()]
}

/// The signs that a form begins with.
fn signs<'a>(form: impl Iterator<Item = &'a u8>) -> Vec<u8> {
    let is_sign = |byte: &&u8| !byte.is_ascii_alphanumeric() && **byte < 0x80;
    form.take_while(is_sign).copied().collect()
}

/// A range and the signs around it that belong to the secret.
fn with_signs(text: &[u8], range: Range<usize>, [before, after]: &[Vec<u8>; 2]) -> Range<usize> {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let front = text[..range.start].iter().rev().zip(before.iter().rev());
    let back = text[range.end..].iter().zip(after.iter().rev());
    range.start - front.take_while(same).count()..range.end + back.take_while(same).count()
}

/// Base64 of a value, in the three ways in which it can stand in a longer text: only the characters
/// that depend on nothing else.
fn in_base64(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for shift in 0..3 {
        let shifted = [&b"\0\0"[..shift], value].concat();
        let coded = STANDARD.encode(&shifted).into_bytes();
        let safe = URL_SAFE.encode(&shifted).into_bytes();
        let range = (shift * 8).div_ceil(6)..shifted.len() * 8 / 6;
        if coded != safe {
            all.push(safe[range.clone()].to_vec());
        }
        all.push(coded[range].to_vec());
    }
    all
}

/// Sorts, and joins what overlaps: the longest names it.
fn merged(mut all: Vec<Hidden<'_>>) -> Vec<Hidden<'_>> {
    all.retain(|(range, ..)| !range.is_empty());
    all.sort_by_key(|(range, number, _)| {
        (range.start, std::cmp::Reverse(range.end), number.is_none())
    });
    let mut merged: Vec<(Hidden<'_>, usize)> = Vec::with_capacity(all.len());
    for one in all {
        let length = one.0.len();
        match merged.last_mut() {
            Some(((range, number, kind), longest)) if one.0.start < range.end => {
                range.end = range.end.max(one.0.end);
                if length > *longest || number.is_none() && one.1.is_some() {
                    (*number, *kind, *longest) = (one.1.or(*number), one.2, length);
                }
            }
            _ => merged.push((one, length)),
        }
    }
    merged.into_iter().map(|(one, _)| one).collect()
}

#[cfg(test)]
#[path = "cover_tests.rs"]
mod tests;
