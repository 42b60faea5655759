//! The types of sub-agents that a session can start, and the tool that starts them.
//!
//! Built in are `general-purpose` and `Explore`; others come from files (`agents/*.md` in the
//! user's and the project's `.claude`), from `--agents` and from hosts. A later one replaces an
//! earlier one of the same name. Invariant: a definition that asks for something that is not done
//! here is left out, with the reason, if leaving that away would give it more rights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rules::{Access, Decision, Judgement, Kind, Mode, Place, Question, Rule, Rulebook, current};
use serde_json::{Value, json};

use crate::frontmatter::{self, markdown};
use crate::hook::HookBook;
use crate::settings::Source;
use crate::tool::{Answer, Call, Registry, Site, Tool, ToolSpec, Trouble};

/// The names of the tool that starts sub-agents: what it is called here, and in newer clients.
pub const NAMES: [&str; 2] = ["Task", "Agent"];
/// Who writes the rules of an agent.
const SOURCE: &str = "the agent's definition";
/// The longest definition, in bytes.
const LONGEST: u64 = 1 << 20;
/// How much a model can be asked to think and write.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
/// Tools that sub-agents never have.
const KEPT_BACK: [&str; 4] = ["AskUserQuestion", "ExitPlanMode", crate::tool::OUTPUT, "TodoWrite"];

/// A type of sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKind {
    /// Its name.
    pub name: String,
    /// When the model should use it.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The tools that it has, or those of their calls that it may make; None for all.
    pub tools: Option<Vec<Rule>>,
    /// The tools that it does not have, or those of their calls that it may not make.
    pub without: Vec<Rule>,
    /// Its model; None for that of its parent.
    pub model: Option<String>,
    /// A permission mode; it counts only if it is narrower than that of the session.
    pub mode: Option<Mode>,
    /// At most this many requests.
    pub max_turns: Option<u32>,
    /// Whether it always runs in the background.
    pub is_background: bool,
    /// Who wrote it; None if it is one of this program.
    pub source: Option<Source>,
    /// How much its model thinks and writes; None for as much as that of its parent.
    pub effort: Option<String>,
    /// The skills that it has from the beginning.
    pub skills: Vec<String>,
    /// Its hooks, which run beside those of the session while it works.
    pub hooks: HookBook,
}

impl AgentKind {
    /// Whether it has a tool, if its session does.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let is_about = |rule: &Rule| rules::fits(&rule.tool, current(tool));
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(is_about))
            && !self.without.iter().any(|rule| rule.content.is_none() && is_about(rule))
    }

    /// The tools that a sub-agent has, of those of its parent.
    pub(crate) fn tools(&self, all: &Registry, may_nest: Nesting) -> Registry {
        all.only(|name| {
            let is_nesting = NAMES.contains(&name);
            self.has(name)
                && !KEPT_BACK.contains(&name)
                && (!is_nesting || may_nest == Nesting::Possible)
        })
    }

    /// Which calls of its tools it may make, in a session of this folder; None for all.
    pub(crate) fn scope(&self, root: &Path) -> Option<Scope> {
        let listed = self.tools.iter().flatten();
        let is_whole = |tool: &str| {
            let mut all = self.tools.iter().flatten();
            all.any(|rule| rule.content.is_none() && rules::fits(&rule.tool, tool))
        };
        let listed = listed.filter(|rule| !is_whole(&rule.tool));
        let refused = self.without.iter().filter(|rule| rule.content.is_some());
        let mut scope = Scope { name: self.name.clone(), ..Scope::default() };
        for rule in listed.chain(refused) {
            let rule = Rule { root: root.to_owned(), ..rule.clone() };
            let is_listed = rule.kind == Kind::Allow;
            match (is_listed, rule.tool == NAMES[0]) {
                (true, true) => scope.kinds.push(rule),
                (true, false) => scope.listed.push(rule),
                (false, true) => scope.refused_kinds.push(rule),
                (false, false) => scope.refused.push(rule),
            }
        }
        let is_empty = scope == Scope { name: self.name.clone(), ..Scope::default() };
        (!is_empty).then_some(scope)
    }
}

/// Which calls of its tools an agent may make, by its definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    name: String,
    /// Of the tools in these rules, only calls that they cover.
    listed: Vec<Rule>,
    /// No calls that these deny.
    pub(crate) refused: Vec<Rule>,
    /// If there are any, only sub-agents of these types; and none of those.
    kinds: Vec<Rule>,
    refused_kinds: Vec<Rule>,
}

impl Scope {
    /// Whether sub-agents of a type may be started.
    pub(crate) fn may_start(&self, kind: &str) -> bool {
        let names = |rules: &[Rule]| {
            let contents = rules.iter().filter_map(|rule| rule.content.as_deref());
            contents
                .flat_map(|content| content.split(','))
                .any(|name| rules::fits(name.trim(), kind))
        };
        (self.kinds.is_empty() || names(&self.kinds)) && !names(&self.refused_kinds)
    }

    /// What is decided about a call that is none of those that the definition lists.
    pub(crate) fn refusal(&self, question: &Question<'_>, place: &Place<'_>) -> Option<Judgement> {
        let is_about = |rule: &&Rule| rules::fits(&rule.tool, current(question.tool));
        let rules: Vec<Rule> = self.listed.iter().filter(is_about).cloned().collect();
        let texts: Vec<String> = rules.iter().map(|rule| format!("`{}`", rule.text())).collect();
        if rules.is_empty() {
            return None;
        }
        let book = Rulebook { rules, allows_sandboxed: false };
        let found = book.judge(question, Mode::DontAsk, place);
        let is_listed = found.decision == Decision::Allow
            && found.rule.is_some()
            && found.parts.iter().all(|part| part.rule.is_some());
        let why = format!("the agent `{}` has only {} of it", self.name, texts.join(", "));
        let decision = Decision::Deny;
        (!is_listed).then_some(Judgement { decision, rule: None, source: None, why, ..found })
    }
}

/// Whether a sub-agent may start others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// It may.
    Possible,
    /// It is too deep.
    TooDeep,
}

/// The types of sub-agents of a session.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    all: BTreeMap<String, AgentKind>,
    /// Whether settings or the user say that no hooks run but an administrator's.
    is_without_hooks: bool,
}

const GENERAL: &str = "You are a helper that works for another agent. Do exactly the task that you get, with the tools that you have, and nothing else. When you are done, answer with a report: what you found or did, with paths and line numbers, and what remains open. Only this report is passed on.";
const EXPLORE: &str = "You are a helper that finds things in a code base for another agent. You change nothing: no files are written, no commands run that change anything. Search broadly first, then read what matters. Answer with a report: what you found, with absolute paths and line numbers, and the few lines that matter. Only this report is passed on.";

impl Kinds {
    /// The types of this program.
    pub fn built_in() -> Kinds {
        let kind =
            |name: &str, description: &str, prompt: &str, tools: Option<&[&str]>| AgentKind {
                name: name.to_owned(),
                description: description.to_owned(),
                prompt: prompt.to_owned(),
                tools: tools.map(|tools| tools.iter().map(|tool| whole(tool)).collect()),
                without: Vec::new(),
                model: None,
                mode: None,
                max_turns: None,
                is_background: false,
                source: None,
                effort: None,
                skills: Vec::new(),
                hooks: HookBook::default(),
            };
        let all = [
            kind(
                "general-purpose",
                "Searches, reads and changes things in several steps. Has all tools.",
                GENERAL,
                None,
            ),
            kind(
                "Explore",
                "Finds files, names and answers in a code base, quickly and without changing anything.",
                EXPLORE,
                Some(&["Glob", "Grep", "Read", "WebFetch", "WebSearch"]),
            ),
        ];
        let all = all.into_iter().map(|kind| (kind.name.clone(), kind)).collect();
        Kinds { all, is_without_hooks: false }
    }

    /// Definitions that are read from now on have no hooks.
    #[must_use]
    pub fn without_hooks(self) -> Kinds {
        Kinds { is_without_hooks: true, ..self }
    }

    /// Reads the definitions in a folder. Returns what was left out, and why.
    pub fn read(&mut self, folder: &Path, source: Source) -> Vec<String> {
        let mut left = Vec::new();
        for path in markdown(folder) {
            let Ok(text) = files::read_text(&path, LONGEST) else { continue };
            let (mut members, body) = frontmatter::read(&text);
            members.insert("prompt".to_owned(), body.trim().into());
            let Some(name) = members.get("name").and_then(Value::as_str).map(str::to_owned) else {
                continue;
            };
            if let Err(why) = self.add(&name, &Value::Object(members), source) {
                left.push(format!("`{}`: the agent is left out: {why}", path.display()));
            }
        }
        left
    }

    /// Reads the definitions of `--agents` or of a host. Returns what was left out, and why.
    pub fn add_json(&mut self, agents: &Value) -> Vec<String> {
        let mut left = Vec::new();
        for (name, agent) in agents.as_object().into_iter().flatten() {
            if let Err(why) = self.add(name, agent, Source::Flag) {
                left.push(format!("the agent `{name}` is left out: {why}"));
            }
        }
        left
    }

    fn add(&mut self, name: &str, agent: &Value, source: Source) -> Result<(), String> {
        let text = |key: &str| agent[key].as_str().filter(|text| !text.is_empty());
        // Without its `memory` an agent works all the same, and has less.
        let restricting = ["mcpServers", "isolation"];
        let is_set = |key: &&str| {
            let value = &agent[*key];
            !value.is_null() && *value != json!("") && *value != json!([]) && *value != json!({})
        };
        if let Some(key) = restricting.iter().find(|key| is_set(key)) {
            return Err(format!("`{key}` is not supported for agents"));
        }
        let mode = match text("permissionMode") {
            None => None,
            Some(mode) => {
                Some(Mode::named(mode).ok_or_else(|| format!("`{mode}` is no permission mode"))?)
            }
        };
        let hooks = if self.is_without_hooks {
            HookBook::default()
        } else {
            HookBook::of_definition(&agent["hooks"], source)?.repeated()
        };
        let tools = agent.get("tools").filter(|tools| !tools.is_null()).map(frontmatter::list);
        let tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
        let tools = tools.map(|tools| parsed(&tools, Kind::Allow)).transpose()?;
        let narrowed = tools.iter().flatten().find(|rule| rule.content.is_some() && !covers(rule));
        if let Some(rule) = narrowed {
            return Err(format!("`{}` in `tools`: such calls cannot be told apart", rule.text()));
        }
        let kind = AgentKind {
            name: name.to_owned(),
            description: text("description").ok_or("it has no description")?.to_owned(),
            prompt: text("prompt").unwrap_or(GENERAL).to_owned(),
            tools,
            without: parsed(&frontmatter::list(&agent["disallowedTools"]), Kind::Deny)?,
            model: text("model").filter(|model| *model != "inherit").map(str::to_owned),
            mode,
            max_turns: agent["maxTurns"].as_u64().and_then(|most| u32::try_from(most).ok()),
            is_background: agent["background"] == true,
            source: Some(source),
            effort: text("effort").filter(|level| EFFORTS.contains(level)).map(str::to_owned),
            skills: frontmatter::list(&agent["skills"]),
            hooks,
        };
        self.all.insert(name.to_owned(), kind);
        Ok(())
    }

    /// The type with this name.
    pub fn find(&self, name: &str) -> Option<&AgentKind> {
        self.all.get(name)
    }

    /// All types, by name.
    pub fn all(&self) -> impl Iterator<Item = &AgentKind> {
        self.all.values()
    }

    /// The names of all types.
    pub fn names(&self) -> Vec<String> {
        self.all.keys().cloned().collect()
    }

    /// What those cost that people have written: their names and descriptions are sent with every
    /// request.
    pub(crate) fn costs(&self) -> Vec<Value> {
        let written = self.all().filter_map(|kind| Some((kind, kind.source?)));
        let cost = |(kind, source): (&AgentKind, Source)| {
            let tokens = (kind.name.len() + kind.description.len()) / 4;
            json!({"agentType": kind.name, "source": source.name(), "tokens": tokens})
        };
        written.map(cost).collect()
    }

    /// Names and descriptions, for hosts.
    pub(crate) fn listed(&self) -> Vec<Value> {
        self.all().map(|kind| json!({"name": kind.name, "description": kind.description})).collect()
    }

    /// The tool that starts them, under all its names; none if there are no types.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let list: Vec<String> = self
            .all
            .values()
            .map(|kind| format!("- {}: {}", kind.name, kind.description.replace('\n', " ")))
            .collect();
        let description = format!(
            "Has a helper do a task of several steps on its own, and returns its report. Several calls in one answer run in parallel. The helper knows nothing but the prompt, so say everything that it needs, and what it is to report. The types of helpers:\n{}",
            list.join("\n")
        );
        let input_schema = json!({
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "The task in three to five words"},
                "prompt": {"type": "string", "description": "The task"},
                "subagent_type": {"type": "string", "description": "The type of helper"},
                "model": {"type": "string", "description": "Another model", "enum": ["sonnet", "opus", "haiku"]},
                "run_in_background": {"type": "boolean", "description": "Go on without waiting for the report; it comes later"},
            },
            "required": ["description", "prompt", "subagent_type"],
        });
        NAMES
            .into_iter()
            .map(|name| -> Arc<dyn Tool> {
                let spec = ToolSpec {
                    name: name.to_owned(),
                    description: description.clone(),
                    input_schema: input_schema.clone(),
                };
                Arc::new(StartTool { spec })
            })
            .collect()
    }
}

/// A rule about all calls of a tool.
fn whole(tool: &str) -> Rule {
    Rule {
        kind: Kind::Allow,
        tool: tool.to_owned(),
        content: None,
        source: SOURCE.to_owned(),
        root: PathBuf::new(),
    }
}

/// The tools that a definition lists.
fn parsed(list: &[String], kind: Kind) -> Result<Vec<Rule>, String> {
    let parse = |text: &String| {
        Rule::parse(text, kind, SOURCE, PathBuf::new())
            .map_err(|why| format!("`{text}` is not understood: {why}"))
    };
    list.iter().map(parse).collect()
}

/// Whether rules that allow only some calls of a tool can cover any.
fn covers(rule: &Rule) -> bool {
    matches!(rule.tool.as_str(), "Bash" | "Edit" | "Read" | "WebFetch") || rule.tool == NAMES[0]
}

/// The tool that starts sub-agents.
struct StartTool {
    spec: ToolSpec,
}

impl Tool for StartTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn is_offered(&self, _: Mode) -> bool {
        self.spec.name == NAMES[0]
    }

    fn access(&self, _: &Call, _: &Site) -> Access {
        Access { is_internal: true, ..Access::default() }
    }

    fn starts_agent(&self) -> bool {
        true
    }

    fn run(&self, _: &Call, _: &Site) -> Result<Answer, Trouble> {
        Err(Trouble::failed("A helper can only be started by a running session."))
    }
}

/// The narrower of two modes: a sub-agent never may more than its session.
pub(crate) fn narrower(one: Mode, other: Mode) -> Mode {
    let width = |mode: Mode| match mode {
        Mode::Plan => 0,
        Mode::DontAsk => 1,
        Mode::Default => 2,
        Mode::AcceptEdits => 3,
        Mode::Auto => 4,
        Mode::Bypass => 5,
    };
    if width(other) < width(one) { other } else { one }
}

#[cfg(test)]
#[path = "subagent_tests.rs"]
mod tests;
