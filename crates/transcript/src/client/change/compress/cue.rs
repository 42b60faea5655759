//! What makes a sentence of an answer, or a line of an output, worth keeping.
//!
//! Words that people and models use when they decide, explain or report; nothing here understands
//! what they mean. Invariant: what is returned is a piece of the text, without control characters,
//! and no longer than asked for.

use memchr::memmem;

/// Words of a decision, of an explanation, and of a plan, with their weights.
const CUES: [(&str, u32); 62] = [
    ("decision", 4),
    ("decided", 4),
    ("we chose", 4),
    ("i chose", 4),
    ("choose to", 4),
    ("go with", 4),
    ("going with", 4),
    ("went with", 4),
    ("settled on", 4),
    ("picked", 3),
    ("ruled out", 3),
    ("agreed", 3),
    ("opted", 4),
    ("let's use", 3),
    ("we'll use", 3),
    ("we will use", 3),
    ("i'll use", 2),
    ("will use", 2),
    ("instead of", 3),
    ("rather than", 3),
    ("root cause", 4),
    ("the cause", 4),
    ("caused by", 3),
    ("turns out", 3),
    ("the problem was", 3),
    ("the problem is", 3),
    ("the issue was", 3),
    ("the issue is", 3),
    ("the bug", 2),
    ("because", 2),
    ("so that", 1),
    ("must not", 2),
    ("must be", 1),
    ("never", 1),
    ("always", 1),
    ("important", 2),
    ("note that", 1),
    ("constraint", 2),
    ("requirement", 2),
    ("trade-off", 3),
    ("tradeoff", 3),
    ("by design", 3),
    ("convention", 2),
    ("should", 1),
    ("approach", 1),
    ("now uses", 2),
    ("fixed by", 3),
    ("fix is", 3),
    ("the fix", 3),
    ("fixed", 1),
    ("resolved", 2),
    ("workaround", 3),
    ("conclusion", 2),
    ("prefer", 2),
    ("keep using", 3),
    ("we'll keep", 3),
    ("stick with", 4),
    ("stick to", 4),
    ("sticking with", 4),
    ("switch to", 3),
    ("switched to", 3),
    ("replaced", 1),
];

/// Words of a sentence that says how an error is solved.
const FIXES: [&str; 14] = [
    "fix", "cause", "because", "need", "missing", "instead", "wrong", "should", "problem", "issue",
    "must", "solved", "resolve", "expect",
];

/// Parts of a line that says that something failed.
const FAILURES: [&str; 24] = [
    "error",
    "Error",
    "ERROR",
    "panicked",
    "FAILED",
    "FAIL ",
    "failed",
    "Traceback",
    "Exception",
    "exception",
    "fatal",
    "cannot ",
    "can't ",
    "not found",
    "No such file",
    "denied",
    "undefined",
    "unexpected",
    "Unexpected",
    "invalid",
    "Invalid",
    "timed out",
    "refused",
    "ERR!",
];

/// Parts of a line that says that something succeeded.
const SUCCESSES: [&str; 14] = [
    "passed",
    "passing",
    "test result",
    "success",
    "Success",
    "Finished",
    "built in",
    "0 errors",
    "no errors",
    "Done in",
    "completed",
    "installed",
    "created",
    "up to date",
];

/// Outputs of tools that report a failure without an exit code.
const BROKEN: [&str; 6] = [
    "error: could not compile",
    "test result: FAILED",
    "npm ERR!",
    "Traceback (most recent call last)",
    "\nFAILED ",
    "command not found",
];

/// How much a sentence weighs as a decision or an explanation.
pub(super) fn weight(sentence: &str) -> u32 {
    let mut found = 0_u64;
    let mut weight = 0;
    each_word(sentence, |rest| {
        for (at, (cue, more)) in CUES.iter().enumerate() {
            if begins(rest, cue) && found & 1 << at == 0 {
                found |= 1 << at;
                weight += more;
            }
        }
    });
    weight
}

/// Whether a sentence may say how an error is solved.
pub(super) fn is_fix(sentence: &str) -> bool {
    let mut is_fix = false;
    each_word(sentence, |rest| is_fix |= FIXES.iter().any(|cue| begins(rest, cue)));
    is_fix
}

/// Calls `see` with the rest of a text from each of its words on.
fn each_word(text: &str, mut see: impl FnMut(&[u8])) {
    let bytes = text.as_bytes();
    let mut is_inside = false;
    for (at, byte) in bytes.iter().enumerate() {
        let is_letter = byte.is_ascii_alphanumeric() || *byte >= 0x80;
        if is_letter && !is_inside {
            see(&bytes[at..]);
        }
        is_inside = is_letter;
    }
}

fn begins(text: &[u8], cue: &str) -> bool {
    let cue = cue.as_bytes();
    // Most words begin with another letter.
    text[0].eq_ignore_ascii_case(&cue[0])
        && text.get(..cue.len()).is_some_and(|start| start.eq_ignore_ascii_case(cue))
}

/// Whether an output says that its command failed.
pub(super) fn is_broken(output: &str) -> bool {
    BROKEN.iter().any(|mark| memmem::find(output.as_bytes(), mark.as_bytes()).is_some())
}

/// The sentences of a text, outside of its code blocks.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let lines = text.lines().map(str::trim).filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.is_empty()
    });
    lines.flat_map(|line| {
        let line = line.trim_start_matches(['#', '-', '*', '>', '•', ' ']);
        Sentences { rest: line }
    })
}

/// The sentences of one line.
struct Sentences<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Sentences<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        if text.is_empty() {
            return None;
        }
        let ends = text.match_indices([' ']).map(|(at, _)| at);
        let is_end = |at: &usize| text[..*at].ends_with(['.', '!', '?']) && *at > SHORTEST;
        let end = ends.into_iter().find(is_end).unwrap_or(text.len());
        self.rest = &text[end..];
        Some(text[..end].trim_end())
    }
}

/// What is shorter is an abbreviation, not a sentence.
const SHORTEST: usize = 12;

/// The lines of an output that say most, in their order; the last one if none does.
pub(super) fn key_lines(output: &str, failed: Failed, most: usize) -> Vec<String> {
    // Of a failure the first lines say why, of a success the last ones how much.
    let mut places: Vec<usize> = match failed {
        Failed::Yes => FAILURES
            .iter()
            .flat_map(|mark| memmem::find_iter(output.as_bytes(), mark.as_bytes()).take(HITS))
            .collect(),
        Failed::No => SUCCESSES
            .iter()
            .flat_map(|mark| memmem::rfind_iter(output.as_bytes(), mark.as_bytes()).take(HITS))
            .collect(),
    };
    places.sort_unstable();
    let mut found: Vec<String> = Vec::new();
    for place in places {
        let start = output[..place].rfind('\n').map_or(0, |at| at + 1);
        let end = output[place..].find('\n').map_or(output.len(), |at| place + at);
        let line = clean(&output[start..end], LONGEST_LINE);
        if !found.contains(&line) {
            found.push(line);
        }
    }
    match failed {
        Failed::Yes => found.truncate(most),
        Failed::No => _ = found.drain(..found.len().saturating_sub(most)),
    }
    if found.is_empty() {
        let mut lines = output.lines().map(str::trim).filter(|line| line.len() > 2);
        found.extend(lines.next_back().map(|line| clean(line, LONGEST_LINE)));
    }
    found
}

/// How many lines with the same mark are looked at.
const HITS: usize = 4;

/// Whether a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Yes,
    No,
}

const LONGEST_LINE: usize = 160;

/// The end of the last character that ends at an offset or before it.
pub(super) fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A text on one line, without control characters and colours, cut after so many characters.
pub(super) fn clean(text: &str, longest: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut chars = text.chars();
    let mut is_space = true;
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A colour: everything up to its letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
            continue;
        }
        let is_blank = c.is_whitespace() || c.is_control();
        if is_blank && is_space {
            continue;
        }
        if count == longest {
            out.truncate(out.trim_end().len());
            out.push('…');
            return out;
        }
        is_space = is_blank;
        out.push(if is_blank { ' ' } else { c });
        count += 1;
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
#[path = "cue_tests.rs"]
mod tests;
