//! `quipu hook install`: adds the hook to the client's settings.

use super::change::{self, Consent, Edit};
use super::settings;
use crate::failure::Failure;
use crate::receiver::{self, ReceiverArgs};
use crate::world::World;

/// Add the hook to Claude Code's settings
///
/// Adds `quipu hook stop`, with the full path of this program, to the events `Stop`, `SubagentStop`
/// and `SessionEnd` in `settings.json` of the home where new sessions are created, or of the homes
/// given by `--home`. A hook of a quipu with another path is changed to this program. Everything
/// else in the file stays as it is, byte for byte. Shows a diff first, and writes it if you agree.
/// A copy is kept, and `quipu undo` restores it.
#[derive(clap::Args, Debug)]
pub(super) struct InstallArgs {
    #[command(flatten)]
    consent: Consent,
}

pub(super) fn install(world: &mut World, args: &InstallArgs) -> Result<(), Failure> {
    let program = world.program()?;
    let edit = Edit {
        what: "hook-install",
        new_text: &|text| settings::install(text, &program),
        nothing: "the hook is already installed",
    };
    change::carry_out(world, &edit, &args.consent)?;
    // The client's environment may name a receiver that this shell does not.
    if receiver::look_for(world, &ReceiverArgs::default())?.is_none() {
        world.out.note("no receiver is configured here: nothing is sent until Claude Code has one; `quipu hook status` tells how to set it")?;
    }
    Ok(())
}
