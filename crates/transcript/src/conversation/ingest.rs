//! What there is of a session, for what keeps it elsewhere: a receiver of traces, a catalog, an
//! archive.
//!
//! All of them ask the same questions: which turns and runs of sub-agents are there, under which
//! name that stays the same, are they finished, which file reports them, and has anything changed
//! since they were taken. [`Units`] answers for one session, [`Origins`] for the sessions around
//! it, [`Fingerprint`] without reading anything.
//! [`GrowingTable`](crate::conversation::table::GrowingTable) reads a file on from where it ended
//! the last time.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("0a1b2c3d.jsonl");
//! # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
//! # std::fs::write(&path, format!("{line}\n"))?;
//! use transcript::Session;
//! use transcript::conversation::agents::WithAgents;
//! use transcript::conversation::ingest::{Closing, Origins, Units};
//!
//! let (session, mut origins) = (Session::at(&path)?, Origins::default());
//! let family = WithAgents::open(&session)?;
//! let copied = origins.of(&session, &family.main.table);
//! let units = Units::new(family, &session.id, &Closing::ended(), &copied);
//! for unit in units.list().iter().filter(|unit| unit.is_finished && !unit.is_copy) {
//!     println!("turn {} is {} with mark {}", unit.number, unit.name, unit.mark);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: names and marks depend only on the transcript; only one file reports a turn; no text
//! is read.

mod closing;
mod earlier;
mod fingerprint;
mod origin;
mod stable;
mod unit;

pub use closing::{Closing, IDLE, QUIET, is_complete};
pub use earlier::{is_left, sessions_before};
pub use fingerprint::Fingerprint;
pub use origin::{Copied, Origins};
pub use stable::{StableTurn, stable_turns};
pub use unit::{Unit, Units, answer_name, record_name};
