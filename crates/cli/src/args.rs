//! The command line: the commands, and the options that all of them share.
//!
//! The doc comments are the help texts. Each command's own arguments are in the command's file.

use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "lake")]
use crate::command::lake;
use crate::command::{
    cat, changes, chat, check, clone, compaction, completions, compress, context, diff, drift,
    drop, edit, export, files, follow, fork, history, home, hook, index, inventory, keep, ls, man,
    merge, mv, pack, pick, price, redact, rename, repair, resume, rewind, rm, search, secrets,
    ship, show, split, sql, strip, tag, tree, turns, uncompress, undo, unpack, usage, view,
};
use crate::failure::Failure;
use crate::global::Global;
use crate::pick::{Deed, Picked};
use crate::world::World;

/// List, read, check, repair and trim Claude Code sessions
///
/// Without a command, prints an overview of your sessions. Sessions are read-only unless the
/// command says otherwise. Only `chat`, `ship`, `lake`, `compress --with` and an installed
/// hook use the network.
///
/// A SESSION is an id, the start of an id, a path, a part of a title or, if no title fits, of a
/// first prompt (three characters at least), the id of a sub-agent, or `last`: the newest session
/// of the current folder (the first row of `quipu ls`). A name that fits several sessions is an
/// error that lists them. In a terminal, a command for one session lets you pick it if you name
/// none.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, after_help = EXIT_CODES, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 output could not be written, 2 wrong usage or configuration, \
3 session not found or ambiguous, 4 unreadable, 5 not touched (in use, protected, changed \
since it was read, or `--when-cold` and still cached), 6 not written (the result would resume less well), 7 not delivered, 8 unknown data (`drift`), 9 secrets found (`secrets`); \
`check` and `repair`: 10 resumes with loss, 11 the API would refuse it, \
12 Claude Code does not resume it (also `history`, `context`, `price`, `resume`); \
130 left without a choice (`pick`)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(ls::LsArgs),
    Search(search::SearchArgs),
    Pick(pick::PickArgs),
    Show(show::ShowArgs),
    View(view::ViewCommandArgs),
    Tree(tree::TreeArgs),
    Turns(turns::TurnsArgs),
    Usage(usage::UsageArgs),
    Sql(sql::SqlArgs),
    Export(export::ExportArgs),
    Check(check::CheckArgs),
    History(history::HistoryArgs),
    Context(context::ContextArgs),
    Price(price::PriceArgs),
    Repair(repair::RepairArgs),
    Strip(strip::StripArgs),
    Compress(compress::CompressArgs),
    Uncompress(uncompress::UncompressArgs),
    Compaction(compaction::CompactionArgs),
    Redact(redact::RedactArgs),
    Secrets(secrets::SecretsArgs),
    Clone(clone::CloneArgs),
    Fork(fork::ForkArgs),
    Drop(drop::DropArgs),
    Keep(keep::KeepArgs),
    Edit(edit::EditArgs),
    Split(split::SplitArgs),
    Merge(merge::MergeArgs),
    Diff(diff::DiffArgs),
    Resume(resume::ResumeArgs),
    Move(mv::MoveArgs),
    Pack(pack::PackArgs),
    Unpack(unpack::UnpackArgs),
    Rename(rename::RenameArgs),
    Tag(tag::TagArgs),
    Rm(rm::RmArgs),
    Changes(changes::ChangesArgs),
    Rewind(rewind::RewindArgs),
    Undo(undo::UndoArgs),
    Chat(Box<chat::ChatArgs>),
    Ship(ship::ShipArgs),
    #[cfg(feature = "lake")]
    Lake(lake::LakeArgs),
    Hook(hook::HookArgs),
    Cat(cat::CatArgs),
    Index(index::IndexArgs),
    Inventory(inventory::InventoryArgs),
    Drift(drift::DriftArgs),
    Follow(follow::FollowArgs),
    Files(files::FilesArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs a command; without one, the overview.
pub(crate) fn run(world: &mut World, command: Option<Command>) -> Result<(), Failure> {
    match command {
        None => home::home(world),
        Some(Command::Ls(args)) => ls::ls(world, &args),
        Some(Command::Cat(args)) => cat::cat(world, &args),
        Some(Command::Chat(args)) => chat::chat(world, &args),
        Some(Command::Index(args)) => index::index(world, &args),
        Some(Command::Inventory(args)) => inventory::inventory(world, &args),
        Some(Command::Search(args)) => match args.interactive() {
            Some(wish) => {
                crate::pick::pick(world, &wish).and_then(|picked| carry_out(world, &picked))
            }
            None => search::search(world, &args),
        },
        Some(Command::Pick(args)) => {
            crate::pick::pick(world, &args.wish()).and_then(|picked| carry_out(world, &picked))
        }
        Some(Command::Resume(args)) => resume::resume(world, &args),
        Some(Command::Drift(args)) => drift::drift(world, &args),
        Some(Command::Follow(args)) => follow::follow(world, &args),
        Some(Command::Files(args)) => files::files(world, &args),
        Some(Command::Show(args)) => show::show(world, &args),
        Some(Command::View(args)) => view::view(world, &args),
        Some(Command::Export(args)) => export::export(world, &args),
        Some(Command::Tree(args)) => tree::tree(world, &args),
        Some(Command::Check(args)) => check::check(world, &args),
        Some(Command::History(args)) => history::history(world, &args),
        Some(Command::Context(args)) => context::context(world, &args),
        Some(Command::Price(args)) => price::price(world, &args),
        Some(Command::Compress(args)) => compress::compress(world, &args),
        Some(Command::Uncompress(args)) => uncompress::uncompress(world, &args),
        Some(Command::Compaction(args)) => compaction::compaction(world, &args),
        Some(Command::Clone(args)) => clone::clone(world, &args),
        Some(Command::Fork(args)) => fork::fork(world, &args),
        Some(Command::Drop(args)) => drop::drop(world, &args),
        Some(Command::Keep(args)) => keep::keep(world, &args),
        Some(Command::Edit(args)) => edit::edit(world, &args),
        Some(Command::Split(args)) => split::split(world, &args),
        Some(Command::Merge(args)) => merge::merge(world, &args),
        Some(Command::Diff(args)) => diff::diff(world, &args),
        Some(Command::Strip(args)) => strip::strip(world, &args),
        Some(Command::Redact(args)) => redact::redact(world, &args),
        Some(Command::Secrets(args)) => secrets::secrets(world, &args),
        Some(Command::Repair(args)) => repair::repair(world, &args),
        Some(Command::Move(args)) => mv::mv(world, &args),
        Some(Command::Pack(args)) => pack::pack(world, &args),
        Some(Command::Unpack(args)) => unpack::unpack(world, &args),
        Some(Command::Rename(args)) => rename::rename(world, &args),
        Some(Command::Tag(args)) => tag::tag(world, &args),
        Some(Command::Rm(args)) => rm::rm(world, &args),
        Some(Command::Changes(args)) => changes::changes(world, &args),
        Some(Command::Rewind(args)) => rewind::rewind(world, &args),
        Some(Command::Undo(args)) => undo::undo(world, &args),
        Some(Command::Ship(args)) => ship::ship(world, &args),
        #[cfg(feature = "lake")]
        Some(Command::Lake(args)) => lake::lake(world, &args),
        Some(Command::Hook(args)) => hook::hook(world, &args),
        Some(Command::Turns(args)) => turns::turns(world, &args),
        Some(Command::Usage(args)) => usage::usage(world, &args),
        Some(Command::Sql(args)) => sql::sql(world, &args),
        Some(Command::Completions(args)) => completions::completions(world, &args, Cli::command()),
        Some(Command::Man(args)) => man::man(world, &args, Cli::command()),
    }
}

/// Does with a session what the user picked it for, as if that had been typed.
pub(crate) fn carry_out(world: &mut World, picked: &Picked) -> Result<(), Failure> {
    let verb = match picked.deed {
        Deed::Open => "show",
        Deed::Resume => "resume",
        Deed::Fork => "fork",
    };
    let line = ["quipu", verb, "--", &picked.name];
    let cli = Cli::try_parse_from(line);
    let cli = cli.map_err(|error| Failure::usage(error.to_string(), None))?;
    run(world, cli.command)
}
