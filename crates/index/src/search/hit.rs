//! Where a session fits a query: the turn, the line, and the text around it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use transcript::conversation::Conversation;
use transcript::conversation::table::RowId;
use transcript::conversation::turn::{Step, Turn};
use transcript::format::entry::Entry;
use transcript::format::file::Lines;
use transcript::format::secret::Mask;

use super::snippet::Snippet;
use super::{FoundSession, Query, Wish};
use crate::catalog::{agent_of, meta};
use crate::texts::{Passage, TextKind, texts};

/// A place where a session fits.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The turn of the live conversation, from 1; `None` on an abandoned branch or in a sub-agent.
    pub turn: Option<usize>,
    /// The number of the line in its file; 0 if that is not known.
    pub line: u64,
    /// The sub-agent whose file it is in.
    pub agent: Option<String>,
    /// Who says it.
    pub role: &'static str,
    /// What it is.
    pub kind: &'static str,
    /// The text around it.
    pub snippet: Snippet,
}

/// The hits at these places, the best ones first.
pub(super) fn read(places: &[(PathBuf, u64)], query: &Query, wish: &Wish<'_>) -> Vec<Hit> {
    let mut open: HashMap<&Path, Option<Opened>> = HashMap::new();
    let mut hits: Vec<Hit> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    // The best of a few more than are wanted.
    for (path, record) in places {
        if hits.len() >= wish.hits * 4 {
            break;
        }
        let opened = open.entry(path).or_insert_with(|| Opened::new(path));
        let Some(opened) = opened else { continue };
        let Some(row) = opened.row(*record) else { continue };
        let found = opened.conversation.look(row, |entry| best(entry, query, wish));
        let Ok(Some((kind, snippet))) = found else { continue };
        // Growing copies of an answer say the same.
        if seen.insert(snippet.text.clone()) {
            let line = opened.conversation.table.row(row).line;
            let (turn, agent) = (opened.turn_of(row), opened.agent.clone());
            hits.push(Hit { turn, line, agent, role: kind.role(), kind: kind.name(), snippet });
        }
    }
    // What people and the model said comes first, in order.
    let weight = |hit: &Hit| TextKind::ALL.iter().position(|kind| kind.name() == hit.kind);
    hits.sort_by_key(|hit| (weight(hit), hit.agent.is_some(), hit.line));
    hits.truncate(wish.hits);
    hits
}

/// What is left of a deleted session.
pub(super) fn of_deleted(session: &FoundSession, query: &Query) -> Hit {
    let text = [session.title.as_deref(), session.prompt.as_deref()];
    let text = text.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let snippet = Snippet::of(&text, query).unwrap_or_else(|| Snippet::start(&text));
    Hit { turn: None, line: 0, agent: None, role: "client", kind: "title", snippet }
}

/// The text of a record that fits, and what it is. Without words in the query, the first text.
fn best(entry: &Entry<'_>, query: &Query, wish: &Wish<'_>) -> Option<(TextKind, Snippet)> {
    let passages = texts(entry, &mut Mask::new(wish.redactor));
    let fits = |one: &Passage| Some((one.kind, Snippet::of(&one.text, query)?));
    let first = passages.first().map(|one| (one.kind, Snippet::start(&one.text)));
    passages.iter().find_map(fits).or(first)
}

/// A file that hits are in.
struct Opened {
    conversation: Conversation,
    turns: HashMap<RowId, usize>,
    agent: Option<String>,
}

impl Opened {
    fn new(path: &Path) -> Option<Opened> {
        let conversation = Conversation::open(path).ok()?;
        let agent = agent_of(path);
        let mut turns = HashMap::new();
        if agent.is_none() {
            for (number, turn) in (1..).zip(&conversation.turns().live) {
                for row in rows_of(&conversation, turn) {
                    turns.entry(row).or_insert(number);
                }
            }
        }
        Some(Opened { conversation, turns, agent })
    }

    /// The row of a record, which is the same unless the file has changed since it was read.
    fn row(&self, record: u64) -> Option<RowId> {
        let row = u32::try_from(record).ok().map(RowId)?;
        (row.index() < self.conversation.table.rows().len()).then_some(row)
    }

    fn turn_of(&self, row: RowId) -> Option<usize> {
        self.turns.get(&row).copied()
    }
}

/// The records of a turn.
fn rows_of(conversation: &Conversation, turn: &Turn) -> Vec<RowId> {
    let table = &conversation.table;
    let mut rows = Vec::new();
    for step in &turn.steps {
        match step {
            Step::Said(row) | Step::Event(row) => rows.push(*row),
            Step::Orphan(block) => rows.push(table.block(*block).row),
            Step::Answer { blocks, .. } => {
                for block in blocks {
                    rows.push(table.block(*block).row);
                    rows.extend(
                        conversation.pairs.of(*block).map(|result| table.block(result).row),
                    );
                }
            }
        }
    }
    rows
}

/// What a scan of files found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Each expression fits somewhere.
    pub(super) is_fitting: bool,
    pub(super) hits: Vec<Hit>,
    /// There was no time to read everything.
    pub(super) is_cut: bool,
}

/// Reads files for the regular expressions of a query: each must fit somewhere, in a record that
/// fits the filters.
pub(super) fn scan(files: &[PathBuf], query: &Query, wish: &Wish<'_>, deadline: Instant) -> Scan {
    let mut missing: Vec<bool> = vec![true; query.patterns.len()];
    let mut places: Vec<(PathBuf, u64)> = Vec::new();
    let mut mask = Mask::new(wish.redactor);
    'files: for path in files {
        let Ok(file) = files::open(path) else { continue };
        let mut lines = Lines::new(file);
        let mut number = 0;
        while let Ok(Some(line)) = lines.next_line() {
            if Instant::now() > deadline {
                return Scan { is_cut: true, ..Scan::default() };
            }
            for entry in line.records().filter_map(|record| record.entry) {
                let passages = texts(&entry, &mut mask);
                let words = meta(&entry, &passages);
                let is_wanted = |word: &String| words.split(' ').any(|one| one == word);
                if query.filters.record.iter().all(is_wanted) {
                    let mut is_found = false;
                    for (pattern, missing) in query.patterns.iter().zip(&mut missing) {
                        if passages.iter().any(|one| pattern.is_match(&one.text)) {
                            (*missing, is_found) = (false, true);
                        }
                    }
                    places.extend(is_found.then(|| (path.clone(), number)));
                }
                number += 1;
            }
            if places.len() >= wish.hits && !missing.contains(&true) {
                break 'files;
            }
        }
    }
    let is_fitting = !missing.contains(&true);
    let hits = if is_fitting { read(&places, query, wish) } else { Vec::new() };
    Scan { is_fitting, hits, is_cut: false }
}
