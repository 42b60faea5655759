//! Tests of the built program: one binary, a module for each command.
//!
//! Everything that a person reads is in a snapshot, stdout and stderr and exit code together.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests may"
)]

mod bad_input;
mod cat;
mod chat;
mod check;
mod compress;
#[cfg(unix)]
mod console;
mod context;
#[cfg(target_os = "linux")]
mod disk;
mod env;
mod follow;
mod help;
mod history;
mod home;
mod hook;
mod hostile;
mod hostile_run;
mod html;
mod journal;
mod lake;
mod large;
mod leaf;
mod ls;
mod moving;
mod pack;
#[cfg(unix)]
mod pick;
mod pictures;
mod redact;
mod rewind;
mod rework;
mod schemas;
mod search;
mod ship;
mod show;
mod special;
mod sql;
mod surgery;
mod tables;
mod terminal;
mod twenty;
mod usage;
mod view;
