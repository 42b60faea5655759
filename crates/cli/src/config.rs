//! Settings: the file, then the environment, then flags; later ones win.
//!
//! Pure: values in, values out. `world` knows where they come from.

use std::path::{Path, PathBuf};

use export::receiver::ShipConfig;
use serde::Deserialize;
use workshop::store::Bounds;

use crate::failure::Failure;
use crate::global::Color;
use crate::redact::RedactConfig;

/// `quipu/config.toml` in the user's config folder.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Claude's config folders.
    #[serde(default)]
    pub(crate) homes: Vec<PathBuf>,
    /// When to use colours.
    pub(crate) color: Option<Color>,
    /// The receiver of traces.
    #[serde(default)]
    pub(crate) ship: ShipConfig,
    /// How long changes can be undone.
    #[serde(default)]
    pub(crate) undo: UndoConfig,
    /// Images of the folders that an agent works in.
    #[serde(default)]
    pub(crate) snapshots: SnapshotsConfig,
    /// Additional secrets, and values that are not secrets.
    #[serde(default)]
    pub(crate) redact: RedactConfig,
    /// The lake that sessions are pushed to.
    #[serde(default)]
    pub(crate) lake: LakeConfig,
}

/// The table `[lake]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct LakeConfig {
    /// The target: a folder, `s3://…`, `gs://…` or `az://…`.
    pub(crate) to: Option<String>,
    /// The name of this machine.
    pub(crate) machine: Option<String>,
    /// The user, as the lake is to name them.
    pub(crate) user: Option<String>,
    /// The user's team.
    pub(crate) team: Option<String>,
    /// How much is pushed: `full`, `meta` or `none`.
    pub(crate) content: Option<ContentLevel>,
}

// How much is sent. No doc comments: they would be part of the help.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContentLevel {
    Full,
    Meta,
    None,
}

/// The table `[undo]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoConfig {
    /// How many days changes are kept; 90 by default.
    keep_days: Option<u64>,
    /// How many bytes of changes are kept; 5 GB by default. Changes of the last day are always
    /// kept.
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

/// The table `[snapshots]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotsConfig {
    /// How many days images are kept after the last one of their session; 30 by default.
    keep_days: Option<u64>,
    /// How many bytes of them; 10 GB by default.
    keep_bytes: Option<u64>,
    /// A larger file is not covered; 64 MB by default.
    file_bytes: Option<u64>,
}

impl SnapshotsConfig {
    pub(crate) fn bounds(&self) -> snapshot::Bounds {
        let usual = snapshot::Bounds::default();
        snapshot::Bounds {
            days: self.keep_days.unwrap_or(usual.days),
            bytes: self.keep_bytes.unwrap_or(usual.bytes),
        }
    }

    pub(crate) fn limits(&self) -> snapshot::Limits {
        let usual = snapshot::Limits::default();
        snapshot::Limits { file: self.file_bytes.unwrap_or(usual.file), ..usual }
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
                Some("the settings are `homes`, `color`, `[ship]`, `[undo]`, `[snapshots]`, `[redact]` and `[lake]`; see docs/configuration.md"),
            )
        })
    }
}

/// The folders that `CLAUDE_CONFIG_DIR` names: one, or several separated by commas.
pub(crate) fn split_homes(value: &str) -> Vec<PathBuf> {
    if Path::new(value).is_dir() {
        return vec![PathBuf::from(value)];
    }
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
