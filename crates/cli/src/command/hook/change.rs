//! Changes the client's settings: shows the change, asks, and only then writes.
//!
//! Invariants: nothing is written before the user has seen the difference and agreed; all files are
//! parsed before the first is written; writes go through `store`, so that the journal has a copy,
//! and a file that has changed since it was read is left alone. For a link, its target is written.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::slice;

use ratatui::style::Style;
use similar::TextDiff;
use transcript::format::limit::SIDECAR;
use workshop::live;
use workshop::store::{self, Deed, Disk, Journal, Mark, Ready, Real};

use super::settings::Wrong;
use crate::failure::Failure;
use crate::out::{BAD, BOLD, DIM, GOOD};
use crate::page::{Page, label, styled, unstyled};
use crate::text::shown;
use crate::world::World;

/// Whether a change is written.
#[derive(clap::Args, Debug)]
pub(super) struct Consent {
    /// Write without asking
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// A change of settings.
pub(super) struct Edit<'a> {
    /// The name of the change in the journal.
    pub(super) what: &'a str,
    pub(super) new_text: &'a dyn Fn(&str) -> Result<String, Wrong>,
    /// The message if there is nothing to do.
    pub(super) nothing: &'a str,
}

/// Settings as they were read.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The state of the file at that time; `None` if it did not exist.
    found: Option<Metadata>,
}

impl Settings {
    pub(super) fn read(home: &Path) -> Result<Settings, Failure> {
        let name = home.join("settings.json");
        let path = match fs::read_link(&name) {
            Ok(to) => fs::canonicalize(&name).map_err(|error| {
                let message = format!("it is a link to `{}`: {error}", to.display());
                io::Error::new(error.kind(), message)
            }),
            Err(_) => std::path::absolute(&name),
        };
        let path = path.map_err(|error| Failure::unreadable(&name, error))?;
        let unreadable = |error| Failure::unreadable(&path, error);
        let file = match files::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Settings { path, text: String::new(), found: None });
            }
            file => file.map_err(unreadable)?,
        };
        let found = file.metadata().map_err(unreadable)?;
        let mut text = String::new();
        file.take(SIDECAR).read_to_string(&mut text).map_err(unreadable)?;
        Ok(Settings { path, text, found: Some(found) })
    }
}

/// Shows what would change in the settings of the selected homes, and writes it if the user agrees.
pub(super) fn carry_out(
    world: &mut World,
    edit: &Edit<'_>,
    consent: &Consent,
) -> Result<(), Failure> {
    let mut changes: Vec<(Settings, String)> = Vec::new();
    for home in world.settings_homes()? {
        let settings = Settings::read(&home)?;
        let text = (edit.new_text)(&settings.text);
        let text = text.map_err(|wrong| {
            let path = settings.path.display();
            let hint = "fix it by hand, then try again";
            Failure::usage(format!("`{path}` is not touched: {wrong}"), Some(hint))
        })?;
        if text == settings.text {
            let path = settings.path.display();
            world.out.note(&format!("nothing to do in `{path}`: {}", edit.nothing))?;
        } else if changes.iter().all(|(other, _)| other.path != settings.path) {
            changes.push((settings, text));
        }
    }
    for (settings, text) in &changes {
        show(world, settings, text)?;
    }
    for (settings, _) in changes.iter().filter(|(settings, _)| settings.found.is_some()) {
        let protection = files::protection(&settings.path);
        let protection = protection.map_err(|error| Failure::unreadable(&settings.path, error))?;
        if let Some(why) = protection.as_ref().map(live::words) {
            let message = format!("`{}` is not touched: {why}", settings.path.display());
            let hint = "make this change by hand, or remove the protection";
            return Err(Failure::kept(message, hint));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    if consent.dry_run {
        let text = "nothing was written: run it again without `--dry-run` to write this";
        return Ok(world.out.note(text)?);
    }
    if !consent.yes {
        match world.out.ask("Write this?")? {
            Some(true) => {}
            Some(false) => return Ok(world.out.note("nothing was written")?),
            None => {
                let hint = "use `--yes` to write this";
                return Err(Failure::usage(
                    "nothing was written: there is no terminal to ask on",
                    Some(hint),
                ));
            }
        }
    }
    let journal = world.workshop.journal()?;
    for (settings, text) in &changes {
        let deed = Deed { what: edit.what, session: "settings", made: None, now: world.now };
        let entry = write(&journal, deed, settings, text)?;
        let page = &mut Page::new(&mut world.out);
        let path = settings.path.display().to_string();
        page.line(&[label("written"), unstyled(shown(&path))])?;
        page.line(&[label("undo"), unstyled(format!("quipu undo {entry}"))])?;
    }
    Ok(())
}

/// Prints the difference in the form of `diff -u`.
fn show(world: &mut World, settings: &Settings, text: &str) -> Result<(), Failure> {
    let path = settings.path.display().to_string();
    let before = if settings.found.is_some() { &path } else { "/dev/null" };
    let diff = TextDiff::from_lines(settings.text.as_str(), text);
    let diff = diff.unified_diff().header(before, &path).to_string();
    let page = &mut Page::new(&mut world.out);
    for line in diff.lines() {
        let style = match line.get(..1) {
            _ if line.starts_with("--- ") || line.starts_with("+++ ") => BOLD,
            Some("+") => GOOD,
            Some("-") => BAD,
            Some("@") => DIM,
            _ => Style::new(),
        };
        page.line(&[styled(style, shown(line))])?;
    }
    Ok(())
}

/// Replaces the settings with a text; returns the name of the change in the journal.
fn write(
    journal: &Journal,
    deed: Deed<'_>,
    settings: &Settings,
    text: &str,
) -> Result<String, Failure> {
    let path = &settings.path;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists => Failure::changed(path),
        _ => Failure::unwritable(path, error),
    };
    let ready = Ready::at(path);
    let begun = journal.begin(&mut Real, deed, slice::from_ref(&ready)).map_err(failed)?;
    let written = || {
        Real.create_folder(path.parent().unwrap_or(path))?;
        Real.create(&ready.temp, text.as_bytes())?;
        match &settings.found {
            Some(found) => {
                let was = Mark::of_metadata(found);
                store::replace(&mut Real, &begun, deed, slice::from_ref(&ready), &[Some(was)])
                    .map(drop)
            }
            None => store::create(&mut Real, &begun, deed, slice::from_ref(&ready)),
        }
    };
    let (written, name) = (written(), begun.name.clone());
    let settled = begun.settle(&mut Real);
    written.and(settled).map_err(failed)?;
    Ok(name)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
