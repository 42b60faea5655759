//! The picker as a value: what is typed, what fits, what is selected.
//!
//! Nothing is read or written here. Invariants: the selection is a row that is shown, if there is
//! one; what was found for another query than the one that is typed does not count.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use index::catalog::KnownSession;
use index::search::{Found, Snippet};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use transcript::conversation::preview::Preview;

use super::rows::{PickRow, Rows};
use crate::screen::Edit;

/// What the user wants done with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// What the command that opened the picker does.
    Open,
    Resume,
    Fork,
}

/// A session that was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    pub(crate) deed: Deed,
    /// A name that leads to the session.
    pub(crate) name: String,
}

/// What a key asks for, beyond a change of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Leave,
    Pick(Picked),
    Copy(String),
    Suspend,
    Redraw,
}

/// Where a session has the words of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickHit {
    pub(crate) place: String,
    pub(crate) snippet: Snippet,
}

/// How the search for words inside of sessions is going.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Search {
    #[default]
    None,
    Running,
    Done,
    /// The query is none, or the catalog cannot be used.
    Failed(String),
}

/// What is read of the selected session for its preview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peek {
    /// What the model answered last.
    pub(crate) answer: Option<String>,
    /// Whether the session's folder is there.
    pub(crate) has_folder: bool,
}

/// News of other threads.
#[derive(Debug)]
pub(crate) enum News {
    Seen(Vec<(usize, transcript::Result<Preview>)>),
    Known(Vec<KnownSession>),
    /// What was found for the query of that number.
    Found(u64, Result<Found, String>),
    /// How much of the sessions is in the catalog, in bytes.
    Reading(u64, u64),
    /// The catalog is up to date, or why it is not.
    Refreshed(Result<(), String>),
    Peeked(PathBuf, Peek),
}

/// The shortest query that is searched for inside of sessions, in characters.
const SHORTEST: usize = 2;
/// How many previews are kept.
const PEEKS: usize = 200;

#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) rows: Rows,
    pub(crate) input: Edit,
    /// What Enter does.
    pub(crate) verb: String,
    /// Only sessions of the current project.
    only_here: bool,
    /// The rows that are shown.
    pub(crate) shown: Vec<usize>,
    /// Which of the rows that are shown is selected.
    pub(crate) at: usize,
    /// The number of the query: each change makes a new one.
    asked: u64,
    sent: u64,
    pub(crate) search: Search,
    /// The rows in which words were found, the best first.
    found: Vec<usize>,
    hits: HashMap<usize, PickHit>,
    pub(crate) reading: Option<(u64, u64)>,
    peeks: HashMap<PathBuf, Peek>,
    peeking: Option<PathBuf>,
    /// What the user should know about the last key.
    pub(crate) message: Option<String>,
    /// How many rows fit on the screen.
    pub(crate) page: usize,
}

impl Picker {
    pub(crate) fn new(rows: Rows, verb: &str, query: &str, only_here: bool) -> Picker {
        let mut picker = Picker {
            rows,
            input: Edit::new(query),
            verb: verb.to_owned(),
            only_here,
            shown: Vec::new(),
            at: 0,
            asked: 0,
            sent: 0,
            search: Search::None,
            found: Vec::new(),
            hits: HashMap::new(),
            reading: None,
            peeks: HashMap::new(),
            peeking: None,
            message: None,
            page: 10,
        };
        picker.ask();
        picker
    }

    pub(crate) fn selected(&self) -> Option<&PickRow> {
        self.shown.get(self.at).and_then(|row| self.rows.get(*row))
    }

    pub(crate) fn hit(&self) -> Option<&PickHit> {
        self.hits.get(self.shown.get(self.at)?)
    }

    pub(crate) fn peek(&self) -> Option<&Peek> {
        self.peeks.get(self.selected()?.path())
    }

    /// How many sessions can be picked from.
    pub(crate) fn total(&self) -> usize {
        self.rows.iter().filter(|row| row.is_here || !self.only_here).count()
    }

    /// The query to search for inside of sessions, if it is a new one, and its number.
    pub(crate) fn take_query(&mut self) -> Option<(u64, String)> {
        if self.sent == self.asked || self.search != Search::Running {
            return None;
        }
        self.sent = self.asked;
        Some((self.asked, self.input.text().trim().to_owned()))
    }

    /// The session whose preview is missing: its file and its folder.
    pub(crate) fn take_peek(&mut self) -> Option<(PathBuf, Option<String>)> {
        let row = self.selected().filter(|row| !row.is_deleted && row.is_seen)?;
        let path = row.path().to_owned();
        if self.peeks.contains_key(&path) || self.peeking.as_ref() == Some(&path) {
            return None;
        }
        let cwd = row.one.seen.as_ref().ok().and_then(|seen| seen.cwd.clone());
        self.peeking = Some(path.clone());
        Some((path, cwd))
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.input.insert(text);
        self.ask();
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Effect {
        self.message = None;
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Effect::Leave,
            KeyCode::Enter => return self.pick(Deed::Open),
            KeyCode::Char('j') if is_ctrl => return self.pick(Deed::Open),
            KeyCode::Char('c' | 'g') if is_ctrl => return Effect::Leave,
            KeyCode::Char('r') if is_ctrl => return self.pick(Deed::Resume),
            KeyCode::Char('f') if is_ctrl => return self.pick(Deed::Fork),
            KeyCode::Char('y') if is_ctrl => return self.copy(),
            KeyCode::Char('z') if is_ctrl => return Effect::Suspend,
            KeyCode::Char('l') if is_ctrl => return Effect::Redraw,
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.move_to(self.at + 1),
            KeyCode::Char('p') if is_ctrl => self.at = self.at.saturating_sub(1),
            KeyCode::Char('n') if is_ctrl => self.move_to(self.at + 1),
            KeyCode::PageUp => self.at = self.at.saturating_sub(self.page.max(1)),
            KeyCode::PageDown => self.move_to(self.at + self.page.max(1)),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.move_to(usize::MAX),
            _ => {
                let before = self.input.text().to_owned();
                if self.input.key(key) && self.input.text() != before {
                    self.ask();
                }
            }
        }
        Effect::Nothing
    }

    fn move_to(&mut self, at: usize) {
        self.at = at.min(self.shown.len().saturating_sub(1));
    }

    fn pick(&mut self, deed: Deed) -> Effect {
        let Some(row) = self.selected() else { return Effect::Nothing };
        if row.is_deleted {
            let text = "this session was deleted: what is left of it is what you see";
            self.message = Some(text.to_owned());
            return Effect::Nothing;
        }
        Effect::Pick(Picked { deed, name: self.rows.name(row) })
    }

    fn copy(&mut self) -> Effect {
        let Some(id) = self.selected().map(|row| row.one.session.id.to_string()) else {
            return Effect::Nothing;
        };
        let id = crate::text::one_line(&id);
        self.message = Some(format!("{id} copied, if your terminal allows it"));
        Effect::Copy(id)
    }

    /// A new query: what fits by its name is known at once, the rest is searched for.
    fn ask(&mut self) {
        self.asked += 1;
        self.found.clear();
        self.hits.clear();
        let is_long = self.input.text().trim().chars().nth(SHORTEST - 1).is_some();
        self.search = if is_long { Search::Running } else { Search::None };
        self.at = 0;
        self.list();
    }

    /// The rows that fit: first by what identifies them, then by words inside of them.
    fn list(&mut self) {
        let text = self.input.text().to_lowercase();
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let is_allowed = |row: &PickRow| row.is_here || !self.only_here;
        let named = self.rows.iter().enumerate();
        let named = named.filter(|(_, row)| is_allowed(row) && row.has(&words)).map(|(at, _)| at);
        let mut shown: Vec<usize> = named.collect();
        let is_new = |at: &usize| {
            shown.binary_search(at).is_err() && self.rows.get(*at).is_some_and(is_allowed)
        };
        let found: Vec<usize> = self.found.iter().copied().filter(is_new).collect();
        shown.extend(found);
        self.shown = shown;
        self.move_to(self.at);
    }

    /// The list again, with the same selection.
    fn relist(&mut self) {
        let selected = self.shown.get(self.at).copied().filter(|_| self.at > 0);
        self.list();
        if let Some(at) = self.shown.iter().position(|row| Some(*row) == selected) {
            self.at = at;
        }
    }

    pub(crate) fn hear(&mut self, news: News) {
        match news {
            News::Seen(all) => {
                for (at, seen) in all {
                    self.rows.set_seen(at, seen);
                }
                self.relist();
            }
            News::Known(known) => {
                self.rows.set_known(known);
                self.relist();
            }
            News::Found(asked, found) if asked == self.asked => self.set_found(found),
            News::Found(..) => {}
            News::Reading(done, total) => self.reading = Some((done, total)),
            News::Refreshed(outcome) => {
                self.reading = None;
                match outcome {
                    // There may be more to find now.
                    Ok(()) if self.search != Search::None => {
                        self.asked += 1;
                        self.search = Search::Running;
                    }
                    Ok(()) => {}
                    Err(text) => self.search = Search::Failed(text),
                }
            }
            News::Peeked(path, peek) => {
                if self.peeks.len() >= PEEKS {
                    self.peeks.clear();
                }
                self.peeks.insert(path, peek);
            }
        }
    }

    fn set_found(&mut self, found: Result<Found, String>) {
        self.found.clear();
        self.hits.clear();
        match found {
            Ok(found) => {
                for mut session in found.sessions {
                    let Some(at) = self.row_of(&session.path) else { continue };
                    self.found.push(at);
                    if session.hits.is_empty() {
                        continue;
                    }
                    let hit = session.hits.swap_remove(0);
                    let place = match (&hit.agent, hit.turn) {
                        (Some(agent), _) => format!("sub-agent {agent}"),
                        (None, Some(turn)) => format!("turn {turn}"),
                        (None, None) => String::new(),
                    };
                    let place = format!("{place} {}", hit.kind).trim().to_owned();
                    self.hits.insert(at, PickHit { place, snippet: hit.snippet });
                }
                self.search = Search::Done;
            }
            Err(text) => self.search = Search::Failed(text),
        }
        self.relist();
    }

    fn row_of(&self, path: &Path) -> Option<usize> {
        self.rows.find(path)
    }
}
