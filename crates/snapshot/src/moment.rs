//! The log of a session: which image there was at which moment.
//!
//! One line for each moment, only ever appended. Invariants: a line that is not whole is not there;
//! between a `before` and its `after` the agent acted, and outside of them someone else did; where
//! nobody saw the end of a call, it may have been either.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use files::Durability;
use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::store::Hook;
use crate::tree::State;
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
    /// Neither: someone looked. If a call is named that has not ended, it goes on in the background
    /// from here.
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
    /// The name of the tool; [`HOOK`] for a hook, [`REWIND`] for a rewind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// What stands for the name of the tool in moments of hooks.
pub const HOOK: &str = "hook";
/// What stands for the name of the tool, and for the call, in moments of rewinds.
pub const REWIND: &str = "rewind";

impl About {
    /// A rewind, or taking one back: a change like others, so that a later rewind goes back behind
    /// it. It belongs to no prompt.
    pub fn rewind() -> About {
        About { prompt: None, call: Some(REWIND.to_owned()), tool: Some(REWIND.to_owned()) }
    }
}

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

/// The one file that a call changes, where no image covers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Single {
    #[serde(with = "wire::path")]
    pub path: PathBuf,
    /// None if nothing is there.
    pub state: Option<State>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<Single>,
    #[serde(default)]
    pub left_out: LeftOut,
}

impl Moment {
    /// The image of a folder.
    pub fn image(&self, root: &Path) -> Option<Hash> {
        self.trees.iter().find(|tree| tree.root == root).map(|tree| tree.image)
    }

    fn call(&self) -> &str {
        self.about.call.as_deref().unwrap_or_default()
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
    /// The agent or someone else: a call goes on in the background, or was not seen to end.
    Unsure,
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

/// The prompt that each moment belongs to. What runs before there is a record of the prompt, as
/// hooks do, belongs to the next one.
pub fn prompts(moments: &[Moment]) -> Vec<Option<&str>> {
    let mut next = None;
    let of_moment = |moment| {
        let Moment { about, .. }: &Moment = moment;
        let prompt = about.prompt.as_deref();
        next = prompt.or(next);
        prompt.or(next.filter(|_| about.tool.as_deref() != Some(REWIND)))
    };
    let mut all: Vec<Option<&str>> = moments.iter().rev().map(of_moment).collect();
    all.reverse();
    all
}

/// For each moment the next one of the same call, unless the call is only begun again there.
fn goes_on(moments: &[Moment]) -> Vec<Option<usize>> {
    let mut last: HashMap<&str, usize> = HashMap::new();
    let mut all = vec![None; moments.len()];
    for (at, moment) in moments.iter().enumerate().rev() {
        let call = moment.call();
        all[at] = last.get(call).copied().filter(|next| moments[*next].event != Event::Before);
        last.insert(call, at);
    }
    all
}

/// Divides a log into what the agent did and what others did; the last span reaches until now.
pub fn spans(moments: &[Moment]) -> Vec<Span<'_>> {
    let (prompts, goes_on) = (prompts(moments), goes_on(moments));
    // The last moments of calls that have not ended.
    let mut open: Vec<usize> = Vec::new();
    let mut spans = Vec::new();
    for (at, from) in moments.iter().enumerate() {
        let is_open = open.iter().any(|one| moments[*one].call() == from.call());
        open.retain(|one| moments[*one].call() != from.call());
        if from.event == Event::Before {
            // Calls of an earlier prompt that never end were stopped with their process.
            open.retain(|one| goes_on[*one].is_some() || prompts[*one] == prompts[at]);
        }
        if from.event == Event::Before || (from.event == Event::Look && is_open) {
            open.push(at);
        }
        let is_watched = |one: &&usize| moments[**one].event == Event::Before;
        let is_sure = |one: &&usize| is_watched(one) && goes_on[**one].is_some();
        let (actor, whose) = match (open.iter().rfind(is_sure), open.last()) {
            (Some(one), _) => (Actor::Agent, *one),
            (None, Some(one)) => (Actor::Unsure, *one),
            (None, None) => (Actor::Other, at),
        };
        let (about, prompt) = (&moments[whose].about, prompts[whose]);
        spans.push(Span { from, to: moments.get(at + 1), actor, about, prompt });
    }
    spans
}

/// What a call did to a file that no image covers.
#[derive(Clone, Debug)]
pub struct Deed<'a> {
    /// Where in the log it begins.
    pub at: usize,
    pub path: &'a Path,
    pub before: Option<&'a State>,
    /// None if nobody saw the call end.
    pub after: Option<Option<&'a State>>,
    /// The prompt for which it was done.
    pub prompt: Option<&'a str>,
}

/// What calls did to files that no image covers, oldest first.
pub fn deeds(moments: &[Moment]) -> Vec<Deed<'_>> {
    let (prompts, goes_on) = (prompts(moments), goes_on(moments));
    let begun = moments.iter().enumerate().filter(|(_, one)| one.event == Event::Before);
    let deeds = begun.filter_map(|(at, moment)| {
        let Single { path, state } = moment.single.as_ref()?;
        let end = goes_on[at].and_then(|end| moments[end].single.as_ref());
        let end = end.filter(|end| end.path == *path);
        Some(Deed {
            at,
            path,
            before: state.as_ref(),
            after: end.map(|end| end.state.as_ref()),
            prompt: prompts[at],
        })
    });
    deeds.collect()
}
