//! The strings of a line of JSON that is in memory, without copying them.
//!
//! Invariant: works on any bytes; what is not JSON has strings, too: whatever is between quotes.

use std::ops::Range;

use crate::format::scan::block;

/// A string of a line.
#[derive(Debug)]
pub(super) struct Quoted<'a> {
    /// The range of what is between the quotes.
    pub(super) range: Range<usize>,
    /// The name of the member whose value it is, as it is written.
    pub(super) member: Option<&'a [u8]>,
    /// It is the name of a member.
    pub(super) is_name: bool,
}

impl Quoted<'_> {
    /// Whether it stands in a list, where it may be a line of something longer.
    pub(super) fn is_in_list(&self) -> bool {
        self.member.is_none() && !self.is_name
    }
}

/// Calls `take` for each string of a line. A string without an end counts up to the end of the
/// line.
pub(super) fn each_string<'a>(line: &'a [u8], mut take: impl FnMut(Quoted<'a>)) {
    let mut at = 0;
    let mut name: Option<Range<usize>> = None;
    while let Some(quote) = memchr::memchr(b'"', &line[at..]).map(|found| at + found) {
        // A value follows its name directly.
        if line[at..quote].iter().any(|byte| b"{[,".contains(byte)) {
            name = None;
        }
        let start = quote + 1;
        let end = end_of(line, start);
        let after = (end + 1).min(line.len());
        let blank = line[after..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_name = line.get(after + blank) == Some(&b':');
        let member = name.take().filter(|_| !is_name).map(|name| &line[name]);
        take(Quoted { range: start..end, member, is_name });
        if is_name {
            name = Some(start..end);
        }
        at = after;
    }
}

/// Where a string ends that begins there.
fn end_of(line: &[u8], start: usize) -> usize {
    let mut at = start;
    // Texts have escapes in every line: several blocks are searched at once.
    'blocks: while let Some(blocks) = line.get(at..).and_then(<[u8]>::first_chunk) {
        let begin = at;
        let mut special = block::special(blocks);
        while special != 0 {
            let place = begin + special.trailing_zeros() as usize;
            at = match line[place] {
                b'"' => return place,
                b'\\' => place + 2,
                _ => place + 1,
            };
            if at - begin >= block::MANY {
                continue 'blocks;
            }
            special = special >> (at - begin) << (at - begin);
        }
        at = begin + block::MANY;
    }
    while let Some(found) = line.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if line[at] == b'"' {
            return at;
        }
        at += 2;
    }
    line.len()
}

#[cfg(test)]
#[path = "strings_tests.rs"]
mod tests;
