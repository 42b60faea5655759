//! Against real components: the real client, the SDK that hosts it, Phoenix as a receiver of
//! traces, engines that read the lake, and `jq` as another counter.
//!
//! Run by `./test real`, which installs them under `target/real`. The client talks to a scripted
//! model on loopback, in a home of its own, with a made-up key.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may"
)]

mod carry;
mod change;
mod chat;
mod client;
mod console;
mod count;
mod hashes;
mod hook;
mod hostile;
mod lab;
mod lake;
mod permit;
mod phoenix;
mod resume;
mod rewind;
mod scenes;
mod sdk;
mod view;
