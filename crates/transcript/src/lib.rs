//! Reads Claude Code's session transcripts: any client version, any dialect, damaged or not.
//!
//! The client keeps each conversation as an append-only file of JSON lines. The format is
//! undocumented and differs from version to version, and files get damaged. This crate reads every
//! such file:
//!
//! Where to start: [`Session`] is a file, [`agents::WithAgents`] the conversation in it with its
//! sub-agents, [`view`] what is shown of it; [`check()`] says whether it resumes, [`history()`]
//! what a client would send, [`change`] makes a new session from it. `examples/` has programs.
//!
//! Reading:
//!
//! - [`mod@line`] reads the bytes of one line, and finds the whole records in a damaged one;
//! - [`entry`] and [`content`] are the records and their messages, all dialects in one model;
//! - [`file`](mod@file) reads files in bounded memory: forward, backward, by offset, and while
//!   another process appends;
//! - [`schema`] is the format, as far as it is known; [`drift`] finds what the schema does not
//!   have;
//! - [`secret`] finds keys and tokens.
//!
//! Conversations:
//!
//! - [`place`] knows where sessions, sub-agents and their side files are, and how folders are
//!   named; [`preview`] finds out what a session is about from its first and last bytes;
//! - [`conversation`] is one session: a [`table`] (every record, without its texts), a [`graph`]
//!   (which record is the parent of which) and [`turn`]s (what was asked and done);
//! - [`agents`] finds the sub-agents of a session, and [`lineage`] the other sessions that share
//!   its records;
//! - [`ingest`] lists what there is of a session for whoever keeps it elsewhere: units with names
//!   that stay the same, and which file reports them;
//! - [`view`] decides what is shown; [`markdown`] lays it out;
//! - [`usage`] counts tokens, [`price`] knows what models cost, [`inventory`] counts the rest.
//!
//! Clients:
//!
//! - [`mod@history`] is what a client would send if it continued the session; [`mod@check`] reports
//!   whether that works, and what is wrong;
//! - [`change`] makes new sessions from old ones, and proves what the change does.
//!
//! Invariants: reading never fails because of content, only because of I/O; bytes that are not
//! understood are kept; memory is bounded by [`limit`]. No async, no network, no database; no file
//! is opened for writing.
//!
//! ```
//! use transcript::history::Rules;
//! use transcript::{Conversation, Session, check};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
//! let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
//! std::fs::write(&path, format!("{line}\n{{\"type\":\"assis"))?;
//!
//! let conversation = Conversation::open(&path)?;
//! assert_eq!((conversation.table.rows().len(), conversation.table.damaged), (1, 1));
//! let report = check(&Session::at(&path)?, Rules::newest(), None)?;
//! assert!(report.findings.iter().any(|finding| finding.code.name() == "torn-tail"));
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
pub mod ingest;
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

pub use check::check;
pub use conversation::Conversation;
pub use history::history;
pub use place::Session;
pub use scan::{Fault, Why};
