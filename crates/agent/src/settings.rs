//! What the client's settings mean for the agent, and which of them cannot be obeyed.
//!
//! Pure: texts and their origins in, one value out. Invariants: a folder that is not trusted can
//! forbid but not grant: its model, mode, rules that allow, folders, variables and helpers are
//! ignored; a setting that restricts is honoured, or it is in the list of what stops the run.

mod sandboxed;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rules::{Kind, Rule};
use serde_json::{Map, Value};

use crate::hook::HookBook;
use crate::trust::Trust;

/// Who wrote settings, from lowest to highest precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The user, for all projects.
    User,
    /// The author of the project (`.claude/settings.json`).
    Project,
    /// The user, for the project (`.claude/settings.local.json`); a repository can contain it,
    /// however.
    Local,
    /// The caller of the program (`--settings`).
    Flag,
    /// An additional file like the administrator's, which a variable names: it restricts like
    /// theirs, and grants nothing.
    Restricting,
    /// The administrator of the machine.
    Managed,
}

impl Source {
    /// Its name, as hosts know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::User => "userSettings",
            Source::Project => "projectSettings",
            Source::Local => "localSettings",
            Source::Flag => "flagSettings",
            Source::Restricting | Source::Managed => "policySettings",
        }
    }

    /// Whether users of the program cannot opt out of these settings.
    pub fn is_managed(self) -> bool {
        matches!(self, Source::Restricting | Source::Managed)
    }
}

/// Settings as they were found.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Who wrote them.
    pub source: Source,
    /// Their name for people: a path, or a flag.
    pub name: String,
    /// The JSON text.
    pub text: String,
    /// Where paths in its rules start that begin with `/`.
    pub root: PathBuf,
}

/// A setting that restricts and cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The name of the settings that contain it.
    pub name: String,
    /// The key of the setting; empty if it is all of them.
    pub key: String,
    /// What is wrong with it.
    pub why: String,
    /// Who wrote it.
    pub source: Source,
    /// Whether it is about hooks: then the user may choose to ignore it.
    pub is_hook: bool,
}

/// The source of variables that no settings contain.
pub trait Environment {
    /// The value of a variable that is set.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The result of all settings; later sources win, lists are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The name of the model.
    pub model: Option<String>,
    /// The name of the permission mode.
    pub mode: Option<String>,
    /// Rules about calls, and who wrote them.
    pub rules: Vec<(Source, Rule)>,
    /// What is said about the sandbox.
    pub sandbox: SandboxSettings,
    /// Where each value comes from that only one source decides: the key, the value, the settings'
    /// name.
    pub origins: Vec<(String, Value, String)>,
    /// Additional folders that the session may work in.
    pub folders: Vec<PathBuf>,
    /// Variables, for the client itself and for commands.
    pub env: BTreeMap<String, String>,
    /// The name of the settings that configure a program to generate a key.
    pub key_helper: Option<String>,
    /// The name of the settings that switch `bypassPermissions` off.
    pub no_bypass: Option<String>,
    /// Whether only the administrator's rules may allow anything.
    pub only_managed_rules: bool,
    /// Whether a conversation is summarised by itself.
    pub auto_compact: Option<bool>,
    /// How large the window counts as, after which it is.
    pub auto_compact_window: Option<u64>,
    /// Hooks.
    pub hooks: HookBook,
    /// Whether only the administrator's hooks run.
    pub only_managed_hooks: bool,
    /// Settings that restrict and cannot be honoured.
    pub stops: Vec<Stop>,
    /// What was ignored because the folder is not trusted: the settings' name, and the keys.
    pub left_out: Vec<(String, Vec<&'static str>)>,
    /// Other messages for the user.
    pub notes: Vec<String>,
}

/// What settings say about the sandbox; lists are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are settings, named as in Claude Code")]
pub struct SandboxSettings {
    /// Whether a session needs all of it.
    pub is_required: bool,
    /// Whether commands in it need no question.
    pub allows_commands: bool,
    /// Whether commands are never offered outside.
    pub is_closed: bool,
    /// What commands may write in addition.
    pub writable: Vec<PathBuf>,
    /// What they may not write.
    pub protected: Vec<PathBuf>,
    /// What they may not read.
    pub hidden: Vec<PathBuf>,
    /// Variables that they do not see.
    pub variables: Vec<String>,
    /// Whether they may use sockets of other programs.
    pub all_sockets: bool,
    /// Whether the network is on or off in every mode.
    pub network: Option<bool>,
}

/// Keys that are accepted only from sources that may grant.
const GRANTING: [&str; 11] = [
    "hooks",
    "model",
    "permissions.allow",
    "permissions.defaultMode",
    "permissions.additionalDirectories",
    "env",
    "apiKeyHelper",
    "disableAllHooks",
    "sandbox.autoAllowBashIfSandboxed",
    "sandbox.excludedCommands",
    "sandbox.filesystem.allowWrite",
];

impl Settings {
    /// Reads settings. `trust` is that of the folder that contains the project's settings.
    pub fn read(layers: &[Layer], trust: Trust) -> Settings {
        let mut reader = Reader::default();
        let mut layers: Vec<&Layer> = layers.iter().collect();
        layers.sort_by_key(|layer| layer.source);
        for layer in layers {
            reader.layer(layer, trust);
        }
        reader.finish()
    }

    /// A variable: settings win, as in Claude Code.
    pub fn variable(&self, environment: &dyn Environment, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| environment.variable(name))
    }

    /// The first setting that stops the run.
    pub fn refusal(&self, hooks: Hooks) -> Option<&Stop> {
        self.stops.iter().find(|stop| {
            let is_ignored = hooks == Hooks::Ignored && stop.is_hook && !stop.source.is_managed();
            !is_ignored
        })
    }
}

/// How to treat hooks that can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// They run; those that cannot be run, and could refuse, stop the session.
    Obeyed,
    /// The user wants none of them; an administrator's still run.
    Ignored,
}

#[derive(Default)]
struct Reader {
    settings: Settings,
    /// The highest source that switches hooks off.
    no_hooks: Option<Source>,
    only_managed_hooks: bool,
}

impl Reader {
    fn layer(&mut self, layer: &Layer, trust: Trust) {
        let text = layer.text.trim_start_matches('\u{feff}');
        // Claude Code creates empty files.
        if text.trim().is_empty() {
            return;
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return self.stop(layer, "", format!("it is no JSON: {error}")),
        };
        let Value::Object(members) = &value else {
            return self.stop(layer, "", "it is no JSON object".to_owned());
        };
        self.restrict(layer, members);
        let is_folders = matches!(layer.source, Source::Project | Source::Local);
        if is_folders && trust == Trust::Untrusted {
            let keys: Vec<_> =
                GRANTING.into_iter().filter(|key| says_anything(member(members, key))).collect();
            if !keys.is_empty() {
                self.settings.left_out.push((layer.name.clone(), keys));
            }
            return;
        }
        self.hooks(layer, members);
        if layer.source != Source::Restricting {
            self.grant(layer, members);
        }
    }

    fn stop(&mut self, layer: &Layer, key: &str, why: String) {
        self.settings.stops.push(Stop {
            name: layer.name.clone(),
            key: key.to_owned(),
            why,
            source: layer.source,
            is_hook: false,
        });
    }

    /// Reads the keys that are accepted from every source.
    fn restrict(&mut self, layer: &Layer, members: &Map<String, Value>) {
        for key in ["permissions", "sandbox", "hooks"] {
            if members.get(key).is_some_and(|value| !value.is_object() && !value.is_null()) {
                self.stop(layer, key, "it is no object".to_owned());
            }
        }
        for kind in ["deny", "ask"] {
            self.rules(layer, kind, member(members, &format!("permissions.{kind}")));
        }
        let key = "permissions.disableBypassPermissionsMode";
        if says_anything(member(members, key)) {
            self.settings.no_bypass = Some(layer.name.clone());
        }
        self.sandbox_limits(layer, members);
        if says_anything(member(members, "availableModels")) {
            let why = "models are not held to a list here yet".to_owned();
            self.stop(layer, "availableModels", why);
        }
        if layer.source.is_managed() {
            for key in ["forceLoginMethod", "forceLoginOrgUUID"] {
                if says_anything(member(members, key)) {
                    let why = "there is no login here, only a key".to_owned();
                    self.stop(layer, key, why);
                }
            }
            let is_set = |key| says_anything(member(members, key));
            self.settings.only_managed_rules |= is_set("allowManagedPermissionRulesOnly");
            self.only_managed_hooks |= is_set("allowManagedHooksOnly");
        }
    }

    /// Reads rules that forbid, or need a question.
    fn rules(&mut self, layer: &Layer, kind: &str, value: &Value) {
        let key = format!("permissions.{kind}");
        let list = match value {
            Value::Null => return,
            Value::Array(list) => list,
            _ => return self.stop(layer, &key, "it is no list".to_owned()),
        };
        for one in list {
            let Some(text) = one.as_str() else {
                self.stop(layer, &key, format!("`{one}` is no rule"));
                continue;
            };
            let kind = if kind == "deny" { Kind::Deny } else { Kind::Ask };
            match Rule::parse(text, kind, &layer.name, layer.root.clone()) {
                Ok(rule) => self.settings.rules.push((layer.source, rule)),
                Err(why) => {
                    self.stop(layer, &key, format!("the rule `{text}` is not understood: {why}"));
                }
            }
        }
    }

    fn hooks(&mut self, layer: &Layer, members: &Map<String, Value>) {
        let Some(Value::Object(events)) = members.get("hooks") else { return };
        let left = self.settings.hooks.add(events, layer.source);
        let (never, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.never);
        let never: Vec<String> =
            never.into_iter().map(|one| format!("`{}` ({})", one.event, one.why)).collect();
        if !never.is_empty() {
            self.settings.notes.push(format!(
                "`{}`: hooks for what cannot happen here are left out: {}",
                layer.name,
                never.join(", ")
            ));
        }
        for left in left {
            if left.blocks {
                self.settings.stops.push(Stop {
                    name: layer.name.clone(),
                    key: format!("hooks.{}", left.event),
                    why: format!("{}, and one of this event can refuse", left.why),
                    source: layer.source,
                    is_hook: true,
                });
            } else {
                self.settings.notes.push(format!(
                    "`{}`: a hook for `{}` is left out: {}",
                    layer.name, left.event, left.why
                ));
            }
        }
    }

    /// Reads the keys that are accepted only from sources that may grant.
    fn grant(&mut self, layer: &Layer, members: &Map<String, Value>) {
        let text = |key: &str| member(members, key).as_str().map(str::to_owned);
        let list = |key: &str| member(members, key).as_array().cloned().unwrap_or_default();
        let settings = &mut self.settings;
        settings.model = text("model").or(settings.model.take());
        settings.mode = text("permissions.defaultMode").or(settings.mode.take());
        settings.auto_compact =
            member(members, "autoCompactEnabled").as_bool().or(settings.auto_compact);
        settings.auto_compact_window =
            member(members, "autoCompactWindow").as_u64().or(settings.auto_compact_window);
        for rule in list("permissions.allow") {
            let parsed = rule
                .as_str()
                .map(|text| Rule::parse(text, Kind::Allow, &layer.name, layer.root.clone()));
            match parsed {
                Some(Ok(rule)) => settings.rules.push((layer.source, rule)),
                _ => settings.notes.push(format!(
                    "`{}`: the rule {rule} is not understood, and allows nothing",
                    layer.name
                )),
            }
        }
        for key in ["model", "permissions.defaultMode"] {
            if let Some(value) = text(key) {
                settings.origins.retain(|(known, ..)| known != key);
                settings.origins.push((key.to_owned(), value.into(), layer.name.clone()));
            }
        }
        let folders = list("permissions.additionalDirectories");
        settings.folders.extend(folders.iter().filter_map(Value::as_str).map(PathBuf::from));
        let env = member(members, "env").as_object().into_iter().flatten();
        let env = env.filter_map(|(name, value)| Some((name, value.as_str()?)));
        let is_variable = |(name, value): &(&String, &str)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        let env = env.filter(is_variable).map(|(name, value)| (name.clone(), value.to_owned()));
        settings.env.extend(env);
        if says_anything(member(members, "apiKeyHelper")) {
            settings.key_helper = Some(layer.name.clone());
        }
        if says_anything(member(members, "disableAllHooks")) {
            self.no_hooks = self.no_hooks.max(Some(layer.source));
        }
        self.sandbox_grants(layer, members);
    }

    fn finish(mut self) -> Settings {
        let is_managed = |stop: &Stop| stop.source.is_managed();
        let settings = &mut self.settings;
        settings.only_managed_hooks = self.no_hooks.is_some() || self.only_managed_hooks;
        if self.no_hooks == Some(Source::Managed) {
            settings.stops.retain(|stop| !stop.is_hook);
            settings.hooks = HookBook::default();
        } else if self.no_hooks.is_some() || self.only_managed_hooks {
            // Other sources cannot switch the administrator's hooks off.
            settings.stops.retain(|stop| !stop.is_hook || is_managed(stop));
            settings.hooks.retain(Source::is_managed);
        }
        if self.settings.only_managed_rules {
            let rules = &mut self.settings.rules;
            rules.retain(|(source, rule)| rule.kind != Kind::Allow || *source == Source::Managed);
        }
        self.settings
    }
}

/// A member of settings, or of an object in them.
fn member<'a>(members: &'a Map<String, Value>, key: &str) -> &'a Value {
    let mut names = key.split('.');
    let first = names.next().and_then(|name| members.get(name)).unwrap_or(&Value::Null);
    let found = names.try_fold(first, |value, name| value.get(name));
    found.unwrap_or(&Value::Null)
}

/// Whether a value has a meaning: null, false and empty values do not.
fn says_anything(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
