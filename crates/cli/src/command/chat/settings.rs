//! Which settings there are, and whether they let a session begin. `agent::settings` reads their
//! contents.
//!
//! Invariant: a settings file that exists and cannot be read ends the run: it may contain
//! restrictions that would be missed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agent::settings::{Environment, Hooks, Layer, Settings, Source};
use agent::trust::Trust;

use super::ChatArgs;
use super::start::Where;
use crate::failure::Failure;
use crate::world::World;

/// The maximum size of a settings file, in bytes.
const LONGEST: u64 = 1 << 20;
/// Names one more file that restricts like an administrator's and grants nothing: for tests.
const MANAGED: &str = "QUIPU_MANAGED_SETTINGS";

impl Environment for World {
    fn variable(&self, name: &str) -> Option<String> {
        World::variable(self, name)
    }
}

/// Reads all settings, and refuses to continue if they contain a restriction that cannot be
/// honoured here.
pub(super) fn read(
    world: &World,
    args: &ChatArgs,
    place: &Where,
    trust: Trust,
) -> Result<Settings, Failure> {
    let mut layers = managed(world)?;
    layers.extend(file(Source::User, &place.home.join("settings.json"))?);
    let folder = place.cwd.join(".claude");
    // In the user's home there is no project: `~/.claude` contains the user's own settings.
    let is_home = is_same(&folder, &place.home);
    let is_own =
        is_home || place.user.as_ref().is_some_and(|user| is_same(&folder, &user.join(".claude")));
    if !is_home {
        layers.extend(file(Source::Project, &folder.join("settings.json"))?);
    }
    layers.extend(file(Source::Local, &folder.join("settings.local.json"))?);
    if let Some(given) = &args.settings {
        let is_text = given.trim_start().starts_with('{');
        let text = if is_text { Ok(given.clone()) } else { files::read_text(given, LONGEST) };
        let text = text.map_err(|error| Failure::unreadable(given.as_ref(), error))?;
        layers.push(Layer { source: Source::Flag, name: "--settings".to_owned(), text });
    }
    let settings = Settings::read(&layers, if is_own { Trust::Trusted } else { trust });
    let hooks = if args.ignore_hooks { Hooks::Ignored } else { Hooks::Obeyed };
    let Some(stop) = settings.refusal(hooks) else { return Ok(settings) };
    let key = if stop.key.is_empty() { String::new() } else { format!(": `{}`", stop.key) };
    let message = format!("`{}`{key}: {}", stop.name, stop.why);
    let hint = match (stop.is_hook, stop.source) {
        (_, source) if source.is_managed() => {
            "quipu does not run unless it can honour an administrator's settings"
        }
        (true, _) => "`--ignore-hooks` runs without them",
        _ if stop.key.is_empty() => "fix it: what it restricts is unknown",
        (false, _) => "quipu does not run unless it can honour a restriction: remove it if you can",
    };
    Err(Failure::usage(message, Some(hint)))
}

/// The administrator's files, in order of precedence.
fn managed(world: &World) -> Result<Vec<Layer>, Failure> {
    let folder = Path::new(if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else if cfg!(windows) {
        r"C:\Program Files\ClaudeCode"
    } else {
        "/etc/claude-code"
    });
    let mut layers: Vec<Layer> =
        file(Source::Managed, &folder.join("managed-settings.json"))?.into_iter().collect();
    let more = folder.join("managed-settings.d");
    let entries = match fs::read_dir(&more) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(|error| unreadable(&more, &error))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "json") && !is_hidden(path));
    paths.sort();
    for path in paths {
        layers.extend(file(Source::Managed, &path)?);
    }
    if let Some(path) = world.variable(MANAGED) {
        let path = PathBuf::from(path);
        let text = files::read_text(&path, LONGEST).map_err(|error| unreadable(&path, &error))?;
        let name = path.display().to_string();
        layers.push(Layer { source: Source::Restricting, name, text });
    }
    Ok(layers)
}

/// A settings file, if it exists.
fn file(source: Source, path: &Path) -> Result<Option<Layer>, Failure> {
    match files::read_text(path, LONGEST) {
        Ok(text) => Ok(Some(Layer { source, name: path.display().to_string(), text })),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read the settings `{}`: {error}", path.display());
    let hint = "they may contain restrictions: fix the file, or remove it";
    Failure::usage(message, Some(hint))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path);
    matches!((real(one), real(other)), (Ok(one), Ok(other)) if one == other)
}
