//! Settings: the file, then the environment, then the flags; what comes later wins.
//!
//! Pure: takes values, gives values. `world` knows where they come from.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::Color;
use crate::failure::Failure;
use crate::receiver::ShipConfig;
use crate::redact::RedactConfig;
use crate::store::Bounds;

/// `quipu/config.toml` in the user's config folder.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Claude's config folders.
    #[serde(default)]
    pub(crate) homes: Vec<PathBuf>,
    /// When to use colours.
    pub(crate) color: Option<Color>,
    /// Who traces go to.
    #[serde(default)]
    pub(crate) ship: ShipConfig,
    /// How long changes can be taken back.
    #[serde(default)]
    pub(crate) undo: UndoConfig,
    /// What else is a secret, and what is none.
    #[serde(default)]
    pub(crate) redact: RedactConfig,
}

/// The table `[undo]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoConfig {
    /// Changes are kept that long: 90 days, if nothing is said.
    keep_days: Option<u64>,
    /// And so much of them: 5 GB. What is younger than a day is kept in any case.
    keep_bytes: Option<u64>,
}

impl UndoConfig {
    pub(crate) fn bounds(&self) -> Bounds {
        let usual = Bounds::default();
        Bounds {
            days: self.keep_days.unwrap_or(usual.days),
            bytes: self.keep_bytes.unwrap_or(usual.bytes),
        }
    }
}

impl Config {
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| {
            let what = error.message();
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let message = format!("`{}`, line {line}: {what}", path.display());
            Failure::usage(
                message,
                Some("the settings are `homes`, `color`, `[ship]`, `[undo]` and `[redact]`; see the README"),
            )
        })
    }
}

/// The folders that `CLAUDE_CONFIG_DIR` names: one, or several with commas between.
pub(crate) fn split_homes(value: &str) -> Vec<PathBuf> {
    if Path::new(value).is_dir() {
        return vec![PathBuf::from(value)];
    }
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
