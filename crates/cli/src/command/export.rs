//! `quipu export`: a whole session as one document.

use std::io::Write;

use clap::Subcommand;
use transcript::family::{Family, Owner};
use transcript::glance::glance;
use transcript::markdown::{Options, Writer};
use transcript::place::Session;
use transcript::secret::{JsonMask, Mask};

use super::JSON_VERSION;
use super::as_json::{self, Place};
use crate::failure::Failure;
use crate::out::{HarmlessJson, Visible, write_json};
use crate::redact::hidden;
use crate::world::World;

/// Write a session as one document, to stdout
#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    form: Form,
}

#[derive(Debug, Subcommand)]
enum Form {
    Md(MdArgs),
    Json(JsonArgs),
}

/// The live conversation as Markdown
///
/// Prompts as quotes, answers as they were written, calls as list items, changes as diffs. Secrets are hidden.
#[derive(clap::Args, Debug)]
struct MdArgs {
    /// The session
    session: String,
    /// Inputs and results of calls, reminders, and what sub-agents did
    #[arg(long)]
    full: bool,
    /// The model's thinking
    #[arg(long)]
    thinking: bool,
    /// Do not hide secrets
    #[arg(long)]
    no_redact: bool,
}

/// Everything as one JSON document: `session`, `turns`, `agents`
///
/// The objects are those of `quipu turns --json`, but secrets are hidden.
#[derive(clap::Args, Debug)]
struct JsonArgs {
    /// The session
    session: String,
    /// Do not hide secrets
    #[arg(long)]
    no_redact: bool,
}

pub(crate) fn export(world: &mut World, args: &ExportArgs) -> Result<(), Failure> {
    match &args.form {
        Form::Md(args) => markdown(world, args),
        Form::Json(args) => json(world, args),
    }
}

fn markdown(world: &mut World, args: &MdArgs) -> Result<(), Failure> {
    let session = world.session(&args.session)?;
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let family = Family::open(&session).map_err(unreadable)?;
    world.agents_unreadable(&family)?;
    let seen = glance(&session.path).map_err(unreadable)?;
    let options = Options { thinking: args.thinking, full: args.full };
    let redactor = world.redactor();
    let mask = if args.no_redact { Mask::none() } else { Mask::new(&redactor) };
    let mut writer = Writer::new(&family, options, mask, Visible(&mut world.out));
    let failed = |error| Failure::mixed(&session.path, error);
    writer.head(&session.id, &seen).map_err(failed)?;
    for (number, turn) in (1..).zip(&family.main.turns().live) {
        writer.turn(Owner::Main, turn, number).map_err(failed)?;
    }
    let note = hidden(writer.hidden());
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

fn json(world: &mut World, args: &JsonArgs) -> Result<(), Failure> {
    let session = world.session(&args.session)?;
    let family =
        Family::open(&session).map_err(|error| Failure::unreadable(&session.path, error))?;
    world.agents_unreadable(&family)?;
    let redactor = world.redactor();
    let mut mask = if args.no_redact { Mask::none() } else { Mask::new(&redactor) };
    let mut out = JsonMask::new(&mut mask, HarmlessJson(&mut world.out));
    document(&session, &family, &mut out)?;
    out.finish()?;
    let note = hidden(mask.hidden());
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

fn document(session: &Session, family: &Family, out: &mut impl Write) -> Result<(), Failure> {
    let found = family.main.turns();
    write!(out, "{{\"v\":{JSON_VERSION},\"session\":")?;
    write_json(&mut *out, &as_json::session(&session.id, family, &found))?;
    out.write_all(b"\n")?;
    let runs = as_json::runs(family, found);
    out.write_all(b",\"turns\":[")?;
    let mut between: &[u8] = b"";
    for run in &runs {
        for (number, turn) in (1..).zip(&run.turns) {
            out.write_all(std::mem::replace(&mut between, b",\n"))?;
            as_json::turn(family, turn, Place { number, ..run.place }, out)?;
        }
    }
    out.write_all(b"],\"agents\":[")?;
    between = b"";
    for run in runs.iter().filter(|run| run.place.chain.is_none()) {
        if let Some(agent) = run.place.agent {
            out.write_all(std::mem::replace(&mut between, b","))?;
            let head = as_json::agent(family, agent, &run.turns)
                .map_err(|error| Failure::unreadable(&family.main.path, error))?;
            write_json(&mut *out, &head)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.write_all(b"]}\n")?)
}
