//! What a hook was told, on disk until it is done.
//!
//! One file for each kind of event of a session: what comes again before it is taken is the same work. Whoever takes a job moves it away first, so that one that comes meanwhile is another. Invariant: a job
//! is removed after its work is done, and at no other time; one that was taken by a process that was killed is taken again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use export::deliver::Shelf;
use export::disk;
use export::plan::Closing;
use files::Durability;
use serde::{Deserialize, Serialize};
use transcript::time::Time;

/// What the client says on stdin, as far as it matters.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) session_id: String,
    pub(super) transcript_path: PathBuf,
    #[serde(default)]
    hook_event_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_transcript_path: Option<PathBuf>,
    /// When this was told, in milliseconds: what was opened later is not meant.
    #[serde(default)]
    at: i64,
}

/// All that is to be done for one session.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) session: String,
    pub(super) path: PathBuf,
    pub(super) closing: Closing,
    /// Transcripts of sub-agents that may still be written to.
    agents: Vec<PathBuf>,
    /// The files that are done with it.
    files: Vec<PathBuf>,
}

impl Job {
    /// What was told, there and then.
    pub(super) fn heard(mut self, cwd: &Path, now: SystemTime) -> Job {
        self.transcript_path = cwd.join(&self.transcript_path);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.at = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self
    }

    /// Puts it where the work is looked for.
    pub(super) fn put(&self, of: &Shelf) -> io::Result<()> {
        let agent = self.agent_id.as_deref().unwrap_or_default();
        let name = [&self.session_id, &self.hook_event_name, agent].map(disk::safe).join(".");
        files::put(
            &folder(of).join(format!("{name}.json")),
            &serde_json::to_vec(self)?,
            Durability::Process,
        )
    }

    fn close(&self, closing: &mut Closing) {
        match self.hook_event_name.as_str() {
            "SubagentStop" => closing.agents.extend(self.agent_id.clone()),
            "SessionEnd" => closing.ended = closing.ended.max(Time(self.at)),
            // A hook that does not say what it is for is the one that seed 002 knows.
            _ => closing.stopped = closing.stopped.max(Time(self.at)),
        }
    }
}

/// So long may a job be.
const LONGEST: u64 = 1 << 20;

fn folder(shelf: &Shelf) -> PathBuf {
    shelf.folder.join("jobs")
}

/// Those that somebody works on, or did when they were killed.
fn taken(shelf: &Shelf) -> PathBuf {
    folder(shelf).join("taken")
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

/// How many jobs wait.
pub(super) fn waiting(shelf: &Shelf) -> usize {
    job_files(&folder(shelf)).len() + job_files(&taken(shelf)).len()
}

/// Takes what there is to do, by session; files that say nothing are removed.
pub(super) fn take(shelf: &Shelf) -> io::Result<Vec<Work>> {
    let taken = taken(shelf);
    fs::create_dir_all(&taken)?;
    for path in job_files(&folder(shelf)) {
        fs::rename(&path, taken.join(path.file_name().unwrap_or_default()))?;
    }
    let mut found: BTreeMap<String, Work> = BTreeMap::new();
    for path in job_files(&taken) {
        let Ok(job) = serde_json::from_slice::<Job>(&files::read(&path, LONGEST)?) else {
            let _ = fs::remove_file(&path);
            continue;
        };
        let work = found.entry(job.session_id.clone()).or_insert_with(|| Work {
            session: job.session_id.clone(),
            path: job.transcript_path.clone(),
            closing: Closing::default(),
            agents: Vec::new(),
            files: Vec::new(),
        });
        job.close(&mut work.closing);
        work.agents.extend(job.agent_transcript_path);
        work.files.push(path);
    }
    Ok(found.into_values().collect())
}

impl Work {
    /// It is done. What cannot be removed is done once more, which changes nothing.
    pub(super) fn done(&self) {
        for path in &self.files {
            let _ = fs::remove_file(path);
        }
    }

    /// Whether a turn ended, the last lines of which may still be written.
    pub(super) fn is_turn(&self) -> bool {
        let never = Closing::default();
        self.closing.stopped > never.stopped || self.closing.ended > never.ended
    }

    /// How large the files are by now.
    pub(super) fn size(&self) -> u64 {
        let files = self.agents.iter().chain([&self.path]);
        files.filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).sum()
    }

    pub(super) fn transcript(&self) -> &Path {
        &self.path
    }
}
