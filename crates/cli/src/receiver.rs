//! The receiver of traces, and how traces are written for it: from flags, else the environment,
//! else the configuration.
//!
//! Invariants: credentials go only to the address that they were given for; they are never printed,
//! and no part of them is in the name of a folder.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use export::client::{Sender, Target};
use export::id::{Ids, hex};
use export::outbox::ReceiverDir;
use export::profile::{Content, Profile, Telling};
use export::ship::import;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::config::{ContentLevel, ProfileName, ShipConfig};
use crate::failure::Failure;
use crate::text::{bytes, count};
use crate::world::World;

/// The options that select a receiver.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ReceiverArgs {
    /// The receiver: the URL of Langfuse, Phoenix or any OTLP receiver over HTTP
    ///
    /// Without it, the receiver comes from `CC_LANGFUSE_*`, `LANGFUSE_*` or `OTEL_EXPORTER_OTLP_*`
    /// in the environment, or from `[ship]` in the configuration.
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// A header for each request, as `name: value` (can be repeated)
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// How much is sent: full; metadata only (no prompts, answers, tool I/O); or none (also no
    /// paths, branches, task names)
    #[arg(long, value_name = "HOW MUCH")]
    content: Option<ContentLevel>,
    /// Redact secrets (default, except for receivers on localhost)
    ///
    /// `[redact]` in the configuration adds secrets, and lists values that are not secrets.
    #[arg(long, conflicts_with = "no_redact")]
    redact: bool,
    /// Do not redact secrets
    #[arg(long)]
    no_redact: bool,
    /// Cut longer texts at this size, like 64k or 1M (default: 60k)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    longest: Option<u64>,
    /// The set of attributes: `lean` works with every receiver; `cc-langfuse` is that of the
    /// cc-langfuse hook
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileName>,
    /// Use other ids, to send a second copy to a receiver that already has the first
    #[arg(long, value_name = "TEXT")]
    id_salt: Option<String>,
}

/// A receiver, and how traces are written for it.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) target: Target,
    pub(crate) telling: Telling,
    pub(crate) ids: Ids,
    pub(crate) dir: ReceiverDir,
    /// Where the receiver is named: a flag, a variable or the configuration.
    pub(crate) named_by: &'static str,
    /// Whether the cc-langfuse hook sends to it.
    pub(crate) is_theirs: bool,
    /// Whether it is on this machine.
    pub(crate) is_here: bool,
    timeout: Duration,
    certificates: Option<PathBuf>,
}

/// The address, where it is named, and the credentials for it.
struct Named {
    url: String,
    by: &'static str,
    /// Whether the path is complete.
    is_whole: bool,
    keys: Option<[String; 2]>,
    headers: Vec<(String, String)>,
}

/// The address of Langfuse if only keys are given.
const LANGFUSE: &str = "https://cloud.langfuse.com";
const LANGFUSE_PATH: &str = "/api/public/otel";
const TRACES: &str = "/v1/traces";

impl Receiver {
    /// The receiver that is named somewhere.
    pub(crate) fn find(world: &World, args: &ReceiverArgs) -> Result<Receiver, Failure> {
        Receiver::look_for(world, args)?.ok_or_else(|| {
            let hint = "use `--to URL`, or set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, or OTEL_EXPORTER_OTLP_ENDPOINT; see `quipu ship --help`";
            Failure::usage("no receiver is configured", Some(hint))
        })
    }

    /// The receiver that is named somewhere; `None` if there is none.
    pub(crate) fn look_for(
        world: &World,
        args: &ReceiverArgs,
    ) -> Result<Option<Receiver>, Failure> {
        let config = world.ship_config();
        let Some(named) = named(world, args, config)? else { return Ok(None) };
        let url = address(&named)?;
        let is_langfuse = named.keys.is_some() || url.path().contains(LANGFUSE_PATH);
        let mut headers = HeaderMap::new();
        if is_langfuse {
            // Langfuse then stores spans at once, not after minutes.
            headers.insert("x-langfuse-ingestion-version", HeaderValue::from_static("4"));
        }
        let given = args.header.iter().map(|line| pair(line, ':'));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        for (name, value) in named.headers.iter().chain(&given) {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        let telling = telling(world, args, config, is_here(&url));
        let salt = salt(world, args);
        let receiver_dir =
            receiver_dir(world, &url, &headers, named.keys.as_ref(), &telling.project, salt)?;
        if let Some([public, secret]) = &named.keys {
            headers.insert(AUTHORIZATION, basic(public, secret)?);
        }
        let timeout = otel(world, "TIMEOUT").map(|text| {
            let hint = "it must be a number of milliseconds";
            let bad =
                || Failure::usage(format!("OTEL_EXPORTER_OTLP_TIMEOUT is `{text}`"), Some(hint));
            text.trim().parse().map_err(|_| bad())
        });
        let timeout = timeout.transpose()?;
        Ok(Some(Receiver {
            target: Target {
                url: url.to_string(),
                headers,
                is_packed: otel(world, "COMPRESSION").is_none_or(|name| name != "none"),
                project: telling.project.clone(),
                // A person waits; work in the background retries more often.
                tries: 3,
            },
            telling,
            ids: ids(world, args),
            dir: receiver_dir,
            named_by: named.by,
            is_theirs: named.by.contains("LANGFUSE") && salt.is_empty(),
            is_here: is_here(&url),
            timeout: Duration::from_millis(timeout.unwrap_or(30_000)),
            certificates: otel(world, "CERTIFICATE").map(PathBuf::from),
        }))
    }

    /// The client that sends to it; no socket is opened yet.
    pub(crate) fn sender(&self) -> Result<Sender, Failure> {
        let client = reqwest::blocking::Client::builder()
            .user_agent(concat!("quipu/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .timeout(self.timeout)
            // Credentials are for one address.
            .redirect(reqwest::redirect::Policy::none());
        // What stays on this machine, secrets included, does not go through a proxy.
        let client = if self.is_here { client.no_proxy() } else { client };
        let client = agent::api::certificates::trusting(client, self.certificates.as_deref());
        let client = client.and_then(|client| client.build().map_err(|error| error.to_string()));
        let client = client.map_err(|why| Failure::usage(why, None))?;
        Ok(Sender::new(self.target.clone(), client))
    }

    /// The address as it may be printed.
    pub(crate) fn shown(&self) -> String {
        masked(&self.target.url)
    }
}

/// An address without credentials: the password and the query are masked.
fn masked(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else {
        return address.rsplit('@').next().unwrap_or_default().to_owned();
    };
    if url.password().is_some() {
        // Cannot fail: an address that has a password can have another.
        let _ = url.set_password(Some("***"));
    }
    if url.query().is_some() {
        url.set_query(Some("***"));
    }
    url.to_string()
}

/// The first place that names a receiver, in this order.
fn named(
    world: &World,
    args: &ReceiverArgs,
    config: &ShipConfig,
) -> Result<Option<Named>, Failure> {
    let otel_headers = || {
        let text = otel(world, "HEADERS").unwrap_or_default();
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let pairs = parts.map(|part| pair(part, '=').map(|(name, value)| (name, decode(&value))));
        pairs.collect::<Result<Vec<_>, _>>()
    };
    let endpoint = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
        .into_iter()
        .find_map(|name| Some((name, world.variable(name)?)));
    if let Some(url) = &args.to {
        // Keys go only to the origin that they are for: same scheme, host and port.
        let place = |text: &str| Url::parse(text).ok().map(|url| url.origin());
        let is_theirs = |named: &Named| place(url).is_some_and(|to| place(&named.url) == Some(to));
        let headers = if endpoint.is_none() { otel_headers()? } else { Vec::new() };
        // An incomplete pair of keys for another receiver does not matter for this one.
        let langfuse = langfuse(world).ok().flatten();
        let keys = langfuse.filter(is_theirs).and_then(|named| named.keys);
        let url = if keys.is_some() { in_langfuse(url) } else { url.clone() };
        return Ok(Some(Named { url, by: "--to", is_whole: false, keys, headers }));
    }
    if let Some(langfuse) = langfuse(world)? {
        return Ok(Some(langfuse));
    }
    if let Some((by, url)) = endpoint {
        if otel(world, "PROTOCOL").is_some_and(|name| name == "grpc") {
            let hint = "use the address for `http/protobuf`, usually port 4318";
            let message = "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, which is not supported";
            return Err(Failure::usage(message, Some(hint)));
        }
        let is_whole = by.contains("TRACES");
        return Ok(Some(Named { url, by, is_whole, keys: None, headers: otel_headers()? }));
    }
    let keys = both(
        [config.langfuse_public_key.clone(), config.langfuse_secret_key.clone()],
        ["langfuse_public_key", "langfuse_secret_key"],
    )?;
    let url = config.to.clone().or_else(|| keys.as_ref().map(|_| LANGFUSE.to_owned()));
    let Some(url) = url else { return Ok(None) };
    let url = if keys.is_some() { in_langfuse(&url) } else { url };
    let headers = config.headers.clone().into_iter().collect();
    Ok(Some(Named { url, by: "the configuration", is_whole: false, keys, headers }))
}

/// The address where a Langfuse server accepts traces.
fn in_langfuse(url: &str) -> String {
    if url.contains(LANGFUSE_PATH) {
        return url.to_owned();
    }
    format!("{}{LANGFUSE_PATH}", url.trim_end_matches('/'))
}

/// Two keys, neither of which is useful alone.
fn both(keys: [Option<String>; 2], names: [&str; 2]) -> Result<Option<[String; 2]>, Failure> {
    match keys {
        [Some(public), Some(secret)] => Ok(Some([public, secret])),
        [None, None] => Ok(None),
        [public, _] => {
            let [here, missing] = if public.is_some() { names } else { [names[1], names[0]] };
            let hint = "Langfuse needs both";
            Err(Failure::usage(format!("{here} is set, but {missing} is not"), Some(hint)))
        }
    }
}

/// Langfuse as the environment names it, with the prefix of the cc-langfuse hook or without.
fn langfuse(world: &World) -> Result<Option<Named>, Failure> {
    for (prefix, by) in [("CC_LANGFUSE", "CC_LANGFUSE_*"), ("LANGFUSE", "LANGFUSE_*")] {
        let variable = |name: &str| world.variable(&format!("{prefix}_{name}"));
        let names = ["PUBLIC_KEY", "SECRET_KEY"];
        let whole = names.map(|name| format!("{prefix}_{name}"));
        let keys = both(names.map(variable), [&whole[0], &whole[1]])?;
        if keys.is_some() {
            let base = variable("BASE_URL").or_else(|| variable("HOST"));
            let base = base.unwrap_or_else(|| LANGFUSE.to_owned());
            let url = in_langfuse(&base);
            return Ok(Some(Named { url, by, is_whole: false, keys, headers: Vec::new() }));
        }
    }
    Ok(None)
}

/// An OpenTelemetry variable; the one for traces wins.
fn otel(world: &World, name: &str) -> Option<String> {
    let value = world.variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    value.or_else(|| world.variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

fn address(named: &Named) -> Result<Url, Failure> {
    let (by, shown) = (named.by, masked(&named.url));
    let bad = |why: String| {
        let hint = "a URL looks like `http://127.0.0.1:6006` or `https://cloud.langfuse.com/api/public/otel`";
        Failure::usage(format!("`{shown}` ({by}) is not a valid URL: {why}"), Some(hint))
    };
    let mut url = Url::parse(&named.url).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(format!("`{}` is not supported, only http and https", url.scheme())));
    }
    if url.port() == Some(4317) {
        let hint = "OTLP over HTTP is usually at port 4318";
        return Err(Failure::usage(
            format!("`{shown}` ({by}) uses the gRPC port, which is not supported"),
            Some(hint),
        ));
    }
    if !named.is_whole && !url.path().ends_with(TRACES) {
        let path = format!("{}{TRACES}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The folder with the state of a receiver. Another address, project (or a header that selects one)
/// or salt is another receiver; another password is not.
fn receiver_dir(
    world: &World,
    url: &Url,
    headers: &HeaderMap,
    keys: Option<&[String; 2]>,
    project: &str,
    salt: &str,
) -> Result<ReceiverDir, Failure> {
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
    parts.extend([project.to_owned(), salt.to_owned()]);
    let digest = Sha256::digest(parts.join("\n"));
    let host: String = url.host_str().unwrap_or_default().chars().take(60).collect();
    let host = host.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.', "-");
    let folder = world.ship_folder()?.join(format!("{host}-{}", hex(&digest[..6])));
    Ok(ReceiverDir::at(&folder))
}

fn telling(world: &World, args: &ReceiverArgs, config: &ShipConfig, is_here: bool) -> Telling {
    let usual = Telling::default();
    let asked = match (args.redact, args.no_redact) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => config.redact,
    };
    let user = || {
        let names = ["CC_LANGFUSE_USER_ID", "LANGFUSE_USER_ID"];
        names.iter().find_map(|name| world.variable(name))
    };
    let longest = args.longest.or(config.longest);
    let mut tags = usual.tags;
    tags.extend(config.tags.iter().cloned());
    Telling {
        profile: match args.profile.or(config.profile) {
            Some(ProfileName::CcLangfuse) => Profile::CcLangfuse,
            Some(ProfileName::Lean) | None => Profile::Lean,
        },
        content: match args.content.or(config.content) {
            Some(ContentLevel::Meta) => Content::Meta,
            Some(ContentLevel::None) => Content::None,
            Some(ContentLevel::Full) | None => Content::Full,
        },
        redact: asked.unwrap_or(!is_here).then(|| world.redactor()),
        longest: longest.and_then(|longest| usize::try_from(longest).ok()).unwrap_or(usual.longest),
        user: user().or_else(|| config.user.clone()),
        tags,
        environment: world
            .variable("LANGFUSE_TRACING_ENVIRONMENT")
            .or_else(|| config.environment.clone()),
        project: world
            .variable("PHOENIX_PROJECT_NAME")
            .or_else(|| config.project.clone())
            .unwrap_or(usual.project),
    }
}

/// How traces are written if no receiver is named: as for a receiver on another machine.
pub(crate) fn telling_nobody(world: &World, args: &ReceiverArgs) -> Telling {
    telling(world, args, world.ship_config(), false)
}

/// The ids that spans get.
pub(crate) fn ids(world: &World, args: &ReceiverArgs) -> Ids {
    Ids::salted(salt(world, args))
}

fn salt<'a>(world: &'a World, args: &'a ReceiverArgs) -> &'a str {
    let named = args.id_salt.as_ref().or(world.ship_config().id_salt.as_ref());
    named.map_or("", String::as_str)
}

fn pair(text: &str, between: char) -> Result<(String, String), Failure> {
    let (name, value) = text.split_once(between).ok_or_else(|| {
        let hint = "a header is written as `name: value`";
        Failure::usage("a header has no value", Some(hint))
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let bad = || Failure::usage(format!("the header `{name}` has an invalid name or value"), None);
    let header_name = name.parse::<HeaderName>().map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok((header_name, value))
}

fn basic(public: &str, secret: &str) -> Result<HeaderValue, Failure> {
    use base64::Engine as _;
    let both = base64::engine::general_purpose::STANDARD.encode(format!("{public}:{secret}"));
    let mut value = HeaderValue::from_str(&format!("Basic {both}"))
        .map_err(|_| Failure::usage("the Langfuse keys contain invalid characters", None))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Decodes `%20` and the like, which values in the environment may contain.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok());
        if let Some(byte) = code.filter(|_| *first == b'%') {
            bytes.push(byte);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Imports what the cc-langfuse hook has sent, if it sends to this receiver. Returns a message for
/// the user.
pub(crate) fn take_over(world: &World, receiver: &Receiver) -> Option<String> {
    if !receiver.is_theirs {
        return None;
    }
    let (home, _) = world.first_home();
    let path = home.join("state").join("cc-langfuse_state.json");
    let shown = path.display();
    match import(&receiver.dir, &path) {
        Ok(0) => None,
        Ok(number) => {
            let sessions = count(number as u64, "session");
            Some(format!(
                "according to `{shown}`, cc-langfuse has sent turns of {sessions}: they are not sent again without `--again`"
            ))
        }
        Err(error) => Some(format!("cannot parse `{shown}`: {error}")),
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
