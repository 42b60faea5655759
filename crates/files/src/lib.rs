//! How the whole program accesses files.
//!
//! File names, folders and their contents may come from untrusted sources, so that opening a path
//! is a risk of its own: a FIFO waits for a writer forever, a device never ends, and a link in a
//! repository can lead to either. Every file that was not typed on the command line is opened by
//! [`open`], and files that are read whole are read by [`read`] or [`read_text`], which have a
//! limit. A lint (`clippy.toml`) bans the functions of the standard library that do neither.
//!
//! The program's own files are private and never half-written: [`put`], [`create_private`] and
//! [`append_private`] make files that only their owner can read, [`put_with`] writes any file in
//! one step, and [`lock`](fn@lock) ensures that one process at a time works on something.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod attributes;
mod fixed;
mod lock;
mod open;
mod private;
mod ready;

pub use attributes::{Attributes, Protection, protection};
pub use fixed::{FixedFolder, Missing, NewAccess, open_fixed, read_fixed, read_text_fixed};
pub use lock::{Held, Lock, is_running, lock, sweep_locks, try_lock};
pub use open::{NotRegular, copy, metadata, open, open_special, read, read_text};
pub use private::{
    Durability, append_private, create_new, create_private, make_private_folder, put, put_with,
    sync_folder,
};
pub use ready::is_ready;
