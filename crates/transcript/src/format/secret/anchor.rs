//! Finds which of some hundred short words a text contains, and where.
//!
//! Each word is found by its key, the rarest three bytes in it. A table gives, for each pair of
//! bytes, the groups of keys that contain it. Nearly always, two consecutive pairs have no group in
//! common, and that test is faster than an automaton over so many words. Case matters only for
//! words that require it.

use hashbrown::HashMap;

use super::table::Anchor;

/// The length of the shortest anchor that can be found.
pub(super) const SHORTEST: usize = 3;

/// The three bytes by which an anchor is found.
type Key = [u8; SHORTEST];

/// Finds anchors in a text.
#[derive(Debug)]
pub(super) struct Finder {
    /// For each pair of bytes, the groups that have a key beginning or ending with it, as bits.
    groups: Box<[u16; 1 << 16]>,
    /// For each key, its anchors: the index of the anchor, and the offset of the key in it.
    anchors: HashMap<u32, Vec<(usize, usize)>>,
}

impl Finder {
    #[allow(
        clippy::large_stack_arrays,
        reason = "128 KB, once; of a known size no index is checked"
    )]
    pub(super) fn new(anchors: &[Anchor]) -> Finder {
        let mut finder = Finder { groups: Box::new([0; 1 << 16]), anchors: HashMap::new() };
        for (number, anchor) in anchors.iter().enumerate() {
            let rank = |(_, bytes): &(usize, &[u8])| rank(bytes);
            let windows = anchor.text.windows(SHORTEST).enumerate();
            let Some((before, bytes)) = windows.min_by_key(rank) else { continue };
            // All combinations of case: one bit per byte.
            let cases = if anchor.any_case { 1 << SHORTEST } else { 1 };
            for case in 0..cases {
                let mut key = Key::default();
                for (place, byte) in bytes.iter().enumerate() {
                    let is_upper = case >> place & 1 == 1;
                    key[place] = if is_upper { byte.to_ascii_uppercase() } else { *byte };
                }
                let known = finder.anchors.entry(number_of(key)).or_default();
                // A byte that is not a letter is the same in both cases.
                if known.last() != Some(&(number, before)) {
                    known.push((number, before));
                }
                let [first, second, third] = key;
                finder.groups[pair([first, second])] |= group(key);
                finder.groups[pair([second, third])] |= group(key);
            }
        }
        finder
    }

    /// Calls `tell` for each anchor with its index and its offset. At least one byte must follow
    /// the anchor.
    pub(super) fn each(&self, anchors: &[Anchor], text: &[u8], mut tell: impl FnMut(usize, usize)) {
        let mut from = 0;
        while let Some(at) = self.next(text, from) {
            self.at(anchors, text, at).for_each(|(number, start)| tell(number, start));
            from = at + 1;
        }
    }

    /// The next place, from `from` on, where a key may be. Many places are examined together,
    /// because nearly always there is none. Not inlined, so that the loop stays in registers.
    #[inline(never)]
    fn next(&self, text: &[u8], mut from: usize) -> Option<usize> {
        while let Some(bytes) = text.get(from..).and_then(|rest| rest.first_chunk::<LOADED>()) {
            if (0..PLACES).fold(0, |any, at| any | self.groups_at(bytes, at)) != 0 {
                return Some(from + self.first(bytes));
            }
            from += PLACES;
        }
        // The rest, padded with zeros.
        let rest = text.get(from..).filter(|rest| rest.len() > SHORTEST)?;
        let mut bytes = [0; LOADED];
        bytes[..rest.len()].copy_from_slice(rest);
        let is_any = (0..PLACES).any(|at| self.groups_at(&bytes, at) != 0);
        is_any.then(|| from + self.first(&bytes))
    }

    /// The first of some places where a key may be. Not inlined into the loop either.
    #[inline(never)]
    fn first(&self, bytes: &[u8; LOADED]) -> usize {
        let mut at = 0;
        while at < PLACES - 1 && self.groups_at(bytes, at) == 0 {
            at += 1;
        }
        at
    }

    /// The groups that may have a key at that place.
    #[inline]
    fn groups_at(&self, bytes: &[u8; LOADED], at: usize) -> u16 {
        self.groups[pair([bytes[at], bytes[at + 1]])]
            & self.groups[pair([bytes[at + 1], bytes[at + 2]])]
    }

    /// The anchors whose key is at that place: their indexes and offsets.
    #[inline]
    fn at<'a>(
        &'a self,
        anchors: &'a [Anchor],
        text: &'a [u8],
        at: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        // At least one byte must follow an anchor.
        let bytes = text[at..].first_chunk();
        let key = bytes.map(|&[first, second, third, _]| number_of([first, second, third]));
        let known = key.and_then(|key| self.anchors.get(&key));
        known.into_iter().flatten().filter_map(move |(number, before)| {
            let anchor = &anchors[*number];
            let start = at.checked_sub(*before)?;
            let found = text.get(start..start + anchor.text.len())?;
            let is_it = if anchor.any_case {
                found.eq_ignore_ascii_case(&anchor.text)
            } else {
                found == anchor.text
            };
            is_it.then_some((*number, start))
        })
    }
}

/// How many places are examined together, and how many bytes that takes.
const PLACES: usize = 16;
const LOADED: usize = PLACES + SHORTEST - 1;

#[inline]
fn pair(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(bytes))
}

/// A key as a number, which hashes faster.
fn number_of([first, second, third]: Key) -> u32 {
    u32::from_le_bytes([first, second, third, 0])
}

/// The group of a key. Of many possible groupings, this one has the fewest false matches in typical
/// sessions.
fn group(key: Key) -> u16 {
    let [first, second, third] = key.map(u32::from);
    1 << ((2 * first + 9 * second + third) % 16)
}

/// Roughly how common three bytes are in sessions.
fn rank(bytes: &[u8]) -> u32 {
    /// Parts of anchors that are much more common than their letters suggest.
    const COMMON: [&[u8]; 21] = [
        b"-cl", b"bas", b"ck.", b"cre", b"cur", b"den", b"edi", b"ent", b"et_", b"glo", b"ipp",
        b"k-p", b"k_p", b"ks/", b"oks", b"ook", b"red", b"ret", b"tra", b"uff", b"web",
    ];
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
