//! What the model is told about where it works: instruction files, the date, the platform, the
//! state of the repository.
//!
//! Instructions and date are in a reminder before the first prompt, the rest is at the end of the
//! system prompt, as in Claude Code. Invariants: a resumed session says the same as before, so that
//! the API's cache still helps; what has changed is added after it. A project's instructions are
//! regular files inside the folder that they are for: a link that leads out of it could send any
//! file of the user to the API. Nothing is executed in a folder that the user does not trust.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::frontmatter::{self, items, markdown};
use crate::git;
use crate::trust::Trust;

/// What the model is told in addition to the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The text before the first prompt.
    pub reminder: String,
    /// The text at the end of the system prompt.
    pub surroundings: String,
    /// The reminder as of the last resume, if it was different.
    #[serde(default)]
    pub latest: Option<String>,
    /// The surroundings as of the last resume, if they were different.
    #[serde(default)]
    pub latest_surroundings: Option<String>,
    /// The instruction files that were read now.
    #[serde(skip)]
    pub loaded: Vec<Loaded>,
}

/// An instruction file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its path.
    pub path: PathBuf,
    /// Whose it is: `User`, `Project` or `Local`.
    pub memory: &'static str,
    /// The file that imports it.
    pub parent: Option<PathBuf>,
}

/// An instruction file that came with a file that the model read or wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// The instruction file.
    pub(crate) loaded: Loaded,
    /// The other file.
    pub(crate) with: PathBuf,
    /// The patterns of files that it is for, if it is for certain files.
    pub(crate) globs: Vec<String>,
}

/// What the model has got with files.
#[derive(Debug, Default)]
pub struct GivenInstructions {
    /// The folders whose instructions it has got, and the rules.
    known: HashSet<PathBuf>,
    /// What hooks have not heard of.
    late: Vec<Late>,
    /// The folder of the user's rules.
    rules: Option<PathBuf>,
}

impl GivenInstructions {
    /// Nothing yet; the user's rules are in this folder.
    pub fn with_rules(folder: PathBuf) -> GivenInstructions {
        GivenInstructions { rules: Some(folder), ..GivenInstructions::default() }
    }

    /// Nothing yet, of the same rules.
    pub(crate) fn anew(&self) -> GivenInstructions {
        GivenInstructions { rules: self.rules.clone(), ..GivenInstructions::default() }
    }

    /// What hooks have not heard of; they have from now on.
    pub(crate) fn take(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }
}

/// The most bytes of an instruction file. Longer ones are cut: they are sent with every request.
const LONGEST: usize = 1 << 18;
/// The heading in the reminder before the part that changes by itself.
const DATE: &str = "# currentDate\n";
/// The heading in the surroundings before the part that only describes the beginning.
const STATUS: &str = "\n\n# gitStatus\n";
/// How deep imports of files may be nested.
const DEEPEST: usize = 5;

/// Where instructions are searched for.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The client's config folder.
    pub home: &'a Path,
    /// The user's home folder.
    pub user: Option<&'a Path>,
    /// The session's working directory.
    pub cwd: &'a Path,
    /// Whether the user trusts the repository that contains it.
    pub repository: Trust,
}

/// What was not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Instruction files that lead out of the folder that they are for.
    pub instructions: Vec<PathBuf>,
    /// Whether git could have reported more about the repository.
    pub is_repository: bool,
}

/// The top folder of the repository that contains a folder.
pub fn repository(cwd: &Path) -> Option<&Path> {
    git::root(cwd)
}

impl Context {
    /// Collects the context. Also returns what was left out.
    pub fn look(places: Places<'_>, date: &str, model: &str) -> (Context, LeftOut) {
        let mut reminder = String::new();
        let ContextFile { files, outside, loaded, .. } = instructions(places);
        if !files.is_empty() {
            reminder.push_str(
                "# claudeMd\nThe user's and the project's instructions. Follow them.\n\n",
            );
            write_all(&files, &mut reminder);
        }
        let _ = write!(reminder, "{DATE}Today's date is {date}.");
        let is_repository = git::root(places.cwd).is_some();
        let is_trusted = places.repository == Trust::Trusted;
        let mut surroundings = format!(
            "Working directory: {}\nGit repository: {}\nPlatform: {}\nModel: {model}",
            places.cwd.display(),
            if is_repository { "yes" } else { "no" },
            std::env::consts::OS,
        );
        if is_trusted && let Some(status) = git::status(places.cwd) {
            let _ = write!(surroundings, "{STATUS}As the session began:\n{status}");
        }
        let left_out =
            LeftOut { instructions: outside, is_repository: is_repository && !is_trusted };
        let reminder = tagged(&reminder);
        (Context { reminder, surroundings, loaded, ..Context::default() }, left_out)
    }

    /// Updates the context to the current state. Returns what the model has to be told about it.
    pub fn renew(&mut self, now: &Context) -> Option<String> {
        let before = self.latest.as_ref().unwrap_or(&self.reminder);
        let mut news = Vec::new();
        if *before != now.reminder {
            news.push(only_date(before, &now.reminder).unwrap_or_else(|| now.reminder.clone()));
            self.latest = Some(now.reminder.clone());
        }
        let before = self.latest_surroundings.as_ref().unwrap_or(&self.surroundings);
        let (known, mut facts) = (facts(before), facts(&now.surroundings));
        facts.retain(|fact| !known.contains(fact));
        if !facts.is_empty() {
            news.push(tagged(&format!(
                "What has changed since the session began:\n{}",
                facts.join("\n")
            )));
            self.latest_surroundings = Some(now.surroundings.clone());
        }
        (!news.is_empty()).then(|| news.join("\n"))
    }
}

/// The new date, if nothing else is new.
fn only_date(before: &str, now: &str) -> Option<String> {
    let (before, _) = before.rsplit_once(DATE)?;
    let (now, date) = now.rsplit_once(DATE)?;
    let date = date.lines().next()?;
    (before == now).then(|| tagged(&format!("{DATE}{date}")))
}

/// The part of the surroundings that describes the present.
fn facts(surroundings: &str) -> Vec<&str> {
    surroundings.split(STATUS).next().unwrap_or_default().lines().collect()
}

/// Marks a text that is not the user's own.
pub(crate) fn tagged(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// An instruction file: its path, whose it is, and its text.
type Instruction = (PathBuf, &'static str, String);

/// The instruction files in order of precedence, each once; and those that lead out of their
/// folder.
fn instructions(places: Places<'_>) -> ContextFile {
    let mut found = ContextFile::within(places.home);
    found.user = places.user.map(Path::to_owned);
    found.file(&places.home.join("CLAUDE.md"), USERS, TOP);
    found.rules(&places.home.join("rules"), USERS);
    let above: Vec<&Path> = places.cwd.ancestors().collect();
    for folder in above.iter().rev() {
        // The folder of the user's own instructions is not a project.
        let is_user = places.user == Some(*folder) && *folder != places.cwd;
        if !is_user {
            found.root = real(folder);
            let before = found.files.len();
            found.file(&folder.join("CLAUDE.md"), PROJECTS, TOP);
            found.file(&folder.join(".claude/CLAUDE.md"), PROJECTS, TOP);
            // Other agents read this name. It is read only if the project has none of the files
            // above.
            if found.files.len() == before {
                found.file(&folder.join("AGENTS.md"), PROJECTS, TOP);
            }
            found.rules(&folder.join(".claude/rules"), PROJECTS);
            found.file(&folder.join("CLAUDE.local.md"), LOCAL, TOP);
        }
    }
    found
}

const USERS: &str = "the user's instructions for all projects";
const PROJECTS: &str = "the project's instructions";
const LOCAL: &str = "the user's instructions for this project";

/// How deep a file is among imports, and which file imports it.
type Import<'a> = (usize, Option<&'a Path>);
/// A file that nothing imports.
const TOP: Import<'static> = (0, None);

struct ContextFile {
    files: Vec<Instruction>,
    loaded: Vec<Loaded>,
    seen: HashSet<PathBuf>,
    /// The folder that the instructions are for, with its links followed: only files inside it are
    /// read.
    root: PathBuf,
    /// The folder that `~` means.
    user: Option<PathBuf>,
    /// Files that were not read because they lead out of that folder.
    outside: Vec<PathBuf>,
}

impl ContextFile {
    fn within(root: &Path) -> ContextFile {
        let (files, loaded, seen, outside) = Default::default();
        ContextFile { files, loaded, seen, root: real(root), user: None, outside }
    }

    /// Reads rules, in the order of their names. Those for certain files only are not part of the
    /// beginning.
    fn rules(&mut self, folder: &Path, kind: &'static str) {
        for file in markdown(folder) {
            self.read(&file, kind, TOP, |text| {
                let (members, body) = frontmatter::read(text);
                patterns(&members).is_empty().then(|| body.to_owned())
            });
        }
    }

    fn file(&mut self, path: &Path, kind: &'static str, import: Import<'_>) {
        self.read(path, kind, import, |text| Some(text.to_owned()));
    }

    fn read(
        &mut self,
        path: &Path,
        kind: &'static str,
        (depth, parent): Import<'_>,
        part: impl FnOnce(&str) -> Option<String>,
    ) {
        let Ok(real) = path.canonicalize() else { return };
        // Links in the user's own home are the user's decision.
        if kind != USERS && !real.starts_with(&self.root) {
            self.outside.push(path.to_owned());
            return;
        }
        if !real.is_file() || !self.seen.insert(real.clone()) {
            return;
        }
        // By the resolved path that was checked: the link may lead elsewhere by now.
        let Some(text) = text(&real).ok().and_then(|text| part(&text)) else { return };
        let imports = imports(&text);
        if !text.trim().is_empty() {
            self.files.push((path.to_owned(), kind, text.trim_end().to_owned()));
            self.loaded.push(Loaded {
                path: path.to_owned(),
                memory: match kind {
                    USERS => "User",
                    LOCAL => "Local",
                    _ => "Project",
                },
                parent: parent.map(Path::to_owned),
            });
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        for name in imports.iter().filter(|_| depth < DEEPEST) {
            let named = match (name.strip_prefix("~/"), &self.user) {
                (Some(rest), Some(user)) => user.join(rest),
                _ => folder.join(name),
            };
            // The user was not asked whether files from elsewhere may be read. Files next to the
            // user's own instructions are the user's, wherever they lead.
            let is_beside = kind == USERS
                && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
                && !name.starts_with("~/");
            if is_beside || named.canonicalize().is_ok_and(|found| found.starts_with(&self.root)) {
                self.file(&named, kind, (depth + 1, Some(path)));
            }
        }
    }
}

/// Writes instructions, each below its name.
fn write_all(files: &[Instruction], text: &mut String) {
    for (path, kind, content) in files {
        let _ = write!(text, "Contents of {} ({kind}):\n\n{content}\n\n", path.display());
    }
}

/// The folder with its links followed, if it exists.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The text of an instruction file; of a long one, the first lines.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    files::open(path)?.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= LONGEST {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let end = bytes[..LONGEST].iter().rposition(|&byte| byte == b'\n').unwrap_or(LONGEST);
    let first = String::from_utf8_lossy(&bytes[..end]);
    Ok(format!("{first}\n\n[the rest is left out: more than {} KB]", LONGEST >> 10))
}

/// The files that rules are for, as patterns; none if they are for all.
fn patterns(members: &Map<String, Value>) -> Vec<String> {
    match members.get("paths") {
        Some(Value::String(text)) => items(text).map(str::to_owned).collect(),
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a pattern is about a file of the project. One that is not understood is about none.
fn is_meant(patterns: &[String], file: &Path) -> bool {
    patterns.iter().any(|pattern| {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(file))
    })
}

/// The instructions of the folders between the project's folder and a file, and the user's and the
/// project's rules for such files, each given once.
pub(crate) fn nested(path: &Path, root: &Path, given: &Mutex<GivenInstructions>) -> Option<String> {
    let file = path.strip_prefix(root).ok()?;
    let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut folder, mut text) = (root.to_owned(), String::new());
    let mut give = |given: &mut GivenInstructions, found: ContextFile, globs: &[String]| {
        write_all(&found.files, &mut text);
        let late = |loaded| Late { loaded, with: path.to_owned(), globs: globs.to_vec() };
        given.late.extend(found.loaded.into_iter().map(late));
    };
    for part in file.parent()? {
        folder.push(part);
        if !given.known.insert(folder.clone()) {
            continue;
        }
        let mut found = ContextFile::within(root);
        found.file(&folder.join("CLAUDE.md"), PROJECTS, TOP);
        found.file(&folder.join(".claude/CLAUDE.md"), PROJECTS, TOP);
        found.file(&folder.join("CLAUDE.local.md"), LOCAL, TOP);
        if found.files.is_empty() {
            found.file(&folder.join("AGENTS.md"), PROJECTS, TOP);
        }
        give(&mut given, found, &[]);
    }
    let users = given.rules.iter().flat_map(|folder| markdown(folder)).map(|rule| (rule, USERS));
    let rules: Vec<_> = users.collect();
    let projects = markdown(&root.join(".claude/rules")).into_iter().map(|rule| (rule, PROJECTS));
    for (rule, kind) in rules.into_iter().chain(projects) {
        if given.known.contains(&rule) {
            continue;
        }
        let (mut found, mut globs) = (ContextFile::within(root), Vec::new());
        found.read(&rule, kind, TOP, |text| {
            let (members, body) = frontmatter::read(text);
            globs = patterns(&members);
            is_meant(&globs, file).then(|| body.to_owned())
        });
        if !found.files.is_empty() {
            give(&mut given, found, &globs);
            given.known.insert(rule);
        }
    }
    let text = text.trim_end();
    (!text.is_empty()).then(|| format!("\n\n{}", tagged(text)))
}

/// The files that a text imports with `@`, outside of code.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        for (at, part) in line.split('`').enumerate() {
            if at % 2 == 1 {
                continue;
            }
            let words = part.split_whitespace().filter_map(|word| word.strip_prefix('@'));
            found.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
