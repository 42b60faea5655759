//! For tests only: real transcripts, reproducible random numbers, deliberate damage, and stand-ins
//! for the Messages API, a receiver of traces and S3.
//!
//! Uses none of the project's own types: a stand-in that shares them would share their bugs.
#![allow(clippy::disallowed_methods, reason = "tests look at what was written")]

pub mod api;
pub mod comparable;
pub mod damage;
pub mod messages;
pub mod mutate;
pub mod otlp;
pub mod picture;
pub mod s3;
pub mod session;
pub mod tls;
pub mod tmux;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A transcript to test with.
#[derive(Clone, Debug)]
pub struct RealFile {
    /// Its path.
    pub path: PathBuf,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Whether no test may be skipped because something is missing on this machine.
#[allow(clippy::disallowed_methods, reason = "how tests are told what to do")]
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The recordings that are part of the project.
pub fn fixtures() -> PathBuf {
    root().join("crates/testkit/fixtures")
}

/// A folder of the shared material beside the checkout. If it is missing, each call prints that.
#[allow(clippy::print_stderr, reason = "tests say what they leave out")]
pub fn shared(name: &str) -> Option<PathBuf> {
    let folder = root().parent()?.join("shared").join(name);
    if !folder.is_dir() {
        eprintln!("left out: there is no ../shared/{name}");
        return None;
    }
    Some(folder)
}

/// All available real transcripts: samples, fixtures, and the shared recordings and corpus.
pub fn real_files() -> Vec<RealFile> {
    let mut folders = vec![root().join("samples/home/projects"), fixtures()];
    // All of `../shared/observed` is among the fixtures.
    let names = ["recordings", "recordings-2", "corpus"];
    folders.extend(names.into_iter().filter_map(shared));
    files_under(&folders)
}

/// The transcripts that come with the project: fewer, so that a test can do more with each.
pub fn own_files() -> Vec<RealFile> {
    files_under(&[root().join("samples/home/projects"), fixtures()])
}

/// Those of `own_files` that tests take which run a program for each: of the transcripts made to
/// answer one question each, which are many and alike, every fourth. All if `QUIPU_FULL` is set.
#[allow(clippy::disallowed_methods, reason = "how tests are told what to do")]
#[allow(clippy::print_stderr, reason = "tests say what they leave out")]
pub fn sample_of_own_files() -> Vec<RealFile> {
    let mut files = own_files();
    if std::env::var_os("QUIPU_FULL").is_none() {
        let (made, before) =
            ([fixtures().join("observed"), fixtures().join("edited")], files.len());
        let mut count = 0;
        files.retain(|file| {
            let is_made = made.iter().any(|folder| file.path.starts_with(folder));
            count += usize::from(is_made);
            !is_made || count % 4 == 1
        });
        eprintln!("left out: {} of {before} files; QUIPU_FULL=1 takes all", before - files.len());
    }
    files
}

/// Copies a folder with everything in it. If there is none, nothing is copied.
pub fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    fs::create_dir_all(to)?;
    for entry in entries.flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// The transcripts in these folders, by path. Other JSONL files beside them are skipped by name.
pub fn files_under(folders: &[PathBuf]) -> Vec<RealFile> {
    let others = ["requests.jsonl", "history.jsonl", "stdout.jsonl", "hooks.jsonl"];
    let mut found = Vec::new();
    let mut open = folders.to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "jsonl")
                && !others.iter().any(|other| name == *other)
                && let Ok(bytes) = fs::read(&path)
            {
                found.push(RealFile { path, bytes });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Reproducible random numbers: the same seed produces the same numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Random numbers from `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() >> 8).unwrap_or_default().checked_rem(end).unwrap_or_default()
    }

    /// A random one of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        (self.number() >> 32).to_le_bytes()[0]
    }
}

/// Asserts that the text between two marks in a document is `made`; with `QUIPU_BLESS` set, writes
/// it there instead. `tests` names the tests to run for that.
#[allow(clippy::disallowed_methods, reason = "blessing writes the document")]
#[allow(clippy::missing_panics_doc, reason = "so tests fail")]
pub fn compare(document: &str, mark: &str, made: &str, tests: &str) {
    // Tests run at once, and several write into one document.
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, end) = (format!("<!-- {mark}: begin -->\n"), format!("<!-- {mark}: end -->\n"));
    let path = root().join("docs").join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (inside, after) = rest.split_once(&end)?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = parts else { panic!("{document} has no place for {mark}") };
    if std::env::var("QUIPU_BLESS").is_ok() {
        let written = std::fs::write(&path, format!("{before}{begin}{made}{end}{after}"));
        assert!(written.is_ok(), "{document}: {written:?}");
    } else {
        assert!(inside == made, "run: QUIPU_BLESS=1 cargo test {tests}");
    }
}
