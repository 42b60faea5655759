//! `quipu hook`: a command in the client's settings: installs, removes and inspects it, and does
//! its work.
//!
//! The settings belong to the user. Invariants: they are changed only as asked, after the user has
//! seen the change and agreed; the hook neither delays nor stops the client.

mod change;
mod install;
mod job;
mod log;
mod program;
mod settings;
mod status;
mod stop;
mod uninstall;
mod work;

use std::sync::Arc;

use clap::Subcommand;

pub(super) use job::SetAside;

use crate::failure::Failure;
use crate::receiver::Receiver;
use crate::world::World;

/// Run quipu whenever a turn, a sub-agent or a session of Claude Code ends
///
/// The hook is a command in the client's `settings.json`; only `quipu hook install` puts it there.
#[derive(clap::Args, Debug)]
pub(crate) struct HookArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Install(install::InstallArgs),
    Uninstall(uninstall::UninstallArgs),
    Status(status::StatusArgs),
    Stop(stop::StopArgs),
    #[command(hide = true)]
    Work(stop::StopArgs),
}

pub(crate) fn hook(world: &mut World, args: &HookArgs) -> Result<(), Failure> {
    match &args.what {
        What::Install(args) => install::install(world, args),
        What::Uninstall(args) => uninstall::uninstall(world, args),
        What::Status(args) => status::status(world, args),
        What::Stop(args) => stop::stop(world, args),
        What::Work(args) => work::work(world, args),
    }
}

/// Does the jobs that hooks left to the process that ships to the receiver; returns which jobs are
/// set aside afterwards, and why.
pub(super) fn left(
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
    Ok(job::set_aside(receiver_dir).iter().map(status::of_aside).collect())
}
