//! What a screen shows of a session beside its events: what a command prints, what holds it.
//!
//! Invariant: no key is in it.

use std::io::{Read, Seek, SeekFrom};
use std::sync::PoisonError;

use sandbox::Network;

use super::Site;
use crate::permit::Mode;
use crate::secret::Extent;

/// How much of the end of an output is looked at.
const TAIL: u64 = 4_096;

impl Site {
    /// The last lines that a command has printed so far; `task` is its id among the session's
    /// commands. None if it has printed nothing.
    pub fn printed(&self, task: &str) -> Option<String> {
        let mut file = files::open(self.shells.output(task)).ok()?;
        let len = file.metadata().ok()?.len();
        let most = TAIL + u64::try_from(self.secrets.span()).unwrap_or(0);
        let start = len.saturating_sub(most);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = self.secrets.redacted(&text, Extent::Piece);
        // The first line may be the end of one, and of a key.
        let whole =
            if start == 0 { Some(text.as_ref()) } else { text.split_once('\n').map(|two| two.1) };
        whole.filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// What holds the commands of the session now, in words; None without a sandbox.
    pub fn sandbox_in_words(&self) -> Option<String> {
        let guard = self.guard.as_ref()?;
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let folders = std::iter::once(&self.root).chain(&self.folders).chain(&added);
        let mut names: Vec<String> = Vec::new();
        for folder in folders.chain(&guard.writable) {
            let name = folder.display().to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let writes = match mode {
            Mode::Plan => "it writes only to a temporary folder".to_owned(),
            _ => format!("it writes only below {} and to a temporary folder", names.join(", ")),
        };
        let network = match guard.network_in(mode) {
            Network::On => "it has the network",
            Network::Off => "it has no network",
        };
        let held = format!("{writes}; {network}; keys are hidden from it");
        Some(match guard.layers.gaps() {
            Some(gaps) => format!("{held}. Not enforced here: {gaps}"),
            None => held,
        })
    }
}
