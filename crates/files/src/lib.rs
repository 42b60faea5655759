//! How the whole program touches files.
//!
//! Strangers write file names, folders and what stands in them, so opening a path is a risk of its own: a FIFO
//! waits for a writer for ever, a device never ends, and either can stand behind a link that a repository brings
//! along. Every file that was not typed on the command line is opened by [`open`], and what is read whole is read
//! by [`read`] or [`read_text`], which have a limit. A lint (`clippy.toml`) bans the functions of the standard
//! library that do neither.
//!
//! What the program keeps for itself is private and whole: [`put`] and [`create_private`] make files that only
//! their owner can read, and [`lock`](fn@lock) says who is at work on something.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod attributes;
mod lock;
mod open;
mod private;
mod ready;

pub use attributes::{Attributes, Protection, protection};
pub use lock::{Held, Lock, is_running, lock, sweep_locks, try_lock};
pub use open::{NotRegular, copy, metadata, open, open_special, read, read_text};
pub use private::{
    Durability, append_private, create_private, make_private_folder, put, sync_folder,
};
pub use ready::is_ready;
