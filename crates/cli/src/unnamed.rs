//! Commands for one session, when no session is named: in a terminal, the user picks one.
//!
//! Invariants: nothing is different without a terminal, or if the output is for a program; what was
//! picked is handed over as if it had been typed, and never as an option.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::global::Global;
use crate::pick::{self, PickWish, Picked, Scope};
use crate::world::World;

/// The commands that open the picker. Those for programs do not (`cat`, `export json`), nor those
/// for many sessions, nor `follow`, which is for the session that is running.
const COMMANDS: [&str; 25] = [
    "changes",
    "check",
    "clone",
    "compaction",
    "compress",
    "context",
    "edit",
    "files",
    "fork",
    "history",
    "html",
    "md",
    "price",
    "redact",
    "repair",
    "resume",
    "rewind",
    "rm",
    "secrets",
    "show",
    "split",
    "strip",
    "tree",
    "turns",
    "uncompress",
];

/// A command line without a session.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) global: Global,
    /// The command.
    verb: String,
    args: Vec<OsString>,
}

impl Unnamed {
    /// What a command line asks for, if a session is all that is missing, and can be picked.
    pub(crate) fn of(args: &[OsString]) -> Option<Unnamed> {
        let matches = relaxed(Cli::command()).try_get_matches_from(args).ok()?;
        let global = Global::from_arg_matches(&matches).ok()?;
        let (verb, inner) = innermost(&matches)?;
        let is_given = |name: &str| {
            let source = inner.try_contains_id(name).ok().and_then(|_| inner.value_source(name));
            source == Some(ValueSource::CommandLine)
        };
        let has_session = inner.try_contains_id("session").is_ok();
        let is_listed = COMMANDS.contains(&verb) && has_session;
        let all = matches!(verb, "check" | "secrets") && is_given("all");
        let mut outputs = inner.try_get_raw("output").ok().flatten().into_iter().flatten();
        let is_data = is_given("json") || outputs.any(|path| path == "-");
        if !is_listed || is_given("session") || is_data || all {
            return None;
        }
        Some(Unnamed { global, verb: verb.to_owned(), args: args.to_vec() })
    }

    /// Lets the user pick a session.
    pub(crate) fn pick(&self, world: &mut World) -> Result<Picked, Failure> {
        let verb = if matches!(self.verb.as_str(), "html" | "md") { "export" } else { &self.verb };
        let wish = PickWish {
            verb,
            query: String::new(),
            scope: Scope::All,
            catalog: &CatalogArgs::default(),
        };
        pick::pick(world, &wish)
    }

    /// The command line with a session.
    pub(crate) fn named(self, name: &str) -> Vec<OsString> {
        let mut args = self.args;
        if !args.iter().any(|arg| arg == "--") {
            args.push("--".into());
        }
        args.push(name.into());
        args
    }
}

/// The command line as it is known, except that no command needs a session.
fn relaxed(mut command: clap::Command) -> clap::Command {
    for name in COMMANDS {
        let known = command.find_subcommand(name);
        if known.is_some_and(|known| known.get_arguments().any(|arg| arg.get_id() == "session")) {
            command = command
                .mut_subcommand(name, |known| known.mut_arg("session", |arg| arg.required(false)));
        }
    }
    command
}

/// The command that runs, below others such as `export`, and its arguments.
fn innermost(matches: &ArgMatches) -> Option<(&str, &ArgMatches)> {
    let (mut name, mut inner) = matches.subcommand()?;
    while let Some((below, more)) = inner.subcommand() {
        (name, inner) = (below, more);
    }
    Some((name, inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that opens the picker for a command line.
    fn opened(line: &str) -> Option<String> {
        let args: Vec<OsString> =
            ["quipu"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        Unnamed::of(&args).map(|unnamed| unnamed.verb)
    }

    #[test]
    fn a_session_that_is_missing_can_be_picked() {
        for line in [
            "show",
            "show --last 3",
            "tree",
            "turns",
            "history",
            "files",
            "export md",
            "export html --turns 3",
            "check",
            "repair --dry-run",
            "strip --preset light",
            "clone",
            "fork --at 3",
            "strip --calls -o x",
            "compress --to 40k",
            "uncompress --all",
            "compaction --at 1",
            "resume",
            "rewind --dry-run",
            "changes",
            "edit",
            "split --at 3",
            "rm --dry-run",
            "secrets",
            "context --by tool",
            "price",
            "redact",
            "--home x show --full",
        ] {
            let verb = line.split(' ').find(|word| COMMANDS.contains(word));
            assert_eq!(opened(line).as_deref(), verb, "{line}");
        }
    }

    #[test]
    fn what_is_named_or_for_programs_is_left_alone() {
        for line in [
            "show last",
            "show --json",
            "strip last",
            "strip --json --preset light",
            "strip --preset light -o -",
            "check --all",
            "secrets --all",
            "secrets --json",
            "split",
            "check last",
            "check --json",
            "cat",
            "follow",
            "export json",
            "export html -o -",
            "inventory",
            "drift",
            "ls",
            "undo",
            "ship",
            "fork --at",
        ] {
            assert_eq!(opened(line), None, "{line}");
        }
    }

    #[test]
    fn what_was_picked_is_no_option() {
        let args: Vec<OsString> = ["quipu", "strip", "--calls"].map(OsString::from).to_vec();
        let named = Unnamed::of(&args).unwrap().named("--in-place");
        assert_eq!(named[3..], ["--", "--in-place"].map(OsString::from));
        assert!(Cli::command().try_get_matches_from(named).is_ok());
    }
}
