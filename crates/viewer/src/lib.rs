//! Shows sessions as pages: served on loopback ([`Server`]), or as one HTML file ([`mod@file`]).
//!
//! `docs/viewer.md` says how. What is shown comes from `transcript` and `index`; nothing is
//! computed twice, and nothing is changed. Invariants: no byte of a transcript becomes markup or
//! runs; pages load nothing from elsewhere.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make the files they need"))]
#![allow(clippy::cast_precision_loss, reason = "plots have fewer pixels than a number has digits")]

mod ansi;
mod call;
mod commits;
mod compare;
mod draw;
mod earlier;
mod escape;
pub mod file;
mod find;
mod guard;
mod home;
mod library;
mod media;
mod opened;
mod page;
mod panels;
mod plot;
mod prose;
mod receipt;
mod routes;
pub mod server;
mod session_page;
mod timeline;
mod usage_page;
mod words;

pub use earlier::{Changes, Descent, Earlier, Survey};
pub use file::{FileWish, Source, write_end, write_file};
pub use server::{Secrets, Server, Serving};
