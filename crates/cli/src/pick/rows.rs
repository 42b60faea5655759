//! The sessions to pick from, and what identifies them.
//!
//! Invariants: a row keeps its place; what is not known of a session yet is missing, never waited
//! for.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use index::catalog::KnownSession;
use transcript::Session;
use transcript::conversation::preview::Preview;

use crate::project::newest_first;
use crate::survey::Surveyed;

/// How much of a prompt can be searched for, in characters. A prompt may be a whole file.
const SEARCHED: usize = 2_000;

/// A session in the list.
#[derive(Debug)]
pub(crate) struct PickRow {
    pub(crate) one: Surveyed,
    /// It belongs to the current project.
    pub(crate) is_here: bool,
    /// Its file was looked at.
    pub(crate) is_seen: bool,
    /// Its file is gone; the catalog still knows it.
    pub(crate) is_deleted: bool,
    /// How many prompts it has, if the catalog knows.
    pub(crate) prompts: Option<u64>,
    /// What a query is compared with, in lower case.
    searched: String,
}

impl PickRow {
    fn new(session: Session, is_here: bool) -> PickRow {
        let one = Surveyed { session, seen: Ok(Preview::default()) };
        let mut row = PickRow {
            one,
            is_here,
            is_seen: false,
            is_deleted: false,
            prompts: None,
            searched: String::new(),
        };
        row.note_names();
        row
    }

    fn note_names(&mut self) {
        let branch = self.one.seen.as_ref().ok().and_then(|seen| seen.branch.as_deref());
        self.searched.clear();
        for name in self.one.names().chain(branch) {
            let start = name.chars().take(SEARCHED);
            self.searched.extend(start.flat_map(char::to_lowercase));
            // So that no word is found across two of them.
            self.searched.push('\n');
        }
    }

    /// Whether it has all these words, which are in lower case.
    pub(crate) fn has(&self, words: &[String]) -> bool {
        words.iter().all(|word| self.searched.contains(word.as_str()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.one.session.path
    }
}

/// All rows: first those of the current project, newest first, as in all lists; then the others;
/// then those whose files are gone.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    all: Vec<PickRow>,
    by_path: HashMap<PathBuf, usize>,
}

impl Rows {
    /// `here` are the paths of the current project's sessions.
    pub(crate) fn new(mut sessions: Vec<Session>, here: &HashSet<PathBuf>) -> Rows {
        newest_first(&mut sessions);
        sessions.sort_by_key(|session| !here.contains(&session.path));
        let mut rows = Rows::default();
        for session in sessions {
            let is_here = here.contains(&session.path);
            rows.push(PickRow::new(session, is_here));
        }
        rows
    }

    fn push(&mut self, row: PickRow) {
        // As the catalog names it.
        let path = std::path::absolute(row.path()).unwrap_or_else(|_| row.path().to_owned());
        self.by_path.insert(path, self.all.len());
        self.all.push(row);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PickRow> {
        self.all.iter()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&PickRow> {
        self.all.get(at)
    }

    pub(crate) fn find(&self, path: &Path) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// What a file shows, or why it does not.
    pub(crate) fn set_seen(&mut self, at: usize, seen: transcript::Result<Preview>) {
        if let Some(row) = self.all.get_mut(at) {
            row.one.seen = seen;
            row.is_seen = true;
            row.note_names();
        }
    }

    /// What the catalog knows: it counts for a file that has not changed since, and for one that is
    /// gone.
    pub(crate) fn set_known(&mut self, known: Vec<KnownSession>) {
        let mut gone = Vec::new();
        for one in known {
            match self.find(&one.path) {
                Some(at) if is_same(&self.all[at].one.session, &one) => {
                    self.all[at].prompts = Some(one.prompts);
                    if !self.all[at].is_seen {
                        self.set_seen(at, Ok(one.seen));
                    }
                }
                None if one.is_deleted => gone.push(one),
                _ => {}
            }
        }
        let here = self.all.iter().filter(|row| row.is_here).filter_map(|row| row.path().parent());
        let here: HashSet<PathBuf> = here.map(Path::to_owned).collect();
        gone.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
        for one in gone {
            let is_here = here.contains(&one.project);
            self.push_deleted(one, is_here);
        }
    }

    fn push_deleted(&mut self, one: KnownSession, is_here: bool) {
        let folder = one.project.file_name().map(|name| name.to_string_lossy().into_owned());
        let session = Session {
            id: one.id.into(),
            path: one.path,
            project: folder.unwrap_or_default(),
            size: one.size,
            modified: one.modified,
        };
        let mut row = PickRow::new(session, is_here);
        row.is_deleted = true;
        row.prompts = Some(one.prompts);
        self.push(row);
        self.set_seen(self.all.len() - 1, Ok(one.seen));
    }

    /// The name that leads to a session, in this run of the program: its id, if that is enough.
    pub(crate) fn name(&self, row: &PickRow) -> String {
        let id = row.one.session.id.as_str();
        // What looks like an option, a path or the name of a file would mean something else.
        let is_plain = id.len() == 36
            && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
            && !id.starts_with('-');
        let is_only = || self.all.iter().filter(|other| *other.one.session.id == *id).count() == 1;
        if is_plain && is_only() && Path::new(id).symlink_metadata().is_err() {
            return id.to_owned();
        }
        row.path().to_string_lossy().into_owned()
    }
}

/// Whether the catalog has read a file as it is now.
pub(super) fn is_same(session: &Session, known: &KnownSession) -> bool {
    let nanos = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    session.size == known.size && nanos(session.modified) == nanos(known.modified)
}
