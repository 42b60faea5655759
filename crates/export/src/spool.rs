//! Batches that could not be delivered, on disk, in the order in which they are to be.
//!
//! A batch is one file: a sealed line that says what it brings, then the request as it goes over the
//! wire, whose hash is in that line. It is renamed into place when it is complete, and removed after
//! the receiver has it; so it is delivered once more rather than lost. Batches that the receiver does
//! not take stand apart, with what it said. Invariants: neither grows beyond [`MOST`]; what is not as
//! it was written is never sent, and stands apart until all sessions were gone through again.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use files::{Durability, NotRegular};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::state::Update;
use crate::wire::Batch;

/// How many bytes wait at most. What is beyond stays in the transcripts, and is sent when they are read again.
pub const MOST: u64 = 512 << 20;

/// How long one of them may be.
const LONGEST: u64 = 64 << 20;

/// How long the line may be that says what a batch brings.
const LONGEST_HEAD: u64 = 8 << 20;

/// How files are called that are not as they were written.
const DAMAGED: &str = ".damaged";

/// What a file in the spool says first.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    updates: Vec<Update>,
    spans: usize,
    /// The SHA-256 of what follows.
    body: String,
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

    /// Reads a batch. One that is not as it was written is put aside: it must not stop those behind
    /// it, and what was in it is made again. One that just cannot be read now stays where it is.
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

    /// The batches that were put aside because they are not as they were written. While there are
    /// any, something may be missing at the receiver of which nothing else says so.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(&self.refused).into_iter().flatten().flatten();
        let is_damaged = |path: &PathBuf| path.to_string_lossy().ends_with(DAMAGED);
        found.map(|entry| entry.path()).filter(is_damaged).collect()
    }

    /// What was in damaged batches was made again from all sessions.
    pub fn forget_damaged(&self) -> io::Result<()> {
        self.damaged().iter().try_for_each(fs::remove_file)
    }

    /// Removes what was half written when somebody was killed. Whoever calls it holds the lock.
    pub(crate) fn sweep(&self) {
        for folder in [&self.waiting, &self.refused] {
            let found = fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in found.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'))
            {
                // What cannot be removed is tried again next time.
                let _ = fs::remove_file(entry.path());
            }
        }
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
    let body = batch.encode(project);
    let head = Head {
        updates: batch.updates.clone(),
        spans: batch.len(),
        body: disk::hash(&body),
        refused: refused.map(str::to_owned),
    };
    let failed = |error: io::Error| SpoolError::Disk(path.clone(), error);
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

/// The batch in a file, if that is what was written.
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
#[path = "spool_tests.rs"]
mod tests;
