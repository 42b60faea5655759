//! Sessions as Parquet on object storage, for engines that exist: DuckDB, ClickHouse, Spark.
//!
//! A session becomes one object of each table (`schema`), named after the day, the machine and the
//! session, so that pushing it again overwrites. Invariants: what calls took and cost is what
//! `index::usage` counts; a text leaves only through the redactor; an object is there as a whole or
//! not at all; what was pushed is remembered (`state`), but without it the next push makes the same
//! objects of the sessions that are there. Nothing here reads the environment, the clock or a
//! terminal.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make the files they need"))]

mod audit;
mod bucket;
mod column;
mod erase;
mod group;
mod http;
mod identity;
mod parquet;
mod profile;
mod push;
mod reader;
mod recover;
mod rows;
mod schema;
mod sheet;
mod state;
mod target;
mod thrift;

use std::io;
use std::path::PathBuf;

pub use audit::{Audit, audit};
pub use bucket::{Bucket, Surroundings};
pub use erase::{Erased, erase};
pub use group::{Group, groups};
pub use identity::{machine_of_system, project_of};
pub use push::{Again, Progress, Push, Pushed};
pub use recover::recover;
pub use rows::{Content, Policy, RawLines};
pub use schema::{COMMON, Column, Holds, Null, TABLES, TableSchema, VERSION};
pub use state::{Record, State};
pub use target::{Stored, Target, Versions};

use thiserror::Error;

/// What went wrong.
#[derive(Debug, Error)]
pub enum LakeError {
    /// A target that cannot be understood.
    #[error("{0}")]
    Target(String),
    /// A variable or a file with credentials, addresses or certificates that cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The target does not do what it is asked for.
    #[error("{what}: {why}")]
    Store {
        /// What was tried.
        what: String,
        /// What the target says.
        why: String,
        /// What kind of trouble it is.
        trouble: Trouble,
    },
    /// A folder or file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Rows cannot be written as Parquet.
    #[error("cannot write Parquet: {0}")]
    Parquet(String),
    /// A session cannot be read.
    #[error(transparent)]
    Read(#[from] transcript::Error),
}

/// What kind of trouble a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be reached, or does not answer as it should.
    Down,
    /// It does not accept the credentials, or there are none.
    Denied,
    /// There is no such bucket.
    Missing,
    /// It refuses what it is asked for, and would again.
    Refused,
}

impl LakeError {
    pub(crate) fn state(source: io::Error) -> LakeError {
        LakeError::Write { path: PathBuf::from("the state of the lake"), source }
    }

    pub(crate) fn scratch(source: io::Error) -> LakeError {
        LakeError::Write { path: std::env::temp_dir(), source }
    }
}
