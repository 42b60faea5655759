//! What git runs besides its own commands.
//!
//! Invariant: a command of git that is not known here may be an alias, and so may be anything.

use crate::program::base;
use crate::shell::{Arg, Simple};

/// Settings that name no program, or the beginnings of their names.
const SETTINGS: &[&str] = &[
    "advice.",
    "color.",
    "commit.gpgsign=",
    "core.abbrev=",
    "core.autocrlf=",
    "core.quotepath=",
    "init.defaultbranch=",
    "log.",
    "user.email=",
    "user.name=",
];

/// The commands that git has itself: no alias can take their place.
const VERBS: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diagnose",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "for-each-repo",
    "format-patch",
    "fsck",
    "gc",
    "get-tar-commit-id",
    "grep",
    "hash-object",
    "help",
    "hook",
    "index-pack",
    "init",
    "init-db",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-index",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "receive-pack",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-file",
    "unpack-objects",
    "update-index",
    "update-ref",
    "update-server-info",
    "upload-archive",
    "upload-pack",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Those that run some of their words.
const RUNNING: &[&str] =
    &["bisect", "difftool", "filter-branch", "for-each-repo", "mergetool", "rebase", "submodule"];

/// Options of commands that name a program.
const PROGRAMS: &[&str] = &[
    "--exec",
    "--extcmd",
    "--open-files-in-pager",
    "--receive-pack",
    "--sendmail-cmd",
    "--smtp-server",
    "--to-cmd",
    "--cc-cmd",
    "--tool",
    "--upload-pack",
];

/// How many words there are before the verb.
pub(crate) fn before_verb(words: &[Arg]) -> usize {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.text.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path"
            | "--config-env" | "--super-prefix" | "--attr-source" => at += 2,
            text if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    at
}

/// Whether it is git with a verb that runs some of its words.
pub(crate) fn runs_words(simple: &Simple) -> bool {
    let words = &simple.words;
    let is_git = words.first().is_some_and(|word| base(&word.text) == "git");
    let verb = words.get(before_verb(words)).map(|word| word.text.as_str());
    is_git && verb.is_some_and(|verb| RUNNING.contains(&verb))
}

/// Those that take the name of a program as an option, or what names one.
const TOLD: &[&str] = &[
    "am",
    "archive",
    "clone",
    "config",
    "fetch",
    "grep",
    "init",
    "ls-remote",
    "pull",
    "push",
    "remote",
    "send-email",
];

/// Whether it is git with a verb that more words could tell what to run.
pub(crate) fn may_be_told(simple: &Simple) -> bool {
    let verb = simple.words.get(before_verb(&simple.words)).map(|word| word.text.as_str());
    runs_words(simple) || verb.is_some_and(|verb| TOLD.contains(&verb))
}

/// Why a command of git may run something that is not in its text. The words are those behind its
/// name.
pub(crate) fn hides(simple: &Simple) -> Option<&'static str> {
    let words = &simple.words;
    let at = before_verb(words).min(words.len());
    let (options, rest) = words.split_at(at);
    let is_other = |value: &Arg| {
        let value = value.text.to_lowercase();
        !SETTINGS.iter().any(|known| value.starts_with(known))
    };
    let mut settings = options.iter().zip(options.iter().skip(1));
    let sets = settings.any(|(option, value)| option.text == "-c" && is_other(value))
        || options.iter().any(|word| {
            ["--config-env", "--exec-path="].iter().any(|it| word.text.starts_with(it))
        });
    if sets || (options.iter().any(|word| word.text == "--exec-path") && !rest.is_empty()) {
        return Some("it sets what git runs");
    }
    let (verb, rest) = rest.split_first()?;
    if !VERBS.contains(&verb.text.as_str()) {
        return Some("it may be an alias of git");
    }
    if verb.text == "for-each-repo" {
        return Some("it runs git in other repositories");
    }
    if verb.text == "filter-branch" {
        return Some("it names a program that git runs");
    }
    if verb.text == "config" {
        // Behind the name of a setting, the same words are its value.
        let is_place = |word: &&Arg| {
            matches!(word.text.as_str(), "--global" | "--local" | "--system" | "--worktree")
        };
        let reads = rest.iter().find(|word| !is_place(word)).is_some_and(|word| {
            matches!(word.text.as_str(), "--get" | "--get-all" | "--list" | "-l" | "get" | "list")
        });
        let names: Vec<&Arg> = rest.iter().filter(|word| !word.text.starts_with('-')).collect();
        let is_known = names.first().is_some_and(|name| {
            let name = format!("{}=", name.text.to_lowercase());
            SETTINGS.iter().any(|known| name.starts_with(known))
        });
        return (!reads && names.len() > 1 && !is_known).then_some("it sets what git runs");
    }
    let of_rebase = verb.text == "rebase" || verb.text == "difftool";
    let names_program = |word: &Arg| {
        let text = word.text.as_str();
        let is_long = PROGRAMS.iter().any(|option| means_option(text, option));
        is_long
            || (of_rebase && text.starts_with("-x"))
            || (verb.text.ends_with("tool") && text.starts_with("-t"))
            || (verb.text == "clone" && is_short(text, ['u', 'c']))
            || (matches!(verb.text.as_str(), "clone" | "init") && sets_up(text))
            || (verb.text == "grep" && text.starts_with("-O"))
            || text.starts_with("ext::")
    };
    rest.iter().any(names_program).then_some("it names a program that git runs")
}

/// Whether a word is options of one letter, with one of these among them.
fn is_short(word: &str, letters: [char; 2]) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
}

/// Whether an option gives a new repository settings or hooks.
fn sets_up(option: &str) -> bool {
    ["--config", "--template"].iter().any(|known| means_option(option, known))
}

/// Whether a word is this option, perhaps with a value, or a beginning of its name.
pub(crate) fn means_option(word: &str, option: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() > 2 && name.starts_with("--") && option.starts_with(name)
}
