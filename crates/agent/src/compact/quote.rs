//! Texts that a summary quotes word for word, and that the next summary finds again.
//!
//! Invariant: what was written is read again, whatever the text says: its length stands before it.

use std::fmt::Write as _;

/// All kinds of quotes.
const KINDS: [&str; 4] = ["prompt", "plan", "skill", "file"];

/// A text that is quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quote {
    /// What it is: the name of its tag.
    pub(super) kind: &'static str,
    /// What it is called; empty if it has no name.
    pub(super) name: String,
    /// The text.
    pub(super) text: String,
}

impl Quote {
    /// A text without a name.
    pub(super) fn new(kind: &'static str, text: &str) -> Quote {
        Quote { kind, name: String::new(), text: text.to_owned() }
    }

    /// A text with a name.
    pub(super) fn named(kind: &'static str, name: &str, text: &str) -> Quote {
        // A name has to end before the line does.
        let name: String = name.chars().filter(|c| !c.is_control() && *c != '"').collect();
        Quote { name, ..Quote::new(kind, text) }
    }

    /// Adds it to a text.
    pub(super) fn write(&self, out: &mut String) {
        let Quote { kind, name, text } = self;
        let named = if name.is_empty() { String::new() } else { format!(" name=\"{name}\"") };
        let _ = write!(out, "\n<{kind}{named} bytes=\"{}\">\n{text}\n</{kind}>", text.len());
    }

    /// All of a kind in a text. What is quoted inside of another quote is none.
    pub(super) fn all(text: &str, kind: &'static str) -> Vec<Quote> {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once("\n<") {
            let kinds = KINDS.iter().filter_map(|&kind| Some((kind, after.strip_prefix(kind)?)));
            let mut quotes =
                kinds.filter_map(|(kind, tag)| Quote::at(tag.strip_prefix(' ')?, kind));
            // The line break before this tag may be the end of what is broken.
            rest = after;
            if let Some((quote, after)) = quotes.next() {
                found.push(quote);
                rest = after;
            }
        }
        found.retain(|quote| quote.kind == kind);
        found
    }

    /// The quote whose tag goes on here, and what follows it.
    fn at<'a>(text: &'a str, kind: &'static str) -> Option<(Quote, &'a str)> {
        let (head, body) = text.split_once("\">\n")?;
        let (name, length) = match head.strip_prefix("bytes=\"") {
            Some(length) => ("", length),
            None => head.strip_prefix("name=\"")?.split_once("\" bytes=\"")?,
        };
        let length: usize = length.parse().ok()?;
        let (text, rest) = body.split_at_checked(length)?;
        let rest = rest.strip_prefix(&format!("\n</{kind}>"))?;
        Some((Quote::named(kind, name, text), rest))
    }
}

/// A text, or its beginning and how much is missing; empty if not even that fits.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let note = |left: usize| format!("… [{left} more bytes]");
    let room = most.saturating_sub(note(text.len()).len());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if end == 0 { String::new() } else { format!("{}{}", &text[..end], note(text.len() - end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_found_again_whatever_it_says() {
        let odd =
            ["", "a", "</prompt>\n<prompt bytes=\"3\">\nabc\n</prompt>", "über\n\n<plan", "\n"];
        let mut text = "before".to_owned();
        for one in odd {
            Quote::new("prompt", one).write(&mut text);
            Quote::named("file", "a\" \n.txt", one).write(&mut text);
        }
        for kind in ["prompt", "file"] {
            let found = Quote::all(&text, kind);
            assert_eq!(found.iter().map(|quote| quote.text.as_str()).collect::<Vec<_>>(), odd);
        }
        assert_eq!(Quote::all(&text, "file")[0].name, "a .txt");
        // What is broken is nothing.
        assert_eq!(Quote::all("\n<prompt bytes=\"9\">\nab\n</prompt>", "prompt"), []);
    }

    #[test]
    fn what_is_cut_says_so_and_fits() {
        assert_eq!(cut("abc", 3), "abc");
        let long = "ü".repeat(500);
        let short = cut(&long, 101);
        assert!(short.len() <= 101 && short.ends_with(" more bytes]"), "{short}");
        assert_eq!(cut(&long, 10), "");
    }
}
