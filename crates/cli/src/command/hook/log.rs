//! What hooks did, in a file: nobody sees what they print.
//!
//! Invariant: it does not grow beyond twice [`MOST`]; that it cannot be written is no failure of the hook.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;

use crate::failure::Failure;
use crate::text::printable;
use crate::world::World;

const MOST: u64 = 1 << 20;

/// Where it is.
pub(super) fn path(world: &World) -> Result<PathBuf, Failure> {
    Ok(world.ship_folder()?.join("log"))
}

/// Writes a line.
pub(super) fn write(world: &World, text: &str) {
    // Whoever looks for it finds that it is missing.
    let _ = path(world).map(|path| add(&path, world.clock(), text));
}

fn add(path: &Path, now: SystemTime, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::metadata(path).is_ok_and(|found| found.len() > MOST) {
        fs::rename(path, path.with_extension("old"))?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let now = Timestamp::try_from(now).unwrap_or_default();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    // One write, so that lines of two processes do not mix.
    options.open(path)?.write_all(format!("{now} {}\n", printable(text)).as_bytes())
}

/// The last lines.
pub(super) fn tail(world: &World, count: usize) -> Vec<String> {
    let text =
        path(world).ok().and_then(|path| files::read_text(path, 4 * MOST).ok()).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().rev().take(count).map(str::to_owned).collect();
    lines.reverse();
    lines
}
