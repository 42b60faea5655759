//! The names of sessions and sub-agents, as types: one cannot be taken for the other, or for a
//! text.
//!
//! They are texts that strangers wrote: a file name, a member of a record. Nothing about their form
//! is guaranteed.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id as a text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Its first eight characters, as people see it.
            pub fn short(&self) -> String {
                self.0.chars().take(8).collect()
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// The length of an id as clients make it.
const LENGTH: usize = 36;

/// Whether a text is an id as clients make it: 36 characters, with dashes at fixed places.
pub fn is_uuid(text: &str) -> bool {
    text.len() == LENGTH && begins_with_uuid(text.as_bytes())
}

/// The first id of that form in a name.
pub fn uuid_in(name: &str) -> Option<&str> {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_one = |at: &usize| {
        begins_with_uuid(&bytes[*at..])
            && !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + LENGTH))
    };
    (0..bytes.len()).find(is_one).and_then(|at| name.get(at..at + LENGTH))
}

fn begins_with_uuid(bytes: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.get(..LENGTH).is_some_and(|id| id.iter().enumerate().all(is_right))
}

id! {
    /// The id of a session: the name of its file.
    SessionId
}

id! {
    /// The id of a sub-agent.
    AgentId
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
