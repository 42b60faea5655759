//! The jobs that hooks leave to the process that ships to a receiver.

mod job;
pub(crate) mod log;
mod work;

use std::sync::Arc;

pub(crate) use job::{Aside, Job, SetAside, aside_folder, of_aside, set_aside, waiting};
pub(crate) use work::work;

use crate::failure::Failure;
use crate::receiver::Receiver;
use crate::world::World;

/// Does the jobs that hooks left to the process that ships to the receiver; returns which jobs are
/// set aside afterwards, and why.
pub(crate) fn left(
    world: &World,
    receiver: &Arc<Receiver>,
    aside: SetAside,
) -> Result<Vec<String>, Failure> {
    let receiver_dir = &receiver.dir;
    let before = job::set_aside(receiver_dir);
    if job::has_new(receiver_dir)
        || aside == SetAside::TryAgain && job::waiting(receiver_dir) + before.len() > 0
    {
        work::all(world, receiver, aside)?;
    }
    Ok(job::set_aside(receiver_dir).iter().map(job::of_aside).collect())
}
