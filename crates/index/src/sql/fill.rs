//! Fills the views that a query reads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use jiff::tz::TimeZone;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use transcript::conversation::usage::{CountedFile, Ledger, LedgerEntry, Money, Spending};
use transcript::conversation::view::stamp;
use transcript::format::time::Time;

use super::{SqlError, SqlWish, Watched};
use crate::catalog::{Catalog, KnownFile, agent_of};
use crate::usage::{day, project_names};

/// Brings what the query reads up to date, and puts it into the views. Returns how many files are
/// left out, because they changed meanwhile or cannot be read.
pub(super) fn fill(
    catalog: &mut Catalog,
    database: &Connection,
    read: &Watched,
    wish: &SqlWish<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<usize, SqlError> {
    if read.reads("turns") || read.reads("calls") {
        catalog.compute_turns(wish.homes, wish.threads, &mut *progress)?;
    }
    if read.reads("verdicts") {
        catalog.compute_verdicts(wish.homes, wish.redactor, wish.threads, progress)?;
    }
    let filled = Filling::new(catalog, database, read, wish).and_then(|filling| filling.all(read));
    filled.map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OutOfMemory) => SqlError::Large,
        _ => catalog.sql(error).into(),
    })
}

struct Filling<'a> {
    catalog: &'a Catalog,
    database: &'a Connection,
    wish: &'a SqlWish<'a>,
    files: Vec<KnownFile>,
    sources: Vec<CountedFile>,
    /// The places of files in `files`, by their numbers.
    places: HashMap<i64, usize>,
    /// Files of which what was computed is not that of the file as it is now.
    stale: HashSet<i64>,
    ledger: Option<Ledger>,
}

/// A session: its project's folder and its id.
type SessionKey = (PathBuf, String);

impl<'a> Filling<'a> {
    fn new(
        catalog: &'a Catalog,
        database: &'a Connection,
        read: &Watched,
        wish: &'a SqlWish<'a>,
    ) -> rusqlite::Result<Filling<'a>> {
        let files = catalog.files(wish.homes)?;
        let places = files.iter().enumerate().map(|(at, file)| (file.number, at)).collect();
        let needs_ledger = read.reads("messages")
            || read.reads("links")
            || read.reads_column("sessions", &["messages", "output", "cost_usd"]);
        let ledger = if needs_ledger { Some(catalog.ledger_of(wish.homes)?) } else { None };
        let sources = files.iter().map(KnownFile::counted).collect();
        let mut stale = HashSet::new();
        if read.reads("turns") || read.reads("calls") {
            stale.extend(catalog.without_turns(wish.homes)?.iter().map(|file| file.number));
        }
        if read.reads("verdicts") {
            stale.extend(catalog.without_verdict(wish.homes)?.iter().map(|(file, _)| file.number));
        }
        Ok(Filling { catalog, database, wish, files, sources, places, stale, ledger })
    }

    fn all(&self, read: &Watched) -> rusqlite::Result<usize> {
        self.database.execute_batch("BEGIN")?;
        let names = self.names();
        for (view, add) in [
            ("sessions", Filling::sessions as fn(&Filling<'a>, &Names<'_>) -> _),
            ("turns", Filling::turns),
            ("messages", Filling::messages),
            ("calls", Filling::calls),
            ("files", Filling::touched),
            ("verdicts", Filling::verdicts),
            ("links", Filling::links),
        ] {
            if read.reads(view) {
                add(self, &names)?;
            }
        }
        self.database.execute_batch("COMMIT")?;
        Ok(self.stale.len())
    }

    /// Adds a row to a view.
    fn put<const N: usize>(&self, view: &str, values: [Value; N]) -> rusqlite::Result<()> {
        let marks = vec!["?"; N].join(", ");
        let statement = format!("INSERT INTO {view} VALUES ({marks})");
        self.database.prepare_cached(&statement)?.execute(params_from_iter(values))?;
        Ok(())
    }

    fn names(&self) -> Names<'_> {
        Names { projects: project_names(&self.sources) }
    }

    /// Passes on what was computed of files in force, if it is that of the files as they are now.
    fn each_computed(
        &self,
        query: &str,
        mut pass: impl FnMut(&KnownFile, &Row<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.each(
            query,
            |file, row| {
                if self.stale.contains(&file.number) { Ok(()) } else { pass(file, row) }
            },
        )
    }

    /// Passes on rows of the catalog that begin with the number of a file in force.
    fn each(
        &self,
        query: &str,
        mut pass: impl FnMut(&KnownFile, &Row<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut statement = self.catalog.connection.prepare_cached(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(at) = self.places.get(&row.get(0)?) {
                pass(&self.files[*at], row)?;
            }
        }
        Ok(())
    }

    fn sessions(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        let spent = self.spent();
        let mut agents: HashMap<SessionKey, i64> = HashMap::new();
        for file in self.files.iter().filter(|file| file.is_agent) {
            *agents.entry(key_of(file)).or_default() += 1;
        }
        let query = "SELECT number, title, prompt, branch, version, started, ended, size, records, \
                     prompts, is_deleted FROM file WHERE NOT is_agent";
        self.each(query, |file, row| {
            let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Time));
            let (started, ended, key) = (time(5)?, time(6)?, key_of(file));
            let sum = spent.get(&key).copied().unwrap_or_default();
            self.put(
                "sessions",
                [
                    text(&file.session),
                    text(names.project(file)),
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    moment(started),
                    moment(ended),
                    local_day(ended, self.wish.zone),
                    row.get(7)?,
                    row.get(8)?,
                    row.get(9)?,
                    Value::Integer(agents.get(&key).copied().unwrap_or(0)),
                    number(sum.messages),
                    number(sum.usage.output),
                    cost(&sum),
                    row.get(10)?,
                    text(&file.path.to_string_lossy()),
                ],
            )
        })
    }

    /// What each session took, with its sub-agents.
    fn spent(&self) -> HashMap<SessionKey, Spending> {
        let mut spent: HashMap<SessionKey, Spending> = HashMap::new();
        for (entry, source) in self.entries() {
            let key = (source.project.clone(), source.session.to_string());
            *spent.entry(key).or_default() += entry.message.spending(self.wish.prices);
        }
        spent
    }

    fn entries(&self) -> impl Iterator<Item = (&LedgerEntry, &CountedFile)> {
        self.ledger.iter().flat_map(|ledger| {
            ledger.entries.iter().map(move |entry| (entry, ledger.source(entry)))
        })
    }

    fn turns(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        let mut sums: HashMap<(i64, i64), Spending> = HashMap::new();
        self.catalog.each_message(|file, turn, message| {
            if let Some(turn) = turn {
                *sums.entry((file, turn)).or_default() += message.spending(self.wish.prices);
            }
        })?;
        let mut calls: HashMap<(i64, i64), [i64; 2]> = HashMap::new();
        self.each_computed("SELECT file, turn, is_error FROM call", |file, row| {
            let count = calls.entry((file.number, row.get(1)?)).or_default();
            count[0] += 1;
            count[1] += i64::from(row.get::<_, Option<bool>>(2)? == Some(true));
            Ok(())
        })?;
        let query = "SELECT file, number, turn, place, branch, line, started, ended, outcome \
                     FROM turn";
        self.each_computed(query, |file, row| {
            let at = (file.number, row.get::<_, i64>(1)?);
            let sum = sums.get(&at).copied().unwrap_or_default();
            let [calls, failed] = calls.get(&at).copied().unwrap_or_default();
            let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Time));
            self.put(
                "turns",
                [
                    text(&file.session),
                    text(names.project(file)),
                    agent(file),
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                    moment(time(6)?),
                    moment(time(7)?),
                    row.get(8)?,
                    Value::Integer(calls),
                    Value::Integer(failed),
                    number(sum.messages),
                    number(sum.usage.read()),
                    number(sum.usage.output),
                    cost(&sum),
                ],
            )
        })
    }

    fn messages(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        for (entry, source) in self.entries() {
            let message = &entry.message;
            let sum = message.spending(self.wish.prices);
            let usage = message.usage;
            self.put(
                "messages",
                [
                    text(&message.id),
                    text(&source.session),
                    text(names.of(source)),
                    maybe(agent_of(&source.path)),
                    moment(message.time),
                    local_day(message.time, self.wish.zone),
                    maybe(message.model.as_deref()),
                    maybe(message.tool.as_deref()),
                    number(usage.input),
                    number(usage.output),
                    number(usage.cache_5m),
                    number(usage.cache_1h),
                    number(usage.cache_read),
                    number(usage.searches),
                    cost(&sum),
                    Value::Integer(i64::from(usage.at_least)),
                    maybe(message.tier.as_deref()),
                    maybe(message.speed.as_deref()),
                    number(message.line),
                    number(entry.copies.len() as u64),
                ],
            )?;
        }
        Ok(())
    }

    fn calls(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        let query = "SELECT call.file, turn.turn, place, tool, time, milliseconds, is_error, \
                     input_bytes, result_bytes, call.line FROM call \
                     JOIN turn ON turn.file = call.file AND turn.number = call.turn";
        self.each_computed(query, |file, row| {
            let time: Option<i64> = row.get(4)?;
            self.put(
                "calls",
                [
                    text(&file.session),
                    text(names.project(file)),
                    agent(file),
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    moment(time.map(Time)),
                    row.get(5)?,
                    row.get(6)?,
                    row.get(7)?,
                    row.get(8)?,
                    row.get(9)?,
                ],
            )
        })
    }

    fn touched(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        self.each("SELECT file, path, tool, calls FROM touched", |file, row| {
            let [path, tool, calls] = [row.get(1)?, row.get(2)?, row.get(3)?];
            let project = text(names.project(file));
            self.put("files", [text(&file.session), project, agent(file), path, tool, calls])
        })
    }

    fn verdicts(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        let query = "SELECT file, verdict, lost, codes, client, rules FROM verdict";
        self.each_computed(query, |file, row| {
            let [verdict, lost, codes] = [row.get(1)?, row.get(2)?, row.get(3)?];
            let [client, rules] = [row.get(4)?, row.get(5)?];
            let project = text(names.project(file));
            self.put(
                "verdicts",
                [text(&file.session), project, verdict, lost, codes, client, rules],
            )
        })
    }

    fn links(&self, names: &Names<'_>) -> rusqlite::Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        // Messages that a session copied, by the session that made them.
        let mut copied: BTreeMap<(SessionKey, SessionKey), u64> = BTreeMap::new();
        let mut made: HashMap<&PathBuf, u64> = HashMap::new();
        let key = |source: &CountedFile| (source.project.clone(), source.session.to_string());
        for (entry, source) in self.entries() {
            *made.entry(&source.path).or_default() += 1;
            let mut later: Vec<SessionKey> =
                entry.copies.iter().map(|at| key(&ledger.sources[*at])).collect();
            later.sort_unstable();
            later.dedup();
            for session in later.into_iter().filter(|session| *session != key(source)) {
                *copied.entry((session, key(source))).or_default() += 1;
            }
        }
        let mut forks: BTreeMap<SessionKey, String> = BTreeMap::new();
        let query = "SELECT number, forked_from FROM file WHERE forked_from IS NOT NULL";
        self.each(query, |file, row| {
            if !file.is_agent {
                forks.insert(key_of(file), row.get(1)?);
            }
            Ok(())
        })?;
        let put = |kind: &str, session: &str, origin: &str, project: &str, count: u64| {
            let values = [text(kind), text(session), text(origin), text(project), number(count)];
            self.put("links", values)
        };
        let mut in_forks: HashMap<&SessionKey, u64> = HashMap::new();
        for ((session, origin), count) in &copied {
            if forks.contains_key(session) {
                *in_forks.entry(session).or_default() += count;
            } else {
                put("copy", &session.1, &origin.1, names.folder(&session.0), *count)?;
            }
        }
        for (session, origin) in &forks {
            let count = in_forks.get(session).copied().unwrap_or(0);
            put("fork", &session.1, origin, names.folder(&session.0), count)?;
        }
        for file in self.files.iter().filter(|file| file.is_agent) {
            let id = agent_of(&file.path).unwrap_or_default();
            let count = made.get(&file.path).copied().unwrap_or(0);
            put("agent", &id, &file.session, names.project(file), count)?;
        }
        Ok(())
    }
}

/// The names of projects.
struct Names<'a> {
    projects: HashMap<&'a std::path::Path, &'a str>,
}

impl Names<'_> {
    fn project(&self, file: &KnownFile) -> &str {
        self.folder(&file.project)
    }

    fn of(&self, source: &CountedFile) -> &str {
        self.folder(&source.project)
    }

    fn folder(&self, folder: &std::path::Path) -> &str {
        self.projects.get(folder).copied().unwrap_or_default()
    }
}

fn key_of(file: &KnownFile) -> SessionKey {
    (file.project.clone(), file.session.clone())
}

fn agent(file: &KnownFile) -> Value {
    maybe(agent_of(&file.path))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn maybe(text: Option<impl Into<String>>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.into()))
}

/// Numbers come from files: larger ones would make every sum overflow.
fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number.min(1 << 40)).unwrap_or_default())
}

fn moment(time: Option<Time>) -> Value {
    maybe(time.and_then(stamp))
}

fn local_day(time: Option<Time>, zone: &TimeZone) -> Value {
    maybe(day(time, zone).map(|day| day.to_string()))
}

fn cost(sum: &Spending) -> Value {
    sum.cost.map(Money::dollars).map_or(Value::Null, Value::Real)
}
