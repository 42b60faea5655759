//! Takes pages out of a PDF: a document with these pages alone, and what they use.
//!
//! Objects are found by reading the file from its beginning, whatever its tables say, so that a
//! damaged table does no harm; a later object replaces an earlier one of the same number, as in
//! documents that were saved again. Invariants: total and bounded, whatever the bytes are; objects
//! are copied byte for byte, only the pages themselves are written anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write as _};

use flate2::read::ZlibDecoder;

/// How deep values and trees of pages may be nested.
const DEEPEST: usize = 64;
/// How many objects there may be.
const OBJECTS: usize = 1 << 20;
/// How much may be broken.
const MOST_BROKEN: usize = 16;
/// How many bytes compressed objects may have, all together.
const INFLATED: u64 = 128 << 20;
/// What a page has from the folders that it is in.
const INHERITED: [&[u8]; 4] = [b"Resources", b"MediaBox", b"CropBox", b"Rotate"];

/// An object.
#[derive(Clone, Debug)]
struct Object {
    generation: u32,
    /// The value.
    value: Vec<u8>,
    /// What follows the value, if it is a stream: from `stream` to `endstream`.
    stream: Vec<u8>,
}

/// A document whose pages are known.
#[derive(Debug)]
pub(super) struct Pages {
    objects: BTreeMap<u32, Object>,
    /// The objects of the pages, in order.
    order: Vec<u32>,
    /// The pages, with what they inherit.
    dicts: BTreeMap<u32, Vec<Member>>,
    /// How many more nodes of the tree may be looked at.
    left: usize,
}

/// A name and a value of a dictionary.
type Member = (Vec<u8>, Vec<u8>);

impl Pages {
    /// Finds the pages of a document.
    pub(super) fn find(bytes: &[u8]) -> Option<Pages> {
        let (mut objects, root) = objects(bytes);
        let root = unpack(&mut objects).or(root)?;
        let catalog = Dict::of(&objects.get(&root)?.value)?;
        let top = reference(catalog.get(b"Pages")?)?;
        let mut found = Pages { objects, order: Vec::new(), dicts: BTreeMap::new(), left: OBJECTS };
        let mut seen = BTreeSet::new();
        found.walk(top, &[], &mut seen, 0);
        (!found.order.is_empty()).then_some(found)
    }

    /// The number of pages.
    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    fn walk(&mut self, number: u32, above: &[Member], seen: &mut BTreeSet<u32>, depth: usize) {
        if depth > DEEPEST || !seen.insert(number) {
            return;
        }
        let Some(object) = self.objects.get(&number) else { return };
        let Some(dict) = Dict::of(&object.value) else { return };
        let mut inherited: Vec<Member> = above.to_vec();
        for name in INHERITED {
            if let Some(value) = dict.get(name) {
                inherited.retain(|(known, _)| known != name);
                inherited.push((name.to_vec(), value.to_vec()));
            }
        }
        if let Some(kids) = dict.get(b"Kids") {
            // A list can be an object by itself.
            let list = reference(kids).and_then(|kids| self.objects.get(&kids));
            let list = list.map_or(kids, |list| list.value.as_slice());
            for kid in references(list) {
                let Some(left) = self.left.checked_sub(1) else { return };
                self.left = left;
                self.walk(kid, &inherited, seen, depth + 1);
            }
            return;
        }
        let mut page = dict.0;
        page.retain(|(name, _)| name != b"Parent");
        for (name, value) in inherited {
            if !page.iter().any(|(known, _)| *known == name) {
                page.push((name, value));
            }
        }
        self.order.push(number);
        self.dicts.insert(number, page);
    }

    /// A document with these pages, counted from 1.
    pub(super) fn only(&self, wanted: &[usize]) -> Option<Vec<u8>> {
        let wanted: Vec<u32> = wanted
            .iter()
            .filter_map(|page| self.order.get(page.checked_sub(1)?).copied())
            .collect();
        let next = self.objects.keys().next_back()?.checked_add(1)?;
        let (tree, catalog) = (next, next.checked_add(1)?);
        let mut out = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut places: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        let mut open: Vec<u32> = Vec::new();
        for page in &wanted {
            if places.contains_key(page) {
                continue;
            }
            places.insert(*page, (out.len(), 0));
            let _ = write!(out, "{page} 0 obj\n<< /Parent {tree} 0 R");
            for (name, value) in self.dicts.get(page)? {
                out.extend([b" /".as_slice(), name, b" ", value].concat());
                open.extend(references(value));
            }
            out.extend(b" >>\nendobj\n");
        }
        while let Some(number) = open.pop() {
            // Pages that nobody wants are not there, and what leads to them leads nowhere.
            let is_done = self.dicts.contains_key(&number) || places.contains_key(&number);
            let Some(object) = self.objects.get(&number).filter(|_| !is_done) else { continue };
            places.insert(number, (out.len(), object.generation));
            open.extend(references(&object.value));
            let _ = writeln!(out, "{number} {} obj", object.generation);
            out.extend(&object.value);
            out.extend(&object.stream);
            out.extend(b"\nendobj\n");
        }
        let kids: Vec<String> = wanted.iter().map(|page| format!("{page} 0 R")).collect();
        places.insert(tree, (out.len(), 0));
        let (count, kids) = (kids.len(), kids.join(" "));
        let _ =
            writeln!(out, "{tree} 0 obj\n<< /Type /Pages /Count {count} /Kids [{kids}] >>\nendobj");
        places.insert(catalog, (out.len(), 0));
        let _ = writeln!(out, "{catalog} 0 obj\n<< /Type /Catalog /Pages {tree} 0 R >>\nendobj");
        let start = out.len();
        let _ = writeln!(out, "xref\n0 1\n0000000000 65535 f ");
        for (number, (place, generation)) in &places {
            let _ = writeln!(out, "{number} 1\n{place:010} {generation:05} n ");
        }
        let _ = writeln!(
            out,
            "trailer\n<< /Size {} /Root {catalog} 0 R >>\nstartxref\n{start}\n%%EOF",
            catalog + 1
        );
        Some(out)
    }
}

/// All objects of a file, and its root, if the file says it outside of them.
fn objects(bytes: &[u8]) -> (BTreeMap<u32, Object>, Option<u32>) {
    let mut found = BTreeMap::new();
    let (mut at, mut failures) = (0, 0);
    while let Some(next) = memchr::memmem::find(bytes.get(at..).unwrap_or_default(), b"obj") {
        let word = at + next;
        at = word + 3;
        let Some((number, generation)) = heading(&bytes[..word]) else { continue };
        let start = skip_space(bytes, at);
        let end = value_end(bytes, start, 0);
        let whole = end.and_then(|end| Some((end, stream(bytes, end, &bytes[start..end])?)));
        let Some((end, (stream, after))) = whole else {
            // To find that something does not end can mean to read all of the file.
            failures += 1;
            if failures > MOST_BROKEN {
                break;
            }
            continue;
        };
        at = after.max(at);
        if found.len() >= OBJECTS {
            break;
        }
        let value = bytes[start..end].to_vec();
        found.insert(number, Object { generation, value, stream });
    }
    (found, trailer(bytes))
}

/// The root that the last trailer names.
fn trailer(bytes: &[u8]) -> Option<u32> {
    let mut before = bytes;
    for _ in 0..MOST_BROKEN {
        let at = memchr::memmem::rfind(before, b"trailer")?;
        let dict = Dict::of(&bytes[skip_space(bytes, at + b"trailer".len())..]);
        let root = dict.and_then(|dict| reference(dict.get(b"Root")?));
        if root.is_some() {
            return root;
        }
        before = &bytes[..at];
    }
    None
}

/// `12 0 ` before `obj`.
fn heading(before: &[u8]) -> Option<(u32, u32)> {
    let tail = &before[before.len().saturating_sub(32)..];
    let text: String = tail.iter().map(|byte| char::from(*byte)).collect();
    if !text.ends_with(|c: char| c.is_ascii_whitespace()) {
        return None;
    }
    let mut words = text.rsplit(|c: char| c.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let generation = words.next()?.parse().ok()?;
    let number = words.next()?;
    let digits = number.trim_start_matches(|c: char| !c.is_ascii_digit());
    Some((digits.parse().ok()?, generation))
}

/// The stream that follows a value, if there is one, and where it ends; None if it does not end.
fn stream(bytes: &[u8], end: usize, value: &[u8]) -> Option<(Vec<u8>, usize)> {
    let word = skip_space(bytes, end);
    if !bytes[word..].starts_with(b"stream") {
        return Some((Vec::new(), end));
    }
    let mut data = word + b"stream".len();
    if bytes.get(data) == Some(&b'\r') {
        data += 1;
    }
    if bytes.get(data) == Some(&b'\n') {
        data += 1;
    }
    // Where it ends is what its length says, if that is so; otherwise the next place that says so.
    let length = Dict::of(value).and_then(|dict| number(dict.get(b"Length")?));
    let by_length = length.and_then(|length| data.checked_add(length)).filter(|end| {
        let after = skip_space(bytes, *end);
        bytes.get(after..).is_some_and(|rest| rest.starts_with(b"endstream"))
    });
    let rest = bytes.get(data..)?;
    let by_word = || Some(data + memchr::memmem::find(rest, b"endstream")?);
    let end = by_length.or_else(by_word)?;
    let after = (skip_space(bytes, end) + b"endstream".len()).min(bytes.len());
    Some(([b"\n".as_slice(), &bytes[word..after]].concat(), after))
}

/// Adds the objects that are compressed in others. Returns the root that a table says that is an
/// object itself.
fn unpack(objects: &mut BTreeMap<u32, Object>) -> Option<u32> {
    let mut root = None;
    let mut left = INFLATED;
    let mut inner = Vec::new();
    for object in objects.values().filter(|object| !object.stream.is_empty()) {
        let Some(dict) = Dict::of(&object.value) else { continue };
        match dict.get(b"Type") {
            Some(b"/XRef") => root = dict.get(b"Root").and_then(reference).or(root),
            Some(b"/ObjStm") => {
                let Some(bytes) = inflated(&dict, &object.stream, &mut left) else { continue };
                inner.extend(contained(&dict, &bytes));
            }
            _ => {}
        }
    }
    for (number, value) in inner {
        let object = Object { generation: 0, value, stream: Vec::new() };
        objects.entry(number).or_insert(object);
    }
    root
}

/// The contents of a stream; None if they are packed in another way.
fn inflated(dict: &Dict, stream: &[u8], left: &mut u64) -> Option<Vec<u8>> {
    let at = memchr::memmem::find(stream, b"stream")? + b"stream".len();
    let end = stream.len().checked_sub(b"endstream".len())?;
    let data = stream.get(at..end)?;
    let data = data.strip_prefix(b"\r").unwrap_or(data);
    let data = data.strip_prefix(b"\n").unwrap_or(data);
    let mut out = Vec::new();
    match dict.get(b"Filter").map(<[u8]>::trim_ascii) {
        None => out.extend(data),
        Some(b"/FlateDecode" | b"[/FlateDecode]" | b"[ /FlateDecode ]")
            if dict.get(b"DecodeParms").is_none() =>
        {
            // What could be read before an error counts.
            let _ = ZlibDecoder::new(data).take(*left).read_to_end(&mut out);
        }
        Some(_) => return None,
    }
    *left = left.saturating_sub(out.len() as u64);
    Some(out)
}

/// The objects in the contents of an object stream: their numbers and values.
fn contained(dict: &Dict, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let count = dict.get(b"N").and_then(number).unwrap_or(0).min(OBJECTS);
    let first = dict.get(b"First").and_then(number).unwrap_or(0);
    let head = String::from_utf8_lossy(bytes.get(..first).unwrap_or_default()).into_owned();
    let numbers: Vec<usize> =
        head.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let pairs: Vec<&[usize]> = numbers.chunks_exact(2).take(count).collect();
    let values = pairs.iter().enumerate().filter_map(|(at, pair)| {
        // Each ends before the next begins.
        let start = first.checked_add(pair[1])?;
        let next = pairs.get(at + 1).and_then(|next| first.checked_add(next[1]));
        let inner = bytes.get(start..next.unwrap_or(bytes.len()).min(bytes.len()))?;
        let start = skip_space(inner, 0);
        let end = value_end(inner, start, 0)?;
        Some((u32::try_from(pair[0]).ok()?, inner[start..end].to_vec()))
    });
    values.collect()
}

/// The members of a dictionary, in their order.
struct Dict(Vec<Member>);

impl Dict {
    fn of(bytes: &[u8]) -> Option<Dict> {
        let inner = bytes.strip_prefix(b"<<")?;
        let mut members = Vec::new();
        let mut at = skip_space(inner, 0);
        while inner.get(at) == Some(&b'/') {
            let end = value_end(inner, at, 0)?;
            let start = skip_space(inner, end);
            let value = value_end(inner, start, 0)?;
            members.push((inner[at + 1..end].to_vec(), inner[start..value].to_vec()));
            at = skip_space(inner, value);
        }
        inner.get(at..)?.starts_with(b">>").then_some(Dict(members))
    }

    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let member = self.0.iter().find(|(known, _)| known == name);
        member.map(|(_, value)| value.as_slice())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

/// The place behind white space and comments.
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        if is_space(*byte) {
            at += 1;
        } else if *byte == b'%' {
            let line = bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            at = line.map_or(bytes.len(), |line| at + line);
        } else {
            break;
        }
    }
    at.min(bytes.len())
}

/// Where a word ends.
fn word_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().position(|byte| is_space(*byte) || is_delimiter(*byte));
    at + length.unwrap_or(rest.len())
}

/// Where the value ends that begins here; a reference is one value.
fn value_end(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    if depth > DEEPEST {
        return None;
    }
    match bytes.get(at)? {
        b'/' => Some(word_end(bytes, at + 1)),
        b'(' => text_end(bytes, at),
        b'<' if bytes.get(at + 1) == Some(&b'<') => members_end(bytes, at + 2, b">>", depth),
        b'<' => Some(at + bytes[at..].iter().position(|byte| *byte == b'>')? + 1),
        b'[' => members_end(bytes, at + 1, b"]", depth),
        _ => {
            let end = word_end(bytes, at);
            if end == at {
                return None;
            }
            Some(reference_end(bytes, at, end).unwrap_or(end))
        }
    }
}

fn members_end(bytes: &[u8], mut at: usize, close: &[u8], depth: usize) -> Option<usize> {
    loop {
        at = skip_space(bytes, at);
        if bytes.get(at..)?.starts_with(close) {
            return Some(at + close.len());
        }
        at = value_end(bytes, at, depth + 1)?;
    }
}

fn text_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut open = 0;
    let mut place = at;
    loop {
        match bytes.get(place)? {
            b'\\' => place += 1,
            b'(' => open += 1,
            b')' => open -= 1,
            _ => {}
        }
        place += 1;
        if open == 0 {
            return Some(place);
        }
    }
}

/// Where `12 0 R` ends, if that is what begins here.
fn reference_end(bytes: &[u8], at: usize, first: usize) -> Option<usize> {
    let is_number = |range: &[u8]| !range.is_empty() && range.iter().all(u8::is_ascii_digit);
    let second = skip_space(bytes, first);
    let second_end = word_end(bytes, second);
    let third = skip_space(bytes, second_end);
    let third_end = word_end(bytes, third);
    let is_one = is_number(&bytes[at..first])
        && is_number(&bytes[second..second_end])
        && &bytes[third..third_end] == b"R";
    is_one.then_some(third_end)
}

/// The number of the object that a value refers to.
fn reference(value: &[u8]) -> Option<u32> {
    let end = word_end(value, 0);
    reference_end(value, 0, end)?;
    u32::try_from(number(&value[..end])?).ok()
}

fn number(value: &[u8]) -> Option<usize> {
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

/// All objects that a value refers to.
fn references(value: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < value.len() {
        at = skip_space(value, at);
        match value.get(at) {
            None => break,
            Some(b'(') => at = text_end(value, at).unwrap_or(value.len()),
            Some(b'/') => at = word_end(value, at + 1),
            Some(byte) if is_delimiter(*byte) => at += 1,
            Some(_) => {
                let end = word_end(value, at);
                let whole = reference_end(value, at, end);
                if whole.is_some() {
                    found.extend(number(&value[at..end]).and_then(|it| u32::try_from(it).ok()));
                }
                at = whole.unwrap_or(end);
            }
        }
    }
    found
}

/// The pages that `3`, `1-5` or `2,4-6` name, each once, in their order; None if it names none.
pub(super) fn wanted(text: &str, count: usize, most: usize) -> Option<Vec<usize>> {
    let mut pages = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = match last.trim() {
            "" => count,
            last => last.parse().ok()?,
        };
        if first == 0 || first > last {
            return None;
        }
        pages.extend((first..=last.min(count)).take(most + 1));
    }
    (!pages.is_empty()).then(|| pages.into_iter().collect())
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
