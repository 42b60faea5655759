//! `quipu pick`: finds a session on a screen, and does something with it.

use crate::catalog::CatalogArgs;
use crate::pick::{PickWish, Scope};

/// Find a session while you type: show, resume or fork it
///
/// Lists all sessions, those of the current project first, newest first. What you type is compared
/// with titles, first prompts, folders, ids and branches at every key, and searched for inside of
/// all sessions by the rules of `quipu search` when you pause.
///
/// Enter shows the session, Ctrl-R resumes it in Claude Code, Ctrl-F forks it, Ctrl-Y copies its
/// id; Esc leaves, with exit code 130. Arrows and Page Up/Down select. Commands for one session
/// (`show`, `tree`, `turns`, `history`, `files`, `context`, `price`, `changes`, `check`, `secrets`,
/// `export md`, `export html`, `compaction`, `repair`, `strip`, `compress`, `uncompress`, `redact`,
/// `edit`, `split`, `rewind`, `clone`, `fork`, `resume`, `rm`) open the same screen in a terminal
/// if you name no session; Enter then does what the command does.
#[derive(clap::Args, Debug)]
pub(crate) struct PickArgs {
    /// What is typed already
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Only sessions of the current project
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    catalog: CatalogArgs,
}

impl PickArgs {
    /// What to pick from.
    pub(crate) fn wish(&self) -> PickWish<'_> {
        PickWish {
            verb: "show",
            query: self.query.join(" "),
            scope: if self.here { Scope::Here } else { Scope::All },
            catalog: &self.catalog,
        }
    }
}
