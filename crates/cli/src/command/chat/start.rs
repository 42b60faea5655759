//! A session made ready: new, or one that goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use agent::api::Model;
use agent::api::http::{Http, Settings as HttpSettings};
use agent::api::retry::Retry;
use agent::api::script::Script;
use agent::context::{Context, Places};
use agent::drive::{Asking, Driver, Note};
use agent::face::Init;
use agent::log::Log;
use agent::nature::{Nature, Real, Stopped};
use agent::permit::{Mode, Permit};
use agent::prompt::{self, Wishes};
use agent::record::{Pending, Recorder};
use agent::secret::{self, Secrets};
use agent::tool::{self, Site};
use agent::turn::Turn;
use tempfile::TempDir;
use transcript::place::slug;

use super::demo::{self, Lab};
use super::settings::Settings;
use super::{ChatArgs, resumed};
use crate::failure::Failure;
use crate::world::World;

/// So long may a script, or what is kept beside a session, be.
const LONGEST: u64 = 16 << 20;

pub(super) struct Started {
    pub(super) driver: Driver,
    pub(super) init: Init,
    pub(super) nature: Arc<dyn Nature>,
    /// What is removed at the end.
    pub(super) scratch: Option<TempDir>,
}

/// Where things are.
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
    notes: Sender<Note>,
) -> Result<Started, Failure> {
    let place = place(world, demo)?;
    let settings = Settings::read(&place.home, &place.cwd, args.settings.as_deref())?;
    let permit = permit(args, demo, &settings)?;
    for note in &settings.notes {
        world.out.note(note)?;
    }
    let nature: Arc<dyn Nature> = match world.stopped() {
        Some(now) => Arc::new(Stopped::at(now)),
        None => Arc::new(Real),
    };
    let chosen = chosen(world, args, &settings);
    let resumed::Place { id, file, old, resumed } =
        resumed::place(world, args, &place, chosen.as_deref())?;
    // What is not kept is nowhere afterwards, what tools put aside among it.
    let scratch = args.no_session_persistence.then(tempfile::tempdir).transpose();
    let scratch = scratch.map_err(|error| Failure::unwritable(&std::env::temp_dir(), error))?;
    let own = file.with_extension("");
    let folder = scratch.as_ref().map_or(own.clone(), |scratch| scratch.path().to_owned());
    let model_name = chosen.or(resumed.model).unwrap_or_else(|| agent::model::named(None));
    let model = model(world, args, &settings, (&place, &id))?;
    let told = old.map_or(own, |old| old.with_extension(""));
    let (context, news, kept) = context(&place, [&folder, &told], &model_name, nature.now());
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
        // It is not there yet.
        (Err(_), _) => file.starts_with(projects),
    }
}

/// The keys that are kept from commands and records: those of the environment, and those of
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

/// The proxies, if one of them has a password: then the environment does not name it any more.
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
        return Err(Failure::usage("there is no folder for sessions", Some(hint)));
    }
    let (home, cwd) = match demo {
        Some(demo) => (demo.home.clone(), demo.cwd.clone()),
        None => (home, fs::canonicalize(&world.cwd).unwrap_or_else(|_| world.cwd.clone())),
    };
    let project = home.join("projects").join(slug(&cwd.to_string_lossy()));
    Ok(Where { home, user: user.map(Path::to_owned), cwd, project })
}

fn permit(args: &ChatArgs, demo: Option<&Lab>, settings: &Settings) -> Result<Permit, Failure> {
    let mode = match &args.permission_mode {
        _ if args.dangerously_skip_permissions || demo.is_some() => Mode::Bypass,
        None => settings.mode.unwrap_or_default(),
        Some(name) => Mode::named(name).ok_or_else(|| {
            let hint = "`default`, `acceptEdits` or `bypassPermissions`";
            Failure::usage(format!("`{name}` is no permission mode"), Some(hint))
        })?,
    };
    // Lists come with commas too.
    let split = |list: &[String]| -> Vec<String> {
        let all = list.iter().flat_map(|one| one.split([',', ' ']));
        all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (mut allowed, mut refused) = (split(&args.allowed_tools), split(&args.disallowed_tools));
    if let Some(rule) = allowed.iter().chain(&refused).find(|rule| rule.contains('(')) {
        let hint = "give the tool's name alone";
        return Err(Failure::usage(
            format!("rules like `{rule}` are not understood yet"),
            Some(hint),
        ));
    }
    if let Some(folder) = args.add_dir.iter().find(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("`{}` is no folder", folder.display()), None));
    }
    allowed.extend(settings.allowed.clone());
    refused.extend(settings.refused.clone());
    // Nobody can be asked; who permits everything has answered already.
    if mode != Mode::Bypass {
        refused.extend(settings.asked.clone());
    }
    Ok(Permit { mode, allowed, refused })
}

/// The model that was asked for.
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
    (place, id): (&Where, &str),
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
        Failure::usage(format!("`{}` cannot be played: {error}", name.display()), None)
    })?;
    Ok(Arc::new(script))
}

/// What the model is told about where it works: what it was told before, if the session goes on, and what has changed since; and what is to be kept of that.
fn context(
    place: &Where,
    [folder, told]: [&Path; 2],
    model: &str,
    now: i64,
) -> (Context, Option<String>, Option<(PathBuf, String)>) {
    let kept = folder.join("context.json");
    let before = files::read_text(told.join("context.json"), LONGEST).ok();
    let today = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    let date = today.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string();
    let places = Places { home: &place.home, user: place.user.as_deref(), cwd: &place.cwd };
    let fresh = Context::look(places, &date, model);
    let before = before.and_then(|text| serde_json::from_str::<Context>(&text).ok());
    let (mut context, is_known) =
        (before.clone().unwrap_or_else(|| fresh.clone()), before.is_some());
    let news = context.renew(&fresh);
    let is_another = !is_known || news.is_some() || folder != told;
    let kept = serde_json::to_string(&context).ok().filter(|_| is_another).map(|text| (kept, text));
    (context, news, kept)
}
