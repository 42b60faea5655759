//! The last step: makes the parts of a session, and puts them together.
//!
//! Invariants: of a session that is not kept, nothing exists afterwards, including what tools put
//! aside; a session that is resumed starts with the bytes that it started with before.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use super::error::{FileError, unwritable};
use super::{
    CompactWindow, Folders, GuardError, Keeping, ModelSource, Notice, Parts, Prepared, Session,
    SessionConfig, SessionPlace, SlashWish, endpoint, kept,
};
use crate::api::retry::Retry;
use crate::api::script::NoScript;
use crate::backup::Backups;
use crate::compact::CompactAt;
use crate::context::{Context, GivenInstructions, tagged};
use crate::drive::Note;
use crate::guard::{self, Guard, SandboxWish};
use crate::images::{ImageWishes, Images};
use crate::log::Log;
use crate::model;
use crate::permission_file::PermissionFile;
use crate::permit::real;
use crate::prompt::{self, Surroundings, Wishes};
use crate::resume::{self, Resumed};
use crate::scratch;
use crate::settings::{Environment, Hooks, Settings, Source};
use crate::shell::Shells;
use crate::slash::{Author, SlashBook};
use crate::subagent::{AgentKind, Kinds, narrower};
use crate::trust::Trust;
use crate::variables::UserPath;

/// Why a session cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The script, the key of the seal, or a folder for what is not kept.
    #[error(transparent)]
    File(#[from] FileError),
    /// Commands cannot be held.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// There is no such agent.
    #[error("there is no agent `{name}`; there are: {}", all.join(", "))]
    NoAgent {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        all: Vec<String>,
    },
    /// The script cannot be played.
    #[error("cannot play the script `{}`: {why}", path.display())]
    Script {
        /// Its path; empty if it is in no file.
        path: PathBuf,
        /// What is wrong with it.
        why: NoScript,
    },
}

impl Prepared {
    /// The sub-agents that there are. Those of a folder that is not trusted are left out.
    fn kinds(&self, notify: &mut dyn FnMut(Notice)) -> Kinds {
        let mut kinds = Kinds::built_in();
        if self.runs_no_hooks() {
            kinds = kinds.without_hooks();
        }
        let folders = &self.config.folders;
        let settings = &self.config.settings;
        let mut left = Vec::new();
        if settings.reads(Source::User) {
            left.extend(kinds.read(&folders.home.join("agents"), Source::User));
        }
        let project = folders.cwd.join(".claude/agents");
        let is_read = settings.reads(Source::Project);
        if is_read && self.standing.folder == Trust::Trusted {
            left.extend(kinds.read(&project, Source::Project));
        } else if is_read && project.is_dir() {
            let project = project.display();
            left.push(format!("`{project}`: the folder is not trusted, so its agents do not run"));
        }
        if let Some(given) = &self.config.agents {
            left.extend(kinds.add_json(given));
        }
        for text in left {
            notify(Notice::Settings(text));
        }
        kinds
    }

    /// The definition of the main agent, if it has one.
    fn main_kind(&self, kinds: &Kinds) -> Result<Option<AgentKind>, StartError> {
        let Some(name) = &self.config.agent else { return Ok(None) };
        let no_agent = || StartError::NoAgent { name: name.clone(), all: kinds.names() };
        kinds.find(name).cloned().map(Some).ok_or_else(no_agent)
    }

    /// Commands and skills. Those of a folder that is not trusted are left out.
    fn slashes(&self, notify: &mut dyn FnMut(Notice)) -> SlashBook {
        let mut book = SlashBook::default();
        if self.config.slashes == SlashWish::Ignored {
            return book;
        }
        if self.runs_no_hooks() {
            book = book.without_hooks();
        }
        let mut left = Vec::new();
        let folders = &self.config.folders;
        let settings = &self.config.settings;
        if settings.reads(Source::User) {
            left.extend(book.read(&folders.home, Author::User));
        }
        let project = folders.cwd.join(".claude");
        let is_read = settings.reads(Source::Project) && project != folders.home;
        if self.standing.folder == Trust::Trusted && is_read {
            left.extend(book.read(&project, Author::Project));
        }
        for text in left {
            notify(Notice::Settings(text));
        }
        book
    }

    /// Whether no hooks run but an administrator's.
    fn runs_no_hooks(&self) -> bool {
        self.settings.only_managed_hooks || self.config.settings.hooks == Hooks::Ignored
    }

    /// Puts the session together. `notes` is where its threads report to.
    pub fn start(
        self,
        place: SessionPlace,
        environment: &dyn Environment,
        notes: Sender<Note>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Session, StartError> {
        let SessionPlace { id, file, old, mut resumed } = place;
        // First, so that the kernel answers while the rest is made.
        let mut shells = Shells::new(std::env::temp_dir().join(scratch::folder_name()));
        let probe = self.probe(&shells);
        shells.env = self.settings.env.clone().into_iter().collect();
        shells.path = user_path(self.config.folders.user.as_deref(), environment);
        let is_kept = self.config.keeping == Keeping::Kept;
        let scratch = (!is_kept)
            .then(tempfile::tempdir)
            .transpose()
            .map_err(unwritable(&std::env::temp_dir()))?;
        let session_folder = file.with_extension("");
        let folder = scratch.as_ref().map_or(session_folder, |scratch| scratch.path().to_owned());
        let by_session = || resumed.model.take().unwrap_or_else(|| model::named(None));
        let (kinds, slashes) = (self.kinds(notify), self.slashes(notify));
        let main_kind = self.main_kind(&kinds)?;
        let of_kind = main_kind.as_ref().and_then(|kind| kind.model.as_deref());
        let of_kind = of_kind.map(|name| model::named(Some(name)));
        let model_name = self.chosen.clone().or(of_kind).unwrap_or_else(by_session);
        let model = endpoint::model(&self, environment, (&id, resumed.messages.len()))?;
        let old_folder = old.map(|old| old.with_extension(""));
        let key = kept::key(&self)?;
        let learned =
            kept::learn(&self, (&folder, old_folder.as_deref()), &model_name, key.as_deref());
        let key_source = endpoint::key_source(&self, environment);
        let folders = self.config.permissions.folders.iter().chain(&self.settings.folders);
        let folders: Vec<PathBuf> =
            folders.map(|folder| real(&self.config.folders.cwd.join(folder))).collect();
        let all: Vec<PathBuf> =
            std::iter::once(&self.config.folders.cwd).chain(&folders).cloned().collect();
        let guard = self.guard(&all, probe, environment)?;
        let trusted_repository = self.trusted_repository();
        let Prepared { config, settings, permit, .. } = self;
        notify(Notice::LeftOut { settings: settings.left_out.clone(), context: learned.left_out });
        let variable = |name: &str| settings.variable(environment, name);
        let (cwd, home) = (&config.folders.cwd, &config.folders.home);
        let mut parts = Parts::new((model, &model_name), cwd, &id, permit);
        ask_as_wished(&mut parts, &config, &settings, environment, main_kind.as_ref());
        let asking = &mut parts.asking;
        parts.prompt = prompt_of(&config, main_kind.as_ref(), &learned.context.surroundings);
        asking.system = prompt::system(&parts.prompt, &learned.context.surroundings);
        parts.instructions = learned.loaded;
        asking.reminder = reminder_of(&parts.prompt, &learned.context);
        asking.surroundings = learned.context.surroundings;
        asking.news = with_ended(learned.news, &resumed, notify);
        asking.kept = learned.kept;
        asking.is_cached = variable("DISABLE_PROMPT_CACHING").is_none();
        let site = &mut parts.site;
        site.folders = folders;
        if !settings.only_managed_rules {
            site.permission_files = permission_files(&config.folders);
        }
        site.shells = Arc::new(shells);
        parts.sandbox = sandbox_of(guard.as_ref());
        site.guard = guard;
        site.trusted_repository = trusted_repository;
        site.is_own_folder = scratch.is_some() || is_stored(&file, &config.folders);
        site.folder = folder;
        if is_kept {
            parts.log = Some(Log::at(&file));
            site.backups = Arc::new(Backups::new(Some(home.join("file-history").join(&id))));
            let more = site.guard.iter().flat_map(|guard| guard.writable.clone());
            let roots = all.into_iter().chain(more);
            let old = old_folder.as_deref().and_then(Path::file_name);
            site.images = config.images.map(|wishes| images(wishes, &id, roots, old));
            site.todo_file = Some(home.join("todos").join(format!("{id}-agent-{id}.json")));
        }
        site.given = Mutex::new(GivenInstructions::with_rules(home.join("rules")));
        site.is_offline = config.source != ModelSource::Api;
        site.secrets = endpoint::secrets(&settings, environment);
        site.proxies = endpoint::proxies(&settings, environment);
        site.nature = config.nature;
        parts.title = config.title;
        parts.after = config.after;
        parts.resumed = resumed;
        parts.key_source = key_source;
        let retry = variable("CLAUDE_CODE_MAX_RETRIES").and_then(|text| text.parse().ok());
        parts.retry = retry.map_or_else(Retry::default, |most| Retry { most });
        let of_kind = main_kind.as_ref().and_then(|kind| kind.max_turns);
        parts.max_turns = config.max_turns.into_iter().chain(of_kind).min();
        parts.hooks = settings.hooks.clone();
        if config.settings.hooks == Hooks::Ignored {
            parts.hooks.retain(Source::is_managed);
        }
        if let Some(kind) = &main_kind {
            parts.hooks.extend(&kind.hooks);
            let mode = parts.permit.mode;
            parts.permit.mode = kind.mode.map_or(mode, |other| narrower(mode, other));
        }
        (parts.budget, parts.schema) = (config.budget, config.schema);
        parts.fallback = config.fallback.iter().map(|name| model::named(Some(name))).collect();
        (parts.tools, parts.kind) = (config.tools, main_kind);
        (parts.kinds, parts.slashes) = (kinds, slashes);
        (parts.transcript, parts.audience) = (file, config.audience);
        let session = Session::assemble(parts, notes);
        Ok(Session { scratch, ..session })
    }
}

/// What the system prompt of the main agent is made of.
fn prompt_of(config: &SessionConfig, kind: Option<&AgentKind>, surroundings: &str) -> Wishes {
    let mut wishes = config.prompt.clone();
    if let Some(kind) = kind {
        wishes.instead = Some(format!("{}\n\n{surroundings}", kind.prompt));
    }
    wishes
}

/// What comes before the first prompt.
fn reminder_of(wishes: &Wishes, context: &Context) -> String {
    let is_moved = wishes.surroundings == Surroundings::FirstPrompt && wishes.instead.is_none();
    if !is_moved {
        return context.reminder.clone();
    }
    format!("{}\n{}", context.reminder, tagged(&context.surroundings))
}

/// How long answers, thinking and turns may be, and when the conversation is summarised.
fn ask_as_wished(
    parts: &mut Parts,
    config: &SessionConfig,
    settings: &Settings,
    environment: &dyn Environment,
    kind: Option<&AgentKind>,
) {
    let variable = |name: &str| settings.variable(environment, name);
    let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
    let asking = &mut parts.asking;
    asking.max_tokens = number("CLAUDE_CODE_MAX_OUTPUT_TOKENS").unwrap_or(asking.max_tokens);
    let thinking = config.thinking.or_else(|| number("MAX_THINKING_TOKENS"));
    asking.thinking = model::thinking_tokens(thinking, asking.max_tokens);
    asking.effort = config.effort.clone().or(kind.and_then(|kind| kind.effort.clone()));
    (parts.compacts, parts.compact_at) = compacting(config, settings, environment);
    let most_stops = variable("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP");
    parts.most_stops = most_stops.and_then(|text| text.parse().ok());
}

/// Whether a conversation is summarised by itself, and when.
fn compacting(
    config: &SessionConfig,
    settings: &Settings,
    environment: &dyn Environment,
) -> (bool, CompactAt) {
    let variable = |name: &str| settings.variable(environment, name);
    let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
    let is_set = |name: &str| variable(name).is_some_and(|value| value != "0" && value != "false");
    let compacts = !is_set("DISABLE_AUTO_COMPACT")
        && !is_set("DISABLE_COMPACT")
        && settings.auto_compact != Some(false);
    let by_variable = || number("CLAUDE_CODE_AUTO_COMPACT_WINDOW");
    let window = match config.compact_window {
        Some(CompactWindow::Tokens(tokens)) => Some(tokens),
        Some(CompactWindow::Models) => None,
        None => by_variable().or(settings.auto_compact_window),
    };
    (compacts, CompactAt { percent: number("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"), window })
}

/// How far a session's commands are held.
fn sandbox_of(guard: Option<&Guard>) -> SandboxWish {
    match guard {
        None => SandboxWish::Off,
        Some(guard) if !guard.may_leave && guard.holds() => SandboxWish::Require,
        Some(_) => SandboxWish::On,
    }
}

/// The images of these folders, with those of the session that this one continues.
fn images(
    wishes: ImageWishes,
    id: &str,
    folders: impl Iterator<Item = PathBuf>,
    old: Option<&OsStr>,
) -> Arc<Images> {
    let images = Images::new(wishes, id, guard::image_roots(folders));
    if let Some(old) = old {
        images.inherit(&old.to_string_lossy());
    }
    Arc::new(images)
}

/// What the model is told with the next prompt: what has changed, and what does not run any more.
fn with_ended(
    news: Option<String>,
    resumed: &Resumed,
    notify: &mut dyn FnMut(Notice),
) -> Option<String> {
    if !resumed.ended.is_empty() {
        let names = resumed.ended.iter().map(|(id, name)| format!("`{name}` ({id})"));
        notify(Notice::Ended(names.collect()));
    }
    let ended = resume::notification(&resumed.ended);
    let news: Vec<String> = news.into_iter().chain(ended).collect();
    (!news.is_empty()).then(|| news.join("\n"))
}

/// The settings files that a host may have changed.
fn permission_files(folders: &Folders) -> Vec<PermissionFile> {
    let project = folders.cwd.join(".claude");
    let in_project = |destination, name: &str| PermissionFile {
        destination,
        path: project.join(name),
        root: folders.cwd.clone(),
        is_in_project: true,
    };
    vec![
        PermissionFile {
            destination: "userSettings",
            path: folders.home.join("settings.json"),
            root: folders.home.clone(),
            is_in_project: false,
        },
        in_project("projectSettings", "settings.json"),
        in_project("localSettings", "settings.local.json"),
    ]
}

/// Where the user's own shell finds programs. Nothing of the project has a say.
fn user_path(home: Option<&Path>, environment: &dyn Environment) -> UserPath {
    let shell = environment.variable("SHELL").or_else(users_shell);
    let (Some(shell), Some(home)) = (shell, home) else { return UserPath::default() };
    let names = ["USER", "LOGNAME", "LANG", "LC_ALL", "XDG_CONFIG_HOME", "ZDOTDIR"];
    let variables =
        names.iter().filter_map(|name| Some(((*name).to_owned(), environment.variable(name)?)));
    UserPath::of(shell.into(), home.to_owned(), variables.collect())
}

#[cfg(unix)]
fn users_shell() -> Option<String> {
    let users = files::read_text("/etc/passwd", 1 << 20).ok()?;
    sandbox::user_shell(&users, rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn users_shell() -> Option<String> {
    None
}

/// Whether a session's file is where sessions are kept.
fn is_stored(file: &Path, folders: &Folders) -> bool {
    let projects = folders.home.join("projects");
    match (fs::canonicalize(file), fs::canonicalize(&projects)) {
        (Ok(file), Ok(projects)) => file.starts_with(projects),
        (Ok(_), Err(_)) => false,
        // It does not exist yet.
        (Err(_), _) => file.starts_with(projects),
    }
}
