//! The built-in sample sessions, for users without a Claude home.
//!
//! The build script packs `samples/home`. Commands work on files, so the samples are unpacked once,
//! into the user's cache folder. The time of their last record becomes the time of their last
//! change, so ages look right. No file of the user is touched.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use files::Durability;
use flate2::read::GzDecoder;
use transcript::conversation::preview::preview;

/// The files: for each, the length of its name, its name, its length, its bytes; compressed.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/samples.gz"));

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
    for (name, bytes) in packed_files().map_err(|error| (home.clone(), error))? {
        let path = home.join(name);
        let there = fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64);
        if !there {
            write(&path, &bytes).map_err(|error| (path, error))?;
        }
    }
    Ok(home)
}

fn packed_files() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut packed = Vec::new();
    GzDecoder::new(PACKED).read_to_end(&mut packed)?;
    let mut rest = packed.as_slice();
    let mut next = || -> Option<Vec<u8>> {
        let (length, more) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, more) = more.split_at_checked(length)?;
        rest = more;
        Some(bytes.to_vec())
    };
    let mut found = Vec::new();
    while let (Some(name), Some(bytes)) = (next(), next()) {
        found.push((String::from_utf8(name).map_err(io::Error::other)?, bytes));
    }
    Ok(found)
}

/// Writes in one step, so that a second process never sees half a file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::put(path, bytes, Durability::Process)?;
    if let Some(ended) = preview(path)?.ended {
        let millis = u64::try_from(ended.0).unwrap_or_default();
        let modified = UNIX_EPOCH + Duration::from_millis(millis);
        OpenOptions::new().write(true).open(path)?.set_modified(modified)?;
    }
    Ok(())
}
