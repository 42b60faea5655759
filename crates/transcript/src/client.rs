//! Clients: what each version makes of a session.
//!
//! - [`history`] is what a client would send if it continued the session;
//! - [`check`] reports whether that works, and what is wrong;
//! - [`context`] counts the tokens of that, and what the next request costs;
//! - [`compaction`] compares what was sent before a compaction with what is sent after it;
//! - [`change`] makes new sessions from old ones, and proves what the change does.
//!
//! Invariant: what is said about a version was observed of it.

pub mod change;
pub mod check;
pub mod compaction;
pub mod context;
pub mod history;
