//! Everything that the program takes from its surroundings, in one place.
//!
//! Created once, in `main`, and passed to commands. Tests run the binary in surroundings of their
//! own.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use export::receiver::ShipConfig;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::{Home, HomeError, Listed, Session};
use transcript::format::secret::Redactor;
use workshop::Workshop;

use crate::config::{Config, LakeConfig, SnapshotsConfig, split_homes};
use crate::failure::Failure;
use crate::global::{Color, Global};
use crate::handover::Handed;
use crate::out::Out;
use crate::pager::Choice;
use crate::redact::{self, RedactConfig};
use crate::samples;
use crate::screen;
use crate::text::quoted;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) out: Out,
    pub(crate) cwd: PathBuf,
    /// The command that shows long output.
    pager: Choice,
    pub(crate) now: SystemTime,
    /// Where homes may be.
    looked: Vec<PathBuf>,
    /// Where `looked` comes from.
    named_by: NamedBy,
    found: Option<Homes>,
    /// The folder for the program's own state.
    state: Option<PathBuf>,
    /// The receiver of traces in the configuration.
    ship: ShipConfig,
    /// What images of folders may cost, and how long they are kept.
    pub(crate) snapshots: SnapshotsConfig,
    /// Where sessions are changed.
    pub(crate) workshop: Workshop,
    /// Finds secrets, and by which configuration.
    redactor: Arc<Redactor>,
    redact: RedactConfig,
    lake: LakeConfig,
    user: Option<PathBuf>,
    /// The folders that a shell looks for programs in.
    programs: Vec<PathBuf>,
    /// The id that tests want a new session to have.
    id: Option<String>,
    /// Variables that were removed from the environment.
    handed: Handed,
}

/// Where the list of homes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Flags,
    Environment,
    Configuration,
    /// None of these: the places where homes usually are.
    Default,
}

impl NamedBy {
    fn words(self) -> &'static str {
        match self {
            NamedBy::Flags => "`--home`",
            NamedBy::Environment => "`CLAUDE_CONFIG_DIR`",
            NamedBy::Configuration => "`homes` in the configuration",
            NamedBy::Default => "default",
        }
    }
}

/// The client's config folders.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    pub(crate) list: Vec<Home>,
    /// There is no home; the bundled sample sessions replace it.
    pub(crate) samples: bool,
}

impl World {
    pub(crate) fn new(global: &Global, handed: Handed) -> Result<Self, Failure> {
        let config = load_config()?;
        let redactor = Arc::new(redact::redactor(&config.redact)?);
        let silent = env("NO_COLOR").filter(|value| !value.is_empty()).map(|_| Color::Never);
        let color = global.color.or(silent).or(config.color).unwrap_or(Color::Auto);
        let (looked, named_by) = home_folders(global, &config);
        let (now, state) = (now(), state_folder().map(|folder| folder.join("quipu")));
        let workshop = Workshop::new(state.clone(), config.undo.bounds(), now);
        Ok(World {
            out: Out::new(color, env("COLUMNS").and_then(|text| text.parse().ok())),
            pager: Choice { command: pager(global), has_less_options: env("LESS").is_some() },
            cwd: std::env::current_dir().unwrap_or_default(),
            now,
            looked,
            named_by,
            found: None,
            user: user_home(),
            programs: programs(),
            id: env("QUIPU_ID"),
            state,
            ship: config.ship,
            snapshots: config.snapshots,
            workshop,
            handed,
            redactor,
            redact: config.redact,
            lake: config.lake,
        })
    }

    /// Whether the terminal can show a screen.
    #[allow(clippy::unused_self, reason = "callers need a `World` to read the environment")]
    pub(crate) fn has_screen(&self) -> bool {
        has_screen()
    }

    /// The folders that a shell looks for programs in.
    pub(crate) fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// The homes that exist. They are looked for when they are first needed: a path that the user
    /// gives needs none. Samples replace them only in a terminal, where a person tries the program:
    /// a program must read what it asked for.
    pub(crate) fn homes(&mut self) -> Result<Homes, Failure> {
        if self.found.is_none() {
            for folder in self.found()?.list.iter().flat_map(Home::unreadable) {
                self.out.note(&format!("cannot read the folder `{}`", folder.display()))?;
            }
        }
        self.found()
    }

    /// Like [`World::homes`], for those who list no sessions: says nothing of projects that cannot
    /// be read.
    pub(crate) fn found(&mut self) -> Result<Homes, Failure> {
        if let Some(found) = &self.found {
            return Ok(found.clone());
        }
        let (mut list, mut missing) = (Vec::new(), Vec::new());
        for root in &once(self.looked.clone()) {
            match Home::open(root) {
                Ok(home) => list.push(home),
                Err(HomeError::Missing { .. }) if self.named_by == NamedBy::Default => {
                    missing.push(format!("`{}`", root.display()));
                }
                // A home that the user names must exist.
                Err(error) => return Err(Failure::home(error, self.named_by.words())),
            }
        }
        let samples = list.is_empty();
        if samples {
            let looked = if missing.is_empty() {
                "the user has no home folder".to_owned()
            } else {
                format!("looked for {}", missing.join(", "))
            };
            if !self.out.is_terminal() {
                return Err(Failure::no_home(&looked));
            }
            let folder = samples::unpack(cache_folder().as_deref())
                .map_err(|(path, error)| Failure::unwritable(&path, error))?;
            let text = "no Claude home found: these are sample sessions (`--home` selects a home)";
            self.out.note(text)?;
            list = vec![Home { root: folder }];
        }
        Ok(self.found.insert(Homes { list, samples }).clone())
    }

    /// The file of the catalog.
    #[allow(clippy::unused_self, reason = "callers need a `World` to ask about surroundings")]
    pub(crate) fn catalog_file(&self) -> Result<PathBuf, Failure> {
        let folder = cache_folder().ok_or_else(|| {
            let hint = "set HOME or XDG_CACHE_HOME, or name a file with `--catalog`";
            Failure::usage("there is no cache folder for the catalog", Some(hint))
        })?;
        Ok(folder.join("quipu").join("catalog.sqlite"))
    }

    /// Sends all further output through the user's pager, if it goes to a terminal.
    pub(crate) fn page(&mut self) -> Result<(), Failure> {
        Ok(self.out.page(&self.pager)?)
    }

    /// The command that uses the same homes again.
    pub(crate) fn again(&self) -> String {
        let flags = self.looked.iter().filter(|_| self.named_by == NamedBy::Flags);
        flags.fold("quipu".to_owned(), |text, home| {
            format!("{text} --home {}", quoted(&home.display().to_string()))
        })
    }

    /// The command that uses only the settings of that home.
    pub(crate) fn reaching(&self, home: &Path) -> String {
        let is_plain = self.named_by != NamedBy::Flags && home == self.first_home().0;
        let flag = || format!("quipu --home {}", quoted(&home.display().to_string()));
        if is_plain { "quipu".to_owned() } else { flag() }
    }

    /// All sessions, in no particular order.
    pub(crate) fn sessions(&mut self) -> Result<Vec<Session>, Failure> {
        let mut all = Listed::default();
        for home in self.homes()?.list {
            all.merge(home.list());
        }
        self.listed(all)
    }

    /// Reports files that are named like sessions and cannot be read, and returns the sessions.
    pub(crate) fn listed(&mut self, found: Listed) -> Result<Vec<Session>, Failure> {
        for error in &found.unreadable {
            self.out.note(&error.to_string())?;
        }
        Ok(found.sessions)
    }

    /// Reports sub-agents that are missing because their files cannot be read.
    pub(crate) fn agents_unreadable(&mut self, family: &WithAgents) -> Result<(), Failure> {
        for error in &family.unreadable {
            self.out.note(&error.to_string())?;
        }
        Ok(())
    }

    /// A variable that is set and not empty, in the environment or removed from it before.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = self.handed.get(name).or_else(|| env(name));
        value.filter(|value| !value.is_empty())
    }

    /// Whether the sample sessions replace a home.
    pub(crate) fn has_samples(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.samples)
    }

    /// The home where new sessions are created, and the user's home folder.
    pub(crate) fn first_home(&self) -> (PathBuf, Option<&Path>) {
        let usual = || self.user.as_ref().map(|user| user.join(".claude")).unwrap_or_default();
        // Of the two usual places, clients write to this one.
        let named = self.looked.first().filter(|_| self.named_by != NamedBy::Default);
        (named.cloned().unwrap_or_else(usual), self.user.as_deref())
    }

    /// The homes whose settings are changed: those given by flags, else the one where new sessions
    /// are created. They need not exist.
    pub(crate) fn settings_homes(&self) -> Result<Vec<PathBuf>, Failure> {
        let homes = match self.named_by {
            NamedBy::Flags => self.looked.clone(),
            _ => vec![self.first_home().0],
        };
        if homes.iter().any(|home| home.as_os_str().is_empty()) {
            let hint = "set `HOME`, or use `--home`";
            return Err(Failure::usage("cannot determine the settings folder", Some(hint)));
        }
        Ok(once(homes))
    }

    /// Whether the user named homes for this run only.
    pub(crate) fn has_home_flags(&self) -> bool {
        self.named_by == NamedBy::Flags
    }

    /// All known homes: those of `settings_homes`, all others that are named, and the usual ones
    /// that exist.
    pub(crate) fn known_homes(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut homes = self.settings_homes()?;
        let is_known = |home: &&PathBuf| self.named_by != NamedBy::Default || home.is_dir();
        homes.extend(self.looked.iter().filter(is_known).cloned());
        Ok(once(homes))
    }

    /// The path of this program.
    #[allow(clippy::unused_self, reason = "callers need a `World` to ask about surroundings")]
    pub(crate) fn program(&self) -> Result<String, Failure> {
        let path = std::env::current_exe().ok().filter(|path| path.is_file());
        // A shell runs this path as part of a command, so it must be text.
        path.and_then(|path| path.into_os_string().into_string().ok()).ok_or_else(|| {
            let hint = "start it by a path that exists and is UTF-8";
            Failure::usage("the path of this program is unknown", Some(hint))
        })
    }

    /// The fixed time that tests set, in milliseconds.
    pub(crate) fn stopped(&self) -> Option<i64> {
        self.variable("QUIPU_NOW")?;
        i64::try_from(self.now.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }

    /// A new id for a session.
    pub(crate) fn new_id(&self) -> String {
        self.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
    }

    /// The id of a second new session.
    pub(crate) fn second_id(&self) -> String {
        // Tests give one id.
        let made = self.id.as_ref().map(|id| id.replacen('0', "f", 1));
        made.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
    }

    /// The user's editor, as a command for the shell.
    #[allow(clippy::unused_self, reason = "callers need a `World` to ask about surroundings")]
    pub(crate) fn editor(&self) -> Option<String> {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let usual = || has_screen().then(|| "vi".to_owned());
        set("VISUAL").or_else(|| set("EDITOR")).or_else(usual)
    }

    /// A new file for something that the user edits.
    pub(crate) fn draft(&self, name: &str) -> Result<PathBuf, Failure> {
        let chance = uuid::Uuid::new_v4().simple().to_string();
        Ok(self.remembered("drafts")?.join(format!("{name}-{}.txt", &chance[..12])))
    }

    /// The folder of the journal.
    pub(crate) fn journal_folder(&self) -> PathBuf {
        self.remembered("undo").unwrap_or_default()
    }

    /// The folder of images of the folders that agents work in.
    pub(crate) fn snapshots_folder(&self) -> Result<PathBuf, Failure> {
        self.remembered("snapshots")
    }

    /// The folder with the state of receivers.
    pub(crate) fn ship_folder(&self) -> Result<PathBuf, Failure> {
        self.remembered("ship")
    }

    /// The receiver in the configuration.
    pub(crate) fn ship_config(&self) -> &ShipConfig {
        &self.ship
    }

    /// The folder with what was pushed to lakes.
    pub(crate) fn lake_folder(&self) -> Result<PathBuf, Failure> {
        self.remembered("lake")
    }

    /// `[lake]` in the configuration.
    pub(crate) fn lake_config(&self) -> &LakeConfig {
        &self.lake
    }

    /// The variables whose names begin with one of these.
    #[allow(clippy::unused_self, reason = "callers need a `World` to read the environment")]
    pub(crate) fn variables(&self, starts: &[&str]) -> BTreeMap<String, String> {
        let named = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let value = value.into_string().ok()?;
            starts.iter().any(|start| name.starts_with(start)).then_some((name, value))
        });
        named.collect()
    }

    /// A file beside the program's configuration.
    #[allow(clippy::unused_self, reason = "callers need a `World` to read the environment")]
    pub(crate) fn config_file(&self, name: &str) -> Result<PathBuf, Failure> {
        let Some(folder) = config_folder() else {
            let hint = "set `HOME`, or `XDG_CONFIG_HOME`";
            return Err(Failure::usage("cannot determine the configuration folder", Some(hint)));
        };
        Ok(folder.join("quipu").join(name))
    }

    /// The file with the key that seals what is kept beside sessions.
    pub(crate) fn seal_file(&self) -> Result<PathBuf, Failure> {
        self.remembered("seal")
    }

    /// Finds secrets: the known kinds, and those that the configuration adds.
    pub(crate) fn redactor(&self) -> Arc<Redactor> {
        self.redactor.clone()
    }

    /// `[redact]` in the configuration.
    pub(crate) fn redact_config(&self) -> &RedactConfig {
        &self.redact
    }

    fn remembered(&self, name: &str) -> Result<PathBuf, Failure> {
        let Some(folder) = &self.state else {
            let hint = "set `HOME`, or `XDG_STATE_HOME`";
            return Err(Failure::usage("cannot determine the state folder", Some(hint)));
        };
        Ok(folder.join(name))
    }

    /// Whether the client uses this home by default.
    pub(crate) fn is_usual_home(&self, root: &Path) -> bool {
        self.user.as_ref().is_some_and(|user| root == user.join(".claude"))
    }

    /// The current time; work in the background may take long.
    #[allow(clippy::unused_self, reason = "callers need a `World` to read the clock")]
    pub(crate) fn clock(&self) -> SystemTime {
        now()
    }

    /// How long ago a moment was.
    pub(crate) fn since(&self, moment: SystemTime) -> Duration {
        self.now.duration_since(moment).unwrap_or_default()
    }
}

/// Where homes may be, by the first of these that is set: flags, environment, configuration file;
/// else the usual places.
fn home_folders(global: &Global, config: &Config) -> (Vec<PathBuf>, NamedBy) {
    if !global.home.is_empty() {
        return (global.home.clone(), NamedBy::Flags);
    }
    if let Some(named) = env("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty()) {
        return (split_homes(&named), NamedBy::Environment);
    }
    if !config.homes.is_empty() {
        // Expands `~`, as a shell would.
        let expand = |home: &PathBuf| match (home.strip_prefix("~"), user_home()) {
            (Ok(below), Some(user)) => user.join(below),
            _ => home.clone(),
        };
        return (config.homes.iter().map(expand).collect(), NamedBy::Configuration);
    }
    let usual = user_home().map(|user| Home::usual(&user).to_vec()).unwrap_or_default();
    (usual, NamedBy::Default)
}

/// Folders without duplicates: two paths may lead to the same folder.
fn once(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut real = HashSet::new();
    let name = |folder: &PathBuf| fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
    folders.retain(|folder| real.insert(name(folder)));
    folders
}

/// The maximum size of the configuration file, in bytes.
const LONGEST_CONFIG: u64 = 1 << 20;

fn load_config() -> Result<Config, Failure> {
    let Some(path) = config_folder().map(|folder| folder.join("quipu").join("config.toml")) else {
        return Ok(Config::default());
    };
    match files::read_text(&path, LONGEST_CONFIG) {
        Ok(text) => Config::parse(&text, &path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(Failure::unreadable(&path, error)),
    }
}

fn config_folder() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", "APPDATA", "Library/Application Support", ".config")
}

fn state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", "LOCALAPPDATA", "Library/Application Support", ".local/state")
}

fn cache_folder() -> Option<PathBuf> {
    user_folder("XDG_CACHE_HOME", "LOCALAPPDATA", "Library/Caches", ".cache")
}

/// A folder for the user's own files, by the conventions of the system.
fn user_folder(variable: &str, windows: &str, mac: &str, other: &str) -> Option<PathBuf> {
    let named = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return named(windows);
    }
    let custom = if cfg!(target_os = "macos") { mac } else { other };
    named(variable).or_else(|| Some(user_home()?.join(custom)))
}

fn user_home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The pager that the user names; else `less`, if it is installed.
fn pager(global: &Global) -> String {
    // Such a terminal cannot show one.
    if global.no_pager || env("TERM").is_some_and(|name| name == "dumb") {
        return String::new();
    }
    let named = env("QUIPU_PAGER").or_else(|| env("PAGER"));
    named.unwrap_or_else(|| {
        if programs().iter().any(|folder| folder.join("less").is_file()) {
            "less".to_owned()
        } else {
            String::new()
        }
    })
}

/// Whether keys come from a terminal that shows a screen on stderr.
pub(crate) fn has_screen() -> bool {
    screen::is_possible(env("TERM").as_deref())
}

fn programs() -> Vec<PathBuf> {
    std::env::split_paths(&env("PATH").unwrap_or_default()).collect()
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn env(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The clock, or `QUIPU_NOW` in seconds, with which tests fix the time.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn now() -> SystemTime {
    let stopped = env("QUIPU_NOW").and_then(|value| value.parse().ok());
    stopped.map_or_else(SystemTime::now, |seconds| UNIX_EPOCH + Duration::from_secs(seconds))
}
