//! Secrets in clear text: keys, tokens, passwords.
//!
//! Found by what their makers begin them with, or by what they are assigned to; then looked at closely, so that names, placeholders and examples are not
//! taken for them. Works on text as it is and on text as it stands in JSON: a backslash before a letter is no part of the word behind it. Invariant: a value
//! never leaves this module but as a range of the text that was given.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Family {
    Anthropic,
    OpenAi,
    OtherModel,
    GitHub,
    GitLab,
    Aws,
    Google,
    Slack,
    Stripe,
    Registry,
    HuggingFace,
    Mail,
    Chat,
    Cloud,
    PrivateKey,
    Jwt,
    Bearer,
    UrlPassword,
    Assigned,
}

impl Family {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Family::Anthropic => "anthropic-key",
            Family::OpenAi => "openai-key",
            Family::OtherModel => "model-api-key",
            Family::GitHub => "github-token",
            Family::GitLab => "gitlab-token",
            Family::Aws => "aws-key",
            Family::Google => "google-key",
            Family::Slack => "slack-token",
            Family::Stripe => "stripe-key",
            Family::Registry => "registry-token",
            Family::HuggingFace => "huggingface-token",
            Family::Mail => "mail-key",
            Family::Chat => "chat-token",
            Family::Cloud => "cloud-token",
            Family::PrivateKey => "private-key",
            Family::Jwt => "jwt",
            Family::Bearer => "bearer-token",
            Family::UrlPassword => "url-password",
            Family::Assigned => "assigned-secret",
        }
    }
}

/// A secret: what it is for, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it is for.
    pub family: Family,
    /// Its bytes in the text.
    pub range: Range<usize>,
}

/// How a secret goes on behind what it begins with.
#[derive(Clone, Copy)]
enum Shape {
    /// Letters, digits and these; at least so many.
    Word(&'static [u8], usize),
    /// Letters and digits, exactly so many.
    Exactly(usize),
    /// Hexadecimal digits, exactly so many.
    Hex(usize),
    /// Capitals and digits, exactly so many.
    Capitals(usize),
    /// A key of `OpenAI`, of the old kind, which has this in its middle.
    Around,
    /// One byte later, so.
    After(&'static Shape),
    PrivateKey,
    Jwt,
    Bearer,
    /// A bot's number, and this behind it.
    Bot,
    Url,
    Assigned,
    /// The same, by a name that people also use for other things.
    Called,
}

use Shape::{
    After, Around, Assigned, Bearer, Bot, Called, Capitals, Exactly, Hex, Jwt, PrivateKey, Url,
    Word,
};

const DASHES: &[u8] = b"-_";

/// What secrets begin with. The first that fits counts. None has less than four bytes and there are at most 64: so many can be looked for at once, at the
/// speed of memory.
const KNOWN: &[(&str, Family, Shape)] = &[
    ("sk-ant-", Family::Anthropic, Word(DASHES, 24)),
    ("sk-proj-", Family::OpenAi, Word(DASHES, 32)),
    ("sk-svcacct-", Family::OpenAi, Word(DASHES, 32)),
    ("sk-admin-", Family::OpenAi, Word(DASHES, 32)),
    ("T3BlbkFJ", Family::OpenAi, Around),
    ("sk-or-v1-", Family::OtherModel, Hex(64)),
    ("sk-lf-", Family::OtherModel, Word(DASHES, 32)),
    ("gsk_", Family::OtherModel, Exactly(52)),
    ("pplx-", Family::OtherModel, Word(b"", 40)),
    ("xai-", Family::OtherModel, Exactly(80)),
    ("ghp_", Family::GitHub, Exactly(36)),
    ("gho_", Family::GitHub, Exactly(36)),
    ("ghu_", Family::GitHub, Exactly(36)),
    ("ghs_", Family::GitHub, Exactly(36)),
    ("ghr_", Family::GitHub, Exactly(36)),
    ("github_pat_", Family::GitHub, Word(b"_", 50)),
    ("glpat-", Family::GitLab, Word(DASHES, 20)),
    ("AKIA", Family::Aws, Capitals(16)),
    ("ASIA", Family::Aws, Capitals(16)),
    ("AIza", Family::Google, Word(DASHES, 35)),
    ("ya29.", Family::Google, Word(DASHES, 40)),
    ("GOCSPX-", Family::Google, Word(DASHES, 24)),
    ("xoxb-", Family::Slack, Word(b"-", 24)),
    ("xoxp-", Family::Slack, Word(b"-", 24)),
    ("hooks.slack.com/services/", Family::Slack, Word(b"/", 40)),
    ("sk_live_", Family::Stripe, Word(b"", 20)),
    ("rk_live_", Family::Stripe, Word(b"", 20)),
    ("whsec_", Family::Stripe, Word(b"+/=", 32)),
    ("npm_", Family::Registry, Exactly(36)),
    ("pypi-AgE", Family::Registry, Word(DASHES, 60)),
    ("dckr_pat_", Family::Registry, Word(DASHES, 24)),
    ("\"hf_", Family::HuggingFace, After(&Exactly(34))),
    ("=hf_", Family::HuggingFace, After(&Exactly(34))),
    (" hf_", Family::HuggingFace, After(&Exactly(34))),
    ("'hf_", Family::HuggingFace, After(&Exactly(34))),
    ("nhf_", Family::HuggingFace, After(&Exactly(34))),
    ("\"SG.", Family::Mail, After(&Word(b"-_.", 60))),
    (" SG.", Family::Mail, After(&Word(b"-_.", 60))),
    ("nSG.", Family::Mail, After(&Word(b"-_.", 60))),
    ("discord.com/api/webhooks/", Family::Chat, Word(b"/-_", 60)),
    (":AAE", Family::Chat, Bot),
    (":AAF", Family::Chat, Bot),
    (":AAG", Family::Chat, Bot),
    (":AAH", Family::Chat, Bot),
    ("dop_v1_", Family::Cloud, Hex(64)),
    ("sbp_", Family::Cloud, Hex(40)),
    ("lin_api_", Family::Cloud, Exactly(40)),
    ("dapi", Family::Cloud, Hex(32)),
    ("hvs.", Family::Cloud, Word(DASHES, 80)),
    ("AGE-SECRET-KEY-1", Family::PrivateKey, Capitals(58)),
    ("PRIVATE KEY-----", Family::PrivateKey, PrivateKey),
    ("eyJhbGci", Family::Jwt, Jwt),
    ("eyJ0eXAi", Family::Jwt, Jwt),
    ("Bearer ", Family::Bearer, Bearer),
    ("s://", Family::UrlPassword, Url),
    ("p://", Family::UrlPassword, Url),
    ("l://", Family::UrlPassword, Url),
    ("b://", Family::UrlPassword, Url),
    ("v://", Family::UrlPassword, Url),
    ("API_KEY", Family::Assigned, Assigned),
    ("SECRET", Family::Assigned, Assigned),
    ("ACCESS_KEY", Family::Assigned, Assigned),
    ("_TOKEN", Family::Assigned, Assigned),
    ("PASSWORD", Family::Assigned, Assigned),
];

#[allow(clippy::expect_used, reason = "the patterns are known when this is compiled, and few")]
static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let builder = &mut AhoCorasick::builder();
    let names = KNOWN.iter().map(|(name, _, _)| name);
    builder.match_kind(MatchKind::LeftmostFirst).build(names).expect("a few short patterns")
});

/// The secrets in a text, in order, without overlap.
///
/// ```
/// use transcript::secret::{Family, secrets};
///
/// let text = b"export GITHUB_TOKEN=ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
/// let found: Vec<_> = secrets(text).map(|secret| (secret.family, secret.range)).collect();
/// assert_eq!(found, [(Family::GitHub, 20..60)]);
/// ```
pub fn secrets(text: &[u8]) -> impl Iterator<Item = Secret> {
    let mut end = 0;
    FINDER.find_iter(text).filter_map(move |found| {
        let (_, family, shape) = KNOWN[found.pattern().as_usize()];
        let range = place(text, found.start(), found.end(), shape)?;
        // An assigned value may be one that was recognised, or hold one.
        if range.start < end || (matches!(shape, Assigned) && holds_known(&text[range.clone()])) {
            return None;
        }
        end = range.end;
        Some(Secret { family, range })
    })
}

fn holds_known(value: &[u8]) -> bool {
    FINDER.find_iter(value).any(|found| {
        let (_, _, shape) = KNOWN[found.pattern().as_usize()];
        !matches!(shape, Assigned) && place(value, found.start(), found.end(), shape).is_some()
    })
}

/// Where the secret stands that is announced at these bytes.
fn place(text: &[u8], start: usize, end: usize, shape: Shape) -> Option<Range<usize>> {
    let run = |allowed: &dyn Fn(u8) -> bool| {
        text[end..].iter().take_while(|byte| allowed(**byte)).count()
    };
    let exactly = |count: usize, allowed: &dyn Fn(u8) -> bool| {
        (begins(text, start) && run(&|byte| byte.is_ascii_alphanumeric()) == count)
            .then(|| start..end + count)
            .filter(|range| text[end..range.end].iter().all(|byte| allowed(*byte)))
            .filter(|range| is_random(&text[end..range.end]))
    };
    match shape {
        Word(more, least) => {
            let count = run(&|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
            let value = &text[end..end + count];
            (begins(text, start) && count >= least && is_random(value)).then(|| start..end + count)
        }
        Exactly(count) => exactly(count, &|byte| byte.is_ascii_alphanumeric()),
        Hex(count) => exactly(count, &|byte| byte.is_ascii_hexdigit()),
        Capitals(count) => {
            let found = exactly(count, &|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            found.filter(|range| !text[range.clone()].ends_with(b"EXAMPLE"))
        }
        Around => {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || DASHES.contains(byte);
            let before = text[..start].iter().rev().take_while(|byte| is_word(byte)).count();
            let after = text[end..].iter().take_while(|byte| is_word(byte)).count();
            let from = memchr::memmem::rfind(&text[start - before..start], b"sk-")?;
            let from = start - before + from;
            (begins(text, from) && start - from >= 16 && after >= 16).then(|| from..end + after)
        }
        After(shape) => place(text, start + 1, end, *shape),
        PrivateKey => private_key(text, start, end),
        Jwt => jwt(text, start),
        Bearer => {
            let count = run(&|byte| byte.is_ascii_alphanumeric() || b"-_.~+/=".contains(&byte));
            let value = &text[end..end + count];
            (count >= 24 && is_random(value)).then(|| end..end + count)
        }
        Bot => {
            let digits = text[..start].iter().rev().take_while(|byte| byte.is_ascii_digit());
            let digits = digits.count();
            // The last letter of what announces it is one of its own.
            let count = run(&|byte| byte.is_ascii_alphanumeric() || DASHES.contains(&byte));
            ((8..=10).contains(&digits) && count == 32 && begins(text, start - digits))
                .then(|| start - digits..end + count)
        }
        Url => url_password(text, end),
        Assigned => assigned(text, end, 16, 2),
        // More than a password needs nobody to have thought up.
        Called => assigned(text, end, 8, 1),
    }
}

/// Whether a word begins there. In JSON the letter of an escape stands before it.
fn begins(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| text[at]) else { return true };
    let escaped = at >= 2 && text[at - 2] == b'\\' && matches!(before, b'n' | b'r' | b't');
    escaped || !(before.is_ascii_alphanumeric() || matches!(before, b'_' | b'-'))
}

/// Whether it looks like something that nobody thought up: letters and digits mixed, many different ones.
fn is_random(value: &[u8]) -> bool {
    let mut seen = [false; 256];
    let mut kinds = 0;
    for byte in value {
        kinds += usize::from(!std::mem::replace(&mut seen[usize::from(*byte)], true));
    }
    kinds >= 8
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && !is_placeholder(value)
}

/// Words that stand where a secret would.
fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "example",
        "your",
        "xxxx",
        "placeholder",
        "changeme",
        "dummy",
        "redacted",
        "fake",
        "sample",
        "not-a-key",
        "abcdef",
        "123456789",
        "....",
        "****",
    ];
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// The end of a line, plain or as JSON has it.
fn skip_newlines(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\n' | b'\r' => 1,
            b'\\' if matches!(text.get(at + 1), Some(b'n' | b'r')) => 2,
            _ => break,
        };
    }
    at
}

/// The whole of a key, with the lines around it; nothing if only the first line is there.
fn private_key(text: &[u8], start: usize, end: usize) -> Option<Range<usize>> {
    let lead = start.saturating_sub(40);
    let begin = memchr::memmem::rfind(&text[lead..start], b"-----BEGIN ")? + lead;
    let data = end + skip_newlines(&text[end..]);
    let mut at = data;
    loop {
        let run = text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
            .count();
        at += run;
        let lines = skip_newlines(&text[at..]);
        at += lines;
        if lines == 0 {
            break;
        }
    }
    let value = &text[data..at];
    if value.len() < 64 || !is_random(value) {
        return None;
    }
    let close = memchr::memmem::find(&text[at..], b"-----END ").filter(|gap| *gap < 8);
    let tail = close.and_then(|gap| {
        let from = at + gap + 9;
        Some(from + memchr::memmem::find(&text[from..text.len().min(from + 48)], b"-----")? + 5)
    });
    Some(begin..tail.unwrap_or(at))
}

/// Three parts, the first two of them JSON.
fn jwt(text: &[u8], start: usize) -> Option<Range<usize>> {
    if !begins(text, start) {
        return None;
    }
    let part = |from: usize| {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || DASHES.contains(byte);
        text[from..].iter().take_while(is_word).count()
    };
    let header = start + part(start);
    let is_dot = |at: usize| text.get(at) == Some(&b'.');
    if header - start < 16 || !is_dot(header) || !text[header + 1..].starts_with(b"eyJ") {
        return None;
    }
    let claims = header + 1 + part(header + 1);
    if !is_dot(claims) {
        return None;
    }
    let signature = part(claims + 1);
    (signature >= 20).then(|| start..claims + 1 + signature)
}

/// The password of `scheme://user:password@host`.
fn url_password(text: &[u8], end: usize) -> Option<Range<usize>> {
    let stops = |byte: u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\(){}[]|,;$".contains(&byte);
    let rest = &text[end..text.len().min(end + 256)];
    let name = rest.iter().position(|byte| *byte == b':' || *byte == b'@' || stops(*byte))?;
    if name == 0 || rest[name] != b':' {
        return None;
    }
    let from = name + 1;
    let stop = rest[from..].iter().position(|byte| *byte == b'@' || stops(*byte))? + from;
    let value = &rest[from..stop];
    let host = rest.get(stop + 1)?;
    let common = [
        "password", "pass", "passwd", "pwd", "secret", "user", "postgres", "root", "test", "admin",
        "guest", "token", "key",
    ];
    let is_common = common.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    (rest[stop] == b'@'
        && host.is_ascii_alphanumeric()
        && value.len() >= 6
        && !is_common
        && !is_placeholder(value)
        && !value.iter().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.')))
    .then(|| end + from..end + stop)
}

/// What is assigned to a name in capitals.
fn assigned(text: &[u8], end: usize, least: usize, numbers: usize) -> Option<Range<usize>> {
    let count = |from: usize, allowed: &dyn Fn(u8) -> bool| {
        text[from..].iter().take_while(|byte| allowed(**byte)).count()
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'\\' | b'`');
    let is_space = |byte: u8| byte == b' ';
    let mut at = end + count(end, &is_name);
    at += count(at, &is_quote).min(2);
    at += count(at, &is_space);
    if !matches!(text.get(at), Some(b'=' | b':')) {
        return None;
    }
    at += 1;
    at += count(at, &is_space);
    at += count(at, &is_quote).min(2);
    let is_value = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+/=.~!@#%^&*".contains(&byte);
    let len = count(at, &is_value);
    let value = &text[at..at + len];
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_code = matches!(text.get(at + len), Some(b'(' | b'[' | b'{' | b'$' | b'<' | b'>'))
        || value.contains(&b'.')
            && value.iter().all(|byte| byte.is_ascii_alphabetic() || b"._".contains(byte));
    let is_path = value.contains(&b'/') && !value.iter().any(u8::is_ascii_uppercase);
    let is_secret = len >= least && digits >= numbers && !is_code && !is_path;
    (is_secret && (least < 16 || is_random(value))).then(|| at..at + len)
}

/// What may be a secret: names of passwords and keys in small letters, and beginnings that other words have, too.
const LIKELY: &[(&str, Family, Shape)] = &[
    ("password", Family::Assigned, Called),
    ("passwd", Family::Assigned, Called),
    ("secret", Family::Assigned, Called),
    ("api_key", Family::Assigned, Called),
    ("api-key", Family::Assigned, Called),
    ("apikey", Family::Assigned, Called),
    ("access_key", Family::Assigned, Called),
    ("token", Family::Assigned, Called),
    ("basic ", Family::Bearer, Bearer),
    ("hf_", Family::HuggingFace, Word(b"", 30)),
    ("SG.", Family::Mail, Word(b"-_.", 40)),
    ("eyJ", Family::Jwt, Jwt),
];

#[allow(clippy::expect_used, reason = "the patterns are known when this is compiled, and few")]
static LIKELY_FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let builder = &mut AhoCorasick::builder();
    let names = LIKELY.iter().map(|(name, _, _)| name);
    let builder = builder.match_kind(MatchKind::LeftmostFirst).ascii_case_insensitive(true);
    builder.build(names).expect("a few short patterns")
});

/// The secrets in a text and what may be one, in order, without overlap: for those who would rather hide too much.
pub fn likely(text: &[u8]) -> Vec<Secret> {
    let more = LIKELY_FINDER.find_iter(text).filter_map(|found| {
        let (_, family, shape) = LIKELY[found.pattern().as_usize()];
        let range = place(text, found.start(), found.end(), shape)?;
        Some(Secret { family, range })
    });
    let mut all: Vec<Secret> = secrets(text).chain(more).collect();
    all.sort_by_key(|secret| (secret.range.start, std::cmp::Reverse(secret.range.end)));
    let mut end = 0;
    all.retain(|secret| {
        let is_new = secret.range.start >= end;
        end = end.max(secret.range.end);
        is_new
    });
    all
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
