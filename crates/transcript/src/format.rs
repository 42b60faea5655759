//! The format: from bytes to records, in every dialect.
//!
//! - [`mod@line`] reads the bytes of one line, and finds the whole records in a damaged one;
//! - [`json`] is a view of the bytes of a value;
//! - [`entry`] and [`content`] are the records and their messages, all dialects in one model;
//!   [`input`] is who speaks in a record, and how;
//! - [`file`](mod@file) reads files in bounded memory: forward, backward, by offset, and while
//!   another process appends;
//! - [`schema`] is the format, as far as it is known; [`drift`] finds what the schema does not
//!   have;
//! - [`secret`] finds keys and tokens.
//!
//! Invariants: bytes that are not understood are kept; nothing here knows more than one record.

pub mod content;
pub mod drift;
pub mod entry;
pub mod file;
pub mod input;
pub mod json;
pub mod limit;
pub mod line;
pub(crate) mod scan;
pub mod schema;
pub mod secret;
pub mod threads;
pub mod time;
