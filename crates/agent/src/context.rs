//! What the model is told about where it works: instruction files, the date, the platform, the
//! state of the repository.
//!
//! Instructions and date stand in a reminder before the first prompt, the rest at the end of the
//! system prompt, as the original has them. Invariants: a session that goes on says the same as
//! before, so that what the API keeps of it still helps; what has changed is told behind it. A
//! project's instructions are regular files inside the folder that they are for: a link that leads
//! out of it could send any file of the user's to the API. Nothing is executed in a folder that the
//! user does not trust.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::git;
use crate::trust::Trust;

/// What the model is told beside the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Before the first prompt.
    pub reminder: String,
    /// At the end of the system prompt.
    pub surroundings: String,
    /// What the reminder would have said when the session went on last, if that was something else.
    #[serde(default)]
    pub latest: Option<String>,
    /// The same of the surroundings.
    #[serde(default)]
    pub latest_surroundings: Option<String>,
}

/// Longer instructions are cut: they are sent with every request.
const LONGEST: usize = 1 << 18;
/// Where the reminder comes to what changes by itself.
const DATE: &str = "# currentDate\n";
/// Where the surroundings come to what is told of the beginning only.
const STATUS: &str = "\n\n# gitStatus\n";
/// How deep files may import files.
const DEEPEST: usize = 5;

/// Where instructions are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The client's config folder.
    pub home: &'a Path,
    /// The user's home folder.
    pub user: Option<&'a Path>,
    /// The session's folder.
    pub cwd: &'a Path,
    /// Whether the user trusts the repository that it lies in.
    pub repository: Trust,
}

/// What was not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Instruction files that lead out of the folder that they are for.
    pub instructions: Vec<PathBuf>,
    /// Whether git could have said more about the repository.
    pub is_repository: bool,
}

/// The folder of the repository that a folder lies in.
pub fn repository(cwd: &Path) -> Option<&Path> {
    git::root(cwd)
}

impl Context {
    /// Looks around. Gives what was left out, too.
    pub fn look(places: Places<'_>, date: &str, model: &str) -> (Context, LeftOut) {
        let mut reminder = String::new();
        let (files, outside) = instructions(places);
        if !files.is_empty() {
            reminder.push_str(
                "# claudeMd\nThe user's and the project's instructions. Follow them.\n\n",
            );
            for (path, kind, text) in &files {
                let path = path.display();
                let _ = write!(reminder, "Contents of {path} ({kind}):\n\n{text}\n\n");
            }
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
        (Context { reminder: tagged(&reminder), surroundings, ..Context::default() }, left_out)
    }

    /// Takes in what is the case now. Gives what the model has to be told about it.
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

/// What the surroundings say of now.
fn facts(surroundings: &str) -> Vec<&str> {
    surroundings.split(STATUS).next().unwrap_or_default().lines().collect()
}

/// A text that is not the user's own.
pub(crate) fn tagged(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// An instruction file: where it stands, whose it is, what it says.
type Instruction = (PathBuf, &'static str, String);

/// Instruction files in the order in which they count, each once; and those that lead out of their
/// folder.
fn instructions(places: Places<'_>) -> (Vec<Instruction>, Vec<PathBuf>) {
    let mut found = Found::within(places.home);
    found.user = places.user.map(Path::to_owned);
    found.file(&places.home.join("CLAUDE.md"), USERS, 0);
    let above: Vec<&Path> = places.cwd.ancestors().collect();
    for folder in above.iter().rev() {
        // The folder of the user's own instructions is not a project's.
        let is_user = places.user == Some(*folder) && *folder != places.cwd;
        if !is_user {
            found.root = real(folder);
            let before = found.files.len();
            found.file(&folder.join("CLAUDE.md"), PROJECTS, 0);
            found.file(&folder.join(".claude/CLAUDE.md"), PROJECTS, 0);
            found.rules(&folder.join(".claude/rules"));
            // Others read this name; where there are both, the first speaks.
            if found.files.len() == before {
                found.file(&folder.join("AGENTS.md"), PROJECTS, 0);
            }
            found.file(&folder.join("CLAUDE.local.md"), LOCAL, 0);
        }
    }
    (found.files, found.outside)
}

const USERS: &str = "the user's instructions for all projects";
const PROJECTS: &str = "the project's instructions";
const LOCAL: &str = "the user's instructions for this project";

struct Found {
    files: Vec<Instruction>,
    seen: HashSet<PathBuf>,
    /// The folder that the instructions are for, with its links followed: only what lies in it is
    /// read.
    root: PathBuf,
    /// What `~` is.
    user: Option<PathBuf>,
    /// What would be read if it did not lead out of that folder.
    outside: Vec<PathBuf>,
}

impl Found {
    fn within(root: &Path) -> Found {
        let (files, seen, outside) = Default::default();
        Found { files, seen, root: real(root), user: None, outside }
    }

    /// Rules of a project, by their names; those for some files only are not for the beginning.
    fn rules(&mut self, folder: &Path) {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
        files.sort();
        for file in files {
            self.read(&file, PROJECTS, 0, |text| {
                let mut lines = text.lines();
                lines.next() == Some("---")
                    && lines
                        .take_while(|line| *line != "---")
                        .any(|line| line.starts_with("paths:"))
            });
        }
    }

    fn file(&mut self, path: &Path, kind: &'static str, depth: usize) {
        self.read(path, kind, depth, |_| false);
    }

    fn read(
        &mut self,
        path: &Path,
        kind: &'static str,
        depth: usize,
        is_left_out: impl Fn(&str) -> bool,
    ) {
        let Ok(real) = path.canonicalize() else { return };
        // What users link in their own home is theirs.
        if kind != USERS && !real.starts_with(&self.root) {
            self.outside.push(path.to_owned());
            return;
        }
        if !real.is_file() || !self.seen.insert(real.clone()) {
            return;
        }
        // By the path that was looked at: a link may lead elsewhere by now.
        let Ok(text) = text(&real) else { return };
        if is_left_out(&text) {
            return;
        }
        let imports = imports(&text);
        if !text.trim().is_empty() {
            self.files.push((path.to_owned(), kind, text.trim_end().to_owned()));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        for name in imports.iter().filter(|_| depth < DEEPEST) {
            let named = match (name.strip_prefix("~/"), &self.user) {
                (Some(rest), Some(user)) => user.join(rest),
                _ => folder.join(name),
            };
            // Nobody was asked whether files from elsewhere may be read. What stands beside the
            // user's own instructions is the user's, wherever it leads.
            let is_beside = kind == USERS
                && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
                && !name.starts_with("~/");
            if is_beside || named.canonicalize().is_ok_and(|found| found.starts_with(&self.root)) {
                self.file(&named, kind, depth + 1);
            }
        }
    }
}

/// A folder with its links followed, if it is there.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The text of instructions; of long ones, the first lines.
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

/// The instructions of the folders between the project's and a file, each told once.
pub(crate) fn nested(
    path: &Path,
    root: &Path,
    told_folders: &Mutex<HashSet<PathBuf>>,
) -> Option<String> {
    let below = path.parent()?.strip_prefix(root).ok()?;
    let mut told_folders = told_folders.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut folder, mut text) = (root.to_owned(), String::new());
    for part in below {
        folder.push(part);
        if !told_folders.insert(folder.clone()) {
            continue;
        }
        let mut found = Found::within(root);
        found.file(&folder.join("CLAUDE.md"), PROJECTS, 0);
        if found.files.is_empty() {
            found.file(&folder.join("AGENTS.md"), PROJECTS, 0);
        }
        for (path, kind, content) in &found.files {
            let _ = write!(text, "Contents of {} ({kind}):\n\n{content}\n\n", path.display());
        }
    }
    let text = text.trim_end();
    (!text.is_empty()).then(|| format!("\n\n{}", tagged(text)))
}

/// The files that a text names with `@`, outside of code.
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
