//! Pushes sessions to a target.
//!
//! Invariants: a session is written again exactly if what its rows are made from has changed, even
//! if only another session was chosen that has calls of it; a push that is stopped at any point, or
//! fails, leaves whole objects, and the next one completes it; what is left of a session that the
//! client has deleted replaces nothing; memory is bounded by the number of sessions that are worked
//! on at once.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};
use transcript::conversation::preview::preview;
use transcript::conversation::usage::Ledger;
use transcript::format::threads;

use crate::LakeError;
use crate::group::{Group, relatives};
use crate::identity::project_of;
use crate::rows::{Made, Policy, costs, make};
use crate::schema::{TABLES, VERSION};
use crate::sheet::hex;
use crate::state::{Record, State};
use crate::target::Target;

/// Which sessions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Those that have changed.
    Changed,
    /// All.
    Everything,
}

/// A push.
#[derive(Debug)]
pub struct Push<'a> {
    /// All messages of all sessions.
    pub ledger: &'a Ledger,
    /// Where objects go.
    pub target: &'a Target,
    /// What rows contain.
    pub policy: &'a Policy,
    /// How many sessions are read at once.
    pub threads: usize,
    /// Which sessions are written.
    pub again: Again,
}

/// How far a push is.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many bytes of transcripts are to be read.
    pub total: AtomicU64,
    /// How many of them are done.
    pub done: AtomicU64,
}

/// What was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Sessions that were written.
    pub sessions: u64,
    /// Sessions that were the same as last time.
    pub unchanged: u64,
    /// Objects that were written.
    pub objects: u64,
    /// Objects of these sessions that were the same as last time.
    pub same_objects: u64,
    /// The bytes of the objects that were written.
    pub bytes: u64,
    /// The rows of all tables of the sessions that were written.
    pub rows: u64,
    /// Sessions that cannot be read, and why.
    pub unreadable: Vec<(String, String)>,
}

/// A session that is to be written.
struct Job<'a> {
    group: &'a Group,
    print: String,
    project: Option<String>,
    size: u64,
}

impl Push<'_> {
    /// Pushes some of these sessions. If the target fails, what was pushed until then is returned
    /// too.
    pub fn run(
        &self,
        groups: &[Group],
        chosen: &[&Group],
        state: &mut State,
        progress: &Progress,
    ) -> (Pushed, Result<(), LakeError>) {
        let again = if self.target.is_removed() { Again::Everything } else { self.again };
        let push = Push { again, ..*self };
        let mut jobs = Vec::new();
        let unchanged = push.jobs(chosen, state, &mut jobs);
        push.jobs(&relatives(groups, chosen, (self.ledger, state)), state, &mut jobs);
        // The longest first, so that no thread is left alone with it at the end.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.size));
        push.deliver_all(&jobs, Pushed { unchanged, ..Pushed::default() }, state, progress)
    }

    fn deliver_all(
        &self,
        jobs: &[Job<'_>],
        pushed: Pushed,
        state: &mut State,
        progress: &Progress,
    ) -> (Pushed, Result<(), LakeError>) {
        progress.total.store(jobs.iter().map(|job| job.size).sum(), Ordering::Relaxed);
        let other_days = match self.listed_days(state) {
            Ok(days) => days,
            Err(error) => return (pushed, Err(error)),
        };
        let shared = Shared {
            push: self,
            jobs,
            next: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            permits: Permits::new(self.threads.max(1)),
            done: Mutex::new((pushed, state, None)),
            other_days,
            progress,
        };
        std::thread::scope(|scope| {
            let workers = (self.threads.max(1) + self.target.lanes()).min(jobs.len());
            for _ in 1..workers {
                scope.spawn(|| shared.work());
            }
            shared.work();
        });
        let (pushed, _, error) = shared.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        (pushed, error.map_or(Ok(()), Err))
    }

    /// Adds the sessions that have changed, and returns how many have not.
    fn jobs<'g>(&self, chosen: &[&'g Group], state: &State, jobs: &mut Vec<Job<'g>>) -> u64 {
        let mut projects: HashMap<String, Option<String>> = HashMap::new();
        let rules = self.rules();
        let mut unchanged = 0;
        for group in chosen {
            let known = state.of(&group.id);
            let project = self.cwd_of(group).and_then(|cwd| {
                projects.entry(cwd).or_insert_with_key(|cwd| project_of(Path::new(cwd))).clone()
            });
            // The folder may be gone by now.
            let project = project.or_else(|| known?.project.clone());
            let (print, size) = self.print(group, &rules, project.as_deref());
            // What is left of a session stays as it was, unless less of it may be there now.
            let is_same = known.is_some_and(|known| {
                known.print == print || group.is_thinned && known.hides == self.hides()
            });
            if group.is_remainder || (is_same && self.again == Again::Changed) {
                unchanged += 1;
            } else {
                jobs.push(Job { group, print, project, size });
            }
        }
        unchanged
    }

    /// The working directory of a session: as its first answer names it, else as its first record
    /// does.
    fn cwd_of(&self, group: &Group) -> Option<String> {
        let files = || group.files.iter().map(|file| &self.ledger.sources[*file]);
        let mut mains = files().filter(|file| !file.is_agent);
        let named = files().find_map(|file| file.cwd.clone());
        named.or_else(|| mains.find_map(|file| preview(&file.path).ok()?.cwd))
    }

    /// What all rows depend on.
    fn rules(&self) -> String {
        let Policy { machine, user, team, content, raw, redactor, redact_rules, .. } = self.policy;
        let redacts = redactor.is_some();
        let program = env!("CARGO_PKG_VERSION");
        format!(
            "{VERSION}\0{program}\0{machine}\0{user:?}\0{team:?}\0{content:?}\0{raw:?}\0{redacts}\0\
             {redact_rules}"
        )
    }

    /// Stands for what is left out of all rows.
    fn hides(&self) -> String {
        let Policy { content, raw, redactor, redact_rules, .. } = self.policy;
        let text = format!("{content:?}\0{raw:?}\0{}\0{redact_rules}", redactor.is_some());
        hex(&Sha256::digest(text)[..8])
    }

    /// Stands for everything that the rows of a session are made from; and its size.
    fn print(&self, group: &Group, rules: &str, project: Option<&str>) -> (String, u64) {
        let mut hasher = Sha256::new();
        let mut size = 0;
        hasher.update(rules);
        hasher.update(format!("\0{project:?}\0"));
        for file in &group.files {
            let path = &self.ledger.sources[*file].path;
            let found = std::fs::metadata(path).ok();
            let modified = found.as_ref().and_then(|found| found.modified().ok());
            let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let len = found.as_ref().map_or(0, std::fs::Metadata::len);
            hasher.update(format!("{}\0{len}\0{modified:?}\0", path.display()));
            size += len;
        }
        for call in &group.calls {
            let message = &self.ledger.entries[call.entry].message;
            hasher.update(&message.id);
            let (usage, time) = (message.usage, message.time);
            let cost = costs(message, &self.policy.prices);
            let is_copy = call.owner.is_some();
            hasher.update(format!("\0{is_copy}\0{usage:?}\0{cost:?}\0{time:?}\0"));
        }
        (hex(&hasher.finalize()[..16]), size)
    }

    /// If the state was lost or does not count, on which days this machine has sessions: one whose
    /// first record was changed meanwhile must not be there twice.
    fn listed_days(&self, state: &State) -> Result<HashMap<String, Vec<String>>, LakeError> {
        let mut days: HashMap<String, Vec<String>> = HashMap::new();
        let tables: Vec<_> = match self.again {
            // Whatever is wrong there is put right.
            Again::Everything => TABLES.iter().collect(),
            // A push that was stopped has written the first table, or not yet deleted the last.
            Again::Changed if state.is_new => vec![&TABLES[0], &TABLES[TABLES.len() - 1]],
            Again::Changed => return Ok(days),
        };
        let start = format!("{}-", self.policy.machine);
        if self.again == Again::Everything {
            self.target.remove_parts(&start)?;
        }
        for table in tables {
            for stored in self.target.list_from(table.name, &start)? {
                let mut parts = stored.key.rsplit('/');
                if let (Some(name), Some(day)) = (parts.next(), parts.next()) {
                    let known = days.entry(name.to_owned()).or_default();
                    if !known.iter().any(|known| known == day) {
                        known.push(day.to_owned());
                    }
                }
            }
        }
        Ok(days)
    }
}

/// What the threads of a push share.
struct Shared<'a, 'p> {
    push: &'a Push<'p>,
    jobs: &'a [Job<'a>],
    next: AtomicUsize,
    is_stopped: AtomicBool,
    permits: Permits,
    done: Mutex<(Pushed, &'a mut State, Option<LakeError>)>,
    /// The days on which this machine has a session, by the name of its object.
    other_days: HashMap<String, Vec<String>>,
    progress: &'a Progress,
}

impl Shared<'_, '_> {
    fn work(&self) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { return };
            let made = {
                let _permit = self.permits.take();
                let make = || {
                    let Push { policy, ledger, .. } = self.push;
                    make(policy, ledger, job.group, job.project.as_deref())
                };
                // A session alone may use all threads.
                if self.jobs.len() == 1 { make() } else { threads::alone(make) }
            };
            let outcome = made.and_then(|made| self.deliver(job, made));
            if let Err(error) = outcome {
                let mut done = lock(&self.done);
                if let LakeError::Read(error) = error {
                    done.0.unreadable.push((job.group.id.clone(), error.to_string()));
                } else {
                    self.is_stopped.store(true, Ordering::Relaxed);
                    done.2.get_or_insert(error);
                }
            }
            self.progress.done.fetch_add(job.size, Ordering::Relaxed);
        }
    }

    /// Puts the objects of a session in place, and remembers that.
    fn deliver(&self, job: &Job<'_>, made: Made) -> Result<(), LakeError> {
        let session = &job.group.id;
        let policy = self.push.policy;
        let session_name = policy.name_of(session);
        let name = object_name(&policy.machine, &session_name);
        let before = lock(&self.done).1.of(session).cloned();
        let mut tally = Pushed { sessions: 1, ..Pushed::default() };
        let mut objects = BTreeMap::new();
        for (table, mut object) in TABLES.iter().zip(made.objects) {
            tally.rows += object.rows;
            let known = before.as_ref().filter(|before| before.day == made.day);
            let known = known.and_then(|before| before.objects.get(table.name));
            let print = (object.hash.clone(), object.size);
            let key = format!("{}/{}/{name}", table.name, made.day);
            let is_same = known == Some(&print) && self.push.again == Again::Changed;
            // Another machine may have erased it.
            if is_same && self.push.target.has(&key, object.size)? {
                tally.same_objects += 1;
            } else {
                self.push.target.put(&key, &mut object)?;
                tally.objects += 1;
                tally.bytes += object.size;
            }
            objects.insert(table.name.to_owned(), print);
        }
        // Its first record is another one now.
        let days = before.iter().filter(|before| !before.is_erased()).map(|before| &before.day);
        for day in days.chain(self.other_days.get(&name).into_iter().flatten()) {
            if *day != made.day && !day.is_empty() {
                for table in &TABLES {
                    self.push.target.delete(&format!("{}/{day}/{name}", table.name))?;
                }
            }
        }
        let record = Record {
            session: session.clone(),
            name: (session_name != plain_name(session)).then_some(session_name),
            print: job.print.clone(),
            day: made.day,
            project: job.project.clone(),
            has_transcript: job.group.has_transcript(self.push.ledger),
            calls: job.group.own_calls(self.push.ledger),
            hides: self.push.hides(),
            files: job.group.prints.clone(),
            objects,
        };
        let mut done = lock(&self.done);
        done.1.add(record).map_err(LakeError::state)?;
        let pushed = &mut done.0;
        pushed.sessions += tally.sessions;
        pushed.objects += tally.objects;
        pushed.same_objects += tally.same_objects;
        pushed.bytes += tally.bytes;
        pushed.rows += tally.rows;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads may compute; the others wait for the target.
struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(count: usize) -> Permits {
        Permits { free: Mutex::new(count), freed: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// The longest name that a session has in the name of an object.
const LONGEST_NAME: usize = 100;

/// The name of a session's objects, by the name that it has in them.
pub(crate) fn object_name(machine: &str, name: &str) -> String {
    format!("{machine}-{name}.parquet")
}

/// A session's name in the names of objects. Names that could be misread as part of a path are
/// hashed.
pub(crate) fn plain_name(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if session.chars().all(is_plain) && session.len() <= LONGEST_NAME && !session.is_empty() {
        return session.to_owned();
    }
    hashed_name(session)
}

pub(crate) fn hashed_name(session: &str) -> String {
    format!("x{}", hex(&Sha256::digest(session)[..12]))
}

/// Whether a text is a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
