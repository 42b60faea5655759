//! Ids of traces and spans: hashes of the names that the transcript uses.
//!
//! A record gets the same ids no matter who ships it, when, and from which copy, so a receiver that
//! gets it twice recognizes it. Langfuse's own libraries derive ids from a seed in the same way:
//! the first bytes of its SHA-256.

use std::fmt;

use sha2::{Digest, Sha256};

/// An id of so many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id<const N: usize>(pub [u8; N]);

/// The id of a trace.
pub type TraceId = Id<16>;

/// The id of a span.
pub type SpanId = Id<8>;

/// Derives ids, with a salt.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    salt: String,
}

impl Ids {
    /// A different salt gives different ids: a second copy at a receiver that has the first.
    pub fn salted(salt: &str) -> Ids {
        Ids { salt: salt.to_owned() }
    }

    /// The id of the turn that a record opens.
    pub fn trace(&self, session: &str, opener: &str) -> TraceId {
        Id(first(&self.digest(session, opener)))
    }

    /// The id of an answer, a call, a sub-agent or another record.
    pub fn span(&self, session: &str, seed: &str) -> SpanId {
        Id(first(&self.digest(session, seed)))
    }

    fn digest(&self, session: &str, seed: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        if !self.salt.is_empty() {
            hash.update(&self.salt);
            hash.update("/");
        }
        hash.update(session);
        hash.update("/");
        hash.update(seed);
        hash.finalize().into()
    }
}

fn first<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| digest[at])
}

/// The bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

impl<const N: usize> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl<const N: usize> fmt::Debug for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
