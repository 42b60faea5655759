//! Records the images of a session: one call for each moment.
//!
//! Invariants: when a moment is in the log, everything in its images is in the store, and on disk;
//! nothing is swept meanwhile; an image that cannot be taken is an error, and never a smaller
//! image.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use files::Durability;

use crate::index;
use crate::moment::{About, Event, LeftOut, Log, Moment, Single, Tree, millis};
use crate::plan::state_of_single;
use crate::scan::{Limits, ScanError, Scanner};
use crate::store::{Hook, Store, no_hook};
use crate::tree::{Folder, Why, outside};
use crate::vault::Vault;

/// How many changed images are taken before the marks are saved again.
const SAVE_EVERY: u32 = 32;

/// The images of one session.
#[derive(Debug)]
pub struct Recorder {
    store: Store,
    vault: Vault,
    log: Log,
    scanners: Vec<Scanner>,
    limits: Limits,
    unsaved: u32,
    /// How many sweeps the scanners know of.
    sweeps: u64,
}

impl Recorder {
    /// Records images of these folders in the store of a folder.
    pub fn open(
        folder: &Path,
        session: &str,
        roots: &[PathBuf],
        limits: Limits,
    ) -> Result<Recorder, ScanError> {
        Recorder::open_with(folder, session, roots, limits, no_hook())
    }

    /// The same, with a hook.
    pub fn open_with(
        folder: &Path,
        session: &str,
        roots: &[PathBuf],
        limits: Limits,
        hook: Hook,
    ) -> Result<Recorder, ScanError> {
        let store = Store::open(folder, hook)?;
        let _shared = store.share()?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the session's id is no name");
        let log = Log::of(folder, session).ok_or_else(invalid)?;
        let mut scanners = scanners(&store, roots);
        let moments = log.read()?;
        for scanner in &mut scanners {
            scanner.keep_covered(&store, &moments);
            if store.folder().starts_with(scanner.root()) {
                let (root, store) = (scanner.root().to_owned(), store.folder().to_owned());
                return Err(ScanError::Inside { root, store });
            }
        }
        let vault = Vault::new(&folder.join("objects"));
        let sweeps = store.sweeps();
        Ok(Recorder { store, vault, log, scanners, limits, unsaved: 0, sweeps })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The vault.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The folders of which images are taken.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.scanners.iter().map(Scanner::root)
    }

    /// A lock for as long as an image is taken. What another process has swept since the last one
    /// is read again.
    fn share(&mut self) -> io::Result<File> {
        let shared = self.store.share()?;
        let sweeps = self.store.sweeps();
        if std::mem::replace(&mut self.sweeps, sweeps) != sweeps {
            self.scanners.iter_mut().for_each(Scanner::start_over);
        }
        Ok(shared)
    }

    /// Takes an image of everything without recording it, so that the next one is quick.
    pub fn warm(&mut self, now: SystemTime) -> Result<(), ScanError> {
        let _shared = self.share()?;
        self.scan(now).map(drop)
    }

    fn scan(&mut self, now: SystemTime) -> Result<Vec<Tree>, ScanError> {
        let mut trees = Vec::new();
        for scanner in &mut self.scanners {
            let before = scanner.last().cloned();
            let image = scanner.scan(&self.store, &self.vault, self.limits, now)?;
            let is_same = before.is_some_and(|before| std::sync::Arc::ptr_eq(&before, &image));
            self.unsaved += u32::from(!is_same);
            trees.push(Tree { root: scanner.root().to_owned(), image: image.id });
        }
        Ok(trees)
    }

    /// Takes an image of everything, and records the moment.
    pub fn take(
        &mut self,
        event: Event,
        about: About,
        now: SystemTime,
    ) -> Result<Moment, ScanError> {
        let _shared = self.share()?;
        let is_first = self.scanners.iter().any(|scanner| scanner.last().is_none());
        let trees = self.scan(now)?;
        if is_first || self.unsaved >= SAVE_EVERY {
            self.save();
        }
        self.record(event, about, (trees, None), now)
    }

    /// Records a moment at which only the file at `path` may have changed through the agent. What
    /// others changed meanwhile is found at the next complete image. A file that no image covers
    /// is recorded by itself.
    pub fn touch(
        &mut self,
        event: Event,
        about: About,
        path: &Path,
        now: SystemTime,
    ) -> Result<Moment, ScanError> {
        let _shared = self.share()?;
        let (mut trees, mut is_covered) = (Vec::new(), false);
        for scanner in &mut self.scanners {
            if scanner.last().is_none() {
                scanner.scan(&self.store, &self.vault, self.limits, now)?;
            }
            is_covered |= scanner.touch_up(&self.store, self.limits, now, path)?.is_some();
            let image = scanner.last().map(|image| image.id).unwrap_or_default();
            trees.push(Tree { root: scanner.root().to_owned(), image });
        }
        self.unsaved += 1;
        let single = if is_covered {
            None
        } else {
            let state = state_of_single(&self.store, path, self.limits, now)?;
            Some(Single { path: path.to_owned(), state })
        };
        self.record(event, about, (trees, single), now)
    }

    fn record(
        &mut self,
        event: Event,
        about: About,
        (trees, single): (Vec<Tree>, Option<Single>),
        now: SystemTime,
    ) -> Result<Moment, ScanError> {
        let images = self.scanners.iter().filter_map(Scanner::last);
        let left_out = images.fold(LeftOut::default(), |sum, image| sum.and(left_out(image)));
        let moment = Moment { event, time: millis(now), about, trees, single, left_out };
        // What the moment names is on disk before the moment is.
        let is_new = self.store.sync()?;
        let durability = if is_new { Durability::PowerCut } else { Durability::Process };
        self.log.add(&moment, durability, &self.store.hook)?;
        Ok(moment)
    }

    /// What is not covered: paths and reasons, as of the last image.
    pub fn outside(&self) -> Vec<(PathBuf, Why)> {
        let mut all = Vec::new();
        for scanner in &self.scanners {
            let found = scanner.last().map(outside).unwrap_or_default();
            let path = |place: &[u8]| crate::rules::path_of(scanner.root(), place);
            all.extend(found.into_iter().map(|(place, why, _)| (path(&place), why)));
        }
        all
    }

    /// Whether a path is in one of the folders.
    pub fn covers(&self, path: &Path) -> bool {
        self.roots().any(|root| path.starts_with(root))
    }

    /// Saves the marks. If that fails, the next session reads more than it needs to.
    pub fn save(&mut self) {
        for scanner in &self.scanners {
            if let Some(image) = scanner.last() {
                let _ = index::save(&self.store, scanner.root(), image);
            }
        }
        self.unsaved = 0;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.unsaved > 0 {
            self.save();
        }
    }
}

impl LeftOut {
    /// Both together.
    #[must_use]
    pub fn and(self, other: LeftOut) -> LeftOut {
        LeftOut {
            ignored: self.ignored + other.ignored,
            large: self.large + other.large,
            special: self.special + other.special,
            unreadable: self.unreadable + other.unreadable,
        }
    }
}

/// Counts what an image does not cover.
fn left_out(image: &Folder) -> LeftOut {
    fn walk(folder: &Folder, sum: &mut LeftOut) {
        for item in &folder.items {
            match &item.what {
                crate::tree::What::Folder(below) => walk(below, sum),
                crate::tree::What::Outside(why, _) => match why {
                    Why::Ignored => sum.ignored += 1,
                    Why::Large => sum.large += 1,
                    Why::Special => sum.special += 1,
                    Why::Unreadable => sum.unreadable += 1,
                },
                _ => {}
            }
        }
    }
    let mut sum = LeftOut::default();
    walk(image, &mut sum);
    sum
}

/// A scanner for each folder; a folder inside another one is covered with it.
pub(crate) fn scanners(store: &Store, roots: &[PathBuf]) -> Vec<Scanner> {
    let mut roots: Vec<PathBuf> =
        roots.iter().filter_map(|root| std::fs::canonicalize(root).ok()).collect();
    roots.retain(|root| root.is_dir());
    roots.sort();
    roots.dedup();
    let mut scanners: Vec<Scanner> = Vec::new();
    for root in roots {
        let outer = scanners.iter_mut().find(|outer| root.starts_with(outer.root()));
        if let Some(outer) = outer {
            outer.forced.push(root);
            continue;
        }
        let mut scanner = Scanner::new(root);
        if let Some(last) = index::load(store, scanner.root()) {
            scanner.set_last(last);
        }
        scanners.push(scanner);
    }
    scanners
}
