//! `quipu hook install`: the hook is put into the client's settings.

use super::change::{self, Consent, Edit};
use super::settings;
use crate::failure::Failure;
use crate::receiver::{Receiver, ReceiverArgs};
use crate::world::World;

/// Put the hook into Claude Code's settings
///
/// Adds `quipu hook stop`, with the full path of this program, to the events `Stop`, `SubagentStop` and `SessionEnd` in `settings.json` of the home that new sessions go to, or of those that `--home` names. Everything else
/// in the file stays as it is, byte for byte; the hook of a quipu in another place becomes that of this one. What would change is shown first, as a diff, and written if you agree; a copy is kept, and `quipu undo` brings it back.
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
        nothing: "the hook is installed already",
    };
    change::carry_out(world, &edit, &args.consent)?;
    // The client may know of one that this shell does not.
    if Receiver::look_for(world, &ReceiverArgs::default())?.is_none() {
        world.out.note("no receiver is named here: until Claude Code knows one, nothing is sent; `quipu hook status` says how to name it")?;
    }
    Ok(())
}
