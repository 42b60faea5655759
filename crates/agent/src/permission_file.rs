//! Changes of the permissions in a settings file: what a user answers with "always" to a question.
//!
//! Invariants: only the lists under `permissions` change, everything else keeps its place and
//! value; a file that is no JSON object is left alone; the file has the old text or the new one,
//! whenever the program is stopped; a link in a project is not followed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use files::{Durability, Lock};
use rules::Kind;
use serde_json::{Map, Value};

/// The largest file that is changed.
const LONGEST: u64 = 4 << 20;
/// How long another process may have the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// A settings file that a host may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionFile {
    /// How hosts call it.
    pub destination: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// Where paths in its rules start that begin with `/`.
    pub root: PathBuf,
    /// Whether it is in a project, where strangers may have put a link.
    pub is_in_project: bool,
}

/// What happens to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// What is new is added to it.
    Add,
    /// It becomes this.
    Replace,
    /// This is taken out of it.
    Remove,
}

/// The list of rules of a kind.
pub(crate) fn list_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Allow => "allow",
        Kind::Ask => "ask",
        Kind::Deny => "deny",
    }
}

/// The list of folders.
pub(crate) const FOLDERS: &str = "additionalDirectories";

impl PermissionFile {
    /// Adds a rule that allows something.
    pub fn allow(&self, rule: &str) -> Result<(), String> {
        self.write(list_of(Kind::Allow), Change::Add, &[rule.to_owned()])
    }

    /// Changes a list under `permissions` in the file.
    pub(crate) fn write(&self, list: &str, change: Change, items: &[String]) -> Result<(), String> {
        let failed = |why: String| format!("`{}` was not changed: {why}", self.path.display());
        let path = self.place().map_err(&failed)?;
        let who = format!("process {}", std::process::id());
        let lock = files::lock(&path.with_extension("json.lock"), &who, PATIENCE);
        let held = match lock.map_err(|error| failed(error.to_string()))? {
            Lock::Held(held) => held,
            Lock::Busy(who) => return Err(failed(format!("{who} writes to it"))),
        };
        let old = match files::read_text(&path, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error.to_string())),
        };
        let new = changed(&old, list, change, items).map_err(&failed)?;
        let put = files::put(&path, new.as_bytes(), Durability::PowerCut);
        // Nobody else needs it.
        let _ = held.remove();
        put.map_err(|error| failed(error.to_string()))
    }

    /// Where the file really is.
    fn place(&self) -> Result<PathBuf, String> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if self.is_in_project && (is_link(folder) || is_link(&self.path)) {
            return Err("it is a link".to_owned());
        }
        // Users keep their own settings elsewhere, and link to them.
        Ok(self.path.canonicalize().unwrap_or_else(|_| self.path.clone()))
    }
}

/// The text of a settings file with a list changed.
fn changed(old: &str, list: &str, change: Change, items: &[String]) -> Result<String, String> {
    let text = old.trim_start_matches('\u{feff}');
    let value = if text.trim().is_empty() {
        Value::Object(Map::new())
    } else {
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?
    };
    let Value::Object(mut members) = value else { return Err("it is no JSON object".to_owned()) };
    let permissions = members.entry("permissions").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(permissions) = permissions else {
        return Err("`permissions` is no object".to_owned());
    };
    let known = permissions.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(known) = known else {
        return Err(format!("`permissions.{list}` is no list"));
    };
    let is_meant = |value: &Value| items.iter().any(|item| value == item.as_str());
    match change {
        Change::Replace => known.clear(),
        Change::Remove => known.retain(|value| !is_meant(value)),
        Change::Add => {}
    }
    if change != Change::Remove {
        for item in items {
            if !known.iter().any(|value| value == item.as_str()) {
                known.push(item.as_str().into());
            }
        }
    }
    let text = serde_json::to_string_pretty(&members).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

#[cfg(test)]
#[path = "permission_file_tests.rs"]
mod tests;
