//! One change in the journal: the file `entry.json`, and whether the kept files are intact.
//!
//! Invariants: nothing of an entry is used before its hash matches; a kept file is intact if its
//! first bytes, as many as were recorded, have the recorded hash. Further bytes in a hard link,
//! which is the old file itself, were written by a process that still had it open; in a copy they
//! are damage. Entries of the first version have no hashes: only the size is compared, and the user
//! is informed of that.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use files::Attributes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::Mark;
use crate::sum::Sum;

/// The name of the file.
pub(super) const FILE: &str = "entry.json";
/// Its maximum size, in bytes.
const LONGEST: u64 = 16 << 20;
const VERSION: u32 = 2;

/// One change, or what is left of its record.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub folder: PathBuf,
    /// Milliseconds since 1970.
    pub time: i64,
    pub what: String,
    /// The id of the session; only its start if the entry is damaged.
    pub session: String,
    /// The id of the session that was created.
    pub made: Option<String>,
    pub items: Vec<Item>,
    pub state: State,
}

/// How far an entry can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its hash matches.
    Sealed,
    /// It is from the first version, which has no hashes.
    Unsealed,
    /// It cannot be used: which part is damaged, and how.
    Damaged(String),
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub path: PathBuf,
    pub was: Was,
    /// The state after the change; `None` if the change removed the file.
    pub after: Option<Mark>,
}

/// What was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Was {
    Nothing,
    There { copy: Kept, before: Mark },
}

/// A file in the entry's folder with what was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its name in that folder.
    pub name: String,
    pub sha256: Option<String>,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum How {
    /// The old file itself. `taken` bytes that were written to it late are in the new file, too.
    Link { taken: u64 },
    /// A copy, and the other attributes of the file.
    Copy { mode: u32, user: u32, group: u32, extended: Vec<(String, String)> },
    /// A copy that the first version made: it has the mode and the owner itself.
    Plain,
}

impl How {
    pub(super) fn copy(attributes: &Attributes) -> How {
        let coded = |bytes: &Vec<u8>| STANDARD.encode(bytes);
        let extended = attributes.extended.iter();
        How::Copy {
            mode: attributes.mode,
            user: attributes.owner.0,
            group: attributes.owner.1,
            extended: extended.map(|(name, value)| (coded(name), coded(value))).collect(),
        }
    }

    /// The attributes of the file, recorded or those of `kept` itself.
    pub(super) fn attributes(&self, kept: &Path) -> io::Result<Attributes> {
        let How::Copy { mode, user, group, extended } = self else {
            return Attributes::of(&files::open(kept)?);
        };
        let plain =
            |text: &str| STANDARD.decode(text).map_err(|error| io::Error::other(error.to_string()));
        let extended = extended.iter().map(|(name, value)| Ok((plain(name)?, plain(value)?)));
        let extended = extended.collect::<io::Result<_>>()?;
        Ok(Attributes { mode: *mode, owner: (*user, *group), extended })
    }
}

/// The contents of `entry.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body {
    /// The name of the folder: an entry in another folder does not belong there.
    pub(super) name: String,
    pub(super) time: i64,
    pub(super) what: String,
    pub(super) session: String,
    pub(super) made: Option<String>,
    pub(super) items: Vec<Item>,
}

/// `entry.json`: its contents, and their hash.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    v: u32,
    sha256: String,
    #[serde(borrow)]
    entry: &'a RawValue,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// `entry.json` of the first version.
#[derive(Deserialize)]
struct First {
    time: i64,
    what: String,
    session: String,
    items: Vec<FirstItem>,
}

#[derive(Deserialize)]
struct FirstItem {
    path: PathBuf,
    was: FirstWas,
    after: Mark,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FirstWas {
    Nothing,
    There { copy: PathBuf, before: Mark },
}

impl Body {
    pub(super) fn to_json(&self) -> io::Result<Vec<u8>> {
        let entry = serde_json::value::to_raw_value(self)?;
        let sealed = Sealed {
            v: VERSION,
            sha256: format!("{:x}", Sha256::digest(entry.get())),
            entry: &entry,
        };
        Ok(serde_json::to_vec(&sealed)?)
    }

    /// Parses the bytes of an `entry.json`; or returns what is wrong with them.
    pub(super) fn parse(bytes: &[u8], name: &str) -> Result<(Body, State), String> {
        let no_json = |error: serde_json::Error| match bytes {
            [] => "it is empty".to_owned(),
            _ => format!("it is not an entry ({error})"),
        };
        let Version { v } = serde_json::from_slice(bytes).map_err(no_json)?;
        let (body, state) = match v {
            1 => (first(bytes, name).map_err(no_json)?, State::Unsealed),
            VERSION => {
                let sealed: Sealed<'_> = serde_json::from_slice(bytes).map_err(no_json)?;
                let text = sealed.entry.get();
                if format!("{:x}", Sha256::digest(text)) != sealed.sha256 {
                    return Err("its SHA-256 differs from the recorded one".to_owned());
                }
                (serde_json::from_str(text).map_err(no_json)?, State::Sealed)
            }
            v => return Err(format!("its version {v} is unknown")),
        };
        if body.name != name {
            return Err(format!("it belongs to the change `{}`", body.name));
        }
        let is_plain = |item: &Item| match &item.was {
            Was::Nothing => true,
            Was::There { copy, .. } => is_file_name(&copy.name),
        };
        if body.items.is_empty() || !body.items.iter().all(is_plain) {
            return Err("it does not say which files it is about".to_owned());
        }
        Ok((body, state))
    }
}

fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!(parts.next(), Some(std::path::Component::Normal(_))) && parts.next().is_none()
}

fn first(bytes: &[u8], name: &str) -> serde_json::Result<Body> {
    let First { time, what, session, items } = serde_json::from_slice(bytes)?;
    // It has no name except in the paths of its copies.
    let mut named = name.to_owned();
    let mut list = Vec::new();
    for FirstItem { path, was, after } in items {
        let was = match was {
            FirstWas::Nothing => Was::Nothing,
            FirstWas::There { copy, before } => {
                let part = |part: Option<&std::ffi::OsStr>| {
                    part.unwrap_or_default().to_string_lossy().into_owned()
                };
                named = part(copy.parent().and_then(Path::file_name));
                let name = part(copy.file_name());
                Was::There { copy: Kept { name, sha256: None, how: How::Plain }, before }
            }
        };
        list.push(Item { path, was, after: Some(after) });
    }
    Ok(Body { name: named, time, what, session, made: None, items: list })
}

/// What was written to a kept file after it was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    pub lines: u64,
    pub bytes: u64,
}

impl Entry {
    /// The entry in a folder; `None` if there is no `entry.json`. One that cannot be used says why.
    pub(super) fn read(folder: &Path) -> Option<Entry> {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        let bytes = match files::read(folder.join(FILE), LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            bytes => bytes,
        };
        let parsed = bytes.map_err(|error| error.to_string());
        let parsed = parsed.and_then(|bytes| Body::parse(&bytes, &name));
        Some(match parsed {
            Ok((Body { name, time, what, session, made, items }, state)) => {
                Entry { name, folder: folder.to_owned(), time, what, session, made, items, state }
            }
            Err(why) => Entry::damaged(folder, format!("`{FILE}`: {why}")),
        })
    }

    /// An entry of which only the name of its folder is left.
    pub(super) fn damaged(folder: &Path, why: String) -> Entry {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // `1795132800000-hook-install-settings`, perhaps with a number at the end.
        let mut parts: Vec<&str> = name.split('-').collect();
        let time = time_of(&name).unwrap_or_else(|| {
            let modified = Mark::of(folder).map_or(0, |mark| mark.modified / 1_000_000);
            i64::try_from(modified).unwrap_or_default()
        });
        let is_number = |part: &&str| part.len() < 4 && part.parse::<u32>().is_ok();
        if parts.len() > 3 && parts.last().is_some_and(is_number) {
            parts.pop();
        }
        let session = if parts.len() > 2 { parts.pop().unwrap_or_default() } else { "" };
        let what = parts.get(1..).unwrap_or_default().join("-");
        Entry {
            folder: folder.to_owned(),
            time,
            what,
            session: session.to_owned(),
            made: None,
            items: Vec::new(),
            state: State::Damaged(why),
            name,
        }
    }

    /// Checks that the entry can be used; otherwise returns which part is damaged, and how. Kept
    /// files are read in full.
    pub fn verify(&self) -> Result<(), String> {
        if let State::Damaged(why) = &self.state {
            return Err(why.clone());
        }
        self.items.iter().try_for_each(|item| item.verify(&self.folder))
    }

    /// What was written late to the files that it keeps, and is nowhere else.
    pub fn late(&self) -> Late {
        let mut late = Late::default();
        for item in &self.items {
            let Was::There { copy, before } = &item.was else { continue };
            let How::Link { taken } = copy.how else { continue };
            let Ok(more) = tail(&self.folder.join(&copy.name), before.size + taken) else {
                continue;
            };
            late.lines += more.lines;
            late.bytes += more.bytes;
        }
        late
    }

    /// The files in its folder, with sizes.
    pub fn parts(&self) -> Vec<(String, u64)> {
        let found = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let sized = found.map(|one| {
            let size = one.metadata().map_or(0, |found| found.len());
            (one.file_name().to_string_lossy().into_owned(), size)
        });
        let mut parts: Vec<_> = sized.filter(|(name, _)| name != "lock").collect();
        parts.sort();
        parts
    }
}

impl Entry {
    /// Whether the change was stopped before the step that counts. Of new files, the first one is
    /// placed last and removed first; of removed files, the first one is removed first and restored
    /// last.
    pub(super) fn is_half(&self) -> bool {
        self.items.first().is_some_and(|first| match (&first.was, first.after) {
            (Was::Nothing, _) => !first.path.exists(),
            (Was::There { .. }, None) => !first.is_done(&self.folder),
            (Was::There { .. }, Some(_)) => false,
        })
    }
}

impl Item {
    /// Whether the change removes this file.
    pub(super) fn is_gone(&self) -> bool {
        self.after.is_none()
    }

    /// Whether the change of this file happened: a file that is as before shows that it did not.
    pub(super) fn is_done(&self, folder: &Path) -> bool {
        match &self.was {
            Was::Nothing => self.path.exists(),
            Was::There { copy, before } => match copy.how {
                How::Link { .. } => !is_same(&self.path, &folder.join(&copy.name)),
                How::Copy { .. } | How::Plain => {
                    !matches!(Mark::of(&self.path), Ok(is) if is == *before)
                }
            },
        }
    }

    fn verify(&self, folder: &Path) -> Result<(), String> {
        let Was::There { copy, before } = &self.was else { return Ok(()) };
        let Kept { name, sha256, how } = copy;
        let path = folder.join(name);
        let size = fs::metadata(&path).map(|found| found.len());
        let size = size.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("the journal's copy `{name}` is missing"),
            _ => format!("the journal's copy `{name}` cannot be read: {error}"),
        })?;
        let is_link = matches!(how, How::Link { .. });
        if size < before.size || (size > before.size && !is_link) {
            let was = before.size;
            return Err(format!("the journal's copy `{name}` has {size} bytes instead of {was}"));
        }
        let Some(sha256) = sha256 else { return Ok(()) };
        match hash(&path, before.size) {
            Ok(found) if found == *sha256 => Ok(()),
            Ok(_) => Err(format!(
                "the journal's copy `{name}` is not what was kept: its SHA-256 differs"
            )),
            Err(error) => Err(format!("the journal's copy `{name}` cannot be read: {error}")),
        }
    }
}

/// When a change was made, according to the name of its folder; `None` if that is not a name of
/// ours.
pub(super) fn time_of(name: &str) -> Option<i64> {
    let (time, rest) = name.split_once('-')?;
    let is_ours =
        !rest.is_empty() && time.len() <= 16 && time.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then(|| time.parse().ok()).flatten()
}

/// Whether two paths are of the same file.
#[cfg(unix)]
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) else { return false };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether two paths are of the same file, as far as can be known.
#[cfg(not(unix))]
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((Mark::of(one), Mark::of(other)), (Ok(one), Ok(other)) if one == other)
}

/// The SHA-256 of the first `size` bytes of a file; an error if it has fewer.
pub(super) fn hash(path: &Path, size: u64) -> io::Result<String> {
    let mut sum = Sum::new();
    // In large steps: many files are long.
    let mut bytes = BufReader::with_capacity(1 << 17, files::open(path)?.take(size));
    let count = io::copy(&mut bytes, &mut sum)?;
    if count < size { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(sum.finish()) }
}

/// What a file contains after an offset.
fn tail(path: &Path, from: u64) -> io::Result<Late> {
    let mut file = files::open(path)?;
    if file.metadata()?.len() <= from {
        return Ok(Late::default());
    }
    io::Seek::seek(&mut file, io::SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut late = Late::default();
    let mut is_open = false;
    loop {
        let part = reader.fill_buf()?;
        let Some(last) = part.last() else { break };
        is_open = *last != b'\n';
        late.lines += part.split(|byte| *byte == b'\n').skip(1).count() as u64;
        late.bytes += part.len() as u64;
        let count = part.len();
        reader.consume(count);
    }
    late.lines += u64::from(is_open);
    Ok(late)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
