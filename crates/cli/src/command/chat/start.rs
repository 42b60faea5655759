//! Prepares a session: a new one, or one that is resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use agent::ambient::{Ambient, Real, Stopped};
use agent::api::Model;
use agent::api::http::{Http, Settings as HttpSettings};
use agent::api::retry::Retry;
use agent::api::script::Script;
use agent::context::{Context, LeftOut, Places};
use agent::drive::{Asking, Driver, Event};
use agent::host::Init;
use agent::log::Log;
use agent::permit::{Bypass, Mode, Permit};
use agent::prompt::{self, Wishes};
use agent::record::{Pending, Recorder};
use agent::secret::{self, Secrets};
use agent::settings::{Rule, Settings};
use agent::tool::{self, Site};
use agent::turn::Turn;
use tempfile::TempDir;
use transcript::conversation::place::slug;

use super::demo::{self, Lab};
use super::trusted::{self, Standing};
use super::{ChatArgs, kept, resumed, settings};
use crate::failure::Failure;
use crate::world::World;

/// The maximum size of a script, or of a file kept beside a session, in bytes.
const LONGEST: u64 = 16 << 20;

pub(super) struct Started {
    pub(super) driver: Driver,
    pub(super) init: Init,
    pub(super) nature: Arc<dyn Ambient>,
    /// A folder that is removed at the end.
    pub(super) scratch: Option<TempDir>,
}

/// The folders of a session.
pub(super) struct Where {
    pub(super) home: PathBuf,
    pub(super) user: Option<PathBuf>,
    pub(super) cwd: PathBuf,
    /// The folder of the project's sessions.
    pub(super) project: PathBuf,
}

pub(super) fn start(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    notes: Sender<Event>,
) -> Result<Started, Failure> {
    let place = place(world, demo)?;
    if args.trust {
        trusted::trust(world, &place)?;
    }
    let standing = trusted::standing(world, &place)?;
    let settings = settings::read(world, args, &place, standing.folder)?;
    let permit = permit(world, args, demo, &settings)?;
    refuse_promises(world, args, &settings)?;
    for note in &settings.notes {
        world.out.note(note)?;
    }
    let nature: Arc<dyn Ambient> = match world.stopped() {
        Some(now) => Arc::new(Stopped::at(now)),
        None => Arc::new(Real),
    };
    let chosen = chosen(world, args, &settings);
    let resumed::ResumePlace { id, file, old, resumed } =
        resumed::place(world, args, &place, chosen.as_deref())?;
    // What is not kept must not exist afterwards, including what tools put aside.
    let scratch = args.no_session_persistence.then(tempfile::tempdir).transpose();
    let scratch = scratch.map_err(|error| Failure::unwritable(&std::env::temp_dir(), error))?;
    let session_folder = file.with_extension("");
    let folder = scratch.as_ref().map_or(session_folder, |scratch| scratch.path().to_owned());
    let model_name = chosen.or(resumed.model).unwrap_or_else(|| agent::model::named(None));
    let message_count = resumed.messages.len();
    let model = model(world, args, &settings, (&place, &id, message_count))?;
    let old_folder = old.map(|old| old.with_extension(""));
    let key = seal_key(world, args)?;
    let (context, news, kept, left_out) = context(
        &place,
        standing,
        (&folder, old_folder.as_deref()),
        &model_name,
        (&key, nature.now()),
    );
    trusted::tell(world, &settings, &left_out)?;
    let wishes =
        Wishes { instead: args.system_prompt.clone(), more: args.append_system_prompt.clone() };
    let tools: Vec<_> = tool::all().iter().filter(|tool| permit.offers(&tool.name)).collect();
    let limit = settings
        .variable(world, "CLAUDE_CODE_MAX_OUTPUT_TOKENS")
        .and_then(|text| text.parse().ok());
    let max_tokens = limit.unwrap_or_else(|| agent::model::output_tokens(&model_name));
    let thinking =
        settings.variable(world, "MAX_THINKING_TOKENS").and_then(|text| text.parse().ok());
    let asking = Asking {
        model: model_name.clone(),
        max_tokens,
        thinking: agent::model::thinking_tokens(thinking, max_tokens),
        system: prompt::system(&wishes, &context.surroundings),
        tools: tools.iter().map(|tool| tool.json()).collect(),
        reminder: context.reminder,
        news,
        kept,
        is_cached: settings.variable(world, "DISABLE_PROMPT_CACHING").is_none(),
    };
    let log = (!args.no_session_persistence).then(|| Log::at(&file));
    let mode = permit.mode.name();
    let mut point = resumed.point;
    point.pending.extend(args.name.clone().map(Pending::Title));
    let recorder = Recorder::new(nature.clone(), log, &id, &place.cwd, mode, point);
    let backups = (!args.no_session_persistence).then(|| place.home.join("file-history").join(&id));
    let mut site =
        Site::new(&place.cwd, &folder, backups, (model.clone(), model_name), nature.clone());
    let todos = (!args.no_session_persistence).then(|| place.home.join("todos"));
    site.is_offline = args.offline.is_some();
    let folders = args.add_dir.iter().chain(&settings.folders);
    site.folders = folders.map(|folder| place.cwd.join(folder)).collect();
    site.is_own_folder = scratch.is_some() || is_kept(&file, &place);
    site.shells.env = settings.env.clone().into_iter().collect();
    (site.secrets, site.proxies) = (secrets(world, &settings), proxies(world, &settings));
    for (path, print) in &resumed.seen {
        site.seen.restore(&place.cwd.join(path), *print);
    }
    let watched = resumed.backups.into_iter();
    site.watch(watched.map(|(path, backup)| (place.cwd.join(path), backup)));
    site.todo_file = todos.map(|todos| todos.join(format!("{id}-agent-{id}.json")));
    let retry =
        settings.variable(world, "CLAUDE_CODE_MAX_RETRIES").and_then(|text| text.parse().ok());
    let retry = retry.map_or_else(Retry::default, |most| Retry { most });
    let turn = Turn::new(resumed.messages, retry, args.max_turns);
    let init = Init {
        session: id,
        cwd: place.cwd.display().to_string(),
        tools: tools.iter().map(|tool| tool.name.clone()).collect(),
        key: key_source(world, args, &settings),
    };
    let driver = Driver::new(
        turn,
        recorder,
        (model, asking),
        (Arc::new(site), permit),
        nature.clone(),
        notes,
    );
    Ok(Started { driver, init, nature, scratch })
}

/// Whether a session's file is where sessions are kept.
fn is_kept(file: &Path, place: &Where) -> bool {
    let projects = place.home.join("projects");
    match (fs::canonicalize(file), fs::canonicalize(&projects)) {
        (Ok(file), Ok(projects)) => file.starts_with(projects),
        (Ok(_), Err(_)) => false,
        // It does not exist yet.
        (Err(_), _) => file.starts_with(projects),
    }
}

/// The keys that are hidden from commands and records: those of the environment, and those of
/// settings.
fn secrets(world: &World, settings: &Settings) -> Secrets {
    let names = secret::NAMES.iter().chain(&secret::PROXIES);
    let both = names.flat_map(|name| {
        let values = [world.variable(name), settings.env.get(*name).cloned()];
        values.into_iter().flatten().map(move |value| (*name, value))
    });
    let known: Vec<(&str, String)> = both.collect();
    Secrets::of(known.iter().map(|(name, value)| (*name, value.as_str())))
}

/// The proxies, if one of them has a password: the environment does not contain it any more then.
fn proxies(world: &World, settings: &Settings) -> Vec<(String, String)> {
    let named = secret::PROXIES
        .iter()
        .filter_map(|name| settings.variable(world, name).map(|value| ((*name).to_owned(), value)));
    let named: Vec<(String, String)> = named.collect();
    if named.iter().any(|(name, value)| secret::is_secret(name, value)) {
        named
    } else {
        Vec::new()
    }
}

fn place(world: &World, demo: Option<&Lab>) -> Result<Where, Failure> {
    let (home, user) = world.first_home();
    if home.as_os_str().is_empty() && demo.is_none() {
        let hint = "set `HOME`, or `CLAUDE_CONFIG_DIR`";
        return Err(Failure::usage("cannot determine the folder for sessions", Some(hint)));
    }
    let (home, cwd) = match demo {
        Some(demo) => (demo.home.clone(), demo.cwd.clone()),
        None => (home, fs::canonicalize(&world.cwd).unwrap_or_else(|_| world.cwd.clone())),
    };
    let project = home.join("projects").join(slug(&cwd.to_string_lossy()));
    Ok(Where { home, user: user.map(Path::to_owned), cwd, project })
}

/// Trusts the current folder, and does nothing else.
pub(super) fn trust(world: &mut World) -> Result<(), Failure> {
    let place = place(world, None)?;
    trusted::trust(world, &place)
}

fn permit(
    world: &World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    settings: &Settings,
) -> Result<Permit, Failure> {
    let named = match &args.permission_mode {
        _ if args.dangerously_skip_permissions || demo.is_some() => Some(Mode::Bypass),
        None => None,
        Some(name) => Some(Mode::named(name).ok_or_else(|| {
            let hint = "use `default`, `acceptEdits` or `bypassPermissions`";
            Failure::usage(format!("`{name}` is not a permission mode"), Some(hint))
        })?),
    };
    let by_settings = settings.mode.as_deref();
    // Modes that are not supported yet count as `default`, which allows less than any other; in
    // `plan`, rules allow nothing.
    let mode = named.or_else(|| by_settings.and_then(Mode::named)).unwrap_or_default();
    let is_plan = named.is_none() && by_settings == Some("plan");
    let bypass = bypass(world, args, demo, settings, mode)?;
    // Lists may also be separated by commas.
    let split = |list: &[String]| -> Vec<String> {
        let all = list.iter().flat_map(|one| one.split([',', ' ']));
        all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (mut allowed, refused) = (split(&args.allowed_tools), split(&args.disallowed_tools));
    if let Some(rule) = allowed.iter().chain(&refused).find(|rule| rule.contains('(')) {
        let hint = "use only the tool's name";
        return Err(Failure::usage(
            format!("rules like `{rule}` are not supported yet"),
            Some(hint),
        ));
    }
    let named = |rule: &String| {
        agent::settings::tools_named(rule)
            .map_err(|why| Failure::usage(format!("the rule `{rule}`: {why}"), None))
    };
    let refused: Vec<Vec<String>> = refused.iter().map(named).collect::<Result<_, _>>()?;
    let mut refused = refused.concat();
    if let Some(folder) = args.add_dir.iter().find(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("`{}` is not a folder", folder.display()), None));
    }
    if settings.only_managed_rules && !allowed.is_empty() {
        let message = "`--allowedTools` cannot be used: by an administrator's settings, only their rules allow anything";
        return Err(Failure::usage(message, Some("leave it out")));
    }
    let tools = |rules: &[Rule]| rules.iter().map(|rule| rule.tool.clone()).collect::<Vec<_>>();
    if !is_plan {
        allowed.extend(tools(&settings.allowed));
    }
    refused.extend(tools(&settings.refused));
    // Questions are not possible, so these are refused, in every mode, as in the newest client.
    refused.extend(tools(&settings.asked));
    Ok(Permit { mode, allowed, refused, bypass })
}

/// Whether everything may be allowed, now or when a host asks for it.
fn bypass(
    world: &World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    settings: &Settings,
    mode: Mode,
) -> Result<Bypass, Failure> {
    let is_wanted = mode == Mode::Bypass || args.allow_dangerously_skip_permissions;
    match &settings.no_bypass {
        Some(name) if is_wanted => {
            let key = "permissions.disableBypassPermissionsMode";
            let message = format!("`bypassPermissions` is disabled by `{key}` in `{name}`");
            return Err(Failure::usage(message, Some("use another permission mode")));
        }
        Some(_) => return Ok(Bypass::Forbidden),
        None if !is_wanted => return Ok(Bypass::NotOffered),
        None => {}
    }
    // As in Claude Code. The commands of the demonstration are known, so it is exempt.
    let is_contained = world.variable("IS_SANDBOX").is_some_and(|value| value == "1")
        || world.variable("CLAUDE_CODE_BUBBLEWRAP").is_some();
    if is_root() && !is_contained && demo.is_none() {
        let hint = "run as another user, or set `IS_SANDBOX=1` if nothing can be broken here";
        let message = "root cannot use `bypassPermissions`";
        return Err(Failure::usage(message, Some(hint)));
    }
    Ok(Bypass::Offered)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root() || rustix::process::getuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// Refuses what a variable or the settings ask for and quipu cannot do.
fn refuse_promises(world: &World, args: &ChatArgs, settings: &Settings) -> Result<(), Failure> {
    let is_set = |name: &str| settings.variable(world, name).is_some();
    let checkpoints = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING";
    if settings.variable(world, checkpoints).is_some_and(|value| value != "0" && value != "false") {
        let message = format!("`{checkpoints}` is set, but files cannot be rewound yet");
        return Err(Failure::usage(message, Some("leave out `enable_file_checkpointing`")));
    }
    let has_key = is_set("ANTHROPIC_API_KEY") || is_set("ANTHROPIC_AUTH_TOKEN");
    match &settings.key_helper {
        Some(name) if !has_key && args.offline.is_none() => {
            let message = format!(
                "the only source of a key is `apiKeyHelper` in `{name}`, which quipu does not run"
            );
            Err(Failure::usage(message, Some("set `ANTHROPIC_API_KEY`")))
        }
        _ => Ok(()),
    }
}

/// The key that seals what is kept beside sessions; created when it is first needed. Without a key,
/// nothing that is kept there is used.
fn seal_key(world: &World, args: &ChatArgs) -> Result<Option<String>, Failure> {
    let Ok(path) = world.seal_file() else { return Ok(None) };
    match files::read_text(&path, 1 << 10) {
        Ok(key) if !key.trim().is_empty() => return Ok(Some(key)),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::unreadable(&path, error));
        }
        _ => {}
    }
    if args.no_session_persistence {
        return Ok(None);
    }
    let key = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let written = files::put(&path, key.as_bytes(), files::Durability::Process);
    written.map_err(|error| Failure::unwritable(&path, error))?;
    Ok(Some(key))
}

/// The model that the user asked for.
fn chosen(world: &World, args: &ChatArgs, settings: &Settings) -> Option<String> {
    let named = args.model.clone().or_else(|| settings.variable(world, "ANTHROPIC_MODEL"));
    named.or_else(|| settings.model.clone()).map(|name| agent::model::named(Some(&name)))
}

fn key_source(world: &World, args: &ChatArgs, settings: &Settings) -> &'static str {
    if args.offline.is_some() {
        "none"
    } else if settings.variable(world, "ANTHROPIC_AUTH_TOKEN").is_some() {
        "ANTHROPIC_AUTH_TOKEN"
    } else {
        "ANTHROPIC_API_KEY"
    }
}

fn model(
    world: &World,
    args: &ChatArgs,
    settings: &Settings,
    (place, id, message_count): (&Where, &str, usize),
) -> Result<Arc<dyn Model>, Failure> {
    let script = match &args.offline {
        None => {
            let wait =
                settings.variable(world, "API_TIMEOUT_MS").and_then(|text| text.parse().ok());
            let certificates = settings.variable(world, "NODE_EXTRA_CA_CERTS");
            let certificates = certificates.or_else(|| settings.variable(world, "SSL_CERT_FILE"));
            return Ok(Arc::new(Http::new(HttpSettings {
                base: settings
                    .variable(world, "ANTHROPIC_BASE_URL")
                    .unwrap_or_else(|| "https://api.anthropic.com".to_owned()),
                key: settings.variable(world, "ANTHROPIC_API_KEY"),
                token: settings.variable(world, "ANTHROPIC_AUTH_TOKEN"),
                headers: settings.variable(world, "ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default(),
                idle: wait.map_or(Duration::from_secs(120), Duration::from_millis),
                proxies: proxies(world, settings),
                certificates: certificates.map(PathBuf::from),
                agent: agent::USER_AGENT.to_owned(),
            })));
        }
        Some(None) => demo::SCRIPT.to_owned(),
        Some(Some(path)) => {
            files::read_text(path, LONGEST).map_err(|error| Failure::unreadable(path, error))?
        }
    };
    let cwd = place.cwd.display().to_string();
    let home = place.user.as_ref().map(|user| user.display().to_string()).unwrap_or_default();
    let variables =
        [("CWD", cwd.as_str()), ("HOME", &home), ("SESSION", id), ("AGENT_TOOL", "Task")];
    let script = Script::read(&script, &variables).map_err(|error| {
        let name = args.offline.clone().flatten().unwrap_or_default();
        Failure::usage(format!("cannot play the script `{}`: {error}", name.display()), None)
    })?;
    Ok(Arc::new(script.within(id, message_count)))
}

/// A file to write: its path and its text.
type Keep = Option<(PathBuf, String)>;

/// What the model learns about where it works. If the session is resumed: what it learned before,
/// and what has changed since. Returns also the file that keeps this, and what was left out.
fn context(
    place: &Where,
    standing: Standing,
    (folder, old_folder): (&Path, Option<&Path>),
    model: &str,
    (key, now): (&Option<String>, i64),
) -> (Context, Option<String>, Keep, LeftOut) {
    let kept = folder.join("context.json");
    let before = old_folder.zip(key.as_deref()).and_then(|(old_folder, key)| {
        let text = files::read_text(old_folder.join("context.json"), LONGEST).ok()?;
        kept::opened(key, old_folder, &text)
    });
    let today = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    let date = today.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string();
    let places = Places {
        home: &place.home,
        user: place.user.as_deref(),
        cwd: &place.cwd,
        repository: standing.repository,
    };
    let (fresh, left_out) = Context::look(places, &date, model);
    let (mut context, is_known) =
        (before.clone().unwrap_or_else(|| fresh.clone()), before.is_some());
    let news = context.renew(&fresh);
    let is_another = !is_known || news.is_some() || old_folder != Some(folder);
    let text = key.as_deref().filter(|_| is_another);
    let kept = text.and_then(|key| kept::sealed(key, folder, &context)).map(|text| (kept, text));
    (context, news, kept, left_out)
}
