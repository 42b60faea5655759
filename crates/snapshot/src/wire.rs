//! Bytes of paths in JSON: text, with `%` and what is no UTF-8 as `%` and two hex digits.

use std::path::{Path, PathBuf};

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

pub(crate) fn to_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    Some(bytes)
}

/// Paths, for serde.
pub(crate) mod path {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use super::{Deserialize, Deserializer, Path, PathBuf, Serializer, to_bytes, to_text};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&to_text(path.as_os_str().as_bytes()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = to_bytes(&text).ok_or_else(|| serde::de::Error::custom("not a path"))?;
        Ok(std::ffi::OsString::from_vec(bytes).into())
    }
}

/// Bytes, for serde.
pub(crate) mod bytes {
    use super::{Deserialize, Deserializer, Serializer, to_bytes, to_text};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&to_text(bytes))
    }

    pub(crate) fn deserialize<'de, B: From<Vec<u8>>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<B, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = to_bytes(&text).ok_or_else(|| serde::de::Error::custom("not a path"))?;
        Ok(bytes.into())
    }
}
