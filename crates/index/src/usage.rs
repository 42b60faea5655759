//! What messages of the API took and cost, by day, session, project, model, agent, tool or block.
//!
//! Every report is made from the same [`Ledger`], in which each message is once. Invariants: a
//! message is in exactly one row, so the total does not depend on what the rows are, to the token
//! and to the millionth of a millionth of a dollar; what has no price is listed, and never costs 0.

mod agents;
mod block;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use transcript::conversation::price::Prices;
use transcript::conversation::usage::{CountedFile, Ledger, LedgerEntry, MessageUsage, Spending};
use transcript::format::time::Time;

use agents::Agents;
pub use block::{BLOCK, Blocks};

/// What the rows of a report are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Days, in a time zone.
    Day,
    /// Weeks, by the days on which they begin.
    Week,
    /// Months.
    Month,
    /// Sessions, with their sub-agents.
    Session,
    /// Projects, by their folders.
    Project,
    /// Models.
    Model,
    /// Kinds of sub-agents.
    Agent,
    /// The first tool that a message calls.
    Tool,
    /// Five hours each, from the hour of the first message: an estimate of the client's limits.
    Block,
}

impl By {
    /// All of them.
    pub const ALL: [By; 9] = [
        By::Day,
        By::Week,
        By::Month,
        By::Session,
        By::Project,
        By::Model,
        By::Agent,
        By::Tool,
        By::Block,
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            By::Day => "day",
            By::Week => "week",
            By::Month => "month",
            By::Session => "session",
            By::Project => "project",
            By::Model => "model",
            By::Agent => "agent",
            By::Tool => "tool",
            By::Block => "block",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.name() == name)
    }

    /// Whether rows are points in time, and in that order.
    pub fn is_time(self) -> bool {
        matches!(self, By::Day | By::Week | By::Month | By::Block)
    }
}

/// The key of messages without a time, in rows that are points in time.
pub const UNKNOWN: &str = "unknown";
/// The key of messages that are not of a sub-agent.
pub const MAIN: &str = "(main)";
/// The key of messages that call no tool.
pub const NONE: &str = "(none)";
/// The key of the row that has the sum of rows that were left out.
pub const REST: &str = "(rest)";

/// Which messages count.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only messages from then on. Messages without a time are left out.
    pub since: Option<Timestamp>,
    /// Only messages before that. Messages without a time are left out.
    pub until: Option<Timestamp>,
    /// Only messages of these projects' folders.
    pub projects: Option<HashSet<PathBuf>>,
}

impl Filter {
    fn has(&self, ledger: &Ledger, entry: &LedgerEntry) -> bool {
        let time = moment(&entry.message);
        self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
            && self
                .projects
                .as_ref()
                .is_none_or(|projects| projects.contains(&ledger.source(entry).project))
    }
}

/// A row of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is about.
    pub key: String,
    /// What its messages took and cost.
    pub sum: Spending,
    /// It is a block whose beginning nobody reported, or has such blocks.
    pub is_estimate: bool,
}

/// What messages took and cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// In order of time, or by what they cost.
    pub rows: Vec<Row>,
    /// The sum of all rows.
    pub total: Spending,
    /// Models without a price, by name.
    pub unpriced: BTreeMap<String, Spending>,
    /// Messages whose output is a lower bound: they were recorded before they ended.
    pub lower_bound: Spending,
    /// Messages that only the catalog still knows: their files are gone.
    pub only_in_catalog: Spending,
    /// How many rows were added up in the last one.
    pub rest: usize,
}

impl Report {
    /// Adds up rows in one row at the end, so that there are at most so many others, and for each
    /// of them is room: of points in time the newest stay, else the largest. The total stays the
    /// sum of all rows.
    pub fn shorten(&mut self, by: By, most: usize, mut has_room: impl FnMut(&Row) -> bool) {
        if by.is_time() {
            self.rows.reverse();
        }
        let kept = self.rows.iter().take(most).take_while(|row| has_room(row)).count();
        let left_out = self.rows.split_off(kept);
        if by.is_time() {
            self.rows.reverse();
        }
        self.rest = left_out.len();
        if self.rest > 0 {
            let mut sum = Spending::default();
            let is_estimate = left_out.iter().any(|row| row.is_estimate);
            for row in left_out {
                sum += row.sum;
            }
            self.rows.push(Row { key: REST.to_owned(), sum, is_estimate });
        }
    }
}

/// How messages are counted.
#[derive(Debug)]
pub struct Question<'a> {
    /// What the rows are.
    pub by: By,
    /// Which messages count.
    pub filter: &'a Filter,
    /// What they cost.
    pub prices: &'a Prices,
    /// Where days begin.
    pub zone: &'a TimeZone,
    /// When blocks ended that the client reported.
    pub block_ends: &'a [Timestamp],
}

/// Counts the messages of a ledger.
pub fn report(ledger: &Ledger, question: &Question<'_>) -> Report {
    let Question { by, filter, prices, .. } = *question;
    let chosen: Vec<&LedgerEntry> =
        ledger.entries.iter().filter(|entry| filter.has(ledger, entry)).collect();
    let keys = Keys::new(ledger, question);
    let mut found = Report::default();
    let mut rows: BTreeMap<String, Spending> = BTreeMap::new();
    for entry in chosen {
        let message = &entry.message;
        let sum = message.spending(prices);
        *rows.entry(keys.of(entry)).or_default() += sum;
        found.total += sum;
        if sum.cost.is_none() {
            *found.unpriced.entry(name(message)).or_default() += sum;
        }
        if message.usage.at_least {
            found.lower_bound += sum;
        }
        if ledger.is_gone(entry) {
            found.only_in_catalog += sum;
        }
    }
    let row =
        |(key, sum): (String, Spending)| Row { is_estimate: keys.is_estimate(&key), key, sum };
    found.rows = rows.into_iter().map(row).collect();
    if !by.is_time() {
        let size = |row: &Row| (row.sum.cost, row.sum.usage.total());
        found.rows.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.key.cmp(&b.key)));
    }
    found
}

/// The model of a message, and its speed if that is not the usual one.
fn name(message: &MessageUsage) -> String {
    let model = message.model.as_deref().unwrap_or(UNKNOWN);
    match message.speed.as_deref() {
        None | Some("standard") => model.to_owned(),
        Some(speed) => format!("{model} ({speed})"),
    }
}

/// When a message was made.
fn moment(message: &MessageUsage) -> Option<Timestamp> {
    Timestamp::from_millisecond(message.time?.0).ok()
}

/// The day of a time.
pub(crate) fn day(time: Option<Time>, zone: &TimeZone) -> Option<Date> {
    let time = Timestamp::from_millisecond(time?.0).ok()?;
    Some(time.to_zoned(zone.clone()).date())
}

/// The row of each message.
struct Keys<'a> {
    ledger: &'a Ledger,
    by: By,
    zone: &'a TimeZone,
    projects: HashMap<&'a Path, &'a str>,
    agents: Agents,
    blocks: Blocks,
    last_day: RefCell<(Option<i64>, String)>,
}

impl<'a> Keys<'a> {
    fn new(ledger: &'a Ledger, question: &Question<'a>) -> Keys<'a> {
        let Question { by, zone, block_ends, .. } = *question;
        // Where blocks begin does not depend on what is chosen.
        let times = ledger.entries.iter().filter_map(|entry| moment(&entry.message));
        Keys {
            ledger,
            by,
            zone,
            projects: if by == By::Project {
                project_names(&ledger.sources)
            } else {
                HashMap::new()
            },
            agents: if by == By::Agent { Agents::of(ledger) } else { Agents::default() },
            blocks: if by == By::Block {
                Blocks::new(times, block_ends, zone)
            } else {
                Blocks::default()
            },
            last_day: RefCell::new((None, UNKNOWN.to_owned())),
        }
    }

    fn is_estimate(&self, key: &str) -> bool {
        self.by == By::Block && key.parse().is_ok_and(|start| !self.blocks.is_reported(start))
    }

    /// The name of a day. Neighbours mostly were made in the same quarter of an hour, in which no
    /// day begins and no clock is changed.
    fn day_of(&self, time: Option<Time>) -> String {
        const QUARTER: i64 = 15 * 60 * 1_000;
        let quarter = time.map(|time| time.0.div_euclid(QUARTER));
        let mut last = self.last_day.borrow_mut();
        if last.0 != quarter {
            let name = day(time, self.zone).map_or(UNKNOWN.to_owned(), |date| date.to_string());
            *last = (quarter, name);
        }
        last.1.clone()
    }

    fn of(&self, entry: &LedgerEntry) -> String {
        let message = &entry.message;
        let source = self.ledger.source(entry);
        let date = |name: &dyn Fn(Date) -> String| {
            day(message.time, self.zone).map_or(UNKNOWN.to_owned(), name)
        };
        match self.by {
            By::Day => self.day_of(message.time),
            By::Week => date(&|date| {
                let back = i64::from(date.weekday().to_monday_zero_offset());
                let monday = date.checked_sub(jiff::Span::new().days(back));
                monday.unwrap_or(date).to_string()
            }),
            By::Month => date(&|date| date.strftime("%Y-%m").to_string()),
            By::Session => source.session.to_string(),
            By::Project => {
                self.projects.get(source.project.as_path()).copied().unwrap_or(UNKNOWN).to_owned()
            }
            By::Model => message.model.as_deref().unwrap_or(UNKNOWN).to_owned(),
            By::Agent => self.agents.kind_of(entry, source),
            By::Tool => message.tool.as_deref().unwrap_or(NONE).to_owned(),
            By::Block => {
                let block = moment(message).and_then(|time| self.blocks.start_of(time));
                block.map_or(UNKNOWN.to_owned(), |start| start.to_string())
            }
        }
    }
}

/// The name of each project's folder: the working directory that it was made for, if a record has
/// it, else the folder's name.
pub(crate) fn project_names(sources: &[CountedFile]) -> HashMap<&Path, &str> {
    let mut names: HashMap<&Path, &str> = HashMap::new();
    for source in sources {
        let folder = source.project.file_name().and_then(|name| name.to_str()).unwrap_or(UNKNOWN);
        let cwd = source.cwd.as_deref().filter(|cwd| {
            use transcript::conversation::place::{slug, slug_uncut};
            [slug(cwd), slug_uncut(cwd), cwd.replace('/', "_")].iter().any(|name| name == folder)
        });
        let name = names.entry(&source.project).or_insert(folder);
        if let Some(cwd) = cwd {
            *name = cwd;
        }
    }
    names
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
