//! What hooks leave to do: jobs on disk, the process that does them, and its log.
//!
//! A hook puts a [`Job`] into the folder of a receiver and returns; another process does it
//! ([`do_all`]), or whoever ships to the receiver meanwhile ([`do_left`]). Invariants: a job stays
//! on disk until it is done or set aside with the reason; one process does the jobs of a receiver.
//! What happened is reported as a [`Notice`]: the program finds the words, and writes the [`Log`].

mod job;
mod log;
mod work;

pub use job::{Aside, Job, JobError, Next, NotTaken, SetAside, aside_folder, set_aside, waiting};
pub use log::Log;
pub use work::{Notice, Surroundings, WorkError, do_all, do_left};
