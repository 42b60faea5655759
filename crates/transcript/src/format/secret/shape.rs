//! Whether the text after an anchor has the form of a secret.

use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

use super::border::begins;
use super::command::{Account, Gap};
use super::{beside, command, context, cookie, words};

/// The form of a secret after its anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// These parts one after the other. Weak: ordinary words can have that form too.
    Parts { parts: Vec<Part>, is_weak: bool },
    /// A rule that is implemented in code.
    Rule(Rule),
}

/// A part of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A run of these characters, as long as possible; its length must be in the range.
    Run(Class, RangeInclusive<usize>),
    /// The same before the anchor.
    Before(Class, RangeInclusive<usize>),
    Sign(u8),
}

/// A text that is searched. Remembers where the last run of each class ends; otherwise a text full
/// of anchors would be scanned again for each of them.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    runs: [Cell<[usize; 2]>; CLASSES],
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Text<'a> {
        Text { bytes, runs: Default::default() }
    }

    /// The length of the run of that class at an offset.
    pub(super) fn run(&self, class: Class, at: usize) -> usize {
        let known = &self.runs[class as usize];
        let [start, end] = known.get();
        if start <= at && at < end {
            return end - at;
        }
        let run = class.run(&self.bytes[at..]);
        known.set([at, at + run]);
        run
    }
}

const CLASSES: usize = Class::Url as usize + 1;

/// A class of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Alnum,
    Letters,
    Digits,
    Hex,
    Lower,
    Upper,
    Snake,
    Word,
    Dots,
    Base64,
    Url,
}

impl Class {
    pub(super) fn named(name: &str) -> Option<Class> {
        Some(match name {
            "alnum" => Class::Alnum,
            "letters" => Class::Letters,
            "digits" => Class::Digits,
            "hex" => Class::Hex,
            "lower" => Class::Lower,
            "upper" => Class::Upper,
            "snake" => Class::Snake,
            "word" => Class::Word,
            "dots" => Class::Dots,
            "base64" => Class::Base64,
            "url" => Class::Url,
            _ => return None,
        })
    }

    pub(super) fn has(self, byte: u8) -> bool {
        let is_alnum = byte.is_ascii_alphanumeric();
        match self {
            Class::Alnum => is_alnum,
            Class::Letters => byte.is_ascii_alphabetic(),
            Class::Digits => byte.is_ascii_digit(),
            Class::Hex => byte.is_ascii_hexdigit(),
            Class::Lower => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Class::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Class::Snake => is_alnum || byte == b'_',
            Class::Word => is_alnum || b"_-".contains(&byte),
            Class::Dots => is_alnum || b"_-.~".contains(&byte),
            Class::Base64 => is_alnum || b"+/=-_".contains(&byte),
            Class::Url => is_alnum || b"_-.~+/=%".contains(&byte),
        }
    }

    /// How many bytes of this class a text begins with.
    pub(super) fn run(self, text: &[u8]) -> usize {
        text.iter().take_while(|byte| self.has(**byte)).count()
    }

    /// How many bytes of this class a text ends with, at most `most`.
    pub(super) fn run_before(self, text: &[u8], most: usize) -> usize {
        text.iter().rev().take(most).take_while(|byte| self.has(**byte)).count()
    }
}

/// Forms that cannot be expressed as character classes and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Discord,
    Telegram,
    PrivateKey,
    Putty,
    Jwt,
    Url,
    Cookie,
    Bearer,
    Basic,
    Authorization,
    Curl,
    Smbclient,
    Htpasswd,
    /// The value of an option.
    Option(&'static str),
    /// The same if nothing is between them.
    JoinedOption(&'static str),
    FirstWord,
    /// How many fields precede the password.
    Pgpass(usize),
    Assigned,
    Jar,
    Aws,
    WebKey,
    Chpasswd,
    Sqlplus,
    /// Not a secret: a letter that is written as an escape.
    Escape,
}

impl Rule {
    /// A rule by its name and what it needs to know.
    pub(super) fn named(name: &str, value: Option<&'static str>) -> Option<Rule> {
        Some(match name {
            "discord" => Rule::Discord,
            "telegram" => Rule::Telegram,
            "private-key" => Rule::PrivateKey,
            "putty" => Rule::Putty,
            "jwt" => Rule::Jwt,
            "url" => Rule::Url,
            "cookie" => Rule::Cookie,
            "bearer" => Rule::Bearer,
            "basic" => Rule::Basic,
            "authorization" => Rule::Authorization,
            "curl" => Rule::Curl,
            "smbclient" => Rule::Smbclient,
            "htpasswd" => Rule::Htpasswd,
            "option" => Rule::Option(value?),
            "joined-option" => Rule::JoinedOption(value?),
            "first-word" => Rule::FirstWord,
            "pgpass" => Rule::Pgpass(value?.parse().ok()?),
            "assigned" => Rule::Assigned,
            "jar" => Rule::Jar,
            "aws" => Rule::Aws,
            "web-key" => Rule::WebKey,
            "chpasswd" => Rule::Chpasswd,
            "sqlplus" => Rule::Sqlplus,
            "escape" => Rule::Escape,
            _ => return None,
        })
    }

    /// Whether it may find several secrets at one place, as in the arguments of a command.
    pub(super) fn is_of_command(self) -> bool {
        matches!(
            self,
            Rule::Curl
                | Rule::Smbclient
                | Rule::Htpasswd
                | Rule::Option(_)
                | Rule::JoinedOption(_)
                | Rule::FirstWord
                | Rule::WebKey
        )
    }

    /// The passwords in the arguments of a command whose name ends there.
    pub(super) fn in_command(self, text: &[u8], end: usize) -> Vec<Range<usize>> {
        let curl = Account { letters: b"uU", sign: b':' };
        let smbclient = Account { letters: b"U", sign: b'%' };
        match self {
            Rule::Curl => command::account(text, end, curl),
            Rule::Smbclient => command::account(text, end, smbclient),
            Rule::Htpasswd => Vec::from_iter(command::htpasswd(text, end)),
            Rule::Option(name) => command::option(text, end, name, Gap::Any),
            Rule::JoinedOption(name) => command::option(text, end, name, Gap::None),
            Rule::FirstWord => Vec::from_iter(command::first_word(text, end)),
            Rule::WebKey => beside::web_key(text, end),
            _ => Vec::new(),
        }
    }
}

impl Shape {
    /// The secret that an anchor announces.
    pub(super) fn place(&self, text: &Text<'_>, anchor: Range<usize>) -> Option<Range<usize>> {
        let bytes = text.bytes;
        match self {
            Shape::Parts { parts, is_weak } => by_parts(text, anchor, parts, *is_weak),
            Shape::Rule(rule) => match rule {
                Rule::PrivateKey => context::private_key(bytes, anchor),
                Rule::Putty => context::putty(bytes, anchor),
                Rule::Jwt => jwt(text, anchor.start),
                Rule::Url => context::url(bytes, anchor.end),
                Rule::Cookie => cookie::cookie(bytes, anchor),
                Rule::Bearer => context::bearer(text, anchor.end),
                Rule::Basic => context::basic(bytes, anchor.end),
                Rule::Authorization => context::authorization(bytes, anchor.end),
                Rule::Pgpass(fields) => command::pgpass(bytes, anchor.end, *fields),
                Rule::Assigned => context::assigned(bytes, anchor),
                Rule::Jar => cookie::in_jar(bytes, anchor.end),
                Rule::Aws => beside::aws(bytes, anchor),
                Rule::Chpasswd => beside::chpasswd(bytes, anchor),
                Rule::Sqlplus => beside::sqlplus(bytes, anchor.end),
                // Not secrets, found without an anchor, or possibly several per anchor.
                _ => None,
            },
        }
    }
}

fn by_parts(
    text: &Text<'_>,
    anchor: Range<usize>,
    parts: &[Part],
    is_weak: bool,
) -> Option<Range<usize>> {
    let bytes = text.bytes;
    let (mut start, mut end) = (anchor.start, anchor.end);
    for part in parts {
        match part {
            Part::Run(class, count) => {
                let run = text.run(*class, end);
                if !count.contains(&run) {
                    return None;
                }
                end += run;
            }
            Part::Before(class, count) => {
                start = back(bytes, start, *class, count)?;
            }
            Part::Sign(sign) => {
                if bytes.get(end) != Some(sign) {
                    return None;
                }
                end += 1;
            }
        }
    }
    // A dot at the end ends a sentence.
    end -= bytes[anchor.end..end].iter().rev().take_while(|byte| **byte == b'.').count();
    let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    // If nearly all of the secret is before the anchor, that part is examined.
    let value = &bytes[if end - anchor.end < 8 { start } else { anchor.end }..end];
    // If the secret begins with a sign, nothing before it can be part of the same word.
    let is_part = is_word(end) || is_word(start) && !begins(bytes, start);
    let is_example = words::is_placeholder(value) || bytes[anchor.start..end].ends_with(b"EXAMPLE");
    let is_word = is_weak && is_doubtful(bytes, start..end, value)
        || is_named_id(bytes, anchor.clone(), &bytes[anchor.end..end]);
    (!is_part && !is_example && !is_word).then_some(start..end)
}

/// Whether it is the name of something and an id, as in `cache-key-` or `api-` and a UUID: only
/// what stands before can say that it is a key.
fn is_named_id(text: &[u8], anchor: Range<usize>, value: &[u8]) -> bool {
    if anchor.len() > 4 || !text[..anchor.end].ends_with(b"-") {
        return false;
    }
    let before = &text[anchor.start.saturating_sub(ANNOUNCED)..anchor.start];
    let is_part = matches!(before, [.., b'-' | b'_']) && !begins(text, anchor.start - 1);
    let is_uuid = value.len() == 36 && [8, 13, 18, 23].iter().all(|at| value[*at] == b'-');
    let says = |word: &str| {
        before.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    is_part && value.iter().all(u8::is_ascii_hexdigit)
        || is_uuid
            && (is_part || !["key", "launchdarkly", "ld_", "authorization"].into_iter().any(says))
}

/// How much before an id is looked at for what says that it is a key.
const ANNOUNCED: usize = 32;

/// Whether what follows a short prefix is more likely a word, or part of base64.
fn is_doubtful(text: &[u8], place: Range<usize>, value: &[u8]) -> bool {
    let goes_on = |sign: Option<&u8>, next: Option<&u8>| {
        sign.is_some_and(|byte| b"+/".contains(byte)) && next.is_some_and(u8::is_ascii_alphanumeric)
    };
    let (mut before, mut after) = (text[..place.start].iter().rev(), text[place.end..].iter());
    goes_on(before.next(), before.next())
        || goes_on(after.next(), after.next())
        || words::reads_as_words(value) && !value.iter().any(u8::is_ascii_digit)
}

/// Where a run of `count` characters that ends at `end` begins, with a word boundary before it.
fn back(text: &[u8], end: usize, class: Class, count: &RangeInclusive<usize>) -> Option<usize> {
    let run = class.run_before(&text[..end], (*count.end()).min(LONGEST_BEFORE));
    let mut starts = (*count.start()..=run).rev().map(|count| end - count);
    // The letter of an escape counts as part of the run only if nothing else fits.
    let is_escape = |start: usize| text[..start].ends_with(b"\\");
    let mut fits = starts.clone().filter(|start| begins(text, *start));
    fits.find(|start| !is_escape(*start)).or_else(|| starts.find(|start| begins(text, *start)))
}

/// Nothing before an anchor is longer than this.
const LONGEST_BEFORE: usize = 256;

/// The secrets that no anchor announces, with their rules. Discord tokens have two dots at a fixed
/// distance. Telegram tokens have a digit at a fixed distance before a colon, where times of day
/// have none.
pub(super) fn unannounced(text: &[u8]) -> Vec<(Rule, Range<usize>)> {
    const DOTS: usize = 7;
    const DIGITS: usize = 6;
    let mut found = Vec::new();
    pairs(
        text,
        DOTS,
        |first, second| first == b'.' && second == b'.',
        |dot| {
            found.extend(discord_at(text, dot).map(|range| (Rule::Discord, range)));
        },
    );
    pairs(
        text,
        DIGITS,
        |first, second| first.is_ascii_digit() && second == b':',
        |digit| {
            found.extend(telegram_at(text, digit + DIGITS).map(|range| (Rule::Telegram, range)));
        },
    );
    found
}

/// Calls `tell` with the offset of the first byte of each pair at that distance.
#[inline]
fn pairs(text: &[u8], apart: usize, is_pair: impl Fn(u8, u8) -> bool, mut tell: impl FnMut(usize)) {
    /// This many places are examined together, because nearly always there is no match.
    const CHUNK: usize = 64;
    let Some(others) = text.get(apart..) else { return };
    let is_any = |firsts: &[u8], others: &[u8]| {
        let both = firsts.iter().zip(others);
        both.fold(false, |any, (first, other)| any | is_pair(*first, *other))
    };
    let mut look = |from: usize, to: usize| {
        (from..to).filter(|at| is_pair(text[*at], others[*at])).for_each(&mut tell);
    };
    let (chunks, rest) = others.as_chunks::<CHUNK>();
    for (number, (firsts, others)) in text.as_chunks::<CHUNK>().0.iter().zip(chunks).enumerate() {
        if is_any(firsts, others) {
            look(number * CHUNK, (number + 1) * CHUNK);
        }
    }
    let from = others.len() - rest.len();
    if is_any(&text[from..], rest) {
        look(from, others.len());
    }
}

/// Three parts: the first is a number in base64, the second has six characters.
fn discord_at(text: &[u8], dot: usize) -> Option<Range<usize>> {
    let run = Class::Word.run_before(&text[..dot], 30);
    let starts = (23..=run).rev().map(|count| dot - count);
    let start =
        starts.filter(|start| b"MNO".contains(&text[*start])).find(|start| begins(text, *start))?;
    let last = Class::Word.run(&text[dot + 8..text.len().min(dot + 80)]);
    let is_token = Class::Word.run(&text[dot + 1..dot + 7]) == 6 && (27..=60).contains(&last);
    is_token.then(|| start..dot + 8 + last)
}

/// A number and a key: `123456789:AA…`.
fn telegram_at(text: &[u8], colon: usize) -> Option<Range<usize>> {
    let key = &text[colon + 1..text.len().min(colon + 38)];
    let run = Class::Word.run(key);
    let start = back(text, colon, Class::Digits, &(8..=16))?;
    (34..=36).contains(&run).then_some(start..colon + 1 + run)
}

/// Parts separated by dots; the first is JSON.
fn jwt(text: &Text<'_>, start: usize) -> Option<Range<usize>> {
    let bytes = text.bytes;
    if !begins(bytes, start) {
        return None;
    }
    let mut lengths = Vec::new();
    let mut end = start;
    loop {
        let run = text.run(Class::Word, end);
        lengths.push(run);
        end += run;
        let is_more = bytes.get(end) == Some(&b'.')
            && bytes.get(end + 1).is_some_and(|byte| Class::Word.has(*byte));
        if lengths.len() == 5 || !is_more {
            break;
        }
        end += 1;
    }
    let is_json = bytes[start + lengths[0]..end].starts_with(b".ey");
    let is_token = match lengths.as_slice() {
        [head, claims] => *head >= 16 && *claims >= 16 && is_json,
        [head, claims, seal, ..] => *head >= 16 && *claims >= 10 && *seal >= 16,
        _ => false,
    };
    is_token.then_some(start..end)
}
