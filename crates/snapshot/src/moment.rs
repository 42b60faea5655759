//! The log of a session: which image there was at which moment.
//!
//! One line for each moment, only ever appended. Invariants: a line that is not whole is not there;
//! between a `before` and its `after` the agent acted, and outside of them someone else did.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use files::Durability;
use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::store::Hook;
use crate::wire;

/// A log, at most.
const MOST: u64 = 1 << 28;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// A call is about to change something.
    Before,
    /// It has.
    After,
    /// Neither: someone looked.
    Look,
}

/// What a moment is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The id of the prompt's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The name of the tool; [`HOOK`] for a hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// What stands for the name of the tool in moments of hooks.
pub const HOOK: &str = "hook";

/// The image of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    #[serde(with = "wire::path")]
    pub root: PathBuf,
    pub image: Hash,
}

/// What is not covered, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Folders that git ignores.
    pub ignored: u64,
    /// Files over the limit.
    pub large: u64,
    /// What is no file, folder or link.
    pub special: u64,
    /// What cannot be read.
    pub unreadable: u64,
}

/// A moment of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub event: Event,
    /// Milliseconds since 1970.
    pub time: i64,
    #[serde(flatten)]
    pub about: About,
    pub trees: Vec<Tree>,
    #[serde(default)]
    pub left_out: LeftOut,
}

impl Moment {
    /// The image of a folder.
    pub fn image(&self, root: &Path) -> Option<Hash> {
        self.trees.iter().find(|tree| tree.root == root).map(|tree| tree.image)
    }
}

pub(crate) fn millis(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The log of a session.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
}

impl Log {
    /// The log of a session in a store's folder. Only ids that are plain names have one.
    pub fn of(store: &Path, session: &str) -> Option<Log> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_name = !session.is_empty() && session.len() <= 100 && session.chars().all(is_plain);
        let path = store.join("sessions").join(format!("{session}.jsonl"));
        is_name.then_some(Log { path })
    }

    /// All logs in a store's folder.
    pub(crate) fn all(store: &Path) -> io::Result<Vec<Log>> {
        let entries = match fs::read_dir(store.join("sessions")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                logs.push(Log { path });
            }
        }
        logs.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(logs)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its moments, oldest first. A missing log has none.
    pub fn read(&self) -> io::Result<Vec<Moment>> {
        let bytes = match files::read(&self.path, MOST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes?,
        };
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Adds a moment; it survives what `durability` says.
    pub(crate) fn add(
        &self,
        moment: &Moment,
        durability: Durability,
        hook: &Hook,
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(moment)?;
        line.push(b'\n');
        hook("add a moment")?;
        let mut file = files::append_private(&self.path)?;
        if !ends_whole(&self.path)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)?;
        match durability {
            Durability::Process => Ok(()),
            Durability::PowerCut => file.sync_data(),
        }
    }

    /// Replaces all moments.
    pub(crate) fn put(&self, moments: &[Moment], hook: &Hook) -> io::Result<()> {
        let mut bytes = Vec::new();
        for moment in moments {
            bytes.extend(serde_json::to_vec(moment)?);
            bytes.push(b'\n');
        }
        hook("shorten a log")?;
        files::put(&self.path, &bytes, Durability::Process)
    }

    pub(crate) fn remove(&self, hook: &Hook) -> io::Result<()> {
        hook("remove a log")?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Whether a log ends with a whole line.
fn ends_whole(path: &Path) -> io::Result<bool> {
    let mut file = files::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Who acted between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Agent,
    /// A person, or another program.
    Other,
}

/// The time between two moments that follow each other.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    pub from: &'a Moment,
    /// None: until now.
    pub to: Option<&'a Moment>,
    pub actor: Actor,
    /// What the agent did.
    pub about: &'a About,
    /// The prompt for which it did.
    pub prompt: Option<&'a str>,
}

/// The prompt that each moment belongs to. A hook that runs before there is a record of the prompt
/// belongs to the next one.
pub fn prompts(moments: &[Moment]) -> Vec<Option<&str>> {
    let mut next = None;
    let of_moment = |moment| {
        let Moment { about, .. }: &Moment = moment;
        let prompt = about.prompt.as_deref();
        next = prompt.or(next);
        prompt.or(next.filter(|_| about.tool.as_deref() == Some(HOOK)))
    };
    let mut all: Vec<Option<&str>> = moments.iter().rev().map(of_moment).collect();
    all.reverse();
    all
}

/// Divides a log into what the agent did and what others did; the last span reaches until now.
pub fn spans(moments: &[Moment]) -> Vec<Span<'_>> {
    let mut open: HashSet<&str> = HashSet::new();
    let mut last: Option<(&About, Option<&str>)> = None;
    let prompts = prompts(moments);
    let mut spans = Vec::new();
    for (at, from) in moments.iter().enumerate() {
        let call = from.about.call.as_deref().unwrap_or_default();
        match from.event {
            // Calls of an earlier prompt that never ended were stopped with their process.
            Event::Before => {
                if last.is_some_and(|(_, prompt)| prompt != prompts[at]) {
                    open.clear();
                }
                open.insert(call);
                last = Some((&from.about, prompts[at]));
            }
            Event::After => {
                open.remove(call);
            }
            Event::Look => {}
        }
        let actor = if open.is_empty() { Actor::Other } else { Actor::Agent };
        let last = last.filter(|_| actor == Actor::Agent);
        let (about, prompt) = last.unwrap_or((&from.about, prompts[at]));
        spans.push(Span { from, to: moments.get(at + 1), actor, about, prompt });
    }
    spans
}
