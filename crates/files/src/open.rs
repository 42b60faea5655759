//! Opens and reads regular files, and nothing else.
//!
//! Invariants, except for [`open_special`]: no call waits for another process; only regular files
//! and folders are ever opened, directly or through links; a file that is read whole is at most as
//! long as the caller allows.

use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
#[cfg(unix)]
use std::thread;
#[cfg(unix)]
use std::time::{Duration, Instant};

/// A path that leads to something other than a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRegular {
    what: &'static str,
}

impl NotRegular {
    fn of(kind: FileType) -> NotRegular {
        #[cfg(unix)]
        let special = {
            use std::os::unix::fs::FileTypeExt;
            if kind.is_fifo() {
                Some("a pipe")
            } else if kind.is_socket() {
                Some("a socket")
            } else if kind.is_char_device() || kind.is_block_device() {
                Some("a device")
            } else {
                None
            }
        };
        #[cfg(not(unix))]
        let special = None;
        let what = special.unwrap_or(if kind.is_dir() { "a folder" } else { "something else" });
        NotRegular { what }
    }

    /// Whether that is why a file could not be opened.
    pub fn is_why(error: &io::Error) -> bool {
        error.get_ref().and_then(|inner| inner.downcast_ref::<NotRegular>()).is_some()
    }
}

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a regular file", self.what)
    }
}

impl std::error::Error for NotRegular {}

/// Opens a regular file for reading. If the path leads to anything else, returns an error at once.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    // Checked first, because opening some devices has an effect.
    metadata(path)?;
    let file = open_without_waiting(path)?;
    // Checked again, because the name may lead elsewhere by now.
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// The metadata of a regular file, without opening it. If the path leads to anything else, returns
/// an error.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let found = fs::metadata(path)?;
    refuse_special(&found)?;
    Ok(found)
}

/// Opens a folder, in order to sync its entries to disk.
pub(crate) fn open_folder_itself(path: &Path) -> io::Result<File> {
    open_without_waiting(path)
}

/// Reads a whole regular file; one that is longer than `most` bytes is an error.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    read_whole(open(path)?, most)
}

/// Reads a whole open file.
pub(crate) fn read_whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let message = format!("it is larger than the limit of {most} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    let size = file.metadata()?.len();
    if size > most {
        return Err(too_long());
    }
    // System files report a size of zero, and other files may grow.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// Like [`read`], as text.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Copies the contents of a regular file to another one. Returns the number of bytes.
pub fn copy(from: impl AsRef<Path>, to: &mut File) -> io::Result<u64> {
    io::copy(&mut open(from)?, to)
}

/// Opens a pipe or a device for writing. If no process reads from the pipe yet, waits for one for a
/// short time.
#[cfg(unix)]
pub fn open_special(path: &Path) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::os::unix::fs::OpenOptionsExt;
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flags);
    let no_reader = rustix::io::Errno::NXIO.raw_os_error();
    let begin = Instant::now();
    let file = loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(no_reader) => {
                if begin.elapsed() >= PATIENCE {
                    let message = "no process reads from it";
                    return Err(io::Error::new(io::ErrorKind::NotConnected, message));
                }
                thread::sleep(Duration::from_millis(20));
            }
            file => break file?,
        }
    };
    // Once a process reads, writing may take as long as reading does.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens something that is not a regular file for writing.
#[cfg(not(unix))]
pub fn open_special(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// How long to wait for a process to read from a pipe.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(1);

/// The error for something that is not a regular file, and was not opened.
#[cfg(unix)]
pub(crate) fn not_regular(is_folder: bool) -> io::Error {
    let what = if is_folder { "a folder" } else { "a pipe, a socket or a device" };
    io::Error::new(io::ErrorKind::InvalidInput, NotRegular { what })
}

/// The error for a path at which a link was found and not followed says that.
pub(crate) fn not_a_link(error: io::Error) -> io::Error {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return io::Error::new(io::ErrorKind::InvalidInput, NotRegular { what: "a link" });
    }
    error
}

pub(crate) fn refuse_special(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, NotRegular::of(found.file_type())))
}

#[allow(clippy::disallowed_methods, reason = "the one place that opens files for reading")]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // For reading too: a read from `/proc/kmsg`, which claims to be a regular file, waits for
        // messages.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    }
    options.open(path)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
