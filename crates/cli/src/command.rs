//! The commands, one file each.
//!
//! A command is an arguments struct, whose doc comment is its help, and a function. Commands read what
//! `transcript` gives and say it; none of them knows the format.

mod as_json;
pub(crate) mod cat;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod clone;
mod compaction;
pub(crate) mod completions;
mod damage;
pub(crate) mod drift;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod fork;
mod headline;
mod health;
pub(crate) mod history;
mod home;
pub(crate) mod hook;
pub(crate) mod inventory;
pub(crate) mod ls;
pub(crate) mod man;
mod range;
mod record;
pub(crate) mod repair;
pub(crate) mod ship;
pub(crate) mod show;
pub(crate) mod strip;
mod survey;
pub(crate) mod tree;
pub(crate) mod turns;
pub(crate) mod undo;
pub(crate) mod which;

use crate::args::Command;
use crate::failure::Failure;
use crate::world::World;

/// The version of all JSON output. It changes when a field changes its meaning or goes; new fields may
/// come at any time.
pub(crate) const JSON_VERSION: u32 = 1;

pub(crate) fn run(world: &mut World, command: Option<Command>) -> Result<(), Failure> {
    match command {
        None => home::home(world),
        Some(Command::Ls(args)) => ls::ls(world, &args),
        Some(Command::Cat(args)) => cat::cat(world, &args),
        Some(Command::Chat(args)) => chat::chat(world, &args),
        Some(Command::Inventory(args)) => inventory::inventory(world, &args),
        Some(Command::Drift(args)) => drift::drift(world, &args),
        Some(Command::Follow(args)) => follow::follow(world, &args),
        Some(Command::Files(args)) => files::files(world, &args),
        Some(Command::Show(args)) => show::show(world, &args),
        Some(Command::Export(args)) => export::export(world, &args),
        Some(Command::Tree(args)) => tree::tree(world, &args),
        Some(Command::Check(args)) => check::check(world, &args),
        Some(Command::History(args)) => history::history(world, &args),
        Some(Command::Clone(args)) => clone::clone(world, &args),
        Some(Command::Fork(args)) => fork::fork(world, &args),
        Some(Command::Strip(args)) => strip::strip(world, &args),
        Some(Command::Repair(args)) => repair::repair(world, &args),
        Some(Command::Undo(args)) => undo::undo(world, &args),
        Some(Command::Ship(args)) => ship::ship(world, &args),
        Some(Command::Hook(args)) => hook::hook(world, &args),
        Some(Command::Turns(args)) => turns::turns(world, &args),
        Some(Command::Completions(args)) => completions::completions(world, &args),
        Some(Command::Man(args)) => man::man(world, &args),
    }
}
