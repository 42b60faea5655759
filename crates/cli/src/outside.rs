//! Nothing that Quipu makes goes among the transcripts, where clients read everything.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::world::World;

/// Fails if a path, which need not exist, is in a Claude home or leads into one.
pub(crate) fn outside_of_homes(world: &World, path: &Path, hint: &str) -> Result<(), Failure> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // What is there of the path shows where it leads.
    let real = whole.ancestors().find_map(|folder| folder.canonicalize().ok());
    let is_in = |home: &PathBuf| {
        whole.starts_with(home)
            || matches!((&real, home.canonicalize()), (Some(real), Ok(home)) if real.starts_with(&home))
    };
    if world.known_homes()?.iter().any(is_in) {
        let message = format!("`{}` is in a Claude home", path.display());
        return Err(Failure::usage(message, Some(hint)));
    }
    Ok(())
}
