//! Programs that run other programs, and other names for the same command.
//!
//! Invariant: a rule that denies or asks sees a command under every name that is known here.

use crate::git;
use crate::hidden::hides;
use crate::shell::{self, Arg, Simple};

/// Programs that run what follows their options and do nothing else: they may stand before an
/// allowed command.
const HARMLESS: [&str; 3] = ["timeout", "nice", "xargs"];

/// Programs that run what is somewhere among their arguments.
const WRAPPERS: &[&str] = &[
    "aa-exec",
    "asdf",
    "aws-vault",
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "caffeinate",
    "capsh",
    "catchsegv",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "command",
    "concurrently",
    "conda",
    "coproc",
    "cpulimit",
    "cross-env",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "direnv",
    "doas",
    "docker",
    "doppler",
    "dotenv",
    "dtach",
    "dumb-init",
    "eatmydata",
    "entr",
    "env",
    "envdir",
    "eval",
    "exec",
    "fakeroot",
    "faketime",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "flock",
    "foreman",
    "gdb",
    "gosu",
    "hatch",
    "heaptrack",
    "hyperfine",
    "ifne",
    "ionice",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "lxc",
    "machinectl",
    "mamba",
    "mise",
    "mosh",
    "newgrp",
    "nice",
    "nix",
    "nix-shell",
    "nocache",
    "nodemon",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "pdm",
    "perf",
    "pipenv",
    "pipx",
    "pkexec",
    "pnpm",
    "podman",
    "poetry",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "rbenv",
    "rlwrap",
    "rr",
    "run-parts",
    "runcon",
    "runuser",
    "rustup",
    "rye",
    "s6-setuidgid",
    "schroot",
    "screen",
    "script",
    "sem",
    "setarch",
    "setpriv",
    "setsid",
    "setuidgid",
    "sg",
    "softlimit",
    "sops",
    "ssh",
    "ssh-agent",
    "sshpass",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tini",
    "tmux",
    "torsocks",
    "toybox",
    "trap",
    "uclampset",
    "unbuffer",
    "unshare",
    "uv",
    "uvx",
    "valgrind",
    "watch",
    "watchexec",
    "xargs",
    "xinit",
    "xvfb-run",
    "yarn",
    "zargs",
];

/// Programs that run a text.
pub(crate) const SHELLS: &[&str] = &[
    "ash", "bash", "busybox", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "oksh", "osh",
    "posh", "rbash", "rksh", "rzsh", "sh", "tcsh", "yash", "zsh",
];

/// Wrappers whose words may be a text that a shell runs.
const RUN_TEXT: &[&str] = &[
    "direnv",
    "entr",
    "env",
    "flock",
    "parallel",
    "screen",
    "script",
    "sem",
    "ssh",
    "su",
    "tmux",
    "unbuffer",
    "watch",
    "watchexec",
];

/// The last part of a command's name.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

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

/// Programs whose words are never run.
const INERT: &[&str] = &[
    "basename",
    "cat",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "git",
    "grep",
    "head",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mv",
    "nl",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rm",
    "rmdir",
    "sha256sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "tree",
    "true",
    "type",
    "uniq",
    "wc",
    "which",
    "[",
];

/// Whether the words of a command name another one that begins with these words, and it may run
/// that in its own way: an unknown wrapper, or a text of another language.
pub(crate) fn mentions(simple: &Simple, wanted: &[&str]) -> bool {
    let Some((first, words)) = simple.words.split_first() else { return false };
    if INERT.contains(&base(&first.text)) && !git::runs_words(simple) {
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

/// Whether a wrapper that adds words may make a command that begins with these words.
pub(crate) fn may_become(simple: &Simple, wanted: &[&str]) -> bool {
    added_to(simple).into_iter().any(|at| {
        let inner = &simple.words[at..];
        let Some(first) = inner.first() else { return true };
        let name = base(&first.text);
        let is_open = |word: &Arg| word.text.contains("{}");
        if is_open(first)
            || SHELLS.contains(&name)
            || (name != "git" && WRAPPERS.contains(&name))
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
        let name = base(&first.text).to_owned();
        if name != first.text {
            let mut renamed = one.clone();
            renamed.words[0].text.clone_from(&name);
            todo.push((renamed, depth + 1));
        }
        if name == "git" {
            names.all.extend(without_options(&one));
        }
        if WRAPPERS.contains(&name.as_str()) || git::runs_words(&one) {
            let inner = (1..one.words.len().min(40)).filter(|at| may_begin(&name, &one, *at));
            todo.extend(inner.map(|at| (one.since_word(at), depth + 1)));
        }
        for (text, is_code) in texts(&name, &one) {
            let parsed = shell::parse(&text);
            todo.extend(parsed.parts.into_iter().map(|part| (part, depth + 1)));
            names.doubts.extend(parsed.doubts.into_iter().filter(|_| is_code));
        }
        names.doubts.extend(hides(&one));
        names.all.push(one);
    }
    names
}

/// Whether a wrapper may run what begins with this word.
fn may_begin(wrapper: &str, simple: &Simple, at: usize) -> bool {
    let is_at = |at: usize, names: &[&str]| {
        simple.words.get(at).is_some_and(|word| names.contains(&word.text.as_str()))
    };
    match wrapper {
        "find" => is_at(at - 1, &["-exec", "-execdir", "-ok", "-okdir"]),
        // Only the shell itself knows these.
        "builtin" | "command" => true,
        _ => !is_at(at, &[".", "source"]),
    }
}

/// The texts among the words of a command that it may run as commands, and whether it certainly
/// does.
fn texts(name: &str, simple: &Simple) -> Vec<(String, bool)> {
    let words = simple.words.get(1..).unwrap_or_default();
    if name == "eval" || name == "trap" {
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        // What follows the text of `trap` are signals.
        let words = if name == "trap" { words.get(..1).unwrap_or_default() } else { &words[..] };
        return vec![(words.join(" "), true)];
    }
    if SHELLS.contains(&name) {
        let code = code_of_shell(words);
        let all = words.iter().enumerate();
        return all.map(|(at, word)| (word.text.clone(), Some(at) == code)).collect();
    }
    if !WRAPPERS.contains(&name) && !git::runs_words(simple) {
        return Vec::new();
    }
    let is_code = RUN_TEXT.contains(&name) || name == "git";
    let has_blank = |text: &str| text.contains(char::is_whitespace);
    let mut texts = Vec::new();
    for word in words {
        // Also the value of an option: `--exec=TEXT`, `-cTEXT`.
        let value = word.text.strip_prefix('-').map(|rest| match rest.strip_prefix('-') {
            Some(long) => long.split_once('=').map_or("", |(_, value)| value),
            None => rest.get(1..).unwrap_or_default(),
        });
        let text = value.unwrap_or(&word.text);
        if has_blank(text) {
            texts.push((text.to_owned(), is_code));
        } else if value.is_some_and(|value| !value.is_empty()) {
            texts.push((text.to_owned(), false));
        }
    }
    texts
}

/// Which of the words of a shell is the text that it runs.
fn code_of_shell(words: &[Arg]) -> Option<usize> {
    let is_option = |word: &Arg| word.text.starts_with(['-', '+']) && word.text.len() > 1;
    let is_code = |word: &Arg| !word.text.starts_with("--") && word.text.contains('c');
    let option = words.iter().position(|word| is_option(word) && is_code(word))?;
    let rest = words.iter().skip(option + 1).position(|word| !is_option(word))?;
    Some(option + 1 + rest)
}

/// A git command without the options before its verb.
fn without_options(simple: &Simple) -> Option<Simple> {
    let at = git::before_verb(&simple.words);
    let mut plain = simple.since_word(at);
    plain.words.insert(0, simple.words.first()?.clone());
    (at > 1).then_some(plain)
}
