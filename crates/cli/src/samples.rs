//! The built-in sample sessions, for users without a Claude home.
//!
//! Commands work on files, so the samples are unpacked once, into the user's cache folder. The time
//! of their last record becomes the time of their last change, so ages look right. No file of the
//! user is touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use transcript::conversation::preview::preview;

macro_rules! samples {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../samples/projects/-home-dev-demo/", $name)))),+]
    };
}

const SAMPLES: &[(&str, &[u8])] = samples![
    "95e0b7f2-249a-4511-a86b-7ed5358df786.jsonl",
    "ade43c95-f68a-4a69-9e1e-f0407a2ad094.jsonl",
    "agent-a697414.jsonl",
    "agent-aa5b3cf.jsonl",
    "0619a7c5-8f8e-4b31-8b5e-a157fd6635b8.jsonl",
    "c5b9db19-a9fa-42b7-9f6b-0b8b73532119.jsonl",
    "c5b9db19-a9fa-42b7-9f6b-0b8b73532119/subagents/agent-aad5716.jsonl",
    "375118cd-78a9-4864-8e28-5134e91c89ff.jsonl",
    "2bb8f19c-b0e3-4eba-bcdf-0a96f8cbc7c9.jsonl",
    "0b204f87-d4e4-4d02-8e5b-d7f25f98d168.jsonl",
    "badc0ffe-0000-4000-8000-00000000d00d.jsonl",
];

/// Unpacks the samples, unless they exist; returns the folder that serves as a home.
///
/// If the cache cannot be written, uses a folder of this process under the temporary one.
pub(crate) fn unpack(cache: Option<&Path>) -> Result<PathBuf, (PathBuf, io::Error)> {
    let name = concat!("samples-", env!("CARGO_PKG_VERSION"));
    let temp_folder = std::env::temp_dir().join(format!("quipu-{}", std::process::id()));
    match cache.map(|cache| unpack_into(cache.join("quipu").join(name))) {
        Some(Ok(home)) => Ok(home),
        _ => unpack_into(temp_folder.join(name)),
    }
}

fn unpack_into(home: PathBuf) -> Result<PathBuf, (PathBuf, io::Error)> {
    let project = home.join("projects").join("-home-dev-demo");
    for (name, bytes) in SAMPLES {
        let path = project.join(name);
        let there = fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64);
        if !there {
            write(&path, bytes).map_err(|error| (path, error))?;
        }
    }
    Ok(home)
}

/// Writes under another name first, so that a second process never sees half a file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    if let Some(ended) = preview(&unfinished)?.ended {
        let millis = u64::try_from(ended.0).unwrap_or_default();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(millis))?;
    }
    fs::rename(&unfinished, path)
}
