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
use agent::record::Recorder;
use agent::resume::{self, Resumed};
use agent::tool::{self, Site};
use agent::turn::Turn;
use transcript::place::{Session, sessions_in, slug};

use super::ChatArgs;
use super::demo::{self, Lab};
use super::settings::Settings;
use crate::command::repair;
use crate::failure::Failure;
use crate::world::World;

pub(super) struct Started {
    pub(super) driver: Driver,
    pub(super) init: Init,
    pub(super) nature: Arc<dyn Nature>,
}

/// Where things are.
struct Where {
    home: PathBuf,
    user: Option<PathBuf>,
    cwd: PathBuf,
    project: PathBuf,
}

pub(super) fn start(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    notes: Sender<Note>,
) -> Result<Started, Failure> {
    let place = place(world, demo);
    let settings = Settings::read(&place.home, &place.cwd, args.settings.as_deref())?;
    let permit = permit(args, demo, &settings)?;
    let nature: Arc<dyn Nature> = match world.stopped() {
        Some(now) => Arc::new(Stopped::at(now)),
        None => Arc::new(Real),
    };
    let old = old_session(world, args, &place)?;
    let resumed = old.as_ref().map(|session| resumed(world, session)).transpose()?;
    let is_new = old.is_none() || args.fork_session;
    let id = match (&old, is_new) {
        (Some(old), false) => old.id.clone(),
        _ => new_id(world, args, &place)?,
    };
    if is_new && let Some(old) = old.as_ref().filter(|_| !args.no_session_persistence) {
        copy(old, &place.project.join(format!("{id}.jsonl")))?;
    }
    let file = match &old {
        Some(old) if !is_new => old.path.clone(),
        _ => place.project.join(format!("{id}.jsonl")),
    };
    let folder = file.with_extension("");
    let resumed = resumed.unwrap_or_else(|| Resumed {
        messages: Vec::new(),
        point: agent::record::Point::default(),
        model: None,
        made: Vec::new(),
        is_damaged: false,
    });
    let model_name = model_name(world, args, &settings, &resumed);
    let model = model(world, args, &place, &id)?;
    let told = old.as_ref().map_or(folder.clone(), |old| old.path.with_extension(""));
    let (context, news) =
        context(&place, [&folder, &told], &model_name, nature.now(), args.no_session_persistence);
    let wishes =
        Wishes { instead: args.system_prompt.clone(), more: args.append_system_prompt.clone() };
    let tools: Vec<_> = tool::all().iter().filter(|tool| permit.offers(&tool.name)).collect();
    let limit = world.variable("CLAUDE_CODE_MAX_OUTPUT_TOKENS").and_then(|text| text.parse().ok());
    let max_tokens = limit.unwrap_or_else(|| agent::model::output_tokens(&model_name));
    let thinking = world.variable("MAX_THINKING_TOKENS").and_then(|text| text.parse().ok());
    let asking = Asking {
        model: model_name.clone(),
        max_tokens,
        thinking: thinking.filter(|tokens| *tokens >= 1_024 && *tokens < max_tokens),
        system: prompt::system(&wishes, &context.surroundings),
        tools: tools.iter().map(|tool| tool.json()).collect(),
        reminder: context.reminder,
        news,
        is_cached: world.variable("DISABLE_PROMPT_CACHING").is_none(),
    };
    let log = (!args.no_session_persistence).then(|| Log::at(&file));
    let mode = permit.mode.name();
    let mut recorder = Recorder::new(nature.clone(), log, &id, &place.cwd, mode, resumed.point);
    for (role, block) in &resumed.made {
        recorder.closing(role, block).map_err(|error| Failure::unwritable(&file, error))?;
    }
    let backups = (!args.no_session_persistence).then(|| place.home.join("file-history").join(&id));
    let mut site =
        Site::new(&place.cwd, &folder, backups, (model.clone(), model_name), nature.clone());
    let todos = (!args.no_session_persistence).then(|| place.home.join("todos"));
    site.todo_file = todos.map(|todos| todos.join(format!("{id}-agent-{id}.json")));
    let retry = world.variable("CLAUDE_CODE_MAX_RETRIES").and_then(|text| text.parse().ok());
    let retry = retry.map_or_else(Retry::default, |most| Retry { most });
    let turn = Turn::new(resumed.messages, retry, args.max_turns);
    let init = Init {
        session: id,
        cwd: place.cwd.display().to_string(),
        tools: tools.iter().map(|tool| tool.name.clone()).collect(),
        mode,
        key: key_source(world, args),
    };
    let driver = Driver::new(
        turn,
        recorder,
        (model, asking),
        (Arc::new(site), permit),
        nature.clone(),
        notes,
    );
    Ok(Started { driver, init, nature })
}

fn place(world: &World, demo: Option<&Lab>) -> Where {
    let (home, user) = world.first_home();
    let (home, cwd) = match demo {
        Some(demo) => (demo.home.clone(), demo.cwd.clone()),
        None => (home, fs::canonicalize(&world.cwd).unwrap_or_else(|_| world.cwd.clone())),
    };
    let project = home.join("projects").join(slug(&cwd.to_string_lossy()));
    Where { home, user: user.map(Path::to_owned), cwd, project }
}

fn permit(args: &ChatArgs, demo: Option<&Lab>, settings: &Settings) -> Result<Permit, Failure> {
    let named = args.permission_mode.as_ref().or(settings.mode.as_ref());
    let mode = match named {
        _ if args.dangerously_skip_permissions || demo.is_some() => Mode::Bypass,
        None => Mode::Default,
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
    Ok(Permit { mode, allowed, refused, folders: args.add_dir.clone() })
}

/// The session that goes on.
fn old_session(
    world: &mut World,
    args: &ChatArgs,
    place: &Where,
) -> Result<Option<Session>, Failure> {
    if let Some(name) = &args.resume {
        return world.session(name).map(Some);
    }
    if !args.continues {
        return Ok(None);
    }
    let newest = sessions_in(&place.project).into_iter().max_by_key(|session| session.modified);
    if newest.is_none() {
        let message = format!("there is no session of `{}` to go on with", place.cwd.display());
        return Err(Failure::not_found(message, "leave `--continue` out to begin one"));
    }
    Ok(newest)
}

/// What was said in a session. What a crash has left of it is mended first, if that helps.
fn resumed(world: &mut World, session: &Session) -> Result<Resumed, Failure> {
    let open =
        || resume::open(&session.path).map_err(|error| Failure::unreadable(&session.path, error));
    let mut found = open()?;
    if found.as_ref().map_or(true, |found| found.is_damaged)
        && let Some(told) = repair::in_place(world, session)?
    {
        world.out.note(&told)?;
        found = open()?;
    }
    found.map_err(|_| {
        let message = format!("there is no conversation in `{}`", session.path.display());
        let hint = "`quipu check` says why; leave `--resume` out to begin a new one";
        Failure::not_found(message, hint)
    })
}

fn new_id(world: &World, args: &ChatArgs, place: &Where) -> Result<String, Failure> {
    let Some(id) = &args.session_id else { return Ok(world.new_id()) };
    if uuid::Uuid::try_parse(id).is_err() {
        return Err(Failure::usage(format!("`{id}` is no UUID"), None));
    }
    if place.project.join(format!("{id}.jsonl")).exists() {
        let hint = "`--resume` goes on with it";
        return Err(Failure::usage(format!("the session `{id}` is there already"), Some(hint)));
    }
    Ok(id.clone())
}

/// A new session that says what an old one says, record for record: the original of this dialect copies them as they are.
fn copy(old: &Session, to: &Path) -> Result<(), Failure> {
    let unwritable = |error| Failure::unwritable(to, error);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(unwritable)?;
    }
    fs::copy(&old.path, to).map_err(unwritable).map(drop)
}

fn model_name(world: &World, args: &ChatArgs, settings: &Settings, resumed: &Resumed) -> String {
    let named = args.model.clone().or_else(|| world.variable("ANTHROPIC_MODEL"));
    let named = named.or_else(|| settings.model.clone()).or_else(|| resumed.model.clone());
    agent::model::named(named.as_deref())
}

fn key_source(world: &World, args: &ChatArgs) -> &'static str {
    if args.offline.is_some() {
        "none"
    } else if world.variable("ANTHROPIC_AUTH_TOKEN").is_some() {
        "ANTHROPIC_AUTH_TOKEN"
    } else {
        "ANTHROPIC_API_KEY"
    }
}

fn model(
    world: &World,
    args: &ChatArgs,
    place: &Where,
    id: &str,
) -> Result<Arc<dyn Model>, Failure> {
    let script = match &args.offline {
        None => {
            let wait = world.variable("API_TIMEOUT_MS").and_then(|text| text.parse().ok());
            let certificates = world.variable("NODE_EXTRA_CA_CERTS");
            let certificates = certificates.or_else(|| world.variable("SSL_CERT_FILE"));
            return Ok(Arc::new(Http::new(HttpSettings {
                base: world
                    .variable("ANTHROPIC_BASE_URL")
                    .unwrap_or_else(|| "https://api.anthropic.com".to_owned()),
                key: world.variable("ANTHROPIC_API_KEY"),
                token: world.variable("ANTHROPIC_AUTH_TOKEN"),
                headers: world.variable("ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default(),
                idle: wait.map_or(Duration::from_secs(120), Duration::from_millis),
                certificates: certificates.map(PathBuf::from),
                agent: agent::USER_AGENT.to_owned(),
            })));
        }
        Some(None) => demo::SCRIPT.to_owned(),
        Some(Some(path)) => {
            fs::read_to_string(path).map_err(|error| Failure::unreadable(path, error))?
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

/// What the model is told about where it works: what it was told before, if the session goes on, and what has changed since.
fn context(
    place: &Where,
    [folder, told]: [&Path; 2],
    model: &str,
    now: i64,
    is_fleeting: bool,
) -> (Context, Option<String>) {
    let kept = folder.join("context.json");
    let before = fs::read_to_string(told.join("context.json")).ok();
    let today = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    let date = today.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string();
    let places = Places { home: &place.home, user: place.user.as_deref(), cwd: &place.cwd };
    let fresh = Context::look(places, &date, model);
    let before = before.and_then(|text| serde_json::from_str::<Context>(&text).ok());
    let (mut context, is_known) =
        (before.clone().unwrap_or_else(|| fresh.clone()), before.is_some());
    let news = context.renew(&fresh);
    if !is_fleeting
        && (!is_known || news.is_some() || folder != told)
        && let Ok(text) = serde_json::to_string(&context)
    {
        // Without it the next run looks anew, and the API reads everything again: no reason to stop.
        let written = fs::create_dir_all(folder).and_then(|()| {
            use std::io::Write;
            fs::File::create(&kept)?.write_all(text.as_bytes())
        });
        drop(written);
    }
    (context, news)
}
