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
    let hex: String = sum.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(unpack.total_in() == size && hex.as_bytes() == name)
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
            Sum::Short(sum) => sum.finish().to_vec(),
            Sum::Long(sum) => sum.finalize().to_vec(),
        }
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sum::Short(sum) => sum.add(bytes),
            Sum::Long(sum) => sum.update(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// SHA-1, against damage and not against attacks.
struct Sha1 {
    state: [u32; 5],
    /// The bytes that do not fill a block yet.
    rest: Vec<u8>,
    length: u64,
}

const BLOCK: usize = 64;

impl Sha1 {
    fn new() -> Sha1 {
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        Sha1 { state, rest: Vec::with_capacity(BLOCK), length: 0 }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let (first, after) = bytes.split_at(bytes.len().min(BLOCK - self.rest.len()));
            self.rest.extend(first);
            bytes = after;
            if let Ok(block) = self.rest.as_slice().try_into() {
                mix(&mut self.state, block);
                self.rest.clear();
            }
        }
        while let Some((block, after)) = bytes.split_first_chunk() {
            mix(&mut self.state, block);
            bytes = after;
        }
        self.rest.extend(bytes);
    }

    fn finish(mut self) -> [u8; 20] {
        let bits = self.length * 8;
        self.add(&[0x80]);
        while self.rest.len() != BLOCK - 8 {
            self.add(&[0]);
        }
        self.add(&bits.to_be_bytes());
        let mut bytes = [0; 20];
        for (part, word) in bytes.chunks_exact_mut(4).zip(self.state) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

fn mix(state: &mut [u32; 5], block: &[u8; BLOCK]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte));
    }
    for at in 16..words.len() {
        let word = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = word.rotate_left(1);
    }
    let mut now = *state;
    for (round, word) in words.iter().enumerate() {
        let [first, second, third, fourth, fifth] = now;
        let (mixed, constant) = match round / 20 {
            0 => ((second & third) | (!second & fourth), 0x5a82_7999_u32),
            1 => (second ^ third ^ fourth, 0x6ed9_eba1),
            2 => ((second & third) | (second & fourth) | (third & fourth), 0x8f1b_bcdc),
            _ => (second ^ third ^ fourth, 0xca62_c1d6),
        };
        let sum = first.rotate_left(5).wrapping_add(mixed).wrapping_add(constant);
        let next = sum.wrapping_add(fifth).wrapping_add(*word);
        now = [next, first, second.rotate_left(30), third, fourth];
    }
    for (word, more) in state.iter_mut().zip(now) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
