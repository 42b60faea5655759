//! What the model can do: one file per tool; names, descriptions and schemas are data
//! (`data/tools.json`).
//!
//! Each stands behind the trait [`Tool`] in a [`Registry`]; nothing else looks at their names. A
//! tool says what a call would read, change, run and reach ([`Tool::access`]), gets a [`Call`] and
//! the [`Site`] where it works, and returns an [`Answer`] or a [`Trouble`]. Invariants: a tool
//! never panics and never waits for a person; what it tells the model is bounded, and what is cut
//! off is on disk; nothing is changed before a copy was made (`Site::backups`).

mod ask_user_question;
mod bash;
mod edit;
mod exit_plan_mode;
pub(crate) mod glob;
mod grep;
mod notebook_edit;
mod output;
mod read;
mod registry;
mod seen;
mod task_output;
mod task_stop;
mod todo_write;
mod web_fetch;
mod web_search;
mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rules::{Pattern, plain};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use bash::Progress;
pub(crate) use bash::{held, notification, ready};
pub(crate) use exit_plan_mode::not_planning;
pub use output::OutputTool;
pub(crate) use output::{MOST as MOST_REMINDERS, NAME as OUTPUT, REMINDER as OUTPUT_REMINDER};
pub(crate) use registry::is_parallel;
pub use registry::{Registry, Tool};

use crate::ambient::Ambient;
use crate::api::Model;
use crate::backup::{Backup, Backups};
use crate::context::GivenInstructions;
use crate::freshness::Freshness;
use crate::guard::Guard;
use crate::images::{self, Images};
use crate::model::Usage;
use crate::permission_file::PermissionFile;
use crate::permit::{self, Mode};
use crate::scratch;
use crate::secret::Secrets;
use crate::shell::Shells;
use crate::subagent::Scope;

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// The API's id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The input of the call.
    pub input: Map<String, Value>,
    /// Set when the result is no longer wanted.
    pub cancel: Cancel,
}

/// Whether a call is to end early.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Requests an early end.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether an early end was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The result of a tool.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the model gets.
    pub content: Content,
    /// `is_error` of the result; most successful ones do not set it.
    pub is_error: Option<bool>,
    /// The result as a structure, for people and programs (`toolUseResult`).
    pub detail: Box<RawValue>,
}

/// The content of a result.
#[derive(Clone, Debug)]
pub enum Content {
    /// A text.
    Text(String),
    /// Blocks, each as JSON.
    Blocks(Vec<Box<RawValue>>),
}

impl Answer {
    /// A text, with its structure.
    pub(crate) fn text(text: impl Into<String>, detail: &impl Serialize) -> Answer {
        Answer { content: Content::Text(text.into()), is_error: None, detail: raw(detail) }
    }
}

/// Why a tool did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The message for the model.
    pub text: String,
    /// Whether the call itself was wrong: clients put the text between `<tool_use_error>` tags.
    pub is_tagged: bool,
    /// The text after `Error: ` in `toolUseResult`, if it is different.
    pub detail: Option<String>,
}

impl Trouble {
    /// It could not be done.
    pub(crate) fn failed(text: impl Into<String>) -> Trouble {
        Trouble { text: text.into(), is_tagged: false, detail: None }
    }

    /// The call itself was wrong.
    pub(crate) fn wrong(text: impl Into<String>) -> Trouble {
        Trouble { text: text.into(), is_tagged: true, detail: None }
    }

    /// The error as the result of a call.
    pub(crate) fn answer(self) -> Answer {
        let detail = self.detail.unwrap_or_else(|| format!("Error: {}", self.text));
        let text = if self.is_tagged {
            format!("<tool_use_error>{}</tool_use_error>", self.text)
        } else {
            self.text
        };
        Answer { content: Content::Text(text), is_error: Some(true), detail: raw(&detail) }
    }
}

/// A tool as it is described to the model.
#[derive(Clone, Debug, Deserialize)]
pub struct ToolSpec {
    /// The name of the tool.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its input.
    pub input_schema: Value,
}

static TOOLS: LazyLock<Vec<ToolSpec>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/tools.json")).unwrap_or_default());

/// All tools, in the order in which they are described to the model.
pub fn all() -> &'static [ToolSpec] {
    &TOOLS
}

impl ToolSpec {
    /// The description as the API wants it.
    pub fn json(&self) -> String {
        let encode = |value: &Value| value.to_string();
        format!(
            r#"{{"name":{},"description":{},"input_schema":{}}}"#,
            encode(&self.name.as_str().into()),
            encode(&self.description.as_str().into()),
            encode(&self.input_schema)
        )
    }
}

/// Runs a call.
pub fn run(call: &Call, site: &Site) -> Answer {
    let tool = site.tools.find(&call.name).ok_or_else(|| unknown(&call.name));
    let done = tool.and_then(|tool| {
        tool.check(call)?;
        let done = images::around(call, site, || tool.run(call, site));
        // Commands that still run have no part in this; what a command writes is not admitted.
        let access = tool.access(call, site);
        if access.runs.is_none() {
            site.shells.admit(&access.writes);
        }
        done
    });
    site.pins.lock().unwrap_or_else(PoisonError::into_inner).remove(&call.id);
    let mut answer = done.unwrap_or_else(Trouble::answer);
    site.secrets.clean(&mut answer);
    answer
}

/// The error for a tool that does not exist, or not in this session.
pub(crate) fn unknown(name: &str) -> Trouble {
    let text = format!("Error: No such tool available: {name}");
    Trouble { detail: Some(text.clone()), ..Trouble::wrong(text) }
}

/// The error in a session that may not fetch anything.
fn offline() -> Trouble {
    Trouble::failed("This session is offline: nothing comes from the web.")
}

/// Checks the input of a call against the tool's schema.
pub(crate) fn checked(call: &Call, tool: &ToolSpec) -> Result<(), Trouble> {
    let known = &tool.input_schema["properties"];
    let required = tool.input_schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut issues = Vec::new();
    for name in required.iter().filter_map(Value::as_str) {
        if !call.input.contains_key(name) {
            issues.push(format!("The required parameter `{name}` is missing"));
        }
    }
    for (name, value) in &call.input {
        match known[name]["type"].as_str() {
            None if known[name].is_null() => {
                issues.push(format!("An unexpected parameter `{name}` was provided"));
            }
            Some(_) if known[name]["enum"].as_array().is_some_and(|all| !all.contains(value)) => {
                issues.push(format!("The parameter `{name}` is none of {}", known[name]["enum"]));
            }
            Some(wanted) if !is_a(value, wanted) => issues.push(format!(
                "The parameter `{name}` type is expected as `{wanted}` but provided as `{}`",
                kind(value)
            )),
            _ => {}
        }
    }
    if issues.is_empty() {
        return Ok(());
    }
    let s = if issues.len() == 1 { "" } else { "s" };
    let text = format!(
        "InputValidationError: {} failed due to the following issue{s}:\n{}",
        call.name,
        issues.join("\n")
    );
    Err(Trouble { detail: Some(text.clone()), ..Trouble::wrong(text) })
}

fn is_a(value: &Value, wanted: &str) -> bool {
    // Models also write `5.0`.
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    kind(value) == wanted || (wanted == "integer" && is_whole())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Where the tools of a session work.
pub struct Site {
    /// The tools of the session.
    pub tools: Registry,
    /// Which calls of them the definitions of agents leave.
    pub(crate) scopes: Vec<Scope>,
    /// The permission mode.
    pub mode: Mutex<Mode>,
    /// A mode that a tool has switched to.
    pub next_mode: Mutex<Option<Mode>>,
    /// What holds commands; None without a sandbox.
    pub guard: Option<Guard>,
    /// The calls whose commands run outside the sandbox.
    pub outside: Mutex<HashSet<String>>,
    /// The calls that are to go on in the background.
    pub backgrounded: Mutex<HashSet<String>>,
    /// The calls that the sandbox may have made fail.
    pub hampered: Mutex<HashSet<String>>,
    /// Where the paths of calls led when they were judged, by the calls' ids.
    pub(crate) pins: Mutex<HashMap<String, Pins>>,
    /// Where the session was started: the project's folder.
    pub root: PathBuf,
    /// Additional folders that the session may work in.
    pub folders: Vec<PathBuf>,
    /// The same, of those that a host has added meanwhile.
    pub added: Mutex<Vec<PathBuf>>,
    /// The settings files that a host may have changed.
    pub permission_files: Vec<PermissionFile>,
    /// The current working directory of the shell; relative paths start here.
    pub cwd: Mutex<PathBuf>,
    /// The user's home folder, where programs keep files that they obey.
    pub home: Option<PathBuf>,
    /// The session's own folder, for what is too long for the model.
    pub folder: PathBuf,
    /// Whether that folder is where sessions are stored, so that no other program puts anything
    /// there: what tools stored there may be read again.
    pub is_own_folder: bool,
    /// The files that the model has seen, with their content at that time.
    pub seen: Freshness,
    /// Copies of files from before they were changed.
    pub backups: Arc<Backups>,
    /// Images of its folders before and after calls; None if none are taken.
    pub images: Option<Arc<Images>>,
    /// The todo list.
    pub todos: Mutex<Vec<Value>>,
    /// The file in which the todo list is stored for others to see.
    pub todo_file: Option<PathBuf>,
    /// The repository that the user trusts, by its top folder: what its settings name may run.
    pub trusted_repository: Option<PathBuf>,
    /// The instructions that the model has got with files.
    pub given: Mutex<GivenInstructions>,
    /// The commands that run.
    pub shells: Arc<Shells>,
    /// The API for tools that make requests, and the name of the model.
    pub model: (Arc<dyn Model>, String),
    /// The tokens that these tools have used, by model, until they are counted.
    pub spent: Mutex<BTreeMap<String, Usage>>,
    /// Whether nothing may be fetched from the web.
    pub is_offline: bool,
    /// Hosts that may be fetched from although they are not on the public internet. Empty except in
    /// tests.
    pub near_hosts: Vec<String>,
    /// Proxies, by the variables that named them, if the environment no longer contains these.
    pub proxies: Vec<(String, String)>,
    /// What each turn has to return, if a form was asked for.
    pub output: Arc<OutputTool>,
    /// The values that must not be shown.
    pub secrets: Secrets,
    /// The source of ids.
    pub nature: Arc<dyn Ambient>,
    /// Called with the output of commands while they run.
    pub listener: Mutex<Option<Listener>>,
}

/// What was known of a call when it was judged.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// Where its paths led: each as it was named, without `.` and `..`, and with links followed.
    pub(crate) paths: BTreeMap<PathBuf, PathBuf>,
    /// What searches leave out, because rules keep it from being read.
    pub(crate) closed: Vec<Pattern>,
}

/// Called with what a call writes while it runs: the call's id, the output, and the number of the
/// report.
pub type Listener = Box<dyn Fn(&str, Progress, u64) + Send>;

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Site {
    /// A site in a folder, where nothing has happened yet.
    pub fn new(
        root: &Path,
        folder: &Path,
        backups: Option<PathBuf>,
        model: (Arc<dyn Model>, String),
        nature: Arc<dyn Ambient>,
    ) -> Site {
        Site {
            tools: Registry::built_in(),
            scopes: Vec::new(),
            mode: Mutex::default(),
            next_mode: Mutex::default(),
            guard: None,
            outside: Mutex::default(),
            backgrounded: Mutex::default(),
            hampered: Mutex::default(),
            pins: Mutex::default(),
            root: root.to_owned(),
            folders: Vec::new(),
            added: Mutex::default(),
            permission_files: Vec::new(),
            cwd: Mutex::new(root.to_owned()),
            home: std::env::home_dir(),
            folder: folder.to_owned(),
            is_own_folder: true,
            seen: Freshness::default(),
            backups: Arc::new(Backups::new(backups)),
            images: None,
            todos: Mutex::default(),
            todo_file: None,
            trusted_repository: None,
            given: Mutex::default(),
            shells: Arc::new(Shells::new(std::env::temp_dir().join(scratch::folder_name()))),
            model,
            spent: Mutex::default(),
            is_offline: false,
            near_hosts: Vec::new(),
            proxies: Vec::new(),
            output: Arc::default(),
            secrets: Secrets::default(),
            nature,
            listener: Mutex::default(),
        }
    }

    /// The site of a sub-agent: the same folders, commands and copies, other tools, a mode of its
    /// own, perhaps fewer calls, and nothing that it has seen yet.
    pub(crate) fn for_agent(&self, tools: Registry, mode: Mode, scope: Option<Scope>) -> Site {
        let lock =
            |cwd: &Mutex<PathBuf>| cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).anew();
        Site {
            tools,
            scopes: self.scopes.iter().cloned().chain(scope).collect(),
            mode: Mutex::new(mode),
            next_mode: Mutex::default(),
            guard: self.guard.clone(),
            outside: Mutex::default(),
            backgrounded: Mutex::default(),
            hampered: Mutex::default(),
            pins: Mutex::default(),
            root: self.root.clone(),
            folders: self.folders.clone(),
            cwd: Mutex::new(lock(&self.cwd)),
            home: self.home.clone(),
            folder: self.folder.clone(),
            is_own_folder: self.is_own_folder,
            seen: Freshness::default(),
            backups: self.backups.clone(),
            images: self.images.clone(),
            permission_files: self.permission_files.clone(),
            added: Mutex::new(self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            todos: Mutex::default(),
            todo_file: None,
            trusted_repository: self.trusted_repository.clone(),
            given: Mutex::new(given),
            shells: self.shells.clone(),
            model: self.model.clone(),
            spent: Mutex::default(),
            is_offline: self.is_offline,
            near_hosts: self.near_hosts.clone(),
            proxies: self.proxies.clone(),
            output: Arc::default(),
            secrets: self.secrets.clone(),
            nature: self.nature.clone(),
            listener: Mutex::default(),
        }
    }

    /// A new id for a command.
    pub(crate) fn task_id(&self) -> String {
        let id = self.nature.id();
        format!("b{}", &id[id.len().saturating_sub(6)..])
    }

    /// Changes to a folder if it is one of the session's; else back to where the session began.
    /// Returns whether it is.
    pub(crate) fn enter(&self, folder: &Path) -> bool {
        let mut roots = self.all_folders().into_iter().map(|root| permit::real(&root));
        let is_own = roots.any(|root| folder.starts_with(root));
        let to = if is_own { folder } else { &self.root };
        to.clone_into(&mut self.cwd.lock().unwrap_or_else(PoisonError::into_inner));
        is_own
    }

    /// Restores the files that a session watched before it was resumed. A record may name any file:
    /// only those in the session's folders are watched, wherever links lead.
    pub fn watch(&self, files: impl Iterator<Item = (PathBuf, Backup)>) {
        let is_own = |path: &Path| permit::below(&permit::real(path), self).is_some();
        self.backups.restore(files.filter(|(path, _)| is_own(path) && is_own(&plain(path))));
    }

    /// All folders that the session may work in, the project's first.
    pub(crate) fn all_folders(&self) -> Vec<PathBuf> {
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.root).chain(&self.folders).chain(&*added).cloned().collect()
    }

    /// Counts the tokens that a tool has used.
    pub(crate) fn spend(&self, model: &str, usage: Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent.entry(model.to_owned()).or_default() += usage;
    }

    pub(crate) fn tell(&self, call: &str, progress: &Progress, number: u64) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            listener(call, progress.clone(), number);
        }
    }

    /// The path that a call names, relative to the shell's working directory, without `.` and `..`.
    pub(crate) fn path(&self, named: &str) -> PathBuf {
        let cwd = self.cwd.lock().unwrap_or_else(PoisonError::into_inner);
        let path = match named.strip_prefix("~/").zip(std::env::home_dir()) {
            Some((rest, home)) => home.join(rest),
            None => cwd.join(named),
        };
        plain(&path)
    }

    /// Where a path led when the call was judged. If a link leads elsewhere by now, the call has no
    /// permission for that.
    pub(crate) fn pinned(&self, call: &Call, path: &Path) -> PathBuf {
        let pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = pins.get(&call.id).and_then(|pins| pins.paths.get(path)).cloned();
        pinned.unwrap_or_else(|| permit::real(path))
    }

    /// What a search leaves out, because rules keep it from being read.
    pub(crate) fn closed(&self, call: &Call) -> Vec<Pattern> {
        let pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        pins.get(&call.id).map(|pins| pins.closed.clone()).unwrap_or_default()
    }

    /// The path as it is shown: relative to the project's folder if it is inside it.
    pub(crate) fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// A value as JSON.
pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A text parameter that the schema requires.
pub(crate) fn text<'a>(call: &'a Call, name: &str) -> &'a str {
    call.input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An optional whole number. Models also write `5.0`.
pub(crate) fn number(call: &Call, name: &str) -> Option<usize> {
    let number = call.input.get(name).filter(|value| value.is_number()).map(Value::to_string)?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
