//! The commands that are typed after a slash.
//!
//! What `quipu` can do is done by `quipu` (`beside`). Invariant: what cannot be done here is said,
//! and nothing is sent to the model instead.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use ::console::composer::{Keymap, Prompt};
use ::console::run::{self, Backend as _, Flow, Stage};
use ::console::screen::{CommandName, News, TodoState, Wish};
use ::console::text::{Colors, line, look, output_lines};
use agent::drive::Departure;
use agent::permit::Bypass;
use agent::slash::SlashBook;
use serde_json::json;

use super::backend::Backend;
use super::beside::beside;
use super::{Seen, agent_file, browser, face, list, rewind};
use crate::catalog::CatalogArgs;
use crate::command::chat::ChatArgs;
use crate::pick::{self, PickWish, Scope};
use crate::screen::{Multiplexer, clipboard};
use crate::text::one_line;

/// The commands, and what they do.
const COMMANDS: [(&str, &str); 35] = [
    ("help", "the commands and the keys"),
    ("clear", "a new session; the old one stays"),
    ("compact", "summarise the conversation"),
    ("context", "what fills the context"),
    ("cost", "tokens and money of this session"),
    ("resume", "another session"),
    ("fork", "go on in a copy of this session"),
    ("rename", "give the session a title"),
    ("model", "another model: a list, or a name"),
    ("mode", "another permission mode: default, acceptEdits, plan, auto"),
    ("permissions", "the settings and rules in force"),
    ("hooks", "the hooks in the settings"),
    ("agents", "the agents that can be started; `NAME`: edit one, or a new one"),
    ("rewind", "go back to an earlier prompt"),
    ("changes", "what was changed in files"),
    ("add-dir", "another folder that tools may work in"),
    ("tasks", "commands in the background; `ID`: its output, `stop ID`: end it"),
    ("thinking", "how much may be thought: a list, a number, on or off"),
    ("background", "send the running command to the background"),
    ("open", "show what is folded; `all`: of earlier turns, too; again: fold"),
    ("queue", "prompts that wait; `N TEXT`: change one, `drop N`: take it back"),
    ("todos", "the todo list"),
    ("theme", "colours: on or off"),
    ("vim", "the keys of vi, on or off"),
    ("copy", "the last answer to the clipboard"),
    ("export", "the session as Markdown, to a file"),
    ("view", "the session in a browser"),
    ("doctor", "what `quipu check` says about this session"),
    ("init", "let the model write CLAUDE.md"),
    ("memory", "edit CLAUDE.md"),
    ("status", "where and how this session runs"),
    ("keys", "the keys"),
    ("trust", "trust this folder from now on"),
    ("exit", "leave"),
    ("quit", "leave"),
];

/// How many tokens are for thinking, if nobody says how many.
const THINKING: u64 = 16_000;

/// The commands that can be typed, with those of the user and the project.
pub(super) fn names(slashes: &SlashBook) -> Vec<CommandName> {
    let built_in = COMMANDS
        .iter()
        .map(|(name, about)| CommandName { name: (*name).to_owned(), about: (*about).to_owned() });
    let written = slashes.for_user().map(|slash| CommandName {
        name: slash.name.clone(),
        about: one_line(&format!("{} {}", slash.hint, slash.description)).trim().to_owned(),
    });
    let is_new = |one: &CommandName| !COMMANDS.iter().any(|(name, _)| *name == one.name);
    built_in.chain(written.filter(is_new)).collect()
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
        "rename" if !backend.has_begun() => stage.screen.note(look::DIM, "nothing was said yet"),
        "rename" => {
            backend.control(&json!({"subtype": "rename_session", "title": rest}));
            backend.has_topic = true;
            stage.screen.set_topic(rest);
            stage.screen.note(look::DIM, &format!("the session is called `{rest}` now"));
        }
        "model" if rest.is_empty() => list::models(stage),
        "model" => {
            backend.control(&json!({"subtype": "set_model", "model": rest}));
            stage.screen.note(
                look::DIM,
                &format!("from the next prompt on: {}", agent::model::named(Some(rest))),
            );
        }
        "mode" if rest.is_empty() || !backend.switch_mode(rest) => {
            let text = format!(
                "the mode is {}; /mode default, acceptEdits, plan, auto or dontAsk switches it",
                stage.screen.status.mode
            );
            stage.screen.note(look::DIM, &text);
        }
        "mode" => {}
        "theme" => theme(rest, stage),
        "vim" => {
            let keymap = if rest == "off" { Keymap::Emacs } else { Keymap::Vi };
            stage.screen.set_keymap(keymap);
            let text = match keymap {
                Keymap::Vi => "the keys of vi; /vim off: the usual ones",
                Keymap::Emacs => "the usual keys; /vim: those of vi",
            };
            stage.screen.note(look::DIM, text);
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
        "rewind" => backend.note(rewind::begin()),
        "view" => browser::view(backend, stage),
        "tasks" => tasks(backend, rest, stage),
        "thinking" if rest.is_empty() => list::thinking(stage),
        "thinking" => thinking(backend, rest, stage),
        "agents" if rest.is_empty() => {
            for (name, about) in &backend.agents {
                stage.screen.note(look::DIM, &format!("  {name}  {about}"));
            }
        }
        "agents" => agent_file::edit(backend, rest, stage)?,
        "open" if rest == "all" => stage.screen.open_older(stage.now),
        "open" => stage.screen.open_all(stage.now),
        "background" => return backend.wish(Wish::Background, stage),
        "queue" => queue(rest, stage),
        // The session itself does this.
        "compact" if backend.has_begun() => {
            return say(backend, format!("/compact {rest}").trim_end(), stage);
        }
        "compact" => stage.screen.note(look::DIM, "nothing was said yet"),
        _ if backend.slashes.for_user().any(|slash| slash.name == name) => {
            return say(backend, &format!("/{name} {rest}"), stage);
        }
        _ => {
            let text = format!("there is no command /{name}; /help lists them");
            stage.screen.note(look::WARN, &text);
        }
    }
    Ok(Flow::On)
}

/// Goes on in this session after what came before a prompt is summed up.
#[allow(clippy::unnecessary_wraps, reason = "like the other commands")]
pub(super) fn sum_up_before<W: Write>(
    backend: &mut Backend<'_>,
    prompt: String,
    stage: &mut Stage<'_, W>,
) -> io::Result<Flow> {
    if stage.screen.is_busy() {
        stage.screen.note(look::WARN, "not while a turn runs");
        return Ok(Flow::On);
    }
    backend.sum_up_before = Some(prompt);
    let args = ChatArgs { resume: Some(backend.id.clone()), ..as_now(backend, stage) };
    go(
        backend,
        ChatArgs { continues: false, fork_session: false, session_id: None, ..args },
        Seen::Yes,
    )
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
                    after: Some(Departure::Clear),
                    ..as_now(backend, stage)
                },
                Seen::No,
            );
        }
        "fork" if backend.has_begun() => {
            return go(
                backend,
                ChatArgs {
                    resume: Some(id),
                    continues: false,
                    fork_session: true,
                    session_id: None,
                    ..as_now(backend, stage)
                },
                Seen::Yes,
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
            let mut args = as_now(backend, stage);
            args.add_dir.push(folder);
            args.resume = backend.has_begun().then_some(id);
            return go(
                backend,
                ChatArgs { continues: false, fork_session: false, session_id: None, ..args },
                Seen::Yes,
            );
        }
        _ => {}
    }
    Ok(Flow::On)
}

/// The flags without what was for the first session only.
fn fresh(args: &ChatArgs) -> ChatArgs {
    ChatArgs { prompt: None, name: None, after: None, ..args.clone() }
}

/// The same, with the model and the mode of now. What may be switched to stays the same.
fn as_now<W: Write>(backend: &Backend<'_>, stage: &Stage<'_, W>) -> ChatArgs {
    let status = &stage.screen.status;
    ChatArgs {
        model: Some(status.model.clone()),
        permission_mode: Some(status.mode.clone()),
        dangerously_skip_permissions: false,
        allow_dangerously_skip_permissions: backend.bypass == Bypass::Offered,
        ..fresh(backend.args)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "like the other commands")]
fn go(backend: &mut Backend<'_>, args: ChatArgs, seen: Seen) -> io::Result<Flow> {
    backend.next = Some((args, seen));
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
    let picked = if stage.screen.is_lines_only() {
        // An answer is this command with a name that leads to one session.
        match list::sessions(backend.world, rest, stage) {
            Ok(Some(name)) => Ok(name),
            Ok(None) => return Ok(Flow::On),
            Err(failure) => Err(failure),
        }
    } else {
        let catalog = CatalogArgs::default();
        let query = rest.to_owned();
        let wish = PickWish { verb: "resume", query, scope: Scope::All, catalog: &catalog };
        let world = &mut *backend.world;
        let picked = run::outside(stage.terminal, || Ok(pick::pick(world, &wish)))?;
        picked.map(|picked| picked.name)
    };
    match picked {
        Ok(name) => {
            let args = ChatArgs {
                resume: Some(name),
                continues: false,
                fork_session: false,
                session_id: None,
                after: Some(Departure::Resume),
                ..fresh(backend.args)
            };
            go(backend, args, Seen::No)
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
        "off" | "none" => {
            stage.terminal.set_colors(Colors::None);
            stage.screen.note(look::DIM, "no colours from now on; /theme on has them again");
        }
        "on" => {
            stage.terminal.set_colors(Colors::Sixteen);
            stage.screen.note(look::DIM, "the terminal's own colours from now on");
        }
        _ => stage.screen.note(
            look::DIM,
            "/theme on: the terminal's own colours, light or dark; /theme off: none",
        ),
    }
}

fn copy<W: Write>(backend: &mut Backend<'_>, stage: &mut Stage<'_, W>) -> io::Result<()> {
    if backend.answer.text.is_empty() {
        stage.screen.note(look::DIM, "there is no answer yet");
        return Ok(());
    }
    if !backend.is_obeyed() {
        stage.screen.note(look::WARN, "this terminal has no clipboard; /export writes a file");
        return Ok(());
    }
    let within = match backend.world.variable("TMUX") {
        Some(_) => Multiplexer::Tmux,
        None => Multiplexer::None,
    };
    let out = stage.terminal.out();
    out.write_all(clipboard::sequence(backend.answer.text.trim(), within).as_bytes())?;
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

fn thinking<W: Write>(backend: &mut Backend<'_>, rest: &str, stage: &mut Stage<'_, W>) {
    let tokens = match rest {
        "on" => Some(THINKING),
        "off" => Some(0),
        number => number.parse().ok(),
    };
    let Some(tokens) = tokens else {
        stage.screen.note(look::DIM, "/thinking on, off, or a number of tokens");
        return;
    };
    backend.control(&json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens}));
    backend.status.is_thinking = tokens > 0;
    stage.screen.note(look::DIM, &format!("from the next request on: {tokens} tokens of thinking"));
}

fn tasks<W: Write>(backend: &Backend<'_>, rest: &str, stage: &mut Stage<'_, W>) {
    let tasks = stage.screen.tasks().to_vec();
    if let Some(id) = rest.strip_prefix("stop").map(str::trim) {
        let text = if tasks.iter().any(|task| task.id == id) {
            backend.control(&json!({"subtype": "stop_task", "task_id": id}));
            format!("{id} is stopped")
        } else {
            "/tasks stop ID; /tasks lists them".to_owned()
        };
        stage.screen.note(look::DIM, &text);
        return;
    }
    if !rest.is_empty() {
        let text = match tasks.iter().find(|task| task.id == rest) {
            Some(task) => backend.site.printed(&task.id).unwrap_or("nothing yet".to_owned()),
            None => format!("no command `{rest}` runs in the background; /tasks lists them"),
        };
        let lines = output_lines(&text).into_iter().map(|text| line(look::DIM, &text));
        stage.screen.print(lines.collect());
        return;
    }
    if tasks.is_empty() {
        stage.screen.note(look::DIM, "no command runs in the background");
    }
    for task in tasks {
        stage.screen.note(look::DIM, &format!("  {}  {}", task.id, task.command));
    }
}

fn queue<W: Write>(rest: &str, stage: &mut Stage<'_, W>) {
    let screen = &mut *stage.screen;
    let waiting = screen.waiting();
    let number = |word: &str| {
        let number = word.trim().parse::<usize>().ok()?.checked_sub(1)?;
        (number < waiting.len()).then_some(number)
    };
    let (word, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let change = match word {
        "drop" => number(text).map(|at| (at, None)),
        _ => number(word).filter(|_| !text.trim().is_empty()).map(|at| (at, Some(text.trim()))),
    };
    match change {
        Some((at, text)) => screen.change_waiting(at, text),
        None if !rest.is_empty() => {
            screen.note(look::DIM, "/queue, /queue N TEXT, /queue drop N: prompts that wait");
            return;
        }
        None => {}
    }
    let waiting = screen.waiting();
    if waiting.is_empty() {
        screen.note(look::DIM, "nothing waits");
    }
    for (number, text) in waiting.iter().enumerate() {
        screen.note(look::DIM, &format!("  {}  {}", number + 1, one_line(text)));
    }
}

fn memory<W: Write>(backend: &mut Backend<'_>, stage: &mut Stage<'_, W>) -> io::Result<()> {
    let path = backend.site.root.join("CLAUDE.md");
    if edit_file(backend, &path, stage)? {
        stage.screen.note(look::DIM, "what changed is sent with the next session");
    }
    Ok(())
}

/// Opens a file in the user's editor. Returns whether there is one.
pub(super) fn edit_file<W: Write>(
    backend: &Backend<'_>,
    path: &Path,
    stage: &mut Stage<'_, W>,
) -> io::Result<bool> {
    let Some(editor) = backend.world.editor() else {
        stage.screen.note(look::WARN, "set `EDITOR` to edit files");
        return Ok(false);
    };
    run::outside(stage.terminal, || {
        Command::new("/bin/sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(path).status()
    })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_commands_fits_a_usual_window() {
        for (name, about) in COMMANDS {
            let line = format!("  /{name:<12} {about}");
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
