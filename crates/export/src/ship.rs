//! Makes batches of what a receiver does not have of the sessions, and of nothing else.
//!
//! Invariants: what is not finished is left for later; a batch marks a unit as done only if the
//! last of the unit's spans is in it or in an earlier batch; until the contents of every batch that
//! was damaged on disk have been made again, no session is skipped because its files look the same.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::ingest::{Closing, Fingerprint, Origins};
use transcript::conversation::place::Session;
use transcript::format::time::Time;

use crate::disk;
use crate::id::Ids;
use crate::outbox::{Closed, ReceiverDir};
use crate::plan::{Plan, Shipment};
use crate::profile::{Profile, Telling};
use crate::receipts::{Position, State, Update};
use crate::wire::{self, Batch};

/// Called with each full batch.
pub type Give<'a> = &'a mut dyn FnMut(Batch) -> Result<(), Closed>;

/// Called span by span with the number of a session's bytes that are processed.
pub type Watch<'a> = &'a dyn Fn(u64);

/// The mark of a turn that another session reports.
const COPY: &str = "copy";

/// Goes through sessions and makes batches.
#[derive(Debug)]
pub struct Shipper<'a> {
    receiver_dir: &'a ReceiverDir,
    telling: &'a Telling,
    ids: &'a Ids,
    known: Known<'a>,
    /// Turns opened before this time are skipped.
    since: Option<Time>,
    /// Something that was to arrive is gone: every session is read, even if its files look the
    /// same.
    is_in_doubt: bool,
    /// The line up to which another program has sent each session.
    imported: Imported,
    origins: Origins,
    batch: Batch,
}

/// What was made of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Turns to send.
    pub turns: usize,
    /// Runs of sub-agents to send.
    pub runs: usize,
    /// Their spans.
    pub spans: usize,
    /// Units that the receiver has, or that wait for it.
    pub known: usize,
    /// Units that are not finished.
    pub unfinished: usize,
}

impl Made {
    /// Adds other counts to these.
    pub fn add(&mut self, other: Made) {
        self.turns += other.turns;
        self.runs += other.runs;
        self.spans += other.spans;
        self.known += other.known;
        self.unfinished += other.unfinished;
    }
}

/// Why a session was not processed.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The session cannot be read.
    #[error("{0}")]
    Read(#[from] transcript::Error),
    /// Batches are no longer accepted.
    #[error("delivery has ended")]
    Closed,
}

/// Whether what a receiver has already is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// No.
    Never,
    /// Yes: the user asked.
    Always,
}

/// What a receiver has, or will have.
#[derive(Debug)]
pub struct Known<'a> {
    /// None if nothing is sent.
    receiver_dir: Option<&'a ReceiverDir>,
    /// Whether to send again what the receiver has.
    repeat: Repeat,
    /// Units that wait on disk or were already made, with their marks.
    made: HashSet<(String, String)>,
    /// What has arrived of a session: the session of the last unit that was asked about.
    last: Option<(String, State)>,
}

impl<'a> Known<'a> {
    /// What the receiver has now; nothing, if everything is to be sent again.
    pub fn new(receiver_dir: Option<&'a ReceiverDir>, repeat: Repeat) -> Known<'a> {
        let made = receiver_dir
            .filter(|_| repeat == Repeat::Never)
            .map(|receiver_dir| receiver_dir.spool.known())
            .unwrap_or_default();
        Known { receiver_dir, repeat, made, last: None }
    }

    /// Records that the receiver will have a unit.
    pub fn add(&mut self, shipment: Shipment<'_>) {
        self.made.insert((shipment.key.to_owned(), shipment.unit.mark.clone()));
    }

    /// Whether the receiver has a unit, or will have it.
    pub fn has(&mut self, shipment: Shipment<'_>) -> bool {
        let (unit, key) = (shipment.unit, shipment.key);
        if self.made.contains(&(key.to_owned(), unit.mark.clone())) {
            return true;
        }
        let Some(has) = self.receiver_dir.filter(|_| self.repeat == Repeat::Never) else {
            return false;
        };
        // A turn may name another session than its file's name does.
        if self.last.as_ref().is_none_or(|(session, _)| unit.session != session.as_str()) {
            let state = has.states.load(&unit.session);
            self.last = Some((unit.session.to_string(), state));
        }
        let state = self.last.as_ref().map(|(_, state)| state);
        let mark = state.and_then(|state| state.done.get(key));
        mark.is_some_and(|mark| *mark == unit.mark || mark == COPY)
    }
}

impl<'a> Shipper<'a> {
    /// A shipper for one receiver.
    pub fn new(
        receiver_dir: &'a ReceiverDir,
        telling: &'a Telling,
        ids: &'a Ids,
        repeat: Repeat,
        since: Option<Time>,
    ) -> Self {
        let known = Known::new(Some(receiver_dir), repeat);
        let (origins, batch) = (Origins::default(), Batch::default());
        let is_in_doubt = !receiver_dir.spool.damaged().is_empty();
        let imported = disk::load(&imported_file(receiver_dir), LONGEST).unwrap_or_default();
        Shipper { receiver_dir, telling, ids, known, since, is_in_doubt, imported, origins, batch }
    }

    /// Makes batches of what is finished in a session and has not arrived yet. Where `known` does
    /// not say whether the session continues, the time since the last write decides.
    pub fn session(
        &mut self,
        session: &Session,
        known: &Closing,
        now: SystemTime,
        give: Give<'_>,
        watch: Watch<'_>,
    ) -> Result<Made, ShipError> {
        let state = self.receiver_dir.states.load(&session.id);
        self.known.last = None;
        let agents = self.origins.agents(session);
        let look = Fingerprint::of(session, &agents)?.as_str().to_owned();
        let closing = Closing::by_time(session, &agents, now).or(known);
        let is_as_it_was =
            state.position.as_ref().is_some_and(|position| position.look.as_ref() == Some(&look));
        if is_as_it_was && self.known.repeat == Repeat::Never && !self.is_in_doubt {
            return Ok(Made { known: state.done.len(), ..Made::default() });
        }
        let family = WithAgents::open_with(session, agents.clone())?;
        let is_whole = family.unreadable.is_empty();
        let copied = self.origins.of(session, &family.main.table);
        let plan = Plan::new(family, &session.id, self.ids, &closing, &copied);
        let mut made = Made::default();
        let theirs = imported(&plan, self.imported.get(session.id.as_str()).copied());
        let is_cc_langfuse = self.telling.profile == Profile::CcLangfuse;
        let mut left = 0;
        // Only if something is sent: it reads all files of the session.
        let mut with_secrets = None;
        let mut progress = Progress::new(&plan, session.size, watch);
        for shipment in plan.shipments() {
            let unit = shipment.unit;
            if is_cc_langfuse && !unit.is_turn() {
                continue;
            }
            progress.begin(shipment);
            if unit.is_copy {
                // The session that has it may be deleted, and then this one would report it under
                // its own name.
                if unit.session == session.id {
                    self.note_copy(shipment, &state);
                }
                continue;
            }
            if self.since.is_some_and(|since| plan.opened(unit) < since) {
                left += 1;
            } else if !unit.is_finished {
                made.unfinished += 1;
            } else if self.known.has(shipment)
                || theirs.contains(&unit.number) && self.known.repeat == Repeat::Never
            {
                made.known += 1;
            } else {
                made.turns += usize::from(unit.is_turn());
                made.runs += usize::from(!unit.is_turn());
                let telling = match &with_secrets {
                    Some(telling) => telling,
                    None => with_secrets.insert(self.telling.of_session(session, &agents)?),
                };
                made.spans += self.unit((&plan, telling), shipment, give, &mut progress)?;
                self.known.add(shipment);
            }
        }
        let position =
            position_of(&plan, session, (is_whole && made.unfinished + left == 0).then_some(look));
        if state.position.as_ref() != Some(&position) {
            let session = session.id.to_string();
            let update = Update { session, done: BTreeMap::new(), position: Some(position) };
            self.batch.note(update);
        }
        Ok(made)
    }

    fn note_copy(&mut self, shipment: Shipment<'_>, state: &State) {
        let (unit, key) = (shipment.unit, shipment.key);
        if unit.is_finished && !state.done.contains_key(key) {
            let done = BTreeMap::from([(key.to_owned(), COPY.to_owned())]);
            self.batch.note(Update { session: unit.session.to_string(), done, position: None });
        }
    }

    fn unit(
        &mut self,
        (plan, telling): (&Plan, &Telling),
        shipment: Shipment<'_>,
        give: Give<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<usize, ShipError> {
        let batch = &mut self.batch;
        let (mut count, mut is_closed) = (0, false);
        let read = plan.spans(shipment, &mut |span| {
            progress.step();
            let Some(told_span) = telling.tell(&span) else { return Ok(()) };
            let sent = wire::span(&span, told_span);
            if batch.is_full_for(&sent) && give(std::mem::take(batch)).is_err() {
                is_closed = true;
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
            count += 1;
            batch.push(span.turn.version.as_deref().unwrap_or_default(), sent);
            Ok(())
        });
        if is_closed {
            return Err(ShipError::Closed);
        }
        read?;
        let unit = shipment.unit;
        let done = BTreeMap::from([(shipment.key.to_owned(), unit.mark.clone())]);
        let session = unit.session.to_string();
        self.batch.note(Update { session, done, position: None });
        Ok(count)
    }

    /// Passes on the last batch.
    pub fn finish(self, give: Give<'_>) -> Result<(), ShipError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        give(self.batch).map_err(|_| ShipError::Closed)
    }
}

/// How much of a session is processed, measured in the expected spans of its units: making spans
/// takes the time, not reading.
struct Progress<'a> {
    size: u64,
    /// The expected spans of all units.
    total: u64,
    /// The spans of earlier units, of the current one, and how many of the current one were made.
    before: u64,
    current: u64,
    made: u64,
    watch: Watch<'a>,
}

impl<'a> Progress<'a> {
    fn new(plan: &Plan, size: u64, watch: Watch<'a>) -> Self {
        let total = plan.shipments().map(|one| one.likely_spans()).sum();
        Progress { size, total, before: 0, current: 0, made: 0, watch }
    }

    fn begin(&mut self, shipment: Shipment<'_>) {
        self.before += self.current;
        self.current = shipment.likely_spans();
        self.made = 0;
    }

    fn step(&mut self) {
        self.made = (self.made + 1).min(self.current);
        let done = u128::from(self.size) * u128::from(self.before + self.made);
        (self.watch)(u64::try_from(done / u128::from(self.total.max(1))).unwrap_or(self.size));
    }
}

fn position_of(plan: &Plan, session: &Session, look: Option<String>) -> Position {
    let table = &plan.main().table;
    let turns =
        || plan.shipments().map(|one| one.unit).filter(|unit| unit.is_turn() && unit.is_finished);
    Position {
        path: session.path.clone(),
        line: turns().map(|unit| unit.lines[1]).max().unwrap_or(0),
        byte: table.end,
        turns: turns().count(),
        last_prompt: turns().next_back().map(|unit| unit.opener.clone()),
        look,
    }
}

/// The numbers of the turns that another program has sent.
fn imported(plan: &Plan, line: Option<u64>) -> HashSet<usize> {
    let Some(line) = line else { return HashSet::new() };
    // Lines that were written after its hook ran are part of a turn that it has sent.
    let turns =
        plan.shipments().map(|one| one.unit).filter(|unit| unit.is_turn() && unit.lines[0] <= line);
    turns.map(|unit| unit.number).collect()
}

/// The most bytes that another program's state file may have.
const LONGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct Theirs {
    last_line: u64,
}

/// The line up to which another program reports to have sent each session.
type Imported = BTreeMap<String, u64>;

fn imported_file(receiver_dir: &ReceiverDir) -> PathBuf {
    receiver_dir.folder.join("imported")
}

/// Takes over what the cc-langfuse hook reports to have sent: once, and only for sessions of which
/// nothing is known. Returns the number of sessions.
pub fn import(receiver_dir: &ReceiverDir, path: &Path) -> io::Result<usize> {
    let file = imported_file(receiver_dir);
    if disk::load::<Imported>(&file, LONGEST).is_some() {
        return Ok(0);
    }
    let bytes = match files::read(path, LONGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut theirs: BTreeMap<String, Theirs> = serde_json::from_slice(&bytes)?;
    // If it was taken over before and that file is damaged, Quipu has shipped some of these
    // sessions since.
    if !file.exists() {
        theirs.retain(|session, _| receiver_dir.states.load(session) == State::default());
    }
    let imported: Imported =
        theirs.into_iter().map(|(session, known)| (session, known.last_line)).collect();
    disk::save(&file, &imported)?;
    Ok(imported.len())
}

#[cfg(test)]
#[path = "ship_tests.rs"]
mod tests;
