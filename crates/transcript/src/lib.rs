//! Reads Claude Code's session transcripts: any client version, any dialect, damaged or not.
//!
//! The client keeps each conversation as an append-only file of JSON lines. The format is
//! undocumented and differs from version to version, and files get damaged. This crate reads every
//! such file, in three parts:
//!
//! - [`mod@format`]: bytes, lines, records, files, secrets, and what is known of the format;
//! - [`conversation`]: where sessions are, their records as tables, graphs and turns, and what is
//!   shown and counted of them;
//! - [`client`]: what a client version would send, whether that works, and changes.
//!
//! Where to start: [`Session`] is a file, [`WithAgents`] the conversation in it with its sub-agents
//! (also if there are none, or if they do not matter), [`view`](conversation::view) what is shown
//! of it; [`check()`] says whether it resumes, [`history()`] what a client would send,
//! [`change`](client::change) makes a new session from it. [`Conversation`] is the table of records
//! below all this.
//!
//! Invariants: reading never fails because of content, only because of I/O; bytes that are not
//! understood are kept; memory is bounded by [`limit`](format::limit). No async, no network, no
//! database; no file is opened for writing.
//!
//! Print a conversation, and check whether it resumes:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
//! # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
//! # std::fs::write(&path, format!("{line}\n{{\"type\":\"assis"))?;
//! use transcript::client::history::Rules;
//! use transcript::conversation::view::{self, Item, Piece, Show};
//! use transcript::{Owner, Session, WithAgents, check};
//!
//! let session = Session::at(&path)?;
//! let whole = WithAgents::open(&session)?;
//! for turn in &whole.main.turns().live {
//!     for item in view::items(&whole, Owner::Main, turn) {
//!         match item? {
//!             item if !item.is_shown(Show::default()) => {}
//!             Item::Message(message) => println!("> {}", message.text),
//!             Item::Block(block) => {
//!                 if let Some(Piece::Text { text, .. }) = block.piece {
//!                     println!("{text}");
//!                 }
//!             }
//!             Item::Call(call) => println!("* {} {}", call.tool, call.facts().join(", ")),
//!             _ => {}
//!         }
//!     }
//! }
//! let report = check(&session, Rules::newest(), None)?;
//! println!("{}", report.verdict.words());
//! # assert!(report.findings.iter().any(|finding| finding.code.name() == "torn-tail"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Three programs in the crate's folder `examples` do more: `list_sessions`, `print_conversation`,
//! `check_and_repair`.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]
#![deny(missing_docs)]

pub mod client;
pub mod conversation;
mod error;
pub mod format;
mod names;

pub use client::check::check;
pub use client::history::history;
pub use conversation::Conversation;
pub use conversation::agents::{Owner, WithAgents};
pub use conversation::place::Session;
pub use error::{Error, Result};
pub use format::scan::{Fault, Why};
