//! Hooks: programs of the user, of the project or of a host that are asked, or told, when something
//! happens.
//!
//! Which ones there are comes from settings ([`HookBook::add`]) and from hosts; [`run`] starts the
//! ones of an event, all at once; `Verdict` is what they say together. Invariants: a hook is
//! bounded in time and output, and one that fails, hangs or talks nonsense never stops a turn, it
//! only says nothing; a refusal wins over everything else; hooks of a project run in the sandbox of
//! commands.

mod matcher;
pub mod run;
mod verdict;

use std::fmt::Write as _;
use std::time::Duration;

use rules::{Kind, Rule};
use serde_json::{Map, Value};

use crate::settings::Source;
use matcher::Matcher;

pub(crate) use matcher::is_of_tools;
pub(crate) use verdict::{Permission, Verdict, cut};

/// All events, by name, and whether they can happen here.
pub const EVENTS: [(&str, Occurs); 33] = [
    ("PreToolUse", Occurs::AndBlocks),
    ("PostToolUse", Occurs::AndBlocks),
    ("PostToolUseFailure", Occurs::Here),
    ("PostToolBatch", Occurs::AndBlocks),
    ("Notification", Occurs::Here),
    ("UserPromptSubmit", Occurs::AndBlocks),
    ("UserPromptExpansion", Occurs::AndBlocks),
    ("SessionStart", Occurs::Here),
    ("SessionEnd", Occurs::Here),
    ("Stop", Occurs::AndBlocks),
    ("StopFailure", Occurs::Here),
    ("SubagentStart", Occurs::Here),
    ("SubagentStop", Occurs::AndBlocks),
    ("PreCompact", Occurs::AndBlocks),
    ("PostCompact", Occurs::Here),
    ("PreModelSwitch", Occurs::AndBlocks),
    ("PostModelSwitch", Occurs::Here),
    ("PermissionRequest", Occurs::AndBlocks),
    ("PermissionDenied", Occurs::Never("no model judges calls here")),
    ("Setup", Occurs::Never("there is no `--init` or `--maintenance`")),
    ("TeammateIdle", Occurs::Never("there are no teams")),
    ("TaskCreated", Occurs::Never("there is no task list")),
    ("TaskCompleted", Occurs::Never("there is no task list")),
    ("Elicitation", Occurs::Never("there are no MCP servers")),
    ("ElicitationResult", Occurs::Never("there are no MCP servers")),
    ("ConfigChange", Occurs::Never("settings are read once, at the start")),
    ("WorktreeCreate", Occurs::Never("no worktrees are made")),
    ("WorktreeRemove", Occurs::Never("no worktrees are made")),
    ("InstructionsLoaded", Occurs::Here),
    ("CwdChanged", Occurs::Here),
    ("FileChanged", Occurs::Never("files are not watched")),
    ("DirectoryAdded", Occurs::Never("`/add-dir` starts the session anew")),
    ("MessageDisplay", Occurs::Here),
];

/// Whether an event can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurs {
    /// It can, and its hooks cannot refuse anything.
    Here,
    /// It can, and its hooks can refuse or hold something up.
    AndBlocks,
    /// It cannot; why.
    Never(&'static str),
}

/// Whether an event can happen; None if there is no such event.
pub fn occurs(event: &str) -> Option<Occurs> {
    EVENTS.iter().find(|(name, _)| *name == event).map(|(_, occurs)| *occurs)
}

/// How long a hook may take if it does not say; and those of some events.
const USUAL: Duration = Duration::from_secs(600);
const USUAL_OF: [(&str, Duration); 3] = [
    ("MessageDisplay", Duration::from_secs(10)),
    ("UserPromptSubmit", Duration::from_secs(30)),
    ("SessionEnd", Duration::from_millis(1_500)),
];
/// How long it may take at most.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What a hook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A command for a shell.
    Command(String),
    /// A function of the program that hosts the session; its id.
    Callback(String),
}

impl Action {
    /// How it is named in messages.
    pub fn name(&self) -> &str {
        match self {
            Action::Command(command) => command,
            Action::Callback(_) => "callback",
        }
    }
}

/// One hook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The event.
    pub event: String,
    /// What the event must be about; None for anything.
    matcher: Option<Matcher>,
    /// The rule that a call must fit, as one that denies: a call that it may be about fits.
    condition: Option<Rule>,
    /// What it is.
    pub action: Action,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether nothing waits for it.
    pub is_async: bool,
    /// Whether it wakes the model if it refuses although nothing waits for it.
    pub wakes: bool,
    /// Whether it refuses by failing in any way.
    pub blocks_on_failure: bool,
    /// How often it runs.
    often: Often,
    /// Who wants it.
    pub source: Source,
}

impl Hook {
    /// Its event, and what that must be about.
    pub fn about(&self) -> String {
        match &self.matcher {
            Some(matcher) => format!("{}({})", self.event, matcher.text),
            None => self.event.clone(),
        }
    }
}

/// How often a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Often {
    /// Whenever its event happens.
    Always,
    /// Until it has succeeded.
    Once,
}

/// Two hooks are the same if they do the same.
impl PartialEq for Hook {
    fn eq(&self, other: &Hook) -> bool {
        let key = |hook: &Hook| {
            let matcher = hook.matcher.as_ref().map(|matcher| matcher.text.clone());
            (hook.event.clone(), matcher, hook.action.clone(), hook.timeout, hook.is_async)
        };
        key(self) == key(other)
    }
}

impl Eq for Hook {}

/// The hooks of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookBook {
    hooks: Vec<Hook>,
}

/// Something in settings that is no hook here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHook {
    /// The event.
    pub event: String,
    /// What is wrong.
    pub why: String,
    /// Whether it could have refused something.
    pub blocks: bool,
    /// Whether there is such an event, but it cannot happen here.
    pub never: bool,
}

impl HookBook {
    /// Adds the hooks of settings (`hooks`). Returns what cannot be run.
    pub fn add(&mut self, events: &Map<String, Value>, source: Source) -> Vec<NoHook> {
        let mut added = HookBook::default();
        let left = added.collect(events, source);
        self.extend(&added.repeated());
        left
    }

    /// The hooks in the front matter of a skill or an agent. One that could refuse and does not run
    /// here is an error.
    pub(crate) fn of_definition(events: &Value, source: Source) -> Result<HookBook, String> {
        let mut book = HookBook::default();
        match events {
            Value::Null => {}
            Value::Object(events) => {
                let left = book.collect(events, source);
                if let Some(left) = left.into_iter().find(|left| left.blocks) {
                    return Err(format!("its hook for {}: {}", left.event, left.why));
                }
            }
            _ => return Err("`hooks` are not understood".to_owned()),
        }
        Ok(book)
    }

    /// The same hooks, each as often as its event happens: `once` is for skills.
    pub(crate) fn repeated(mut self) -> HookBook {
        self.hooks.iter_mut().for_each(|hook| hook.often = Often::Always);
        self
    }

    fn collect(&mut self, events: &Map<String, Value>, source: Source) -> Vec<NoHook> {
        let mut left = Vec::new();
        for (event, matchers) in events {
            let Some(occurs) = occurs(event) else {
                left.push(NoHook {
                    event: event.clone(),
                    why: "there is no such event".to_owned(),
                    blocks: false,
                    never: false,
                });
                continue;
            };
            if let Occurs::Never(why) = occurs {
                left.push(NoHook {
                    event: event.clone(),
                    why: why.to_owned(),
                    blocks: false,
                    never: true,
                });
                continue;
            }
            let blocks = occurs == Occurs::AndBlocks;
            let mut refuse = |why: String| {
                left.push(NoHook { event: event.clone(), why, blocks, never: false });
            };
            let Value::Array(matchers) = matchers else {
                if !matchers.is_null() {
                    refuse("it is no list".to_owned());
                }
                continue;
            };
            for one in matchers {
                let Some(hooks) = one["hooks"].as_array() else {
                    refuse("an entry has no list `hooks`".to_owned());
                    continue;
                };
                let matcher = match &one["matcher"] {
                    Value::Null => Ok(None),
                    Value::String(text) => Matcher::new(event, text),
                    other => Err(format!("its matcher `{other}` is no text")),
                };
                let matcher = match matcher {
                    Ok(matcher) => matcher,
                    Err(why) => {
                        refuse(why);
                        continue;
                    }
                };
                for hook in hooks {
                    match read(event, matcher.clone(), hook, source) {
                        Ok(hook) => self.hooks.push(hook),
                        Err(why) => refuse(why),
                    }
                }
            }
        }
        left
    }

    /// Adds the hooks of a host: `{Event: [{matcher, hookCallbackIds, timeout, onFailure}]}`. A
    /// word about failures that is not known means that they refuse.
    pub(crate) fn add_callbacks(&mut self, events: &Map<String, Value>) {
        for (event, matchers) in events {
            for one in matchers.as_array().into_iter().flatten() {
                let ids = one["hookCallbackIds"].as_array().into_iter().flatten();
                let on_failure = &one["onFailure"];
                let blocks_on_failure = !on_failure.is_null() && on_failure != "continue";
                // One that is not understood fits everything: rather too often than never.
                let matcher = one["matcher"].as_str().unwrap_or_default();
                let matcher = Matcher::new(event, matcher).unwrap_or_default();
                for id in ids.filter_map(Value::as_str) {
                    self.hooks.push(Hook {
                        event: event.clone(),
                        matcher: matcher.clone(),
                        condition: None,
                        action: Action::Callback(id.to_owned()),
                        timeout: timeout(event, &one["timeout"]),
                        is_async: false,
                        wakes: false,
                        blocks_on_failure,
                        often: Often::Always,
                        source: Source::Flag,
                    });
                }
            }
        }
    }

    /// Keeps the hooks whose source this is true for.
    pub(crate) fn retain(&mut self, keep: impl Fn(Source) -> bool) {
        self.hooks.retain(|hook| keep(hook.source));
    }

    /// Adds the hooks of another one.
    pub(crate) fn extend(&mut self, other: &HookBook) {
        self.hooks.extend(other.hooks.iter().cloned());
    }

    /// Adds those hooks of another one that are not there yet.
    pub(crate) fn adopt(&mut self, other: &HookBook) {
        for hook in &other.hooks {
            if !self.hooks.contains(hook) {
                self.hooks.push(hook.clone());
            }
        }
    }

    /// A hook has succeeded: if it runs only once, it is over.
    pub(crate) fn succeeded(&mut self, hook: &Hook) {
        if hook.often == Often::Once {
            self.hooks.retain(|other| other.often != Often::Once || other != hook);
        }
    }

    /// Whether an event may run any hook.
    pub(crate) fn has(&self, event: &str) -> bool {
        self.hooks.iter().any(|hook| hook.event == event)
    }

    /// All hooks.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter()
    }

    /// The hooks that an event runs. `subject` is what the event is about; `fits` decides about
    /// rules.
    pub(crate) fn of(&self, event: &str, subject: &str, fits: impl Fn(&Rule) -> bool) -> Vec<Hook> {
        let mut found: Vec<Hook> = Vec::new();
        for hook in self.hooks.iter().filter(|hook| hook.event == event) {
            let is_meant = hook.matcher.as_ref().is_none_or(|matcher| matcher.fits(subject))
                && hook.condition.as_ref().is_none_or(&fits);
            if is_meant {
                add_once(&mut found, hook.clone());
            }
        }
        found
    }
}

/// Adds a hook. The same command in two places runs once, and is waited for if one of them wants
/// that.
pub(crate) fn add_once(found: &mut Vec<Hook>, hook: Hook) {
    match found.iter_mut().find(|other| other.action == hook.action) {
        Some(other) if other.is_async && !hook.is_async => *other = hook,
        Some(_) => {}
        None => found.push(hook),
    }
}

/// What the hooks of an event learn of the session beside where it is; those of others learn
/// nothing more.
const ABOUT_SESSION: [(&str, &[About]); 9] = [
    ("PreToolUse", &[About::Mode, About::Effort]),
    ("PostToolUse", &[About::Mode, About::Effort]),
    ("PostToolUseFailure", &[About::Mode, About::Effort]),
    ("PostToolBatch", &[About::Mode, About::Effort]),
    ("PermissionRequest", &[About::Mode, About::Effort]),
    ("Stop", &[About::Mode, About::Effort]),
    ("SubagentStop", &[About::Mode, About::Effort]),
    ("UserPromptSubmit", &[About::Mode]),
    ("UserPromptExpansion", &[About::Mode]),
];

/// Something about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// `permission_mode`.
    Mode,
    /// `effort`.
    Effort,
}

/// The name by which hooks know a tool: that of 2.1.325, whatever the model calls it.
pub(crate) fn tool_name(name: &str) -> &str {
    let here = rules::current(name);
    if here == crate::subagent::NAMES[0] { crate::subagent::NAMES[1] } else { here }
}

/// Whether the hooks of an event learn that.
pub(crate) fn learns(event: &str, what: About) -> bool {
    ABOUT_SESSION.iter().any(|(name, all)| *name == event && all.contains(&what))
}

fn timeout(event: &str, value: &Value) -> Duration {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let usual = USUAL_OF.iter().find(|(name, _)| *name == event).map_or(USUAL, |(_, usual)| *usual);
    seconds.map_or(usual, |seconds| Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64())))
}

/// A text as one word of a shell, except for the place of the project's folder.
fn argument(text: &str) -> String {
    let parts: Vec<String> =
        text.split("${CLAUDE_PROJECT_DIR}").map(rules::single_quoted).collect();
    parts.join("\"$CLAUDE_PROJECT_DIR\"")
}

/// Reads a hook of settings.
fn read(
    event: &str,
    matcher: Option<Matcher>,
    hook: &Value,
    source: Source,
) -> Result<Hook, String> {
    let kind = hook["type"].as_str().unwrap_or_default();
    if kind != "command" {
        return Err(format!("hooks of the type `{kind}` do not run here"));
    }
    let command = hook["command"].as_str().filter(|command| !command.trim().is_empty());
    let command = command.ok_or("a hook has no command")?;
    if hook["shell"].as_str().is_some_and(|shell| shell != "bash") {
        return Err(format!("hooks for the shell {} do not run here", hook["shell"]));
    }
    // With arguments, it is the name of a program, and not for a shell to take apart.
    let text = match hook["args"].as_array() {
        None => command.to_owned(),
        Some(arguments) => {
            let mut text = argument(command);
            for one in arguments {
                let one = one.as_str().ok_or("an argument of a hook is no text")?;
                let _ = write!(text, " {}", argument(one));
            }
            text
        }
    };
    let condition = match hook["if"].as_str() {
        None => None,
        Some(rule) => Some(
            Rule::parse(rule, Kind::Deny, "a hook", "/".into())
                .map_err(|why| format!("the rule `{rule}` is not understood: {why}"))?,
        ),
    };
    Ok(Hook {
        event: event.to_owned(),
        matcher,
        condition,
        action: Action::Command(text),
        timeout: timeout(event, &hook["timeout"]),
        is_async: hook["async"] == true || hook["asyncRewake"] == true,
        wakes: hook["asyncRewake"] == true,
        blocks_on_failure: hook["onFailure"] == "block",
        often: if hook["once"] == true { Often::Once } else { Often::Always },
        source,
    })
}

#[cfg(test)]
#[path = "hook_tests.rs"]
mod tests;
