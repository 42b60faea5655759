//! Claude Code's session transcripts: reading them, whatever wrote them and whatever happened to them.
//!
//! The client keeps each conversation as an append-only file of JSON lines. The format is undocumented,
//! differs from version to version, and files get damaged. This crate reads every such file:
//!
//! - [`mod@line`] says what the bytes of one line mean, and finds the whole records in a damaged one;
//! - [`entry`] and [`content`] are the records and their messages, all dialects in one model;
//! - [`file`](mod@file) goes through files in bounded memory: forward, backward, by offset, and along
//!   with a writer;
//! - [`place`] knows where sessions, sub-agents and their side files stand, and how folders are named;
//! - [`glance`] tells what a session is about from its first and last bytes;
//! - [`table`] holds a whole session without its texts; [`graph`] says how its records hang together, [`turn`] what was asked and done,
//!   [`family`] which sub-agents took part, [`relative`] which other sessions share its records; [`conversation`] is where to start;
//! - [`history`] is what a client would send if it went on with it; [`check`] says whether that works, and what is wrong; [`secret`] finds keys and tokens;
//! - [`change`] makes other sessions of them, and proves what that does;
//! - [`inventory`] counts what sessions hold; [`price`] says what models cost;
//! - [`known`] is the format as far as it is known; [`drift`] finds what is not.
//!
//! Invariants: reading does not fail on content, only on I/O; bytes that are not understood are kept;
//! memory is bounded by [`limit`]. No async, no network, no database; no file is opened for writing.
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

pub mod change;
pub mod check;
pub mod content;
pub mod conversation;
pub mod diff;
pub mod drift;
pub mod entry;
pub mod event;
pub mod family;
pub mod file;
pub mod glance;
pub mod graph;
pub mod history;
pub mod input;
pub mod inventory;
pub mod json;
pub mod known;
pub mod limit;
pub mod line;
mod loops;
pub mod markdown;
pub mod place;
pub mod price;
pub mod relative;
mod scan;
pub mod secret;
pub mod table;
mod threads;
pub mod time;
pub mod tool;
pub mod turn;

pub use scan::{Fault, Why};
