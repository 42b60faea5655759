//! The commands, one file each.
//!
//! A command is an arguments struct, whose doc comment is its help text, and a function. Commands
//! print what `transcript` returns; none of them knows the file format.

pub(crate) mod cat;
pub(crate) mod changes;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod clone;
pub(crate) mod compaction;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod drift;
pub(crate) mod drop;
pub(crate) mod edit;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod history;
pub(crate) mod home;
pub(crate) mod hook;
pub(crate) mod index;
pub(crate) mod inventory;
pub(crate) mod keep;
#[cfg(feature = "lake")]
pub(crate) mod lake;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod mv;
pub(crate) mod pack;
pub(crate) mod pick;
pub(crate) mod price;
pub(crate) mod redact;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod resume;
pub(crate) mod rewind;
pub(crate) mod rm;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod ship;
pub(crate) mod show;
pub(crate) mod split;
pub(crate) mod sql;
pub(crate) mod strip;
pub(crate) mod tag;
pub(crate) mod tree;
pub(crate) mod turns;
pub(crate) mod uncompress;
pub(crate) mod undo;
pub(crate) mod unpack;
pub(crate) mod usage;
pub(crate) mod view;
