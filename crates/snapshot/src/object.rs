//! Whether a file of git's objects is what its name says, or what its end says.
//!
//! A loose object is named after the hash of its content; the files of a pack end with the hash of
//! all that is before. So what was kept of them is verified without a hash of our own. Invariant: a
//! file that differs in one byte from what git wrote is not sound.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::scan;

/// Whether the object at `…/ab/cdef` or the file of a pack at `…/pack/pack-….idx` is sound. What
/// cannot be read is not.
pub(crate) fn is_sound(path: &Path) -> bool {
    let name = |path: &Path| path.file_name().map_or(&b""[..], OsStr::as_bytes).to_vec();
    let (leaf, file) = (name(path.parent().unwrap_or(path)), name(path));
    let Ok(opened) = scan::open(path) else { return false };
    let sound = if leaf == b"pack" {
        let digits = file.iter().skip_while(|byte| **byte != b'-').skip(1);
        let digits = digits.take_while(|byte| **byte != b'.').count();
        ends_with_its_hash(opened, digits)
    } else {
        has_its_name(opened, &[leaf, file].concat())
    };
    sound.unwrap_or(false)
}

/// Whether a loose object has the name, in hexadecimal digits.
fn has_its_name(file: File, name: &[u8]) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let mut packed = BufReader::new(file);
    let (mut unpack, mut sum) = (Decompress::new(true), Sum::of_digits(name.len()));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (taken, made) = (unpack.total_in(), unpack.total_out());
        let input = packed.fill_buf()?;
        let is_over = input.is_empty();
        let status = unpack.decompress(input, &mut buffer, FlushDecompress::None)?;
        let since = |now: u64, then: u64| usize::try_from(now - then).unwrap_or_default();
        packed.consume(since(unpack.total_in(), taken));
        let made = since(unpack.total_out(), made);
        sum.write_all(&buffer[..made])?;
        match status {
            Status::StreamEnd => break,
            // What is at the end is missing.
            _ if is_over && made == 0 => return Ok(false),
            _ => {}
        }
    }
    Ok(unpack.total_in() == size && has_digits(&sum.finish(), name))
}

/// Whether these are the hexadecimal digits of a hash.
fn has_digits(hash: &[u8], digits: &[u8]) -> bool {
    let digit = |number: u8| char::from_digit(number.into(), 16);
    let wanted = hash.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    wanted.eq(digits.iter().map(|digit| Some(char::from(*digit))))
}

/// Whether a file ends with the hash of what is before it; the hash has so many digits.
fn ends_with_its_hash(file: File, digits: usize) -> io::Result<bool> {
    let Some(most) = file.metadata()?.len().checked_sub(digits as u64 / 2) else {
        return Ok(false);
    };
    let mut sum = Sum::of_digits(digits);
    let mut before = BufReader::new(file).take(most);
    io::copy(&mut before, &mut sum)?;
    let mut end = Vec::new();
    before.into_inner().read_to_end(&mut end)?;
    Ok(sum.finish() == end)
}

/// A hash as git uses it.
enum Sum {
    Short(Sha1),
    Long(Sha256),
}

impl Sum {
    /// The one with this number of hexadecimal digits.
    fn of_digits(digits: usize) -> Sum {
        if digits == 64 { Sum::Long(Sha256::new()) } else { Sum::Short(Sha1::new()) }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Sum::Short(sum) => sum.finalize().to_vec(),
            Sum::Long(sum) => sum.finalize().to_vec(),
        }
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sum::Short(sum) => sum.update(bytes),
            Sum::Long(sum) => sum.update(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
