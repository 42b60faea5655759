//! `quipu completions`: generated from the definition of the arguments, so it is never out of date.

use clap_complete::Shell;

use crate::failure::Failure;
use crate::world::World;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(
    world: &mut World,
    args: &CompletionsArgs,
    mut command: clap::Command,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "quipu", &mut script);
    Ok(std::io::Write::write_all(&mut world.out, &script)?)
}
