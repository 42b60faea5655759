//! Copies what belongs to a session along with a new one, as far as the new one needs it to go on
//! (`Thing::goes_along`).
//!
//! Invariants: nothing outside the home is copied, and a file that a link outside the home leads to
//! is reported instead; whatever is not copied is counted as left.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::Attributes;
use transcript::client::change::{self, Graft, Renames};
use transcript::conversation::Conversation;
use transcript::conversation::agents::{Body, Owner, WithAgents};
use transcript::conversation::id::AgentId;
use transcript::conversation::place::{
    Session, Thing, agents, belongings, for_session, obstacle, roots,
};
use transcript::format::file::read_at;
use transcript::format::limit;
use transcript::format::secret::Cover;

use crate::error::Error;
use crate::job::{Agents, Ids, Job};
use crate::redact;
use crate::store::Ready;

/// The new ids, and the files that are copied.
#[derive(Debug)]
pub struct Copies {
    ids: Renames,
    /// Whether the session's own ids are new, or only those of what comes from another session.
    kind: Ids,
    /// The new ids of what comes from another session.
    grafted: Option<Renames>,
    /// What is hidden in the copies.
    cover: Option<Arc<Cover>>,
    along: Vec<Along>,
    /// What is not copied, and how many of each.
    pub left: Vec<(Thing, usize)>,
    /// What cannot be copied, and why.
    pub skipped: Vec<(PathBuf, &'static str)>,
}

/// One file that is copied.
#[derive(Debug)]
struct Along {
    thing: Thing,
    from: PathBuf,
    to: PathBuf,
    is_grafted: bool,
}

/// The sub-agents of the other session whose calls a merge carries over.
pub fn carried_agents(graft: &Graft) -> Result<Vec<CarriedAgent>, Error> {
    let session = &graft.source.session;
    let files = agents(session);
    if graft.is_moved || files.is_empty() {
        return Ok(Vec::new());
    }
    let family = WithAgents::open(session)?;
    let mut found: Vec<usize> = Vec::new();
    // Agents may be started by agents, in any order: repeat until no more are found.
    loop {
        let before = found.len();
        for (at, agent) in family.agents.iter().enumerate() {
            let (Body::File(_), Some(start)) = (&agent.body, agent.start) else { continue };
            let is_carried = match start.owner {
                Owner::Main => graft.keeps(start.call),
                Owner::Agent(above) => found.contains(&above),
            };
            if is_carried && !found.contains(&at) {
                found.push(at);
            }
        }
        if found.len() == before {
            break;
        }
    }
    let ids = found.into_iter().map(|at| family.agents[at].id.clone());
    let is_inside = |id: &AgentId| {
        let of = files.iter().find(|file| file.id == *id);
        of.is_some_and(|file| file.path.starts_with(session.folder()))
    };
    Ok(ids.map(|id| CarriedAgent { is_inside: is_inside(&id), id }).collect())
}

/// A sub-agent that a merge carries over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedAgent {
    pub id: AgentId,
    /// Its file is in the folder of its session, and not beside it.
    pub is_inside: bool,
}

impl Copies {
    /// The new id of a record.
    pub fn record(&self, old: &str) -> String {
        self.ids.record(old)
    }

    /// Finds the files to copy; none if the result is written alone.
    pub(crate) fn new(job: &Job<'_>, ids: Renames) -> Result<Copies, Error> {
        let cover = job.plan.change().cover().cloned();
        let (along, skipped) = (Vec::new(), Vec::new());
        let (kind, left) = (Ids::New, Vec::new());
        let mut copies = Copies { ids, kind, grafted: None, cover, along, left, skipped };
        let is_alone = job.policy.place.is_alone();
        let mut left = Vec::new();
        let session = job.session;
        let roots = roots(session);
        let gone = gone(job)?;
        for one in belongings(session).into_iter().skip(1) {
            let of = agent_of(&one.path);
            let is_agent = matches!(one.thing, Thing::Agent | Thing::AgentMeta);
            let is_gone = is_agent
                && (job.policy.agents == Agents::None
                    || gone.iter().any(|agent| *agent == of.as_str()));
            // A new session keeps the slug, and so the plan.
            if !one.thing.goes_along() || is_alone || is_gone {
                left.push(one.thing);
                continue;
            }
            if is_lock(one.thing, &one.path) {
                continue;
            }
            if let Some(why) = obstacle(&one.path, &roots) {
                copies.skipped.push((one.path, why));
                continue;
            }
            let is_inside = one.path.starts_with(session.folder());
            let to = if is_inside {
                let below = one.path.strip_prefix(session.folder()).unwrap_or(&one.path);
                let below = match &copies.cover {
                    Some(cover) => redact::name_without(below, cover),
                    None => below.to_owned(),
                };
                session.path.with_file_name(copies.ids.session()).join(below)
            } else if is_agent {
                let known = copies
                    .along
                    .iter()
                    .find(|known| known.thing == Thing::Agent && agent_of(&known.from) == of);
                let new = match known {
                    Some(known) => agent_of(&known.to),
                    None => copies.ids.learn_agent(&of),
                };
                let name = one
                    .path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .replacen(&of, &new, 1);
                one.path.with_file_name(name)
            } else {
                for_session(session, &one.path, copies.ids.session())
            };
            if one.thing == Thing::Agent {
                copies.ids.learn(&Conversation::open(&one.path)?.table);
            }
            copies.along.push(Along { thing: one.thing, from: one.path, to, is_grafted: false });
        }
        if let Some(graft) = job.plan.change().graft().filter(|graft| !graft.is_moved) {
            let ids = graft.ids(Some(&copies.ids));
            copies.add_graft(job, graft, ids, &mut left)?;
        }
        copies.left = counted(left);
        Ok(copies)
    }

    /// Finds what comes along from another session, if the session keeps its ids.
    pub(crate) fn of_graft(job: &Job<'_>, graft: &Graft) -> Result<Copies, Error> {
        let ids = graft.ids(None);
        let (along, skipped) = (Vec::new(), Vec::new());
        let mut copies = Copies {
            ids: ids.clone(),
            kind: Ids::Keep,
            grafted: None,
            cover: None,
            along,
            left: Vec::new(),
            skipped,
        };
        let mut left = Vec::new();
        copies.add_graft(job, graft, ids, &mut left)?;
        copies.left = counted(left);
        Ok(copies)
    }

    /// The new ids of the session and its records; `None` if it keeps them.
    pub(crate) fn new_ids(&self) -> Option<&Renames> {
        (self.kind == Ids::New).then_some(&self.ids)
    }

    /// Finds what belongs to the calls that a merge carries over from another session.
    fn add_graft(
        &mut self,
        job: &Job<'_>,
        graft: &Graft,
        mut ids: Renames,
        left: &mut Vec<Thing>,
    ) -> Result<(), Error> {
        let from = &graft.source.session;
        let carried = carried_agents(graft)?;
        let roots = roots(from);
        let folder = job.session.path.with_file_name(self.ids.session());
        for one in belongings(from).into_iter().skip(1) {
            let is_carried = match one.thing {
                Thing::Agent | Thing::AgentMeta => {
                    let agent = agent_of(&one.path);
                    let is_carried = carried.iter().any(|carried| carried.id == *agent);
                    // Sub-agents of other turns do not matter here.
                    if !is_carried {
                        continue;
                    }
                    true
                }
                Thing::ToolResult => true,
                thing if !thing.goes_along() || is_lock(thing, &one.path) => continue,
                // The halves of a session have the same ones.
                _ if is_same(&counterpart(from, job.session, &one.path), &one.path)
                    .unwrap_or(false) =>
                {
                    continue;
                }
                _ => false,
            };
            if !is_carried || job.policy.place.is_alone() {
                left.push(one.thing);
                continue;
            }
            if let Some(why) = obstacle(&one.path, &roots) {
                self.skipped.push((one.path, why));
                continue;
            }
            let is_inside = one.path.starts_with(from.folder());
            let name = one.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Sub-agents that need a new id have it in their name.
            let mapped = change::map_bytes(&ids, name.as_bytes());
            let name = String::from_utf8_lossy(&mapped).into_owned();
            let to = if is_inside {
                let below = one.path.strip_prefix(from.folder()).unwrap_or(&one.path);
                folder.join(below).with_file_name(name)
            } else {
                job.session.path.with_file_name(name)
            };
            let known = self.along.iter().find(|known| known.to == to);
            let taken =
                known.map(|known| known.from.clone()).or_else(|| to.exists().then(|| to.clone()));
            if let Some(taken) = taken {
                // Two halves of one session have the same results.
                if !is_same(&taken, &one.path).map_err(Error::unreadable(&one.path))? {
                    self.skipped.push((one.path, "the session has another file of that name"));
                }
                continue;
            }
            if one.thing == Thing::Agent {
                ids.learn(&Conversation::open(&one.path)?.table);
            }
            self.along.push(Along { thing: one.thing, from: one.path, to, is_grafted: true });
        }
        self.grafted = Some(ids);
        Ok(())
    }

    /// How many of each are copied.
    pub fn counts(&self) -> Vec<(Thing, usize)> {
        counted(self.along.iter().map(|one| one.thing))
    }

    /// The copies, with their temporary names.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready> {
        self.along.iter().map(|one| Ready::at(&one.to))
    }

    /// Writes the copies, under temporary names.
    pub(crate) fn write(&self, ready: &[Ready]) -> io::Result<()> {
        for (one, ready) in self.along.iter().zip(ready) {
            self.write_one(one, &ready.temp).map_err(|error| {
                let from = match &self.cover {
                    Some(cover) => redact::shown_path(&one.from, cover),
                    None => one.from.clone(),
                };
                let message = format!("cannot copy `{}`: {error}", from.display());
                io::Error::new(error.kind(), message)
            })?;
        }
        Ok(())
    }

    fn write_one(&self, one: &Along, temp: &Path) -> io::Result<()> {
        if let Some(folder) = temp.parent() {
            fs::create_dir_all(folder)?;
        }
        if let Some(cover) = &self.cover {
            let file = redact::write(one.thing, &one.from, Some(&self.ids), cover, temp)?;
            Attributes::of(&files::open(&one.from)?)?.give(&file)?;
            return file.sync_all();
        }
        let mut file = files::create_private(temp)?;
        let ids = self.grafted.as_ref().filter(|_| one.is_grafted).unwrap_or(&self.ids);
        if one.thing == Thing::Agent {
            let conversation = Conversation::open(&one.from)?;
            change::write_agent(&conversation, ids, &mut file)?;
        } else if let Some(bytes) = redact::mapped(one.thing, &one.from, ids)? {
            file.write_all(&bytes)?;
        } else {
            files::copy(&one.from, &mut file)?;
        }
        Attributes::of(&files::open(&one.from)?)?.give(&file)?;
        file.sync_all()
    }
}

/// Whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (files::open(one)?, files::open(other)?);
    let length = one.metadata()?.len();
    if other.metadata()?.len() != length {
        return Ok(false);
    }
    let mut at = 0;
    while at < length {
        let size = (length - at).min(limit::READ_BLOCK as u64);
        if read_at(&one, at, size)? != read_at(&other, at, size)? {
            return Ok(false);
        }
        at += size;
    }
    Ok(true)
}

/// The id of the sub-agent that a file is of, or about.
fn agent_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".jsonl").or(name.strip_suffix(".meta.json")).unwrap_or(&name);
    name.strip_prefix("agent-").unwrap_or(name).to_owned()
}

/// Where another session has the same as a file of a session.
fn counterpart(session: &Session, other: &Session, path: &Path) -> PathBuf {
    match path.strip_prefix(session.folder()) {
        Ok(below) => other.folder().join(below),
        Err(_) => for_session(session, path, &other.id),
    }
}

/// Whether a file only says that a client is at work in its folder: the next one makes it anew.
pub(crate) fn is_lock(thing: Thing, path: &Path) -> bool {
    thing == Thing::Task && path.file_name().is_some_and(|name| name == ".lock")
}

/// How many there are of each.
fn counted(things: impl IntoIterator<Item = Thing>) -> Vec<(Thing, usize)> {
    let mut counts: Vec<(Thing, usize)> = Vec::new();
    for thing in things {
        match counts.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, count)) => *count += 1,
            None => counts.push((thing, 1)),
        }
    }
    counts
}

/// What belongs to a session, and how many of each.
pub(crate) fn belongings_of(session: &Session) -> Vec<(Thing, usize)> {
    counted(belongings(session).into_iter().skip(1).map(|one| one.thing))
}

/// The sub-agents whose calls are not kept.
fn gone(job: &Job<'_>) -> Result<Vec<AgentId>, Error> {
    if job.policy.agents == Agents::All || agents(job.session).is_empty() {
        return Ok(Vec::new());
    }
    let family = WithAgents::open(job.session)?;
    let mut gone = Vec::new();
    // Agents may be started by agents, in any order: repeat until no more are found.
    loop {
        let before = gone.len();
        for agent in &family.agents {
            let Body::File(_) = agent.body else { continue };
            let Some(start) = agent.start else { continue };
            let is_gone = match start.owner {
                Owner::Main => !job.plan.change().keeps(&family.main, start.call),
                Owner::Agent(at) => gone.contains(&family.agents[at].id),
            };
            if is_gone && !gone.contains(&agent.id) {
                gone.push(agent.id.clone());
            }
        }
        if gone.len() == before {
            return Ok(gone);
        }
    }
}
