//! The first step: what is trusted, what settings say, and what is allowed.
//!
//! Invariant: nothing is written, and no session is looked for, before all restrictions are known
//! and can be honoured.

use super::permits::permit;
use super::{
    ModelSource, Notice, PermitError, SessionConfig, SettingsError, Standing, layers, trusted,
};
use crate::model;
use crate::permit::Permit;
use crate::settings::{Environment, Settings};

/// A session that may begin, and has no place yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) config: SessionConfig,
    pub(super) standing: Standing,
    pub(super) settings: Settings,
    pub(super) permit: Permit,
    /// The model that the user asked for.
    pub(super) chosen: Option<String>,
}

/// Why a session may not begin.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Because of settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Because of what the user wants to allow or to forbid.
    #[error(transparent)]
    Permit(#[from] PermitError),
    /// There is no key, except from a program that these settings name.
    #[error("the only source of a key is `apiKeyHelper` in `{0}`, which quipu does not run")]
    KeyHelper(String),
    /// There is no key at all, so no request can be made.
    #[error("there is no API key")]
    NoKey,
}

impl SessionConfig {
    /// Reads what is trusted and what settings say, and decides what is allowed.
    pub fn prepare(
        self,
        environment: &dyn Environment,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Prepared, PrepareError> {
        let standing = trusted::standing(self.trust_list.as_deref(), &self.folders, notify);
        let settings = layers::read(&self.settings, &self.folders, standing.folder, environment)?;
        let permit = permit(&self.permissions, &settings, &self.folders.cwd, environment)?;
        refuse_promises(&self.source, &settings, environment)?;
        for note in &settings.notes {
            notify(Notice::Settings(note.clone()));
        }
        let by_variable = || settings.variable(environment, "ANTHROPIC_MODEL");
        let named = self.model.clone().or_else(by_variable).or_else(|| settings.model.clone());
        let chosen = named.map(|name| model::named(Some(&name)));
        Ok(Prepared { config: self, standing, settings, permit, chosen })
    }
}

/// Refuses what a variable or the settings ask for and is not done here, and a session that has no
/// key.
fn refuse_promises(
    source: &ModelSource,
    settings: &Settings,
    environment: &dyn Environment,
) -> Result<(), PrepareError> {
    let variable = |name: &str| settings.variable(environment, name);
    let has_key =
        variable("ANTHROPIC_API_KEY").is_some() || variable("ANTHROPIC_AUTH_TOKEN").is_some();
    if has_key || *source != ModelSource::Api {
        return Ok(());
    }
    // Now, not at the first request: by then the prompt would be in a session that nobody wants.
    Err(match &settings.key_helper {
        Some(name) => PrepareError::KeyHelper(name.clone()),
        None => PrepareError::NoKey,
    })
}
