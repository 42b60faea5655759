//! The only writer of a transcript.
//!
//! Invariants: a line is one write, and is only ever appended; if the file does not end with a
//! newline, one is added first; nothing is created before there is something to write.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A transcript that is being written.
pub struct Log {
    path: PathBuf,
    file: Option<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Log {
    /// The file need not exist.
    pub fn at(path: &Path) -> Log {
        Log { path: path.to_owned(), file: None }
    }

    /// A transcript that the caller has opened.
    pub fn over(path: &Path, file: Box<dyn Write + Send>) -> Log {
        Log { path: path.to_owned(), file: Some(file) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line, given without its newline.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        if self.file.is_none() {
            let path = self.path.display();
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{error}, in `{path}`"));
            self.file = Some(Box::new(open(&self.path).map_err(named)?));
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let count = file.write(&bytes)?;
        if count == bytes.len() {
            return Ok(());
        }
        // The disk accepted a part: writing the rest gives the reason.
        match file.write_all(&bytes[count..]) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.file = None;
                Err(error)
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut file = files::append_private(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    if end > 0 {
        file.seek(SeekFrom::Start(end - 1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
