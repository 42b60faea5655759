//! The catalog of all sessions: opened, and brought up to date, when a command needs it.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use index::catalog::{Catalog, CatalogError, KnownSession, Refreshed, Replaced, Work, root_of};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use transcript::conversation::place::Home;

use crate::failure::Failure;
use crate::outside::outside_of_homes;
use crate::text::{count, one_line};
use crate::threads::Threads;
use crate::world::World;

#[derive(clap::Args, Debug, Default)]
pub(crate) struct CatalogArgs {
    /// The catalog of sessions, instead of the one in the cache folder
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
}

/// A refresh that takes longer than this shows its progress.
const QUIET: Duration = Duration::from_millis(400);

impl CatalogArgs {
    /// The path of the catalog. It is never in a Claude home.
    pub(crate) fn path(&self, world: &World) -> Result<PathBuf, Failure> {
        let path = self.catalog.clone().map_or_else(|| world.catalog_file(), Ok)?;
        let path = std::path::absolute(&path).unwrap_or(path);
        outside_of_homes(world, &path, "the catalog can be in any other folder")?;
        Ok(path)
    }

    /// How many files are read at once.
    pub(crate) fn threads(&self) -> usize {
        self.threads.count()
    }

    /// The catalog as it is; `None` if there is none, or with a note if it is of an older version
    /// or cannot be used.
    pub(crate) fn open_if_there(&self, world: &mut World) -> Result<Option<Catalog>, Failure> {
        let otherwise = "all sessions are read, without those that are gone";
        self.open_with(world, Catalog::open_if_there, otherwise)
    }

    /// The catalog, so that something can be removed from it; one of an older version is completed.
    pub(crate) fn open_to_forget(&self, world: &mut World) -> Result<Option<Catalog>, Failure> {
        let open = |path: &Path| match path.try_exists() {
            Ok(false) => Ok(None),
            _ => Catalog::open(path).map(Some),
        };
        self.open_with(world, open, "nothing is removed from it")
    }

    fn open_with(
        &self,
        world: &mut World,
        open: impl FnOnce(&Path) -> Result<Option<Catalog>, CatalogError>,
        otherwise: &str,
    ) -> Result<Option<Catalog>, Failure> {
        let path = match self.path(world) {
            Ok(path) => path,
            Err(failure) if self.catalog.is_some() => return Err(failure),
            Err(_) => return Ok(None),
        };
        match open(&path) {
            Ok(found) => Ok(found),
            Err(error) => {
                world.out.note(&format!("{error}: {otherwise}"))?;
                Ok(None)
            }
        }
    }

    /// The catalog, up to date. A damaged one is made anew.
    pub(crate) fn open(&self, world: &mut World) -> Result<(Catalog, Refreshed), Failure> {
        let path = self.path(world)?;
        let homes = world.homes()?.list;
        match self.refreshed(world, &homes, &path) {
            Err(error) if error.is_damage() => {
                replace(world, &path, &error)?;
                self.refreshed(world, &homes, &path).map_err(|error| failure(&error))
            }
            found => found.map_err(|error| failure(&error)),
        }
        .and_then(|(catalog, refreshed)| {
            for file in &refreshed.unreadable {
                world.out.note(&format!("cannot read {file}"))?;
            }
            Ok((catalog, refreshed))
        })
    }

    fn refreshed(
        &self,
        world: &World,
        homes: &[Home],
        path: &Path,
    ) -> Result<(Catalog, Refreshed), CatalogError> {
        let redactor = world.redactor();
        let mut catalog = Catalog::open(path)?;
        let work = Work { homes, redactor: &redactor, threads: self.threads() };
        let refreshed = with_bar(|progress| catalog.refresh(&work, progress));
        Ok((catalog, refreshed?))
    }

    /// Where the catalog is not what the sessions are. A damaged one is reported, and stays.
    pub(crate) fn verify(&self, world: &mut World) -> Result<Vec<String>, Failure> {
        let (homes, path) = (world.homes()?.list, self.path(world)?);
        let refreshed = self.refreshed(world, &homes, &path);
        let (mut catalog, _) = refreshed.map_err(|error| failure(&error))?;
        let redactor = world.redactor();
        let work = Work { homes: &homes, redactor: &redactor, threads: self.threads() };
        let wrong = with_bar(|progress| catalog.verify(&work, progress));
        wrong.map_err(|error| failure(&error))
    }
}

/// Puts a new catalog in place of one that is damaged or of a newer version, and says what of it is
/// kept.
pub(crate) fn replace(world: &mut World, path: &Path, why: &CatalogError) -> Result<(), Failure> {
    let Replaced { kept, old } = Catalog::replace(path).map_err(|error| failure(&error))?;
    let why = match why {
        CatalogError::Newer(_) => "of a newer version",
        _ => "damaged",
    };
    let text = format!("the catalog `{}` is {why}: it is made anew", path.display());
    let sessions = (kept > 0).then(|| {
        let sessions = count(kept, "session");
        format!("what is known of {sessions} without a file is kept")
    });
    let rest = old
        .map(|old| format!("what could not be read of the old one stays in `{}`", old.display()));
    let texts: Vec<String> = [Some(text), sessions, rest].into_iter().flatten().collect();
    Ok(world.out.note(&texts.join("; "))?)
}

/// What the catalog knows of the session with that id, or with an id that begins so: of each place
/// where it was. What is gone comes before what is still there.
pub(crate) fn known(
    world: &mut World,
    catalog: &Catalog,
    name: &str,
) -> Result<Vec<KnownSession>, Failure> {
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let mut found = catalog.sessions(&homes).map_err(|error| failure(&error))?;
    found.retain(|session| session.id.starts_with(name));
    let is_whole = |one: &KnownSession| one.id == name;
    if found.iter().any(is_whole) {
        found.retain(is_whole);
    }
    if found.iter().any(|one| one.is_deleted) {
        found.retain(|one| one.is_deleted);
    }
    let ids: BTreeSet<String> = found.iter().map(|one| one_line(&one.id)).collect();
    match ids.len() {
        0 => {
            let message = format!("the catalog knows no session whose id begins with `{name}`");
            let hint =
                "`quipu sql \"SELECT session, title FROM sessions WHERE deleted\"` lists them";
            Err(Failure::not_found(message, hint))
        }
        1 => Ok(found),
        _ => {
            let ids: Vec<String> = ids.into_iter().collect();
            let message = format!("several sessions begin with `{name}`: {}", ids.join(", "));
            Err(Failure::not_found(message, "give more of the id"))
        }
    }
}

/// Shows the progress of work that takes long, in a terminal.
pub(crate) fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let begin = std::time::Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let done = work(&mut |done, total| {
        if bar.is_none() && begin.elapsed() > QUIET && std::io::stderr().is_terminal() {
            bar = Some(progress_bar(total));
        }
        if let Some(bar) = &bar {
            bar.set_position(done);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    done
}

fn progress_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("reading sessions {bar:30} {bytes} of {total_bytes}");
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// What the user is told about a catalog that cannot be used.
pub(crate) fn failure(error: &CatalogError) -> Failure {
    let hint = match error {
        CatalogError::Newer(_) => {
            "use that version, or another file with `--catalog`, or `quipu index --rebuild`"
        }
        CatalogError::Older(_) => "`quipu index` completes it",
        CatalogError::Foreign(_) => "name another file with `--catalog`, or delete this one",
        CatalogError::Busy(_) => "try again when it has ended",
        CatalogError::Io { .. } | CatalogError::Sql { .. } => {
            "`--catalog FILE` uses another file; deleting the catalog loses nothing that your sessions still have"
        }
    };
    Failure::damaged(error.to_string(), hint)
}
