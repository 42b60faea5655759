//! A rule that the user allows always: written to the project's local settings.
//!
//! Invariant: what is in the file stays; a file that is not understood is not touched.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// Where such rules go, in the project's folder.
pub(super) const FILE: &str = ".claude/settings.local.json";

/// Adds a rule that allows something.
pub(super) fn add(project: &Path, rule: &str) -> io::Result<()> {
    let path = project.join(FILE);
    let mut settings = match files::read_text(&path, 4 << 20) {
        Ok(text) => serde_json::from_str(&text).map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => json!({}),
        Err(error) => return Err(error),
    };
    let damaged = || io::Error::other("its `permissions.allow` is no list");
    let root = settings.as_object_mut().ok_or_else(damaged)?;
    let permissions = root.entry("permissions").or_insert_with(|| json!({}));
    let permissions = permissions.as_object_mut().ok_or_else(damaged)?;
    let allow = permissions.entry("allow").or_insert_with(|| json!([]));
    let allow = allow.as_array_mut().ok_or_else(damaged)?;
    if !allow.iter().any(|one| one == rule) {
        allow.push(Value::from(rule));
    }
    std::fs::create_dir_all(path.parent().unwrap_or(project))?;
    let text = serde_json::to_string_pretty(&settings).map_err(io::Error::other)?;
    files::put(&path, format!("{text}\n").as_bytes(), files::Durability::Process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_added_once_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "Bash(ls:*)").unwrap();
        add(folder.path(), "Bash(ls:*)").unwrap();
        let text = files::read_text(folder.path().join(FILE), 1 << 20).unwrap();
        assert_eq!(
            text,
            "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls:*)\"\n    ]\n  }\n}\n"
        );
        let other = r#"{"model":"opus","permissions":{"deny":["Read"]}}"#;
        files::put(&folder.path().join(FILE), other.as_bytes(), files::Durability::Process)
            .unwrap();
        add(folder.path(), "Edit").unwrap();
        let text = files::read_text(folder.path().join(FILE), 1 << 20).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({"model": "opus", "permissions": {"deny": ["Read"], "allow": ["Edit"]}})
        );
        files::put(&folder.path().join(FILE), b"{damaged", files::Durability::Process).unwrap();
        assert!(add(folder.path(), "Edit").is_err());
        assert_eq!(files::read_text(folder.path().join(FILE), 99).unwrap(), "{damaged");
    }
}
