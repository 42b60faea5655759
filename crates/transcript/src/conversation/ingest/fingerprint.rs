//! Whether anything was written to the files of a session.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::conversation::place::{Agent, Session};
use crate::error::AtPath;

/// A hash of the paths, sizes and times of a session's files. It stays the same while nothing
/// writes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The files as they are now.
    pub fn of(session: &Session, agents: &[Agent]) -> crate::Result<Fingerprint> {
        let mut hash = Sha256::new();
        let mut add = |path: &Path| -> crate::Result<()> {
            let found = fs::metadata(path).at(path)?;
            let modified =
                found.modified().at(path)?.duration_since(UNIX_EPOCH).unwrap_or_default();
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(found.len().to_le_bytes());
            hash.update(modified.as_nanos().to_le_bytes());
            Ok(())
        };
        add(&session.path)?;
        agents.iter().try_for_each(|agent| add(&agent.path))?;
        Ok(Fingerprint(format!("{:x}", hash.finalize())[..16].to_owned()))
    }

    /// The hash as text, to be kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
