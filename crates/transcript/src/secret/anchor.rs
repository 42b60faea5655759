//! Finds which of some hundred short words a text has, and where.
//!
//! Each word is looked for by the rarest three bytes in it: a bit for each hash of three bytes says
//! whether it may be there, which is faster than an automaton over so many words. Case counts only
//! where a word wants it.

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
    /// The list of each hash; 0 is none.
    lists_of: Vec<u16>,
    /// Anchors by their numbers, and where in them the three bytes stand.
    lists: Vec<Vec<(u16, u8)>>,
}

impl Finder {
    #[allow(
        clippy::large_stack_arrays,
        reason = "32 KB, once; of a known size no index is checked"
    )]
    pub(super) fn new(anchors: &[Anchor]) -> Finder {
        let mut own = Finder {
            is_wanted: Box::new([0; 1 << HASHES]),
            lists_of: vec![0; 1 << HASHES],
            lists: vec![Vec::new()],
        };
        for (number, anchor) in (0..).zip(anchors) {
            let common =
                |(_, bytes): &(u8, &[u8])| bytes.iter().map(|byte| rank(*byte)).product::<u32>();
            let Some((at, bytes)) = (0..).zip(anchor.text.windows(SHORTEST)).min_by_key(common)
            else {
                continue;
            };
            // In all cases: a bit for each byte.
            let cases = if anchor.any_case { 1 << SHORTEST } else { 1 };
            for case in 0..cases {
                let mut key = [0; 8];
                for (place, byte) in bytes.iter().enumerate() {
                    let is_upper = case >> place & 1 == 1;
                    key[place] = if is_upper { byte.to_ascii_uppercase() } else { *byte };
                }
                own.add(hash(u64::from_le_bytes(key)), (number, at));
            }
        }
        own
    }

    fn add(&mut self, hash: usize, entry: (u16, u8)) {
        self.is_wanted[hash] = 1;
        let list = &mut self.lists_of[hash];
        if *list == 0 {
            *list = u16::try_from(self.lists.len()).unwrap_or_default();
            self.lists.push(Vec::new());
        }
        let list = &mut self.lists[usize::from(*list)];
        if !list.contains(&entry) {
            list.push(entry);
        }
    }

    /// Tells of each anchor: its number, and where it begins. Something has to stand behind it.
    pub(super) fn each(&self, anchors: &[Anchor], text: &[u8], mut tell: impl FnMut(usize, usize)) {
        let mut done = 0;
        // Several places at once: nearly always there is nothing.
        while let Some(group) = text.get(done..).and_then(|rest| rest.first_chunk::<LOADED>()) {
            let wanted = self.wanted(group);
            if wanted != 0 {
                self.look(anchors, text, done, wanted, &mut tell);
            }
            done += GROUP;
        }
        let mut rest = [0; LOADED];
        let left = &text[done..];
        rest[..left.len()].copy_from_slice(left);
        for at in [0, GROUP] {
            let group = rest[at..].first_chunk::<LOADED>().copied().unwrap_or_else(|| {
                let mut group = [0; LOADED];
                group[..LOADED - at].copy_from_slice(&rest[at..]);
                group
            });
            self.look(anchors, text, done + at, self.wanted(&group), &mut tell);
        }
    }

    /// At which places of a group something may be that is looked for: a bit for each.
    #[inline]
    fn wanted(&self, group: &[u8; LOADED]) -> u32 {
        let load =
            |from: usize| group[from..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (first, second) = (load(0), load(GROUP / 2));
        let mut wanted = 0;
        for at in 0..GROUP / 2 {
            wanted |= u32::from(self.is_wanted[hash(first >> (8 * at))]) << at;
            wanted |= u32::from(self.is_wanted[hash(second >> (8 * at))]) << (at + GROUP / 2);
        }
        wanted
    }

    /// Looks at these places. Apart from the loop, which so stays in registers.
    #[inline(never)]
    fn look(
        &self,
        anchors: &[Anchor],
        text: &[u8],
        from: usize,
        mut wanted: u32,
        tell: &mut impl FnMut(usize, usize),
    ) {
        while wanted != 0 {
            let at = from + wanted.trailing_zeros() as usize;
            wanted &= wanted - 1;
            let Some([first, second, third, _]) =
                text.get(at..).and_then(|rest| rest.first_chunk())
            else {
                break;
            };
            let hash = hash(u64::from_le_bytes([*first, *second, *third, 0, 0, 0, 0, 0]));
            for (number, before) in &self.lists[usize::from(self.lists_of[hash])] {
                let anchor = &anchors[usize::from(*number)];
                let Some(start) = at.checked_sub(usize::from(*before)) else { continue };
                let Some(found) = text.get(start..start + anchor.text.len()) else { continue };
                let is_it = found[0].eq_ignore_ascii_case(&anchor.text[0])
                    && (found == anchor.text
                        || anchor.any_case && found.eq_ignore_ascii_case(&anchor.text));
                if is_it {
                    tell(usize::from(*number), start);
                }
            }
        }
    }
}

/// How many places are looked at together, and how many bytes are read for that.
const GROUP: usize = 8;
const LOADED: usize = GROUP + GROUP / 2;

/// The hash of the first three bytes.
fn hash(bytes: u64) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "the bytes behind do not count")]
    let key = (bytes as u32) << 8;
    (key.wrapping_mul(0x9e37_79b1) >> (32 - HASHES)) as usize
}

/// How common a byte is in what sessions hold, roughly.
fn rank(byte: u8) -> u32 {
    const LETTERS: &[u8] = b"zqjxkvbywgpfmucdlhrsnioate";
    match byte {
        b' ' | b'"' | b'\\' => 60,
        b'.' | b'/' | b':' | b'-' | b',' | b'_' => 24,
        b'0'..=b'9' => 20,
        b'a'..=b'z' => {
            let place = LETTERS.iter().position(|letter| *letter == byte);
            place.and_then(|place| u32::try_from(place).ok()).unwrap_or_default() * 2 + 4
        }
        _ => 6,
    }
}
