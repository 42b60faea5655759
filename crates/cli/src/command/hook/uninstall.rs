//! `quipu hook uninstall`: the hook is taken out of the client's settings.

use super::change::{self, Consent, Edit};
use super::settings;
use crate::failure::Failure;
use crate::world::World;

/// Take the hook out of Claude Code's settings
///
/// Removes `quipu hook stop` from the events `Stop`, `SubagentStop` and `SessionEnd`, whatever the path of that quipu, and what is left empty by that; everything else stays as it is, byte for byte. The settings are those of `quipu hook
/// install`. What would change is shown first, as a diff, and written if you agree; a copy is kept, and `quipu undo` brings it back.
#[derive(clap::Args, Debug)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    consent: Consent,
}

pub(super) fn uninstall(world: &mut World, args: &UninstallArgs) -> Result<(), Failure> {
    let program = world.program()?;
    let edit = Edit {
        what: "hook-uninstall",
        new_text: &|text| settings::uninstall(text, &program),
        nothing: "the hook is not installed",
    };
    change::carry_out(world, &edit, &args.consent)
}
