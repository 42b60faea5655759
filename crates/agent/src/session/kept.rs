//! What the model was told when a session began, kept beside the session
//! (`<session>/context.json`).
//!
//! It becomes part of the system prompt again, and a session's folder may come from anywhere: only
//! a context with our seal is used. The key of the seal never leaves the program's own folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::error::{FileError, unreadable, unwritable};
use super::{ContextWish, Keeping, Prepared};
use crate::context::{Context, LeftOut, Loaded, Places};

/// The maximum size of the file, in bytes.
const LONGEST: u64 = 16 << 20;
/// The maximum size of the key, in bytes.
const LONGEST_KEY: u64 = 1 << 10;
/// The name of the file in a session's folder.
const NAME: &str = "context.json";

/// What the model learns about where it works.
pub(super) struct Learned {
    /// What it learned when the session began.
    pub(super) context: Context,
    /// What has changed since.
    pub(super) news: Option<String>,
    /// The file that keeps this, and its text, if they differ from what is there.
    pub(super) kept: Option<(PathBuf, String)>,
    /// What was not read.
    pub(super) left_out: LeftOut,
    /// The instruction files that were read.
    pub(super) loaded: Vec<Loaded>,
}

/// What the model learns about where it works. If the session is resumed: what it learned before,
/// and what has changed since. `folder` is that of the session, `old` that of the one it continues.
pub(super) fn learn(
    prepared: &Prepared,
    (folder, old): (&Path, Option<&Path>),
    model: &str,
    key: Option<&str>,
) -> Learned {
    let is_kept = prepared.config.context == ContextWish::Kept;
    let before = old.zip(key).filter(|_| is_kept).and_then(|(old, key)| {
        let text = files::read_text(old.join(NAME), LONGEST).ok()?;
        opened(key, old, &text)
    });
    let now = prepared.config.nature.now();
    let today = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    let date = today.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string();
    let folders = &prepared.config.folders;
    let places = Places {
        home: &folders.home,
        user: folders.user.as_deref(),
        cwd: &folders.cwd,
        repository: prepared.standing.repository,
    };
    let (mut fresh, left_out) = Context::look(places, &date, model);
    let loaded = std::mem::take(&mut fresh.loaded);
    let is_known = before.is_some();
    let mut context = before.unwrap_or_else(|| fresh.clone());
    let news = context.renew(&fresh);
    let is_another = !is_known || news.is_some() || old != Some(folder);
    let text = key.filter(|_| is_another).and_then(|key| sealed(key, folder, &context));
    let kept = text.map(|text| (folder.join(NAME), text));
    Learned { context, news, kept, left_out, loaded }
}

/// The key of the seal; created when it is first needed. Without a key, nothing that is kept beside
/// sessions is used.
pub(super) fn key(prepared: &Prepared) -> Result<Option<String>, FileError> {
    let Some(path) = &prepared.config.seal_file else { return Ok(None) };
    match files::read_text(path, LONGEST_KEY) {
        Ok(key) if !key.trim().is_empty() => return Ok(Some(key)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(unreadable(path)(error));
        }
        _ => {}
    }
    if prepared.config.keeping == Keeping::Discarded {
        return Ok(None);
    }
    let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    files::put(path, key.as_bytes(), files::Durability::Process).map_err(unwritable(path))?;
    Ok(Some(key))
}

/// The contents of `context.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    context: Context,
    seal: String,
}

/// The text to keep for the session in this folder.
fn sealed(key: &str, folder: &Path, context: &Context) -> Option<String> {
    let seal = seal(key, folder, context)?;
    serde_json::to_string(&Kept { context: context.clone(), seal }).ok()
}

/// The context that is kept for the session in this folder, if we wrote it.
fn opened(key: &str, folder: &Path, text: &str) -> Option<Context> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    let expected = seal(key, folder, &kept.context)?;
    (expected == kept.seal).then_some(kept.context)
}

/// The hash of the key, the session and the context: none of them can be exchanged.
fn seal(key: &str, folder: &Path, context: &Context) -> Option<String> {
    let session = folder.file_name()?.to_string_lossy().into_owned();
    let text = serde_json::to_string(&(session, context)).ok()?;
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update(Sha256::digest(text.as_bytes()));
    Some(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
