//! Client versions that the user names.
//!
//! Invariant: a client that is installed is found without running it.

use std::path::{Path, PathBuf};

use transcript::client::history::{NEWEST_NAME, Rules};
use transcript::format::json::Json;

use crate::failure::Failure;
use crate::world::World;

/// The client version whose rules decide where the conversation continues.
#[derive(clap::Args, Debug)]
pub(crate) struct As {
    /// The client version whose rules apply, or `installed`
    #[arg(long = "as", value_name = "VERSION", default_value = NEWEST_NAME)]
    pub(crate) version: String,
}

impl As {
    pub(crate) fn asked(&self, world: &mut World) -> Result<Asked, Failure> {
        asked(world, &self.version, USUAL)
    }
}

/// A version that was asked for, and the rules that stand for it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The version's number.
    pub(crate) version: String,
    pub(crate) rules: Rules,
    /// Whether the rules are those of this version.
    pub(crate) is_observed: bool,
}

/// What can stand in the place of a version, in most commands.
pub(crate) const USUAL: &str = "or `installed`";

/// The rules of a version; `others` is what else could stand there, for people. Says so if the
/// rules are those of another version.
pub(crate) fn asked(world: &mut World, version: &str, others: &str) -> Result<Asked, Failure> {
    let version = if version == "installed" {
        let none = || {
            let text = "no installed Claude Code was found in `PATH`";
            Failure::usage(text.to_owned(), Some("name its version: `claude --version` prints it"))
        };
        installed(world.programs()).ok_or_else(none)?
    } else {
        version.to_owned()
    };
    let hint = format!("a version like {NEWEST_NAME}, {others}");
    let unknown = || Failure::usage(format!("`{version}` is not a client version"), Some(&hint));
    let rules = Rules::of(&version).ok_or_else(unknown)?;
    let is_observed = rules.name() == version;
    if !is_observed {
        let rules = rules.name();
        world.out.note(&format!("{version} was never observed; the rules of {rules} are used"))?;
    }
    Ok(Asked { version, rules, is_observed })
}

/// The `claude` that a shell would run. Folders that depend on the current one do not count: what
/// is in them may be a stranger's.
pub(crate) fn client(programs: &[PathBuf]) -> Option<PathBuf> {
    let folders = programs.iter().filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(CLIENT)).find(|path| is_program(path))
}

const CLIENT: &str = if cfg!(windows) { "claude.exe" } else { "claude" };

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// The version of the `claude` that a shell would run, by what is beside it: the package of npm, or
/// the folder of the native installer, which names its files after versions.
pub(crate) fn installed(programs: &[PathBuf]) -> Option<String> {
    let program = client(programs)?;
    let program = program.canonicalize().unwrap_or(program);
    let is_version = |name: &&str| Rules::of(name).is_some();
    let named = program.file_name().and_then(|name| name.to_str()).filter(is_version);
    if let Some(version) = named {
        return Some(version.to_owned());
    }
    program.ancestors().skip(1).take(3).find_map(of_package)
}

/// The version in the `package.json` of Claude Code in this folder.
fn of_package(folder: &Path) -> Option<String> {
    let path = folder.join("package.json");
    let bytes = files::read(&path, LARGEST).ok()?;
    let package = Json::parse(&bytes)?;
    let text = |name: &str| package.get(name).and_then(Json::text);
    text("name")?.starts_with("@anthropic-ai/claude-code").then_some(())?;
    text("version").map(std::borrow::Cow::into_owned).filter(|version| Rules::of(version).is_some())
}

/// A `package.json` that is larger is none.
const LARGEST: u64 = 1 << 20;

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
