//! From flags and surroundings to a session. `agent::session` does the rest.
//!
//! Invariants: flags have the meaning that `agent::session` gives them, and nothing is decided
//! here beside that; what the library reports is printed before its error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ::sandbox::{Limits, Network};
use agent::ambient::{Ambient, Real, Stopped};
use agent::drive::Note;
use agent::guard::SandboxWish;
use agent::host::Audience;
use agent::images::ImageWishes;
use agent::prompt::{Surroundings, Wishes};
use agent::session::{
    Added, BypassWish, ContextWish, Continues, Folders, Keeping, ModelSource, Notice, Origin,
    PermitWishes, RootRule, SandboxWishes, SettingsWishes, SlashWish,
};
use agent::settings::{Environment, Hooks, Source};
use agent::{Session, SessionConfig};

use super::demo::{self, Lab};
use super::notices::tell;
use super::{ChatArgs, SandboxArg, Switch, cold};
use crate::failure::Failure;
use crate::select;
use crate::world::World;

impl Environment for World {
    fn variable(&self, name: &str) -> Option<String> {
        World::variable(self, name)
    }
}

/// Prepares a session: a new one, or one that is resumed.
pub(super) fn start(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    notes: Sender<Note>,
) -> Result<Session, Failure> {
    let folders = folders(world, demo)?;
    if args.trust {
        add(world, &folders)?;
    }
    let config = config(world, args, demo, folders)?;
    let prepared = reported(world, |world, notify| config.prepare(world, notify))?;
    let origin = origin(world, args)?;
    let place =
        reported(world, |world, notify| prepared.place(origin, &mut world.workshop, notify))?;
    cold::warn(world, &place)?;
    reported(world, |world, notify| prepared.start(place, world, notes, notify))
}

/// Trusts the current folder, and does nothing else.
pub(super) fn trust(world: &mut World) -> Result<(), Failure> {
    let folders = folders(world, None)?;
    add(world, &folders)
}

/// Does a step, and prints what it reports, also if it fails.
pub(super) fn reported<T, E: Into<Failure>>(
    world: &mut World,
    step: impl FnOnce(&mut World, &mut dyn FnMut(Notice)) -> Result<T, E>,
) -> Result<T, Failure> {
    let mut notices = Vec::new();
    let done = step(world, &mut |notice| notices.push(notice));
    tell(world, notices)?;
    done.map_err(Into::into)
}

pub(super) fn folders(world: &World, demo: Option<&Lab>) -> Result<Folders, Failure> {
    let (home, user) = world.first_home();
    let user = user.map(Path::to_owned);
    if let Some(demo) = demo {
        return Ok(Folders::at(demo.home.clone(), user, &demo.cwd));
    }
    if home.as_os_str().is_empty() {
        let hint = "set `HOME`, or `CLAUDE_CONFIG_DIR`";
        return Err(Failure::usage("cannot determine the folder for sessions", Some(hint)));
    }
    Ok(Folders::at(home, user, &world.cwd))
}

/// Adds the folder to the list of trusted ones.
fn add(world: &mut World, folders: &Folders) -> Result<(), Failure> {
    let path = world.config_file("trusted")?;
    let who = format!("process {} (quipu chat --trust)", std::process::id());
    if agent::session::trust(&path, folders, &who)? == Added::New {
        world.out.note(&format!(
            "`{}` is trusted from now on; the list is `{}`",
            folders.cwd.display(),
            path.display()
        ))?;
    }
    Ok(())
}

pub(super) fn config(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    folders: Folders,
) -> Result<SessionConfig, Failure> {
    let trust_list = match world.config_file("trusted") {
        Ok(path) => Some(path),
        Err(failure) => {
            world.out.note(&format!("no folder is trusted: {failure}"))?;
            None
        }
    };
    let nature: Arc<dyn Ambient> = match world.stopped() {
        Some(now) => Arc::new(Stopped::at(now)),
        None => Arc::new(Real),
    };
    let agents = args.agents.as_deref().map(|text| {
        let given = if text.trim_start().starts_with('{') {
            text.to_owned()
        } else {
            let file = files::read_text(text, LONGEST_PROMPT);
            file.map_err(|error| Failure::unreadable(text.as_ref(), error))?
        };
        let agents: Result<serde_json::Value, _> = serde_json::from_str(&given);
        let hint = "the form is `{\"NAME\": {\"description\": …, \"prompt\": …}}`";
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("`--agents` is not understood: {why}"), Some(hint))
        };
        match agents {
            Ok(agents) if agents.is_object() => Ok(agents),
            Ok(_) => Err(wrong(&"it is no object")),
            Err(error) => Err(wrong(&error)),
        }
    });
    let agents = agents.transpose()?;
    if let Some(config) = args.mcp_config.first() {
        let hint = "leave out `--mcp-config`; tools of MCP servers are not available here";
        let text = format!("MCP servers are not supported: `--mcp-config {config}`");
        return Err(Failure::usage(text, Some(hint)));
    }
    let schema = args.json_schema.as_deref().map(schema).transpose()?;
    let hooks = if args.ignore_hooks { Hooks::Ignored } else { Hooks::Obeyed };
    let is_discarded = args.no_session_persistence;
    Ok(SessionConfig {
        trust_list,
        seal_file: world.seal_file().ok(),
        settings: SettingsWishes { given: args.settings.clone(), hooks, sources: sources(args)? },
        permissions: permissions(args, demo),
        sandbox: sandbox(world, args)?,
        images: images(world, args, demo)?,
        model: args.model.clone(),
        source: match &args.offline {
            None => ModelSource::Api,
            Some(None) => ModelSource::Script(demo::SCRIPT.to_owned()),
            Some(Some(path)) => ModelSource::ScriptFile(path.clone()),
        },
        prompt: Wishes {
            instead: text_of(args.system_prompt.as_ref(), args.system_prompt_file.as_deref())?,
            more: text_of(
                args.append_system_prompt.as_ref(),
                args.append_system_prompt_file.as_deref(),
            )?,
            surroundings: if args.exclude_dynamic_system_prompt_sections {
                Surroundings::FirstPrompt
            } else {
                Surroundings::System
            },
        },
        continues: if args.fork_session { Continues::Fork } else { Continues::Itself },
        keeping: if is_discarded { Keeping::Discarded } else { Keeping::Kept },
        given_id: args.session_id.clone(),
        title: args.name.clone(),
        after: args.after,
        max_turns: args.max_turns,
        budget: args.max_budget_usd,
        thinking: args.max_thinking_tokens,
        effort: args.effort.clone(),
        betas: args
            .betas
            .iter()
            .flat_map(|names| names.split([',', ' ']))
            .map(str::to_owned)
            .collect(),
        fallback: args.fallback_model.clone(),
        compact_window: args.autocompact,
        context: match args.system_prompt_snapshot {
            Switch::On => ContextWish::Kept,
            Switch::Off => ContextWish::Fresh,
        },
        schema,
        resume_at: args.resume_session_at.clone(),
        tools: tools(args),
        agent: args.agent.clone(),
        slashes: if args.disable_slash_commands { SlashWish::Ignored } else { SlashWish::Read },
        agents,
        audience: if super::console::is_wanted(args) {
            Audience::Person
        } else {
            Audience::Program
        },
        ..SessionConfig::new(folders, world.new_id(), nature)
    })
}

/// The form of the result.
fn schema(text: &str) -> Result<serde_json::Value, Failure> {
    let hint = "the form is a JSON Schema: `{\"type\": \"object\", \"properties\": {…}}`";
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("`--json-schema` is not understood: {why}"), Some(hint))
    };
    let schema = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    match agent::schema::unusable(&schema) {
        Some(why) => Err(wrong(&why)),
        None => Ok(schema),
    }
}

/// A text that is given, or that of a file.
fn text_of(text: Option<&String>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(file) = file else { return Ok(text.cloned()) };
    let text = files::read_text(file, LONGEST_PROMPT);
    text.map(Some).map_err(|error| Failure::unreadable(file, error))
}

/// The longest file with a system prompt.
const LONGEST_PROMPT: u64 = 1 << 20;

/// The only tools that there are.
fn tools(args: &ChatArgs) -> Option<Vec<String>> {
    let names = args.tools.iter().flat_map(|names| names.split([',', ' ']));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let is_all = args.tools.is_empty() || names.iter().any(|name| name == "default");
    (!is_all).then_some(names)
}

/// The settings files that count.
fn sources(args: &ChatArgs) -> Result<Option<Vec<Source>>, Failure> {
    let Some(names) = &args.setting_sources else { return Ok(None) };
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let source = |name: &str| match name {
        "user" => Ok(Source::User),
        "project" => Ok(Source::Project),
        "local" => Ok(Source::Local),
        _ => {
            let hint = "use `user`, `project` and `local`, with commas between them";
            Err(Failure::usage(format!("`{name}` is no source of settings"), Some(hint)))
        }
    };
    names.map(source).collect::<Result<_, _>>().map(Some)
}

/// Where images of the folders are kept. The demonstration is in a folder that is thrown away.
fn images(
    world: &World,
    args: &ChatArgs,
    demo: Option<&Lab>,
) -> Result<Option<ImageWishes>, Failure> {
    if args.no_snapshots || demo.is_some() {
        return Ok(None);
    }
    let (folder, limits) = (world.snapshots_folder()?, world.snapshots.limits());
    Ok(Some(ImageWishes { folder, limits }))
}

/// What the user wants of the sandbox.
fn sandbox(world: &World, args: &ChatArgs) -> Result<SandboxWishes, Failure> {
    let mut limits = Limits::default();
    for text in &args.sandbox_limit {
        let wrong = || {
            let hint = "use `processes`, `memory`, `file` or `open`, `=` and a number; k, m and g may follow";
            Failure::usage(format!("`{text}` is no limit"), Some(hint))
        };
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        let digits = number.trim_end_matches(['k', 'm', 'g', 'K', 'M', 'G']);
        let shift = match number[digits.len()..].to_ascii_lowercase().as_str() {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            _ => return Err(wrong()),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        let number = number.filter(|number| *number > 0).ok_or_else(wrong)?;
        match name {
            "processes" => limits.processes = number,
            "memory" => limits.memory = number,
            "file" => limits.file = number,
            "open" => limits.open = number,
            _ => return Err(wrong()),
        }
    }
    let parent = |path: PathBuf| path.parent().map(Path::to_owned);
    let files = [world.config_file("trusted").ok(), world.seal_file().ok()];
    Ok(SandboxWishes {
        wish: match args.sandbox {
            SandboxArg::On => SandboxWish::On,
            SandboxArg::Require => SandboxWish::Require,
            SandboxArg::Off => SandboxWish::Off,
        },
        limits: Some(limits),
        network: args.sandbox_network.map(|switch| match switch {
            Switch::On => Network::On,
            Switch::Off => Network::Off,
        }),
        hidden: files.into_iter().flatten().filter_map(parent).collect(),
    })
}

fn permissions(args: &ChatArgs, demo: Option<&Lab>) -> PermitWishes {
    PermitWishes {
        mode: args.permission_mode.clone(),
        bypass: if args.dangerously_skip_permissions || demo.is_some() {
            BypassWish::Now
        } else if args.allow_dangerously_skip_permissions {
            BypassWish::Later
        } else {
            BypassWish::ByMode
        },
        // The commands of the demonstration are known.
        root: if demo.is_some() { RootRule::Exempt } else { RootRule::InSandbox },
        allowed: args.allowed_tools.clone(),
        refused: args.disallowed_tools.clone(),
        folders: args.add_dir.clone(),
    }
}

/// The session that the user wants to continue.
fn origin(world: &mut World, args: &ChatArgs) -> Result<Origin, Failure> {
    let Some(name) = &args.resume else {
        if args.resume_session_at.is_some() && !args.continues {
            let hint = "name the session with `--resume`, or use `--continue`";
            return Err(Failure::usage("`--resume-session-at` needs a session", Some(hint)));
        }
        return Ok(if args.continues { Origin::Newest } else { Origin::New });
    };
    if name.is_empty() {
        let hint = "name the session: `--resume SESSION`; `quipu ls` lists them";
        return Err(Failure::usage("there is no terminal to pick a session in", Some(hint)));
    }
    let session = select::session_to_change(world, name)?;
    // Samples are only for looking at.
    if world.has_samples() && !Path::new(name).exists() {
        let message = format!("session `{name}` not found");
        return Err(Failure::not_found(message, "leave out `--resume` to start a new one"));
    }
    Ok(Origin::Session(session))
}
