//! What the picker learns while somebody types, on threads that nobody waits for.
//!
//! Invariants: of several queries that wait, only the newest is answered; nothing is read into the
//! catalog before the first query.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use index::catalog::{Catalog, CatalogError, Work, root_of};
use index::search::{Found, Query, QueryError, Wish};
use transcript::Session;
use transcript::conversation::place::Home;
use transcript::conversation::preview::{last_answer, preview};
use transcript::conversation::price::Prices;
use transcript::format::secret::Redactor;
use transcript::format::threads;

use super::rows::is_same;
use super::state::{News, Peek};
use crate::screen::Waker;

/// How long a query waits for the next key.
const PAUSE: Duration = Duration::from_millis(60);
/// How long one search may take; a newer query waits for it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many sessions a search gives.
const MOST: usize = 60;
/// How many sessions are looked at before the list is drawn again.
const BATCH: usize = 500;
/// How often progress is reported.
const OFTEN: Duration = Duration::from_millis(100);

/// What the threads need to know of their surroundings.
#[derive(Debug)]
pub(super) struct Sources {
    /// The catalog's file, or why there is none.
    pub(super) catalog: Result<PathBuf, String>,
    pub(super) homes: Vec<Home>,
    /// Only these projects' folders are searched.
    pub(super) projects: Option<HashSet<PathBuf>>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) prices: Prices,
    pub(super) now: SystemTime,
    pub(super) threads: usize,
}

/// Where news go.
#[derive(Clone, Debug)]
struct Reporter {
    news: Sender<News>,
    waker: Waker,
}

impl Reporter {
    /// Returns whether somebody still listens.
    fn send(&self, news: News) -> bool {
        let is_heard = self.news.send(news).is_ok();
        self.waker.wake();
        is_heard
    }
}

/// The threads, as the picker sees them.
#[derive(Debug)]
pub(super) struct Helpers {
    pub(super) news: Receiver<News>,
    queries: Sender<(u64, String)>,
    peeks: Sender<(PathBuf, Option<String>)>,
}

impl Helpers {
    /// Starts them. `unseen` are the rows that nobody has looked at.
    pub(super) fn start(sources: Sources, unseen: Vec<(usize, Session)>, waker: Waker) -> Helpers {
        let (send, news) = channel();
        let report = Reporter { news: send, waker };
        let (queries, asked) = channel();
        let (peeks, wanted) = channel();
        let sources = Arc::new(sources);
        let (shared, to) = (sources.clone(), report.clone());
        thread::spawn(move || look(&shared, unseen, &to));
        let to = report.clone();
        thread::spawn(move || search(&sources, &asked, &to));
        thread::spawn(move || peek(&wanted, &report));
        Helpers { news, queries, peeks }
    }

    pub(super) fn ask(&self, query: (u64, String)) {
        // The thread only ends with the picker.
        let _ = self.queries.send(query);
    }

    pub(super) fn peek(&self, wanted: (PathBuf, Option<String>)) {
        let _ = self.peeks.send(wanted);
    }
}

/// Learns what sessions are about: from the catalog, and from the files that it does not know.
fn look(sources: &Sources, mut unseen: Vec<(usize, Session)>, report: &Reporter) {
    if let Some(known) = known(sources) {
        let is_known = |session: &Session| {
            let path = std::path::absolute(&session.path).unwrap_or_default();
            let at = known.binary_search_by(|one| one.path.cmp(&path));
            at.is_ok_and(|at| is_same(session, &known[at]))
        };
        unseen.retain(|(_, session)| !is_known(session));
        if !report.send(News::Known(known)) {
            return;
        }
    }
    for batch in unseen.chunks(BATCH) {
        let mut seen = Vec::with_capacity(batch.len());
        let read = |at: usize| preview(&batch[at].1.path);
        let Ok(()) = threads::in_order(batch.len(), sources.threads, read, |at, one| {
            seen.push((batch[at].0, one));
            Ok::<(), Infallible>(())
        });
        if !report.send(News::Seen(seen)) {
            return;
        }
    }
}

/// What the catalog knows as it is, if there is one, by path.
fn known(sources: &Sources) -> Option<Vec<index::catalog::KnownSession>> {
    let path = sources.catalog.as_ref().ok()?;
    let roots = roots(sources);
    let mut known = Catalog::open_if_there(path).ok()??.sessions(&roots).ok()?;
    known.sort_by(|a, b| a.path.cmp(&b.path));
    Some(known)
}

fn roots(sources: &Sources) -> Vec<PathBuf> {
    sources.homes.iter().map(root_of).collect()
}

/// Answers queries. The first one also brings the catalog up to date; until that is done, answers
/// are those of the catalog as it was.
fn search(sources: &Arc<Sources>, queries: &Receiver<(u64, String)>, report: &Reporter) {
    let mut catalog: Option<Catalog> = None;
    while let Ok(mut query) = queries.recv() {
        while let Ok(newer) = queries.recv_timeout(PAUSE) {
            query = newer;
        }
        let (number, text) = query;
        let found = sources.catalog.clone().and_then(|path| {
            if catalog.is_none() {
                catalog = Some(Catalog::open(&path).map_err(|error| unusable(&error))?);
                let (sources, report) = (sources.clone(), report.clone());
                thread::spawn(move || refresh(&sources, &path, &report));
            }
            catalog.as_mut().map_or(Ok(Found::default()), |open| answer(open, sources, &text))
        });
        if !report.send(News::Found(number, found)) {
            return;
        }
    }
}

fn unusable(error: &CatalogError) -> String {
    format!("only titles, prompts, folders and ids are searched: {error}")
}

fn answer(catalog: &mut Catalog, sources: &Sources, text: &str) -> Result<Found, String> {
    let query = match Query::parse(text) {
        Err(QueryError::Empty) => return Ok(Found::default()),
        query => query.map_err(|error| error.to_string())?,
    };
    let homes = roots(sources);
    let wish = Wish {
        homes: &homes,
        projects: sources.projects.as_ref(),
        limit: MOST,
        hits: 1,
        patience: PATIENCE,
        redactor: &sources.redactor,
        prices: &sources.prices,
        now: sources.now,
    };
    catalog.search(&query, &wish).map_err(|error| unusable(&error))
}

fn refresh(sources: &Sources, path: &Path, report: &Reporter) {
    let mut last = Instant::now();
    let work =
        Work { homes: &sources.homes, redactor: &sources.redactor, threads: sources.threads };
    let outcome = Catalog::open(path).and_then(|mut catalog| {
        catalog.refresh(&work, |done, total| {
            if last.elapsed() > OFTEN {
                last = Instant::now();
                report.send(News::Reading(done, total));
            }
        })?;
        catalog.sessions(&roots(sources))
    });
    let outcome = outcome.map(|known| report.send(News::Known(known)));
    report.send(News::Refreshed(outcome.map(drop).map_err(|error| unusable(&error))));
}

/// Reads what the preview of a session shows; of several that wait, the last one.
fn peek(wanted: &Receiver<(PathBuf, Option<String>)>, report: &Reporter) {
    while let Ok(first) = wanted.recv() {
        let (path, cwd) = wanted.try_iter().last().unwrap_or(first);
        let peek = Peek {
            answer: last_answer(&path).ok().flatten(),
            has_folder: cwd.is_none_or(|cwd| Path::new(&cwd).is_dir()),
        };
        if !report.send(News::Peeked(path, peek)) {
            return;
        }
    }
}
