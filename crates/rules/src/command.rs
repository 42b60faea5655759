//! Programs that run other programs, and other names for the same command.
//!
//! Invariant: a rule that denies or asks sees a command under every name that is known here.

use crate::shell::{self, Simple};

/// Programs that run what follows their options and do nothing else: they may stand before an
/// allowed command.
const HARMLESS: [&str; 3] = ["timeout", "nice", "xargs"];

/// Programs that run what is somewhere among their arguments.
const WRAPPERS: &[&str] = &[
    "aa-exec",
    "bwrap",
    "builtin",
    "busybox",
    "caffeinate",
    "catchsegv",
    "chpst",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "cpulimit",
    "daemonize",
    "dbus-run-session",
    "direnv",
    "doas",
    "docker",
    "entr",
    "env",
    "eval",
    "exec",
    "fakeroot",
    "find",
    "firejail",
    "flock",
    "gdb",
    "git",
    "gosu",
    "hyperfine",
    "ionice",
    "linux32",
    "linux64",
    "ltrace",
    "mise",
    "nice",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "pkexec",
    "pnpm",
    "podman",
    "poetry",
    "prlimit",
    "proot",
    "runuser",
    "screen",
    "script",
    "sem",
    "setarch",
    "setpriv",
    "setsid",
    "ssh",
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
    "tmux",
    "toybox",
    "trap",
    "unbuffer",
    "unshare",
    "uv",
    "valgrind",
    "watch",
    "watchexec",
    "xargs",
    "xvfb-run",
    "yarn",
];

/// Programs that run a text.
const SHELLS: &[&str] =
    &["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh", "busybox"];

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

/// Whether a command is run by a wrapper that feeds it arguments that are not in the text.
pub(crate) fn is_fed(simple: &Simple) -> bool {
    simple.words.iter().take(8).any(|word| base(&word.text) == "xargs")
}

/// The command under its other names, and what it runs: for rules that deny or ask.
pub(crate) fn names(simple: &Simple) -> Vec<Simple> {
    let mut all = Vec::new();
    let mut todo = vec![(simple.clone(), 0)];
    while let Some((one, depth)) = todo.pop() {
        if depth > 6 || all.len() > 400 {
            continue;
        }
        let Some(first) = one.words.first() else { continue };
        let name = base(&first.text).to_owned();
        if name != first.text {
            let mut renamed = one.clone();
            renamed.words[0].text.clone_from(&name);
            todo.push((renamed, depth + 1));
        }
        if name == "git" {
            all.extend(without_options(&one));
        }
        if WRAPPERS.contains(&name.as_str()) {
            todo.extend((1..one.words.len().min(40)).map(|at| (one.since_word(at), depth + 1)));
        }
        let runs_text = SHELLS.contains(&name.as_str()) || WRAPPERS.contains(&name.as_str());
        for word in one
            .words
            .iter()
            .skip(1)
            .filter(|word| runs_text && word.text.contains(char::is_whitespace))
        {
            todo.extend(shell::parse(&word.text).parts.into_iter().map(|part| (part, depth + 1)));
        }
        if name == "eval" || name == "trap" {
            let words: Vec<&str> =
                one.words.iter().skip(1).map(|word| word.text.as_str()).collect();
            todo.extend(
                shell::parse(&words.join(" ")).parts.into_iter().map(|part| (part, depth + 1)),
            );
        }
        all.push(one);
    }
    all
}

/// A git command without the options before its verb.
fn without_options(simple: &Simple) -> Option<Simple> {
    let mut at = 1;
    while let Some(word) = simple.words.get(at) {
        match word.text.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path"
            | "--config-env" => at += 2,
            text if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    let mut plain = simple.since_word(at);
    plain.words.insert(0, simple.words.first()?.clone());
    (at > 1).then_some(plain)
}
