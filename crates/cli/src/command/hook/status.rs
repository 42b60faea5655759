//! `quipu hook status`: whether the hook is there, and whether it can run.

use std::path::Path;

use anstyle::Style;
use serde::Serialize;

use super::change::Settings;
use super::settings::{self, EVENTS, Wrong};
use crate::command::JSON_VERSION;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, Span};
use crate::text::shown;
use crate::world::World;

/// Say whether the hook is installed, and whether it can run
///
/// For each home: the events that the hook is installed for, its command, whether that program is there, and whether all hooks are switched off in the same file. Settings of projects are not looked at.
#[derive(clap::Args, Debug)]
pub(super) struct StatusArgs {
    /// One JSON object a home
    #[arg(long)]
    json: bool,
}

pub(super) fn status(world: &mut World, args: &StatusArgs) -> Result<(), Failure> {
    let own = world.program()?;
    for home in world.known_homes()? {
        let settings = Settings::read(&home)?;
        let path = settings.path.display().to_string();
        let found = Found::of(&settings.text, &own);
        if args.json {
            world.out.json(&Row::new(&home, &path, &found))?;
        } else {
            let install = format!("`{} hook install`", world.reaching(&home));
            tell(world, &path, &install, &found)?;
        }
    }
    Ok(())
}

/// What settings say about the hook.
struct Found {
    hooks: Vec<Installed>,
    are_off: bool,
}

#[derive(Serialize)]
struct Installed {
    event: &'static str,
    command: String,
    program: String,
    /// Whether the program is there; nothing if only a shell knows where that is.
    exists: Option<bool>,
}

impl Found {
    fn of(text: &str, own: &str) -> Result<Found, Wrong> {
        let hooks = settings::hooks(text, own)?.into_iter().map(|hook| {
            let path = Path::new(&hook.program);
            let exists = path.is_absolute().then(|| path.is_file());
            let (event, command) = (hook.event, hook.command.into_owned());
            Installed { event, command, program: hook.program, exists }
        });
        Ok(Found { hooks: hooks.collect(), are_off: settings::are_off(text)? })
    }

    /// The events for which there is a hook, and those for which there is none.
    fn events(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let has = |event: &&str| self.hooks.iter().any(|hook| hook.event == *event);
        EVENTS.into_iter().partition(has)
    }
}

/// For people; `install` is the command that makes it right.
fn tell(
    world: &mut World,
    path: &str,
    install: &str,
    found: &Result<Found, Wrong>,
) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    page.line(&[Span::new(BOLD, shown(path))])?;
    let found = match found {
        Ok(found) => found,
        Err(wrong) => return row(page, "hook", WARN, &format!("not known: {wrong}")),
    };
    let (with, without) = found.events();
    match (with.as_slice(), without.as_slice()) {
        ([], _) => row(page, "hook", WARN, &format!("not installed: {install} puts it there"))?,
        (_, []) => row(page, "hook", GOOD, &format!("installed for {}", with.join(", ")))?,
        _ => {
            let (with, without) = (with.join(", "), without.join(", "));
            let text = format!("installed for {with}, not for {without}: {install} adds it");
            row(page, "hook", WARN, &text)?;
        }
    }
    let mut told: Vec<&str> = Vec::new();
    for hook in &found.hooks {
        if told.contains(&hook.command.as_str()) {
            continue;
        }
        told.push(&hook.command);
        let same = found.hooks.iter().filter(|other| other.command == hook.command);
        let events: Vec<&str> = same.map(|other| other.event).collect();
        let is_only = events.len() == found.hooks.len();
        let of = if is_only { String::new() } else { format!("  for {}", events.join(", ")) };
        // It is to be copied: it stays on one line.
        let command = Span::plain(shown(&hook.command));
        page.line(&[Span::named("command"), command, Span::new(DIM, of)])?;
        if hook.exists == Some(false) {
            let text = format!("`{}` is not there: {install} names this one", hook.program);
            row(page, "program", WARN, &text)?;
        }
    }
    if found.are_off {
        row(page, "hooks", WARN, "switched off in this file: `disableAllHooks` is true")?;
    }
    Ok(())
}

fn row(page: &mut Page<'_>, name: &str, style: Style, text: &str) -> Result<(), Failure> {
    Ok(page.paragraph(&Lead::hanging(Span::named(name)), &[Span::new(style, shown(text))])?)
}

#[derive(Serialize)]
struct Row<'a> {
    v: u32,
    home: String,
    path: &'a str,
    installed: Option<bool>,
    hooks: &'a [Installed],
    disabled: Option<bool>,
    error: Option<String>,
}

impl<'a> Row<'a> {
    fn new(home: &Path, path: &'a str, found: &'a Result<Found, Wrong>) -> Self {
        let row = Row {
            v: JSON_VERSION,
            home: home.display().to_string(),
            path,
            installed: None,
            hooks: &[],
            disabled: None,
            error: None,
        };
        match found {
            Ok(found) => Row {
                installed: Some(found.events().1.is_empty()),
                hooks: &found.hooks,
                disabled: Some(found.are_off),
                ..row
            },
            Err(wrong) => Row { error: Some(wrong.to_string()), ..row },
        }
    }
}
