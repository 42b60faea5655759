//! Turns sessions into traces and delivers them.
//!
//! - [`plan`] lists what a session has to ship and which of it is finished; [`build`] makes the
//!   [`span`]s, including their texts;
//! - [`id`] derives the ids by which a receiver recognizes what it already has;
//! - [`profile`] maps a span to attributes; [`wire`] puts spans into batches; [`client`] sends a
//!   batch to a receiver;
//! - [`ship`] goes through sessions and makes batches of what a receiver does not have; [`outbox`]
//!   delivers them one after the other, or puts them into the [`queue`]; [`receipts`] records what
//!   arrived;
//! - [`receiver`] resolves who gets them, from flags, environment and configuration; [`jobs`] does
//!   what hooks leave to a process of its own.
//!
//! Invariants: what is sent depends only on the transcript and the settings, never on the clock or
//! on what was sent before; only one text is in memory at a time.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]
#![deny(missing_docs)]

pub mod build;
pub mod client;
pub mod content;
pub mod disk;
pub mod id;
pub mod jobs;
pub mod outbox;
pub mod plan;
pub mod profile;
pub mod queue;
pub mod receipts;
pub mod receiver;
pub mod ship;
pub mod span;
pub mod wire;
