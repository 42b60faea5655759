//! Completion: files after `@`, commands after `/`, by letters in order.

use std::ops::Range;

/// What can be completed at the caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A command: the text after `/`.
    Command(Range<usize>),
    /// A file: the text after `@`.
    File(Range<usize>),
}

/// What is being typed at a place of a text, if it can be completed.
pub fn wanted(text: &str, at: usize) -> Option<Wanted> {
    let before = &text[..at];
    if let Some(rest) = before.strip_prefix('/')
        && !rest.contains(char::is_whitespace)
        && !rest.contains('/')
    {
        return Some(Wanted::Command(1..at));
    }
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |found| found + before[found..].chars().next().map_or(1, char::len_utf8));
    before[start..].starts_with('@').then_some(Wanted::File(start + 1..at))
}

/// How well letters match a name: None if they are not in it in this order.
pub fn score(letters: &str, name: &str) -> Option<i32> {
    let mut score = 0;
    let mut wanted = letters.chars().flat_map(char::to_lowercase).peekable();
    let mut before = '/';
    let mut is_run = false;
    for (place, c) in (0..).zip(name.chars()) {
        let Some(next) = wanted.peek().copied() else { break };
        let is_hit = c.to_lowercase().next() == Some(next);
        if is_hit {
            wanted.next();
            let is_start = "/_-. ".contains(before) || before.is_lowercase() && c.is_uppercase();
            score +=
                1 + 4 * i32::from(is_start) + 3 * i32::from(is_run) + 2 * i32::from(place == 0);
        }
        is_run = is_hit;
        before = c;
    }
    if wanted.peek().is_some() {
        return None;
    }
    // Short names, and hits in the file's name, first.
    let file = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    let bonus = if file.to_lowercase().contains(&letters.to_lowercase()) { 10 } else { 0 };
    Some(score * 4 + bonus - i32::try_from(name.chars().count() / 4).unwrap_or(1_000))
}

/// The best names for these letters, the best first.
pub fn best<'a>(letters: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let mut scored: Vec<(i32, &str)> =
        names.filter_map(|name| Some((score(letters, name)?, name))).collect();
    scored.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    scored.into_iter().take(most).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_completed() {
        assert_eq!(wanted("/he", 3), Some(Wanted::Command(1..3)));
        assert_eq!(wanted("/help me", 8), None);
        assert_eq!(wanted("see @sr", 7), Some(Wanted::File(5..7)));
        assert_eq!(wanted("see @src now", 12), None);
        assert_eq!(wanted("a@b", 3), None);
    }

    #[test]
    fn the_best_first() {
        let names =
            ["src/main.rs", "src/markdown.rs", "docs/map.md", "Cargo.toml", "src/domain.rs"];
        assert_eq!(best("main", names.into_iter(), 2), ["src/main.rs", "src/domain.rs"]);
        assert_eq!(best("mkd", names.into_iter(), 5), ["src/markdown.rs"]);
        assert_eq!(best("zzz", names.into_iter(), 5), [""; 0]);
    }
}
