//! What holds the commands of a session: what the user and settings want, as far as the kernel can.
//!
//! Invariants: a sandbox that is wanted is never silently missing; settings that restrict count
//! from every source, those that grant only from the user and the administrator.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rules::{Pattern, Place};
use sandbox::{Limits, Network, Probe, Sockets};

use super::{Folders, Prepared};
use crate::context;
use crate::guard::{
    Guard, Probed, SandboxWish, Survey, hidden, listed, moved, network_in, too_wide,
};
use crate::permit::real;
use crate::settings::Environment;
use crate::shell::Shells;
use crate::trust::Trust;

/// What the user wants of the sandbox.
#[derive(Clone, Debug, Default)]
pub struct SandboxWishes {
    /// How much of it.
    pub wish: SandboxWish,
    /// What commands may use up; None for the usual.
    pub limits: Option<Limits>,
    /// Whether commands have the network, in every mode.
    pub network: Option<Network>,
    /// Folders of Quipu that commands never see.
    pub hidden: Vec<PathBuf>,
}

/// Why commands cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A folder is too wide.
    #[error("`{}` cannot be sandboxed: it is `/` or the home folder, or `{}`, which is hidden from commands, is near it", folder.display(), hidden.display())]
    TooWide {
        /// The folder of the session.
        folder: PathBuf,
        /// What it contains, or is inside of.
        hidden: PathBuf,
    },
    /// The kernel enforces less than the user requires.
    #[error("the sandbox is required, and not complete here: {0}")]
    Incomplete(String),
}

impl Prepared {
    /// The repository around the session's folder, if the user trusts it.
    pub(super) fn trusted_repository(&self) -> Option<PathBuf> {
        let is_trusted = self.standing.repository == Trust::Trusted;
        let found = context::repository(&self.config.folders.cwd).filter(|_| is_trusted);
        found.map(PathBuf::from)
    }

    /// Begins to find out what the kernel can enforce, unless nobody wants that.
    pub(super) fn probe(&self, shells: &Shells) -> Option<Probe> {
        let is_required =
            self.config.sandbox.wish == SandboxWish::Require || self.settings.sandbox.is_required;
        if self.config.sandbox.wish == SandboxWish::Off && !is_required {
            return None;
        }
        // Without it, nothing can be found out, and that is reported.
        Some(shells.probe(network_in(self.network(), self.permit.mode)).unwrap_or_default())
    }

    /// Whether commands have the network, if the user or the settings say.
    fn network(&self) -> Option<Network> {
        let by_settings = self.settings.sandbox.network;
        let by_settings = by_settings.map(|is_on| if is_on { Network::On } else { Network::Off });
        // A list of domains closes it, whatever the user wants.
        let closed = by_settings.filter(|network| *network == Network::Off);
        closed.or(self.config.sandbox.network).or(by_settings)
    }

    /// What holds the commands of the session; None without a sandbox.
    pub(super) fn guard(
        &self,
        folders: &[PathBuf],
        probe: Option<Probe>,
        environment: &dyn Environment,
    ) -> Result<Option<Guard>, GuardError> {
        let (wishes, settings) = (&self.config.sandbox, &self.settings.sandbox);
        let is_required = wishes.wish == SandboxWish::Require || settings.is_required;
        let Some(probe) = probe else { return Ok(None) };
        let Folders { home, user, .. } = &self.config.folders;
        let more = wishes.hidden.iter().chain([home]).cloned();
        let always = hidden(user.as_deref(), more);
        if let Some((folder, hidden)) = too_wide(folders, user.as_deref(), &always) {
            return Err(GuardError::TooWide { folder, hidden });
        }
        let place = Place {
            cwd: &self.config.folders.cwd,
            root: &self.config.folders.cwd,
            folders,
            readable: &[],
            home: user.as_deref(),
            real: &real,
            fitting: &|_| None,
            is_sensitive: &|_| false,
            has_other_names: &|_| false,
            runs_nothing: &|_| false,
            hold: None,
        };
        // What rules deny to the tools, commands cannot do either.
        let unread = self.permit.book.denied_paths("Read", &place);
        let book = &self.permit.book;
        let changing = ["Edit", "Write", "NotebookEdit"];
        let unwritten = changing.iter().flat_map(|tool| book.denied_paths(tool, &place));
        let in_home = |path: &PathBuf| match (path.strip_prefix("~"), user) {
            (Ok(rest), Some(user)) => user.join(rest),
            _ => path.clone(),
        };
        // Paths of settings may be patterns, too.
        let split = |paths: &[PathBuf]| -> (Vec<PathBuf>, Vec<PathBuf>) {
            let is_pattern = |path: &PathBuf| path.to_string_lossy().contains(['*', '?', '[', '{']);
            paths.iter().map(in_home).partition(|path| !is_pattern(path))
        };
        let pattern = |path: PathBuf| {
            let text = format!("/{}", path.display());
            Pattern::new(&text, place.root, place.root, user.as_deref())
        };
        let (single_hidden, hidden_patterns) = split(&settings.hidden);
        let (single_protected, protected_patterns) = split(&settings.protected);
        let closed = book.denied_patterns("Read", &place).into_iter();
        let closed = closed.chain(hidden_patterns.into_iter().map(pattern)).collect();
        let locked = changing.iter().flat_map(|tool| book.denied_patterns(tool, &place));
        let locked = locked.chain(protected_patterns.into_iter().map(pattern)).collect();
        let there = |path: PathBuf| path.canonicalize().ok();
        let moved = moved(|name| environment.variable(name).map(OsString::from));
        let asked = single_hidden.into_iter().chain(unread).chain(moved);
        let asked: Vec<PathBuf> = asked.collect();
        let layers = Arc::new(Probed::new(probe));
        // Otherwise nothing waits for it before the first request has been sent.
        if is_required && let Some(gaps) = layers.gaps() {
            return Err(GuardError::Incomplete(gaps));
        }
        let protected = single_protected.into_iter().chain(unwritten);
        let later = wishes.hidden.iter().chain([home]).cloned().chain(asked.clone());
        Ok(Some(Guard {
            hidden: always.into_iter().chain(asked.into_iter().filter_map(there)).collect(),
            hidden_later: listed(user.as_deref()).chain(later).collect(),
            writable: settings.writable.iter().map(in_home).collect(),
            protected: protected.collect(),
            limits: wishes.limits.unwrap_or_default(),
            sockets: if settings.all_sockets { Sockets::All } else { Sockets::Pairs },
            network: self.network(),
            removed: settings.variables.clone(),
            may_leave: !settings.is_closed && wishes.wish != SandboxWish::Require,
            group: sandbox::delegated(),
            survey: Arc::new(Mutex::new(Survey::new(closed, locked))),
            layers,
        }))
    }
}
