//! Compresses a stream in blocks, on several threads.
//!
//! Each block is compressed for itself and ends at a byte, so that the blocks, one after the other,
//! are one stream of DEFLATE (RFC 1951). Invariants: at most a few blocks are in memory; the result
//! does not depend on the number of threads; no block contains what ends the element of the HTML
//! page that the archive is in.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use flate2::{Compress, Compression, Crc, FlushCompress};

/// How many bytes are compressed at a time.
const BLOCK: usize = 512 << 10;

/// The ends of a stream: an empty block that is the last one.
const LAST: [u8; 2] = [0x03, 0x00];

/// What ends a `script` element, in small letters.
const END_OF_ELEMENT: &[u8] = b"</script";

/// A block, and where its result goes.
struct Task {
    bytes: Vec<u8>,
    result: SyncSender<io::Result<Vec<u8>>>,
}

/// The threads that compress.
pub(super) struct Pool {
    tasks: SyncSender<Task>,
    /// How many blocks may be under way.
    most: usize,
}

impl Pool {
    /// Starts the threads; they end when the pool is dropped.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, threads: usize) -> Pool {
        let (tasks, queue) = sync_channel::<Task>(threads);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = queue.clone();
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Task { bytes, result }) = next else { break };
                    // Nobody waits for it if the writer has failed.
                    let _ = result.send(compressed(&bytes));
                }
            });
        }
        Pool { tasks, most: threads * 2 + 2 }
    }
}

/// How strongly blocks are compressed, and what is tried if a block may not be as it is.
const LEVELS: [u32; 4] = [3, 4, 6, 9];

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    for level in LEVELS {
        let mut packer = Compress::new(Compression::new(level), false);
        let mut out = Vec::with_capacity(bytes.len() / 3 + 1_024);
        let mut read = 0;
        loop {
            packer
                .compress_vec(&bytes[read..], &mut out, FlushCompress::Sync)
                .map_err(io::Error::other)?;
            read = usize::try_from(packer.total_in()).unwrap_or(usize::MAX);
            // All of it is flushed once there is room left.
            if read >= bytes.len() && out.len() < out.capacity() {
                break;
            }
            out.reserve(64 << 10);
        }
        if !ends_element(&out) {
            return Ok(out);
        }
    }
    Err(io::Error::other("a block cannot be stored in a page"))
}

/// Whether bytes would end the element that they are in.
pub(super) fn ends_element(bytes: &[u8]) -> bool {
    let mut starts = memchr::memchr_iter(b'<', bytes);
    starts.any(|at| {
        bytes
            .get(at..at + END_OF_ELEMENT.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(END_OF_ELEMENT))
    })
}

/// Compresses what is written to it.
pub(super) struct Deflating<'a> {
    pool: &'a Pool,
    out: &'a mut dyn Write,
    block: Vec<u8>,
    waiting: VecDeque<Receiver<io::Result<Vec<u8>>>>,
    crc: Crc,
    /// How many bytes were compressed, and how many were written to `out`.
    plain: u64,
    packed: u64,
}

/// What was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deflated {
    pub(super) crc: u32,
    pub(super) plain: u64,
    pub(super) packed: u64,
}

impl<'a> Deflating<'a> {
    pub(super) fn new(pool: &'a Pool, out: &'a mut dyn Write) -> Deflating<'a> {
        let (block, waiting) = (Vec::with_capacity(BLOCK), VecDeque::new());
        Deflating { pool, out, block, waiting, crc: Crc::new(), plain: 0, packed: 0 }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.waiting.len() >= self.pool.most {
            self.take()?;
        }
        let bytes = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        self.crc.update(&bytes);
        self.plain += bytes.len() as u64;
        let (result, waiting) = sync_channel(1);
        self.pool.tasks.send(Task { bytes, result }).map_err(|_| stopped())?;
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// Writes the oldest block that is under way.
    fn take(&mut self) -> io::Result<()> {
        let Some(waiting) = self.waiting.pop_front() else { return Ok(()) };
        let bytes = waiting.recv().map_err(|_| stopped())??;
        self.packed += bytes.len() as u64;
        self.out.write_all(&bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<Deflated> {
        if !self.block.is_empty() {
            self.send()?;
        }
        while !self.waiting.is_empty() {
            self.take()?;
        }
        self.out.write_all(&LAST)?;
        let packed = self.packed + LAST.len() as u64;
        Ok(Deflated { crc: self.crc.sum(), plain: self.plain, packed })
    }
}

fn stopped() -> io::Error {
    io::Error::other("a thread that compresses has stopped")
}

impl Write for Deflating<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK - self.block.len();
        let taken = room.min(bytes.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
