//! `quipu export`: a whole session as one document.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use files::Attributes;
use transcript::conversation::agents::{Owner, WithAgents};
use transcript::conversation::markdown::Writer;
use transcript::conversation::place::Session;
use transcript::conversation::preview::preview;
use transcript::conversation::view::{self, AgentView, SessionView, TurnPlace};
use transcript::format::secret::{JsonMask, Mask};
use workshop::{DocumentFile, Force};

use crate::as_json::{self, Versioned};
use crate::failure::Failure;
use crate::out::{HarmlessJson, JSON_VERSION, Visible, write_json};
use crate::redact::hidden;
use crate::select;
use crate::view_args::ViewArgs;
use crate::world::World;

/// Write a session to stdout as one document
#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    form: ExportFormat,
}

#[derive(Debug, Subcommand)]
enum ExportFormat {
    Md(MdArgs),
    Json(JsonArgs),
}

/// The live conversation as Markdown
///
/// Prompts are quotes, answers are unchanged, calls are list items, changes are diffs. Secrets are
/// redacted.
#[derive(clap::Args, Debug)]
struct MdArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    view: ViewArgs,
    /// Write to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    force: bool,
    /// Do not redact secrets
    #[arg(long)]
    no_redact: bool,
}

/// Everything as one JSON document: `session`, `turns`, `agents`
///
/// The objects are those of `quipu turns --json`, except that secrets are redacted.
#[derive(clap::Args, Debug)]
struct JsonArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Do not redact secrets
    #[arg(long)]
    no_redact: bool,
}

pub(crate) fn export(world: &mut World, args: &ExportArgs) -> Result<(), Failure> {
    match &args.form {
        ExportFormat::Md(args) => markdown(world, args),
        ExportFormat::Json(args) => json(world, args),
    }
}

fn markdown(world: &mut World, args: &MdArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let family = WithAgents::open(&session)?;
    world.agents_unreadable(&family)?;
    let redactor = world.redactor();
    let mask = if args.no_redact { Mask::none() } else { Mask::new(&redactor) };
    args.view.check(family.main.turns().live.len())?;
    let note = match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let force = if args.force { Force::Always } else { Force::Never };
            match DocumentFile::at(path, &session.path, force)? {
                DocumentFile::Special(path) => {
                    let failed = |error| Failure::unwritable(&path, error);
                    let mut file = BufWriter::new(files::open_special(&path).map_err(failed)?);
                    let note = write_markdown(args, &session, &family, mask, Visible(&mut file))?;
                    file.flush().map(|()| note).map_err(failed)?
                }
                DocumentFile::Regular(path) => replace(&path, force, |file| {
                    write_markdown(args, &session, &family, mask, Visible(file))
                })?,
            }
        }
        None => write_markdown(args, &session, &family, mask, Visible(&mut world.out))?,
    };
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

/// Writes a file in one step: half a document is none, and what was there before is better.
fn replace<T>(
    path: &Path,
    force: Force,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |error| Failure::unwritable(path, error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The umask decides, as for every new file: a document is meant to be passed on.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let temp = builder.tempfile_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let mut file = BufWriter::new(temp);
    let written = write(&mut file)?;
    let temp = file.into_inner().map_err(|error| failed(error.into_error()))?;
    if let Ok(old) = files::open(path) {
        Attributes::of(&old).and_then(|kept| kept.give(temp.as_file())).map_err(failed)?;
    }
    let placed = match force {
        Force::Never => temp.persist_noclobber(path),
        Force::InUse | Force::Always => temp.persist(path),
    };
    placed.map(|_| written).map_err(|error| failed(error.error))
}

/// Writes the document. Returns what to say about secrets.
fn write_markdown(
    args: &MdArgs,
    session: &Session,
    family: &WithAgents,
    mask: Mask<'_>,
    out: impl Write,
) -> Result<Option<String>, Failure> {
    let seen = preview(&session.path)?;
    let turns = family.main.turns().live;
    let mut writer = Writer::new(family, args.view.show(), mask, out);
    let failed = |error| Failure::mixed(&session.path, error);
    writer.head(&session.id, &seen).map_err(failed)?;
    for (number, turn) in
        (1..).zip(&turns).filter(|(number, _)| args.view.has(*number, turns.len()))
    {
        writer.turn(Owner::Main, turn, number).map_err(failed)?;
    }
    Ok(hidden(writer.hidden()))
}

fn json(world: &mut World, args: &JsonArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let family = WithAgents::open(&session)?;
    world.agents_unreadable(&family)?;
    let redactor = world.redactor();
    let mut mask = if args.no_redact { Mask::none() } else { Mask::new(&redactor) };
    let mut out = JsonMask::new(&mut mask, HarmlessJson(&mut world.out));
    document(&session, &family, &mut out)?;
    out.finish()?;
    let note = hidden(mask.hidden());
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

fn document(session: &Session, family: &WithAgents, out: &mut impl Write) -> Result<(), Failure> {
    let found = family.main.turns();
    write!(out, "{{\"v\":{JSON_VERSION},\"session\":")?;
    write_json(&mut *out, &Versioned::new(SessionView::new(&session.id, family, &found)))?;
    out.write_all(b"\n")?;
    let runs = view::runs(family, found);
    out.write_all(b",\"turns\":[")?;
    let mut between: &[u8] = b"";
    for run in &runs {
        for (number, turn) in (1..).zip(&run.turns) {
            out.write_all(std::mem::replace(&mut between, b",\n"))?;
            as_json::turn(family, turn, TurnPlace { number, ..run.place }, out)?;
        }
    }
    out.write_all(b"],\"agents\":[")?;
    between = b"";
    for run in runs.iter().filter(|run| run.place.chain.is_none()) {
        if let Some(agent) = run.place.agent {
            out.write_all(std::mem::replace(&mut between, b","))?;
            let head = AgentView::new(family, agent, &run.turns)?;
            write_json(&mut *out, &Versioned::new(head))?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.write_all(b"]}\n")?)
}
