//! The Messages API: requests, answers, errors.
//!
//! A [`Model`] answers requests: the API itself ([`http`]), or a script ([`script`]) that needs no
//! key and opens no socket. Both give the events of the API's stream as JSON; [`stream`] assembles
//! blocks from them. Invariant: a block is passed on exactly as it came: its members keep their
//! order, so that what is written and what is sent again are the same bytes.

pub mod certificates;
pub mod http;
pub mod request;
pub mod retry;
pub mod script;
pub mod sse;
pub mod stream;
pub mod text;

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// Answers requests.
pub trait Model: Send + Sync {
    /// Makes a request, and passes on every event of the answer as it comes, until there are no
    /// more or `hear` breaks.
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError>;
}

/// What is received of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// The API has accepted the request, and gave it this id.
    Accepted(&'a str),
    /// An event of the stream, as JSON.
    Event(&'a str),
}

/// Why there is no answer, or an incomplete one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The kind of failure.
    pub why: Why,
    /// The message of the API, or of the network.
    pub message: String,
    /// The API's name for it, such as `overloaded_error`.
    pub kind: Option<String>,
    /// The API's id of the request.
    pub request: Option<String>,
    /// How long the API asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the API says to retry.
    pub should_retry: Option<bool>,
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The API answered with this status.
    Status(u16),
    /// The stream itself contained an error.
    InStream,
    /// The API could not be reached.
    Unreachable,
    /// The stream ended before the answer did.
    Cut,
    /// Nothing was received for too long.
    Idle,
    /// The response is not an answer.
    Nonsense,
    /// The response has no end: it is longer than requested, or takes longer than any answer.
    Endless,
    /// The program is not set up: the key is missing, or the address is wrong.
    Setup,
}

impl ApiError {
    /// An error without a message of the API.
    pub fn new(why: Why, message: impl Into<String>) -> ApiError {
        ApiError {
            why,
            message: message.into(),
            kind: None,
            request: None,
            retry_after: None,
            should_retry: None,
        }
    }

    /// An error response, from its status and body.
    pub fn of_body(status: u16, body: &str) -> ApiError {
        let (kind, message, request) = error_parts(body);
        let message = message.unwrap_or_else(|| body.chars().take(500).collect());
        ApiError { kind, request, ..ApiError::new(Why::Status(status), message) }
    }

    /// An `error` event of a stream.
    pub fn of_event(event: &str) -> ApiError {
        let (kind, message, request) = error_parts(event);
        let message = message.unwrap_or_else(|| "the stream brought an error".to_owned());
        ApiError { kind, request, ..ApiError::new(Why::InStream, message) }
    }

    /// Whether the model has too much to do.
    pub fn is_overloaded(&self) -> bool {
        self.why == Why::Status(529) || self.kind.as_deref() == Some("overloaded_error")
    }

    /// Whether the conversation does not fit into the model.
    pub fn is_too_long(&self) -> bool {
        let words = ["prompt is too long", "exceed context limit"];
        self.why == Why::Status(400) && words.iter().any(|words| self.message.contains(words))
    }

    /// The name for it in a transcript of Claude Code.
    pub fn label(&self) -> &'static str {
        match (self.why, self.kind.as_deref()) {
            (_, Some("authentication_error" | "permission_error")) | (Why::Status(401), _) => {
                "authentication_failed"
            }
            (_, Some("invalid_request_error")) | (Why::Status(400), _) => "invalid_request",
            (_, Some("rate_limit_error")) | (Why::Status(429), _) => "rate_limit",
            (Why::Status(500..=528), _) => "server_error",
            _ => "unknown",
        }
    }
}

/// Kind, message and request id from an error's JSON.
fn error_parts(body: &str) -> (Option<String>, Option<String>, Option<String>) {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    (text(&value["error"]["type"]), text(&value["error"]["message"]), text(&value["request_id"]))
}

/// One sentence on what happened, and one on what to do.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.trim().trim_end_matches('.');
        match self.why {
            Why::Status(status) => write!(f, "API Error: {status} {message}.")?,
            Why::InStream => write!(f, "API Error: {message}.")?,
            Why::Unreachable => write!(f, "API Error: the API cannot be reached ({message}).")?,
            Why::Cut => write!(f, "API Error: the answer was cut off ({message}).")?,
            Why::Idle => write!(f, "API Error: nothing came any more ({message}).")?,
            Why::Nonsense => write!(f, "API Error: unexpected response ({message}).")?,
            Why::Endless => write!(f, "API Error: the answer does not end ({message}).")?,
            Why::Setup => return write!(f, "{message}."),
        }
        if let Some(hint) = self.hint() {
            write!(f, " {hint}")?;
        }
        match &self.request {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl ApiError {
    fn hint(&self) -> Option<&'static str> {
        let kind = self.kind.as_deref().unwrap_or_default();
        Some(match (self.why, kind) {
            (Why::Status(401), _) | (_, "authentication_error") => {
                "Check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN."
            }
            (Why::Status(403), _) | (_, "permission_error") => "This key may not do that.",
            (Why::Status(404), _) | (_, "not_found_error") => {
                "Check the model's name (`--model`) and ANTHROPIC_BASE_URL."
            }
            (Why::Status(413), _) | (_, "request_too_large") => {
                "Go on in a smaller session: `quipu strip` takes tool results and images out."
            }
            (Why::Status(429), _) | (_, "rate_limit_error") => "Wait, or use another key.",
            _ if self.is_too_long() => {
                "Go on in a smaller session: `quipu strip` takes tool results out."
            }
            (Why::Status(400), _) if self.message.contains("credit balance") => {
                "Add credit to the account, or use another key."
            }
            (Why::Status(500..), _) | (_, "overloaded_error") => "Try again in a while.",
            (Why::Endless, _) => "Check ANTHROPIC_BASE_URL, and whatever answers there.",
            (Why::Unreachable, _) => "Check the network, the proxy and ANTHROPIC_BASE_URL.",
            _ => return None,
        })
    }
}
