//! Lets the user pick a session on a screen.
//!
//! Invariants: the first list is drawn before files are read; a key is answered before anything
//! else is waited for; the picker changes nothing, it only returns what was picked.

mod draw;
mod rows;
mod state;
mod work;

use std::collections::HashSet;
use std::path::PathBuf;

use transcript::conversation::preview::preview;

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::prices;
use crate::project;
use crate::screen::{Input, Multiplexer, Screen};
use crate::survey::{headline, short_path};
use crate::text::{age, fit};
use crate::world::World;
use rows::Rows;
pub(crate) use state::{Deed, Picked};
use state::{Effect, Picker};
use work::{Helpers, Sources};

/// The exit code of leaving without a choice: as after an interrupt.
const LEFT: u8 = 130;
/// How many sessions are looked at before the first list is drawn: about a screen.
const FIRST: usize = 50;

/// How many sessions are listed, and how many are looked at for words.
const LISTED: usize = 20;
const LOOKED: usize = 2_000;
/// How many columns a title in such a list has.
const TITLE: usize = 60;

/// What can be picked, and what for.
#[derive(Debug)]
pub(crate) struct PickWish<'a> {
    /// What Enter does.
    pub(crate) verb: &'a str,
    /// What is typed already.
    pub(crate) query: String,
    pub(crate) scope: Scope,
    pub(crate) catalog: &'a CatalogArgs,
}

/// Which sessions can be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Those of the current project.
    Here,
}

/// The session that the user picks, and what to do with it.
pub(crate) fn pick(world: &mut World, wish: &PickWish<'_>) -> Result<Picked, Failure> {
    if !world.has_screen() {
        let hint = "`quipu ls` lists sessions, `quipu search` finds words in them";
        return Err(Failure::usage("picking a session needs a terminal", Some(hint)));
    }
    let here: HashSet<PathBuf> = match project::here(world)? {
        Some(sessions) => sessions.into_iter().map(|session| session.path).collect(),
        None => HashSet::new(),
    };
    let rows = Rows::new(world.sessions()?, &here);
    let only_here = wish.scope == Scope::Here;
    if rows.len() == 0 || only_here && here.is_empty() {
        let message = if only_here { "no sessions in this folder" } else { "no sessions found" };
        return Err(Failure::not_found(message, "`--home` selects another home"));
    }
    let folder = |path: &PathBuf| path.parent().map(std::path::Path::to_owned);
    let sources = Sources {
        catalog: wish.catalog.path(world).map_err(|failure| failure.to_string()),
        homes: world.homes()?.list,
        projects: only_here.then(|| here.iter().filter_map(folder).collect()),
        redactor: world.redactor(),
        prices: prices::in_force(world, None)?,
        now: world.now,
        threads: wish.catalog.threads(),
    };
    let multiplexer = match world.variable("TMUX") {
        Some(_) => Multiplexer::Tmux,
        None => Multiplexer::None,
    };
    let mut picker = Picker::new(rows, wish.verb, &wish.query, only_here);
    let unseen = look_at_first(&mut picker);
    let look = draw::Look::new(world);
    let mut screen = Screen::open()?;
    let helpers = Helpers::start(sources, unseen, screen.waker());
    loop {
        screen.draw(|frame| {
            picker.page = draw::page(frame.area());
            draw::draw(frame, &picker, &look);
        })?;
        if let Some(query) = picker.take_query() {
            helpers.ask(query);
        }
        if let Some(wanted) = picker.take_peek() {
            helpers.peek(wanted);
        }
        for input in screen.wait()? {
            let effect = match input {
                Input::Key(key) => picker.key(key),
                Input::Paste(text) => {
                    picker.paste(&text);
                    Effect::Nothing
                }
                Input::Ended(signal) => return Err(Failure::ended(128 + signal)),
                Input::Closed => return Err(Failure::ended(LEFT)),
                Input::Woken | Input::Continued => Effect::Nothing,
            };
            match effect {
                Effect::Nothing => {}
                Effect::Leave => return Err(Failure::ended(LEFT)),
                Effect::Pick(chosen) => return Ok(chosen),
                Effect::Copy(text) => screen.copy(&text, multiplexer)?,
                Effect::Suspend => screen.suspend()?,
                Effect::Redraw => screen.redraw()?,
            }
        }
        for news in helpers.news.try_iter() {
            picker.hear(news);
        }
    }
}

/// The newest sessions whose names have all the words, where there is no screen: the name that
/// leads to each, and what people know it by.
pub(crate) fn listed(world: &mut World, query: &str) -> Result<Vec<(String, String)>, Failure> {
    let here: HashSet<PathBuf> = match project::here(world)? {
        Some(sessions) => sessions.into_iter().map(|session| session.path).collect(),
        None => HashSet::new(),
    };
    let mut rows = Rows::new(world.sessions()?, &here);
    if rows.len() == 0 {
        return Err(Failure::not_found("no sessions found", "`--home` selects another home"));
    }
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut found = Vec::new();
    for at in 0..rows.len().min(LOOKED) {
        let Some(path) = rows.get(at).map(|row| row.path().to_owned()) else { break };
        rows.set_seen(at, preview(&path));
        let Some(row) = rows.get(at).filter(|row| row.has(&words)) else { continue };
        let since = world.now.duration_since(row.one.session.modified).unwrap_or_default();
        let (age, folder) = (age(since.as_secs()), short_path(row.one.project()));
        let title = fit(&headline(&row.one), TITLE);
        found.push((rows.name(row), format!("{title} ({folder}, {age})")));
        if found.len() == LISTED {
            break;
        }
    }
    Ok(found)
}

/// Looks at the sessions that are on the first screen. Returns the others.
fn look_at_first(picker: &mut Picker) -> Vec<(usize, transcript::Session)> {
    let sessions = picker.rows.iter().map(|row| row.one.session.clone()).enumerate();
    let mut all: Vec<(usize, transcript::Session)> = sessions.collect();
    let unseen = all.split_off(all.len().min(FIRST));
    let seen = all.into_iter().map(|(at, session)| (at, preview(&session.path)));
    picker.hear(state::News::Seen(seen.collect()));
    unseen
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
