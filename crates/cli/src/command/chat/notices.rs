//! Prints what a user should know about a session that is about to begin.

use agent::context::LeftOut;
use agent::session::{Notice, RepairedWhat};

use crate::failure::Failure;
use crate::surgery;
use crate::world::World;

/// How many ignored files are listed by name.
const NAMED: usize = 5;
/// How many repairs are listed.
const DEEDS: usize = 3;

/// Prints notices, in their order.
pub(super) fn tell(world: &mut World, notices: Vec<Notice>) -> Result<(), Failure> {
    for notice in notices {
        let text = match notice {
            Notice::NothingTrusted(error) => {
                format!("no folder is trusted: {}", Failure::from(error))
            }
            Notice::Settings(text) => text,
            Notice::Unlocked(error) => format!(
                "cannot lock this session, so another quipu could write to it, too ({})",
                Failure::from(error)
            ),
            Notice::Workshop(notice) => {
                surgery::tell(world, &[notice])?;
                continue;
            }
            Notice::Ended(names) => {
                let names = names.join(", ");
                format!("ended with the last run, and not started again: {names}")
            }
            Notice::Repaired { deeds, what } => repaired(&deeds, what),
            Notice::LeftOut { settings, context } => {
                tell_left_out(world, &settings, &context)?;
                continue;
            }
        };
        world.out.note(&text)?;
    }
    Ok(())
}

fn repaired(deeds: &[(String, usize)], what: RepairedWhat) -> String {
    let more = deeds.len().saturating_sub(DEEDS);
    let deeds = deeds.iter().take(DEEDS).map(|(deed, times)| match times {
        1 => deed.clone(),
        _ => format!("{deed} ({times} times)"),
    });
    let deeds = deeds.collect::<Vec<_>>().join("; ");
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let undo = match what {
        RepairedWhat::Session => " (`quipu undo` reverts that)",
        RepairedWhat::Copy => " (in a copy)",
    };
    format!("the session was repaired first: {deeds}{more}{undo}")
}

/// Reports what was ignored, and how to change that.
fn tell_left_out(
    world: &mut World,
    settings: &[(String, Vec<&'static str>)],
    context: &LeftOut,
) -> Result<(), Failure> {
    let keys = |(file, keys): &(String, Vec<&str>)| format!("`{}` in `{file}`", keys.join("`, `"));
    let mut parts: Vec<String> = settings.iter().map(keys).collect();
    if context.is_repository {
        parts.push("the state of the git repository".to_owned());
    }
    if !parts.is_empty() {
        world.out.note(&format!(
            "ignored, because this folder is not trusted: {}; `quipu chat --trust` trusts it",
            parts.join("; ")
        ))?;
    }
    let outside = &context.instructions;
    if !outside.is_empty() {
        let names = outside.iter().take(NAMED).map(|path| format!("`{}`", path.display()));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = outside.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        world
            .out
            .note(&format!("ignored, because they lead out of their folder: {names}{more}"))?;
    }
    Ok(())
}
