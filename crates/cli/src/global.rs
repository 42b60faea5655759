//! The options that every command has.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Claude's config folder, instead of `CLAUDE_CONFIG_DIR` or `~/.claude` (can be repeated)
    #[arg(long, value_name = "DIR", global = true, help_heading = "Global options")]
    pub(crate) home: Vec<PathBuf>,
    /// When to use colours; `auto`: in a terminal, unless `NO_COLOR` is set
    #[arg(long, value_name = "WHEN", global = true, help_heading = "Global options")]
    pub(crate) color: Option<Color>,
    /// Do not use a pager for long output
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_pager: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}
