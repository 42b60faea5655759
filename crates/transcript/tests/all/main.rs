//! Tests of the library on real files: one binary, one module for each question.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may"
)]

mod asked;
mod change;
mod check;
mod compress;
mod context;
mod conversation;
mod damage;
mod docs;
mod drift;
mod examples;
mod figures;
mod fuzz;
mod history;
mod interop;
mod inventory;
mod ladder;
mod leaf;
mod lossless;
mod outline;
mod properties;
mod receipt;
mod rework;
