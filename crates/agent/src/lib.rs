//! An independent client of the Messages API that reads and writes the sessions of Claude Code.
//!
//! `turn` decides what to do and `drive` does it; `api` sends requests, `tool` runs tools, `record`
//! writes the transcript, `host` shows what happens. `session` puts them together. See
//! `docs/agent.md`.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

pub mod ambient;
pub mod api;
pub mod backup;
mod block;
mod codename;
mod compact;
pub mod context;
pub mod control;
mod dialect;
pub mod drive;
pub mod event;
pub mod freshness;
mod frontmatter;
mod git;
pub mod guard;
pub mod hook;
pub mod host;
pub mod images;
mod inbox;
pub mod log;
mod mention;
pub mod model;
pub mod permission_file;
pub mod permit;
mod prelude;
pub mod prompt;
mod reader;
pub mod record;
pub mod resume;
pub mod schema;
mod scratch;
pub mod secret;
mod sensitive;
pub mod session;
pub mod settings;
pub mod shell;
pub mod slash;
pub mod subagent;
mod tally;
pub mod tool;
pub mod trust;
pub mod turn;
mod variables;
mod watcher;

pub use compact::{CompactAt, is_summary};
pub use dialect::version as dialect_version;
pub use git::branch as git_branch;
pub use session::{Session, SessionConfig};

/// The `User-Agent` of requests.
pub const USER_AGENT: &str = concat!("quipu/", env!("CARGO_PKG_VERSION"));
