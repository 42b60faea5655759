//! Commands that may run something that is not in their text, or that is not the text of a shell.
//!
//! Where rules forbid something, such a command is a question.

use crate::git::{self, means_option};
use crate::harmless::{edited_script, is_harmless_variable};
use crate::program::{self, base, is_shell};
use crate::shell::{Arg, Simple};

/// Why a command may run something that is not in its text: where rules forbid something, that is
/// a question.
pub(crate) fn hides(simple: &Simple) -> Option<&'static str> {
    if simple.assignments.iter().any(|(name, value)| !is_harmless_variable(name, value)) {
        return Some("it sets a variable that may decide what runs");
    }
    let (first, words) = simple.words.split_first()?;
    let name = base(&first.text);
    if name == "git" {
        return git::hides(simple);
    }
    if is_shell(name) {
        return of_shell(words);
    }
    if program::runs_later(name) {
        return Some("it runs later what it reads");
    }
    if simple.has_input && (program::obeys(name) || (name == "exec" && words.is_empty())) {
        return Some("it runs what it reads");
    }
    if let Some(taken) = program::starts_shell(name)
        && starts_shell(words, taken, simple)
    {
        return Some("it may start a shell that runs what it reads");
    }
    if let Some(options) = program::naming(name)
        && words.iter().any(|word| options.iter().any(|option| is_option(&word.text, option)))
    {
        return Some("it names a program that it runs");
    }
    // The options of `tar` may stand without a hyphen.
    let is_old = |word: &Arg| !word.text.starts_with('-') && word.text.contains(['I', 'F']);
    if name.ends_with("tar") && words.first().is_some_and(is_old) {
        return Some("it names a program that it runs");
    }
    if name == "sqlite3" && words.iter().any(|word| word.text.trim_start().starts_with('.')) {
        return Some("it runs a text of another language");
    }
    if matches!(name, "make" | "gmake") {
        let is_standard = |word: &Arg| {
            let text = word.text.trim_start_matches("-f");
            let text = text.rsplit('=').next().unwrap_or(text);
            text == "-" || text.starts_with("/dev/")
        };
        if words.iter().any(is_standard) {
            return Some("it runs what it reads");
        }
        let is_set = |word: &Arg| word.text.contains('=') && !word.text.starts_with('-');
        return words.iter().any(is_set).then_some("it sets a variable that may decide what runs");
    }
    of_builtin(name, words).or_else(|| of_language(name, words))
}

/// Whether a wrapper that takes some words before a program is given none.
fn starts_shell(words: &[Arg], taken: usize, simple: &Simple) -> bool {
    let is_text = |word: &Arg| {
        let (text, is_long) = (&word.text, word.text.starts_with("--"));
        means_option(text, "--command") || (!is_long && text.starts_with('-') && text.contains('c'))
    };
    let options = words.iter().filter(|word| word.text.starts_with('-')).count();
    let others = words.len() - options;
    // Each option may take one of the other words.
    let is_asked = |word: &Arg| word.text.starts_with('-') && word.text.ends_with(['s', 'i']);
    let is_likely = simple.has_input || words.iter().any(is_asked);
    let certain = if is_likely { others.saturating_sub(options) } else { others };
    certain <= taken && !(others > 0 && words.iter().any(is_text))
}

/// Whether a word is this option, with or without a value.
fn is_option(word: &str, option: &str) -> bool {
    if option.starts_with("--") {
        return means_option(word, option);
    }
    // Single letters may stand together.
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let is_among = |letter: &str| letters.is_some_and(|letters| letters.contains(letter));
    word.starts_with(option)
        || option.strip_prefix('-').filter(|letter| letter.len() == 1).is_some_and(is_among)
}

/// A program that runs a text of a shell.
fn of_shell(words: &[Arg]) -> Option<&'static str> {
    let is_option = |word: &&Arg| word.text.starts_with(['-', '+']) && word.text.len() > 1;
    let is_asked = words.len() == 1 && words[0].text == "--version";
    let mut options = words.iter().filter(is_option);
    let has_text = options.any(|word| !word.text.starts_with("--") && word.text.contains('c'));
    let reads = |word: &Arg| {
        let text = &word.text;
        text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/")
    };
    let script = words.iter().find(|word| !is_option(word));
    let is_told = words.iter().any(|word| {
        let text = word.text.as_str();
        let is_short = text.starts_with('-') && !text.starts_with("--");
        is_short && !text.contains('c') && text.contains(['s', 'i'])
            || ["--rcfile", "--init-file"].iter().any(|option| means_option(text, option))
    });
    let is_read = !has_text && script.is_none_or(reads) || is_told;
    (is_read && !is_asked).then_some("it runs what it reads")
}

/// A command of the shell itself that changes what others mean, or evaluates its words.
fn of_builtin(name: &str, words: &[Arg]) -> Option<&'static str> {
    let is = |text: &str| words.iter().any(|word| word.text == text);
    let has = |letter: char| {
        let is_short = |word: &Arg| word.text.starts_with('-') && !word.text.starts_with("--");
        words.iter().any(|word| is_short(word) && word.text.contains(letter))
    };
    match name {
        "." | "source" => Some("it runs a file in this shell"),
        "alias" if words.iter().any(|word| word.text.contains('=')) => Some("it defines an alias"),
        "hash" if has('p') => Some("it changes what a name means"),
        "enable" if has('f') => Some("it loads a command of the shell"),
        "mapfile" | "readarray" if has('C') => Some("it runs a text for each line"),
        "complete" | "compgen" if has('C') || has('F') || has('W') => {
            Some("it runs a text to complete words")
        }
        "bind" | "fc" => Some("it may run what was said before"),
        "test" | "[" if is("-v") || is("-R") => Some("it evaluates the name of a variable"),
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            let decides = |word: &Arg| match word.text.split_once('=') {
                Some((name, value)) => !is_harmless_variable(name, value),
                None => word.text.contains('['),
            };
            let is_set = words.iter().any(decides) || has('n') || has('i');
            is_set.then_some("it sets a variable that may decide what runs")
        }
        "set" if has('a') || has('k') || is("allexport") || is("keyword") => {
            Some("it changes which variables programs see")
        }
        "let" if words.iter().any(evaluates) => Some("it evaluates the name of an element"),
        // What its variables contain is evaluated, too.
        "let" => Some("it evaluates the name of a variable"),
        "printf" if !has('v') => None,
        "unset" | "read" | "printf" | "wait" | "getopts" | "mapfile" | "readarray" => {
            if words.iter().any(evaluates) {
                return Some("it evaluates the name of a variable");
            }
            // By such names programs are found, and told what to do.
            let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let is_public = |word: &Arg| {
                word.text.starts_with(|c: char| c.is_ascii_uppercase())
                    && word.text.chars().all(is_upper)
            };
            let is_set = name != "unset" && words.iter().any(is_public);
            is_set.then_some("it sets a variable that may decide what runs")
        }
        _ => None,
    }
}

/// Whether a word names an element of a list by what the shell finds out when it gets there.
fn evaluates(word: &Arg) -> bool {
    word.text.contains('[') && word.text.contains(['$', '`'])
}

/// A program that runs a text of another language.
fn of_language(name: &str, words: &[Arg]) -> Option<&'static str> {
    const OTHER: &str = "it runs a text of another language";
    if matches!(name, "awk" | "gawk" | "mawk" | "nawk") {
        return (!is_plain_awk(words)).then_some(OTHER);
    }
    if matches!(name, "sed" | "gsed") {
        return (!is_plain_sed(words)).then_some(OTHER);
    }
    if name == "ed" {
        return Some(OTHER);
    }
    let (language, letters, options) = program::language(name)?;
    let mut may_be_value = false;
    let asks = |word: &Arg| matches!(&*word.text, "--version" | "-V" | "-v" | "--help");
    if words.len() == 1 && asks(&words[0]) {
        return None;
    }
    for word in words {
        let text = word.text.as_str();
        let is_long = options.iter().any(|option| match option.strip_prefix("--") {
            Some(_) => means_option(text, option),
            None => text == *option,
        });
        let is_short = text.starts_with('-')
            && !text.starts_with("--")
            && text.chars().skip(1).any(|c| letters.contains(c));
        if is_long || is_short || (text.starts_with('+') && letters.contains('S')) {
            return Some(OTHER);
        }
        // From here on they are words of the program.
        let is_standard = text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/");
        if is_standard {
            return Some("it runs what it reads");
        }
        if !text.starts_with('-') && !may_be_value {
            return None;
        }
        if text == "-m" {
            let module = words.iter().skip_while(|word| word.text != "-m").nth(1);
            let runs = module.is_some_and(|module| matches!(&*module.text, "timeit" | "pdb"));
            return runs.then_some(OTHER);
        }
        may_be_value = text.starts_with('-') && takes_value(language, text);
    }
    let finds_files = *language == "node" && words.iter().any(|word| word.text == "--test");
    (!finds_files).then_some("it runs what it reads")
}

/// Whether the word behind an option of a language may belong to it.
fn takes_value(language: &str, option: &str) -> bool {
    let plain = match language {
        "python" | "pypy" | "ipython" => "bBdEhiIOPqsSuvx",
        "perl" => "acfnpstTuUwWX",
        "ruby" => "aclnpsSvwW",
        "node" | "nodejs" => "i",
        _ => "",
    };
    match option.strip_prefix("--") {
        Some(long) => !long.contains('='),
        None => !option.chars().skip(1).all(|letter| plain.contains(letter)),
    }
}

/// Whether a program of awk runs no other one.
fn is_plain_awk(words: &[Arg]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        match text {
            "-F" | "-v" => _ = rest.next(),
            _ if text.starts_with("-F") || text.starts_with("-v") => {}
            _ if text.starts_with('-') => return false,
            _ => {
                let without_or = text.replace("||", "");
                return !text.contains("system") && !without_or.contains(['|', '@']);
            }
        }
    }
    false
}

/// Whether scripts of sed neither run nor write anything.
fn is_plain_sed(words: &[Arg]) -> bool {
    let mut scripts = Vec::new();
    let mut rest = words.iter();
    let mut first = None;
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        match text {
            "-e" | "--expression" => scripts.extend(rest.next().map(|word| word.text.as_str())),
            _ if text.starts_with("--expression=") => {
                scripts.extend(text.split_once('=').map(|(_, script)| script));
            }
            _ if text.starts_with("--") => {
                if !matches!(text, "--quiet" | "--silent" | "--regexp-extended" | "--in-place") {
                    return false;
                }
            }
            _ if text.starts_with('-') && text.len() > 1 => {
                if !text.chars().skip(1).all(|c| "nErisz".contains(c)) && !text.starts_with("-i") {
                    return false;
                }
            }
            _ => _ = first.get_or_insert(text),
        }
    }
    if scripts.is_empty() {
        scripts.extend(first);
    }
    !scripts.is_empty() && scripts.iter().all(|script| is_plain_script(script))
}

fn is_plain_script(script: &str) -> bool {
    let script = script.trim();
    if edited_script(script) {
        return true;
    }
    let parts = script.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty());
    parts.clone().count() > 0
        && parts.into_iter().all(|part| {
            let command = without_addresses(part);
            matches!(command, "p" | "d" | "q" | "=" | "n" | "N" | "P" | "D" | "h" | "G" | "x")
                || edited_script(command)
        })
}

/// A command of sed without the lines that it is for.
fn without_addresses(mut command: &str) -> &str {
    loop {
        command = command.trim_start_matches(|c: char| c.is_ascii_digit() || ",$!~ ".contains(c));
        let Some(rest) = command.strip_prefix('/') else { return command };
        let mut is_escaped = false;
        let end = rest.find(|c: char| {
            let is_end = c == '/' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let Some(end) = end else { return "" };
        command = &rest[end + 1..];
    }
}
