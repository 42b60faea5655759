//! Which files there are, and which of them have changed since they were read.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::iter::once;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::UNIX_EPOCH;

use rusqlite::{OptionalExtension, Row, ToSql};
use transcript::conversation::place::{Home, is_agent, transcripts_of};
use transcript::conversation::usage::CountedFile;

use super::calls::OpenCalls;
use super::{Catalog, root_of};

/// What the catalog knows of a file.
#[derive(Clone, Debug)]
pub(crate) struct KnownFile {
    pub(crate) number: i64,
    pub(crate) project: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) session: String,
    pub(crate) is_agent: bool,
    pub(crate) stamp: Stamp,
    pub(crate) read_to: u64,
    pub(crate) lines: u64,
    pub(crate) records: u64,
    pub(crate) tail: Vec<u8>,
    pub(crate) is_deleted: bool,
    pub(crate) cwd: Option<String>,
    pub(crate) open_calls: OpenCalls,
}

impl KnownFile {
    pub(crate) fn counted(&self) -> CountedFile {
        CountedFile {
            path: self.path.clone(),
            project: self.project.clone(),
            session: self.session.clone().into(),
            is_agent: self.is_agent,
            cwd: self.cwd.clone(),
            modified: UNIX_EPOCH
                + std::time::Duration::from_nanos(self.stamp.modified.cast_unsigned()),
            is_gone: self.is_deleted,
        }
    }
}

/// The id of the sub-agent whose file that is, by its name.
pub fn agent_of(path: &Path) -> Option<String> {
    is_agent(path).then(|| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        name.strip_prefix("agent-").unwrap_or(&name).to_owned()
    })
}

/// What shows that a file has changed, without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    /// In nanoseconds.
    pub(crate) modified: i64,
    pub(crate) inode: u64,
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Stamp {
        let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.and_then(|since| i64::try_from(since.as_nanos()).ok());
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(found);
        #[cfg(not(unix))]
        let inode = 0;
        Stamp { size: found.len(), modified: modified.unwrap_or_default(), inode }
    }
}

/// A file on disk.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
}

/// What is to be done so that the catalog is that of the files.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Files that are new or have changed.
    pub(crate) read: Vec<(FoundFile, Option<KnownFile>)>,
    /// Files that are gone.
    pub(crate) gone: Vec<KnownFile>,
    /// Files that the catalog is right about: they have not changed, or cannot be seen now, or were
    /// gone before.
    pub(crate) kept: Vec<KnownFile>,
    /// How many files have not changed.
    pub(crate) same: usize,
}

/// The files of homes. A folder that cannot be read has no files, and is listed.
#[derive(Debug, Default)]
struct Listing {
    files: Vec<FoundFile>,
    unreadable: Vec<PathBuf>,
}

impl Listing {
    fn of(homes: &[Home]) -> Listing {
        let mut all = Listing::default();
        for home in homes {
            let root = root_of(home);
            let home = Home { root: root.clone() };
            if Home::open(&root).is_err() {
                all.unreadable.push(root);
                continue;
            }
            all.unreadable.extend(home.unreadable());
            all.unreadable.extend(broken_links(&home));
            let projects = home.projects();
            if projects.is_empty() {
                // Rather a disk that is not mounted than a user who deleted everything.
                all.unreadable.push(root.clone());
            }
            for project in projects {
                for path in transcripts_of(&project) {
                    let (home, project) = (root.clone(), project.clone());
                    match fs::metadata(&path) {
                        // A name that is no text cannot be in the catalog.
                        Ok(found) if found.is_file() && path.to_str().is_some() => {
                            let stamp = Stamp::of(&found);
                            all.files.push(FoundFile { home, project, path, stamp });
                        }
                        // A link to a file that is not there now.
                        Err(_) => all.unreadable.push(path),
                        Ok(_) => {}
                    }
                }
            }
        }
        all
    }
}

/// Projects that are links to folders that are not there now: perhaps on a disk that is not
/// mounted.
fn broken_links(home: &Home) -> Vec<PathBuf> {
    let folders = ["projects", "conversations"].map(|name| home.root.join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| entry.path()).filter(|path| !path.exists()).collect()
}

/// Whether a file is known not to be there: not that a folder on the way to it cannot be read, is a
/// link to a folder that is not there now, or is another one now.
fn is_gone(file: &KnownFile) -> bool {
    use ErrorKind::{NotADirectory, NotFound};
    match fs::metadata(&file.path) {
        Ok(found) => !found.is_file(),
        Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => false,
        Err(_) => {
            let mut folders = file.path.ancestors().take_while(|one| *one != file.project);
            !folders.any(|folder| folder.is_symlink() && !folder.exists()) && was_removed(file)
        }
    }
}

/// Whether something can have been removed from the folder in which a file is missing: that changes
/// the folder. An empty one that has not changed since the file did never had it: a disk is mounted
/// there at other times.
fn was_removed(file: &KnownFile) -> bool {
    let Some(folder) = file.path.ancestors().skip(1).find(|folder| folder.exists()) else {
        return true;
    };
    let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let changed = fs::metadata(folder).map(|found| Stamp::of(&found).modified);
    !is_empty || changed.map_or(true, |changed| changed >= file.stamp.modified)
}

impl Plan {
    pub(crate) fn make(catalog: &Catalog, homes: &[Home]) -> rusqlite::Result<Plan> {
        let roots: Vec<PathBuf> = homes.iter().map(root_of).collect();
        // The disk is asked while the catalog is read.
        let (listing, known) = thread::scope(|scope| {
            let listing = scope.spawn(|| Listing::of(homes));
            let known = catalog.files(&roots);
            (listing.join().unwrap_or_else(|panic| resume_unwind(panic)), known)
        });
        let known = known?;
        let mut known: HashMap<PathBuf, KnownFile> =
            known.into_iter().map(|file| (file.path.clone(), file)).collect();
        let mut plan = Plan::default();
        for found in listing.files {
            match known.remove(&found.path) {
                Some(file) if file.stamp == found.stamp && !file.is_deleted => {
                    plan.same += 1;
                    plan.kept.push(file);
                }
                file => plan.read.push((found, file)),
            }
        }
        let is_hidden = |path: &Path| listing.unreadable.iter().any(|one| path.starts_with(one));
        for file in known.into_values() {
            let is_kept = file.is_deleted || is_hidden(&file.path) || !is_gone(&file);
            if is_kept { plan.kept.push(file) } else { plan.gone.push(file) }
        }
        plan.gone.sort_by_key(|file| file.number);
        Ok(plan)
    }
}

impl Catalog {
    /// The files of these homes.
    pub(crate) fn files(&self, homes: &[PathBuf]) -> rusqlite::Result<Vec<KnownFile>> {
        self.files_of(homes, "NOT INDEXED WHERE home = ?", &[])
    }

    /// The files in these homes that have something after a time (in milliseconds), or are to be
    /// read again. Copied ones changed later than what is in them was said.
    pub(crate) fn recent_files(
        &self,
        homes: &[PathBuf],
        after: i64,
    ) -> rusqlite::Result<Vec<KnownFile>> {
        let which = "WHERE home = ? AND (modified >= ? OR modified < 0) AND \
                     (ended >= ? OR ended IS NULL)";
        self.files_of(homes, which, &[&after.saturating_mul(1_000_000), &after])
    }

    /// The files of a session.
    pub(crate) fn files_of_session(
        &self,
        homes: &[PathBuf],
        session: &str,
    ) -> rusqlite::Result<Vec<KnownFile>> {
        self.files_of(homes, "WHERE home = ? AND session = ?", &[&session])
    }

    /// The file with that path.
    pub(crate) fn file_at(&self, path: &Path) -> rusqlite::Result<Option<KnownFile>> {
        let mut statement = self.connection.prepare_cached(&known("WHERE path = ?"))?;
        statement.query_row([path.to_string_lossy()], KnownFile::of).optional()
    }

    /// The files in each home that a condition holds for; its first value is the home.
    fn files_of(
        &self,
        homes: &[PathBuf],
        condition: &str,
        values: &[&dyn ToSql],
    ) -> rusqlite::Result<Vec<KnownFile>> {
        let mut all = Vec::new();
        let mut statement = self.connection.prepare_cached(&known(condition))?;
        for home in homes {
            let home = home.to_string_lossy();
            let values: Vec<&dyn ToSql> =
                once(&home as &dyn ToSql).chain(values.iter().copied()).collect();
            for row in statement.query_map(&*values, KnownFile::of)? {
                all.push(row?);
            }
        }
        Ok(all)
    }
}

/// The query for known files.
fn known(condition: &str) -> String {
    format!(
        "SELECT number, project, path, session, is_agent, size, modified, inode, read_to, lines, \
         tail, is_deleted, cwd, records, open_calls FROM file {condition}"
    )
}

impl KnownFile {
    fn of(row: &Row<'_>) -> rusqlite::Result<KnownFile> {
        let path = |at| Ok::<_, rusqlite::Error>(PathBuf::from(row.get::<_, String>(at)?));
        let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
        Ok(KnownFile {
            number: row.get(0)?,
            project: path(1)?,
            path: path(2)?,
            session: row.get(3)?,
            is_agent: row.get(4)?,
            stamp: Stamp { size: number(5)?, modified: row.get(6)?, inode: number(7)? },
            read_to: number(8)?,
            lines: number(9)?,
            tail: row.get(10)?,
            is_deleted: row.get(11)?,
            cwd: row.get(12)?,
            records: number(13)?,
            open_calls: OpenCalls::of_bytes(row.get_ref(14)?.as_blob()?),
        })
    }
}
