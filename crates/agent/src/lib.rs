//! An independent client of the Messages API that reads and writes the sessions of Claude Code.
//!
//! `turn` decides, `drive` does; `api` asks, `tool` works, `record` writes, `face` tells. See `docs/agent.md`.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

pub mod api;
pub mod backup;
mod block;
pub mod context;
pub mod control;
mod count;
mod dialect;
pub mod drive;
pub mod face;
mod git;
mod listen;
pub mod log;
pub mod model;
pub mod nature;
mod note;
pub mod permit;
pub mod prompt;
pub mod record;
pub mod resume;
mod scratch;
pub mod secret;
pub mod seen;
mod sensitive;
pub mod settings;
pub mod shell;
mod slug;
pub mod tool;
pub mod trust;
pub mod turn;
mod watcher;

/// What the program calls itself to servers.
pub const USER_AGENT: &str = concat!("quipu/", env!("CARGO_PKG_VERSION"));
