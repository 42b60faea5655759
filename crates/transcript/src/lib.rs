//! Reads Claude Code's session transcripts: any client version, any dialect, damaged or not.
//!
//! The client keeps each conversation as an append-only file of JSON lines. The format is
//! undocumented and differs from version to version, and files get damaged. This crate reads every
//! such file:
//!
//! - [`mod@line`] reads the bytes of one line, and finds the whole records in a damaged one;
//! - [`entry`] and [`content`] are the records and their messages, all dialects in one model;
//! - [`file`](mod@file) reads files in bounded memory: forward, backward, by offset, and while
//!   another process appends;
//! - [`place`] knows where sessions, sub-agents and their side files are, and how folders are
//!   named;
//! - [`preview`] finds out what a session is about from its first and last bytes;
//! - [`conversation`] is where to start: one session, as a [`table`] (every record, without its
//!   texts), a [`graph`] (which record is the parent of which) and [`turn`]s (what was asked and
//!   done);
//! - [`agents`] finds the sub-agents of a session, and [`lineage`] the other sessions that share
//!   its records;
//! - [`history`] is what a client would send if it continued the session; [`check`] reports whether
//!   that works, and what is wrong; [`secret`] finds keys and tokens;
//! - [`change`] makes new sessions from old ones, and proves what the change does;
//! - [`inventory`] counts what sessions contain; [`price`] knows what models cost;
//! - [`schema`] is the format, as far as it is known; [`drift`] finds what the schema does not
//!   have.
//!
//! Invariants: reading never fails because of content, only because of I/O; bytes that are not
//! understood are kept; memory is bounded by [`limit`]. No async, no network, no database; no file
//! is opened for writing.
//!
//! ```
//! use transcript::file::{Lines, State};
//!
//! let file = b"{\"type\":\"user\",\"uuid\":\"a\"}\n{\"type\":";
//! let mut lines = Lines::new(&file[..]);
//! let mut states = Vec::new();
//! while let Some(line) = lines.next_line()? {
//!     states.extend(line.records().map(|record| (record.offset, record.state)));
//! }
//! assert_eq!(states, [(0, State::Whole), (27, State::Damaged)]);
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]
#![deny(missing_docs)]

pub mod agents;
pub mod change;
pub mod check;
pub mod content;
pub mod conversation;
mod cycles;
pub mod diff;
pub mod drift;
pub mod entry;
pub mod event;
pub mod file;
pub mod graph;
pub mod history;
pub mod input;
pub mod inventory;
pub mod json;
pub mod limit;
pub mod line;
pub mod lineage;
pub mod markdown;
pub mod place;
pub mod preview;
pub mod price;
mod scan;
pub mod schema;
pub mod secret;
pub mod table;
mod threads;
pub mod time;
pub mod tool;
pub mod turn;
pub mod usage;
pub mod view;

pub use scan::{Fault, Why};
