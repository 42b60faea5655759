//! `quipu hook`: a command in the client's settings, put in, taken out, looked at, and what it does.
//!
//! Settings are the user's own. Invariants: they are changed only by what is asked for, after it was shown and agreed to; what the hook does neither delays the client nor stops it.

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

/// Let Claude Code tell quipu when a turn, a sub-agent or a session ends
///
/// The hook is a command in the client's `settings.json`; nothing but `quipu hook install` puts it there.
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

/// Does what hooks left to whoever ships to the receiver; gives what is set aside then, and why.
pub(super) fn left(
    world: &World,
    receiver: &Arc<Receiver>,
    aside: SetAside,
) -> Result<Vec<String>, Failure> {
    let shelf = &receiver.shelf;
    let before = job::set_aside(shelf);
    if job::has_new(shelf) || aside == SetAside::TryAgain && job::waiting(shelf) + before.len() > 0
    {
        work::all(world, receiver, aside)?;
    }
    Ok(job::set_aside(shelf).iter().map(status::of_aside).collect())
}
