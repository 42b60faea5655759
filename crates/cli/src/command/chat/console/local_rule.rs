//! A rule that the user allows always: written to the project's local settings, by the engine's
//! writer of settings.

use std::path::Path;

use agent::permission_file::PermissionFile;

/// Where such rules go, in the project's folder.
pub(super) const FILE: &str = ".claude/settings.local.json";

/// Adds a rule that allows something.
pub(super) fn add(project: &Path, rule: &str) -> Result<(), String> {
    let file = PermissionFile {
        destination: "localSettings",
        path: project.join(FILE),
        root: project.to_owned(),
        is_in_project: true,
    };
    file.allow(rule)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_rule_is_added_once_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "Bash(ls:*)").unwrap();
        add(folder.path(), "Bash(ls:*)").unwrap();
        let text = files::read_text(folder.path().join(FILE), 1 << 20).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, json!({"permissions": {"allow": ["Bash(ls:*)"]}}));
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

    #[test]
    fn a_link_that_a_project_brings_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [project, elsewhere] = ["project", "elsewhere"].map(|name| folder.path().join(name));
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, project.join(".claude")).unwrap();
        assert!(add(&project, "Bash").unwrap_err().contains("it is a link"));
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
