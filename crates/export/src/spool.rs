//! Batches that could not be delivered, on disk, in the order in which they are to be.
//!
//! A batch is one file: a line of JSON that says what it brings, then the request as it goes over the wire. It is renamed into place when it is complete, and removed after the receiver has it; so
//! it is delivered once more rather than lost. Batches that the receiver does not take stand apart, with what it said. Invariant: neither grows beyond [`MOST`].

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use files::Durability;
use serde::{Deserialize, Serialize};

use crate::state::Update;
use crate::wire::Batch;

/// How many bytes wait at most. What is beyond stays in the transcripts, and is sent when they are read again.
pub const MOST: u64 = 512 << 20;

/// How long one of them may be.
const LONGEST: u64 = 64 << 20;

/// What a file in the spool says first.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    v: u32,
    updates: Vec<Update>,
    spans: usize,
    /// Why the receiver did not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Batches that wait for one receiver.
#[derive(Clone, Debug)]
pub struct Spool {
    waiting: PathBuf,
    refused: PathBuf,
    most: u64,
}

/// Why a batch does not wait.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// There are too many.
    #[error("{0} bytes wait already")]
    Full(u64),
    /// The disk does not take it.
    #[error("cannot write `{0}`: {1}")]
    Disk(PathBuf, io::Error),
}

impl Spool {
    /// In the folder of a receiver.
    pub fn at(folder: &Path) -> Spool {
        Spool { waiting: folder.join("spool"), refused: folder.join("refused"), most: MOST }
    }

    /// Puts a batch behind those that wait.
    pub fn add(&self, batch: &Batch, project: &str) -> Result<(), SpoolError> {
        let held = size(&self.waiting);
        if held > self.most {
            return Err(SpoolError::Full(held));
        }
        put(&self.waiting, batch, project, None)
    }

    /// Puts a batch aside that the receiver does not take.
    pub(crate) fn refuse(&self, batch: &Batch, project: &str, why: &str) -> Result<(), SpoolError> {
        let held = size(&self.refused);
        if held > self.most {
            return Err(SpoolError::Full(held));
        }
        put(&self.refused, batch, project, Some(why))
    }

    /// The batches that wait, the oldest first.
    pub fn waiting(&self) -> Vec<PathBuf> {
        files(&self.waiting)
    }

    /// The batches that the receiver did not take, and why.
    pub fn refused(&self) -> Vec<(PathBuf, String)> {
        let heads = files(&self.refused).into_iter();
        heads
            .map(|path| {
                let why = head(&path).and_then(|head| head.refused).unwrap_or_default();
                (path, why)
            })
            .collect()
    }

    /// Where those are that it did not take.
    pub fn refused_folder(&self) -> &Path {
        &self.refused
    }

    /// How many bytes wait.
    pub fn size(&self) -> u64 {
        size(&self.waiting)
    }

    /// The units that wait or were not taken, with their marks: nobody need make them again.
    pub fn known(&self) -> HashSet<(String, String)> {
        let files = [&self.waiting, &self.refused].into_iter().flat_map(|folder| files(folder));
        let heads = files.filter_map(|path| head(&path));
        heads.flat_map(|head| head.updates).flat_map(|update| update.done).collect()
    }

    /// Reads a batch. One that cannot be understood is put aside, under a name that nobody counts: it must not stop those behind it, and what was in it is made again.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Option<Batch>> {
        let bytes = files::read(path, LONGEST)?;
        let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let head = serde_json::from_slice::<Head>(&bytes[..at]).ok();
        let wanted = head.as_ref().map(|head| head.spans);
        let batch = head.and_then(|head| {
            Batch::decode(bytes.get(at + 1..).unwrap_or_default(), head.updates).ok()
        });
        let batch = batch.filter(|batch| Some(batch.len()) == wanted);
        if batch.is_none() {
            files::make_private_folder(&self.refused)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            fs::rename(path, self.refused.join(format!("{name}.damaged")))?;
        }
        Ok(batch)
    }

    /// Takes a batch out.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

fn put(
    folder: &Path,
    batch: &Batch,
    project: &str,
    refused: Option<&str>,
) -> Result<(), SpoolError> {
    let last = files(folder).last().and_then(|path| number(path)).unwrap_or(0);
    let path = folder.join(format!("{:010}.batch", last + 1));
    let head = Head {
        v: 1,
        updates: batch.updates.clone(),
        spans: batch.len(),
        refused: refused.map(str::to_owned),
    };
    let failed = |error: io::Error| SpoolError::Disk(path.clone(), error);
    let mut bytes = serde_json::to_vec(&head).map_err(|error| failed(error.into()))?;
    bytes.push(b'\n');
    bytes.extend(batch.encode(project));
    files::put(&path, &bytes, Durability::PowerCut).map_err(failed)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = found.filter(|path| number(path).is_some()).collect();
    found.sort();
    found
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".batch")?.parse().ok()
}

fn size(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).sum()
}

fn head(path: &Path) -> Option<Head> {
    let file = files::open(path).ok()?;
    let mut line = Vec::new();
    io::BufRead::read_until(&mut io::BufReader::new(file), b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use super::*;

    fn batch(key: &str) -> Batch {
        let done = BTreeMap::from([(key.to_owned(), "mark".to_owned())]);
        let mut batch = Batch::default();
        batch.push("2.1.45", opentelemetry_proto::tonic::trace::v1::Span::default());
        batch.note(Update { session: "s".to_owned(), done, position: None });
        batch
    }

    #[test]
    fn batches_wait_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::at(folder.path());
        for key in ["a", "b", "c"] {
            spool.add(&batch(key), "project").unwrap();
        }
        let waiting = spool.waiting();
        let read: Vec<_> = waiting.iter().map(|path| spool.read(path).unwrap().unwrap()).collect();
        assert_eq!(read, ["a", "b", "c"].map(batch));
        let mut known: Vec<String> = spool.known().into_iter().map(|(key, _)| key).collect();
        known.sort();
        assert_eq!(known, ["a", "b", "c"]);
        // What is taken out at the front makes no room for another in front of the rest.
        Spool::remove(&waiting[0]).unwrap();
        spool.add(&batch("d"), "project").unwrap();
        let last = spool.waiting().pop().unwrap();
        assert_eq!(spool.read(&last).unwrap(), Some(batch("d")));
    }

    #[test]
    fn what_is_damaged_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::at(folder.path());
        spool.add(&batch("a"), "project").unwrap();
        let path = spool.waiting().pop().unwrap();
        let bytes = fs::read(&path).unwrap();
        let head = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for end in [bytes.len() - 1, head, 3, 0] {
            fs::File::create(&path).unwrap().write_all(&bytes[..end]).unwrap();
            assert_eq!(spool.read(&path).unwrap(), None);
        }
        assert!(spool.waiting().is_empty() && spool.known().is_empty());
        assert!(spool.refused_folder().join("0000000001.batch.damaged").is_file());
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool { most: 100, ..Spool::at(folder.path()) };
        spool.add(&batch("a"), "project").unwrap();
        let full = spool.add(&batch("b"), "project");
        assert!(matches!(full, Err(SpoolError::Full(_))), "{full:?}");
    }
}
