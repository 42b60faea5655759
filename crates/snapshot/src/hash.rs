//! Names of contents: the first 20 bytes of their SHA-256.

use std::fmt;

use sha2::{Digest, Sha256};

/// The name of a content. Two contents never share one in practice: 160 bits of SHA-256.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub(crate) [u8; Hash::LENGTH]);

impl Hash {
    pub(crate) const LENGTH: usize = 20;

    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::from_digest(&Sha256::digest(bytes))
    }

    pub(crate) fn from_digest(digest: &[u8]) -> Hash {
        let mut hash = Hash::default();
        hash.0.copy_from_slice(&digest[..Hash::LENGTH]);
        hash
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Hash> {
        let mut hash = Hash::default();
        if text.len() != Hash::LENGTH * 2 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in hash.0.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(hash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Hash::parse(&text).ok_or_else(|| serde::de::Error::custom("not a hash"))
    }
}

/// Computes a name piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Hash {
        Hash::from_digest(&self.0.finalize())
    }
}
