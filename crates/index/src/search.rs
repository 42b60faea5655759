//! Finds words in all sessions.
//!
//! All words of a query must occur in a session, not in one text of it; sub-agents belong to their
//! session. Invariants: a session is found if and only if a plain scan by the same rules finds it;
//! snippets are read from the files, and secrets in them are hidden; an answer is bounded in
//! sessions, hits and time, and says so if something is left out.

mod hit;
mod query;
mod scan;
mod snippet;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use transcript::conversation::price::Prices;
use transcript::conversation::usage::Money;
use transcript::format::secret::Redactor;
use transcript::format::threads;
use transcript::format::time::Time;

pub use hit::Hit;
use hit::{Spot, SpotFile, Spots};
pub use query::{Query, QueryError};
use scan::NamedFile;
pub use snippet::Snippet;

use crate::catalog::{Catalog, CatalogError, SPAN};
use crate::moment::moment;

/// How a search is done.
#[derive(Debug)]
pub struct Wish<'a> {
    /// The homes whose sessions are searched.
    pub homes: &'a [PathBuf],
    /// Only sessions in these projects' folders.
    pub projects: Option<&'a HashSet<PathBuf>>,
    /// How many sessions are wanted.
    pub limit: usize,
    /// How many hits of a session are wanted.
    pub hits: usize,
    /// How long it may take.
    pub patience: Duration,
    /// What hides secrets.
    pub redactor: &'a Arc<Redactor>,
    /// What costs are.
    pub prices: &'a Prices,
    /// The time now.
    pub now: SystemTime,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The sessions, the best first.
    pub sessions: Vec<FoundSession>,
    /// How many sessions fit the query.
    pub total: usize,
    /// Something was left out: more sessions than wanted, or there was no time.
    pub is_cut: bool,
}

/// A session that fits the query.
#[derive(Clone, Debug)]
pub struct FoundSession {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The folder of its project.
    pub project: PathBuf,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its first prompt.
    pub prompt: Option<String>,
    /// When its last record was made.
    pub ended: Option<Time>,
    /// Its file is gone.
    pub is_deleted: bool,
    /// How well it fits.
    pub score: f64,
    /// Where it fits.
    pub hits: Vec<Hit>,
}

/// A session while it is being judged.
#[derive(Debug, Default)]
struct Candidate {
    files: Vec<i64>,
    branch: Option<String>,
    started: Option<i64>,
    session: Option<FoundSession>,
}

/// The records of a session that fit a term.
#[derive(Debug, Default)]
struct Fits {
    count: u64,
    rows: Vec<i64>,
}

/// Which sessions fit, and how well.
struct Ranking {
    /// The best first.
    order: Vec<usize>,
    /// Of each candidate.
    scores: Vec<f64>,
    /// Of each term, where the candidates fit it.
    terms: Vec<Vec<Fits>>,
}

/// How many records of a session are remembered for each term.
const REMEMBERED: usize = 64;

impl Catalog {
    /// Finds the sessions that fit a query. If there is no time, what was found is cut.
    pub fn search(&mut self, query: &Query, wish: &Wish<'_>) -> Result<Found, CatalogError> {
        let deadline = Instant::now() + wish.patience;
        let is_over = move || Instant::now() > deadline;
        let set = self.connection.progress_handler(10_000, Some(is_over));
        let found = set.and_then(|()| self.search_until(query, wish, deadline));
        let unset = self.connection.progress_handler(0, None::<fn() -> bool>);
        match found.and_then(|found| unset.map(|()| found)) {
            Err(error) if is_interrupted(&error) => Ok(Found { is_cut: true, ..Found::default() }),
            found => found.map_err(|error| self.sql(error)),
        }
    }

    fn search_until(
        &self,
        query: &Query,
        wish: &Wish<'_>,
        deadline: Instant,
    ) -> rusqlite::Result<Found> {
        let (mut candidates, by_file) = self.candidates(wish)?;
        let filters = &query.filters;
        let allowed = self.allowed(query, wish, &candidates)?;
        let mut fitting: Vec<bool> = allowed;
        let mut scores = vec![0.0; candidates.len()];
        let mut terms: Vec<Vec<Fits>> = Vec::new();
        let is_without_words = query.terms.iter().all(|term| term.is_excluded);
        let only_filters = (is_without_words && !filters.record.is_empty()).then(|| {
            let all = filters.record.iter().map(|filter| query::of_filter(filter));
            all.collect::<Vec<_>>().join(" AND ")
        });
        let wanted = query.terms.iter().filter(|term| !term.is_excluded);
        let expressions =
            wanted.map(|term| term.expression_in(&filters.record)).chain(only_filters);
        for expression in expressions {
            let found = self.fitting(&expression, &by_file, candidates.len())?;
            let having = found.iter().filter(|fits| fits.count > 0).count();
            #[allow(clippy::cast_precision_loss, reason = "a weight")]
            let rarity = (1.0 + candidates.len() as f64 / having.max(1) as f64).ln();
            for (at, fits) in found.iter().enumerate() {
                fitting[at] &= fits.count > 0;
                #[allow(clippy::cast_precision_loss, reason = "a weight")]
                let often = fits.count as f64 / (fits.count as f64 + 1.5);
                scores[at] += rarity * often;
            }
            terms.push(found);
        }
        for term in query.terms.iter().filter(|term| term.is_excluded) {
            let found = self.fitting(&term.expression(), &by_file, candidates.len())?;
            for (at, fits) in found.into_iter().enumerate() {
                fitting[at] &= fits.count == 0;
            }
        }
        let mut order: Vec<usize> = (0..candidates.len()).filter(|at| fitting[*at]).collect();
        for at in &order {
            scores[*at] = (scores[*at] + 0.1) * recency(&candidates[*at], wish.now);
        }
        order.sort_by(|a, b| {
            let path = |at: usize| candidates[at].session.as_ref().map(|one| &one.path);
            scores[*b].total_cmp(&scores[*a]).then_with(|| path(*a).cmp(&path(*b)))
        });
        if !query.patterns.is_empty() {
            return self.scan(&order, &mut candidates, &scores, query, wish, deadline);
        }
        let of_files = (is_without_words && !filters.file.is_empty()).then(|| query.of_files());
        if let Some(calls) = &of_files {
            for term in calls.terms.iter().filter(|term| !term.is_excluded) {
                let expression = term.expression_in(&calls.filters.record);
                terms.push(self.fitting(&expression, &by_file, candidates.len())?);
            }
        }
        let ranking = Ranking { order, scores, terms };
        let query = of_files.as_ref().unwrap_or(query);
        self.show(&ranking, &mut candidates, query, wish, deadline)
    }

    /// The best sessions, with their hits, as far as there is time to read these.
    fn show(
        &self,
        Ranking { order, scores, terms }: &Ranking,
        candidates: &mut [Candidate],
        query: &Query,
        wish: &Wish<'_>,
        deadline: Instant,
    ) -> rusqlite::Result<Found> {
        let mut shown = Vec::new();
        for at in order.iter().take(wish.limit) {
            let Some(mut session) = candidates[*at].session.take() else { continue };
            session.score = scores[*at];
            let mut rows: HashMap<i64, usize> = HashMap::new();
            for row in terms.iter().flat_map(|fits| &fits[*at].rows) {
                *rows.entry(*row).or_default() += 1;
            }
            let mut best: Vec<(i64, usize)> = rows.into_iter().collect();
            best.sort_by_key(|(row, terms)| (Reverse(*terms), Reverse(*row)));
            shown.push((session, self.spots(&best)?));
        }
        let mut found = Found { total: order.len(), ..Found::default() };
        found.is_cut = found.total > shown.len();
        let has_time = || Instant::now() <= deadline;
        let read = |at: usize| has_time().then(|| shown[at].1.read(query, wish));
        let (mut all, mut made) = (Vec::new(), Vec::new());
        let Ok(()) = threads::in_order(shown.len(), threads::count(), read, |_, read| {
            found.is_cut |= read.is_none();
            let (hits, new) = read.unwrap_or_default();
            all.push(hits);
            made.extend(new);
            Ok::<(), Infallible>(())
        });
        if !made.is_empty() {
            self.keep_places(&made)?;
        }
        for ((mut session, _), hits) in shown.into_iter().zip(all) {
            session.hits = hits;
            self.describe(&mut session)?;
            if session.is_deleted && session.hits.is_empty() {
                session.hits.push(hit::of_deleted(&session, query));
            }
            found.sessions.push(session);
        }
        Ok(found)
    }

    /// Adds what only shown sessions need.
    fn describe(&self, session: &mut FoundSession) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached("SELECT title, prompt FROM file WHERE path = ?")?;
        let path = session.path.to_string_lossy();
        (session.title, session.prompt) =
            statement.query_row([path], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(())
    }

    /// The sessions of the homes, and which of them each file belongs to.
    fn candidates(
        &self,
        wish: &Wish<'_>,
    ) -> rusqlite::Result<(Vec<Candidate>, HashMap<i64, usize>)> {
        let mut all: Vec<Candidate> = Vec::new();
        let mut by_name: HashMap<(String, String), usize> = HashMap::new();
        let mut by_file = HashMap::new();
        let mut statement = self.connection.prepare_cached(
            "SELECT number, project, session, is_agent, path, cwd, branch, started, ended, \
             is_deleted FROM file WHERE home = ?",
        )?;
        for home in wish.homes {
            let mut rows = statement.query([home.to_string_lossy()])?;
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                let (project, name): (String, String) = (row.get(1)?, row.get(2)?);
                let at = *by_name.entry((project.clone(), name.clone())).or_insert_with(|| {
                    all.push(Candidate::default());
                    all.len() - 1
                });
                by_file.insert(number, at);
                let candidate = &mut all[at];
                candidate.files.push(number);
                let is_agent: bool = row.get(3)?;
                if is_agent && candidate.session.is_some() {
                    continue;
                }
                candidate.branch = row.get(6)?;
                candidate.started = row.get(7)?;
                candidate.session = Some(FoundSession {
                    id: name,
                    path: PathBuf::from(row.get::<_, String>(4)?),
                    project: PathBuf::from(project),
                    cwd: row.get(5)?,
                    title: None,
                    prompt: None,
                    ended: row.get::<_, Option<i64>>(8)?.map(Time),
                    is_deleted: row.get(9)?,
                    score: 0.0,
                    hits: Vec::new(),
                });
            }
        }
        Ok((all, by_file))
    }

    /// Which sessions fit the filters that are about whole sessions.
    fn allowed(
        &self,
        query: &Query,
        wish: &Wish<'_>,
        candidates: &[Candidate],
    ) -> rusqlite::Result<Vec<bool>> {
        let filters = &query.filters;
        let now = Timestamp::try_from(wish.now).unwrap_or_default();
        let times = |texts: &[String]| {
            let times = texts.iter().filter_map(|text| moment(text, now));
            times.map(jiff::Timestamp::as_millisecond).collect::<Vec<i64>>()
        };
        let (after, before) = (times(&filters.after), times(&filters.before));
        let has = |text: Option<&str>, part: &str| {
            text.is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
        };
        let mut allowed: Vec<bool> = candidates
            .iter()
            .map(|one| {
                let Some(session) = &one.session else { return false };
                let folder = session.project.file_name().map(|name| name.to_string_lossy());
                let in_project = |part: &String| {
                    has(session.cwd.as_deref(), part) || has(folder.as_deref(), part)
                };
                let ended = session.ended.map(|time| time.0);
                filters.project.iter().all(in_project)
                    && filters.branch.iter().all(|part| has(one.branch.as_deref(), part))
                    && filters.session.iter().all(|start| session.id.starts_with(start.as_str()))
                    && after.iter().all(|after| ended.is_some_and(|ended| ended >= *after))
                    && before.iter().all(|before| one.started.is_some_and(|at| at < *before))
                    && wish.projects.is_none_or(|projects| projects.contains(&session.project))
            })
            .collect();
        for wanted in &filters.file {
            let touching = self.touching(wanted)?;
            for (at, one) in candidates.iter().enumerate() {
                allowed[at] &= one.files.iter().any(|file| touching.contains(file));
            }
        }
        if let Some(least) = filters.cost_over {
            let costs = self.costs(wish)?;
            for (at, one) in candidates.iter().enumerate() {
                let cost = one
                    .session
                    .as_ref()
                    .and_then(|session| costs.get(&(session.project.clone(), session.id.clone())));
                allowed[at] &= cost.is_some_and(|cost| *cost > least);
            }
        }
        Ok(allowed)
    }

    /// The files with a call that names a file, or one that ends like this.
    fn touching(&self, wanted: &str) -> rusqlite::Result<HashSet<i64>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT DISTINCT file, touched.path, cwd FROM touched JOIN file ON number = file",
        )?;
        let mut rows = statement.query([])?;
        let wanted = Path::new(wanted.trim_start_matches("./"));
        let mut found = HashSet::new();
        while let Some(row) = rows.next()? {
            let (path, cwd): (String, Option<String>) = (row.get(1)?, row.get(2)?);
            // A call may name it as seen from the session's folder.
            if Path::new(&cwd.unwrap_or_default()).join(path).ends_with(wanted) {
                found.insert(row.get(0)?);
            }
        }
        Ok(found)
    }

    /// What each session cost.
    fn costs(&self, wish: &Wish<'_>) -> rusqlite::Result<HashMap<(PathBuf, String), f64>> {
        let ledger = self.ledger_of(wish.homes)?;
        let mut costs: HashMap<(PathBuf, String), f64> = HashMap::new();
        for entry in &ledger.entries {
            let file = ledger.source(entry);
            let cost = entry.message.spending(wish.prices).cost.map_or(0.0, Money::dollars);
            *costs.entry((file.project.clone(), file.session.to_string())).or_default() += cost;
        }
        Ok(costs)
    }

    /// How often each session fits an expression, and where.
    fn fitting(
        &self,
        expression: &str,
        by_file: &HashMap<i64, usize>,
        sessions: usize,
    ) -> rusqlite::Result<Vec<Fits>> {
        let mut found: Vec<Fits> = Vec::new();
        found.resize_with(sessions, Fits::default);
        let mut statement =
            self.connection.prepare_cached("SELECT rowid FROM text WHERE text MATCH ?")?;
        let mut rows = statement.query([expression])?;
        let mut last = (0, None);
        while let Some(row) = rows.next()? {
            let row: i64 = row.get(0)?;
            let file = row / SPAN;
            if last.0 != file {
                last = (file, by_file.get(&file).copied());
            }
            if let Some(at) = last.1 {
                found[at].count += 1;
                if found[at].rows.len() < REMEMBERED {
                    found[at].rows.push(row);
                }
            }
        }
        Ok(found)
    }

    /// The paths of these files, unless they are gone.
    fn present_files(&self, numbers: &[i64]) -> rusqlite::Result<Vec<NamedFile>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT path FROM file WHERE number = ? AND NOT is_deleted")?;
        let mut files = Vec::new();
        for number in numbers {
            let mut rows = statement.query([number])?;
            if let Some(row) = rows.next()? {
                files.push((*number, PathBuf::from(row.get::<_, String>(0)?)));
            }
        }
        Ok(files)
    }

    /// These files, unless they are gone.
    fn spot_files(&self, numbers: &[i64]) -> rusqlite::Result<Vec<SpotFile>> {
        let mut files = Vec::new();
        for (number, path) in self.present_files(numbers)? {
            files.push(SpotFile { number, path, places: self.places_of(number)? });
        }
        Ok(files)
    }

    /// Where rows of the text index are: files, and which of their records.
    fn spots(&self, rows: &[(i64, usize)]) -> rusqlite::Result<Spots> {
        let mut known: HashMap<i64, Option<usize>> = HashMap::new();
        let mut spots = Spots::default();
        for (row, _) in rows {
            let number = row / SPAN;
            if let Entry::Vacant(entry) = known.entry(number) {
                let files = self.spot_files(&[number])?;
                entry.insert((!files.is_empty()).then_some(spots.files.len()));
                spots.files.extend(files);
            }
            if let Some(Some(file)) = known.get(&number) {
                spots.list.push(Spot { file: *file, record: (row % SPAN).cast_unsigned() });
            }
        }
        Ok(spots)
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

/// A newer session is more likely the one that is looked for: up to twice as much, half of that
/// after a month.
fn recency(candidate: &Candidate, now: SystemTime) -> f64 {
    let ended = candidate.session.as_ref().and_then(|session| session.ended);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a weight")]
    let days = ended.map_or(3_650.0, |ended| (now - ended.0 as f64 / 1e3).max(0.0) / 86_400.0);
    1.0 + 1.0 / (1.0 + days / 30.0)
}
