//! All messages of many files, each counted once.
//!
//! A fork, a resumed copy or a second file of a sub-agent contains messages that another file has
//! too. Invariants: each `message.id` is one entry, however many files have it; its figures are
//! those of the record with the most output, the last one on a tie; it belongs to the file that
//! recorded it first, by the same signs as in
//! [`Origins`](crate::conversation::ingest::Origins). So totals by day, session, project and so on
//! agree.

use std::cmp::{Ordering, Reverse};
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::message::{MessageUsage, Messages, messages_in};
use crate::conversation::id::SessionId;
use crate::conversation::place::{Home, is_agent, transcripts_of};
use crate::format::file::Lines;
use crate::format::threads;
use crate::format::time::Time;

/// A file that was counted.
#[derive(Clone, Debug)]
pub struct CountedFile {
    /// Its path.
    pub path: PathBuf,
    /// The project's folder that it is in.
    pub project: PathBuf,
    /// The session that it belongs to.
    pub session: SessionId,
    /// It is the file of a sub-agent.
    pub is_agent: bool,
    /// The working directory, if an answer names it.
    pub cwd: Option<String>,
    /// When it was last modified.
    pub modified: SystemTime,
    /// It is not there any more: only a catalog still knows what was in it.
    pub is_gone: bool,
}

/// A message, and the file that recorded it first.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    /// The message; its time, line and tool are those of that file.
    pub message: MessageUsage,
    /// The file, as an index into [`Ledger::sources`].
    pub source: usize,
    /// The other files that contain it.
    pub copies: Vec<usize>,
}

/// All messages of many files.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The files, by path.
    pub sources: Vec<CountedFile>,
    /// The messages, in the order of the files that they belong to.
    pub entries: Vec<LedgerEntry>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, crate::Error)>,
}

impl Ledger {
    /// Counts all sessions of these homes and their sub-agents, on that many threads.
    pub fn of_homes(homes: &[Home], count: usize) -> Ledger {
        let files: Vec<[PathBuf; 2]> = homes
            .iter()
            .flat_map(Home::projects)
            .flat_map(|project| {
                let inside = transcripts_of(&project);
                inside.into_iter().map(move |path| [project.clone(), path])
            })
            .collect();
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        let read = |at: usize| FileMessages::read(&files[at][0], &files[at][1]);
        let Ok(()) = threads::in_order(files.len(), count, read, |at, one| {
            match one {
                Ok(file) => found.push(file),
                Err(error) => unreadable.push((files[at][1].clone(), error)),
            }
            Ok::<(), Infallible>(())
        });
        Ledger { unreadable, ..Ledger::new(found) }
    }

    /// Joins what the files contain.
    pub fn new(mut files: Vec<FileMessages>) -> Ledger {
        // The order in which they are read changes nothing.
        files.sort_by(|one, other| one.source.path.cmp(&other.source.path));
        let count = files.iter().map(|file| file.messages.len()).sum();
        let mut ledger = Ledger::default();
        ledger.entries.reserve(count);
        let mut known = EntriesById::with_capacity(count);
        let mut copies: Vec<Copy> = Vec::new();
        for FileMessages { source, messages } in files {
            let number = ledger.sources.len();
            ledger.sources.push(source);
            for message in messages {
                if let Some(entry) = known.find_or_add(&message.id, &ledger.entries) {
                    copies.push(Copy { entry, source: number, message });
                    continue;
                }
                ledger.entries.push(LedgerEntry { message, source: number, copies: Vec::new() });
            }
        }
        let mut shared = Shared::new(&ledger.entries, &copies);
        for copy in copies {
            ledger.add_copy(copy, &mut shared);
        }
        // Mostly they are in order already. Entries are large: the keys are sorted, and then each
        // entry is moved once.
        let key = |entry: &LedgerEntry| (entry.source, entry.message.line);
        if !ledger.entries.is_sorted_by_key(key) {
            ledger.entries.sort_by_cached_key(key);
        }
        ledger
    }

    fn add_copy(&mut self, copy: Copy, shared: &mut Shared) {
        let Copy { entry: at, source: number, message: mut copy } = copy;
        let is_earlier = {
            let known = &self.entries[at];
            let [ours, theirs] = [&self.sources[number], &self.sources[known.source]];
            let records = Claim::new(&copy, ours).cmp(&Claim::new(&known.message, theirs));
            let is_same = ours.session == theirs.session;
            // It was only moved.
            let presence =
                if is_same { ours.is_gone.cmp(&theirs.is_gone) } else { Ordering::Equal };
            let age = || (ours.modified, &ours.session).cmp(&(theirs.modified, &theirs.session));
            let order = records.then(presence).then_with(|| shared.order(number, known.source));
            order.then_with(age).is_lt()
        };
        let entry = &mut self.entries[at];
        // Of several figures, the one with the most output is the latest; and if any record shows
        // how the message ended, its figures are final.
        let is_later = copy.usage.output >= entry.message.usage.output;
        let later = if is_later { &copy } else { &entry.message };
        let (mut usage, tier, speed) = (later.usage, later.tier.clone(), later.speed.clone());
        usage.at_least = copy.usage.at_least && entry.message.usage.at_least;
        if is_earlier {
            std::mem::swap(&mut entry.message, &mut copy);
            entry.copies.push(entry.source);
            entry.source = number;
        } else {
            entry.copies.push(number);
        }
        let model = copy.model.take();
        entry.message.model = entry.message.model.take().or(model);
        (entry.message.usage, entry.message.tier, entry.message.speed) = (usage, tier, speed);
    }

    /// The file that a message belongs to.
    pub fn source(&self, entry: &LedgerEntry) -> &CountedFile {
        &self.sources[entry.source]
    }

    /// Whether all files that contained a message are gone.
    pub fn is_gone(&self, entry: &LedgerEntry) -> bool {
        let mut files = entry.copies.iter().chain([&entry.source]);
        files.all(|file| self.sources[*file].is_gone)
    }
}

/// Finds entries by the ids of their messages, without a copy of the ids.
struct EntriesById {
    table: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl EntriesById {
    fn with_capacity(count: usize) -> EntriesById {
        let table = HashTable::with_capacity(count);
        EntriesById { table, hasher: DefaultHashBuilder::default() }
    }

    /// The entry with this id. If there is none, the next one gets its place.
    fn find_or_add(&mut self, id: &str, entries: &[LedgerEntry]) -> Option<usize> {
        let id_of = |at: &usize| entries[*at].message.id.as_str();
        let hash = self.hasher.hash_one(id);
        if let Some(at) = self.table.find(hash, |at| id_of(at) == id) {
            return Some(*at);
        }
        self.table.insert_unique(hash, entries.len(), |at| self.hasher.hash_one(id_of(at)));
        None
    }
}

/// A message that another file has too.
struct Copy {
    entry: usize,
    source: usize,
    message: MessageUsage,
}

/// Which of two records of a message is the first: the one in the session that it names, then the
/// older one. If they do not show it, the files do ([`Shared::order`]), or the older file is first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    names_other: bool,
    has_no_time: bool,
    time: Option<Time>,
}

impl Claim {
    fn new(message: &MessageUsage, source: &CountedFile) -> Claim {
        let named = message.session.as_deref();
        Claim {
            names_other: named.is_some_and(|named| source.session != named),
            has_no_time: message.time.is_none(),
            time: message.time,
        }
    }
}

/// The messages that several files have.
struct Shared {
    /// Of each file, in the order of its lines.
    messages: HashMap<usize, Vec<(u64, usize)>>,
    /// The line of a message in a file.
    lines: HashMap<(usize, usize), u64>,
    orders: HashMap<(usize, usize), Ordering>,
}

impl Shared {
    fn new(entries: &[LedgerEntry], copies: &[Copy]) -> Shared {
        let (messages, lines, orders) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut shared = Shared { messages, lines, orders };
        for copy in copies {
            let first = &entries[copy.entry];
            shared.add(copy.entry, first.source, first.message.line);
            shared.add(copy.entry, copy.source, copy.message.line);
        }
        shared.messages.values_mut().for_each(|list| list.sort_unstable());
        shared
    }

    fn add(&mut self, entry: usize, source: usize, line: u64) {
        if self.lines.insert((entry, source), line).is_none() {
            self.messages.entry(source).or_default().push((line, entry));
        }
    }

    /// The file with more lines before the last message that both have is first: a copy leaves
    /// lines out.
    fn order(&mut self, one: usize, other: usize) -> Ordering {
        if let Some(known) = self.orders.get(&(one, other)) {
            return *known;
        }
        let (lines, none) = (&self.lines, Vec::new());
        let [ours, theirs] = [one, other].map(|at| self.messages.get(&at).unwrap_or(&none));
        // The shorter list, from its end.
        let (shorter, there) =
            if ours.len() <= theirs.len() { (ours, other) } else { (theirs, one) };
        let last = shorter.iter().rev().find(|(_, entry)| lines.contains_key(&(*entry, there)));
        let line = |entry, source| lines.get(&(entry, source)).copied().map(Reverse);
        let order =
            last.map_or(Ordering::Equal, |(_, entry)| line(*entry, one).cmp(&line(*entry, other)));
        self.orders.insert((one, other), order);
        order
    }
}

/// The messages of one file.
#[derive(Debug)]
pub struct FileMessages {
    source: CountedFile,
    messages: Vec<MessageUsage>,
}

impl FileMessages {
    /// What is already known of a file.
    pub fn known(source: CountedFile, messages: Vec<MessageUsage>) -> FileMessages {
        FileMessages { source, messages }
    }

    /// Reads a file in a project's folder.
    pub fn read(project: &Path, path: &Path) -> crate::Result<FileMessages> {
        // As for sessions, so that both have the same paths.
        let [project, path] = &[std::path::absolute(project)?, std::path::absolute(path)?];
        let file = files::open(path)?;
        let modified = file.metadata()?.modified()?;
        let messages = messages_in(Lines::new(file))?;
        let source = CountedFile::new(project, path, &messages, modified);
        Ok(FileMessages { source, messages: messages.list })
    }
}

impl CountedFile {
    /// A file in a project's folder, with its messages.
    pub fn new(
        project: &Path,
        path: &Path,
        messages: &Messages,
        modified: SystemTime,
    ) -> CountedFile {
        let named = messages.list.iter().find_map(|message| message.session.as_deref());
        let (session, is_agent) = session_of_file(project, path, named);
        let (project, path) = (project.to_owned(), path.to_owned());
        let cwd = messages.cwd.clone();
        let session = session.into();
        CountedFile { path, project, session, is_agent, cwd, modified, is_gone: false }
    }
}

/// The session that a file in a project's folder belongs to, and whether it is that of a sub-agent.
/// The session is its own name, the folder of a session that it is in, or, for a sub-agent beside
/// the sessions, the session that its records name.
pub fn session_of_file(project: &Path, path: &Path, named: Option<&str>) -> (String, bool) {
    let below = path.strip_prefix(project).unwrap_or(path);
    (session_of(below, named), is_agent(path) || below.components().count() > 1)
}

fn session_of(below: &Path, named: Option<&str>) -> String {
    let name = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let first = below.components().next().map(|part| name(part.as_os_str()));
    let first = first.filter(|first| below.components().count() > 1 && first != "subagents");
    let stem = || below.file_stem().map(name).unwrap_or_default();
    match first {
        Some(folder) => folder,
        None if is_agent(below) => named.map_or_else(stem, str::to_owned),
        None => stem(),
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
