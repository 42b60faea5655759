//! `quipu index`: the catalog that searches use.

use std::io::Write;
use std::path::PathBuf;

use index::catalog::{Catalog, CatalogError, Refreshed, Status, root_of};
use serde::Serialize;

use crate::catalog::{self, CatalogArgs};
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::text::{count, one_line, size};
use crate::world::World;

/// Bring the catalog of sessions up to date
///
/// Commands that need it do so by themselves. It has what is known of each session (dates, title,
/// first prompt, usage) and the words in it, no texts, and no secrets. Of a session whose file was
/// deleted, the row stays, without its words. Deleting the catalog loses nothing that your sessions
/// still have.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct IndexArgs {
    /// Say what is in the catalog, and change nothing
    #[arg(long, conflicts_with = "rebuild")]
    status: bool,
    /// Read all sessions again
    #[arg(long)]
    rebuild: bool,
    /// Read all sessions again, and only say where the catalog is not what they are
    #[arg(long, conflicts_with_all = ["status", "rebuild"])]
    verify: bool,
    /// Remove what is known of a session whose file is gone: its id, or the start of it
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["status", "rebuild", "verify"])]
    forget: Option<String>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct IndexJson<'a> {
    v: u32,
    path: std::borrow::Cow<'a, str>,
    files: u64,
    deleted: u64,
    messages: u64,
    source_bytes: u64,
    catalog_bytes: u64,
    read: usize,
    bytes_read: u64,
}

pub(crate) fn index(world: &mut World, args: &IndexArgs) -> Result<(), Failure> {
    if let Some(name) = &args.forget {
        return forget(world, args, name);
    }
    if args.verify {
        return verify(world, args);
    }
    let path = args.catalog.path(world)?;
    let fail = |error| catalog::failure(&error);
    let (status, done) = if args.status {
        match Catalog::open_if_there(&path) {
            Ok(Some(catalog)) => (catalog.status().map_err(fail)?, Refreshed::default()),
            Ok(None) => {
                world.out.note(&format!("there is no catalog `{}` yet", path.display()))?;
                if !args.json {
                    return Ok(());
                }
                (Status::default(), Refreshed::default())
            }
            Err(error) => return Err(fail(error)),
        }
    } else {
        if args.rebuild {
            match Catalog::open(&path).and_then(|mut catalog| catalog.forget_contents()) {
                Err(error) if error.is_damage() || matches!(error, CatalogError::Newer(_)) => {
                    catalog::replace(world, &path, &error)?;
                }
                done => done.map_err(fail)?,
            }
        }
        let (catalog, done) = args.catalog.open(world)?;
        (catalog.status().map_err(fail)?, done)
    };
    if args.json {
        return Ok(world.out.json(&IndexJson {
            v: JSON_VERSION,
            path: path.to_string_lossy(),
            files: status.files,
            deleted: status.deleted,
            messages: status.messages,
            source_bytes: status.source,
            catalog_bytes: status.bytes,
            read: done.read,
            bytes_read: done.bytes,
        })?);
    }
    writeln!(world.out, "{}", crate::text::shown(&path.display().to_string()))?;
    let deleted = count(status.deleted, "file");
    writeln!(
        world.out,
        "{} of {}, {} of the API; {deleted} no longer there; {} in the catalog",
        count(status.files, "file"),
        size(status.source),
        count(status.messages, "message"),
        size(status.bytes),
    )?;
    if !args.status {
        let read = count(done.read as u64, "file");
        writeln!(world.out, "read {} of {read}; {} unchanged", size(done.bytes), done.same)?;
    }
    Ok(())
}

/// Removes what is known of a session.
fn forget(world: &mut World, args: &IndexArgs, name: &str) -> Result<(), Failure> {
    let fail = |error| catalog::failure(&error);
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let (mut catalog, _) = args.catalog.open(world)?;
    let known = catalog::known(world, &catalog, name)?;
    let id = known.first().map(|session| session.id.as_str()).unwrap_or_default();
    if known.iter().any(|session| !session.is_deleted) {
        let message = format!("the file of session `{}` is still there", one_line(id));
        let hint = "only what is known of deleted sessions can be forgotten";
        return Err(Failure::usage(message, Some(hint)));
    }
    for session in &known {
        catalog.forget(&homes, session).map_err(fail)?;
    }
    if args.json {
        return Ok(world.out.json(&ForgetJson { v: JSON_VERSION, forgotten: id })?);
    }
    Ok(writeln!(world.out, "forgot session {}", one_line(id))?)
}

/// The whole of `--forget --json`.
#[derive(Serialize)]
struct ForgetJson<'a> {
    v: u32,
    forgotten: &'a str,
}

/// The whole of `--verify --json`.
#[derive(Serialize)]
struct VerifyJson<'a> {
    v: u32,
    path: std::borrow::Cow<'a, str>,
    wrong: &'a [String],
}

/// Compares the catalog with the sessions.
fn verify(world: &mut World, args: &IndexArgs) -> Result<(), Failure> {
    let path = args.catalog.path(world)?;
    let wrong = args.catalog.verify(world)?;
    if args.json {
        let path = path.to_string_lossy();
        world.out.json(&VerifyJson { v: JSON_VERSION, path, wrong: &wrong })?;
    } else {
        for one in wrong.iter().take(20) {
            writeln!(world.out, "{}", one_line(one))?;
        }
    }
    if wrong.is_empty() {
        if !args.json {
            writeln!(world.out, "the catalog is what the sessions are")?;
        }
        return Ok(());
    }
    let message = format!("the catalog is wrong in {}", count(wrong.len() as u64, "place"));
    Err(Failure::damaged(message, "`quipu index --rebuild` reads all sessions again"))
}
