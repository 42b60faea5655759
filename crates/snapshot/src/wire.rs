//! How values are written in JSON: bytes of paths as text, with `%` and what is no UTF-8 as `%` and
//! two hex digits; what stands at a path in a few words.

use std::path::{Path, PathBuf};

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Hash;
use crate::tree::{State, Why};

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

impl Serialize for State {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = match self {
            State::File { mode, size, hash } => format!("file {mode:o} {size} {hash}"),
            State::Link(target) => format!("link {}", to_text(target)),
            State::Folder { mode } => format!("folder {mode:o}"),
            State::Object => "object".to_owned(),
            State::Outside(Why::Special, _) => "special".to_owned(),
            State::Outside(..) => "outside".to_owned(),
        };
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<State, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| serde::de::Error::custom("not the state of a file"))
    }
}

fn parse(text: &str) -> Option<State> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    match kind {
        "file" => {
            let mut parts = rest.split(' ');
            let (mode, size) = (octal(parts.next()?)?, parts.next()?.parse().ok()?);
            Some(State::File { mode, size, hash: Hash::parse(parts.next()?)? })
        }
        "link" => Some(State::Link(to_bytes(rest)?.into())),
        "folder" => Some(State::Folder { mode: octal(rest)? }),
        "object" => Some(State::Object),
        "special" => Some(State::Outside(Why::Special, 0)),
        "outside" => Some(State::Outside(Why::Large, 0)),
        _ => None,
    }
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
