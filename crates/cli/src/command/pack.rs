//! `quipu pack`: sessions in one file, for another machine or another person.

use std::path::{Path, PathBuf};

use files::NewAccess;
use serde::Serialize;
use transcript::conversation::place::Session;
use workshop::pack::{PackPage, Packed, PackedSession, Packing, pack as write_pack};
use workshop::{DocumentFile, Error, Force};

use crate::document::write_document;
use crate::failure::Failure;
use crate::out::{BOLD, JSON_VERSION, WARN};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::redact::{HidingArgs, hidden};
use crate::select;
use crate::text::{count, fit, one_line, quoted, shown, size};
use crate::world::World;

/// Pack sessions into one file, for another machine or another person
///
/// The file holds the sessions with their sub-agents, results, copies of edited files, todo lists,
/// titles and tags, each with its SHA-256; never settings, hooks or the prompt history. Secrets are
/// redacted, in all of them. The file is a page for a browser and a ZIP archive at once; `quipu
/// unpack` puts the sessions into a home, where Claude Code resumes them.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct PackArgs {
    /// The sessions
    #[arg(required = true)]
    session: Vec<String>,
    /// Write to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    hiding: HidingArgs,
    /// Show what would be packed, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    force: bool,
    /// Print what was packed as one JSON object
    #[arg(long)]
    json: bool,
}

/// The whole output with `--json`.
#[derive(Serialize)]
struct PackJson<'a> {
    v: u32,
    dry_run: bool,
    path: Option<String>,
    bytes: u64,
    format: u32,
    redacted: bool,
    secrets: &'a std::collections::BTreeMap<String, u64>,
    sessions: &'a [PackedSession],
    left: Vec<String>,
}

const MADE_BY: &str = concat!("quipu ", env!("CARGO_PKG_VERSION"));

pub(crate) fn pack(world: &mut World, args: &PackArgs) -> Result<(), Failure> {
    let mut sessions: Vec<Session> = Vec::new();
    for name in &args.session {
        let session = select::session_to_change(world, name)?;
        if sessions.iter().all(|known| known.id != session.id) {
            sessions.push(session);
        }
    }
    let redactor = args.hiding.redactor(world.redact_config())?;
    let redactor = redactor.as_ref();
    let packing =
        Packing { sessions: &sessions, redactor, made_by: MADE_BY, page: PackPage::OfPacks };
    let is_stdout = args.output == Path::new("-");
    let force = if args.force { Force::Always } else { Force::Never };
    let packed = if args.dry_run {
        write_pack(&packing, &mut std::io::sink())?
    } else if is_stdout {
        write_pack(&packing, &mut world.out)?
    } else {
        for session in &sessions {
            DocumentFile::at(&args.output, &session.path, force)?;
        }
        let place = DocumentFile::at(&args.output, &sessions[0].path, force)?;
        // Only its owner can read it, because it may hold anything.
        write_document(&place, force, NewAccess::Private, |file| {
            write_pack(&packing, file).map_err(|error| match error {
                // Without the name of the temporary file, which the user does not know.
                Error::Unwritable { source, .. } => {
                    Failure::unwritable(place.path(), source.kind().into())
                }
                other => other.into(),
            })
        })?
    };
    let is_beside = is_stdout && !args.dry_run;
    report(world, args, &packed, is_beside)
}

fn report(
    world: &mut World,
    args: &PackArgs,
    packed: &Packed,
    is_beside: bool,
) -> Result<(), Failure> {
    let left = packed.left.iter().map(|(path, why)| format!("{}: {why}", path.display()));
    let left: Vec<String> = left.collect();
    let manifest = &packed.manifest;
    let secrets = hidden(&manifest.secrets);
    if args.json {
        let json = PackJson {
            v: JSON_VERSION,
            dry_run: args.dry_run,
            path: (!args.dry_run).then(|| args.output.display().to_string()),
            bytes: packed.bytes,
            format: manifest.version,
            redacted: manifest.redacted,
            secrets: &manifest.secrets,
            sessions: &manifest.sessions,
            left,
        };
        if is_beside {
            let text = serde_json::to_string(&json).map_err(std::io::Error::from)?;
            return Ok(world.out.note(&text)?);
        }
        return Ok(world.out.json(&json)?);
    }
    if is_beside {
        return Ok(secrets.map_or(Ok(()), |secrets| world.out.note(&secrets))?);
    }
    let page = &mut Page::new(&mut world.out);
    let mood = if args.dry_run { ": what would be packed" } else { "" };
    let number = count(manifest.sessions.len() as u64, "session");
    page.line(&[styled(BOLD, format!("pack of {number}")), unstyled(mood)])?;
    for session in &manifest.sessions {
        let title = session.title.as_deref().unwrap_or("(no title)");
        let short: String = session.id.chars().take(8).collect();
        let bytes = session.members.iter().map(|file| file.size).sum();
        let files = count(session.members.len() as u64, "file");
        let text = format!("{short}  {}: {files}, {}", fit(&one_line(title), 80), size(bytes));
        page.paragraph(&Lead::hanging(label("session")), &[unstyled(shown(&text))])?;
    }
    let redacted = match (&secrets, manifest.redacted) {
        (_, false) => "nothing: all files are as they are, with their secrets".to_owned(),
        (None, true) => "no secrets found".to_owned(),
        (Some(secrets), true) => secrets.split(';').next().unwrap_or(secrets).to_owned(),
    };
    page.paragraph(&Lead::hanging(label("redacted")), &[unstyled(redacted)])?;
    for left in &left {
        let lead = Lead::hanging(styled(WARN, "  left     "));
        page.paragraph(&lead, &[unstyled(shown(left))])?;
    }
    if args.dry_run {
        let text = "nothing was written: run it again without `--dry-run` to do this";
        return Ok(world.out.note(text)?);
    }
    let path = args.output.display().to_string();
    let written = format!("{} ({})", shown(&path), size(packed.bytes));
    page.line(&[label("written"), unstyled(written)])?;
    let unpack = format!("quipu unpack {}", quoted(&path));
    Ok(page.line(&[label("unpack"), unstyled(shown(&unpack))])?)
}
