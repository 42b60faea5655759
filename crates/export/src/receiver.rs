//! The receiver of traces, and how traces are written for it: from flags, else the environment,
//! else the configuration.
//!
//! A function of its [`Settings`]: nothing here reads the environment or opens a file; only
//! [`Receiver::sender`] and [`Receiver::take_over`] look at files that a receiver names.
//! Invariants: credentials go only to the address that they were given for; they are never printed,
//! and no part of them is in the name of a folder.

mod address;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use address::{LANGFUSE_PATH, address, is_here, masked, pair};
use reqwest::Url;
use reqwest::blocking::ClientBuilder;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use transcript::format::secret::Redactor;

use crate::client::{Sender, Target};
use crate::id::{Ids, hex};
use crate::outbox::ReceiverDir;
use crate::profile::{Content, Profile, Telling};
use crate::ship::import;

/// `[ship]` in the configuration.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ShipConfig {
    /// The address of the receiver.
    pub to: Option<String>,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Langfuse's keys; neither is useful alone. With them, `to` is Langfuse's address (default:
    /// its cloud).
    pub langfuse_public_key: Option<String>,
    /// The other of the two.
    pub langfuse_secret_key: Option<String>,
    /// How much is sent.
    pub content: Option<Content>,
    /// Whether secrets are redacted; by default they are, except for receivers on this machine.
    pub redact: Option<bool>,
    /// The set of attributes.
    pub profile: Option<Profile>,
    /// The most bytes that a text may have; longer ones are cut.
    pub longest: Option<u64>,
    /// Gives other ids, for a second copy at a receiver that has the first.
    pub id_salt: Option<String>,
    /// The id of the user.
    pub user: Option<String>,
    /// Additional tags.
    pub tags: Vec<String>,
    /// The environment, in Langfuse's sense.
    pub environment: Option<String>,
    /// The project, in Phoenix's sense.
    pub project: Option<String>,
}

/// What the user wants just this time; it wins over everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The address of the receiver.
    pub to: Option<String>,
    /// Headers of each request, as `name: value`.
    pub headers: Vec<String>,
    /// How much is sent.
    pub content: Option<Content>,
    /// Whether secrets are redacted.
    pub redact: Option<bool>,
    /// The most bytes that a text may have.
    pub longest: Option<u64>,
    /// The set of attributes.
    pub profile: Option<Profile>,
    /// Gives other ids.
    pub id_salt: Option<String>,
}

/// Looks up a variable of the environment.
pub type Variables<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// All that a receiver is resolved from.
pub struct Settings<'a> {
    /// The value of an environment variable, if it has one.
    pub variables: Variables<'a>,
    /// The configuration.
    pub config: &'a ShipConfig,
    /// The flags.
    pub overrides: Overrides,
    /// Finds secrets.
    pub redactor: Arc<Redactor>,
    /// The folder with the state of receivers, if there can be one.
    pub folder: Option<PathBuf>,
}

/// Neither variables nor the configuration: both may have credentials.
impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A receiver, and how traces are written for it.
#[derive(Debug)]
pub struct Receiver {
    /// Its address, and how requests are made.
    pub target: Target,
    /// What is sent of a span.
    pub telling: Telling,
    /// The ids that spans get.
    pub ids: Ids,
    /// What is stored on disk for it.
    pub dir: ReceiverDir,
    /// Where the receiver is named: a flag, a variable or the configuration.
    pub named_by: &'static str,
    /// Whether the cc-langfuse hook sends to it.
    pub is_theirs: bool,
    /// Whether it is on this machine.
    pub is_here: bool,
    timeout: Duration,
    certificates: Option<PathBuf>,
}

/// Why there is no usable receiver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// One of two keys is missing.
    #[error("{set} is set, but {missing} is not")]
    HalfOfKeys {
        /// The name of the key that is set.
        set: String,
        /// The name of the other.
        missing: String,
    },
    /// Keys that cannot be in a header.
    #[error("the Langfuse keys contain invalid characters")]
    Keys,
    /// The environment asks for gRPC.
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, which is not supported")]
    Grpc,
    /// The address is that of gRPC.
    #[error("`{shown}` ({by}) uses the gRPC port, which is not supported")]
    GrpcPort {
        /// The address as it may be printed.
        shown: String,
        /// Where it is named.
        by: &'static str,
    },
    /// The address is not one.
    #[error("`{shown}` ({by}) is not a valid URL: {why}")]
    Address {
        /// The address as it may be printed.
        shown: String,
        /// Where it is named.
        by: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A header without a value.
    #[error("a header has no value")]
    NoValue,
    /// A header that HTTP does not allow.
    #[error("the header `{0}` has an invalid name or value")]
    Header(String),
    /// The timeout is not a number.
    #[error("OTEL_EXPORTER_OTLP_TIMEOUT is `{0}`")]
    Timeout(String),
    /// There is no folder for the state of receivers.
    #[error("cannot determine the state folder")]
    NoState,
    /// The client that sends cannot be made; its certificates may be missing.
    #[error("{0}")]
    Client(String),
}

/// Lets a client also trust the certificates in a file.
pub type Trust = fn(ClientBuilder, Option<&Path>) -> Result<ClientBuilder, String>;

/// What the cc-langfuse hook has sent, by its state file.
#[derive(Debug)]
pub struct TakenOver {
    /// The state file.
    pub path: PathBuf,
    /// The number of sessions that it names.
    pub sessions: io::Result<usize>,
}

/// Whether a receiver is on this machine. What is sent to another one is redacted by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    This,
    Other,
}

impl Settings<'_> {
    /// The receiver that is named somewhere; `None` if there is none.
    pub fn resolve(&self) -> Result<Option<Receiver>, ResolveError> {
        let Some(named) = self.named()? else { return Ok(None) };
        let url = address(&named)?;
        let is_langfuse = named.keys.is_some() || url.path().contains(LANGFUSE_PATH);
        let mut headers = HeaderMap::new();
        if is_langfuse {
            // Langfuse then stores spans at once, not after minutes.
            headers.insert("x-langfuse-ingestion-version", HeaderValue::from_static("4"));
        }
        let given = self.overrides.headers.iter().map(|line| pair(line, ':'));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        for (name, value) in named.headers.iter().chain(&given) {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        let machine = if is_here(&url) { Machine::This } else { Machine::Other };
        let telling = self.telling(machine);
        let receiver_dir =
            self.receiver_dir(&url, &headers, named.keys.as_ref(), &telling.project)?;
        if let Some([public, secret]) = &named.keys {
            headers.insert(AUTHORIZATION, basic(public, secret)?);
        }
        let timeout = self.otel("TIMEOUT").map(|text| {
            let millis = text.trim().parse();
            millis.map_err(|_| ResolveError::Timeout(text))
        });
        let timeout = timeout.transpose()?;
        Ok(Some(Receiver {
            target: Target {
                url: url.to_string(),
                headers,
                is_packed: self.otel("COMPRESSION").is_none_or(|name| name != "none"),
                project: telling.project.clone(),
                // A person waits; work in the background retries more often.
                tries: 3,
            },
            telling,
            ids: self.ids(),
            dir: receiver_dir,
            named_by: named.by,
            is_theirs: named.by.contains("LANGFUSE") && self.salt().is_empty(),
            is_here: machine == Machine::This,
            timeout: Duration::from_millis(timeout.unwrap_or(30_000)),
            certificates: self.otel("CERTIFICATE").map(PathBuf::from),
        }))
    }

    /// How traces are written if no receiver is named: as for a receiver on another machine.
    pub fn telling_nobody(&self) -> Telling {
        self.telling(Machine::Other)
    }

    /// The ids that spans get.
    pub fn ids(&self) -> Ids {
        Ids::salted(self.salt())
    }

    fn salt(&self) -> &str {
        let named = self.overrides.id_salt.as_ref().or(self.config.id_salt.as_ref());
        named.map_or("", String::as_str)
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.variables)(name)
    }

    /// An OpenTelemetry variable; the one for traces wins.
    fn otel(&self, name: &str) -> Option<String> {
        let value = self.variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        value.or_else(|| self.variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    /// The folder with the state of a receiver. Another address, project (or a header that selects
    /// one) or salt is another receiver; another password is not.
    fn receiver_dir(
        &self,
        url: &Url,
        headers: &HeaderMap,
        keys: Option<&[String; 2]>,
        project: &str,
    ) -> Result<ReceiverDir, ResolveError> {
        let routes = ["experiment", "project", "tenant", "org", "dataset", "workspace"];
        let secret = ["key", "token", "auth", "secret", "cookie"];
        let mut parts = vec![format!("{}{}", url.host_str().unwrap_or_default(), url.path())];
        parts.push(url.port_or_known_default().unwrap_or_default().to_string());
        let mut plain: Vec<String> = headers
            .iter()
            .filter(|(name, _)| {
                let has = |words: &[&str]| words.iter().any(|word| name.as_str().contains(word));
                has(&routes) && !has(&secret)
            })
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        plain.sort();
        parts.extend(plain);
        parts.extend(keys.map(|[public, _]| public.clone()));
        parts.extend([project.to_owned(), self.salt().to_owned()]);
        let digest = Sha256::digest(parts.join("\n"));
        let host: String = url.host_str().unwrap_or_default().chars().take(60).collect();
        let host =
            host.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.', "-");
        let folder = self.folder.as_ref().ok_or(ResolveError::NoState)?;
        Ok(ReceiverDir::at(&folder.join(format!("{host}-{}", hex(&digest[..6])))))
    }

    fn telling(&self, machine: Machine) -> Telling {
        let (overrides, config) = (&self.overrides, self.config);
        let usual = Telling::default();
        let asked = overrides.redact.or(config.redact);
        let user = || {
            let names = ["CC_LANGFUSE_USER_ID", "LANGFUSE_USER_ID"];
            names.iter().find_map(|name| self.variable(name))
        };
        let longest = overrides.longest.or(config.longest);
        let longest = longest.and_then(|longest| usize::try_from(longest).ok());
        let mut tags = usual.tags;
        tags.extend(config.tags.iter().cloned());
        Telling {
            profile: overrides.profile.or(config.profile).unwrap_or(usual.profile),
            content: overrides.content.or(config.content).unwrap_or(usual.content),
            redact: asked.unwrap_or(machine == Machine::Other).then(|| Arc::clone(&self.redactor)),
            longest: longest.unwrap_or(usual.longest),
            user: user().or_else(|| config.user.clone()),
            tags,
            known: None,
            environment: self
                .variable("LANGFUSE_TRACING_ENVIRONMENT")
                .or_else(|| config.environment.clone()),
            project: self
                .variable("PHOENIX_PROJECT_NAME")
                .or_else(|| config.project.clone())
                .unwrap_or(usual.project),
        }
    }
}

impl Receiver {
    /// The client that sends to it; no socket is opened yet.
    pub fn sender(&self, trust: Trust) -> Result<Sender, ResolveError> {
        let client = reqwest::blocking::Client::builder()
            .user_agent(concat!("quipu/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .timeout(self.timeout)
            // Credentials are for one address.
            .redirect(reqwest::redirect::Policy::none());
        // What stays on this machine, secrets included, does not go through a proxy.
        let client = if self.is_here { client.no_proxy() } else { client };
        let client = trust(client, self.certificates.as_deref());
        let client = client.and_then(|client| client.build().map_err(|error| error.to_string()));
        Ok(Sender::new(self.target.clone(), client.map_err(ResolveError::Client)?))
    }

    /// The address as it may be printed.
    pub fn shown(&self) -> String {
        masked(&self.target.url)
    }

    /// Imports what the cc-langfuse hook has sent, if it sends to this receiver. `home` is the
    /// client's, where that hook keeps its state. `None` if there is nothing new in it.
    pub fn take_over(&self, home: &Path) -> Option<TakenOver> {
        if !self.is_theirs {
            return None;
        }
        let path = home.join("state").join("cc-langfuse_state.json");
        match import(&self.dir, &path) {
            Ok(0) => None,
            sessions => Some(TakenOver { path, sessions }),
        }
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ResolveError> {
    let bad = || ResolveError::Header(name.to_owned());
    let header_name = name.parse::<HeaderName>().map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok((header_name, value))
}

fn basic(public: &str, secret: &str) -> Result<HeaderValue, ResolveError> {
    use base64::Engine as _;
    let both = base64::engine::general_purpose::STANDARD.encode(format!("{public}:{secret}"));
    let value = HeaderValue::from_str(&format!("Basic {both}"));
    let mut value = value.map_err(|_| ResolveError::Keys)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
