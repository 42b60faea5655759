//! Tests of whole sessions, in one program: each one more would be linked with everything again.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

mod fuzz;
mod parts;
mod random;
mod session;
mod survive;
mod tokens;
