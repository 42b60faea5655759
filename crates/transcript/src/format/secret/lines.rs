//! Where a line ends and how the next one begins: line breaks of the text itself and those of JSON
//! in it, the numbers of a listing, and the marks that stand at the end or at the start of every
//! line: of a diff, a comment, a quote, a box, a string that goes on in the next line.

/// A line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Break {
    /// Where the text of the line ends.
    pub(super) end: usize,
    /// Where the next line begins.
    pub(super) after: usize,
    /// The quote that ends the text, if it is a string that another may continue.
    quote: Option<u8>,
}

/// How many spaces and marks are looked at.
const MARKS: usize = 160;
/// The sides of a box.
const SIDE: &[u8] = "│".as_bytes();

impl Break {
    /// The line break that is there: a newline, or the first backslash of one that is an escape.
    pub(super) fn at(text: &[u8], at: usize) -> Option<Break> {
        let slashes = slashes(&text[at..]);
        let after = match text.get(at + slashes)? {
            b'\n' => at + slashes + 1,
            b'n' if slashes > 0 => at + slashes + 1,
            _ => return None,
        };
        let (end, quote) = end_before(text, at);
        Some(Break { end, after, quote })
    }

    /// The line break that follows there, behind marks.
    pub(super) fn behind(text: &[u8], at: usize) -> Option<Break> {
        let near = &text[at..text.len().min(at + MARKS)];
        let is_mark = |byte: &u8| b" \t\r\"'`+|\xe2\x94\x82".contains(byte);
        let mut end = at + near.iter().take_while(|byte| is_mark(byte)).count();
        // `\r` as an escape.
        let slashes = slashes(&text[end..]);
        if slashes > 0 && text.get(end + slashes) == Some(&b'r') {
            end += slashes + 1;
        }
        Break::at(text, end).filter(|found| found.end <= at)
    }

    /// Where the text of the next line begins. `line` is where this one begins: what stands at the
    /// start of both belongs to neither.
    pub(super) fn next(&self, text: &[u8], line: usize) -> Option<usize> {
        let mut at = self.after + gutter(&text[self.after..]);
        let mut above = line + gutter(&text[line..]);
        for _ in 0..3 {
            at += blanks(&text[at..]);
            above += blanks(&text[above..]);
            let Some(mark) = mark(&text[at..]) else { break };
            if above >= self.end || !text[above..].starts_with(mark) {
                break;
            }
            at += mark.len();
            above += mark.len();
        }
        if let Some(quote) = self.quote {
            at += slashes(&text[at..]);
            if text.get(at) != Some(&quote) {
                return None;
            }
            at += 1;
        }
        (at < text.len()).then_some(at)
    }
}

/// Where the text of a line ends whose break is at an offset, and the quote that ends it.
fn end_before(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let start = at.saturating_sub(MARKS);
    let mut line = &text[start..at];
    // Nearly all lines end without any of these.
    match line.last() {
        Some(last) if b" \t\r\"'`+|\x82r".contains(last) => {}
        _ => return (at, None),
    }
    if let [.., b'\\', b'r'] = line {
        line = trimmed(&line[..line.len() - 1], b"\\");
    }
    line = trimmed(line, b" \t\r");
    let before_side = line.strip_suffix(SIDE).or_else(|| line.strip_suffix(b"|"));
    line = before_side.map_or(line, |line| trimmed(line, b" "));
    let open = trimmed(line.strip_suffix(b"+").unwrap_or(line), b" ");
    if let [before @ .., quote @ (b'"' | b'\'')] = open {
        let before = trimmed(before, b"\\");
        return (start + before.len(), Some(*quote));
    }
    // What continues a line in a shell.
    let line = line.strip_suffix(b"`").unwrap_or(line);
    (start + line.len(), None)
}

fn trimmed<'a>(line: &'a [u8], signs: &[u8]) -> &'a [u8] {
    let end = line.iter().rposition(|byte| !signs.contains(byte)).map_or(0, |at| at + 1);
    &line[..end]
}

/// Where the line begins that an offset is on, as far as it is near.
pub(super) fn line_start(text: &[u8], at: usize) -> usize {
    let from = at.saturating_sub(MARKS);
    let near = &text[from..at];
    let newline = memchr::memrchr(b'\n', near).map(|at| at + 1);
    let escape = || memchr::memmem::rfind(near, b"\\n").map(|at| at + 2);
    from + newline.or_else(escape).unwrap_or(0)
}

/// Where the text of the next line begins, if a line ends there.
pub(super) fn next_line(text: &[u8], at: usize) -> Option<usize> {
    // Nearly always there is more on the line.
    if text.get(at).is_none_or(|byte| !b" \t\r\n\\\"'`+|\xe2".contains(byte)) {
        return None;
    }
    Break::behind(text, at)?.next(text, line_start(text, at))
}

fn slashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

fn blanks(text: &[u8]) -> usize {
    text.iter().take(MARKS).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The mark that a line begins with.
fn mark(line: &[u8]) -> Option<&'static [u8]> {
    const MARKS: [&[u8]; 9] = [b"+", b"-", b">", b"#", b"//", b"*", b";", SIDE, b"|"];
    // Nearly always there is none.
    line.first().filter(|byte| !byte.is_ascii_alphanumeric())?;
    MARKS.into_iter().find(|mark| line.starts_with(mark))
}

/// The length of the number and the sign that a line of a listing begins with; 0 if there are none.
pub(super) fn gutter(line: &[u8]) -> usize {
    let spaces = line.iter().take(12).take_while(|byte| **byte == b' ').count();
    let digits = line[spaces..].iter().take(8).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return 0;
    }
    let at = spaces + digits;
    let rest = &line[at..];
    let slashes = slashes(rest);
    let sign = match rest {
        [b'\t' | b'|' | b':', ..] => 1,
        // `nl`, and other programs that fill up with spaces.
        [b' ', b' ', ..] if spaces > 0 => 2,
        _ if rest.starts_with("→".as_bytes()) => "→".len(),
        _ if slashes > 0 && rest[slashes..].starts_with(b"t") => slashes + 1,
        _ if slashes > 0 && rest[slashes..].starts_with(b"u2192") => slashes + 5,
        _ => return 0,
    };
    at + sign
}
