//! Batches that could not be delivered, on disk, in delivery order.
//!
//! A batch is one file: a sealed line that lists what the batch brings, then the request as it is
//! sent, whose hash is in that line. The file is renamed into place when it is complete, and
//! removed after the receiver has it: a batch may be delivered twice but is never lost. Batches
//! that the receiver refuses are stored separately, with its reason. Invariants: neither folder
//! grows beyond [`MOST`]; a damaged file is never sent, and is set aside until all sessions have
//! been read again.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use files::{Durability, NotRegular};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::receipts::Update;
use crate::wire::Batch;

/// How many bytes may wait. What is beyond that stays in the transcripts, and is sent when they are
/// read again.
pub const MOST: u64 = 512 << 20;

/// The most bytes that one batch may have.
const LONGEST: u64 = 64 << 20;

/// The most bytes that the first line of a batch may have.
const LONGEST_HEAD: u64 = 8 << 20;

/// The end of the names of damaged files.
const DAMAGED: &str = ".damaged";

/// The first line of a file in the queue.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    updates: Vec<Update>,
    spans: usize,
    /// The SHA-256 of what follows the line.
    body: String,
    /// Why the receiver refused the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// The batches that wait for one receiver.
#[derive(Clone, Debug)]
pub struct Queue {
    waiting: PathBuf,
    refused: PathBuf,
    most: u64,
}

/// Why a batch could not be added.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Too many bytes are waiting.
    #[error("the queue is full: {0} bytes are waiting")]
    Full(u64),
    /// The file cannot be written.
    #[error("cannot write `{0}`: {1}")]
    Disk(PathBuf, io::Error),
}

impl Queue {
    /// The queue in the folder of a receiver.
    pub fn at(folder: &Path) -> Queue {
        Queue { waiting: folder.join("spool"), refused: folder.join("refused"), most: MOST }
    }

    /// Adds a batch after those that wait.
    pub fn add(&self, batch: &Batch, project: &str) -> Result<(), QueueError> {
        let held = size(&self.waiting);
        if held > self.most {
            return Err(QueueError::Full(held));
        }
        put(&self.waiting, batch, project, None)
    }

    /// Sets a batch aside that the receiver refused.
    pub(crate) fn refuse(&self, batch: &Batch, project: &str, why: &str) -> Result<(), QueueError> {
        let held = size(&self.refused);
        if held > self.most {
            return Err(QueueError::Full(held));
        }
        put(&self.refused, batch, project, Some(why))
    }

    /// The files of the batches that wait, oldest first.
    pub fn waiting(&self) -> Vec<PathBuf> {
        files(&self.waiting)
    }

    /// The files of the batches that the receiver refused, and why.
    pub fn refused(&self) -> Vec<(PathBuf, String)> {
        let heads = files(&self.refused).into_iter();
        heads
            .map(|path| {
                let why = head(&path).and_then(|head| head.refused).unwrap_or_default();
                (path, why)
            })
            .collect()
    }

    /// The folder of the batches that the receiver refused.
    pub fn refused_folder(&self) -> &Path {
        &self.refused
    }

    /// How many bytes wait.
    pub fn size(&self) -> u64 {
        size(&self.waiting)
    }

    /// The units that wait or were refused, with their marks. They need not be made again.
    pub fn known(&self) -> HashSet<(String, String)> {
        let files = [&self.waiting, &self.refused].into_iter().flat_map(|folder| files(folder));
        let heads = files.filter_map(|path| head(&path));
        heads.flat_map(|head| head.updates).flat_map(|update| update.done).collect()
    }

    /// Reads a batch. A damaged one is set aside: it must not stop those after it, and its contents
    /// are made again. One that merely cannot be read now stays where it is.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Option<Batch>> {
        let batch = match files::read(path, LONGEST) {
            Ok(bytes) => parse(&bytes),
            Err(error) if NotRegular::is_why(&error) => None,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
            Err(error) => return Err(error),
        };
        if batch.is_none() {
            files::make_private_folder(&self.refused)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            fs::rename(path, self.refused.join(format!("{name}{DAMAGED}")))?;
        }
        Ok(batch)
    }

    /// The files that were set aside because they are damaged. While there are any, the receiver
    /// may lack something that no other file records.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(&self.refused).into_iter().flatten().flatten();
        let is_damaged = |path: &PathBuf| path.to_string_lossy().ends_with(DAMAGED);
        found.map(|entry| entry.path()).filter(is_damaged).collect()
    }

    /// Removes damaged batches, after their contents were made again from all sessions.
    pub fn forget_damaged(&self) -> io::Result<()> {
        self.damaged().iter().try_for_each(fs::remove_file)
    }

    /// Removes files that were incomplete when a process was killed. The caller must hold the lock.
    pub(crate) fn sweep(&self) {
        for folder in [&self.waiting, &self.refused] {
            let found = fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in found.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'))
            {
                // A file that cannot be removed is tried again next time.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Removes a batch.
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
) -> Result<(), QueueError> {
    let last = files(folder).last().and_then(|path| number(path)).unwrap_or(0);
    let path = folder.join(format!("{:010}.batch", last + 1));
    let body = batch.encode(project);
    let head = Head {
        updates: batch.updates.clone(),
        spans: batch.len(),
        body: disk::hash(&body),
        refused: refused.map(str::to_owned),
    };
    let failed = |error: io::Error| QueueError::Disk(path.clone(), error);
    let mut bytes = disk::seal(&head).map_err(failed)?;
    bytes.extend(body);
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
    io::BufReader::new(file.take(LONGEST_HEAD)).read_until(b'\n', &mut line).ok()?;
    disk::unseal(&line)
}

/// The batch in a file, if the file is what was written.
fn parse(bytes: &[u8]) -> Option<Batch> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = disk::unseal(&bytes[..at])?;
    let body = &bytes[at + 1..];
    if head.body != disk::hash(body) {
        return None;
    }
    Batch::decode(body, head.updates).ok().filter(|batch| batch.len() == head.spans)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
