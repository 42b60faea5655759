//! `--offline`: a model that plays a script; without one, a demonstration in its own folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::ChatArgs;
use crate::failure::Failure;

/// A folder for the demonstration, with a small project and a config home.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) cwd: PathBuf,
    pub(super) home: PathBuf,
    pub(super) prompt: String,
}

const README: &str = "# Knots\n\nCounts the knots on a cord.\n";
const KNOTS: &str = "# Counts knots.\ncount=0\nfor knot in \"$@\"; do\n  count=$((count + 2))\ndone\necho \"$count knots\"\n";

/// Creates the folder, if the user asked for the demonstration.
pub(super) fn lab(args: &ChatArgs) -> Result<Option<Lab>, Failure> {
    if args.offline != Some(None) {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("quipu-demo-").tempdir();
    // The folder is kept, so that the user can look at the result.
    let folder = folder.map_err(|error| Failure::unwritable(&std::env::temp_dir(), error))?.keep();
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    let lab = Lab {
        cwd: folder.join("knots"),
        home: folder.join("home"),
        prompt: "The counter counts every knot twice. Fix it, and show that it works.".to_owned(),
    };
    for (name, text) in [("README.md", README), ("knots.sh", KNOTS)] {
        write(&lab.cwd, name, text).map_err(|error| Failure::unwritable(&lab.cwd, error))?;
    }
    Ok(Some(lab))
}

fn write(folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::File::create(folder.join(name))?.write_all(text.as_bytes())
}

/// The script of the demonstration.
pub(super) const SCRIPT: &str = include_str!("demo.json");
