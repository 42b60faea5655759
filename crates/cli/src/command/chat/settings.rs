//! What settings say to the agent: the user's, the project's, and those of the command line.
//!
//! Invariant: what comes with a project can forbid, and not allow: whoever clones it has not read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent::permit::Mode;
use serde_json::Value;

use crate::failure::Failure;
use crate::world::World;

/// So long may settings be.
const LONGEST: u64 = 1 << 20;

/// What is taken from settings; later ones win.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
    pub(super) mode: Option<Mode>,
    /// Tools by name; rules about commands and paths are for others.
    pub(super) allowed: Vec<String>,
    pub(super) refused: Vec<String>,
    /// Tools that would be asked about.
    pub(super) asked: Vec<String>,
    /// Folders beside the session's that it may work in.
    pub(super) folders: Vec<PathBuf>,
    /// Variables, for the client itself and for commands.
    pub(super) env: BTreeMap<String, String>,
    /// What a person should know about it.
    pub(super) notes: Vec<String>,
}

impl Settings {
    pub(super) fn read(home: &Path, cwd: &Path, given: Option<&str>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let shared = cwd.join(".claude/settings.json");
        let places =
            [home.join("settings.json"), shared.clone(), cwd.join(".claude/settings.local.json")];
        for file in places {
            // The client's own files are its own business: what cannot be read says nothing.
            if let Ok(text) = files::read_text(&file, LONGEST)
                && let Ok(value) = serde_json::from_str(&text)
            {
                settings.take(&value, file != shared);
            }
        }
        if let Some(given) = given {
            let text = if given.trim_start().starts_with('{') {
                given.to_owned()
            } else {
                files::read_text(given, LONGEST)
                    .map_err(|error| Failure::unreadable(given.as_ref(), error))?
            };
            let value = serde_json::from_str(&text).map_err(|error| {
                Failure::usage(format!("the settings are no JSON: {error}"), None)
            })?;
            settings.take(&value, true);
        }
        Ok(settings)
    }

    /// A variable: settings win, as they do with the original.
    pub(super) fn variable(&self, world: &World, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| world.variable(name))
    }

    fn take(&mut self, value: &Value, may_allow: bool) {
        if let Some(model) = value["model"].as_str() {
            self.model = Some(model.to_owned());
        }
        let permissions = &value["permissions"];
        let rules = |name: &str| -> Vec<String> {
            let rules = permissions[name].as_array().map(Vec::as_slice).unwrap_or_default();
            rules.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        // Modes that are not there yet allow less than any that is.
        let mode = permissions["defaultMode"].as_str();
        let mode = mode.map(|name| Mode::named(name).unwrap_or_default());
        let mut allowed = rules("allow");
        allowed.retain(|rule| !rule.contains('('));
        let folders = rules("additionalDirectories");
        let env = value["env"].as_object().into_iter().flatten();
        let env: Vec<(String, String)> = env
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        let asks_for_more = mode.is_some_and(|mode| mode != Mode::Default)
            || [allowed.len(), folders.len(), env.len()] != [0; 3];
        if may_allow {
            self.mode = mode.or(self.mode);
            self.allowed.extend(allowed);
            self.folders.extend(folders.into_iter().map(PathBuf::from));
            self.env.extend(env);
        } else if asks_for_more {
            self.notes.push("what the project's own settings allow or set is not taken up: give them with `--settings` if you want that".to_owned());
        }
        for (kind, list) in [("deny", &mut self.refused), ("ask", &mut self.asked)] {
            for rule in rules(kind) {
                let tool = rule.split('(').next().unwrap_or_default().to_owned();
                if tool.len() < rule.len() {
                    self.notes.push(format!(
                        "the {kind} rule `{rule}` is not understood yet: {tool} is switched off"
                    ));
                }
                list.push(tool);
            }
        }
    }
}
