//! ZIP, as far as packs use it: members that are compressed or stored, with their sizes and
//! checksums; no encryption, no links, no parts, no 64-bit sizes.
//!
//! The writer puts the archive behind a page of HTML, and ends it with a comment that ends the
//! page. The reader is strict, because archives come from strangers. Invariants of the reader:
//! nothing panics, whatever the bytes are; members do not overlap each other or the directory; each
//! name occurs once; no member gives more bytes than it declares; what the directory and a member's
//! own header say is the same.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::deflate::{Deflated, Deflating, Pool};

const LOCAL: u32 = 0x0403_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const DIRECTORY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
/// Sizes follow the data; names are UTF-8.
const FLAGS: u16 = 0x0808;
const DEFLATE: u16 = 8;
const STORED: u16 = 0;
/// 1980-01-01: packs of the same session are the same.
const DATE: u16 = 0x21;
/// A regular file that only its owner can read and write, on a Unix system.
const ATTRIBUTES: u32 = 0o100_600 << 16;
const MADE_BY: u16 = 0x0314;

/// The most members of an archive.
pub(super) const MOST_MEMBERS: usize = 20_000;
/// The largest directory, in bytes.
const LARGEST_DIRECTORY: u64 = 16 << 20;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 1_000;
/// Why something cannot be in such an archive.
pub(super) const TOO_LARGE: &str = "a pack can have 4 GB at most";

/// Writes an archive.
pub(super) struct Writer<'a> {
    out: Counted<'a>,
    members: Vec<Written>,
}

struct Counted<'a> {
    out: &'a mut dyn Write,
    at: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Written {
    name: String,
    offset: u32,
    of: Sizes,
}

#[derive(Clone, Copy)]
struct Sizes {
    crc: u32,
    packed: u32,
    plain: u32,
}

fn narrow(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, TOO_LARGE))
}

impl<'a> Writer<'a> {
    /// Begins with a page; `before` bytes were written already.
    pub(super) fn new(out: &'a mut dyn Write, page: &[u8], before: u64) -> io::Result<Writer<'a>> {
        let mut out = Counted { out, at: before };
        out.write_all(page)?;
        Ok(Writer { out, members: Vec::new() })
    }

    /// Adds a member; `produce` writes its bytes.
    pub(super) fn member<T>(
        &mut self,
        name: &str,
        pool: &Pool,
        produce: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.members.len() >= MOST_MEMBERS {
            return Err(io::Error::other(format!("more than {MOST_MEMBERS} files")));
        }
        let offset = narrow(self.out.at)?;
        let mut header = Vec::new();
        header.extend(LOCAL.to_le_bytes());
        fields(&mut header, Sizes { crc: 0, packed: 0, plain: 0 }, name)?;
        header.extend(0_u16.to_le_bytes());
        header.extend(name.as_bytes());
        self.out.write_all(&header)?;
        let mut deflating = Deflating::new(pool, &mut self.out);
        let made = produce(&mut deflating)?;
        let Deflated { crc, plain, packed } = deflating.finish()?;
        let of = Sizes { crc, packed: narrow(packed)?, plain: narrow(plain)? };
        for number in [DESCRIPTOR, of.crc, of.packed, of.plain] {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.members.push(Written { name: name.to_owned(), offset, of });
        Ok(made)
    }

    /// Writes the directory, and ends the page.
    pub(super) fn finish(mut self, end_of_page: &[u8]) -> io::Result<u64> {
        let begin = self.out.at;
        for Written { name, offset, of } in &self.members {
            let mut entry = Vec::new();
            entry.extend(DIRECTORY.to_le_bytes());
            entry.extend(MADE_BY.to_le_bytes());
            fields(&mut entry, *of, name)?;
            // Extra field, comment, disk, internal attributes.
            entry.extend([0; 8]);
            entry.extend(ATTRIBUTES.to_le_bytes());
            entry.extend(offset.to_le_bytes());
            entry.extend(name.as_bytes());
            self.out.write_all(&entry)?;
        }
        let count = u16::try_from(self.members.len()).map_err(io::Error::other)?;
        let mut end = Vec::new();
        end.extend(END.to_le_bytes());
        end.extend([0; 4]);
        end.extend(count.to_le_bytes());
        end.extend(count.to_le_bytes());
        end.extend(narrow(self.out.at - begin)?.to_le_bytes());
        end.extend(narrow(begin)?.to_le_bytes());
        end.extend(u16::try_from(end_of_page.len()).map_err(io::Error::other)?.to_le_bytes());
        end.extend(end_of_page);
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out.at)
    }
}

/// The fields that a member's header and its entry in the directory share, up to the length of the
/// name.
fn fields(out: &mut Vec<u8>, of: Sizes, name: &str) -> io::Result<()> {
    for number in [20, FLAGS, DEFLATE, 0, DATE] {
        out.extend(number.to_le_bytes());
    }
    for number in [of.crc, of.packed, of.plain] {
        out.extend(number.to_le_bytes());
    }
    out.extend(u16::try_from(name.len()).map_err(io::Error::other)?.to_le_bytes());
    Ok(())
}

/// An archive that was opened: the directory is read and checked.
#[derive(Debug)]
pub(super) struct Archive {
    file: File,
    pub(super) members: Vec<Member>,
    /// The size of the whole file.
    pub(super) size: u64,
}

/// A member, as the directory describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) plain: u64,
    packed: u64,
    crc: u32,
    method: u16,
    offset: u64,
    /// Where its data begins.
    data: u64,
}

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Little-endian numbers of a record whose length was checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn two(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_le_bytes)
    }

    fn four(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
    }
}

const LOCAL_LEN: usize = 30;
const DIRECTORY_LEN: usize = 46;
const END_LEN: usize = 22;

fn read_at(file: &mut File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes).map_err(|_| bad("it is cut off"))?;
    Ok(bytes)
}

impl Archive {
    pub(super) fn open(mut file: File) -> io::Result<Archive> {
        let size = file.metadata()?.len();
        let (at, end) = end(&mut file, size)?;
        let end = Fields(&end);
        let (count, begin, len) = (end.two(10), u64::from(end.four(16)), u64::from(end.four(12)));
        if end.two(4) != 0 || end.two(6) != 0 || end.two(8) != count {
            return Err(bad("it is a part of several"));
        }
        if begin + len != at || len > LARGEST_DIRECTORY || usize::from(count) > MOST_MEMBERS {
            return Err(bad("its directory is not where it should be"));
        }
        let directory = read_at(&mut file, begin, usize::try_from(len).unwrap_or_default())?;
        let mut members = Vec::new();
        let mut rest = directory.as_slice();
        for _ in 0..count {
            let (member, len) = entry(rest)?;
            rest = &rest[len..];
            members.push(member);
        }
        if !rest.is_empty() {
            return Err(bad("its directory has more than it declares"));
        }
        let mut names = HashSet::new();
        if !members.iter().all(|member| names.insert(member.name.to_lowercase())) {
            return Err(bad("a name occurs twice"));
        }
        let mut archive = Archive { file, members, size };
        archive.place(begin)?;
        Ok(archive)
    }

    /// Finds where the data of each member is, and refuses those that overlap.
    fn place(&mut self, end: u64) -> io::Result<()> {
        let mut used = Vec::new();
        for member in &mut self.members {
            let header = read_at(&mut self.file, member.offset, LOCAL_LEN)?;
            let header = Fields(&header);
            let (name, extra) = (usize::from(header.two(26)), u64::from(header.two(28)));
            let is_same = header.four(0) == LOCAL
                && header.two(8) == member.method
                && header.two(6) & !FLAGS == 0
                && name == member.name.len();
            if !is_same
                || read_at(&mut self.file, member.offset + LOCAL_LEN as u64, name)?
                    != member.name.as_bytes()
            {
                return Err(bad(format!("`{}` is not what the directory says", member.name)));
            }
            member.data = member.offset + LOCAL_LEN as u64 + name as u64 + extra;
            used.push(member.offset..member.data + member.packed);
        }
        used.sort_by_key(|range| range.start);
        let is_free = used.windows(2).all(|two| two[0].end <= two[1].start);
        if !is_free || used.last().is_some_and(|last| last.end > end) {
            return Err(bad("its members overlap"));
        }
        Ok(())
    }

    /// Writes the bytes of a member, which must be as many as declared, and have their checksum.
    pub(super) fn copy(&self, member: &Member, out: &mut dyn Write) -> io::Result<()> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(member.data))?;
        let packed = io::BufReader::with_capacity(1 << 18, file).take(member.packed);
        let mut crc = Crc::new();
        let left = if member.method == STORED {
            pour(packed, member.plain, &mut crc, out)?.limit()
        } else {
            let inner = pour(DeflateDecoder::new(packed), member.plain, &mut crc, out)?;
            member.packed.saturating_sub(inner.total_in())
        };
        if crc.sum() != member.crc || left != 0 {
            return Err(bad(format!("`{}` is damaged", member.name)));
        }
        Ok(())
    }
}

/// Copies exactly so many bytes; a source that has more or fewer is an error.
fn pour<R: Read>(mut source: R, size: u64, crc: &mut Crc, out: &mut dyn Write) -> io::Result<R> {
    let mut buffer = vec![0; 1 << 17];
    let mut done = 0;
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(bad(format!("it cannot be decompressed: {error}"))),
        };
        done += count as u64;
        if done > size {
            return Err(bad("a member is larger than it declares"));
        }
        crc.update(&buffer[..count]);
        out.write_all(&buffer[..count])?;
    }
    if done < size { Err(bad("a member is smaller than it declares")) } else { Ok(source) }
}

/// The last record, and where it is.
fn end(file: &mut File, size: u64) -> io::Result<(u64, Vec<u8>)> {
    let most = (END_LEN + usize::from(u16::MAX)) as u64;
    let from = size.saturating_sub(most);
    let tail = read_at(file, from, usize::try_from(size - from).unwrap_or_default())?;
    let signature = END.to_le_bytes();
    for at in memchr::memmem::rfind_iter(&tail, &signature) {
        let record = &tail[at..];
        if record.len() >= END_LEN && record.len() == END_LEN + usize::from(Fields(record).two(20))
        {
            return Ok((from + at as u64, record[..END_LEN].to_vec()));
        }
    }
    Err(bad("it is not a pack, or it is cut off"))
}

/// An entry of the directory, and its length.
fn entry(bytes: &[u8]) -> io::Result<(Member, usize)> {
    if bytes.len() < DIRECTORY_LEN || Fields(bytes).four(0) != DIRECTORY {
        return Err(bad("its directory is damaged"));
    }
    let fields = Fields(bytes);
    let name_len = usize::from(fields.two(28));
    let len = DIRECTORY_LEN + name_len + usize::from(fields.two(30)) + usize::from(fields.two(32));
    let name = bytes.get(DIRECTORY_LEN..DIRECTORY_LEN + name_len);
    let name = name.filter(|_| bytes.len() >= len && name_len <= LONGEST_NAME);
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| bad("a name is not text, or too long"))?;
    let (flags, method) = (fields.two(8), fields.two(10));
    if flags & !FLAGS != 0 || ![STORED, DEFLATE].contains(&method) {
        return Err(bad(format!("`{name}` is stored in a way that packs do not use")));
    }
    // The upper half is the mode; a system that has none leaves it empty.
    let kind = fields.four(38) >> 16 & 0o170_000;
    if kind != 0 && kind != 0o100_000 {
        return Err(bad(format!("`{name}` is not a regular file")));
    }
    let (packed, plain) = (fields.four(20), fields.four(24));
    if packed == u32::MAX || plain == u32::MAX || (method == STORED && packed != plain) {
        return Err(bad(format!("the size of `{name}` is wrong")));
    }
    let member = Member {
        name: name.to_owned(),
        plain: plain.into(),
        packed: packed.into(),
        crc: fields.four(16),
        method,
        offset: fields.four(42).into(),
        data: 0,
    };
    Ok((member, len))
}
