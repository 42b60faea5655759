//! What is not a secret although it is in the place of one: placeholders, natural words and
//! identifiers.

/// Only this much of a value is examined.
const LOOKED_AT: usize = 512;

/// Whether a value is a placeholder, as documentation shows it in place of a key.
///
/// Random keys never match: the words are long, or have a boundary that random keys lack.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "example",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "redacted",
        "not-a-key",
        "xxxxxxxx",
        "your_",
        "your-",
        "yourkey",
        "yourtoken",
        "yourapikey",
        "-your",
        "_your",
        "dummy-",
        "-dummy",
        "_dummy",
        "dummy_",
        "fake-",
        "-fake",
        "_fake",
        "fake_",
        "sample-",
        "-sample",
        "...",
        "***",
        "here>",
        "${",
        "{{",
        "<your",
    ];
    let text = &value[..value.len().min(LOOKED_AT)];
    let letters = || text.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let first = letters().next();
    letters().all(|byte| Some(byte) == first)
        || is_sequence(text)
        || WORDS.iter().any(|word| has(text, word) || has(text, &word.to_ascii_uppercase()))
}

/// The same for values without a vendor prefix: there are more kinds of placeholders for these, and
/// they can be short.
pub(super) fn is_stand_in(value: &[u8]) -> bool {
    const WORDS: &[&str] =
        &["example", "placeholder", "changeme", "redacted", "not-a-key", "...", "***", "${", "{{"];
    let lower = value.to_ascii_lowercase();
    let is_yours = lower.starts_with(b"your")
        || [b"-your", b"_your"].iter().any(|word| lower.windows(5).any(|part| part == *word));
    is_yours
        || has(value, "xxxx")
        || has(value, "XXXX")
        || WORDS.iter().any(|word| has(&lower, word))
}

fn has(text: &[u8], word: &str) -> bool {
    memchr::memmem::find(text, word.as_bytes()).is_some()
}

/// Whether nearly every character is the successor of the one before: `1234567890abcdef`.
fn is_sequence(text: &[u8]) -> bool {
    let follows = text.windows(2).filter(|pair| pair[0].checked_add(1) == Some(pair[1])).count();
    text.len() >= 8 && follows * 10 >= (text.len() - 1) * 8
}

/// Whether a value reads as words: `user-profile`, `getAccessToken2`. Random letters and digits do
/// not.
pub(super) fn reads_as_words(value: &[u8]) -> bool {
    let value = &value[..value.len().min(LOOKED_AT)];
    let (mut read, mut short) = (0, 0);
    let mut rest = value;
    while let Some(skipped) = rest.iter().position(u8::is_ascii_alphabetic) {
        rest = &rest[skipped..];
        let capitals = rest.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        let small = rest[capitals..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        // `HTMLElement` is two words.
        let end = if small > 0 && capitals > 1 { capitals - 1 } else { capitals + small };
        let (word, after) = rest.split_at(end.max(1));
        let before = value[..value.len() - rest.len()].last();
        let is_apart = [before, after.first()]
            .iter()
            .all(|byte| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric()));
        match word.len() {
            2 | 3 if is_apart => read += word.len(),
            3 if is_word(word) => short += 3,
            length if is_word(word) => read += length,
            _ => {}
        }
        rest = after;
    }
    let all = value.iter().filter(|byte| byte.is_ascii_alphanumeric()).count();
    // Three pronounceable letters are a coincidence, unless longer words surround them.
    let read = if read * 2 >= all { read + short } else { read };
    read * 10 >= all * 8
}

/// Whether most pairs of letters are common in words.
fn is_word(letters: &[u8]) -> bool {
    let is_usual = |pair: &&[u8]| {
        let pair = pair.to_ascii_lowercase();
        PAIRS.as_bytes().chunks(3).any(|usual| usual[..2] == pair)
    };
    let usual = letters.windows(2).filter(is_usual).count();
    letters.len() >= 3 && usual * 2 >= letters.len()
}

/// The most common pairs of letters: three out of four pairs in words are among them.
const PAIRS: &str = "\
    th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi \
    ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc \
    et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv \
    ia am fi ci vi pl ig tu ev ld ry mp fe bl ab ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc \
    bu rm ok ey ck cr up";

/// Common passwords that are used where no real one is needed.
pub(super) fn is_common(value: &[u8]) -> bool {
    const COMMON: &[&str] = &[
        "password",
        "passwd",
        "pass",
        "pwd",
        "secret",
        "user",
        "username",
        "postgres",
        "mysql",
        "root",
        "test",
        "testing",
        "admin",
        "guest",
        "token",
        "key",
        "example",
        "dummy",
        "fake",
        "sample",
        "mock",
        "foobar",
        "string",
        "null",
        "none",
        "undefined",
        "xxx",
        "pw",
    ];
    COMMON.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Chosen by people.
    Password,
    /// Generated by programs.
    Key,
    /// A name and a password in base64.
    Pair,
}

/// How much of the end of a name is looked at.
const LONGEST_NAME: usize = 96;

/// Whether values with that name are secrets, and of which kind.
pub(super) fn named(name: &[u8]) -> Option<Named> {
    const KEYS: &[&str] = &[
        "apikey",
        "accesskey",
        "secretkey",
        "authkey",
        "servicekey",
        "accountkey",
        "dbkey",
        "databasekey",
        "privkey",
        "privatekey",
        "clientkey",
        "encryptionkey",
        "encryptkey",
        "signingkey",
        "masterkey",
        "iamkey",
        "ibmkey",
        "cloudkey",
        "softlayerkey",
        "slkey",
        "apisecret",
        "secret",
        "token",
        "credential",
        "credentials",
        "secretkeybase",
        "secretaccess",
        "appkey",
        "adminkey",
        "subscriptionkey",
        "presharedkey",
    ];
    const PASSWORDS: &[&str] = &[
        "password",
        "passwd",
        "pwd",
        "pswd",
        "kennwort",
        "passphrase",
        "contrasena",
        "contrase",
        "passwort",
        "motdepasse",
        "sshpass",
    ];
    /// Suffixes that may follow the word that means a secret.
    const SUFFIXES: &[&str] = &[
        "prod",
        "production",
        "dev",
        "test",
        "staging",
        "live",
        "old",
        "new",
        "default",
        "value",
        "main",
        "primary",
        "secondary",
        "base",
        "b64",
        "base64",
    ];
    // Only the end of a name counts.
    let name = &name[name.len().saturating_sub(LONGEST_NAME)..];
    let mut letters = [0; LONGEST_NAME];
    let mut length = 0;
    for byte in name.iter().filter(|byte| byte.is_ascii_alphabetic()) {
        letters[length] = byte.to_ascii_lowercase();
        length += 1;
    }
    let mut flat = &letters[..length];
    let has_end =
        |flat: &[u8], ends: &[&str]| ends.iter().any(|end| flat.ends_with(end.as_bytes()));
    // Several suffixes may follow each other: `API_KEY_PROD_OLD`.
    for _ in 0..3 {
        if flat == b"auth" || flat == b"basicauth" {
            return Some(Named::Pair);
        }
        if has_end(flat, PASSWORDS) || flat == b"pass" || is_pass(name) || is_pw(name) {
            return Some(Named::Password);
        }
        if has_end(flat, KEYS) {
            return Some(Named::Key);
        }
        let suffix = SUFFIXES.iter().find(|suffix| flat.ends_with(suffix.as_bytes()))?;
        flat = &flat[..flat.len() - suffix.len()];
    }
    None
}

/// Whether a name is `pw`, or ends in it as a word of its own: `db_pw`, `dbPw`, not `npw`.
fn is_pw(name: &[u8]) -> bool {
    let Some((before, word)) = name.split_last_chunk::<2>() else { return false };
    let is_apart = before.last().is_none_or(|byte| b"_-".contains(byte));
    word == b"Pw" || word.eq_ignore_ascii_case(b"pw") && is_apart
}

/// Whether a name ends in `pass` as a word of its own: `DB_PASS`, `dbPass`, not `bypass`.
fn is_pass(name: &[u8]) -> bool {
    let name = name.strip_suffix(b"_").unwrap_or(name);
    let Some(before) = name.len().checked_sub(5) else { return false };
    let (before, word) = (name[before], &name[before + 1..]);
    word == b"Pass"
        || word.eq_ignore_ascii_case(b"pass") && !before.is_ascii_alphabetic()
        || [&b"dbpass"[..], b"keypass", b"userpass"].iter().any(|suffix| {
            name.len() >= suffix.len()
                && name[name.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
        })
}
