//! Documents that go to a file that the user names.
//!
//! Invariant: a regular file is written in one step. Half a document is none, and what was there
//! before is better.

use std::io::{BufWriter, Write};
use std::path::Path;

use files::{Attributes, NewAccess};
use workshop::{DocumentFile, Force};

use crate::failure::Failure;

/// Writes a document. A file that is replaced keeps its attributes, unless the document is private.
pub(crate) fn write_document<T>(
    place: &DocumentFile,
    force: Force,
    access: NewAccess,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |error| Failure::unwritable(place.path(), error);
    let named = |failure: Failure| failure.while_writing(place.path());
    let path = match place {
        DocumentFile::Special(path) => {
            let mut file = BufWriter::new(files::open_special(path).map_err(failed)?);
            let written = write(&mut file).map_err(named)?;
            return file.flush().map(|()| written).map_err(failed);
        }
        DocumentFile::Regular(path) => path,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if access == NewAccess::Usual {
        use std::os::unix::fs::PermissionsExt;
        // The umask decides, as for every new file: a document is meant to be passed on.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // Without the name of the temporary file, which the user does not know.
    let temp = builder.tempfile_in(folder.unwrap_or(Path::new(".")));
    let temp = temp.map_err(|error| failed(error.kind().into()))?;
    let mut file = BufWriter::with_capacity(1 << 18, temp);
    let written = write(&mut file).map_err(named)?;
    let temp = file.into_inner().map_err(|error| failed(error.into_error()))?;
    if access == NewAccess::Usual
        && let Ok(old) = files::open(path)
    {
        Attributes::of(&old).and_then(|kept| kept.give(temp.as_file())).map_err(failed)?;
    }
    let placed = match force {
        Force::Never => temp.persist_noclobber(path),
        Force::InUse | Force::Always => temp.persist(path),
    };
    placed.map(|_| written).map_err(|error| failed(error.error))
}
