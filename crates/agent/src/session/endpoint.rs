//! What answers requests, and the keys for it: from settings and variables, or from a script.
//!
//! Invariants: no socket is opened here; every key and password that is used is also among the
//! secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::unreadable;
use super::{ModelSource, Prepared, StartError};
use crate::USER_AGENT;
use crate::api::Model;
use crate::api::http::{Http, Settings as HttpSettings};
use crate::api::script::Script;
use crate::secret::{self, Extent, Secrets};
use crate::settings::{Environment, Settings};

/// The maximum size of a script, in bytes.
const LONGEST: u64 = 16 << 20;
/// The address of the API.
const BASE: &str = "https://api.anthropic.com";
/// How long a stream may be silent.
const IDLE: Duration = Duration::from_secs(120);
/// The feature that requests with an effort need.
const EFFORT: &str = "effort-2025-11-24";
/// The source of a key that is not needed.
pub(super) const NO_KEY: &str = "none";

/// Where the key comes from.
pub(super) fn key_source(prepared: &Prepared, environment: &dyn Environment) -> &'static str {
    let token = "ANTHROPIC_AUTH_TOKEN";
    if prepared.config.source != ModelSource::Api {
        NO_KEY
    } else if prepared.settings.variable(environment, token).is_some() {
        token
    } else {
        "ANTHROPIC_API_KEY"
    }
}

/// What answers the requests of a session with this id and so many messages.
pub(super) fn model(
    prepared: &Prepared,
    environment: &dyn Environment,
    (id, message_count): (&str, usize),
) -> Result<Arc<dyn Model>, StartError> {
    let config = &prepared.config;
    let (text, path) = match &config.source {
        ModelSource::Api => return Ok(Arc::new(http(prepared, environment))),
        ModelSource::Script(text) => (text.clone(), Path::new("")),
        ModelSource::ScriptFile(path) => {
            (files::read_text(path, LONGEST).map_err(unreadable(path))?, path.as_path())
        }
    };
    let cwd = config.folders.cwd.display().to_string();
    let home = config.folders.user.as_ref().map(|user| user.display().to_string());
    let home = home.unwrap_or_default();
    let variables =
        [("CWD", cwd.as_str()), ("HOME", &home), ("SESSION", id), ("AGENT_TOOL", "Task")];
    let script = Script::read(&text, &variables)
        .map_err(|why| StartError::Script { path: path.to_owned(), why })?;
    Ok(Arc::new(script.within(id, message_count)))
}

impl Prepared {
    /// What answers requests that belong to no session.
    pub fn answers(&self, environment: &dyn Environment) -> Result<Arc<dyn Model>, StartError> {
        model(self, environment, ("", 0))
    }

    /// A text without the keys that are in use.
    pub fn redacted(&self, text: &str, environment: &dyn Environment) -> String {
        secrets(&self.settings, environment).redacted(text, Extent::Whole).into_owned()
    }
}

fn http(prepared: &Prepared, environment: &dyn Environment) -> Http {
    let settings = &prepared.settings;
    let effort = prepared.config.effort.as_ref().map(|_| EFFORT.to_owned());
    let variable = |name: &str| settings.variable(environment, name);
    let wait = variable("API_TIMEOUT_MS").and_then(|text| text.parse().ok());
    let certificates = variable("NODE_EXTRA_CA_CERTS").or_else(|| variable("SSL_CERT_FILE"));
    Http::new(HttpSettings {
        base: variable("ANTHROPIC_BASE_URL").unwrap_or_else(|| BASE.to_owned()),
        key: variable("ANTHROPIC_API_KEY"),
        token: variable("ANTHROPIC_AUTH_TOKEN"),
        headers: variable("ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default(),
        betas: prepared.config.betas.iter().cloned().chain(effort).collect(),
        idle: wait.map_or(IDLE, Duration::from_millis),
        proxies: proxies(settings, environment),
        certificates: certificates.map(PathBuf::from),
        agent: USER_AGENT.to_owned(),
    })
}

/// The keys that are hidden from commands and records: those of the environment, and those of
/// settings.
pub(super) fn secrets(settings: &Settings, environment: &dyn Environment) -> Secrets {
    let names = secret::NAMES.iter().chain(&secret::PROXIES);
    let both = names.flat_map(|name| {
        let values = [environment.variable(name), settings.env.get(*name).cloned()];
        values.into_iter().flatten().map(move |value| (*name, value))
    });
    let known: Vec<(&str, String)> = both.collect();
    Secrets::of(known.iter().map(|(name, value)| (*name, value.as_str())))
}

/// The proxies, if one of them has a password: the environment does not contain it any more then.
pub(super) fn proxies(settings: &Settings, environment: &dyn Environment) -> Vec<(String, String)> {
    let named = secret::PROXIES.iter().filter_map(|name| {
        settings.variable(environment, name).map(|value| ((*name).to_owned(), value))
    });
    let named: Vec<(String, String)> = named.collect();
    if named.iter().any(|(name, value)| secret::is_secret(name, value)) {
        named
    } else {
        Vec::new()
    }
}
