//! Commands and skills that people have written: Markdown files of the user and of the project.
//!
//! `commands/**/*.md` are typed (`/name`, in sub-folders `/folder:name`); `skills/*/SKILL.md` are
//! typed, or loaded by the model with the tool `Skill`. Invariants: nothing of a folder that is not
//! trusted is read; a project's files are regular files inside the project; a later one does not
//! replace an earlier one of the same name; what is read is bounded; one that restricts itself in a
//! way that is not understood here is left out, with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rules::{Access, Kind, Mode, Rule};
use serde_json::{Value, json};

use crate::frontmatter::{self, listed, markdown};
use crate::hook::HookBook;
use crate::settings::Source;
use crate::tool::{Answer, Call, Site, Tool, ToolSpec, Trouble};

/// The commands of the client itself.
pub(crate) const BUILT_IN: [&str; 4] = ["clear", "compact", "context", "cost"];
/// The name of the tool that loads skills.
pub(crate) const SKILL: &str = "Skill";
/// The longest file, in bytes.
const LONGEST: u64 = 1 << 18;
/// How many bytes of a description the model gets, and of all of them.
const DESCRIPTION: usize = 200;
const DESCRIPTIONS: usize = 6_000;

/// Who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The user, for all projects.
    User,
    /// The project.
    Project,
}

impl Author {
    /// Whose settings its hooks count as.
    fn source(self) -> Source {
        match self {
            Author::User => Source::User,
            Author::Project => Source::Project,
        }
    }

    /// The name of the settings beside it, for hooks.
    pub(crate) fn settings(self) -> &'static str {
        self.source().name()
    }
}

/// A command or a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slash {
    /// Its name, without the slash.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What may follow its name.
    pub hint: String,
    /// What it says.
    body: String,
    /// Rules that allow while its turn runs.
    pub(crate) allowed: Vec<String>,
    /// Rules that deny while its turn runs.
    refused: Vec<String>,
    /// Hooks that run from then on.
    pub(crate) hooks: HookBook,
    /// The model of its turn.
    pub(crate) model: Option<String>,
    /// The folder of a skill; None for a command.
    pub folder: Option<PathBuf>,
    /// Whether the model may load it.
    is_for_model: bool,
    /// Whether it can be typed.
    is_for_user: bool,
    /// Who wrote it.
    pub author: Author,
}

/// A piece of what a command says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlashPiece {
    /// A text.
    Text(String),
    /// A shell command, whose output takes its place.
    Run(String),
}

impl Slash {
    /// What it says with these arguments.
    pub(crate) fn pieces(&self, arguments: &str) -> Vec<SlashPiece> {
        let mut body = with_arguments(&self.body, arguments.trim());
        if let Some(folder) = &self.folder {
            body = format!("Base directory for this skill: {}\n\n{body}", folder.display());
        }
        pieces(&body)
    }

    /// What it says, with its commands as they are written: the model runs them itself if it may.
    pub(crate) fn written(&self, arguments: &str) -> String {
        let mut body = String::new();
        for piece in self.pieces(arguments) {
            match piece {
                SlashPiece::Text(text) => body.push_str(&text),
                SlashPiece::Run(command) => _ = write!(body, "`{command}`"),
            }
        }
        body
    }

    /// The rules that deny while its turn runs, in a session of this folder.
    pub(crate) fn denials(&self, source: &str, root: &Path) -> Vec<Rule> {
        let rule = |text: &String| Rule::parse(text, Kind::Deny, source, root.to_owned()).ok();
        self.refused.iter().filter_map(rule).collect()
    }

    /// The record of the command as it was typed.
    pub(crate) fn typed(&self, arguments: &str) -> String {
        let name = &self.name;
        let mut text = format!(
            "<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
        );
        if !arguments.trim().is_empty() {
            text.push_str("\n<command-args>");
            text.push_str(arguments.trim());
            text.push_str("</command-args>");
        }
        text
    }
}

/// All commands and skills, by name.
#[derive(Clone, Debug, Default)]
pub struct SlashBook {
    all: BTreeMap<String, Slash>,
    /// The only skills that the model may load, once a host has named them.
    only: OnceLock<Vec<String>>,
    /// Whether settings or the user say that no hooks run but an administrator's.
    is_without_hooks: bool,
}

impl SlashBook {
    /// What is read from now on has no hooks.
    #[must_use]
    pub fn without_hooks(self) -> SlashBook {
        SlashBook { is_without_hooks: true, ..self }
    }

    /// Reads the commands and skills in a folder (`.claude`). Returns what was left out, and why.
    pub fn read(&mut self, folder: &Path, author: Author) -> Vec<String> {
        let root = match author {
            Author::User => None,
            Author::Project => fs::canonicalize(folder).ok(),
        };
        let files = markdown(&folder.join("commands"));
        let mut left = Vec::new();
        let is_inside = |path: &Path| {
            let found = fs::canonicalize(path);
            let is_below = |root: &PathBuf| found.as_ref().is_ok_and(|it| it.starts_with(root));
            // Links in the user's own folder are the user's decision.
            author == Author::User || root.as_ref().is_some_and(is_below)
        };
        for path in files.iter().filter(|path| is_inside(path)) {
            let below = path.strip_prefix(folder.join("commands")).unwrap_or(path);
            let parts = below.with_extension("");
            let parts: Vec<_> =
                parts.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            left.extend(self.add(path, &parts.join(":"), None, author));
        }
        for skill in listed(&folder.join("skills")) {
            let path = skill.join("SKILL.md");
            let name = skill.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_inside(&path) {
                left.extend(self.add(&path, &name, Some(skill), author));
            }
        }
        left
    }

    /// Reads one. Returns why it is left out.
    fn add(
        &mut self,
        path: &Path,
        name: &str,
        folder: Option<PathBuf>,
        author: Author,
    ) -> Option<String> {
        let is_plain = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) || self.all.contains_key(name) {
            return None;
        }
        let Ok(text) = files::read_text(path, LONGEST) else { return None };
        let (members, body) = frontmatter::read(&text);
        let member = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default();
        let first = || body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let description = match member("description") {
            "" => first().trim_start_matches('#').trim().to_owned(),
            text => text.to_owned(),
        };
        let list = |key: &str| members.get(key).map(frontmatter::list).unwrap_or_default();
        let refused = list("disallowed-tools");
        let parsed = |rule: &String| Rule::parse(rule, Kind::Deny, "", PathBuf::new()).err();
        let broken = refused.iter().find_map(|rule| Some((rule, parsed(rule)?)));
        let left_out = |why: String| Some(format!("`{}`: it is left out: {why}", path.display()));
        if let Some((rule, why)) = broken {
            return left_out(format!("`{rule}` in `disallowed-tools` is not understood: {why}"));
        }
        let none = Value::Null;
        let hooks = members.get("hooks").filter(|_| !self.is_without_hooks).unwrap_or(&none);
        let hooks = match HookBook::of_definition(hooks, author.source()) {
            Ok(hooks) => hooks,
            Err(why) => return left_out(why),
        };
        let is_not = |key: &str, value: bool| members.get(key) != Some(&Value::Bool(value));
        let model = Some(member("model")).filter(|model| !model.is_empty() && *model != "inherit");
        let is_for_model = folder.is_some() && is_not("disable-model-invocation", true);
        let slash = Slash {
            name: name.to_owned(),
            description,
            hint: member("argument-hint").to_owned(),
            body: body.to_owned(),
            allowed: list("allowed-tools"),
            refused,
            hooks,
            model: model.map(str::to_owned),
            folder,
            is_for_model,
            is_for_user: is_not("user-invocable", false),
            author,
        };
        self.all.insert(name.to_owned(), slash);
        None
    }

    /// The command or skill with this name.
    pub fn find(&self, name: &str) -> Option<&Slash> {
        self.all.get(name)
    }

    /// The command that a prompt is, and its arguments.
    pub(crate) fn called<'a>(&self, text: &'a str) -> Option<(&Slash, &'a str)> {
        let text = text.trim().strip_prefix('/')?;
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Some((self.all.get(name).filter(|slash| slash.is_for_user)?, rest))
    }

    /// The skill that a call has loaded, if it was one for that.
    pub(crate) fn loaded_by(&self, call: &Call) -> Option<&Slash> {
        let name = call.input.get("skill").filter(|_| call.name == SKILL).and_then(Value::as_str);
        self.find(name?.trim_start_matches('/')).filter(|slash| self.is_for_model(slash))
    }

    /// What the skills with these names say, for an agent that has them from the beginning.
    pub(crate) fn preloaded(&self, names: &[String]) -> Vec<&Slash> {
        let found = names.iter().filter_map(|name| self.find(name));
        found.filter(|slash| self.is_for_model(slash)).collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Slash> {
        self.all.values()
    }

    /// Those that can be typed.
    pub fn for_user(&self) -> impl Iterator<Item = &Slash> {
        self.iter().filter(|slash| slash.is_for_user)
    }

    /// Leaves only these skills to the model. What was left to it before stays so.
    pub(crate) fn leave_only(&self, names: Vec<String>) {
        let _ = self.only.set(names);
    }

    /// Whether the model may load a skill.
    fn is_for_model(&self, slash: &Slash) -> bool {
        let is_left = |names: &Vec<String>| names.contains(&slash.name);
        slash.is_for_model && self.only.get().is_none_or(is_left)
    }

    /// The tool that loads skills; None if there are none for the model.
    pub(crate) fn tool(self: &Arc<Self>) -> Option<Arc<dyn Tool>> {
        let skills = self.all.values().filter(|slash| self.is_for_model(slash));
        let mut list = String::new();
        let mut left = 0;
        for skill in skills {
            let line = format!("\n- {}: {}", skill.name, cut(&skill.description, DESCRIPTION));
            if list.len() + line.len() > DESCRIPTIONS {
                left += 1;
            } else {
                list.push_str(&line);
            }
        }
        if list.is_empty() {
            return None;
        }
        if left > 0 {
            let _ = write!(list, "\n- … and {left} more, which only the user can name");
        }
        let spec = ToolSpec {
            name: SKILL.to_owned(),
            description: format!(
                "Loads what the user or the project has written about how to do a certain kind of task. Load it before you begin such a task. The skills:{list}"
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "skill": {"type": "string", "description": "The name of the skill"},
                    "args": {"type": "string", "description": "What it is to be used for"},
                },
                "required": ["skill"],
            }),
        };
        Some(Arc::new(SkillTool { spec, book: self.clone() }))
    }
}

/// The beginning of a text, on one line.
fn cut(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= most {
        return line;
    }
    let end = (0..=most).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &line[..end])
}

/// Puts arguments in the places for them; at the end if there is no such place.
fn with_arguments(body: &str, arguments: &str) -> String {
    let words = words(arguments);
    let word = |number: &str| {
        let at: Option<usize> = number.parse().ok();
        at.and_then(|at| words.get(at)).map_or("", String::as_str)
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut out = String::new();
    let mut rest = body;
    let mut has_place = false;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let single = digits(after);
        if let Some(tail) = after.strip_prefix("ARGUMENTS") {
            let inner = tail.strip_prefix('[').and_then(|tail| tail.split_once(']'));
            let inner =
                inner.filter(|(number, _)| !number.is_empty() && digits(number) == number.len());
            let (text, tail) =
                inner.map_or((arguments, tail), |(number, tail)| (word(number), tail));
            out.push_str(text);
            rest = tail;
            has_place = true;
        } else if single > 0 {
            out.push_str(word(&after[..single]));
            rest = &after[single..];
            has_place = true;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    if !has_place && !arguments.is_empty() {
        out.push_str("\n\nARGUMENTS: ");
        out.push_str(arguments);
    }
    out
}

/// The words of arguments, as a shell would split them.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut word, mut is_open, mut quote) = (String::new(), false, None);
    for c in text.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => (quote, is_open) = (Some(c), true),
            None if c.is_whitespace() => {
                if is_open {
                    all.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            None => {
                word.push(c);
                is_open = true;
            }
        }
    }
    if is_open {
        all.push(word);
    }
    all
}

/// Separates the shell commands of a text: `` !`command` `` after white space.
fn pieces(body: &str) -> Vec<SlashPiece> {
    let mut all = Vec::new();
    let mut text = String::new();
    let mut rest = body;
    while let Some(at) = rest.find("!`") {
        let is_free = rest[..at].chars().next_back().or(text.chars().next_back());
        let command = rest[at + 2..].split_once('`');
        match command.filter(|_| is_free.is_none_or(char::is_whitespace)) {
            Some((command, tail)) if !command.trim().is_empty() => {
                text.push_str(&rest[..at]);
                if !text.is_empty() {
                    all.push(SlashPiece::Text(std::mem::take(&mut text)));
                }
                all.push(SlashPiece::Run(command.trim().to_owned()));
                rest = tail;
                // What follows a command directly is not after white space.
                if rest.starts_with("!`") {
                    text.push('!');
                    rest = &rest[1..];
                }
            }
            _ => {
                text.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        all.push(SlashPiece::Text(text));
    }
    all
}

/// The tool that loads skills.
struct SkillTool {
    spec: ToolSpec,
    book: Arc<SlashBook>,
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn is_offered(&self, _: Mode) -> bool {
        true
    }

    fn access(&self, _: &Call, _: &Site) -> Access {
        Access { is_internal: true, ..Access::default() }
    }

    fn run(&self, call: &Call, _: &Site) -> Result<Answer, Trouble> {
        let text = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("skill").trim_start_matches('/');
        let Some(skill) = self.book.loaded_by(call) else {
            return Err(Trouble::wrong(format!("Unknown skill: {name}")));
        };
        let body = skill.written(text("args"));
        let detail = json!({"success": true, "commandName": name});
        Ok(Answer::text(format!("Launching skill: {name}\n\n{body}"), &detail))
    }
}

#[cfg(test)]
#[path = "slash_tests.rs"]
mod tests;
