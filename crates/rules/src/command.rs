//! Programs that run other programs, and other names for the same command.
//!
//! Invariant: a rule that denies or asks sees a command under every name that is known here.

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
        Some("xargs") => {
            let takes = ["-n", "-P", "-L", "-s", "-d", "-E", "-a"];
            let mut at = 1;
            while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
                let is_usual = matches!(&*word.text, "-I{}" | "-i" | "-i{}" | "--replace");
                let is_next =
                    word.text == "-I" && words.get(at + 1).is_some_and(|it| it.text == "{}");
                // It may stand anywhere.
                if !is_usual
                    && !is_next
                    && ["-I", "-i", "--replace"].iter().any(|option| word.text.starts_with(option))
                {
                    return vec![words.len()];
                }
                at += if is_next || takes.contains(&&*word.text) { 2 } else { 1 };
            }
            vec![at.min(words.len())]
        }
        Some("parallel" | "sem" | "zargs") => vec![words.len()],
        Some("fd" | "fdfind") => behind(&["-x", "-X", "--exec", "--exec-batch"]),
        Some("find") => behind(&["-exec", "-execdir", "-ok", "-okdir"]),
        _ => Vec::new(),
    }
}

/// Whether a command is run by a wrapper that feeds it arguments that are not in the text.
pub(crate) fn is_fed(simple: &Simple) -> bool {
    simple.words.iter().take(8).any(|word| base(&word.text) == "xargs")
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
        if name == "git" {
            names.all.extend(without_options(&one));
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

/// A git command without the options before its verb.
fn without_options(simple: &Simple) -> Option<Simple> {
    let at = git::before_verb(&simple.words);
    let mut plain = simple.since_word(at);
    plain.words.insert(0, simple.words.first()?.clone());
    (at > 1).then_some(plain)
}
