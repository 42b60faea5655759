//! New ids for a session: every id in it is mapped, and stays unique.
//!
//! A record's new id is its old one with some bits flipped, the same bits everywhere. So distinct
//! ids stay distinct, and references stay valid without a list of all ids. The new session's id
//! determines which bits. Ids are recognized by their form (36 characters with dashes at fixed
//! places) wherever they are: in members, in paths, in texts. Ids of other forms are only replaced
//! in members that are known to contain an id. Invariants: signed content (thinking) is never
//! changed; ids that do not belong to this session stay.

use std::mem;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use memchr::{memchr, memmem};

use super::splice::{Splices, range_of};
use crate::conversation::table::Table;
use crate::format::entry::Kind;
use crate::format::json::{Json, Shape, quote};

/// The mapping from old to new ids.
#[derive(Clone, Debug)]
pub struct Renames {
    session: String,
    mask: u128,
    /// The session ids that occur in records.
    sessions: HashSet<u128>,
    records: HashSet<u128>,
    /// Ids of other forms, for sessions and for records.
    odd_sessions: HashSet<String>,
    odd_records: HashSet<String>,
    /// Sub-agents whose files need new names: old and new id.
    agents: Vec<(String, String)>,
    /// Ids with new ones of their own.
    places: HashMap<u128, String>,
}

/// The length of an id, and the places of its dashes.
const LENGTH: usize = 36;
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Renames {
    /// New ids for the session `old`, which becomes the session `new`.
    pub fn new(old: &str, new: &str) -> Renames {
        Renames::salted(old, new, new)
    }

    /// Like [`Renames::new`], with ids that differ for each `salt`.
    pub(super) fn salted(old: &str, new: &str, salt: &str) -> Renames {
        // The bits for version and variant stay.
        let fixed: u128 = 0xf << 76 | 0x3 << 62;
        let mask = hash(salt) & !fixed | 1;
        let mut renames = Renames {
            session: new.to_owned(),
            mask,
            sessions: HashSet::new(),
            records: HashSet::new(),
            odd_sessions: HashSet::new(),
            odd_records: HashSet::new(),
            agents: Vec::new(),
            places: HashMap::new(),
        };
        renames.learn_session(old);
        renames
    }

    /// No new ids.
    pub(super) fn none(session: &str) -> Renames {
        let mut renames = Renames::new(session, session);
        renames.sessions.clear();
        renames.odd_sessions.clear();
        renames
    }

    /// Maps one id of the usual form to another, of any form.
    pub(super) fn put(&mut self, old: &str, new: String) {
        if let Some(old) = parse(old.as_bytes()) {
            self.places.insert(old, new);
        }
    }

    /// The new id that one id has for itself.
    fn placed(&self, number: u128) -> Option<&str> {
        self.places.get(&number).map(String::as_str)
    }

    /// The id of the new session.
    pub fn session(&self) -> &str {
        &self.session
    }

    fn learn_session(&mut self, id: &str) {
        match parse(id.as_bytes()) {
            Some(number) => _ = self.sessions.insert(number),
            None => _ = self.odd_sessions.insert(id.to_owned()),
        }
    }

    /// Adds the ids of a file's records, and the ids that they refer to.
    pub fn learn(&mut self, table: &Table) {
        let sessions: HashSet<_> = table.rows().iter().filter_map(|row| row.session).collect();
        for id in sessions {
            self.learn_session(table.ids.text(id));
        }
        self.records.reserve(table.rows().len());
        let of_rows = table.rows().iter().flat_map(|row| [row.uuid, row.parent]);
        let logical = table.boundaries.iter().map(|boundary| boundary.logical_parent);
        let mut known = vec![false; table.ids.len()];
        for id in of_rows.chain(logical).chain([table.named_leaf]).flatten() {
            // Most ids occur twice: as the id of one record and as the parent of another.
            if mem::replace(&mut known[id.index()], true) {
                continue;
            }
            let text = table.ids.text(id);
            match parse(text.as_bytes()) {
                // No record has this id.
                Some(0) => {}
                Some(number) => _ = self.records.insert(number),
                None => _ = self.odd_records.insert(text.to_owned()),
            }
        }
    }

    /// A new id, of the same form, for a sub-agent whose file is next to the session files.
    pub fn learn_agent(&mut self, old: &str) -> String {
        let bits = format!("{:032x}", hash(&format!("{}/{old}", self.session)));
        // From 2.0.76 on, the first character indicates the kind.
        let keeps = usize::from(old.starts_with('a') && old.len() != 8);
        let new = format!("{}{}", &old[..keeps], bits.get(..old.len() - keeps).unwrap_or(&bits));
        self.agents.push((old.to_owned(), new.clone()));
        new
    }

    /// The new id of a record.
    pub fn record(&self, old: &str) -> String {
        format(parse(old.as_bytes()).unwrap_or_else(|| hash(old)) ^ self.mask)
    }

    /// Appends bytes with their ids mapped. Protected ranges stay unchanged.
    pub(super) fn map(&self, bytes: &[u8], protected: &[Range<usize>], out: &mut Vec<u8>) {
        let from = out.len();
        let (mut done, mut at) = (0, 0);
        while let Some(found) = memchr(b'-', &bytes[at..]) {
            let dash = at + found;
            at = dash + 1;
            let Some(start) = dash.checked_sub(DASHES[0]).filter(|start| *start >= done) else {
                continue;
            };
            let Some(token) = bytes.get(start..start + LENGTH) else { break };
            if token[DASHES[1]] != b'-' || token[DASHES[2]] != b'-' {
                continue;
            }
            let Some(number) = parse(token) else { continue };
            let is_session = self.sessions.contains(&number);
            let placed = self.placed(number);
            if !is_session && placed.is_none() && !self.records.contains(&number)
                || protected.iter().any(|range| range.contains(&start))
            {
                continue;
            }
            out.extend_from_slice(&bytes[done..start]);
            if let Some(new) = placed {
                out.extend_from_slice(new.as_bytes());
            } else if is_session {
                out.extend_from_slice(self.session.as_bytes());
            } else {
                out.extend_from_slice(format(number ^ self.mask).as_bytes());
            }
            done = start + LENGTH;
            at = done;
        }
        out.extend_from_slice(&bytes[done..]);
        // A record with protected ranges contains no agent ids that anything looks up.
        for (old, new) in self.agents.iter().filter(|_| protected.is_empty()) {
            replace_word(out, from, old.as_bytes(), new.as_bytes());
        }
    }

    /// Appends a record with its ids mapped.
    pub(super) fn map_record(
        &self,
        kind: Kind,
        bytes: &[u8],
        protected: &[Range<usize>],
        out: &mut Vec<u8>,
    ) {
        let is_plain = matches!(
            kind,
            Kind::User
                | Kind::Assistant
                | Kind::Attachment
                | Kind::Progress
                | Kind::System
                | Kind::ApiRequest
                | Kind::ApiRequestShape
                | Kind::ApiRequestBlob
        );
        // Ids of the usual form are found wherever they are; others by the names of their members.
        if is_plain && self.odd_records.is_empty() && self.odd_sessions.is_empty() {
            return self.map(bytes, protected, out);
        }
        let splices = self.members_of(bytes);
        if splices.is_empty() {
            return self.map(bytes, protected, out);
        }
        // Offsets shift, but protected ranges contain none of these members.
        let mut done = 0;
        for (range, value) in splices.list() {
            self.map(&bytes[done..range.start], &shifted(protected, done), out);
            out.extend_from_slice(value);
            done = range.end;
        }
        self.map(&bytes[done..], &shifted(protected, done), out);
    }

    /// Appends a value that is inserted into a record, with its ids mapped.
    pub(super) fn map_value(&self, value: &[u8], out: &mut Vec<u8>) {
        let odd = Json::parse(value)
            .and_then(Json::text)
            .filter(|text| self.odd_records.contains(&**text));
        match odd {
            Some(text) => out.extend_from_slice(quote(&self.record(&text)).as_bytes()),
            None => self.map(value, &[], out),
        }
    }

    /// The members of a record that refer to a record or a session and are not recognized by their
    /// form.
    pub(super) fn members_of(&self, bytes: &[u8]) -> Splices {
        let mut splices = Splices::default();
        if let Some(json) = Json::parse(bytes) {
            self.members(json, bytes, true, &mut splices);
        }
        splices
    }

    /// Searches for members that refer to a record or a session, except inside messages and tool
    /// results.
    fn members(&self, json: Json<'_>, whole: &[u8], is_top: bool, splices: &mut Splices) {
        let Some(object) = json.object() else {
            for element in json.elements() {
                self.members(element, whole, false, splices);
            }
            return;
        };
        for (name, value) in object.members() {
            match value.shape() {
                Shape::String => self.member(&name, value, whole, splices),
                Shape::Array if is_reference(&name) => {
                    for element in value.elements() {
                        self.member(&name, element, whole, splices);
                    }
                }
                _ if is_top && matches!(&*name, "message" | "toolUseResult") => {}
                Shape::Object | Shape::Array => self.members(value, whole, false, splices),
                _ => {}
            }
        }
    }

    fn member(&self, name: &str, value: Json<'_>, whole: &[u8], splices: &mut Splices) {
        let Some(text) = value.text() else { return };
        let is_session = matches!(name, "sessionId" | "session_id");
        let new = match parse(text.as_bytes()) {
            Some(0) => return,
            Some(number) if self.placed(number).is_some() => {
                self.placed(number).unwrap_or_default().to_owned()
            }
            Some(number) if is_reference(name) && !self.sessions.contains(&number) => {
                format(number ^ self.mask)
            }
            None if is_session && self.odd_sessions.contains(&*text) => self.session.clone(),
            None if is_reference(name) && self.odd_records.contains(&*text) => self.record(&text),
            _ => return,
        };
        if let Some(range) = range_of(value.raw(), whole) {
            splices.put(range, quote(&new).into_bytes());
        }
    }
}

/// Whether a member with that name refers to a record.
fn is_reference(name: &str) -> bool {
    let has_end = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    // A queued command is not a record, and attachments refer to it too.
    (name != "commandUuid" && has_end(&["uuid", "Uuid", "UUID", "uuids", "Uuids"]))
        || matches!(name, "messageId" | "snapshotMessageId")
}

/// Ranges relative to a later start.
fn shifted(ranges: &[Range<usize>], by: usize) -> Vec<Range<usize>> {
    let behind = ranges.iter().filter(|range| range.end > by);
    behind.map(|range| range.start.saturating_sub(by)..range.end - by).collect()
}

/// The bits of an id of the usual form; `None` for other forms.
fn parse(text: &[u8]) -> Option<u128> {
    let text: &[u8; LENGTH] = text.try_into().ok()?;
    if DASHES.iter().any(|dash| text[*dash] != b'-') {
        return None;
    }
    let (mut number, mut all) = (0, 0);
    let groups = [&text[..8], &text[9..13], &text[14..18], &text[19..23], &text[24..]];
    for byte in groups.into_iter().flatten() {
        let digit = DIGITS[usize::from(*byte)];
        all |= digit;
        number = number << 4 | u128::from(digit);
    }
    (all < 16).then_some(number)
}

/// The value of each byte as a hexadecimal digit.
const DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut digit = 0_u8;
    while digit < 16 {
        let letter = digit.wrapping_sub(10);
        if digit < 10 {
            digits[(b'0' + digit) as usize] = digit;
        } else {
            digits[(b'a' + letter) as usize] = digit;
            digits[(b'A' + letter) as usize] = digit;
        }
        digit += 1;
    }
    digits
};

fn format(number: u128) -> String {
    let mut shift = u128::BITS;
    let mut next = || {
        shift -= 4;
        char::from_digit((number >> shift & 0xf) as u32, 16).unwrap_or_default()
    };
    (0..LENGTH).map(|at| if DASHES.contains(&at) { '-' } else { next() }).collect()
}

/// The bits by which two ids of the usual form differ.
pub(super) fn apart(one: &str, other: &str) -> Option<u128> {
    Some(parse(one.as_bytes())? ^ parse(other.as_bytes())?)
}

/// An id with some bits flipped.
pub(super) fn flipped(id: &str, bits: u128) -> Option<String> {
    parse(id.as_bytes()).map(|number| format(number ^ bits))
}

/// An id derived from a text.
pub(super) fn made(text: &str) -> String {
    let fixed: u128 = 0xf << 76 | 0x3 << 62;
    format(hash(text) & !fixed | 0x4 << 76 | 0x2 << 62)
}

/// A hash of a text: the same in every run, and as good as random.
fn hash(text: &str) -> u128 {
    let mut number: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for round in 0..2 {
        for byte in text.bytes() {
            number = (number ^ u128::from(byte) ^ round)
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        number ^= number >> 61;
    }
    number
}

/// Replaces one word with another, from an offset on.
fn replace_word(bytes: &mut Vec<u8>, from: usize, old: &[u8], new: &[u8]) {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_word = |at: usize| {
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + old.len()))
    };
    let found = memmem::find_iter(&bytes[from..], old).map(|at| from + at);
    let places: Vec<usize> = found.filter(|at| is_word(*at)).collect();
    for at in places.into_iter().rev() {
        bytes.splice(at..at + old.len(), new.iter().copied());
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
