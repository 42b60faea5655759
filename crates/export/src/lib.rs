//! Sessions as traces, and what delivers them.
//!
//! - [`plan`] says what there is to ship of a session, and what of it is finished; [`build`] makes its [`span`]s, texts included;
//! - [`id`] names them, so that a receiver knows what it has already; [`origin`] knows of turns that several sessions have;
//! - [`profile`] says how a receiver is told; [`wire`] puts spans into batches; [`send`] brings a batch to a receiver;
//! - [`ship`] goes through sessions and makes batches of what a receiver does not have; [`deliver`] brings them there one after the other, or into the [`spool`]; [`state`] is what arrived.
//!
//! Invariants: what is sent depends on the transcript and the settings alone, never on the clock or on what was sent before; a text is held one at a time.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]
#![deny(missing_docs)]

pub mod build;
pub mod content;
pub mod deliver;
pub mod disk;
pub mod id;
pub mod origin;
pub mod plan;
pub mod profile;
mod round;
pub mod send;
pub mod ship;
pub mod span;
pub mod spool;
pub mod state;
pub mod wire;
