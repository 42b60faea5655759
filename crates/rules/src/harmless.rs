//! Commands that change nothing, and commands that only change the files that they name.
//!
//! Invariant: a command is harmless only if every word of it is known to be; what is not on these
//! lists is a question.

use crate::git::means_option;
use crate::program::base;
use crate::shell::{Arg, Simple};

/// Variables that may be set before a command: they change how it prints, not what it does.
const VARIABLES: [&str; 9] = [
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "TERM",
];

/// Whether a variable may be set before a command.
pub(crate) fn is_harmless_variable(name: &str, value: &str) -> bool {
    // A locale may name a folder.
    VARIABLES.contains(&name) && !value.contains('/')
}

/// Commands that only read, whatever their options.
const READING: [&str; 27] = [
    "ls", "pwd", "cat", "head", "tail", "wc", "echo", "true", "false", "sleep", "grep", "egrep",
    "fgrep", "stat", "basename", "dirname", "realpath", "readlink", "cut", "tr", "nl", "cmp",
    "diff", "test", "[", "whoami", ":",
];

/// What a command reads, if it does nothing else; None if it may do something else.
pub(crate) fn read_by(simple: &Simple) -> Option<Vec<&Arg>> {
    let (name, words) = simple.words.split_first()?;
    if name.is_unknown
        || name.is_pattern
        || words.iter().any(|word| word.is_unknown && !is_home(word))
    {
        return None;
    }
    let is = |text: &str| words.iter().any(|word| word.text == text);
    let has = |start: &str| words.iter().any(|word| word.text.starts_with(start));
    let has_short = |letter: char| {
        let is_short = |word: &Arg| word.text.starts_with('-') && !word.text.starts_with("--");
        words.iter().any(|word| is_short(word) && word.text.contains(letter))
    };
    // A pattern may become an option.
    let opens = words.iter().any(|word| word.is_pattern && word.text.starts_with(['*', '?', '[']));
    match name.text.as_str() {
        // The shell evaluates the name of a variable that may be an element of a list.
        "test" | "[" if is("-v") || is("-R") => return None,
        // A file of patterns, however the option is written.
        "grep" | "egrep" | "fgrep" if words.iter().any(names_patterns) => return None,
        // Without a folder, it goes to the home folder.
        "cd" => {
            if words.len() != 1 || has("-") {
                return None;
            }
        }
        // Names of files that are in a file.
        "wc" if has("--f") => return None,
        // What follows links leads anywhere.
        "grep" | "egrep" | "fgrep" if has_short('R') || has_short('S') || has("--der") => {
            return None;
        }
        "ls" if (has_short('R') || has("--rec"))
            && (has_short('L') || has_short('H') || has("--de")) =>
        {
            return None;
        }
        "diff" if (has_short('r') || has("--re")) && !has("--no-dereference") => return None,
        "find" if has("-L") || has("-H") || is("-follow") => return None,
        "date" => {
            let is_plain = |word: &Arg| {
                word.text.starts_with('+') || matches!(word.text.as_str(), "-u" | "-I" | "--utc")
            };
            if !words.iter().all(is_plain) {
                return None;
            }
        }
        text if READING.contains(&text) => {}
        "printf" if !has("-v") => {}
        "sort" => {
            let is_plain = |word: &Arg| {
                !word.text.starts_with('-')
                    || (!word.text.contains(['o', 'T', 'S']) && !word.text.starts_with("--"))
            };
            if opens || !words.iter().all(is_plain) {
                return None;
            }
        }
        "uniq" if !opens && files_of_uniq(words) <= 1 => {}
        "find" => {
            let acts = [
                "-exec",
                "-execdir",
                "-ok",
                "-okdir",
                "-delete",
                "-fprint",
                "-fprintf",
                "-fprint0",
                "-fls",
                "-files0-from",
            ];
            if opens || words.iter().any(|word| acts.contains(&word.text.as_str())) {
                return None;
            }
        }
        "git" => {
            if opens || !is_reading_git(words) {
                return None;
            }
        }
        text if base(text) == text && words.len() == 1 && is("--version") => {
            let known = [
                "python", "python3", "node", "npm", "npx", "yarn", "pnpm", "cargo", "rustc", "go",
                "gcc", "clang", "make", "cmake", "java", "ruby", "perl", "php", "deno", "bun",
                "tsc", "pip", "pip3", "bash",
            ];
            return known.contains(&text).then(Vec::new);
        }
        _ => return None,
    }
    // Their words may all be files, except for texts that are printed or searched for; but what
    // fits a pattern are files.
    let skipped = match name.text.as_str() {
        "echo" | "printf" | "sleep" | "true" | "false" | ":" | "tr" | "date" | "test" | "["
        | "whoami" | "basename" | "dirname" => words.len(),
        "grep" | "egrep" | "fgrep" if has_short('e') || has("--reg") => 0,
        "grep" | "egrep" | "fgrep" => words
            .iter()
            .position(|word| !word.text.starts_with('-') || word.text == "--")
            .map_or(words.len(), |at| if words[at].text == "--" { at + 2 } else { at + 1 }),
        _ => 0,
    };
    let is_file = |(at, word): &(usize, &Arg)| *at >= skipped || word.is_pattern;
    Some(words.iter().enumerate().filter(is_file).map(|(_, word)| word).collect())
}

/// How many words of `uniq` are files: a single hyphen is the standard input, and behind `--`, all
/// are.
fn files_of_uniq(words: &[Arg]) -> usize {
    let end = words.iter().position(|word| word.text == "--").unwrap_or(words.len());
    let (before, behind) = words.split_at(end);
    let is_file = |word: &&Arg| word.text == "-" || !word.text.starts_with('-');
    before.iter().filter(is_file).count() + behind.len().saturating_sub(1)
}

/// Whether a word of `grep` may name a file of patterns.
fn names_patterns(word: &Arg) -> bool {
    match word.text.strip_prefix("--") {
        Some(long) => {
            let lists = ["files-with-matches", "files-without-match"];
            long.starts_with("fi") && !long.starts_with("fix") && !lists.contains(&long)
        }
        None => word.text.strip_prefix('-').is_some_and(|short| short.contains('f')),
    }
}

fn is_home(word: &Arg) -> bool {
    let names = ["$HOME", "${HOME}", "$PWD", "${PWD}"];
    !word.is_literal && names.iter().any(|name| word.text.starts_with(name))
}

/// Whether git only reads with these words.
fn is_reading_git(words: &[Arg]) -> bool {
    let Some((verb, rest)) = words.split_first() else { return false };
    let has = |start: &str| rest.iter().any(|word| word.text.starts_with(start));
    let acts = [
        "--output",
        "--ext-diff",
        "--textconv",
        "--open-files-in-pager",
        "--upload-pack",
        "--exec",
        "--contents",
    ];
    // Git knows an option by the beginning of its name.
    let acts = |word: &Arg| acts.iter().any(|option| means_option(&word.text, option));
    // Help is shown by another program.
    if has("-O") || has("--help") || rest.iter().any(acts) {
        return false;
    }
    match verb.text.as_str() {
        "status" | "diff" | "log" | "show" | "ls-files" | "rev-parse" | "describe" | "shortlog"
        | "blame" => true,
        "branch" => rest.iter().all(|word| {
            matches!(
                word.text.as_str(),
                "-a" | "-r" | "-v" | "-vv" | "--list" | "--show-current" | "--all"
            )
        }),
        "remote" | "stash" | "tag" => match rest {
            [] => verb.text != "stash",
            [one] => match one.text.as_str() {
                "-v" => verb.text == "remote",
                "list" => verb.text == "stash",
                "--list" | "-l" => verb.text == "tag",
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// The files that a command changes, if it changes nothing else, in a mode that accepts edits.
pub(crate) fn changed_by(simple: &Simple) -> Option<Vec<&Arg>> {
    let (name, words) = simple.words.split_first()?;
    if words
        .iter()
        .any(|word| word.is_unknown || (word.is_pattern && word.text.starts_with(['*', '?', '['])))
    {
        return None;
    }
    let options = |known: &str| {
        words
            .iter()
            .filter(|word| word.text.starts_with('-'))
            .all(|word| word.text.len() > 1 && word.text[1..].chars().all(|c| known.contains(c)))
    };
    let files = || words.iter().filter(|word| !word.text.starts_with('-')).collect::<Vec<_>>();
    let is_known = match name.text.as_str() {
        "touch" => options("acm"),
        "mkdir" | "rmdir" => options("pv"),
        "rm" => options("rfRvi"),
        "mv" => options("fvin"),
        "cp" => options("rRfvinpa"),
        "sed" => return edited_by_sed(words),
        _ => false,
    };
    let files = files();
    (is_known && !files.is_empty()).then_some(files)
}

/// The files that `sed -i` edits, if its script only replaces text: others run programs, or write
/// elsewhere.
fn edited_by_sed(words: &[Arg]) -> Option<Vec<&Arg>> {
    let [option, rest @ ..] = words else { return None };
    let (script, files) = match rest {
        [extended, script, files @ ..] if extended.text == "-E" => (script, files),
        [script, files @ ..] => (script, files),
        [] => return None,
    };
    let is_plain = edited_script(&script.text);
    let is_known = option.text == "-i" && is_plain && !files.is_empty();
    (is_known && !files.iter().any(|file| file.text.starts_with('-')))
        .then(|| files.iter().collect())
}

/// Whether a script of sed replaces a text and does nothing else.
pub(crate) fn edited_script(script: &str) -> bool {
    let Some(text) = script.strip_prefix('s') else { return false };
    let mark = text.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\');
    let Some(mark) = mark else { return false };
    let (mut marks, mut is_escaped) = (0, false);
    let mut flags = text[mark.len_utf8()..].chars();
    // A mark behind a backslash ends nothing.
    while marks < 2 {
        match flags.next() {
            None => return false,
            Some(_) if is_escaped => is_escaped = false,
            Some('\\') => is_escaped = true,
            Some(c) => marks += usize::from(c == mark),
        }
    }
    flags.all(|c| "gIip0123456789".contains(c)) && !script.contains('\n')
}
