//! What a command runs besides itself, where a rule that allows names only how it begins.
//!
//! Invariants: what the rule names itself is not asked about again; everything else that is found
//! here must be allowed for itself; what cannot be told is a doubt.

use std::path::PathBuf;

use crate::command::unwrapped;
use crate::git;
use crate::harmless::is_harmless_variable;
use crate::hidden::hides;
use crate::program::{self, base, is_inert, is_shell, is_wrapper};
use crate::rule::{Kind, Rule};
use crate::shell::{self, Arg, Simple};

/// What a command runs.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) commands: Vec<Simple>,
    /// Why that may not be all.
    pub(crate) doubt: Option<&'static str>,
}

const UNTOLD: &str = "what it runs cannot be told";

impl Inner {
    fn doubt(why: &'static str) -> Inner {
        Inner { doubt: Some(why), ..Inner::default() }
    }

    fn one(command: Simple) -> Inner {
        if command.words.first().is_none_or(|word| word.text.starts_with('-')) {
            return Inner::doubt(UNTOLD);
        }
        Inner { commands: vec![command], doubt: None }
    }

    /// The commands of a text.
    fn text(text: &str, has_input: bool) -> Inner {
        let parsed = shell::parse(text);
        let commands = parsed.parts.into_iter().map(|part| part.with_input(has_input)).collect();
        Inner { commands, doubt: parsed.doubts.first().copied() }
    }

    fn and(mut self, other: Inner) -> Inner {
        self.commands.extend(other.commands);
        Inner { doubt: self.doubt.or(other.doubt), ..self }
    }
}

/// How many words of a command the content of a rule names; None if it names all of it.
pub(crate) fn named(content: &str) -> Option<usize> {
    let start = content.strip_suffix(":*").or(content.split_once('*').map(|(start, _)| start))?;
    Some(start.split_whitespace().count())
}

/// What a command runs, of which a rule names the first words.
pub(crate) fn inner(simple: &Simple, named: usize) -> Inner {
    let Some(first) = simple.words.first() else { return Inner::default() };
    let name = base(&first.text);
    let hidden = hides(simple).filter(|why| !is_named(simple, named, why));
    let found = Inner { doubt: hidden, ..Inner::default() };
    found.and(match name {
        _ if is_shell(name) => of_shell(simple, named),
        "find" | "fd" | "fdfind" => of_find(simple, named),
        "git" if git::runs_words(simple) => behind(simple, named, &["run", "foreach"]),
        _ if is_inert(name) => Inner::default(),
        _ => match program::runner(name) {
            Some(words) => behind(simple, named, words),
            None if is_wrapper(name) => of_wrapper(name, simple, named),
            None => of_unknown(simple, named),
        },
    })
}

/// Whether a rule itself names that for which a command is doubted: whatever follows its words
/// would be.
fn is_named(simple: &Simple, named: usize, why: &str) -> bool {
    // The name of git alone says nothing of the aliases that it has.
    if named < 2 && simple.words.first().is_some_and(|word| base(&word.text) == "git") {
        return false;
    }
    let mut words: Vec<Arg> = simple.words.iter().take(named).cloned().collect();
    words.push(Arg { text: "p".to_owned(), ..Arg::default() });
    hides(&Simple { words, ..Simple::default() }) == Some(why)
}

/// Options and settings are no programs.
fn is_program(word: &Arg) -> bool {
    !word.text.starts_with('-') && !word.text.contains('=')
}

fn of_shell(simple: &Simple, named: usize) -> Inner {
    let is_code = |word: &&Arg| {
        let text = word.text.as_str();
        git::means_option(text, "--command")
            || (text.starts_with(['-', '+']) && !text.starts_with("--") && text.contains('c'))
    };
    let words = || simple.words.iter().skip(1);
    if words().take(named.saturating_sub(1)).any(|word| is_code(&word)) {
        return Inner::default();
    }
    if !words().any(|word| is_code(&word)) {
        // A script, which the rule allows.
        return Inner::default();
    }
    let is_plain = |word: &Arg| {
        let letters = word.text.trim_start_matches(['-', '+']);
        letters.len() < 6 && letters.chars().all(|c| c.is_ascii_alphabetic())
    };
    words().skip(named.saturating_sub(1)).fold(Inner::default(), |found, word| {
        if !word.text.starts_with(['-', '+']) {
            found.and(Inner::text(&word.text, simple.has_input))
        } else if is_plain(word) {
            found
        } else {
            found.and(Inner::doubt(UNTOLD))
        }
    })
}

fn of_find(simple: &Simple, named: usize) -> Inner {
    let words = simple.words.iter().enumerate().skip(named.max(1));
    words.fold(Inner::default(), |found, (at, word)| match word.text.as_str() {
        "-exec" | "-ok" | "-x" | "-X" | "--exec" | "--exec-batch" => {
            found.and(Inner::one(simple.since_word(at + 1)))
        }
        // It runs in folders that are not in the text.
        "-execdir" | "-okdir" => found.and(Inner::doubt(UNTOLD)),
        text if text.starts_with("--exec") => found.and(Inner::doubt(UNTOLD)),
        text if text.starts_with("-x") || text.starts_with("-X") => {
            let is_find = base(&simple.words[0].text) == "find";
            if is_find { found } else { found.and(Inner::doubt(UNTOLD)) }
        }
        _ => found,
    })
}

/// What follows the word by which a program with commands of its own runs others.
fn behind(simple: &Simple, named: usize, words: &[&str]) -> Inner {
    let starts = |word: &Arg| {
        words.iter().any(|start| match start.strip_prefix('-') {
            Some(_) => word.text.starts_with(start),
            None => word.text == *start,
        })
    };
    let Some(at) = simple.words.iter().skip(1).position(starts) else { return Inner::default() };
    let at = at + 1;
    if at < named {
        return Inner::default();
    }
    let is_end = simple.words.get(at + 1).is_some_and(|word| word.text == "--");
    let command = simple.since_word(at + 1 + usize::from(is_end));
    let is_exact = words.contains(&simple.words[at].text.as_str());
    let Some(first) = command.words.first().filter(|_| is_exact) else {
        return Inner::doubt(UNTOLD);
    };
    // It may be a text for a shell.
    let has_text = command.words.iter().any(|word| word.text.contains(char::is_whitespace));
    if has_text && (simple.words[at].text.starts_with('-') || command.words.len() == 1) {
        return Inner::text(&first.text, simple.has_input);
    }
    if has_text { Inner::doubt(UNTOLD) } else { Inner::one(command) }
}

fn of_wrapper(name: &str, simple: &Simple, named: usize) -> Inner {
    let words = &simple.words;
    // The rule names the program, too.
    if let Some(at) = (1..named.min(words.len())).find(|at| is_program(&words[*at])) {
        return inner(&simple.since_word(at), named - at);
    }
    if words.len() == 1 {
        return Inner::default();
    }
    if !program::is_plain(name) {
        return Inner::doubt(UNTOLD);
    }
    let is_set = |word: &&Arg| word.text.contains('=') && !word.text.starts_with('-');
    let count = words.iter().skip(1).take_while(is_set).count();
    let sets = |word: &Arg| {
        let set = word.text.split_once('=');
        set.is_some_and(|(variable, value)| !is_harmless_variable(variable, value))
    };
    if words.iter().skip(1).take(count).any(sets) {
        return Inner::doubt("it sets a variable that may decide what runs");
    }
    if words.len() == 1 + count {
        return Inner::default();
    }
    Inner::one(simple.since_word(1 + count))
}

/// An unknown program may run a shell, or a program that runs a text.
fn of_unknown(simple: &Simple, named: usize) -> Inner {
    let last = simple.words.len().saturating_sub(1);
    (named.max(1)..last).fold(Inner::default(), |found, at| {
        let name = base(&simple.words[at].text);
        let runs_text = is_shell(name) || program::language(name).is_some();
        if runs_text { found.and(inner(&simple.since_word(at), 1)) } else { found }
    })
}

/// Whether a command may do anything with more words, however it begins.
pub(crate) fn is_open(simple: &Simple, named: usize) -> bool {
    let Some(first) = simple.words.first() else { return true };
    let name = base(&first.text);
    program::runs_anything(name)
        || matches!(name, "awk" | "gawk" | "mawk" | "nawk" | "sed" | "gsed" | "ed")
        || (name == "git" && (named < 2 || git::may_be_told(simple)))
}

/// The content of a rule that allows a part of a command, by its text: how it begins, or all of it,
/// if the same beginning would allow anything. None if that cannot be told.
pub fn suggested(text: &str) -> Option<String> {
    let parsed = shell::parse(text);
    let [one] = &parsed.parts[..] else { return None };
    if !parsed.doubts.is_empty() || !one.assignments.is_empty() {
        return None;
    }
    let plain = unwrapped(one);
    let is_word =
        |word: &&Arg| word.text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c));
    let words = || plain.words.iter().take(2).take_while(is_word);
    let count = words().count();
    if count > 0 && is_narrow(&plain, count) {
        let words: Vec<&str> = words().map(|word| word.text.as_str()).collect();
        return Some(format!("{}:*", words.join(" ")));
    }
    let content = plain.text();
    // A sign in it would mean more than itself.
    let is_exact = !content.is_empty() && !content.contains(['*', '\n']);
    let rule = Rule::parse(&format!("Bash({content})"), Kind::Allow, "", PathBuf::new());
    (is_exact && rule.is_ok()).then_some(content)
}

/// Whether what begins like a command runs nothing else.
fn is_narrow(simple: &Simple, named: usize) -> bool {
    let Some(first) = simple.words.first() else { return false };
    let name = base(&first.text);
    let is_marked = match program::runner(name) {
        Some(starts) => {
            simple.words.iter().take(named).skip(1).any(|word| starts.contains(&&*word.text))
        }
        // What `find` runs stands behind an option, and needs a rule of its own.
        None => is_wrapper(name) && name != "find",
    };
    let inner = inner(simple, named);
    let is_quiet = inner.commands.is_empty() && inner.doubt.is_none();
    is_quiet
        && !is_marked
        && !is_shell(name)
        && hides(simple).is_none_or(|why| !is_named(simple, named, why))
}
