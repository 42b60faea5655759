//! The sessions that pages show: listed, opened, and opened again when they have grown.
//!
//! Invariants: pages name sessions by ids that are made here, never by paths; nothing is written
//! but the catalog, which is not in a Claude home; only a few sessions are open at once; what is
//! listed is redacted if pages are, and a session by what is known of all of its files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use index::catalog::{Catalog, Work, root_of};
use sha2::{Digest, Sha256};
use transcript::Session;
use transcript::client::check::check_unsearched;
use transcript::client::history::Rules;
use transcript::conversation::place::{Home, agents};
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::price::Prices;
use transcript::conversation::table::GrowingTable;
use transcript::conversation::usage::Ledger;
use transcript::format::secret::{Cover, Mask, Redactor};
use transcript::format::threads;

use crate::earlier::{Changes, Earlier, Survey, parted};
use crate::opened::Opened;
use crate::server::{Secrets, Serving};
use crate::words::{local, shell_word};

/// A session in the list.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Its name in addresses.
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// The working directory, or the name of the project's folder.
    pub(crate) project: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    pub(crate) seen: Preview,
    /// The client has deleted it; only the catalog knows it.
    pub(crate) is_deleted: bool,
}

/// The sessions, and when they were listed if that is still good.
type Listing = (Option<Instant>, Arc<Vec<Listed>>);

/// All sessions.
#[derive(Debug)]
pub(crate) struct Library {
    homes: Vec<Home>,
    /// A session that was named by its path, and may be in no home.
    named: Option<Session>,
    catalog: Mutex<Option<Catalog>>,
    catalog_path: Option<PathBuf>,
    reading: Mutex<Reading>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) prices: Prices,
    secrets: Secrets,
    pub(crate) changes: Box<dyn Changes>,
    survey: Box<dyn Survey>,
    list: Mutex<Option<Listing>>,
    open: Mutex<Vec<Kept>>,
    ledger: Mutex<Option<(Instant, Arc<Ledger>)>>,
    health: Mutex<HashMap<(PathBuf, u64), &'static str>>,
}

/// Whether the catalog is being brought up to date, and when that ended.
#[derive(Debug, Default)]
struct Reading {
    is_on: bool,
    ended: Option<Instant>,
}

/// A session that stays open.
#[derive(Debug)]
struct Kept {
    key: String,
    stamp: String,
    opened: Arc<Opened>,
    /// What was read of its file, once it has grown.
    growing: Option<GrowingTable>,
    /// Not opened again before that.
    rest: Instant,
}

/// How many sessions stay open.
const OPEN: usize = 2;
/// Up to this size a session is checked before anybody asks.
pub(crate) const SOON_CHECKED: u64 = 20_000_000;
/// How long a list is used before it is made again.
const FRESH: Duration = Duration::from_secs(4);
/// How long the catalog is used before it is brought up to date again.
const CURRENT: Duration = Duration::from_secs(30);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a session in addresses.
pub(crate) fn key_of(path: &Path) -> String {
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    short_hash(&hash)
}

impl Library {
    pub(crate) fn new(serving: Serving) -> Library {
        Library {
            homes: serving.homes,
            named: serving.session,
            catalog: Mutex::default(),
            catalog_path: serving.catalog,
            reading: Mutex::default(),
            redactor: serving.redactor,
            prices: serving.prices,
            secrets: serving.secrets,
            changes: serving.changes,
            survey: serving.survey,
            list: Mutex::default(),
            open: Mutex::default(),
            ledger: Mutex::default(),
            health: Mutex::default(),
        }
    }

    /// Begins to bring the catalog up to date, unless that was done a moment ago. Not before
    /// somebody wants the list: who opens a session does not wait for it. What is there already is
    /// used meanwhile.
    pub(crate) fn want_catalog(self: &Arc<Self>) {
        let Some(path) = &self.catalog_path else { return };
        let mut reading = lock(&self.reading);
        if reading.is_on || reading.ended.is_some_and(|ended| ended.elapsed() < CURRENT) {
            return;
        }
        reading.is_on = true;
        drop(reading);
        let mut catalog = lock(&self.catalog);
        if catalog.is_none() {
            *catalog = Catalog::open_if_there(path).ok().flatten();
        }
        drop(catalog);
        let library = Arc::clone(self);
        // It ends with the program.
        drop(thread::spawn(move || library.read_catalog()));
    }

    /// Whether the catalog is being read: more may be found in a moment.
    pub(crate) fn is_reading(&self) -> bool {
        lock(&self.reading).is_on
    }

    /// Brings the catalog up to date, by another connection than the one that answers. Without a
    /// catalog, searching looks at titles only.
    fn read_catalog(&self) {
        let read = || {
            let mut catalog = Catalog::open(self.catalog_path.as_ref()?).ok()?;
            let work = Work { homes: &self.homes, redactor: &self.redactor, threads: 1 };
            catalog.refresh(&work, &mut |_, _| {}).ok().map(|_| catalog)
        };
        if let Some(catalog) = read() {
            lock(&self.catalog).get_or_insert(catalog);
        }
        // What was listed meanwhile lacks what the catalog knows by now.
        if let Some((made, _)) = &mut *lock(&self.list) {
            *made = None;
        }
        *lock(&self.reading) = Reading { is_on: false, ended: Some(Instant::now()) };
    }

    /// What hides secrets in a text of several sessions, or does not.
    pub(crate) fn mask(&self) -> Mask<'_> {
        match self.secrets {
            Secrets::Shown => Mask::none(),
            Secrets::Redacted => Mask::new(&self.redactor),
        }
    }

    /// What hides the secrets of a session on its pages, or does not.
    pub(crate) fn mask_of<'o>(&self, opened: &'o Opened) -> transcript::Result<Mask<'o>> {
        match self.secrets {
            Secrets::Shown => Ok(Mask::none()),
            Secrets::Redacted => self.cover_of(opened).map(Mask::of),
        }
    }

    /// The secrets of a session.
    pub(crate) fn cover_of<'o>(&self, opened: &'o Opened) -> transcript::Result<&'o Cover> {
        let cover = opened.cover(&*self.survey);
        cover.map_err(|error| io::Error::other(error.to_owned()).into())
    }

    /// A text as pages may show it.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.mask().text(text).into_owned()
    }

    /// What a session is about, as pages may show it.
    fn preview_of(&self, seen: Preview) -> Preview {
        if self.secrets == Secrets::Shown {
            return seen;
        }
        let hide = |text: Option<String>| text.map(|text| self.masked(&text));
        Preview {
            title: hide(seen.title),
            prompt: hide(seen.prompt),
            cwd: hide(seen.cwd),
            branch: hide(seen.branch),
            tag: hide(seen.tag),
            ..seen
        }
    }

    pub(crate) fn with_catalog<T>(&self, work: impl FnOnce(&mut Catalog) -> T) -> Option<T> {
        lock(&self.catalog).as_mut().map(work)
    }

    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.homes.iter().map(root_of).collect()
    }

    /// How a command names a session: by its id, if commands find it by that.
    pub(crate) fn name_of(&self, session: &Session) -> String {
        let is_named = self.named.as_ref().is_some_and(|named| named.path == session.path);
        let is_inside = || self.roots().iter().any(|root| session.path.starts_with(root));
        let is_option = session.id.starts_with('-');
        if is_option || is_named && !is_inside() {
            return shell_word(&session.path.to_string_lossy());
        }
        shell_word(&session.id)
    }

    /// All sessions, newest first.
    pub(crate) fn list(&self) -> Arc<Vec<Listed>> {
        if let Some((made, list)) = &*lock(&self.list)
            && made.is_some_and(|made| made.elapsed() < FRESH)
        {
            return Arc::clone(list);
        }
        let list = Arc::new(self.listed());
        *lock(&self.list) = Some((Some(Instant::now()), Arc::clone(&list)));
        list
    }

    fn listed(&self) -> Vec<Listed> {
        let mut sessions: Vec<Session> =
            self.homes.iter().flat_map(|home| home.list().sessions).collect();
        if let Some(named) = &self.named
            && !sessions.iter().any(|one| one.path == named.path)
        {
            sessions.push(named.clone());
        }
        // What has not changed since the last list is not read again.
        let before: HashMap<PathBuf, Listed> =
            lock(&self.list).as_ref().map_or_else(HashMap::new, |(_, list)| {
                list.iter().map(|one| (one.path.clone(), one.clone())).collect()
            });
        let mut all = Vec::with_capacity(sessions.len());
        let look = |at: usize| {
            let session = &sessions[at];
            let same = before.get(&session.path);
            let same =
                same.filter(|one| one.size == session.size && one.modified == session.modified);
            let read = || self.preview_of(preview(&session.path).unwrap_or_default());
            same.map_or_else(read, |one| one.seen.clone())
        };
        let Ok(()) = threads::in_order(sessions.len(), threads::count(), look, |at, seen| {
            let session = &sessions[at];
            all.push(Listed {
                key: key_of(&session.path),
                id: session.id.to_string(),
                path: session.path.clone(),
                project: seen.cwd.clone().unwrap_or_else(|| self.masked(&session.project)),
                size: session.size,
                modified: session.modified,
                seen,
                is_deleted: false,
            });
            Ok::<(), std::convert::Infallible>(())
        });
        let roots = self.roots();
        let known = self.with_catalog(|catalog| catalog.sessions(&roots).unwrap_or_default());
        for one in known.into_iter().flatten().filter(|one| one.is_deleted) {
            let seen = self.preview_of(one.seen);
            let project = || self.masked(&one.project.display().to_string());
            all.push(Listed {
                key: key_of(&one.path),
                id: one.id,
                path: one.path,
                project: seen.cwd.clone().unwrap_or_else(project),
                size: one.size,
                modified: one.modified,
                seen,
                is_deleted: true,
            });
        }
        all.sort_by(|one, other| {
            let key = |one: &Listed| (one.size == 0, std::cmp::Reverse(one.modified));
            key(one).cmp(&key(other)).then_with(|| one.path.cmp(&other.path))
        });
        all
    }

    /// What a session was before a change, by its name in addresses.
    fn earlier(&self, now: &Session, change: &str) -> Option<Earlier> {
        self.changes.before(&now.path).into_iter().find(|before| before.name == change)
    }

    /// Which state of a session a name in addresses means, in words.
    pub(crate) fn state_of(&self, key: &str) -> String {
        let found = parted(key).and_then(|(key, name)| self.earlier(&self.session(key)?, name));
        found.map_or_else(
            || "as it is now".to_owned(),
            |one| format!("before {}, {}", one.what, local(one.time, "%Y-%m-%d %H:%M")),
        )
    }

    fn session(&self, key: &str) -> Option<Session> {
        if let Some((key, change)) = parted(key) {
            let now = self.session(key)?;
            let before = self.earlier(&now, change)?;
            let kept = Session::at(&before.path).ok()?;
            return Some(Session { id: now.id, project: now.project, ..kept });
        }
        if let Some(named) = self.named.as_ref().filter(|named| key_of(&named.path) == key) {
            return Session::at(&named.path).ok();
        }
        let list = self.list();
        let one = list.iter().find(|one| one.key == key && !one.is_deleted)?;
        Session::at(&one.path).ok()
    }

    /// The session of that key, or of an id that begins like that.
    pub(crate) fn find(&self, name: &str) -> Option<String> {
        if parted(name).is_some() {
            return self.session(name).map(|_| name.to_owned());
        }
        let list = self.list();
        let one = list.iter().find(|one| !one.is_deleted && (one.key == name || one.id == name));
        let begins = |one: &&Listed| !one.is_deleted && name.len() >= 4 && one.id.starts_with(name);
        one.or_else(|| list.iter().find(begins)).map(|one| one.key.clone())
    }

    /// The session of an id.
    pub(crate) fn key_of_id(&self, id: &str) -> Option<String> {
        let list = self.list();
        let one = list.iter().find(|one| !one.is_deleted && one.id == id);
        one.map(|one| one.key.clone())
    }

    /// A session; opened again if its files have changed.
    pub(crate) fn open(&self, key: &str) -> Option<transcript::Result<(String, Arc<Opened>)>> {
        let mut open = lock(&self.open);
        let known = open.iter().position(|kept| kept.key == key);
        let known = known.map(|at| open.remove(at));
        if let Some(kept) = &known
            && Instant::now() < kept.rest
        {
            let found = (kept.stamp.clone(), Arc::clone(&kept.opened));
            open.extend(known);
            return Some(Ok(found));
        }
        let session = match &known {
            Some(kept) if parted(key).is_none() => Session::at(&kept.opened.session.path).ok()?,
            _ => self.session(key)?,
        };
        let stamp = stamp(&session);
        let begin = Instant::now();
        let (opened, growing) = match known {
            Some(kept) if kept.stamp == stamp => (kept.opened, kept.growing),
            known => {
                // Another may be freed before this one is read.
                while open.len() >= OPEN {
                    drop(open.remove(0));
                }
                let mut growing = known.map(|kept| kept.growing.unwrap_or_default());
                let opened = match &mut growing {
                    None => Opened::open(session),
                    Some(growing) => Opened::open_again(session, growing),
                };
                match opened {
                    Ok(opened) => {
                        if self.secrets == Secrets::Redacted {
                            // Part of what opening takes. If it fails, its pages say why.
                            let _ = self.cover_of(&opened);
                        }
                        (Arc::new(opened), growing)
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        let took = begin.elapsed().max(Duration::from_millis(100));
        let (key, rest) = (key.to_owned(), Instant::now() + took * 4);
        let kept = Kept { key, stamp: stamp.clone(), opened: Arc::clone(&opened), growing, rest };
        open.push(kept);
        Some(Ok((stamp, opened)))
    }

    /// All messages of the API.
    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        let mut kept = lock(&self.ledger);
        if let Some((made, ledger)) = &*kept
            && made.elapsed() < Duration::from_secs(30)
        {
            return Arc::clone(ledger);
        }
        let threads = threads::count();
        let known = self.with_catalog(|catalog| catalog.current_ledger(&self.homes, threads).ok());
        let ledger = known.flatten().unwrap_or_else(|| Ledger::of_homes(&self.homes, threads));
        let ledger = Arc::new(ledger);
        *kept = Some((Instant::now(), Arc::clone(&ledger)));
        ledger
    }

    /// Whether a session resumes, in a word; nothing for sessions that would take long.
    pub(crate) fn health(&self, key: &str) -> Option<&'static str> {
        let session = self.session(key)?;
        let name = (session.path.clone(), session.size);
        if let Some(known) = lock(&self.health).get(&name) {
            return Some(known);
        }
        if session.size > SOON_CHECKED {
            return None;
        }
        let agents = agents(&session);
        let checked = check_unsearched(&session, agents, Rules::newest()).ok()?;
        let word = checked.report.verdict.name();
        lock(&self.health).insert(name, word);
        Some(word)
    }
}

/// What changes when one of the files of a session does.
fn stamp(session: &Session) -> String {
    let mut hash = Sha256::new();
    let mut add = |path: &Path| {
        if let Ok(found) = files::metadata(path) {
            let modified = found.modified().ok();
            let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(found.len().to_le_bytes());
            hash.update(since.unwrap_or_default().as_nanos().to_le_bytes());
        }
    };
    add(&session.path);
    for agent in agents(session) {
        add(&agent.path);
    }
    short_hash(&hash.finalize())
}

/// The beginning of a hash, in digits.
fn short_hash(hash: &[u8]) -> String {
    let start = hash.iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{start:016x}")
}
