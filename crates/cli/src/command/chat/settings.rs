//! What settings say to the agent: the user's, the project's, and those of the command line.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

/// What is taken from settings; later ones win.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
    /// Tools by name; rules about commands and paths are for others.
    pub(super) allowed: Vec<String>,
    pub(super) refused: Vec<String>,
}

impl Settings {
    pub(super) fn read(home: &Path, cwd: &Path, given: Option<&str>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let files = [
            home.join("settings.json"),
            cwd.join(".claude/settings.json"),
            cwd.join(".claude/settings.local.json"),
        ];
        for file in files {
            // The client's own files are its own business: what cannot be read says nothing.
            if let Ok(text) = fs::read_to_string(&file)
                && let Ok(value) = serde_json::from_str(&text)
            {
                settings.take(&value);
            }
        }
        if let Some(given) = given {
            let text = if given.trim_start().starts_with('{') {
                given.to_owned()
            } else {
                fs::read_to_string(given)
                    .map_err(|error| Failure::unreadable(given.as_ref(), error))?
            };
            let value = serde_json::from_str(&text).map_err(|error| {
                Failure::usage(format!("the settings are no JSON: {error}"), None)
            })?;
            settings.take(&value);
        }
        Ok(settings)
    }

    fn take(&mut self, value: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.model = text(&value["model"]).or_else(|| self.model.take());
        let permissions = &value["permissions"];
        self.mode = text(&permissions["defaultMode"]).or_else(|| self.mode.take());
        let names = |list: &Value| -> Vec<String> {
            let rules = list.as_array().map(Vec::as_slice).unwrap_or_default().iter();
            rules
                .filter_map(Value::as_str)
                .filter(|rule| !rule.contains('('))
                .map(str::to_owned)
                .collect()
        };
        self.allowed.extend(names(&permissions["allow"]));
        self.refused.extend(names(&permissions["deny"]));
    }
}
