//! Programs that run other programs, and other names for the same command.
//!
//! Invariant: a rule that denies or asks sees a command under every name that is known here.

use std::collections::HashSet;

use crate::git;
use crate::hidden::hides;
use crate::program::{self, base, is_inert, is_shell, is_wrapper};
use crate::shell::{self, Arg, Simple};

/// Programs that run what follows their options and do nothing else: they may stand before an
/// allowed command.
const HARMLESS: [&str; 3] = ["timeout", "nice", "xargs"];

/// The command behind a wrapper that changes nothing about it, however often; the command itself
/// without one.
pub(crate) fn unwrapped(simple: &Simple) -> Simple {
    let mut now = simple.clone();
    for _ in 0..8 {
        let Some(name) = now.words.first().map(|word| word.text.clone()) else { break };
        if !HARMLESS.contains(&name.as_str()) {
            break;
        }
        let Some(at) = inner(&name, &now) else { break };
        let (inputs, outputs, assignments) =
            (now.inputs.clone(), now.outputs.clone(), now.assignments.clone());
        let is_nested = now.is_nested;
        now = Simple { assignments, inputs, outputs, is_nested, ..now.since_word(at) };
    }
    now
}

/// Where the command of a harmless wrapper begins; None if its options are not known.
fn inner(name: &str, simple: &Simple) -> Option<usize> {
    let word = |at: usize| {
        simple.words.get(at).filter(|word| !word.is_unknown).map(|word| word.text.as_str())
    };
    let mut at = 1;
    let is_number = |text: &str| {
        let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    match name {
        "timeout" => {
            while matches!(word(at)?, "--preserve-status" | "--foreground" | "-v" | "--verbose") {
                at += 1;
            }
            is_number(word(at)?).then_some(at + 1)
        }
        "nice" => {
            if word(at)? == "-n" {
                return is_number(word(2)?.trim_start_matches('-')).then_some(3);
            }
            (!word(at)?.starts_with('-')).then_some(at)
        }
        _ => {
            while matches!(word(at)?, "-0" | "-r" | "--null" | "--no-run-if-empty" | "-t") {
                at += 1;
            }
            (!word(at)?.starts_with('-')).then_some(at)
        }
    }
}

/// Whether the words of a command name another one that begins with these words, and it may run
/// that in its own way: an unknown wrapper, or a text of another language.
pub(crate) fn mentions(simple: &Simple, wanted: &[&str]) -> bool {
    let Some((first, words)) = simple.words.split_first() else { return false };
    if is_inert(base(&first.text)) && !git::runs_words(simple) {
        return false;
    }
    let is_part = |c: char| c.is_alphanumeric() || "_./@:+~-".contains(c);
    let tokens: Vec<&str> = words
        .iter()
        .flat_map(|word| word.text.split(|c| !is_part(c)))
        .filter(|token| !token.is_empty())
        .collect();
    tokens.windows(wanted.len()).any(|tokens| {
        let option = tokens[0].strip_prefix('-').unwrap_or_default();
        let starts = [base(tokens[0]), option, option.get(1..).unwrap_or_default()];
        starts.contains(&wanted[0]) && tokens[1..] == wanted[1..]
    })
}

/// Whether a command gives another name to the program of one that begins with these words, or
/// copies it: what it is called then is in no rule.
pub(crate) fn renames(simple: &Simple, wanted: &[&str]) -> bool {
    let Some((first, words)) = simple.words.split_first() else { return false };
    let copies = ["cat", "cp", "dd", "install", "ln", "mv", "rsync"];
    let is_program = |word: &Arg| {
        let path = word.text.rsplit('=').next().unwrap_or_default();
        path.contains("bin/") && base(path) == wanted[0]
    };
    copies.contains(&base(&first.text)) && words.iter().chain(&simple.inputs).any(is_program)
}

/// Whether a wrapper that adds words may make a command that begins with these words.
pub(crate) fn may_become(simple: &Simple, wanted: &[&str]) -> bool {
    added_to(simple).into_iter().any(|at| {
        let inner = &simple.words[at..];
        let Some(first) = inner.first() else { return true };
        let name = base(&first.text);
        let is_open = |word: &Arg| word.text.contains("{}");
        if is_open(first)
            || is_shell(name)
            || (name != "git" && is_wrapper(name))
            || hides(&simple.since_word(at)).is_some()
        {
            return true;
        }
        let is_same = |(at, word): (usize, &Arg)| {
            let text = if at == 0 { base(&word.text) } else { &word.text };
            is_open(word) || wanted.get(at).is_none_or(|wanted| *wanted == text)
        };
        (inner.len() < wanted.len() || inner.iter().any(is_open))
            && inner.iter().enumerate().all(is_same)
    })
}

/// Where the commands begin to which a wrapper adds words.
fn added_to(simple: &Simple) -> Vec<usize> {
    let words = &simple.words;
    let behind = |names: &[&str]| {
        let found = words.iter().enumerate().filter(|(_, word)| names.contains(&&*word.text));
        found.map(|(at, _)| at + 1).collect()
    };
    match words.first().map(|word| base(&word.text)) {
        Some("xargs") => added_by_xargs(words),
        Some("parallel" | "sem" | "zargs") => vec![words.len()],
        Some("fd" | "fdfind") => behind(&["-x", "-X", "--exec", "--exec-batch"]),
        Some("find") => behind(&["-exec", "-execdir", "-ok", "-okdir"]),
        _ => Vec::new(),
    }
}

/// The same of `xargs`: behind its options, each of which may take the next word as its value.
fn added_by_xargs(words: &[Arg]) -> Vec<usize> {
    let (mut todo, mut seen, mut found) = (vec![1], HashSet::new(), Vec::new());
    while let Some(at) = todo.pop().filter(|_| seen.len() <= words.len()) {
        if !seen.insert(at) {
            continue;
        }
        let Some(option) = words.get(at).filter(|word| word.text.starts_with('-')) else {
            found.push(at.min(words.len()));
            continue;
        };
        match mark(&option.text, words.get(at + 1)) {
            // What it adds stands where this does.
            Some(("{}", taken)) => todo.push(at + 1 + taken),
            // It may stand anywhere.
            Some(_) => return vec![words.len()],
            None => {
                todo.push(at + 1);
                let (text, is_long) = (&option.text, option.text.starts_with("--"));
                let letters = ['n', 'P', 'L', 's', 'd', 'E', 'a'];
                if is_long && !text.contains('=') || !is_long && text.ends_with(letters) {
                    todo.push(at + 2);
                }
            }
        }
    }
    found
}

/// What an option of `xargs` says is replaced, if it says that, and how many more words it takes.
fn mark<'a>(option: &'a str, next: Option<&'a Arg>) -> Option<(&'a str, usize)> {
    if option.starts_with("--") {
        let value = option.split_once('=').map_or("{}", |(_, value)| value);
        return git::means_option(option, "--replace").then_some((value, 0));
    }
    // Behind one of these letters, the rest is a value.
    let at = option.find(['n', 'P', 'L', 's', 'd', 'E', 'a', 'e', 'l', 'I', 'i'])?;
    match (option.as_bytes()[at], &option[at + 1..]) {
        (b'I', "") => Some((next.map_or("", |next| next.text.as_str()), 1)),
        (b'i', "") => Some(("{}", 0)),
        (b'I' | b'i', rest) => Some((rest, 0)),
        _ => None,
    }
}

/// Whether a command is run by a wrapper that feeds it arguments that are not in the text.
pub(crate) fn is_fed(simple: &Simple) -> bool {
    let before = simple.words.len() - unwrapped(simple).words.len();
    simple.words.iter().take(before.max(8)).any(|word| base(&word.text) == "xargs")
}

/// What a command is and runs, as far as its text says.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The command under its other names, and what it runs.
    pub(crate) all: Vec<Simple>,
    /// Why that may not be all.
    pub(crate) doubts: Vec<&'static str>,
}

/// The command under its other names, and what it runs: for rules that deny or ask.
pub(crate) fn names(simple: &Simple) -> Names {
    let mut names = Names::default();
    let mut todo = vec![(simple.clone(), 0)];
    while let Some((one, depth)) = todo.pop() {
        if depth > 6 || names.all.len() > 400 {
            names.doubts.push("it is nested too deep");
            continue;
        }
        let Some(first) = one.words.first() else {
            names.doubts.extend(hides(&one));
            continue;
        };
        if names.all.iter().any(|known| known.is_same(&one)) {
            continue;
        }
        let name = base(&first.text).to_owned();
        if name != first.text {
            let mut renamed = one.clone();
            renamed.words[0].text.clone_from(&name);
            todo.push((renamed, depth + 1));
        }
        if let Some(verb) = name.strip_prefix("git-") {
            let words = ["git", verb].map(|text| Arg { text: text.to_owned(), ..Arg::default() });
            let words = words.into_iter().chain(one.words.iter().skip(1).cloned()).collect();
            todo.push((Simple { words, ..one.since_word(0) }, depth + 1));
        }
        // Where case does not matter, it is the same program.
        let lower = name.to_ascii_lowercase();
        if lower != name {
            let mut renamed = one.clone();
            renamed.words[0].text = lower;
            todo.push((renamed, depth + 1));
        }
        if name == "git" {
            names.all.extend(without_options(&one));
        }
        if added_to(&one).is_empty() {
            names.all.extend(without_leading(&one));
        }
        let inner = (1..one.words.len()).filter(|at| may_begin(&name, &one, *at));
        todo.extend(inner.map(|at| (one.since_word(at), depth + 1)));
        for Text { text, is_code } in texts(&name, &one) {
            let parsed = shell::parse(&text);
            let parts = parsed.parts.into_iter();
            todo.extend(parts.map(|part| (part.with_input(one.has_input), depth + 1)));
            names.doubts.extend(parsed.doubts.into_iter().filter(|_| is_code));
        }
        names.doubts.extend(hides(&one));
        names.all.push(one);
    }
    names
}

/// Whether a program may run what begins with this word.
fn may_begin(name: &str, simple: &Simple, at: usize) -> bool {
    let is_at = |at: usize, names: &[&str]| {
        simple.words.get(at).is_some_and(|word| names.contains(&word.text.as_str()))
    };
    match name {
        "find" => is_at(at - 1, &["-exec", "-execdir", "-ok", "-okdir"]),
        // Only the shell itself knows these.
        "builtin" | "command" => true,
        _ if is_wrapper(name) || git::runs_words(simple) => !is_at(at, &[".", "source"]),
        _ if is_inert(name) || is_shell(name) => false,
        // An unknown program may be a wrapper. The name of another one at its end is often only a
        // name, as of what is to be installed.
        _ => {
            let is_last = at + 1 == simple.words.len();
            let inner = base(&simple.words[at].text);
            program::runs_anything(inner) && (!is_last || simple.has_input)
        }
    }
}

/// A text that a command may run.
struct Text {
    text: String,
    /// Whether it is more than a name: then what cannot be judged in it is a doubt.
    is_code: bool,
}

/// The texts among the words of a command that it may run as commands.
fn texts(name: &str, simple: &Simple) -> Vec<Text> {
    let words = simple.words.get(1..).unwrap_or_default();
    let certain = |text: String| Text { text, is_code: true };
    if name == "eval" || name == "trap" {
        let is_end = words.first().is_some_and(|word| word.text == "--");
        let words = &words[usize::from(is_end)..];
        // What follows the text of `trap` are signals.
        let words = if name == "trap" { words.get(..1).unwrap_or_default() } else { words };
        return vec![certain(joined(words))];
    }
    let has_shell = is_shell(name);
    // It runs programs, and no texts.
    if name == "find" || !(has_shell || is_wrapper(name) || git::runs_words(simple)) {
        return Vec::new();
    }
    let mut texts = Vec::new();
    if program::joins(name) {
        texts.extend((0..words.len()).map(|at| certain(joined(&words[at..]))));
    }
    for word in words {
        let mut add = |text: &str| {
            let is_blank = text.contains(char::is_whitespace);
            let is_code = has_shell || is_blank || (!word.is_unknown && text.contains(['$', '`']));
            texts.push(Text { text: text.to_owned(), is_code });
        };
        if has_shell || word.text.contains(char::is_whitespace) {
            add(&word.text);
        }
        values(&word.text).into_iter().for_each(&mut add);
    }
    texts
}

/// What may be the value of an option: `--exec=TEXT`, `-cTEXT`, `-xcTEXT`.
fn values(word: &str) -> Vec<&str> {
    let Some(rest) = word.strip_prefix('-') else { return Vec::new() };
    if let Some(long) = rest.strip_prefix('-') {
        return long.split_once('=').map(|(_, value)| value).into_iter().collect();
    }
    let letters = rest.chars().take_while(char::is_ascii_alphanumeric).count();
    (1..=letters).map(|at| &rest[at..]).filter(|value| !value.is_empty()).collect()
}

fn joined(words: &[Arg]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// Programs that write what they are given to a file, and those that give a file another name.
const WRITING: &[&str] = &["tee", "dd", "curl", "wget"];
const NAMING: &[&str] = &["cp", "mv", "ln", "install"];

/// The names of the files that these commands write.
pub(crate) fn written(names: &[Simple]) -> Vec<String> {
    let last = |word: &Arg| base(word.text.rsplit('=').next().unwrap_or_default()).to_owned();
    let mut found: Vec<String> =
        names.iter().flat_map(|name| &name.outputs).map(last).filter(|it| it != "null").collect();
    let is = |name: &Simple, programs: &[&str]| {
        name.words.first().is_some_and(|word| programs.contains(&base(&word.text)))
    };
    for name in names.iter().filter(|name| is(name, WRITING)) {
        found.extend(name.words.iter().skip(1).map(last));
    }
    for name in names.iter().filter(|name| is(name, NAMING)) {
        let words: Vec<String> = name.words.iter().skip(1).map(last).collect();
        if words.iter().any(|word| found.contains(word)) {
            found.extend(words);
        }
    }
    found
}

/// Whether a command runs one of these files.
pub(crate) fn runs_one_of(simple: &Simple, written: &[String]) -> bool {
    let is_one =
        |word: &Arg| word.is_pattern || written.iter().any(|written| *written == base(&word.text));
    let Some((first, words)) = simple.words.split_first().filter(|_| !written.is_empty()) else {
        return false;
    };
    let name = base(&first.text);
    let runs_files = is_shell(name) || program::language(name).is_some() || name == "make";
    is_one(first) || runs_files && words.iter().any(is_one)
}

/// A command without the options that are the first of its words.
fn without_leading(simple: &Simple) -> Option<Simple> {
    let (name, words) = simple.words.split_first()?;
    let count = words.iter().take_while(|word| is_option(word)).count();
    let mut plain = simple.since_word(1 + count);
    let is_other = count > 0 && !plain.words.is_empty();
    plain.words.insert(0, name.clone());
    is_other.then_some(plain)
}

fn is_option(word: &Arg) -> bool {
    word.text.starts_with(['-', '+']) && word.text.len() > 1
}

/// Whether a command begins with these words if some of those behind its options are their values.
pub(crate) fn begins_behind_values(simple: &Simple, wanted: &[&str]) -> bool {
    let Some(((first, words), (name, verbs))) =
        simple.words.split_first().zip(wanted.split_first())
    else {
        return false;
    };
    let is_same = base(&first.text) == *name && !verbs.is_empty();
    let begins = |at: usize| {
        let behind = words[at..].iter().map(|word| word.text.as_str());
        verbs.iter().copied().eq(behind.take(verbs.len()))
    };
    // Every word before them is an option, or follows one.
    let is_skipped = |at: usize| is_option(&words[at]) || (at > 0 && is_option(&words[at - 1]));
    is_same && (1..words.len()).take_while(|at| is_skipped(at - 1)).any(begins)
}

/// A git command without the options before its verb.
fn without_options(simple: &Simple) -> Option<Simple> {
    let at = git::before_verb(&simple.words);
    let mut plain = simple.since_word(at);
    plain.words.insert(0, simple.words.first()?.clone());
    (at > 1).then_some(plain)
}
