//! Finds and counts across many sessions.
//!
//! [`usage`] says what messages of the API took and cost, by day, project, model and so on.
//! [`catalog`] keeps what is known of all sessions in a database file, and [`search`] finds words
//! in them, [`sql`] answers questions in SQL; [`moment`] reads points in time. Nothing here writes
//! into a Claude home.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make the files they need"))]

pub mod catalog;
pub mod moment;
pub mod search;
pub mod sql;
mod texts;
pub mod usage;
mod words;
