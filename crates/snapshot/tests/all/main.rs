//! The library as a whole: images, rewinds, and what happens when it is stopped.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

mod bounds;
mod commands;
mod ignored;
mod killed;
mod others;
mod special;
mod world;
