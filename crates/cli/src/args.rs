//! What can be typed: the commands and the options that all of them have.
//!
//! The doc comments are the help texts. Each command's own arguments stand in the command's file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command::{
    cat, chat, check, clone, completions, drift, export, files, follow, fork, history, hook,
    inventory, ls, man, repair, ship, show, strip, tree, turns, undo,
};

/// Read, check, change and find the sessions that Claude Code keeps
///
/// Without a command: an overview of your sessions. They are only ever read, but by the commands that say so; only `chat` and `ship` use the network, and the hook that you install.
///
/// A SESSION is an id, the beginning of an id, a path, a title, or `last`: the first row of `quipu ls`, the newest session of the folder you are in.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, after_help = EXIT_CODES, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 output could not be written, 2 wrong usage or configuration, \
3 session not found or ambiguous, 4 unreadable, 5 in use, protected or changed since, 6 the result would resume less well, 7 not delivered; \
of `check` and `repair`: 10 resumes with loss, 11 the API would refuse it, 12 Claude Code does not resume it (12 also of `history`)";

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Claude's config folder, instead of `CLAUDE_CONFIG_DIR` or `~/.claude` (can be repeated)
    #[arg(long, value_name = "DIR", global = true, help_heading = "For every command")]
    pub(crate) home: Vec<PathBuf>,
    /// When to use colours; `auto` is in a terminal, unless `NO_COLOR` is set
    #[arg(long, value_name = "WHEN", global = true, help_heading = "For every command")]
    pub(crate) color: Option<Color>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Tree(tree::TreeArgs),
    Turns(turns::TurnsArgs),
    Export(export::ExportArgs),
    Check(check::CheckArgs),
    History(history::HistoryArgs),
    Repair(repair::RepairArgs),
    Strip(strip::StripArgs),
    Clone(clone::CloneArgs),
    Fork(fork::ForkArgs),
    Undo(undo::UndoArgs),
    Chat(Box<chat::ChatArgs>),
    Ship(ship::ShipArgs),
    Hook(hook::HookArgs),
    Cat(cat::CatArgs),
    Inventory(inventory::InventoryArgs),
    Drift(drift::DriftArgs),
    Follow(follow::FollowArgs),
    Files(files::FilesArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}
