//! The agent's terminal: a composer, a conversation, questions, all of it in the terminal's
//! scrollback.
//!
//! This crate knows no engine. [`Screen`] is a state: keys and [`News`] go in, lines to print, a
//! live area and [`Wish`]es come out. [`terminal`] is the only writer to the terminal. Invariants:
//! what is printed is printed once, as logical lines that the terminal wraps; what reaches the
//! terminal is text (`text::safe`), never something that it obeys.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

pub mod complete;
pub mod composer;
pub mod diff;
pub mod highlight;
pub mod history;
pub mod input;
#[cfg(unix)]
mod keys;
pub mod markdown;
pub mod question;
pub mod run;
pub mod screen;
pub mod sgr;
pub mod terminal;
pub mod text;
pub mod words;

pub use screen::{News, Screen, Wish};
