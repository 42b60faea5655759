//! What was done to files, and what is needed to take it back.
//!
//! A folder for each entry: `entry.json`, and copies of the files that were replaced. An entry without its `entry.json` was never finished, and nothing happened after it was begun.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{Deed, Disk, Mark};

/// So long may `entry.json` be.
const LONGEST: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Journal {
    root: PathBuf,
}

/// One thing that was done.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) what: String,
    pub(crate) session: String,
    pub(crate) items: Vec<Item>,
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) path: PathBuf,
    pub(crate) was: Was,
    pub(crate) after: Mark,
}

/// What was there before.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Was {
    Nothing,
    There { copy: PathBuf, before: Mark },
}

/// The file `entry.json`.
#[derive(Serialize, Deserialize)]
struct Form {
    v: u32,
    time: i64,
    what: String,
    session: String,
    items: Vec<Item>,
}

/// An entry that has been begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl Begun {
    /// Completes an entry: from here on it counts.
    pub(super) fn finish(
        &self,
        disk: &mut dyn Disk,
        deed: Deed<'_>,
        items: &[Item],
    ) -> io::Result<()> {
        let form = Form {
            v: 1,
            time: millis(deed),
            what: deed.what.to_owned(),
            session: deed.session.to_owned(),
            items: items.to_vec(),
        };
        let bytes = serde_json::to_vec_pretty(&form)?;
        let temp = self.folder.join("entry.json.new");
        disk.create(&temp, &bytes)?;
        disk.rename(&temp, &self.folder.join("entry.json"))
    }
}

fn millis(deed: Deed<'_>) -> i64 {
    let since = deed.now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Journal {
    pub(crate) fn at(root: PathBuf) -> Journal {
        Journal { root }
    }

    pub(super) fn begin(&self, disk: &mut dyn Disk, deed: Deed<'_>) -> io::Result<Begun> {
        let short: String = deed.session.chars().take(8).collect();
        let mut name = format!("{}-{}-{short}", millis(deed), deed.what);
        let mut number = 1;
        while self.root.join(&name).exists() {
            number += 1;
            name = format!("{}-{}-{short}-{number}", millis(deed), deed.what);
        }
        let folder = self.root.join(&name);
        // The error would be taken for one of the session's own folder.
        disk.create_folder(&folder).map_err(|error| {
            let told = format!("no copy can be kept in `{}`: {error}", self.root.display());
            io::Error::new(error.kind(), told)
        })?;
        Ok(Begun { name, folder })
    }

    pub(crate) fn forget(&self, disk: &mut dyn Disk, name: &str) -> io::Result<()> {
        disk.remove_folder(&self.root.join(name))
    }

    /// All entries, the newest first. Those of which nothing came are left out.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for folder in folders {
            let folder = folder?.path();
            if let Some(entry) = read(&folder) {
                found.push(entry);
            }
        }
        found.sort_by(|one, other| (other.time, &other.name).cmp(&(one.time, &one.name)));
        Ok(found)
    }
}

fn read(folder: &Path) -> Option<Entry> {
    let bytes = files::read(folder.join("entry.json"), LONGEST).ok()?;
    let form: Form = serde_json::from_slice(&bytes).ok()?;
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let Form { time, what, session, items, .. } = form;
    let entry = Entry { name, folder: folder.to_owned(), time, what, session, items };
    // A run that was stopped before its last step changed nothing.
    entry.items.iter().any(Item::is_done).then_some(entry)
}

impl Item {
    /// Whether it came to that: a file that is what it was before shows that it did not.
    fn is_done(&self) -> bool {
        match (&self.was, Mark::of(&self.path)) {
            (Was::There { before, .. }, Ok(is)) => is != *before,
            (Was::There { .. }, Err(_)) => true,
            (Was::Nothing, is) => is.is_ok(),
        }
    }
}
