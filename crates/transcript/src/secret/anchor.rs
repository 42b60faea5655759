//! Finds which of some hundred short words a text has, and where.
//!
//! Each word is looked for by the rarest three bytes in it: a bit for each hash of three bytes says
//! whether it may be there, which is faster than an automaton over so many words. Case counts only
//! where a word wants it.

use std::ops::Range;

use super::table::Anchor;

/// The shortest anchor that can be found.
pub(super) const SHORTEST: usize = 3;

/// How many hashes there are, as a power of two.
const HASHES: u32 = 15;

/// What finds the anchors.
#[derive(Debug)]
pub(super) struct Finder {
    /// Which hashes are looked for.
    is_wanted: Box<[u8; 1 << HASHES]>,
    /// In order of their hashes.
    entries: Vec<Entry>,
    /// Where the entries of a hash begin, and where those of the last end.
    starts: Vec<u16>,
}

/// Three bytes of an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    key: u32,
    /// The number of the anchor.
    number: u16,
    /// Where in it they stand.
    before: u8,
}

impl Finder {
    #[allow(
        clippy::large_stack_arrays,
        reason = "32 KB, once; of a known size no index is checked"
    )]
    pub(super) fn new(anchors: &[Anchor]) -> Finder {
        let mut entries: Vec<Entry> = Vec::new();
        for (number, anchor) in (0..).zip(anchors) {
            let rank = |(_, bytes): &(u8, &[u8])| rank(bytes);
            let Some((before, bytes)) = (0..).zip(anchor.text.windows(SHORTEST)).min_by_key(rank)
            else {
                continue;
            };
            // In all cases: a bit for each byte.
            let cases = if anchor.any_case { 1 << SHORTEST } else { 1 };
            for case in 0..cases {
                let mut key = [0; 4];
                for (place, byte) in bytes.iter().enumerate() {
                    let is_upper = case >> place & 1 == 1;
                    key[place] = if is_upper { byte.to_ascii_uppercase() } else { *byte };
                }
                entries.push(Entry { key: u32::from_le_bytes(key), number, before });
            }
        }
        // A byte that is no letter is the same in all cases.
        entries.sort_by_key(|entry| (hash(entry.key), entry.number, entry.key));
        entries.dedup();
        let mut is_wanted = Box::new([0; 1 << HASHES]);
        for entry in &entries {
            is_wanted[hash(entry.key)] = 1;
        }
        let mut starts = vec![0; (1 << HASHES) + 1];
        for entry in &entries {
            starts[hash(entry.key) + 1] += 1;
        }
        for at in 0..1 << HASHES {
            starts[at + 1] += starts[at];
        }
        Finder { is_wanted, entries, starts }
    }

    /// Tells of each anchor: its number, and where it begins. Something has to stand behind it.
    pub(super) fn each(&self, anchors: &[Anchor], text: &[u8], mut tell: impl FnMut(usize, usize)) {
        let mut done = 0;
        // Several places at once: nearly always there is nothing.
        while let Some(group) = text.get(done..).and_then(|rest| rest.first_chunk::<LOADED>()) {
            if self.has_wanted(group) {
                self.look(anchors, text, done..done + GROUP, &mut tell);
            }
            done += GROUP;
        }
        self.look(anchors, text, done..text.len(), &mut tell);
    }

    /// Whether something may begin in a group that is looked for.
    #[inline]
    fn has_wanted(&self, group: &[u8; LOADED]) -> bool {
        let load =
            |from: usize| group[from..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut wanted = 0;
        for from in [0, GROUP / 2] {
            let bytes = load(from);
            for at in 0..GROUP / 2 {
                #[allow(clippy::cast_possible_truncation, reason = "the bytes behind do not count")]
                let bytes = (bytes >> (8 * at)) as u32;
                wanted |= self.is_wanted[hash(bytes)];
            }
        }
        wanted != 0
    }

    /// Looks at these places. Apart from the loop, which so stays in registers.
    #[inline(never)]
    fn look(
        &self,
        anchors: &[Anchor],
        text: &[u8],
        places: Range<usize>,
        tell: &mut impl FnMut(usize, usize),
    ) {
        // Something has to stand behind them.
        let last = places.end.min(text.len().saturating_sub(SHORTEST));
        for (at, bytes) in (places.start..last).zip(text[places.start..].windows(SHORTEST)) {
            let key = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            let hash = hash(key);
            if self.is_wanted[hash] == 0 {
                continue;
            }
            let entries = usize::from(self.starts[hash])..usize::from(self.starts[hash + 1]);
            for entry in self.entries[entries].iter().filter(|entry| entry.key == key) {
                let anchor = &anchors[usize::from(entry.number)];
                let Some(start) = at.checked_sub(usize::from(entry.before)) else { continue };
                let Some(found) = text.get(start..start + anchor.text.len()) else { continue };
                if found == anchor.text
                    || anchor.any_case && found.eq_ignore_ascii_case(&anchor.text)
                {
                    tell(usize::from(entry.number), start);
                }
            }
        }
    }
}

/// How many places are looked at together, and how many bytes are read for that.
const GROUP: usize = 8;
const LOADED: usize = GROUP + GROUP / 2;

/// The hash of the first three bytes; a fourth does not count. Of many factors the one by which what
/// is common in sessions has least the hash of an anchor.
#[inline]
fn hash(bytes: u32) -> usize {
    ((bytes << 8).wrapping_mul(0xdbec_a209) >> (32 - HASHES)) as usize
}

/// How common three bytes are in what sessions hold, roughly.
fn rank(bytes: &[u8]) -> u32 {
    /// Those of some anchors that are much more common than their letters.
    const COMMON: [&[u8]; 8] = [b"bas", b"cre", b"cur", b"ent", b"ook", b"oks", b"ret", b"tra"];
    const LETTERS: &[u8] = b"zqjxkvbywgpfmucdlhrsnioate";
    if COMMON.contains(&bytes) {
        return u32::MAX;
    }
    let rank = |byte: &u8| match byte {
        b' ' | b'"' | b'\\' => 60,
        b'.' | b'/' | b':' | b'-' | b',' | b'_' => 24,
        b'0'..=b'9' => 20,
        b'a'..=b'z' => {
            let place = LETTERS.iter().position(|letter| letter == byte);
            place.and_then(|place| u32::try_from(place).ok()).unwrap_or_default() * 2 + 4
        }
        _ => 6,
    };
    bytes.iter().map(rank).product()
}
