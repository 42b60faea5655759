//! The API itself, over HTTP.
//!
//! Invariants: no socket is opened before the first request; a stream that brings no more content
//! of an answer is given up, whatever else it brings, and so is one that takes longer than any
//! answer.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use reqwest::blocking::{Client, ClientBuilder, Response};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};
use transcript::format::json::Json;

use super::certificates::trusting;
use super::sse::Events;
use super::{ApiError, Heard, Model, Why};

/// Where the API is, and how requests to it are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `ANTHROPIC_BASE_URL`.
    pub base: String,
    /// `ANTHROPIC_API_KEY`.
    pub key: Option<String>,
    /// `ANTHROPIC_AUTH_TOKEN`.
    pub token: Option<String>,
    /// Additional headers: `ANTHROPIC_CUSTOM_HEADERS`, one per line.
    pub headers: String,
    /// Features that requests ask for (`anthropic-beta`), beside those of `headers`.
    pub betas: Vec<String>,
    /// How long a stream may be silent.
    pub idle: Duration,
    /// Proxies, by the variables that named them, if the environment no longer contains these.
    pub proxies: Vec<(String, String)>,
    /// A file with certificates that are trusted in addition to the usual ones.
    pub certificates: Option<PathBuf>,
    /// The `User-Agent` of requests.
    pub agent: String,
}

/// How many bytes of an error response are read.
const LONGEST_ERROR: usize = 1 << 16;

/// The header with the names of features.
const BETA: &str = "anthropic-beta";

/// No answer takes longer than this: the longest ones have some hundred thousand tokens.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The API, reached over HTTP.
#[derive(Debug)]
pub struct Http {
    settings: Settings,
    longest: Duration,
    client: OnceLock<Client>,
}

impl Http {
    /// Nothing is opened yet.
    pub fn new(settings: Settings) -> Http {
        Http { settings, longest: LONGEST, client: OnceLock::new() }
    }

    fn client(&self) -> Result<&Client, ApiError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let setup = |text: String| ApiError::new(Why::Setup, text);
        let builder = Client::builder()
            .user_agent(self.settings.agent.clone())
            .connect_timeout(Duration::from_secs(30))
            .timeout(self.settings.idle)
            // A key is sent only to the address that it was given for.
            .redirect(Policy::none())
            .default_headers(self.headers()?);
        let trusted = self.settings.certificates.as_deref();
        let builder = trusting(builder, trusted).map_err(setup)?;
        let client = through(builder, &self.settings.proxies)
            .map_err(setup)?
            .build()
            .map_err(|error| setup(error.to_string()))?;
        Ok(self.client.get_or_init(|| client))
    }

    fn headers(&self) -> Result<HeaderMap, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        let secret = |value: &str| {
            let message = "the API key has characters that no key has";
            let mut value =
                HeaderValue::from_str(value).map_err(|_| ApiError::new(Why::Setup, message))?;
            value.set_sensitive(true);
            Ok(value)
        };
        match (&self.settings.token, &self.settings.key) {
            (Some(token), _) => {
                headers.insert("authorization", secret(&format!("Bearer {}", token.trim()))?);
            }
            (None, Some(key)) => {
                headers.insert("x-api-key", secret(key.trim())?);
            }
            (None, None) => {
                let message = "there is no API key: set ANTHROPIC_API_KEY, or try `--offline`";
                return Err(ApiError::new(Why::Setup, message));
            }
        }
        for line in self.settings.headers.lines().filter(|line| !line.trim().is_empty()) {
            let parts = line.split_once(':');
            let name = parts.and_then(|(name, _)| name.trim().parse::<HeaderName>().ok());
            let value = parts.and_then(|(_, value)| HeaderValue::from_str(value.trim()).ok());
            let Some((name, value)) = name.zip(value) else {
                let message = "ANTHROPIC_CUSTOM_HEADERS has a line that is no header";
                return Err(ApiError::new(Why::Setup, message));
            };
            headers.insert(name, value);
        }
        let given = headers.get(BETA).and_then(|value| value.to_str().ok());
        let betas: Vec<&str> =
            given.into_iter().chain(self.settings.betas.iter().map(String::as_str)).collect();
        if !betas.is_empty() {
            let message = "the name of a beta has characters that no header may have";
            let value = HeaderValue::from_str(&betas.join(","));
            headers.insert(BETA, value.map_err(|_| ApiError::new(Why::Setup, message))?);
        }
        Ok(headers)
    }
}

/// Uses these proxies, each for the variable that named it. If there are none, those of the
/// environment apply.
pub fn through(
    mut client: ClientBuilder,
    proxies: &[(String, String)],
) -> Result<ClientBuilder, String> {
    for (name, url) in proxies {
        let proxy = match name.to_ascii_uppercase().as_str() {
            "HTTPS_PROXY" => Proxy::https(url),
            "HTTP_PROXY" => Proxy::http(url),
            _ => Proxy::all(url),
        };
        // The address may contain a password.
        let proxy = proxy.map_err(|_| format!("{name} is no address of a proxy"))?;
        client = client.proxy(proxy.no_proxy(NoProxy::from_env()));
    }
    Ok(client)
}

impl Model for Http {
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let url = format!("{}/v1/messages", self.settings.base.trim_end_matches('/'));
        let request = self.client()?.post(url).header("content-type", "application/json");
        let response = request.body(body).send().map_err(|error| unreachable(&error))?;
        let id = text_header(&response, "request-id");
        let status = response.status().as_u16();
        if (300..400).contains(&status) {
            let to = text_header(&response, LOCATION.as_str()).unwrap_or_default();
            let message = format!(
                "the API has moved to `{to}`: set ANTHROPIC_BASE_URL to that if you trust it"
            );
            return Err(ApiError::new(Why::Setup, message));
        }
        if status != 200 {
            let retry_after = retry_after(&response);
            let should_retry =
                text_header(&response, "x-should-retry").and_then(|v| v.parse().ok());
            let body = error_body(response, self.settings.idle);
            let error = ApiError::of_body(status, &String::from_utf8_lossy(&body));
            let request = error.request.clone().or(id);
            return Err(ApiError { request, retry_after, should_retry, ..error });
        }
        let kind = text_header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if !kind.is_empty() && !kind.starts_with("text/event-stream") {
            let message =
                format!("what answers sends `{kind}`, no events: check ANTHROPIC_BASE_URL");
            return Err(ApiError::new(Why::Setup, message));
        }
        if hear(Heard::Accepted(id.as_deref().unwrap_or_default())).is_break() {
            return Ok(());
        }
        let patience = Patience { idle: self.settings.idle, longest: self.longest };
        listen(response, patience, hear).map_err(|error| ApiError { request: id, ..error })
    }
}

/// The body of an error response, as far as it comes in time. The rest of a long one would not
/// help.
fn error_body(mut response: Response, most: Duration) -> Vec<u8> {
    let begin = Instant::now();
    let (mut body, mut buffer) = (Vec::new(), vec![0; 4 << 10]);
    while body.len() < LONGEST_ERROR && begin.elapsed() < most {
        match response.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => body.extend_from_slice(&buffer[..count]),
        }
    }
    body
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Without any content.
    idle: Duration,
    /// In total.
    longest: Duration,
}

/// Whether an event contains content of an answer, and is not merely a sign of life.
fn is_content(event: &str) -> bool {
    let json = Json::parse(event.as_bytes()).and_then(Json::object);
    let Some(json) = json else { return false };
    match json.text("type").as_deref() {
        Some("content_block_delta") => {
            let delta = json.get("delta").and_then(Json::object);
            let mut members = delta.iter().flat_map(transcript::format::json::Object::members);
            members.any(|(name, value)| name != "type" && !value.is(""))
        }
        Some(
            "message_start"
            | "content_block_start"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
            | "error",
        ) => true,
        _ => false,
    }
}

fn listen(
    mut response: Response,
    patience: Patience,
    hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
) -> Result<(), ApiError> {
    let mut events = Events::default();
    let mut buffer = vec![0; 16 << 10];
    let mut flow = ControlFlow::Continue(());
    let begin = Instant::now();
    let mut last = begin;
    while flow.is_continue() {
        let count = response.read(&mut buffer).map_err(|error| {
            let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
            if cause.is_some_and(reqwest::Error::is_timeout) {
                return ApiError::new(Why::Idle, "the stream is silent");
            }
            ApiError::new(Why::Cut, error.to_string())
        })?;
        if count == 0 {
            break;
        }
        let read = events.push(&buffer[..count], |event| {
            if flow.is_continue() {
                last = if is_content(event) { Instant::now() } else { last };
                flow = hear(Heard::Event(event));
            }
        });
        read.map_err(|_| ApiError::new(Why::Nonsense, "an event does not end"))?;
        if last.elapsed() > patience.idle {
            return Err(ApiError::new(Why::Idle, "only signs of life come, and no answer"));
        }
        if begin.elapsed() > patience.longest {
            let message = format!("it takes more than {} seconds", patience.longest.as_secs());
            return Err(ApiError::new(Why::Endless, message));
        }
    }
    Ok(())
}

fn unreachable(error: &reqwest::Error) -> ApiError {
    // The address may contain a password; the innermost cause is the most specific.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_builder() {
        return ApiError::new(Why::Setup, format!("ANTHROPIC_BASE_URL is no address: {cause}"));
    }
    let why = if error.is_timeout() { Why::Idle } else { Why::Unreachable };
    ApiError::new(why, cause.to_string())
}

fn text_header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

/// `Retry-After` in seconds. This API does not use dates.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: f64 = text_header(response, RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
