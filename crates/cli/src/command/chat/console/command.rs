//! The commands that are typed after a slash.
//!
//! What `quipu` can do is done by `quipu`: it is run beside the session, on its file. Invariant:
//! what cannot be done here is said, and nothing is sent to the model instead.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use ::console::News;
use ::console::composer::{Keymap, Prompt};
use ::console::run::{self, Flow, Stage};
use ::console::screen::{CommandName, TodoState};
use ::console::text::{Colors, Line, line, look, output_lines};
use agent::drive::Note;
use serde_json::json;

use super::backend::Backend;
use super::face;
use crate::catalog::CatalogArgs;
use crate::command::chat::ChatArgs;
use crate::pick::{self, PickWish, Scope};
use crate::screen::{Multiplexer, clipboard};
use crate::world::World;

/// The commands, and what they do.
const COMMANDS: [(&str, &str); 30] = [
    ("help", "the commands and the keys"),
    ("clear", "a new session; the old one stays"),
    ("compact", "summarise the conversation"),
    ("context", "what fills the context"),
    ("cost", "tokens and money of this session"),
    ("resume", "another session"),
    ("fork", "go on in a copy of this session"),
    ("rename", "give the session a title"),
    ("model", "another model: opus, sonnet, haiku or a name"),
    ("permissions", "the settings and rules in force"),
    ("hooks", "the hooks in the settings"),
    ("agents", "the agents that can be started"),
    ("rewind", "go back to an earlier prompt"),
    ("changes", "what was changed in files"),
    ("add-dir", "another folder that tools may work in"),
    ("tasks", "the commands in the background"),
    ("todos", "the todo list"),
    ("theme", "colours: on or off"),
    ("vim", "the keys of vi, on or off"),
    ("copy", "the last answer to the clipboard"),
    ("export", "the session as Markdown, to a file"),
    ("view", "the session in the browser: the command for it"),
    ("doctor", "what `quipu check` says about this session"),
    ("init", "let the model write CLAUDE.md"),
    ("memory", "edit CLAUDE.md"),
    ("status", "where and how this session runs"),
    ("keys", "the keys"),
    ("trust", "trust this folder from now on"),
    ("exit", "leave"),
    ("quit", "leave"),
];

/// The commands that can be typed, with those of the user and the project.
pub(super) fn names(project: &Path, home: &Path) -> Vec<CommandName> {
    let built_in = COMMANDS
        .iter()
        .map(|(name, about)| CommandName { name: (*name).to_owned(), about: (*about).to_owned() });
    let mut all: Vec<CommandName> = built_in.collect();
    for folder in [project.join(".claude"), home.to_owned()] {
        for (kind, about) in [("commands", "a command of yours"), ("skills", "a skill")] {
            let entries = std::fs::read_dir(folder.join(kind)).into_iter().flatten().flatten();
            for path in entries.take(500).map(|entry| entry.path()) {
                let is_command =
                    path.extension().is_some_and(|ending| ending == "md") || kind == "skills";
                let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
                if let Some(name) =
                    name.filter(|name| is_command && !all.iter().any(|one| one.name == *name))
                {
                    all.push(CommandName { name, about: about.to_owned() });
                }
            }
        }
    }
    all
}

/// The prompt of a command or skill of the user's or the project's.
fn custom(name: &str, rest: &str, project: &Path, home: &Path) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || "-_".contains(c);
    if !name.chars().all(is_name) {
        return None;
    }
    let files = [project.join(".claude"), home.to_owned()].into_iter().flat_map(|folder| {
        [
            folder.join("commands").join(format!("{name}.md")),
            folder.join("skills").join(name).join("SKILL.md"),
        ]
    });
    let text = files.into_iter().find_map(|path: PathBuf| files::read_text(path, 1 << 20).ok())?;
    let body = match text.strip_prefix("---\n").and_then(|text| text.split_once("\n---\n")) {
        Some((_, body)) => body.to_owned(),
        None => text,
    };
    let mut body = body.trim().to_owned();
    let has_place = body.contains("$ARGUMENTS");
    body = body.replace("$ARGUMENTS", rest);
    if !has_place && !rest.is_empty() {
        body.push_str("\n\n");
        body.push_str(rest);
    }
    Some(body)
}

/// Runs `quipu` with these arguments. Returns what it printed.
pub(super) fn program(world: &World, args: &[&str]) -> io::Result<Vec<String>> {
    let program = world.program().map_err(|failure| io::Error::other(failure.to_string()))?;
    let done = Command::new(program)
        .args(args)
        .env("COLUMNS", run::size().width.to_string())
        .stdin(Stdio::null())
        .output()?;
    let mut lines = output_lines(&String::from_utf8_lossy(&done.stdout));
    lines.extend(output_lines(&String::from_utf8_lossy(&done.stderr)));
    Ok(lines)
}

/// Does what a command says.
pub(super) fn run<W: Write>(
    backend: &mut Backend<'_>,
    name: &str,
    rest: &str,
    stage: &mut Stage<'_, W>,
) -> io::Result<Flow> {
    let id = backend.id.clone();
    match name {
        "exit" | "quit" => return Ok(Flow::Leave),
        "help" => {
            for command in stage.screen.commands().to_vec() {
                stage.screen.note(look::DIM, &format!("  /{:<12} {}", command.name, command.about));
            }
            stage.screen.print_keys();
        }
        "keys" => stage.screen.print_keys(),
        "clear" | "fork" | "add-dir" => return elsewhere(backend, name, rest, stage),
        "resume" => return resume(backend, rest, stage),
        "rename" if rest.is_empty() => stage.screen.note(look::DIM, "/rename TITLE"),
        "rename" => {
            backend.title = Some(rest.to_owned());
            stage.screen.note(look::DIM, "the session gets this title when you leave it");
        }
        "model" if rest.is_empty() => {
            let text = format!(
                "the model is {}; /model NAME switches with the next prompt",
                stage.screen.status.model
            );
            stage.screen.note(look::DIM, &text);
        }
        "model" => {
            let request = json!({"subtype": "set_model", "model": rest});
            backend.note(Note::Control(
                json!({"type": "control_request", "request_id": "console", "request": request}),
            ));
            stage.screen.note(
                look::DIM,
                &format!("from the next prompt on: {}", agent::model::named(Some(rest))),
            );
        }
        "theme" => theme(rest, stage),
        "vim" => {
            let keymap = if rest == "off" { Keymap::Emacs } else { Keymap::Vi };
            stage.screen.set_keymap(keymap);
            stage.screen.note(look::DIM, "/vim off: the usual keys");
        }
        "copy" => copy(backend, stage)?,
        "todos" => todos(backend, stage),
        "memory" => memory(backend, stage)?,
        "init" => {
            let text = "Look at this project, and write a CLAUDE.md for it: how to build, test and run it, how it is organised, and its conventions. Keep it short, and improve it if there is one.";
            return say(backend, text, stage);
        }
        "status" => {
            let status = &stage.screen.status;
            let lines = [
                format!("session  {id}"),
                format!("folder   {}", backend.site.root.display()),
                format!("model    {}", status.model),
                format!("mode     {}", status.mode),
                format!("sandbox  {}", status.sandbox),
                format!("context  {} of {} tokens", status.meter.context, status.meter.window),
            ];
            for text in lines {
                stage.screen.note(look::DIM, &text);
            }
        }
        "context" | "doctor" | "cost" | "changes" | "permissions" | "hooks" | "export"
        | "trust" => beside(backend, name, rest, stage),
        "rewind" => {
            let to = if rest.is_empty() { "N".to_owned() } else { rest.to_owned() };
            beside(backend, "rewind", rest, stage);
            let text = format!(
                "this is what would be undone; to do it, leave and run: quipu rewind {id} --to {to}"
            );
            stage.screen.note(look::DIM, &text);
        }
        "view" => stage.screen.note(look::DIM, &format!("in another terminal: quipu view {id}")),
        "tasks" => tasks(stage),
        "compact" | "agents" => {
            stage.screen.note(look::WARN, &format!("/{name} is not available here yet"));
        }
        _ => match custom(name, rest, &backend.site.root, &backend.home) {
            Some(text) => return say(backend, &text, stage),
            None => stage
                .screen
                .note(look::WARN, &format!("there is no command /{name}; /help lists them")),
        },
    }
    Ok(Flow::On)
}

/// Goes on in another session, or in this one with other flags.
fn elsewhere<W: Write>(
    backend: &mut Backend<'_>,
    name: &str,
    rest: &str,
    stage: &mut Stage<'_, W>,
) -> io::Result<Flow> {
    let id = backend.id.clone();
    match name {
        "clear" => {
            return go(
                backend,
                ChatArgs {
                    resume: None,
                    continues: false,
                    fork_session: false,
                    session_id: None,
                    ..fresh(backend.args)
                },
            );
        }
        "fork" if backend.has_spoken || backend.args.resume.is_some() => {
            return go(
                backend,
                ChatArgs {
                    resume: Some(id),
                    continues: false,
                    fork_session: true,
                    session_id: None,
                    ..fresh(backend.args)
                },
            );
        }
        "fork" => stage.screen.note(look::DIM, "there is nothing to copy yet"),
        "add-dir" if rest.is_empty() => stage.screen.note(look::DIM, "/add-dir FOLDER"),
        "add-dir" => {
            let folder = backend.site.root.join(rest);
            if !folder.is_dir() {
                stage.screen.note(look::WARN, &format!("`{rest}` is no folder"));
                return Ok(Flow::On);
            }
            let mut args = fresh(backend.args);
            args.add_dir.push(folder);
            args.resume = (backend.has_spoken || args.resume.is_some()).then_some(id);
            return go(
                backend,
                ChatArgs { continues: false, fork_session: false, session_id: None, ..args },
            );
        }
        _ => {}
    }
    Ok(Flow::On)
}

/// The flags without what was for the first session only.
fn fresh(args: &ChatArgs) -> ChatArgs {
    ChatArgs { prompt: None, name: None, ..args.clone() }
}

#[allow(clippy::unnecessary_wraps, reason = "like the other commands")]
fn go(backend: &mut Backend<'_>, args: ChatArgs) -> io::Result<Flow> {
    backend.next = Some(args);
    Ok(Flow::Leave)
}

/// Sends a prompt that a command made.
#[allow(clippy::unnecessary_wraps, reason = "like the other commands")]
fn say<W: Write>(
    backend: &mut Backend<'_>,
    text: &str,
    stage: &mut Stage<'_, W>,
) -> io::Result<Flow> {
    stage.screen.hear(News::Begin, stage.now);
    backend.say(&Prompt::typed(text));
    Ok(Flow::On)
}

fn resume<W: Write>(
    backend: &mut Backend<'_>,
    rest: &str,
    stage: &mut Stage<'_, W>,
) -> io::Result<Flow> {
    let catalog = CatalogArgs::default();
    let wish =
        PickWish { verb: "resume", query: rest.to_owned(), scope: Scope::All, catalog: &catalog };
    let world = &mut *backend.world;
    let picked = run::outside(stage.terminal, || Ok(pick::pick(world, &wish)))?;
    match picked {
        Ok(picked) => {
            let args = ChatArgs {
                resume: Some(picked.name),
                continues: false,
                fork_session: false,
                session_id: None,
                ..fresh(backend.args)
            };
            go(backend, args)
        }
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                stage.screen.note(look::DIM, &text);
            }
            Ok(Flow::On)
        }
    }
}

fn theme<W: Write>(rest: &str, stage: &mut Stage<'_, W>) {
    match rest {
        "off" | "none" => stage.terminal.set_colors(Colors::None),
        "on" | "" => stage.terminal.set_colors(Colors::Sixteen),
        _ => stage.screen.note(
            look::DIM,
            "/theme on: the terminal's own colours, light or dark; /theme off: none",
        ),
    }
}

fn copy<W: Write>(backend: &mut Backend<'_>, stage: &mut Stage<'_, W>) -> io::Result<()> {
    if backend.answer.is_empty() {
        stage.screen.note(look::DIM, "there is no answer yet");
        return Ok(());
    }
    let within = match backend.world.variable("TMUX") {
        Some(_) => Multiplexer::Tmux,
        None => Multiplexer::None,
    };
    let out = stage.terminal.out();
    out.write_all(clipboard::sequence(backend.answer.trim(), within).as_bytes())?;
    out.flush()?;
    stage.screen.note(look::DIM, "copied, if the terminal allows it");
    Ok(())
}

fn todos<W: Write>(backend: &Backend<'_>, stage: &mut Stage<'_, W>) {
    let todos = face::todos(&backend.site);
    if todos.is_empty() {
        stage.screen.note(look::DIM, "there is nothing to do");
    }
    for todo in todos {
        let mark = match todo.state {
            TodoState::Done => "☒",
            TodoState::Now => "▸",
            TodoState::Open => "☐",
        };
        stage.screen.note(look::DIM, &format!("  {mark} {}", todo.text));
    }
}

fn tasks<W: Write>(stage: &mut Stage<'_, W>) {
    let tasks = stage.screen.tasks().to_vec();
    if tasks.is_empty() {
        stage.screen.note(look::DIM, "no command runs in the background");
    }
    for task in tasks {
        stage.screen.note(look::DIM, &format!("  {}  {}", task.id, task.command));
    }
}

fn memory<W: Write>(backend: &mut Backend<'_>, stage: &mut Stage<'_, W>) -> io::Result<()> {
    let Some(editor) = backend.world.editor() else {
        stage.screen.note(look::WARN, "set `EDITOR` to edit files");
        return Ok(());
    };
    let path = backend.site.root.join("CLAUDE.md");
    run::outside(stage.terminal, || {
        Command::new("/bin/sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(&path).status()
    })?;
    stage.screen.note(look::DIM, "what changed is sent with the next session");
    Ok(())
}

/// Runs `quipu` beside the session, in a thread.
fn beside<W: Write>(backend: &mut Backend<'_>, name: &str, rest: &str, stage: &mut Stage<'_, W>) {
    let id = backend.id.clone();
    let needs_session = !matches!(name, "permissions" | "hooks" | "trust");
    if needs_session && !backend.has_spoken && backend.args.resume.is_none() {
        stage.screen.note(look::DIM, "nothing was said yet");
        return;
    }
    let file = if rest.is_empty() { format!("{id}.md") } else { rest.to_owned() };
    let args: Vec<String> = match name {
        "context" => vec!["context".to_owned(), id],
        "doctor" => vec!["check".to_owned(), id],
        "cost" => vec!["usage".to_owned(), "--explain".to_owned(), id],
        "changes" => vec!["changes".to_owned(), id],
        "rewind" => {
            let mut args = vec!["rewind".to_owned(), id, "--dry-run".to_owned()];
            if !rest.is_empty() {
                args.extend(["--to".to_owned(), rest.to_owned()]);
            }
            args
        }
        "export" => vec!["export".to_owned(), "md".to_owned(), id, "-o".to_owned(), file],
        "trust" => vec!["chat".to_owned(), "--trust".to_owned()],
        _ => vec!["chat".to_owned(), "--settings-check".to_owned()],
    };
    let home = backend.home.display().to_string();
    let mut all: Vec<String> = vec!["--home".to_owned(), home];
    if !needs_session {
        all.clear();
    }
    all.extend(args);
    let (tell, waker) = (backend.later.0.clone(), backend.waker.clone());
    let Ok(program) = backend.world.program() else { return };
    let cwd = backend.site.root.clone();
    let width = run::size().width.to_string();
    thread::spawn(move || {
        let done = Command::new(program)
            .args(all)
            .current_dir(cwd)
            .env("COLUMNS", width)
            .stdin(Stdio::null())
            .output();
        let lines: Vec<Line<'static>> = match done {
            Ok(done) => {
                let mut lines = output_lines(&String::from_utf8_lossy(&done.stdout));
                lines.extend(output_lines(&String::from_utf8_lossy(&done.stderr)));
                lines.iter().map(|text| Line::from(text.clone())).collect()
            }
            Err(error) => vec![line(look::BAD, &error.to_string())],
        };
        let _ = tell.send(News::Lines(lines));
        if let Some(waker) = waker {
            waker.wake();
        }
    });
}
