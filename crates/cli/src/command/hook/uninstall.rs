//! `quipu hook uninstall`: removes the hook from the client's settings.

use super::change::{self, Consent, Edit};
use super::settings;
use crate::failure::Failure;
use crate::world::World;

/// Remove the hook from Claude Code's settings
///
/// Removes `quipu hook stop` from the events `Stop`, `SubagentStop` and `SessionEnd`, whatever the
/// path of that quipu, and lists and objects that this leaves empty; everything else stays as it
/// is, byte for byte. The settings are those of `quipu hook install`. Shows a diff first, and
/// writes it if you agree. A copy is kept, and `quipu undo` restores it.
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
