//! The seal on the files that Quipu writes.
//!
//! A sealed value is one line of JSON that contains the SHA-256 of the value's text. Invariant: if
//! a disk, another program or a person changed the file, its contents are never mistaken for what
//! was written.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use files::Durability;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::id::hex;

/// The version of this format. Version 1 had no hash.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    v: u32,
    #[serde(borrow)]
    sha256: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// The SHA-256 of the bytes, in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The value as a sealed line, including the line break.
pub(crate) fn seal(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let value = serde_json::value::to_raw_value(value)?;
    let sha256 = Cow::Owned(hash(value.get().as_bytes()));
    let mut line = serde_json::to_vec(&Sealed { v: VERSION, sha256, value: &value })?;
    line.push(b'\n');
    Ok(line)
}

/// The value in a sealed line; None if the line is not what was written.
pub(crate) fn unseal<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let sealed: Sealed<'_> = serde_json::from_slice(line).ok()?;
    let is_whole = sealed.v == VERSION && sealed.sha256 == hash(sealed.value.get().as_bytes());
    serde_json::from_str(sealed.value.get()).ok().filter(|_| is_whole)
}

/// The value in a sealed file of at most `most` bytes; None if the file is missing or damaged.
pub(crate) fn load<T: DeserializeOwned>(path: &Path, most: u64) -> Option<T> {
    unseal(&files::read(path, most).ok()?)
}

/// Writes a value to a sealed file.
pub(crate) fn save(path: &Path, value: &impl Serialize) -> io::Result<()> {
    files::put(path, &seal(value)?, Durability::Process)
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
