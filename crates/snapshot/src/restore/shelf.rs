//! The rewinds in a store's folder, as they are written.
//!
//! Invariant: a plan that is damaged, or that leads out of its root, is not read.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{BACK, DONE, FORWARD, PLAN, Phase, REWINDS, Rewind};
use crate::hash::Hash;
use crate::plan::{Step, invalid};
use crate::tree::Place;

/// A plan, at most.
const MOST: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    hash: Hash,
    #[serde(borrow)]
    rewind: &'a RawValue,
}

/// A rewind as it is written.
pub(super) fn sealed(rewind: &Rewind) -> io::Result<Vec<u8>> {
    let raw = serde_json::value::to_raw_value(rewind)?;
    let sealed = Sealed { hash: Hash::of(raw.get().as_bytes()), rewind: &raw };
    Ok(serde_json::to_vec(&sealed)?)
}

/// Every rewind in a store's folder that can be read.
pub(crate) fn all(store: &Path) -> Vec<(Rewind, Phase)> {
    let found = fs::read_dir(store.join(REWINDS)).into_iter().flatten().flatten();
    let mut all: Vec<(Rewind, Phase)> = Vec::new();
    for entry in found {
        let folder = entry.path();
        let Ok(rewind) = read(&folder) else { continue };
        let has = |name: &str| folder.join(name).exists();
        let phase = match (has(BACK), has(DONE), has(FORWARD)) {
            (true, ..) => Phase::Back,
            (_, true, _) => Phase::Done,
            (_, _, true) => Phase::Forward,
            _ => Phase::Planned,
        };
        all.push((rewind, phase));
    }
    all.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    all
}

fn read(folder: &Path) -> io::Result<Rewind> {
    let bytes = files::read(folder.join(PLAN), MOST)?;
    let sealed: Sealed<'_> = serde_json::from_slice(&bytes)?;
    if Hash::of(sealed.rewind.get().as_bytes()) != sealed.hash {
        return Err(invalid("its hash differs"));
    }
    let rewind: Rewind = serde_json::from_str(sealed.rewind.get())?;
    let is_its = folder.file_name().is_some_and(|name| name.to_string_lossy() == rewind.name);
    let is_plain = |step: &Step| is_plain(&step.place);
    if is_its && rewind.steps.iter().all(is_plain) {
        Ok(rewind)
    } else {
        Err(invalid("it does not belong here"))
    }
}

/// Whether a path stays below its root.
fn is_plain(place: &Place) -> bool {
    let mut names = place.split(|byte| *byte == b'/');
    place.is_empty() || names.all(|name| !matches!(name, b"" | b"." | b".."))
}
