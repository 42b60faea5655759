//! What the client's settings mean for the agent, and which of them cannot be obeyed.
//!
//! Pure: texts and their origins in, one value out. Invariants: a folder that is not trusted can
//! forbid but not grant: its model, mode, rules that allow, folders, variables and helpers are
//! ignored; a setting that restricts is honoured, or it is in the list of what stops the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::tool;
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
}

/// A tool that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of the tool.
    pub tool: String,
    /// Who wrote the rule.
    pub source: Source,
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
    /// Tools that may do anything.
    pub allowed: Vec<Rule>,
    /// Tools that are switched off.
    pub refused: Vec<Rule>,
    /// Tools that need a question to the user.
    pub asked: Vec<Rule>,
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
    /// Settings that restrict and cannot be honoured.
    pub stops: Vec<Stop>,
    /// What was ignored because the folder is not trusted: the settings' name, and the keys.
    pub left_out: Vec<(String, Vec<&'static str>)>,
    /// Other messages for the user.
    pub notes: Vec<String>,
}

/// Hooks that can refuse what the model or the user wants.
const REFUSING: [&str; 3] = ["PreToolUse", "PermissionRequest", "UserPromptSubmit"];
/// Keys that are accepted only from sources that may grant.
const GRANTING: [&str; 7] = [
    "model",
    "permissions.allow",
    "permissions.defaultMode",
    "permissions.additionalDirectories",
    "env",
    "apiKeyHelper",
    "disableAllHooks",
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
    /// They stop the run, because they cannot be run.
    Obeyed,
    /// The user ignores them; an administrator's still count.
    Ignored,
}

#[derive(Default)]
struct Reader {
    settings: Settings,
    /// Hooks that will not run, by their events.
    idle: BTreeSet<String>,
    /// The highest source that switches hooks off.
    no_hooks: Option<Source>,
    only_managed_hooks: bool,
    /// The number of rules that would allow some commands or paths.
    narrow: usize,
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
        self.hooks(layer, members);
        let is_folders = matches!(layer.source, Source::Project | Source::Local);
        if is_folders && trust == Trust::Untrusted {
            let keys: Vec<_> =
                GRANTING.into_iter().filter(|key| says_anything(member(members, key))).collect();
            if !keys.is_empty() {
                self.settings.left_out.push((layer.name.clone(), keys));
            }
        } else if layer.source != Source::Restricting {
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
        if says_anything(member(members, "sandbox.enabled")) {
            let why = "there is no sandbox here yet".to_owned();
            self.stop(layer, "sandbox.enabled", why);
        }
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
            let (name, content) = match parse(text) {
                Ok(rule) => rule,
                Err(why) => {
                    self.stop(layer, &key, format!("the rule `{text}` is not understood: {why}"));
                    continue;
                }
            };
            let tools = reach(name, content);
            if content.is_some() {
                self.settings.notes.push(format!(
                    "the {kind} rule `{text}` is not understood yet: {} switched off",
                    match &tools[..] {
                        [tool] => format!("{tool} is"),
                        tools => format!("{} are", tools.join(", ")),
                    }
                ));
            }
            let rules = tools.into_iter().map(|tool| Rule { tool, source: layer.source });
            match kind {
                "deny" => self.settings.refused.extend(rules),
                _ => self.settings.asked.extend(rules),
            }
        }
    }

    fn hooks(&mut self, layer: &Layer, members: &Map<String, Value>) {
        let Some(Value::Object(events)) = members.get("hooks") else { return };
        for (event, _) in events.iter().filter(|(_, matchers)| has_hooks(matchers)) {
            if REFUSING.contains(&event.as_str()) {
                self.settings.stops.push(Stop {
                    name: layer.name.clone(),
                    key: format!("hooks.{event}"),
                    why: "hooks do not run here yet, and this one can refuse".to_owned(),
                    source: layer.source,
                    is_hook: true,
                });
            } else {
                self.idle.insert(event.clone());
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
        for rule in list("permissions.allow") {
            match rule.as_str().and_then(|text| parse(text).ok()) {
                Some((name, None)) => {
                    let tool = name.to_owned();
                    settings.allowed.push(Rule { tool, source: layer.source });
                }
                _ => self.narrow += 1,
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
    }

    fn finish(mut self) -> Settings {
        let is_managed = |stop: &Stop| stop.source.is_managed();
        match self.no_hooks {
            Some(Source::Managed) => {
                self.settings.stops.retain(|stop| !stop.is_hook);
                self.idle.clear();
            }
            // Other sources cannot switch the administrator's hooks off.
            Some(_) => {
                self.settings.stops.retain(|stop| !stop.is_hook || is_managed(stop));
                self.idle.clear();
            }
            None => {}
        }
        if self.only_managed_hooks {
            self.settings.stops.retain(|stop| !stop.is_hook || is_managed(stop));
        }
        if !self.idle.is_empty() {
            let events: Vec<&str> = self.idle.iter().map(String::as_str).collect();
            let note = format!("hooks do not run here yet: {}", events.join(", "));
            self.settings.notes.push(note);
        }
        if self.settings.only_managed_rules {
            self.settings.allowed.retain(|rule| rule.source == Source::Managed);
        }
        if self.narrow > 0 {
            self.settings.notes.push(format!(
                "rules that allow some commands or paths are not understood yet, and allow nothing: {}",
                self.narrow
            ));
        }
        self.settings
    }
}

/// A member of settings, or of an object in them.
fn member<'a>(members: &'a Map<String, Value>, key: &str) -> &'a Value {
    let found = match key.split_once('.') {
        Some((outer, inner)) => members.get(outer).and_then(|outer| outer.get(inner)),
        None => members.get(key),
    };
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

/// Whether the matchers of an event contain any hook. If that cannot be decided, they do.
fn has_hooks(matchers: &Value) -> bool {
    match matchers {
        Value::Array(list) => list.iter().any(|one| match one.get("hooks") {
            Some(Value::Array(hooks)) => !hooks.is_empty(),
            _ => true,
        }),
        other => says_anything(other),
    }
}

/// The tools that a rule on the command line forbids.
pub fn tools_named(rule: &str) -> Result<Vec<String>, &'static str> {
    parse(rule).map(|(name, content)| reach(name, content))
}

/// The tool of a rule, and the rule's content if it does not apply to everything that the tool
/// does.
fn parse(rule: &str) -> Result<(&str, Option<&str>), &'static str> {
    let rule = rule.trim();
    let (name, content) = match rule.split_once('(') {
        None => (rule, None),
        Some((name, rest)) => {
            let content = rest.strip_suffix(')').ok_or("it does not end with `)`")?;
            (name, Some(content))
        }
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err("it does not begin with the name of a tool");
    }
    let mut open = 0_usize;
    let mut is_escaped = false;
    for c in content.unwrap_or_default().chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => open += 1,
            ')' => open = open.checked_sub(1).ok_or("its brackets do not match")?,
            _ => {}
        }
    }
    // After a backslash, the last bracket is not its end.
    if open > 0 || is_escaped {
        return Err("its brackets do not match");
    }
    let is_whole = |content: &&str| matches!(content.trim(), "" | "*");
    Ok((name, content.filter(|content| !is_whole(content))))
}

/// The tools that a rule applies to. A rule about paths applies to every tool that could access
/// them: it forbids more than it says, until such rules are supported.
fn reach(name: &str, content: Option<&str>) -> Vec<String> {
    let names: Vec<&str> = match (name, content) {
        ("Read", Some(_)) => vec!["Read", "Grep", "Glob", "Bash"],
        ("Edit" | "Write" | "NotebookEdit" | "MultiEdit", Some(_)) => {
            vec!["Edit", "Write", "NotebookEdit", "Bash"]
        }
        _ if name.contains('*') => {
            let all = tool::all().iter().map(|tool| tool.name.as_str());
            return all.filter(|tool| fits(name, tool)).map(str::to_owned).collect();
        }
        // Earlier names of tools.
        ("BashOutput" | "AgentOutputTool", _) => vec!["TaskOutput"],
        ("KillShell" | "KillBash", _) => vec!["TaskStop"],
        _ => vec![name],
    };
    names.into_iter().map(str::to_owned).collect()
}

/// Whether a name matches a pattern in which `*` matches anything.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit('*').next() else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
