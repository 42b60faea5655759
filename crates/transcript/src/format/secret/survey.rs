//! Looks through a whole file for secrets, in pieces on several threads.
//!
//! Invariants: the result does not depend on the number of threads; memory is bounded by the size
//! of a piece and of the longest line that is held; nothing that is returned contains a secret,
//! except [`Values`], which prints none.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::sync::Mutex;

use hashbrown::{HashMap, HashSet};

use super::Redactor;
use super::context;
use super::cover::Cover;
use super::key_lines::{KeyLine, KeyLines};
use super::searched::{Lately, Searched, Seeds, is_long};
use super::spot::{Spot, Spots};
use super::strings::each_string;
use super::values::{Values, parts_of};
use crate::format::file::{fill_at, read_at};
use crate::format::json::unescape;
use crate::format::limit::HELD_LINE;
use crate::format::threads::{self, lock};

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A record on each line.
    Lines,
    /// One JSON value.
    Json,
    /// Text, or anything else.
    Text,
}

/// A secret in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The number of its line, from 1; 0 in the name of a file.
    pub line: u64,
    /// The name of its kind.
    pub kind: String,
    /// Where on the line it is.
    pub spot: Spot,
}

/// What was seen in a file.
#[derive(Debug, Default)]
pub struct Survey {
    /// The secrets, in order.
    pub seen: Vec<Sighting>,
    /// The offsets of the lines that they are on.
    pub lines: Vec<u64>,
}

/// What is found in a piece, before its lines are numbered.
struct Find {
    /// How many lines of the piece are before it.
    line: u64,
    /// Where the line begins.
    offset: u64,
    kind: String,
    spot: Spot,
    value: Vec<u8>,
    parts: Vec<Vec<u8>>,
    /// It is a part of the last one.
    is_more: bool,
}

/// What is found in a piece of a file.
#[derive(Default)]
struct PieceFinds {
    finds: Vec<Find>,
    /// How many lines end in it.
    lines: u64,
    /// Texts in which nothing was found, as they are written and decoded.
    clean: HashSet<u128>,
}

/// What records have again and again.
#[derive(Default)]
struct Repeated {
    names: MemberNames,
    lately: Lately,
}

/// What is known of the names of members: every record has the same ones.
#[derive(Default)]
struct MemberNames(HashMap<Vec<u8>, Name>);

#[derive(Clone, Copy)]
struct Name {
    /// Values with that name can be secrets because of it.
    is_telling: bool,
    /// Nothing is found in it.
    is_clean: bool,
}

/// How many names are remembered, and how long they are at most.
const NAMES: usize = 512;
const LONGEST_NAME: usize = 64;

impl MemberNames {
    /// What is known of a name, as it is written.
    fn of(&mut self, redactor: &Redactor, name: &[u8]) -> Name {
        if let Some(known) = self.0.get(name) {
            return *known;
        }
        let text = unescape(name);
        let is_telling = context::is_telling(text.as_bytes());
        let found = Name { is_telling, is_clean: redactor.find_deep(None, &text).is_empty() };
        if self.0.len() < NAMES && name.len() <= LONGEST_NAME {
            self.0.insert(name.to_vec(), found);
        }
        found
    }
}

/// How much of a file is one piece.
const PIECE: u64 = 2 << 20;
/// The same of a file of lines: with small pieces all threads end at about the same time, and the
/// memory of one piece serves the next.
const PIECE_OF_LINES: u64 = 512 << 10;
/// How much is read at a time for the rest of a line, at first.
const REST: usize = 32 << 10;
/// How much of two pieces of a text is the same: the longest key file fits into it.
const OVERLAP: u64 = 128 << 10;

/// Looks through a file. What is found goes to `values`; with a cover, what it knows is looked for,
/// too.
pub fn survey(
    file: &File,
    form: Form,
    redactor: &Redactor,
    cover: Option<&Cover>,
    values: &mut Values,
) -> crate::Result<Survey> {
    let length = file.metadata()?.len();
    let form = if form == Form::Json && length > HELD_LINE as u64 { Form::Text } else { form };
    let size = match form {
        Form::Lines => PIECE_OF_LINES,
        Form::Json => length.max(1),
        Form::Text => PIECE,
    };
    let pieces = usize::try_from(length.div_ceil(size)).unwrap_or(usize::MAX);
    // What was found clean before is looked for by its value alone.
    let known = cover.map(Cover::searched);
    let seeds = known.unwrap_or(&values.searched).seeds.clone();
    let is_line = form == Form::Lines;
    let buffers = Mutex::default();
    let look = Look { file, length, redactor, cover, known, seeds, is_line, buffers };
    let mut survey = Survey::default();
    let mut lines = 0;
    let mut last = 0;
    threads::in_order(
        pieces,
        threads::count(),
        |number| {
            let range = number as u64 * size..length.min((number as u64 + 1) * size);
            match form {
                Form::Lines => look.lines(range),
                Form::Json => look.json(range),
                Form::Text => look.text(range),
            }
        },
        |_, piece: crate::Result<PieceFinds>| {
            let piece = piece?;
            for find in piece.finds {
                if find.is_more {
                    values.add_part(last, &find.value);
                } else {
                    last = values.add(&find.kind, &find.value, find.parts);
                    let line = lines + find.line + 1;
                    survey.seen.push(Sighting { line, kind: find.kind, spot: find.spot });
                }
                if survey.lines.last() != Some(&find.offset) {
                    survey.lines.push(find.offset);
                }
            }
            lines += piece.lines;
            if cover.is_none() {
                values.searched.add(piece.clean);
            }
            Ok::<(), crate::Error>(())
        },
    )?;
    Ok(survey)
}

/// Looks through the name of a file, as [`survey`] looks through what is in it.
pub fn survey_name(
    name: &str,
    redactor: &Redactor,
    cover: Option<&Cover>,
    values: &mut Values,
) -> Vec<Sighting> {
    let at = |kind: &str| Sighting { line: 0, kind: kind.to_owned(), spot: Spot::Name };
    let mut seen = Vec::new();
    for hit in redactor.find_deep(None, name) {
        values.add(hit.kind, &hit.value, parts_of(&hit));
        seen.push(at(hit.kind));
    }
    if seen.is_empty() && cover.is_some_and(|cover| cover.stands_in(name.as_bytes())) {
        seen.push(at(KNOWN));
    }
    seen
}

/// The kind of a secret that is known, in a form in which it is not recognized.
const KNOWN: &str = "known-secret";

struct Look<'a> {
    file: &'a File,
    length: u64,
    redactor: &'a Redactor,
    cover: Option<&'a Cover>,
    known: Option<&'a Searched>,
    seeds: Seeds,
    /// The file has records.
    is_line: bool,
    /// The memory of pieces that were looked through, for the next ones.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Look<'_> {
    /// The lines that begin in a range, and how many end in it.
    fn lines(&self, range: Range<u64>) -> crate::Result<PieceFinds> {
        // The byte before shows whether a line begins with the range.
        let from = range.start.saturating_sub(1);
        let held = usize::try_from(range.end - from).unwrap_or_default();
        let mut bytes = lock(&self.buffers).pop().unwrap_or_default();
        // What is in it is overwritten.
        bytes.resize(held, 0);
        fill_at(self.file, from, &mut bytes)?;
        let piece = self.lines_in(&mut bytes, from, range)?;
        lock(&self.buffers).push(bytes);
        Ok(piece)
    }

    /// The same, of bytes that were read from an offset on.
    fn lines_in(
        &self,
        bytes: &mut Vec<u8>,
        from: u64,
        range: Range<u64>,
    ) -> crate::Result<PieceFinds> {
        let (mut piece, mut repeated) = (PieceFinds::default(), Repeated::default());
        let inside = if range.start == 0 { &bytes[..] } else { &bytes[1..] };
        piece.lines = memchr::memchr_iter(b'\n', inside).count() as u64;
        let first =
            if range.start == 0 { Some(0) } else { memchr::memchr(b'\n', bytes).map(|at| at + 1) };
        let Some(mut at) = first else { return Ok(piece) };
        // A newline right before the range is not one of its lines.
        let mut line = u64::from(range.start > 0 && at > 1);
        let base = |at: usize| from + at as u64;
        while base(at) < range.end {
            let end = match memchr::memchr(b'\n', &bytes[at..]) {
                Some(end) => at + end,
                None if self.fill(bytes, from, at)? => {
                    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end)
                }
                None => {
                    // Too long to hold.
                    let end = self.line_end(base(bytes.len()))?;
                    self.long(base(at)..end, line, &mut piece.finds)?;
                    break;
                }
            };
            self.line(&bytes[at..end], line, base(at), &mut piece, &mut repeated);
            line += 1;
            at = end + 1;
        }
        Ok(piece)
    }

    /// Reads on to the end of a line. Returns false if it is too long to hold.
    fn fill(&self, bytes: &mut Vec<u8>, from: u64, at: usize) -> crate::Result<bool> {
        loop {
            let end = from + bytes.len() as u64;
            if end >= self.length {
                return Ok(true);
            }
            if bytes.len() - at > HELD_LINE {
                return Ok(false);
            }
            let before = bytes.len();
            self.read_on(end, self.length.min(end + REST.max(before - at) as u64), bytes)?;
            if memchr::memchr(b'\n', &bytes[before..]).is_some() {
                return Ok(true);
            }
        }
    }

    /// Adds a range of the file to what is in memory.
    fn read_on(&self, from: u64, to: u64, bytes: &mut Vec<u8>) -> crate::Result<()> {
        let begin = bytes.len();
        bytes.resize(begin + usize::try_from(to - from).unwrap_or_default(), 0);
        fill_at(self.file, from, &mut bytes[begin..])
    }

    fn line_end(&self, mut at: u64) -> crate::Result<u64> {
        while at < self.length {
            let more = read_at(self.file, at, (self.length - at).min(PIECE))?;
            if let Some(end) = memchr::memchr(b'\n', &more) {
                return Ok(at + end as u64);
            }
            at += more.len() as u64;
        }
        Ok(at)
    }

    /// A line that is too long to hold is text.
    fn long(&self, range: Range<u64>, line: u64, finds: &mut Vec<Find>) -> crate::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + PIECE);
            let more = self.text_in(at..end, range.end)?;
            finds.extend(more.into_iter().map(|find| Find {
                line,
                offset: range.start,
                spot: Spot::Record,
                ..find
            }));
            at = end;
        }
        Ok(())
    }

    fn line(
        &self,
        bytes: &[u8],
        line: u64,
        offset: u64,
        piece: &mut PieceFinds,
        repeated: &mut Repeated,
    ) {
        let PieceFinds { finds, clean, .. } = piece;
        let Repeated { names, lately } = repeated;
        let before = finds.len();
        if !bytes.trim_ascii_start().starts_with(b"{") && self.is_line {
            // Not a record.
            let text = String::from_utf8_lossy(bytes);
            for hit in self.redactor.find_deep(None, &text) {
                let (kind, spot, parts) = (hit.kind.to_owned(), Spot::Damage, parts_of(&hit));
                let (value, is_more) = (hit.value, false);
                finds.push(Find { line, offset, kind, spot, value, parts, is_more });
            }
            if finds.len() == before && self.cover.is_some_and(|cover| cover.stands_in(bytes)) {
                finds.push(Look::known(line, offset));
            }
            return;
        }
        let mut key = KeyLines::default();
        let mut spots = None;
        each_string(bytes, |string| {
            if self.redactor.needs_more(string.range.len()) && !string.is_in_list() {
                return;
            }
            let inner = &bytes[string.range.clone()];
            if string.is_name && names.of(self.redactor, inner).is_clean {
                return;
            }
            let member = string.member.filter(|name| names.of(self.redactor, name).is_telling);
            let is_alone = member.is_none() && !string.is_in_list();
            let hash = is_alone.then(|| self.seeds.hash(inner));
            let is_long = is_long(inner);
            let is_known = |hash| {
                let before = || self.known.is_some_and(|known| known.has(hash));
                if is_long { clean.contains(&hash) || before() } else { lately.has(hash) }
            };
            if hash.is_some_and(is_known) {
                return;
            }
            let text = unescape(inner);
            let mut make = |kind: &str, value: &[u8], parts, is_more| {
                let spots = spots.get_or_insert_with(|| Spots::of(bytes));
                let spot = spots.at(string.range.start);
                let (kind, value) = (kind.to_owned(), value.to_vec());
                Find { line, offset, kind, spot, value, parts, is_more }
            };
            if string.is_in_list()
                && let Some((which, range)) = key.line(&text)
            {
                let value = &text.as_bytes()[range];
                finds.push(make("private-key", value, Vec::new(), which == KeyLine::More));
                return;
            }
            let hits = self.redactor.find_deep(member.map(unescape).as_deref(), &text);
            match hash.filter(|_| hits.is_empty()) {
                Some(hash) if is_long => {
                    clean.insert(hash);
                    if let Cow::Owned(text) = &text {
                        clean.extend(self.seeds.hash_decoded(text));
                    }
                }
                Some(hash) => lately.add(hash),
                None => {}
            }
            for hit in hits {
                finds.push(make(hit.kind, &hit.value, parts_of(&hit), false));
            }
        });
        if finds.len() == before && self.cover.is_some_and(|cover| cover.stands_in(bytes)) {
            finds.push(Look::known(line, offset));
        }
    }

    /// A secret that is known, in a form in which it is not recognized.
    fn known(line: u64, offset: u64) -> Find {
        let (spot, kind) = (Spot::Record, KNOWN.to_owned());
        Find { line, offset, kind, spot, value: Vec::new(), parts: Vec::new(), is_more: false }
    }

    fn json(&self, range: Range<u64>) -> crate::Result<PieceFinds> {
        let mut piece = PieceFinds::default();
        let bytes = read_at(self.file, range.start, range.end - range.start)?;
        self.line(&bytes, 0, 0, &mut piece, &mut Repeated::default());
        for find in &mut piece.finds {
            find.spot = Spot::File;
        }
        Ok(piece)
    }

    fn text(&self, range: Range<u64>) -> crate::Result<PieceFinds> {
        let finds = self.text_in(range.clone(), self.length)?;
        let bytes = read_at(self.file, range.start, range.end - range.start)?;
        let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        Ok(PieceFinds { finds, lines, ..PieceFinds::default() })
    }

    /// What begins in a range of a text that ends at `end`.
    fn text_in(&self, range: Range<u64>, end: u64) -> crate::Result<Vec<Find>> {
        let bytes = read_at(self.file, range.start, end.min(range.end + OVERLAP) - range.start)?;
        let text = String::from_utf8_lossy(&bytes);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut finds = Vec::new();
        // The lines before the last hit, and where it begins.
        let (mut line, mut at) = (0, 0);
        for hit in self.redactor.find_deep(None, &text) {
            if hit.range.start < length {
                let before = &text.as_bytes()[at..hit.range.start];
                line += memchr::memchr_iter(b'\n', before).count() as u64;
                at = hit.range.start;
                let parts = parts_of(&hit);
                let (kind, spot) = (hit.kind.to_owned(), Spot::File);
                let (value, is_more) = (hit.value, false);
                finds.push(Find { line, offset: 0, kind, spot, value, parts, is_more });
            }
        }
        if finds.is_empty() && self.cover.is_some_and(|cover| cover.stands_in(&bytes)) {
            finds.push(Find { spot: Spot::File, ..Look::known(0, 0) });
        }
        Ok(finds)
    }
}
