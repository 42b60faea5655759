//! `quipu hook`: a command in the client's settings: installs, removes and inspects it, and does
//! its work.
//!
//! The settings belong to the user. Invariants: they are changed only as asked, after the user has
//! seen the change and agreed; the hook neither delays nor stops the client.

mod change;
mod install;
mod program;
mod settings;
mod status;
mod stop;
mod uninstall;

use clap::Subcommand;

use crate::failure::Failure;
use crate::jobs;
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
        What::Work(args) => jobs::work(world, &args.receiver),
    }
}
