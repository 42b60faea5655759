//! The kinds of secrets: `data/secrets.txt`, parsed once.

use std::sync::LazyLock;

use super::anchor::{Finder, SHORTEST};
use super::shape::{Class, Part, Rule, Shape};

const TEXT: &str = include_str!("../../../data/secrets.txt");

/// A text that announces a secret.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) kind: &'static str,
    /// In lower case, if case does not matter.
    pub(super) text: Vec<u8>,
    pub(super) any_case: bool,
    pub(super) shape: Shape,
}

/// The parsed table.
#[derive(Debug)]
pub(super) struct Patterns {
    pub(super) anchors: Vec<Anchor>,
    pub(super) finder: Finder,
    /// Indexes of the rows without an anchor.
    pub(super) unannounced: Vec<usize>,
}

pub(super) static TABLE: LazyLock<Patterns> = LazyLock::new(|| {
    // A test checks that all lines can be parsed.
    let anchors: Vec<Anchor> = TEXT.lines().filter_map(read).flatten().collect();
    let finder = Finder::new(&anchors);
    let has_none = |number: &usize| anchors[*number].text.is_empty();
    let unannounced = (0..anchors.len()).filter(has_none).collect();
    Patterns { anchors, finder, unannounced }
});

/// The names of the kinds, in the order of the table.
pub fn kinds() -> Vec<&'static str> {
    let mut names = Vec::new();
    for anchor in TABLE.anchors.iter().filter(|anchor| anchor.shape != Shape::Rule(Rule::Escape)) {
        if !names.contains(&anchor.kind) {
            names.push(anchor.kind);
        }
    }
    names
}

/// The anchors of a line; `None` if it has none or cannot be parsed.
pub(super) fn read(line: &'static str) -> Option<Vec<Anchor>> {
    let mut words = line.split_whitespace();
    let kind = words.next().filter(|word| !word.starts_with('#'))?;
    let anchor = words.next()?;
    let (anchor, any_case) = match anchor.strip_prefix('~') {
        Some(anchor) => (anchor, true),
        None => (anchor, false),
    };
    let shape = shape(&words.collect::<Vec<_>>())?;
    let texts = expand(anchor.as_bytes())?;
    let make = |text| Anchor { kind, text, any_case, shape: shape.clone() };
    Some(texts.into_iter().map(make).collect())
}

/// The texts that an anchor with escapes stands for.
fn expand(anchor: &[u8]) -> Option<Vec<Vec<u8>>> {
    if anchor == b"*" {
        return Some(vec![Vec::new()]);
    }
    let mut texts = vec![Vec::new()];
    let mut bytes = anchor.iter();
    while let Some(byte) = bytes.next() {
        let of: Vec<u8> = match byte {
            b'\\' => match bytes.next()? {
                b's' => vec![b' '],
                b't' => vec![b'\t'],
                b'd' => (b'0'..=b'9').collect(),
                b'h' => b"0123456789ABCDEF".to_vec(),
                b'l' => (0..=127).filter(|byte| Class::Lower.has(*byte)).collect(),
                b'\\' => vec![b'\\'],
                _ => return None,
            },
            byte => vec![*byte],
        };
        let longer = |text: &Vec<u8>| {
            let text = text.clone();
            of.iter().map(move |byte| [text.as_slice(), &[*byte]].concat()).collect::<Vec<_>>()
        };
        texts = texts.iter().flat_map(longer).collect();
    }
    (texts.iter().all(|text| text.len() >= SHORTEST)).then_some(texts)
}

fn shape(words: &[&'static str]) -> Option<Shape> {
    if let [rule, value @ ..] = words
        && let Some(rule) = rule.strip_prefix('@')
    {
        return Some(Shape::Rule(Rule::named(rule, value.first().copied())?));
    }
    let (words, is_weak) = match words {
        [words @ .., "?"] => (words, true),
        words => (words, false),
    };
    let mut parts = Vec::new();
    let mut rest = words;
    while let [word, after @ ..] = rest {
        if let Some(sign) = word.strip_prefix('=') {
            parts.push(Part::Sign(*sign.as_bytes().first()?));
            rest = after;
            continue;
        }
        let [count, after @ ..] = after else { return None };
        let [least, most] = match count.split_once('-') {
            Some((least, most)) => [least.parse().ok()?, most.parse().ok()?],
            None => match count.strip_suffix('+') {
                Some(least) => [least.parse().ok()?, usize::MAX],
                None => [count.parse().ok()?; 2],
            },
        };
        let run = |name: &str| Some((Class::named(name)?, least..=most));
        parts.push(match word.strip_prefix('<') {
            Some(name) if parts.is_empty() => {
                run(name).map(|(class, count)| Part::Before(class, count))?
            }
            Some(_) => return None,
            None => run(word).map(|(class, count)| Part::Run(class, count))?,
        });
        rest = after;
    }
    (!parts.is_empty()).then_some(Shape::Parts { parts, is_weak })
}
