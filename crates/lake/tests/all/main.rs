//! The lake as engines see it: what is written is read back, from folders and from a stand-in for
//! S3 that fails.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests may"
)]

mod bucket;
mod documented;
mod home;
mod hostile;
mod owners;
mod rows;
mod versions;
