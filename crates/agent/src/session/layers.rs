//! Which settings there are, and whether they let a session begin. `settings` reads their contents.
//!
//! Invariant: a settings file that exists and cannot be read ends the run: it may contain
//! restrictions that would be missed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Folders;
use crate::settings::{Environment, Hooks, Layer, Settings, Source, Stop};
use crate::trust::Trust;

/// The maximum size of a settings file, in bytes.
const LONGEST: u64 = 1 << 20;
/// Names one more file that restricts like an administrator's and grants nothing: for tests.
const MANAGED: &str = "QUIPU_MANAGED_SETTINGS";

/// Settings beside those in files.
#[derive(Clone, Debug)]
pub struct SettingsWishes {
    /// The settings that the caller gives: JSON, or the path of a file.
    pub given: Option<String>,
    /// How hooks that can refuse are treated.
    pub hooks: Hooks,
    /// Which files count: those of the user, of the project, the local ones; None for all. An
    /// administrator's always do.
    pub sources: Option<Vec<Source>>,
}

impl SettingsWishes {
    /// Whether files of that source count.
    pub(super) fn reads(&self, source: Source) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.contains(&source))
    }
}

/// None; hooks count.
impl Default for SettingsWishes {
    fn default() -> Self {
        SettingsWishes { given: None, hooks: Hooks::Obeyed, sources: None }
    }
}

/// Why settings do not let a session begin.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file that exists cannot be read.
    #[error("cannot read the settings `{}`: {why}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The file that the caller names cannot be read.
    #[error("cannot read `{}`", path.display())]
    Given {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// They contain a restriction that cannot be honoured.
    #[error("`{}`{}: {}", .0.name, key(.0), .0.why)]
    Refused(Stop),
}

/// The key of a restriction, as part of a message.
fn key(stop: &Stop) -> String {
    if stop.key.is_empty() { String::new() } else { format!(": `{}`", stop.key) }
}

/// Reads all settings, and refuses to continue if they contain a restriction that cannot be
/// honoured here.
pub(super) fn read(
    wishes: &SettingsWishes,
    folders: &Folders,
    trust: Trust,
    environment: &dyn Environment,
) -> Result<Settings, SettingsError> {
    let mut layers = managed(environment)?;
    if wishes.reads(Source::User) {
        layers.extend(file(Source::User, &folders.home.join("settings.json"), &folders.home)?);
    }
    let folder = folders.cwd.join(".claude");
    // In the user's home there is no project: `~/.claude` contains the user's own settings.
    let is_home = is_same(&folder, &folders.home);
    let is_users = |user: &PathBuf| is_same(&folder, &user.join(".claude"));
    let is_own = is_home || folders.user.as_ref().is_some_and(is_users);
    if !is_home && wishes.reads(Source::Project) {
        layers.extend(file(Source::Project, &folder.join("settings.json"), &folders.cwd)?);
    }
    if wishes.reads(Source::Local) {
        layers.extend(file(Source::Local, &folder.join("settings.local.json"), &folders.cwd)?);
    }
    if let Some(given) = &wishes.given {
        let is_text = given.trim_start().starts_with('{');
        let text = if is_text { Ok(given.clone()) } else { files::read_text(given, LONGEST) };
        let text = text.map_err(|source| SettingsError::Given { path: given.into(), source })?;
        let root = folders.cwd.clone();
        layers.push(Layer { source: Source::Flag, name: "--settings".to_owned(), text, root });
    }
    let settings = Settings::read(&layers, if is_own { Trust::Trusted } else { trust });
    match settings.refusal(wishes.hooks) {
        Some(stop) => Err(SettingsError::Refused(stop.clone())),
        None => Ok(settings),
    }
}

/// The administrator's files of the client, in order of precedence.
pub fn managed_settings() -> Result<Vec<PathBuf>, SettingsError> {
    let folder = Path::new(if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else if cfg!(windows) {
        r"C:\Program Files\ClaudeCode"
    } else {
        "/etc/claude-code"
    });
    let more = folder.join("managed-settings.d");
    let entries = match fs::read_dir(&more) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(|error| unreadable(&more, error))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "json") && !is_hidden(path));
    paths.sort();
    paths.insert(0, folder.join("managed-settings.json"));
    Ok(paths)
}

/// The administrator's settings, in order of precedence.
fn managed(environment: &dyn Environment) -> Result<Vec<Layer>, SettingsError> {
    let mut layers = Vec::new();
    for path in managed_settings()? {
        layers.extend(file(Source::Managed, &path, Path::new("/"))?);
    }
    if let Some(path) = environment.variable(MANAGED) {
        let path = PathBuf::from(path);
        let text = files::read_text(&path, LONGEST).map_err(|error| unreadable(&path, error))?;
        let name = path.display().to_string();
        let root = PathBuf::from("/");
        layers.push(Layer { source: Source::Restricting, name, text, root });
    }
    Ok(layers)
}

/// A settings file, if it exists.
fn file(source: Source, path: &Path, root: &Path) -> Result<Option<Layer>, SettingsError> {
    match files::read_text(path, LONGEST) {
        Ok(text) => {
            let name = path.display().to_string();
            Ok(Some(Layer { source, name, text, root: root.to_owned() }))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, why: io::Error) -> SettingsError {
    SettingsError::Unreadable { path: path.to_owned(), why }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path);
    matches!((real(one), real(other)), (Ok(one), Ok(other)) if one == other)
}
