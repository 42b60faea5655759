//! Where a session fits a query: the turn, the line, and the text around it.

use std::borrow::Cow;
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use transcript::conversation::Conversation;
use transcript::conversation::agents::side_id;
use transcript::format::entry::Entry;
use transcript::format::file::Lines;
use transcript::format::secret::Mask;

use super::scan::Fit;
use super::snippet::Snippet;
use super::{FoundSession, Query, Wish};
use crate::catalog::{KnownPlaces, Part, Places, RecordPlace, agent_of, grown};
use crate::texts::{Passage, TextKind, texts};

/// A place where a session fits.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The turn of the live conversation, from 1; `None` on an abandoned branch or in a sub-agent.
    pub turn: Option<usize>,
    /// The number of the line in its file; 0 if that is not known.
    pub line: u64,
    /// The sub-agent that it is in: one with a file of its own, or one in the session's file
    /// ([`side_id`]).
    pub agent: Option<String>,
    /// The id of its record, if that is on a branch that is not live: an abandoned one, or that of
    /// a sub-agent in the session's file.
    pub branch: Option<String>,
    /// Who says it.
    pub role: &'static str,
    /// What it is.
    pub kind: &'static str,
    /// The text around it.
    pub snippet: Snippet,
}

impl Hit {
    /// In a record of that id, in the file of that sub-agent or of the session.
    fn new(
        (file, id): (Option<String>, Option<String>),
        of: Part,
        line: u64,
        kind: TextKind,
        snippet: Snippet,
    ) -> Hit {
        let is_main = file.is_none();
        let (turn, agent) = match of {
            _ if !is_main => (None, file),
            Part::Turn(turn) => (usize::try_from(turn).ok(), None),
            Part::Side(line) => (None, Some(side_id(line).to_string())),
            Part::Other => (None, None),
        };
        let branch = id.filter(|_| is_main && turn.is_none());
        Hit { turn, line, agent, branch, role: kind.role(), kind: kind.name(), snippet }
    }
}

/// A record that may be shown.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Which of the files it is in.
    pub(super) file: usize,
    /// Which record of the file it is.
    pub(super) record: u64,
}

/// A file with records that may be shown.
#[derive(Debug)]
pub(super) struct SpotFile {
    /// Its number in the catalog.
    pub(super) number: i64,
    pub(super) path: PathBuf,
    /// Where its records are, if that is known.
    pub(super) places: Option<KnownPlaces>,
}

impl SpotFile {
    /// Where its records are. If that is not known, it is read, or its end if it only grew, and
    /// they are added to `made`.
    fn list(&self, made: &mut Vec<(i64, Places)>) -> transcript::Result<Vec<RecordPlace>> {
        let grown = match &self.places {
            Some(KnownPlaces::All(places)) => return Ok(places.list()),
            Some(KnownPlaces::UpTo(places, size)) => grown(places, *size, &self.path)?,
            None => None,
        };
        let places = match grown {
            Some(places) => places,
            None => Places::of(&Conversation::open(&self.path)?),
        };
        let list = places.list();
        made.push((self.number, places));
        Ok(list)
    }
}

/// Records of a session that may be shown, the best ones first.
#[derive(Debug, Default)]
pub(super) struct Spots {
    pub(super) files: Vec<SpotFile>,
    pub(super) list: Vec<Spot>,
}

impl Spots {
    /// The hits at these places, the best ones first, and the places that were not known.
    pub(super) fn read(&self, query: &Query, wish: &Wish<'_>) -> (Vec<Hit>, Vec<(i64, Places)>) {
        let mut open: Vec<Option<Option<Opened>>> = Vec::new();
        open.resize_with(self.files.len(), || None);
        let mut made = Vec::new();
        let mut known: Vec<(usize, RecordPlace, TextKind)> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        // The best of a few more than are wanted. Looking for secrets takes the most time, so it
        // is left to those that are shown.
        for spot in &self.list {
            if known.len() >= wish.hits * 4 {
                break;
            }
            let opened = open[spot.file]
                .get_or_insert_with(|| Opened::new(&self.files[spot.file], &mut made).ok());
            let Some(opened) = opened else { continue };
            let place = usize::try_from(spot.record).ok().and_then(|at| opened.places.get(at));
            let Some(place) = place.copied() else { continue };
            let found = opened.look(place, |entry| best(entry, query, &mut Mask::none()));
            let Ok(Some((kind, snippet))) = found else { continue };
            // Growing copies of an answer say the same.
            if seen.insert(snippet.text) {
                known.push((spot.file, place, kind));
            }
        }
        let is_agent = |file: usize, of: Part| {
            matches!(of, Part::Side(_)) || agent_of(&self.files[file].path).is_some()
        };
        known.sort_by_key(|(file, place, kind)| (*kind, is_agent(*file, place.of), place.line));
        let mut hits: Vec<Hit> = Vec::new();
        seen.clear();
        for (file, place, _) in known {
            if hits.len() >= wish.hits {
                break;
            }
            let Some(Some(opened)) = &mut open[file] else { continue };
            let mut mask = Mask::new(wish.redactor);
            let found = opened.look(place, |entry| {
                let id = entry.uuid().map(Cow::into_owned);
                best(entry, query, &mut mask).map(|(kind, snippet)| (id, kind, snippet))
            });
            let Ok(Some((id, kind, snippet))) = found else { continue };
            if seen.insert(snippet.text.clone()) {
                let agent = opened.agent.clone();
                hits.push(Hit::new((agent, id), place.of, place.line, kind, snippet));
            }
        }
        (hits, made)
    }
}

/// The hits of a session at records that fit, the best ones first. `open` gives what is known of a
/// file; places that were not known are added to `made`.
pub(super) fn of_fits<E>(
    mut fits: Vec<Fit>,
    made: &mut Vec<(i64, Places)>,
    mut open: impl FnMut(i64) -> Result<Option<SpotFile>, E>,
) -> Result<Vec<Hit>, E> {
    fits.sort_by_key(|fit| (fit.kind, agent_of(&fit.file.1).is_some(), fit.line));
    let mut known: HashMap<i64, Vec<RecordPlace>> = HashMap::new();
    let mut hits = Vec::new();
    for Fit { file: (number, path), record, id, line, kind, snippet } in fits {
        let agent = agent_of(&path);
        let mut of = Part::Other;
        if agent.is_none() {
            if let Slot::Vacant(slot) = known.entry(number) {
                let places = open(number)?.and_then(|file| file.list(made).ok());
                slot.insert(places.unwrap_or_default());
            }
            let place = usize::try_from(record).ok().and_then(|at| known[&number].get(at));
            of = place.map_or(of, |place| place.of);
        }
        hits.push(Hit::new((agent, id), of, line, kind, snippet));
    }
    Ok(hits)
}

/// What is left of a deleted session.
pub(super) fn of_deleted(session: &FoundSession, query: &Query) -> Hit {
    let text = [session.title.as_deref(), session.prompt.as_deref()];
    let text = text.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let snippet = Snippet::of(&text, query).unwrap_or_else(|| Snippet::start(&text));
    Hit::new((None, None), Part::Other, 0, TextKind::Title, snippet)
}

/// The text of a record that fits, and what it is. Without words in the query, the first text.
fn best(entry: &Entry<'_>, query: &Query, mask: &mut Mask<'_>) -> Option<(TextKind, Snippet)> {
    let passages = texts(entry, mask);
    let fits = |one: &Passage| Some((one.kind, Snippet::of(&one.text, query)?));
    let first = passages.first().map(|one| (one.kind, Snippet::start(&one.text)));
    passages.iter().find_map(fits).or(first)
}

/// A file that hits are in.
struct Opened {
    file: File,
    places: Vec<RecordPlace>,
    agent: Option<String>,
}

impl Opened {
    /// Opens a file.
    fn new(file: &SpotFile, made: &mut Vec<(i64, Places)>) -> transcript::Result<Opened> {
        let agent = agent_of(&file.path);
        Ok(Opened { file: files::open(&file.path)?, places: file.list(made)?, agent })
    }

    /// Passes on the record at a place, unless the file has changed since.
    fn look<T>(
        &mut self,
        place: RecordPlace,
        see: impl FnOnce(&Entry<'_>) -> Option<T>,
    ) -> transcript::Result<Option<T>> {
        self.file.seek(SeekFrom::Start(place.offset))?;
        let mut lines = Lines::new((&self.file).take(place.len));
        let line = lines.next_line()?;
        let entry = line.and_then(|line| line.records().find_map(|record| record.entry));
        Ok(entry.and_then(|entry| see(&entry)))
    }
}
