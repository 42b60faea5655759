//! `quipu hook status`: whether the hook is installed, and whether it can run.

use std::path::Path;

use export::jobs::{Aside, aside_folder, set_aside, waiting};
use export::queue::Queue;
use export::receiver::Receiver;
use ratatui::style::Style;
use serde::Serialize;

use super::change::Settings;
use super::settings::{self, EVENTS, Wrong};
use crate::failure::Failure;
use crate::jobs;
use crate::out::JSON_VERSION;
use crate::out::{BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::receiver::{self, ReceiverArgs};
use crate::text::{age, count, quoted, shown, size};
use crate::world::World;

/// Show whether the hook is installed, and whether it can run
///
/// For each home: the events that the hook is installed for, its command, whether that program
/// exists, and whether all hooks are disabled in the same file. Settings of projects are not read.
/// Then the receiver: its address, what waits for it, which jobs of hooks were set aside and why,
/// what it refused, what was damaged on disk, and the end of the log.
#[derive(clap::Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    receiver: ReceiverArgs,
    /// Print one JSON object per home, and one for the receiver
    #[arg(long)]
    json: bool,
}

pub(super) fn status(world: &mut World, args: &StatusArgs) -> Result<(), Failure> {
    let exe = world.program()?;
    for home in world.known_homes()? {
        let settings = Settings::read(&home)?;
        let path = settings.path.display().to_string();
        let found = Found::of(&settings.text, &exe);
        if args.json {
            world.out.json(&StatusRow::new(&home, &path, &found))?;
        } else {
            let install = format!("`{} hook install`", world.reaching(&home));
            tell(world, &path, &install, &found)?;
        }
    }
    let receiver = receiver::look_for(world, &args.receiver)?;
    let waits = Waits::new(world, receiver.as_ref())?;
    if args.json {
        return Ok(world.out.json(&waits)?);
    }
    delivery(world, receiver.as_ref(), &waits)
}

/// What is on its way to a receiver.
#[derive(Serialize)]
struct Waits {
    v: u32,
    receiver: Option<String>,
    named_by: Option<&'static str>,
    jobs: usize,
    /// Jobs that are not retried automatically.
    aside: Vec<Aside>,
    batches: usize,
    bytes: u64,
    refused: Vec<String>,
    refused_folder: Option<String>,
    /// Batches that are damaged on disk.
    damaged: usize,
    /// Seconds since something arrived.
    arrived: Option<u64>,
    log: String,
}

impl Waits {
    fn new(world: &World, receiver: Option<&Receiver>) -> Result<Waits, Failure> {
        let receiver_dir = receiver.map(|receiver| &receiver.dir);
        let spool = receiver_dir.map(|receiver_dir| &receiver_dir.spool);
        let refused = spool.map(Queue::refused).unwrap_or_default();
        let newest = receiver_dir.and_then(|receiver_dir| receiver_dir.states.newest());
        Ok(Waits {
            v: JSON_VERSION,
            receiver: receiver.map(Receiver::shown),
            named_by: receiver.map(|receiver| receiver.named_by),
            jobs: receiver_dir.map_or(0, waiting),
            aside: receiver_dir.map(set_aside).unwrap_or_default(),
            batches: spool.map_or(0, |spool| spool.waiting().len()),
            bytes: spool.map_or(0, Queue::size),
            refused: refused.into_iter().map(|(_, why)| why).collect(),
            refused_folder: spool.map(|spool| spool.refused_folder().display().to_string()),
            damaged: spool.map_or(0, |spool| spool.damaged().len()),
            arrived: newest.map(|newest| world.since(newest).as_secs()),
            log: jobs::log(world)?.path().display().to_string(),
        })
    }
}

/// How many lines of the log are shown.
const LINES: usize = 5;

fn delivery(world: &mut World, receiver: Option<&Receiver>, waits: &Waits) -> Result<(), Failure> {
    let tail = jobs::log(world)?.tail(LINES);
    let page = &mut Page::new(&mut world.out);
    page.line(&[styled(BOLD, "receiver".to_owned())])?;
    match receiver {
        Some(receiver) => {
            let text = format!("{} (from {})", receiver.shown(), receiver.named_by);
            row(page, "to", GOOD, &text)?;
        }
        None => row(page, "to", WARN, NOBODY)?,
    }
    if let Some(seconds) = waits.arrived {
        let ago =
            if seconds < 60 { "just now".to_owned() } else { format!("{} ago", age(seconds)) };
        row(page, "arrived", DIM, &ago)?;
    }
    if waits.jobs > 0 {
        row(page, "jobs", WARN, &format!("{} not done yet", count(waits.jobs as u64, "job")))?;
    }
    for aside in waits.aside.iter().take(LINES) {
        row(page, "aside", WARN, &jobs::of_aside(aside))?;
    }
    if let (Some(receiver), Some(_)) = (receiver, waits.aside.first()) {
        let all = match waits.aside.len().saturating_sub(LINES) {
            0 => String::new(),
            more => format!("and {more} more; "),
        };
        let text = format!("{all}`quipu ship --all` tries again; this drops them:");
        row(page, "", DIM, &text)?;
        // A line to copy: it stays on one line.
        let folder = quoted(&aside_folder(&receiver.dir).display().to_string());
        page.line(&[label(""), unstyled(format!("rm -r {folder}"))])?;
    }
    if waits.batches > 0 {
        let batches = count(waits.batches as u64, "batch of spans|batches of spans");
        let bytes = size(waits.bytes);
        let text = format!("{batches}, {bytes}: the next hook or `quipu ship --all` tries again");
        row(page, "waiting", WARN, &text)?;
    }
    if let (Some(why), Some(folder)) = (waits.refused.first(), &waits.refused_folder) {
        let batches = count(waits.refused.len() as u64, "batch|batches");
        row(page, "refused", WARN, &format!("{batches} in `{folder}`: {why}"))?;
    }
    if let (1.., Some(folder)) = (waits.damaged, &waits.refused_folder) {
        let batches = count(waits.damaged as u64, "batch|batches");
        let what = "damaged on disk, not sent: `quipu ship --all` makes them again";
        row(page, "damaged", WARN, &format!("{batches} in `{folder}`: {what}"))?;
    }
    if !tail.is_empty() {
        row(page, "log", DIM, &waits.log)?;
    }
    for line in tail {
        page.line(&[styled(DIM, shown(&format!("  {line}")))])?;
    }
    Ok(())
}

const NOBODY: &str = "none is configured: set LANGFUSE_* or OTEL_EXPORTER_OTLP_* where Claude Code runs, or `[ship]` in the configuration";

/// The hook in one settings file.
struct Found {
    hooks: Vec<Installed>,
    are_off: bool,
}

#[derive(Serialize)]
struct Installed {
    event: &'static str,
    command: String,
    program: String,
    /// Whether the program exists; `None` if only a shell can find it.
    exists: Option<bool>,
}

impl Found {
    fn of(text: &str, exe: &str) -> Result<Found, Wrong> {
        let hooks = settings::hooks(text, exe)?.into_iter().map(|hook| {
            let path = Path::new(&hook.program);
            let exists = path.is_absolute().then(|| path.is_file());
            let (event, command) = (hook.event, hook.command.into_owned());
            Installed { event, command, program: hook.program, exists }
        });
        Ok(Found { hooks: hooks.collect(), are_off: settings::are_off(text)? })
    }

    /// The events that have a hook, and those that have none.
    fn events(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let has = |event: &&str| self.hooks.iter().any(|hook| hook.event == *event);
        EVENTS.into_iter().partition(has)
    }
}

/// Prints this for people; `install` is the command that fixes it.
fn tell(
    world: &mut World,
    path: &str,
    install: &str,
    found: &Result<Found, Wrong>,
) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    page.line(&[styled(BOLD, shown(path))])?;
    let found = match found {
        Ok(found) => found,
        Err(wrong) => return row(page, "hook", WARN, &format!("unknown: {wrong}")),
    };
    let (with, without) = found.events();
    match (with.as_slice(), without.as_slice()) {
        ([], _) => row(page, "hook", WARN, &format!("not installed: {install} installs it"))?,
        (_, []) => row(page, "hook", GOOD, &format!("installed for {}", with.join(", ")))?,
        _ => {
            let (with, without) = (with.join(", "), without.join(", "));
            let text = format!("installed for {with}, not for {without}: {install} adds it");
            row(page, "hook", WARN, &text)?;
        }
    }
    let mut seen_commands: Vec<&str> = Vec::new();
    for hook in &found.hooks {
        if seen_commands.contains(&hook.command.as_str()) {
            continue;
        }
        seen_commands.push(&hook.command);
        let same = found.hooks.iter().filter(|other| other.command == hook.command);
        let events: Vec<&str> = same.map(|other| other.event).collect();
        let is_only = events.len() == found.hooks.len();
        let of = if is_only { String::new() } else { format!("  for {}", events.join(", ")) };
        // A line to copy: it stays on one line.
        let command = unstyled(shown(&hook.command));
        page.line(&[label("command"), command, styled(DIM, of)])?;
        if hook.exists == Some(false) {
            let text =
                format!("`{}` does not exist: {install} sets the path of this quipu", hook.program);
            row(page, "program", WARN, &text)?;
        }
    }
    if found.are_off {
        row(page, "hooks", WARN, "disabled in this file: `disableAllHooks` is true")?;
    }
    Ok(())
}

fn row(page: &mut Page<'_>, name: &str, style: Style, text: &str) -> Result<(), Failure> {
    Ok(page.paragraph(&Lead::hanging(label(name)), &[styled(style, shown(text))])?)
}

#[derive(Serialize)]
struct StatusRow<'a> {
    v: u32,
    home: String,
    path: &'a str,
    installed: Option<bool>,
    hooks: &'a [Installed],
    disabled: Option<bool>,
    error: Option<String>,
}

impl<'a> StatusRow<'a> {
    fn new(home: &Path, path: &'a str, found: &'a Result<Found, Wrong>) -> Self {
        let row = StatusRow {
            v: JSON_VERSION,
            home: home.display().to_string(),
            path,
            installed: None,
            hooks: &[],
            disabled: None,
            error: None,
        };
        match found {
            Ok(found) => StatusRow {
                installed: Some(found.events().1.is_empty()),
                hooks: &found.hooks,
                disabled: Some(found.are_off),
                ..row
            },
            Err(wrong) => StatusRow { error: Some(wrong.to_string()), ..row },
        }
    }
}
