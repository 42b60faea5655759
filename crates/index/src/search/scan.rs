//! Reads sessions for the regular expressions of a query: only the texts themselves show what fits.
//!
//! Invariants: all cores read; when the time is over, there is an answer, even if an expression
//! still looks at a long text; what is found does not depend on the number of threads; of each
//! session, only a few places are kept.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use regex::Regex;
use transcript::format::file::Lines;
use transcript::format::secret::{Mask, Redactor};
use transcript::format::threads;

use super::hit::{of_deleted, of_fits};
use super::query::fits_filter;
use super::snippet::Snippet;
use super::{Candidate, Found, Query, REMEMBERED, Wish};
use crate::catalog::{Catalog, OpenCalls, filter_word, meta};
use crate::texts::{Passage, TextKind, texts};

/// A file of a session: its number in the catalog, and its path.
pub(super) type NamedFile = (i64, PathBuf);

/// A record that fits.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) file: NamedFile,
    /// Which record of the file it is.
    pub(super) record: u64,
    /// Its own id.
    pub(super) id: Option<String>,
    /// The number of its line.
    pub(super) line: u64,
    pub(super) kind: TextKind,
    pub(super) snippet: Snippet,
}

/// The threads that read, as they are seen by who waits for them.
#[derive(Debug)]
struct Scan {
    job: Arc<Job>,
    answers: Receiver<(usize, Option<Vec<Fit>>)>,
    /// How many sessions are still being read.
    left: usize,
    is_cut: bool,
}

/// What the threads share.
#[derive(Debug)]
struct Job {
    sessions: Vec<Vec<NamedFile>>,
    query: Query,
    hits: usize,
    redactor: Arc<Redactor>,
    next: AtomicUsize,
    is_over: AtomicBool,
}

impl Scan {
    /// Begins to read the files of these sessions. Nobody waits for the threads: an expression that
    /// takes long in a long text cannot be stopped.
    fn start(sessions: Vec<Vec<NamedFile>>, query: &Query, wish: &Wish<'_>) -> Scan {
        let left = sessions.len();
        let (send, answers) = channel();
        let job = Arc::new(Job {
            sessions,
            query: query.clone(),
            hits: wish.hits.min(REMEMBERED),
            redactor: Arc::clone(wish.redactor),
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        for _ in 0..threads::count().min(left) {
            let (job, send) = (Arc::clone(&job), send.clone());
            thread::spawn(move || {
                while let Some(at) = job.begin() {
                    if send.send((at, job.read(&job.sessions[at]))).is_err() {
                        break;
                    }
                }
            });
        }
        Scan { job, answers, left, is_cut: false }
    }

    /// The next session that was read, and where it fits; `None` when all were read, or the time is
    /// over.
    fn next(&mut self, deadline: Instant) -> Option<(usize, Option<Vec<Fit>>)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.answers.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.is_cut = true;
                None
            }
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.job.is_over.store(true, Ordering::Relaxed);
    }
}

impl Catalog {
    /// The sessions that fit the expressions of a query. Only the texts themselves show that.
    pub(super) fn scan(
        &self,
        order: &[usize],
        candidates: &mut [Candidate],
        scores: &[f64],
        query: &Query,
        wish: &Wish<'_>,
        deadline: Instant,
    ) -> rusqlite::Result<Found> {
        let mut files = Vec::new();
        for at in order {
            files.push(self.present_files(&candidates[*at].files)?);
        }
        // What is left of a session whose file is gone is short.
        let mut best: BTreeMap<usize, Vec<Fit>> = BTreeMap::new();
        let mut total = 0;
        let mut keep = |place: usize, fits: Vec<Fit>| {
            total += usize::from(best.insert(place, fits).is_none());
            if best.len() > wish.limit {
                best.pop_last();
            }
        };
        for (place, at) in order.iter().enumerate() {
            let gone = candidates[*at].session.as_mut().filter(|session| session.is_deleted);
            if let Some(session) = gone {
                self.describe(session)?;
                if is_known_to_fit(query, session.title.as_deref(), session.prompt.as_deref()) {
                    keep(place, Vec::new());
                }
            }
        }
        let mut scan = Scan::start(files, query, wish);
        while let Some((place, fits)) = scan.next(deadline) {
            if let Some(fits) = fits {
                keep(place, fits);
            }
        }
        let mut found = Found { total, is_cut: scan.is_cut, ..Found::default() };
        drop(scan);
        found.is_cut |= total > best.len();
        let mut made = Vec::new();
        for (place, fits) in best {
            let at = order[place];
            let Some(mut session) = candidates[at].session.take() else { continue };
            session.score = scores[at];
            session.hits = of_fits(fits, &mut made, |file| {
                Ok::<_, rusqlite::Error>(self.spot_files(&[file])?.pop())
            })?;
            self.describe(&mut session)?;
            if session.is_deleted && session.hits.is_empty() {
                session.hits.push(of_deleted(&session, query));
            }
            found.sessions.push(session);
        }
        if !made.is_empty() {
            self.keep_places(&made)?;
        }
        Ok(found)
    }
}

impl Job {
    /// The next session that nobody reads yet.
    fn begin(&self) -> Option<usize> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        (at < self.sessions.len() && !self.is_over()).then_some(at)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Where a session fits, if each expression fits somewhere in a record that fits the filters.
    fn read(&self, files: &[NamedFile]) -> Option<Vec<Fit>> {
        let mut missing: Vec<&Regex> = self.query.patterns.iter().collect();
        let (mut fits, mut seen) = (Vec::new(), HashSet::new());
        let mut mask = Mask::new(&self.redactor);
        for named in files {
            let Ok(file) = files::open(&named.1) else { continue };
            let (mut lines, mut record) = (Lines::new(file), 0);
            let mut open_calls = OpenCalls::default();
            while let Ok(Some(line)) = lines.next_line() {
                if self.is_over() {
                    return None;
                }
                for one in line.records() {
                    let Some(entry) = &one.entry else { continue };
                    record += 1;
                    // Looking for secrets takes much longer than looking for the expression.
                    let mut plain = texts(entry, &mut Mask::none());
                    open_calls.follow(&mut plain);
                    if !has_filters(&self.query, &meta(entry, &plain)) || !self.fits(&plain) {
                        continue;
                    }
                    let passages = texts(entry, &mut mask);
                    if !self.fits(&passages) {
                        continue;
                    }
                    missing.retain(|pattern| !has(pattern, &passages));
                    let found =
                        |one: &Passage| Some((one.kind, Snippet::of(&one.text, &self.query)?));
                    // Growing copies of an answer say the same.
                    if fits.len() < self.hits
                        && let Some((kind, snippet)) = passages.iter().find_map(found)
                        && seen.insert(snippet.text.clone())
                    {
                        let (file, line) = (named.clone(), one.line.unwrap_or(0));
                        let id = entry.uuid().map(Cow::into_owned);
                        fits.push(Fit { file, record: record - 1, id, line, kind, snippet });
                    }
                }
                if missing.is_empty() && fits.len() >= self.hits {
                    return Some(fits);
                }
            }
        }
        missing.is_empty().then_some(fits)
    }

    /// Whether any of the expressions fits any of the texts.
    fn fits(&self, passages: &[Passage]) -> bool {
        self.query.patterns.iter().any(|pattern| has(pattern, passages))
    }
}

fn has(pattern: &Regex, passages: &[Passage]) -> bool {
    passages.iter().any(|one| pattern.is_match(&one.text))
}

/// Whether a record of these words fits the filters.
fn has_filters(query: &Query, words: &str) -> bool {
    query.filters.record.iter().all(|wanted| fits_filter(wanted, words))
}

/// Whether what is known of a session whose file is gone fits the expressions and filters.
fn is_known_to_fit(query: &Query, title: Option<&str>, prompt: Option<&str>) -> bool {
    let words = [filter_word("k", "title"), filter_word("r", "client")].join(" ");
    let fits =
        |pattern: &Regex| [title, prompt].into_iter().flatten().any(|text| pattern.is_match(text));
    has_filters(query, &words) && query.patterns.iter().all(fits)
}
