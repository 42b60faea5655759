//! What holds the commands of a session: what the user and settings want, as far as the kernel can.
//!
//! Invariants: a sandbox that is wanted is never silently missing; settings that restrict count
//! from every source, those that grant only from the user and the administrator.

use std::path::PathBuf;
use std::sync::Arc;

use rules::Place;
use sandbox::{Limits, Network, Probe, Sockets};

use super::{Folders, Notice, Prepared};
use crate::guard::{Guard, SandboxWish, hidden, too_wide};
use crate::permit::real;
use crate::shell::Shells;

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
    /// Begins to find out what the kernel can enforce, unless nobody wants that.
    pub(super) fn probe(&self, shells: &Shells) -> Option<Probe> {
        let is_required =
            self.config.sandbox.wish == SandboxWish::Require || self.settings.sandbox.is_required;
        if self.config.sandbox.wish == SandboxWish::Off && !is_required {
            return None;
        }
        // Without it, nothing can be found out, and that is reported.
        let _ = crate::shell::folder(&shells.folder);
        Some(Probe::start(&shells.folder.join("probe")))
    }

    /// What holds the commands of the session; None without a sandbox.
    pub(super) fn guard(
        &self,
        folders: &[PathBuf],
        probe: Option<Probe>,
        notify: &mut dyn FnMut(Notice),
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
            is_sensitive: &|_| false,
            has_other_names: &|_| false,
        };
        // What rules deny to the tools, commands cannot do either, as far as a rule means one path.
        let unread = self.permit.book.denied_paths("Read", &place);
        let unwritten = self.permit.book.denied_paths("Edit", &place);
        let there = |path: PathBuf| path.canonicalize().ok();
        let asked = settings.hidden.iter().cloned().chain(unread).filter_map(there);
        let layers = probe.layers();
        let gaps = layers.gaps();
        if is_required && !gaps.is_empty() {
            let words: Vec<&str> = gaps.iter().map(|gap| gap.in_words()).collect();
            return Err(GuardError::Incomplete(words.join("; ")));
        }
        if !gaps.is_empty() {
            notify(Notice::Gaps(gaps));
        }
        let by_settings =
            settings.network.map(|is_on| if is_on { Network::On } else { Network::Off });
        Ok(Some(Guard {
            hidden: always.into_iter().chain(asked).collect(),
            writable: settings.writable.clone(),
            protected: settings
                .protected
                .iter()
                .cloned()
                .chain(unwritten)
                .filter_map(there)
                .collect(),
            limits: wishes.limits.unwrap_or_default(),
            sockets: if settings.all_sockets { Sockets::All } else { Sockets::Pairs },
            // A list of domains closes it, whatever the user wants.
            network: by_settings
                .filter(|network| *network == Network::Off)
                .or(wishes.network)
                .or(by_settings),
            removed: settings.variables.clone(),
            may_leave: !settings.is_closed && wishes.wish != SandboxWish::Require,
            group: sandbox::delegated(),
            survey: Arc::default(),
            layers,
        }))
    }
}
