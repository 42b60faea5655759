//! What the client reported to a hook, on disk until it is done.
//!
//! There is one file for each kind of event of a session: a report that comes again before it is
//! taken is the same work. The worker moves a job away first, so that one that arrives meanwhile is
//! another job. The number of attempts is part of its name, `N~…`, and is written before anything
//! of the session is read: a job that kills its worker, or never ends, is counted like one that
//! cannot be read. Invariants: a job is removed after its work is done, and at no other time; after
//! [`MOST_ATTEMPTS`] it is set aside, with the reason; no job stops another.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use files::Durability;
use serde::{Deserialize, Serialize};
use transcript::conversation::id::AgentId;
use transcript::conversation::ingest::Closing;
use transcript::conversation::place::{is_jsonl, safe_name};
use transcript::format::time::Time;

use crate::outbox::ReceiverDir;

/// What the client writes to stdin, as far as it matters.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Job {
    session_id: String,
    transcript_path: PathBuf,
    #[serde(default)]
    hook_event_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_transcript_path: Option<PathBuf>,
    /// When this was reported, in milliseconds; it does not apply to turns that were opened later.
    #[serde(default)]
    at: i64,
    /// Why it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// All work for one session.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) session: String,
    pub(super) path: PathBuf,
    pub(super) closing: Closing,
    /// Transcripts of sub-agents that may still be written to.
    agents: Vec<PathBuf>,
    /// The files of the jobs that this work completes.
    files: Vec<PathBuf>,
    /// The number of attempts.
    attempts: u32,
}

/// A job that is not retried automatically.
#[derive(Debug, Serialize)]
pub struct Aside {
    /// The file of the job.
    pub file: PathBuf,
    /// The transcript that it is about, if the job can be parsed.
    pub transcript: Option<PathBuf>,
    /// Why it is not retried.
    pub why: String,
}

/// Whether jobs that were set aside are tried once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAside {
    /// They stay where they are.
    Leave,
    /// They are tried once more: the user asked.
    TryAgain,
}

/// Why something is not a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It cannot be parsed.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A name in it is too long.
    #[error("a name is longer than {LONGEST_NAME} bytes")]
    LongName,
    /// It is about something else.
    #[error("`{}` is not a transcript: its name does not end in `.jsonl`", .0.display())]
    NoTranscript(PathBuf),
}

/// What happens to a job after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is done.
    Done,
    /// The next hook tries again; this attempt does not count, as the job did not cause it.
    TryAgain,
    /// The next hook tries again; this attempt counts.
    Counted {
        /// How many attempts there were.
        count: u32,
        /// How many there are at most.
        most: u32,
    },
    /// It was set aside.
    SetAside,
}

/// A job that was set aside when jobs were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// The session that it is about, if the job can be parsed.
    pub session: Option<String>,
    /// Why it was set aside.
    pub why: String,
}

/// The maximum number of attempts for a job.
const MOST_ATTEMPTS: u32 = 3;
/// How many jobs that were set aside are kept; the oldest are removed.
const MOST_ASIDE: usize = 100;
/// The maximum size of a job, and of a name in it, in bytes.
const LONGEST: u64 = 1 << 20;
const LONGEST_NAME: usize = 200;

impl Job {
    /// The job as reported, with absolute paths and the current time.
    pub fn heard(mut self, cwd: &Path, now: SystemTime) -> Result<Job, JobError> {
        self.transcript_path = cwd.join(&self.transcript_path);
        self.agent_transcript_path = self.agent_transcript_path.filter(|path| is_jsonl(path));
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.at = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.why = None;
        self.checked()
    }

    /// Checks that this can be a job at all.
    fn checked(self) -> Result<Job, JobError> {
        let names = [&self.session_id, &self.hook_event_name];
        if names.into_iter().chain(&self.agent_id).any(|name| name.len() > LONGEST_NAME) {
            return Err(JobError::LongName);
        }
        if !is_jsonl(&self.transcript_path) {
            return Err(JobError::NoTranscript(self.transcript_path));
        }
        Ok(self)
    }

    /// The job in a file.
    fn parse(bytes: &[u8]) -> Result<Job, JobError> {
        serde_json::from_slice::<Job>(bytes)?.checked()
    }

    fn read(path: &Path) -> Result<Job, JobError> {
        Job::parse(&files::read(path, LONGEST)?)
    }

    /// Writes it to the folder where the worker looks for jobs.
    pub fn put(&self, of: &ReceiverDir) -> io::Result<()> {
        let agent = self.agent_id.as_deref().unwrap_or_default();
        let name = [&self.session_id, &self.hook_event_name, agent].map(safe_name).join(".");
        files::put(
            &folder(of).join(format!("{name}.json")),
            &serde_json::to_vec(self)?,
            Durability::Process,
        )
    }

    fn close(&self, closing: &mut Closing) {
        match self.hook_event_name.as_str() {
            "SubagentStop" => closing.agents.extend(self.agent_id.clone().map(AgentId::from)),
            "SessionEnd" => closing.ended = closing.ended.max(Time(self.at)),
            // A hook without an event name is the oldest one, `Stop`.
            _ => closing.stopped = closing.stopped.max(Time(self.at)),
        }
    }
}

fn folder(receiver_dir: &ReceiverDir) -> PathBuf {
    receiver_dir.folder.join("jobs")
}

/// Jobs that a worker has taken, whether it still runs or was killed.
fn taken_folder(receiver_dir: &ReceiverDir) -> PathBuf {
    folder(receiver_dir).join("taken")
}

/// Jobs that are not retried automatically.
pub fn aside_folder(receiver_dir: &ReceiverDir) -> PathBuf {
    folder(receiver_dir).join("aside")
}

fn job_files(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_job = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && !name.starts_with('.')
    };
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).filter(is_job).collect();
    found.sort();
    found
}

/// The name of a job, and the number of attempts.
fn name_and_attempts(path: &Path) -> (String, u32) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parts = name.split_once('~').and_then(|(count, name)| Some((name, count.parse().ok()?)));
    parts.map_or_else(|| (name.to_string(), 0), |(name, count)| (name.to_owned(), count))
}

fn with_attempts(path: &Path, attempts: u32) -> PathBuf {
    path.with_file_name(format!("{attempts}~{}", name_and_attempts(path).0))
}

/// How many jobs wait.
pub fn waiting(receiver_dir: &ReceiverDir) -> usize {
    job_files(&folder(receiver_dir)).len() + job_files(&taken_folder(receiver_dir)).len()
}

/// Whether there are jobs that no worker has taken yet.
pub(super) fn has_new(receiver_dir: &ReceiverDir) -> bool {
    !job_files(&folder(receiver_dir)).is_empty()
}

/// The jobs that were set aside, oldest first.
pub fn set_aside(receiver_dir: &ReceiverDir) -> Vec<Aside> {
    let mut found = job_files(&aside_folder(receiver_dir));
    found.sort_by_cached_key(|path| fs::metadata(path).and_then(|found| found.modified()).ok());
    let aside = found.into_iter().map(|file| match Job::read(&file) {
        Ok(job) => {
            let why = job.why.unwrap_or_default();
            Aside { file, transcript: Some(job.transcript_path), why }
        }
        Err(why) => Aside { file, transcript: None, why: format!("cannot parse it: {why}") },
    });
    aside.collect()
}

/// Takes all jobs, by session. Those with the most attempts come last, so that they cannot keep the
/// others from being done. Files that are not jobs, and jobs whose workers did not return, are set
/// aside; the second list has them.
pub(super) fn take(
    receiver_dir: &ReceiverDir,
    aside: SetAside,
) -> io::Result<(Vec<Work>, Vec<NotTaken>)> {
    let taken = taken_folder(receiver_dir);
    files::make_private_folder(&taken)?;
    let new = job_files(&folder(receiver_dir)).into_iter().map(|path| (path, 0));
    let again =
        job_files(&aside_folder(receiver_dir)).into_iter().map(|path| (path, MOST_ATTEMPTS - 1));
    for (path, attempts) in new.chain(again.filter(|_| aside == SetAside::TryAgain)) {
        let name = path.file_name().unwrap_or_default();
        fs::rename(&path, with_attempts(&taken.join(name), attempts))?;
    }
    let mut found: BTreeMap<(String, PathBuf), Work> = BTreeMap::new();
    let mut not_taken = Vec::new();
    for path in job_files(&taken) {
        let attempts = name_and_attempts(&path).1;
        let job = match Job::read(&path) {
            Ok(job) => job,
            Err(error) => {
                let why = error.to_string();
                put_aside(receiver_dir, &path, &why)?;
                not_taken.push(NotTaken { session: None, why });
                continue;
            }
        };
        if attempts >= MOST_ATTEMPTS {
            let why = format!("its worker stopped early {attempts} times");
            put_aside(receiver_dir, &path, &why)?;
            not_taken.push(NotTaken { session: Some(job.session_id), why });
            continue;
        }
        let key = (job.session_id.clone(), job.transcript_path.clone());
        let work = found.entry(key).or_insert_with(|| Work {
            session: job.session_id.clone(),
            path: job.transcript_path.clone(),
            closing: Closing::default(),
            agents: Vec::new(),
            files: Vec::new(),
            attempts: 0,
        });
        job.close(&mut work.closing);
        work.agents.extend(job.agent_transcript_path);
        work.files.push(path);
        work.attempts = work.attempts.max(attempts);
    }
    let mut found: Vec<Work> = found.into_values().collect();
    found.sort_by_key(|work| work.attempts);
    Ok((found, not_taken))
}

/// Sets a job aside, with the reason in it.
fn put_aside(receiver_dir: &ReceiverDir, path: &Path, why: &str) -> io::Result<()> {
    let folder = aside_folder(receiver_dir);
    files::make_private_folder(&folder)?;
    let to = folder.join(name_and_attempts(path).0);
    match Job::read(path) {
        Ok(job) => {
            let job = Job { why: Some(why.to_owned()), ..job };
            files::put(&to, &serde_json::to_vec(&job)?, Durability::Process)?;
            fs::remove_file(path)?;
        }
        // Whatever it is, it is kept unchanged.
        Err(_) => fs::rename(path, &to)?,
    }
    let all = set_aside(receiver_dir);
    let too_many = all.len().saturating_sub(MOST_ASIDE);
    all.iter().take(too_many).try_for_each(|old| fs::remove_file(&old.file))
}

impl Work {
    /// Counts an attempt, before anything else is done.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.attempts += 1;
        self.rename()
    }

    /// The failure was not caused by the job: this attempt does not count.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.attempts = self.attempts.saturating_sub(1);
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        // If two get the same name, the last one replaces the other; that must be the newest.
        self.files.sort_by_key(|path| std::cmp::Reverse(name_and_attempts(path).1));
        for path in &mut self.files {
            let to = with_attempts(path, self.attempts);
            fs::rename(&*path, &to)?;
            *path = to;
        }
        self.files.dedup();
        Ok(())
    }

    /// Removes the job. If that fails, it is done once more, which changes nothing.
    pub(super) fn done(&self) {
        for path in &self.files {
            let _ = fs::remove_file(path);
        }
    }

    /// The job failed: it will be tried again, or is set aside now.
    pub(super) fn failed(&self, of: &ReceiverDir, why: &str) -> io::Result<Next> {
        if self.attempts < MOST_ATTEMPTS {
            return Ok(Next::Counted { count: self.attempts, most: MOST_ATTEMPTS });
        }
        self.files.iter().try_for_each(|path| put_aside(of, path, why))?;
        Ok(Next::SetAside)
    }

    /// Whether a turn ended whose last lines may still be written.
    pub(super) fn is_turn(&self) -> bool {
        let never = Closing::default();
        self.closing.stopped > never.stopped || self.closing.ended > never.ended
    }

    /// The current size of the files.
    pub(super) fn size(&self) -> u64 {
        let files = self.agents.iter().chain([&self.path]);
        files.filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).sum()
    }

    pub(super) fn transcript(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
