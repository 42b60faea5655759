//! What holds the commands of a session: from its folders, mode and settings to what the sandbox is
//! given.
//!
//! Invariants: what a command may write is the session's folders and a temporary one, in plan mode
//! only the latter; what is on the list of `data/hidden.txt`, and where Quipu and Claude Code keep
//! their files, is hidden in every mode; a file that later decides what programs do is read-only,
//! and one that appears is taken away.

mod beneath;
mod keep;
mod repository;
mod survey;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sandbox::{Layers, Limits, Metadata, Network, Probe, Sockets, Spec};

use keep::Sight;

pub(crate) use keep::Kept;
pub use keep::Taken;
pub(crate) use repository::runs_nothing;
pub(crate) use survey::Survey;
use survey::View;

use crate::permit::{Mode, real};

/// Paths that commands never see.
const HIDDEN: &str = include_str!("../data/hidden.txt");
/// Variables that commands never see.
const SECRET: [&str; 27] = [
    "MYSQL_PWD",
    "PGPASSWORD",
    "REDISCLI_AUTH",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "CLOUDFLARE_API_TOKEN",
    "HCLOUD_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GITLAB_TOKEN",
    "NPM_TOKEN",
    "NODE_AUTH_TOKEN",
    "CARGO_REGISTRY_TOKEN",
    "PYPI_TOKEN",
    "TWINE_PASSWORD",
    "DOCKER_AUTH_CONFIG",
    "OPENAI_API_KEY",
    "HF_TOKEN",
    "SLACK_TOKEN",
];
/// How the names of others end, unless settings set them. The word alone counts, too.
const SECRET_ENDINGS: [&str; 13] = [
    "_ACCESS_KEY",
    "_API_KEY",
    "_APIKEY",
    "_CREDENTIALS",
    "_PASS",
    "_PASSPHRASE",
    "_PASSWD",
    "_PASSWORD",
    "_PAT",
    "_PRIVATE_KEY",
    "_SECRET",
    "_SECRET_KEY",
    "_TOKEN",
];
/// Variables that say where something is that is usually elsewhere.
const MOVED: [(&str, &str); 17] = [
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AZURE_CONFIG_DIR", "~/.azure"),
    ("CARGO_HOME", "~/.cargo"),
    ("CLOUDSDK_CONFIG", "~/.config/gcloud"),
    ("DOCKER_CONFIG", "~/.docker"),
    ("GH_CONFIG_DIR", "~/.config/gh"),
    ("GNUPGHOME", "~/.gnupg"),
    ("HF_HOME", "~/.cache/huggingface"),
    ("KUBECONFIG", "~/.kube/config"),
    ("NETRC", "~/.netrc"),
    ("NPM_CONFIG_USERCONFIG", "~/.npmrc"),
    ("PGPASSFILE", "~/.pgpass"),
    ("XDG_CACHE_HOME", "~/.cache"),
    ("XDG_CONFIG_HOME", "~/.config"),
    ("XDG_DATA_HOME", "~/.local/share"),
    ("npm_config_userconfig", "~/.npmrc"),
];
/// Where tools keep what they could get again: in the session's temporary folder.
const CACHES: [(&str, &str); 8] = [
    ("XDG_CACHE_HOME", "cache"),
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("GOCACHE", "go-build"),
    ("PYTHONPYCACHEPREFIX", "pycache"),
    ("RUFF_CACHE_DIR", "ruff"),
];

/// How deep sensitive files may be that are mounted, and how many. Of others, copies are taken.
const MOUNTED_DEPTH: usize = 3;
const MOUNTED: usize = 200;
/// Of how many files that fit a rule commands are kept away.
const CLOSED: usize = 2_000;

/// How much of a sandbox the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxWish {
    /// As much as the kernel can enforce.
    #[default]
    On,
    /// All of it, or the session does not begin.
    Require,
    /// None.
    Off,
}

impl SandboxWish {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            SandboxWish::On => "on",
            SandboxWish::Require => "require",
            SandboxWish::Off => "off",
        }
    }
}

/// What the kernel enforces, once that has been found out.
#[derive(Debug, Default)]
pub struct Probed {
    probe: Mutex<Option<Probe>>,
    found: OnceLock<Layers>,
}

impl Probed {
    pub(crate) fn new(probe: Probe) -> Probed {
        Probed { probe: Mutex::new(Some(probe)), found: OnceLock::new() }
    }

    /// Waits until it has been found out.
    pub(crate) fn get(&self) -> &Layers {
        self.found.get_or_init(|| {
            let probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner).take();
            probe.map(Probe::layers).unwrap_or_default()
        })
    }

    /// What is not enforced, in words; None if everything is.
    pub(crate) fn gaps(&self) -> Option<String> {
        let words: Vec<&str> = self.get().gaps().into_iter().map(sandbox::Gap::in_words).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// What commands may reach in this mode, if somebody has said so for all modes.
pub(crate) fn network_in(always: Option<Network>, mode: Mode) -> Network {
    always.unwrap_or(if mode == Mode::Bypass { Network::On } else { Network::Off })
}

/// What holds commands.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// What the kernel enforces.
    pub layers: Arc<Probed>,
    /// What commands neither read nor write.
    pub hidden: Vec<PathBuf>,
    /// What is hidden as soon as it exists.
    pub(crate) hidden_later: Vec<PathBuf>,
    /// What they may write in addition.
    pub writable: Vec<PathBuf>,
    /// What they may not write in addition.
    pub protected: Vec<PathBuf>,
    /// What they may use up.
    pub limits: Limits,
    /// Whether they may use sockets of other programs.
    pub sockets: Sockets,
    /// Whether the network is on, off, or as the mode says.
    pub network: Option<Network>,
    /// Variables that they do not see, in addition.
    pub removed: Vec<String>,
    /// Whether a command may be offered again outside.
    pub may_leave: bool,
    /// The control group in which those of commands are made.
    pub group: Option<PathBuf>,
    /// What is known of the session's folders.
    pub(crate) survey: Arc<Mutex<Survey>>,
}

/// Where a command runs, and what it needs there.
#[derive(Debug)]
pub(crate) struct Spot<'a> {
    /// Where it starts.
    pub(crate) cwd: &'a Path,
    /// Its temporary folder.
    pub(crate) temp: &'a Path,
    /// An empty folder for the sandbox.
    pub(crate) blank: &'a Path,
    /// Where files go that are taken away.
    pub(crate) aside: PathBuf,
    /// The files that its shell writes.
    pub(crate) files: Vec<PathBuf>,
}

impl Guard {
    /// Whether the kernel enforces everything.
    pub fn holds(&self) -> bool {
        self.layers.gaps().is_none()
    }

    /// Whether a path is hidden, contains something that is, or shows what other programs know.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let is_near = |hidden: &PathBuf| path.starts_with(hidden) || hidden.starts_with(path);
        let of_process = path.strip_prefix("/proc").ok().and_then(|rest| rest.iter().next());
        let is_process = |name: &std::ffi::OsStr| {
            let name = name.to_string_lossy();
            name == "self"
                || name == "thread-self"
                || name.bytes().all(|byte| byte.is_ascii_digit())
        };
        self.hidden.iter().any(is_near) || of_process.is_some_and(is_process)
    }

    /// Whether commands have the network in this mode.
    pub(crate) fn network_in(&self, mode: Mode) -> Network {
        network_in(self.network, mode)
    }

    /// The specification for a command of a session in these folders, and what is compared after
    /// it.
    pub(crate) fn spec(
        &self,
        folders: &[PathBuf],
        mode: Mode,
        Spot { cwd, temp, blank, aside, files }: Spot<'_>,
    ) -> (Spec, Kept) {
        let mut writable = files;
        writable.push(temp.to_owned());
        let mut protected = Vec::new();
        let mut sight = Sight::default();
        let mut survey = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = mode != Mode::Plan || survey.has_rules();
        let views = folders.iter().filter(|_| looks);
        let views: Vec<View> = views.map(|folder| survey.look(folder)).collect();
        drop(survey);
        let mut hidden = self.hidden_now(folders);
        // A link may lead to what contains a folder of the session.
        let is_near = |path: &PathBuf| folders.iter().any(|folder| folder.starts_with(path));
        let led = |path: &PathBuf| fs::canonicalize(path).ok().filter(|path| !is_near(path));
        hidden.extend(views.iter().flat_map(|view| &view.closed).filter_map(led).take(CLOSED));
        if mode != Mode::Plan {
            let locked = views.iter().flat_map(|view| &view.locked);
            protected.extend(locked.filter_map(led).take(CLOSED));
            for (folder, view) in folders.iter().zip(views) {
                sight.views.push((folder.clone(), view));
                let git = repository::of_worktree(folder);
                // A link cannot be mounted over; it is put back.
                let of_git = git.iter().flat_map(|git| repository::obeyed(git));
                protected.extend(of_git.filter_map(|path| {
                    if path.is_symlink() { fs::canonicalize(path).ok() } else { Some(path) }
                }));
                writable.push(folder.clone());
                writable.extend(git.clone());
                sight.gits.extend(git);
            }
            let found = sight.views.iter().flat_map(|(_, view)| &view.found);
            let near = found.filter(|found| found.depth <= MOUNTED_DEPTH).take(MOUNTED);
            protected.extend(near.flat_map(|found| {
                // A link cannot be mounted over; where it leads is what is obeyed.
                let is_inside =
                    |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
                let target = found.is_link.then(|| fs::canonicalize(&found.path).ok()).flatten();
                let itself = (!found.is_link).then(|| found.path.clone());
                itself.into_iter().chain(target.filter(is_inside))
            }));
            protected.retain(|path| !folders.contains(path));
            writable.extend(self.writable.iter().map(|path| real(path)));
            for path in &self.protected {
                match fs::canonicalize(path) {
                    Ok(path) => protected.push(path),
                    // As soon as it is made, it is taken away.
                    Err(_) => sight.missing.push(real(path)),
                }
            }
            protected.sort();
            protected.dedup();
        }
        let fixed = if self.layers.get().namespaces { protected.clone() } else { Vec::new() };
        let kept = Kept::new(sight, fixed, aside);
        let spec = Spec {
            cwd: cwd.to_owned(),
            writable,
            protected,
            hidden: without_inner(hidden),
            blank: blank.to_owned(),
            network: self.network_in(mode),
            sockets: self.sockets,
            metadata: if mode == Mode::Plan { Metadata::Fixed } else { Metadata::Writable },
            limits: self.limits,
            layers: self.layers.get().clone(),
            ..Spec::default()
        };
        (spec, if mode == Mode::Plan { Kept::default() } else { kept })
    }

    /// What is hidden: what was there when the session began, and what has appeared since.
    fn hidden_now(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let appeared = self.hidden_later.iter().filter_map(|path| fs::canonicalize(path).ok());
        // A folder of the session cannot be hidden from its commands.
        let is_near = |path: &PathBuf| folders.iter().any(|folder| folder.starts_with(path));
        let mut all: Vec<PathBuf> = appeared.filter(|path| !is_near(path)).collect();
        all.extend(self.hidden.iter().cloned());
        without_inner(all)
    }

    /// Looks at the session's folders, so that the first command does not wait for it.
    pub(crate) fn look_around(&self, folders: &[PathBuf]) {
        let mut survey = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in folders {
            survey.look(folder);
        }
    }

    /// The variables that a command sees in addition, and those that it does not see.
    /// What settings set is meant for them.
    pub(crate) fn variables(
        &self,
        temp: &Path,
        settings: &[(String, String)],
    ) -> (Vec<(OsString, OsString)>, Vec<String>) {
        let caches = CACHES.iter().map(|(name, folder)| (*name, temp.join(folder)));
        let more = ["TMPDIR", "TMP", "TEMP"].map(|name| (name, temp.to_owned()));
        let set = caches.chain(more).map(|(name, path)| (name.into(), path.into()));
        let inherited = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let is_set = |name: &str| settings.iter().any(|(known, _)| known == name);
        let inherited = inherited.filter(|name| is_secret(name) && !is_set(name));
        let removed = SECRET.iter().map(|name| (*name).to_owned()).chain(self.removed.clone());
        (set.collect(), removed.chain(inherited).collect())
    }
}

/// The folders that commands may write, of which images are taken: these, and for worktrees those
/// of their repositories. Temporary folders are not among them.
pub(crate) fn image_roots(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = folders.map(|folder| real(&folder)).collect();
    roots.retain(|folder| folder.is_dir());
    let gits: Vec<PathBuf> =
        roots.iter().filter_map(|folder| repository::of_worktree(folder)).collect();
    roots.extend(gits);
    roots
}

/// The paths of the list that exist, with their links followed, and these.
pub fn hidden(home: Option<&Path>, more: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let there = |path: PathBuf| fs::canonicalize(path).ok();
    without_inner(listed(home).chain(more).filter_map(there).collect())
}

/// The paths of the list, whether they exist or not.
pub(crate) fn listed(home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let lines = HIDDEN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(move |line| match line.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(line)),
    })
}

/// Whether the name of a variable says that its value is secret.
fn is_secret(name: &str) -> bool {
    let name = format!("_{}", name.to_ascii_uppercase());
    SECRET_ENDINGS.iter().any(|end| name.ends_with(end))
}

/// The paths of the list where variables say they are.
pub(crate) fn moved(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (name, usual) in MOVED {
        let Some(value) = variable(name).filter(|value| !value.is_empty()) else { continue };
        for place in std::env::split_paths(&value).filter(|place| place.is_absolute()) {
            let lines = HIDDEN.lines().filter(|line| line.starts_with('~')).map(Path::new);
            for line in lines {
                match line.strip_prefix(usual) {
                    Ok(rest) => found.push(place.join(rest)),
                    Err(_) if Path::new(usual).starts_with(line) => found.push(place.clone()),
                    Err(_) => {}
                }
            }
        }
    }
    found
}

/// These paths, each once: what is inside another one is hidden with it.
fn without_inner(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|outer| outer != path && path.starts_with(outer)));
    paths
}

/// Why a session's folder cannot be guarded: the folder, and what it contains or is inside of.
pub fn too_wide(
    folders: &[PathBuf],
    home: Option<&Path>,
    hidden: &[PathBuf],
) -> Option<(PathBuf, PathBuf)> {
    let home = home.map(real);
    for folder in folders.iter().map(|folder| real(folder)) {
        if folder.parent().is_none() {
            return Some((folder.clone(), folder));
        }
        if let Some(home) = home.as_ref().filter(|home| home.starts_with(&folder)) {
            return Some((folder, home.clone()));
        }
        let is_near = |path: &&PathBuf| path.starts_with(&folder) || folder.starts_with(path);
        if let Some(path) = hidden.iter().find(is_near) {
            return Some((folder, path.clone()));
        }
    }
    None
}

/// Signs that the kernel has refused something to a command.
const SIGNS: [&str; 15] = [
    "Device or resource busy",
    "Read-only file system",
    "Operation not permitted",
    "Permission denied",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "getaddrinfo",
    "EAI_AGAIN",
    "EROFS",
    "EACCES",
    "EPERM",
    "Connection refused",
    "Cannot connect to the Docker daemon",
    "Failed to connect",
];

/// Whether the output of a command that failed fits a refusal of the kernel.
pub(crate) fn looks_refused(output: &str) -> bool {
    SIGNS.iter().any(|sign| output.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_variables_move_is_hidden_there() {
        let set = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some("/x".into()),
            "KUBECONFIG" => Some("/k/one:/k/two".into()),
            "CARGO_HOME" => Some("/c".into()),
            "GNUPGHOME" => Some("relative".into()),
            _ => None,
        };
        let found = moved(set);
        for path in ["/x/gh", "/x/gcloud", "/k/one", "/k/two", "/c/credentials.toml"] {
            assert!(found.iter().any(|found| found == Path::new(path)), "{path}: {found:?}");
        }
        for path in ["/x", "/c", "/k", "relative"] {
            assert!(!found.iter().any(|found| found == Path::new(path)), "{path}: {found:?}");
        }
    }

    #[test]
    fn names_say_what_is_secret() {
        for name in ["VAULT_TOKEN", "MY_API_KEY", "STRIPE_SECRET_KEY", "db_password", "TOKEN"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["GITHUB_PAT", "S3_ACCESS_KEY", "apikey", "DEPLOY_PRIVATE_KEY"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "TOKENIZERS_PARALLELISM", "OLDPWD", "COMPASS", "PASSENGER_ROOT"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
