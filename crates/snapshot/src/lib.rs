//! Images of the folders that an agent may write, and the way back to them.
//!
//! An image is taken before the first change of a prompt, and before and after every command
//! ([`recorder`]); [`plan`] finds what has to be done so that only what the agent did is undone;
//! [`restore`] does it so that it is done whole or not at all, and can be taken back; [`upkeep`]
//! bounds what is kept. Invariants: links are never followed; nothing is written into a folder
//! before everything that is needed is verified and on disk beside it; nothing that someone else
//! changed is overwritten unless the caller demands it, and then it is kept.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make the files they need"))]
#![cfg(unix)]

pub mod diff;
mod git;
pub mod hash;
mod index;
mod mark;
pub mod moment;
mod object;
pub mod plan;
pub mod recorder;
pub mod restore;
mod rules;
pub mod scan;
mod sealed;
pub mod store;
pub mod tree;
pub mod upkeep;
mod vault;
mod wire;

pub use hash::Hash;
pub use moment::{About, Event, Log, Moment};
pub use recorder::Recorder;
pub use scan::{Limits, ScanError};
pub use store::Store;
pub use upkeep::Bounds;
pub use vault::Vault;
