//! What a caller wants of a session: plain values, none of which has been looked at yet.
//!
//! Invariant: making a configuration touches nothing, except that the folder where a session works
//! is replaced by its real path.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transcript::conversation::place::slug;

use super::{PermitWishes, SandboxWishes, SettingsWishes};
use crate::ambient::Ambient;
use crate::drive::Departure;
use crate::host::Audience;
use crate::images::ImageWishes;
use crate::prompt;

/// The folders of a session.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The client's config folder.
    pub home: PathBuf,
    /// The user's home folder.
    pub user: Option<PathBuf>,
    /// Where the session works: a real path.
    pub cwd: PathBuf,
    /// The folder of the project's sessions.
    pub project: PathBuf,
}

impl Folders {
    /// The folders of a session that works in `cwd` and is kept in `home`.
    pub fn at(home: PathBuf, user: Option<PathBuf>, cwd: &Path) -> Folders {
        let cwd = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        let project = home.join("projects").join(slug(&cwd.to_string_lossy()));
        Folders { home, user, cwd, project }
    }

    /// The real path of the user's home folder.
    pub(super) fn real_user(&self) -> Option<PathBuf> {
        self.user.as_ref().map(|user| fs::canonicalize(user).unwrap_or_else(|_| user.clone()))
    }
}

/// What answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// The API, with the key, the address and the limits that variables name.
    Api,
    /// This script.
    Script(String),
    /// The script in this file.
    ScriptFile(PathBuf),
}

/// Where a session that is resumed is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continues {
    /// The session itself.
    Itself,
    /// A new session with the same records; the old one stays as it is.
    Fork,
}

/// Whether anything of a session remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The transcript, copies of changed files, what tools put aside.
    Kept,
    /// Nothing.
    Discarded,
}

/// Whether commands and skills of the user and the project count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlashWish {
    /// They do.
    Read,
    /// They do not.
    Ignored,
}

/// How large the window counts as, after which a conversation is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactWindow {
    /// As large as that of the model.
    Models,
    /// So many tokens, if that is less.
    Tokens(u64),
}

/// What the model of a resumed session is told about where it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextWish {
    /// What it was told when the session began, so that the API's cache still helps.
    Kept,
    /// What is so now.
    Fresh,
}

/// What a session is to be.
pub struct SessionConfig {
    /// Its folders.
    pub folders: Folders,
    /// The list of trusted folders, if there can be one. The file need not exist.
    pub trust_list: Option<PathBuf>,
    /// The file of the key that seals what is kept beside sessions, if there can be one. It is
    /// created when it is first needed.
    pub seal_file: Option<PathBuf>,
    /// Settings beside those in files.
    pub settings: SettingsWishes,
    /// What the user wants to allow and to forbid.
    pub permissions: PermitWishes,
    /// What the user wants of the sandbox.
    pub sandbox: SandboxWishes,
    /// Where images of its folders are kept, so that what it does can be undone; None for none.
    pub images: Option<ImageWishes>,
    /// The name of the model; without one, it is that of variables, of settings, of the session
    /// that is resumed, or the usual one.
    pub model: Option<String>,
    /// What answers requests.
    pub source: ModelSource,
    /// Changes to the system prompt.
    pub prompt: prompt::Wishes,
    /// Where a session that is resumed is written to.
    pub continues: Continues,
    /// Whether anything remains.
    pub keeping: Keeping,
    /// The id that the user wants for a new session.
    pub given_id: Option<String>,
    /// The id of a new session otherwise.
    pub new_id: String,
    /// A title for the session.
    pub title: Option<String>,
    /// Why the user left another session for this one.
    pub after: Option<Departure>,
    /// At most this many requests per prompt.
    pub max_turns: Option<u32>,
    /// What the run may cost, in dollars.
    pub budget: Option<f64>,
    /// How many tokens of an answer may be thinking; None for what variables say.
    pub thinking: Option<u64>,
    /// How much the model is to think and write: `low`, `medium`, `high`, `xhigh` or `max`.
    pub effort: Option<String>,
    /// Names of the API's features that requests ask for, in addition.
    pub betas: Vec<String>,
    /// The models that go on, in this order, if the one before is overloaded.
    pub fallback: Vec<String>,
    /// How large the window counts as, after which the conversation is summarised; None for what
    /// variables and settings say.
    pub compact_window: Option<CompactWindow>,
    /// Whether the model is told again what it was told when a resumed session began.
    pub context: ContextWish,
    /// The JSON Schema of what each turn has to return.
    pub schema: Option<serde_json::Value>,
    /// The id of the record that a resumed session goes on from; None for the last.
    pub resume_at: Option<String>,
    /// The only tools that there are; None for all.
    pub tools: Option<Vec<String>>,
    /// The sub-agent whose prompt, tools and model the main agent has.
    pub agent: Option<String>,
    /// Whether commands and skills of the user and the project count.
    pub slashes: SlashWish,
    /// Sub-agents beside those in files: `{NAME: {description, prompt, tools, model, …}}`.
    pub agents: Option<serde_json::Value>,
    /// Who follows the session.
    pub audience: Audience,
    /// Time, ids and random numbers.
    pub nature: Arc<dyn Ambient>,
}

impl std::fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionConfig").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl SessionConfig {
    /// A new session in these folders that is kept, talks to the API, trusts nothing beside what
    /// the caller adds, and has this id.
    pub fn new(folders: Folders, new_id: String, nature: Arc<dyn Ambient>) -> SessionConfig {
        SessionConfig {
            folders,
            trust_list: None,
            seal_file: None,
            settings: SettingsWishes::default(),
            permissions: PermitWishes::default(),
            sandbox: SandboxWishes::default(),
            images: None,
            model: None,
            source: ModelSource::Api,
            prompt: prompt::Wishes::default(),
            continues: Continues::Itself,
            keeping: Keeping::Kept,
            given_id: None,
            new_id,
            title: None,
            after: None,
            max_turns: None,
            budget: None,
            thinking: None,
            effort: None,
            betas: Vec::new(),
            fallback: Vec::new(),
            compact_window: None,
            context: ContextWish::Kept,
            schema: None,
            resume_at: None,
            tools: None,
            agent: None,
            slashes: SlashWish::Read,
            agents: None,
            audience: Audience::default(),
            nature,
        }
    }
}
