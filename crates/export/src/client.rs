//! Sends one batch to one receiver: which requests are retried, which batches are halved, what is
//! kept.
//!
//! Any 2xx is success; the rest of the response differs between receivers. Invariants: a span is
//! given up only if the receiver refuses it alone, or together with others after many requests; the
//! number of requests for one batch is bounded; no header with credentials is ever printed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};

use crate::receipts::Update;
use crate::wire::{Batch, pack, request, shrink};

/// The address of a receiver, and how requests to it are made.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address, ending in `/v1/traces`.
    pub url: String,
    /// The headers of each request, including credentials.
    pub headers: HeaderMap,
    /// Whether requests are compressed.
    pub is_packed: bool,
    /// The project, in Phoenix's sense.
    pub project: String,
    /// How often a request is retried.
    pub tries: u32,
}

/// Why sending ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The receiver does not respond, or reports that it is busy.
    #[error("the receiver cannot be reached: {0}")]
    Down(String),
    /// The receiver rejects the credentials.
    #[error("the receiver denies access ({0}): check the keys")]
    Denied(String),
    /// The server at this address does not accept traces.
    #[error("the server does not accept traces ({0}): check the address")]
    Wrong(String),
    /// The receiver refuses every span of a batch.
    #[error("the receiver refuses everything: {0}")]
    Refused(String),
}

/// What happened to a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// The spans that the receiver refuses.
    pub refused: Batch,
    /// The receiver's reason for the first of them.
    pub why: Option<String>,
    /// How many spans the receiver accepted without keeping them.
    pub lost: usize,
    /// A message of the receiver although it accepted the request.
    pub warning: Option<String>,
    /// How often a text was shortened because the receiver found it too long.
    pub shortened: usize,
}

/// The longest wait that a receiver may ask for with `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(120);
const LONGEST: Duration = Duration::from_secs(32);
/// How many requests are made to find the spans that a receiver refuses. After that, the rest of
/// the batch counts as refused.
const MOST_REQUESTS: usize = 48;
/// How many bytes of a response are read.
const LONGEST_ANSWER: u64 = 1 << 16;

/// Sends batches to a receiver.
#[derive(Debug)]
pub struct Sender {
    target: Target,
    client: Client,
}

/// The outcome of one request.
enum Answer {
    /// The receiver has the spans. If it did not keep some: how many, and why.
    Taken(Option<(usize, String)>),
    TooLarge(String),
    Bad(String),
    /// The receiver failed on these spans again and again.
    Broken(String),
}

impl Sender {
    /// The client must not follow redirects: the credentials are for one address only.
    pub fn new(target: Target, client: Client) -> Sender {
        Sender { target, client }
    }

    /// Sets how often a request is retried.
    pub fn tries(&mut self, tries: u32) {
        self.target.tries = tries;
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request without spans, to test whether the receiver is reachable and accepts the
    /// credentials. Returns the receiver's message if it demands spans, as `MLflow` does.
    pub fn check(&self) -> Result<Option<String>, Stop> {
        match self.post(&Batch::default())? {
            Answer::Taken(_) => Ok(None),
            Answer::Bad(message) => Ok(Some(message)),
            Answer::TooLarge(message) => Err(Stop::Refused(message)),
            Answer::Broken(message) => Err(Stop::Down(message)),
        }
    }

    /// Sends a batch. If sending stops, the batch contains what did not arrive.
    pub fn send(&self, batch: &mut Batch) -> Result<Sent, Stop> {
        let mut outcome = Sent::default();
        let updates = std::mem::take(&mut batch.updates);
        let mut open = vec![std::mem::take(batch)];
        let mut requests = 0;
        let mut taken = 0;
        // The parts that remain; the next one is last.
        while let Some(mut part) = open.pop() {
            if part.is_empty() {
                continue;
            }
            requests += 1;
            match self.post(&part) {
                Ok(Answer::Taken(lost)) => {
                    taken += part.len();
                    if let Some((count, why)) = lost {
                        outcome.lost += count;
                        outcome.warning.get_or_insert(why);
                    }
                }
                Ok(Answer::TooLarge(message)) => {
                    if let Some(rest) = part.halve() {
                        open.extend([rest, part]);
                    } else if part.spans.first_mut().is_some_and(|(_, span)| shrink(span)) {
                        outcome.shortened += 1;
                        open.push(part);
                    } else {
                        outcome.refuse(part, &message);
                    }
                }
                // A receiver that fails on some spans and accepts others must not delay all of
                // them.
                Ok(Answer::Broken(message)) if self.check().is_err() => {
                    open.push(part);
                    return Err(give_back(batch, open, outcome, updates, Stop::Down(message)));
                }
                Ok(Answer::Bad(message) | Answer::Broken(message)) => {
                    let may_look = requests < MOST_REQUESTS;
                    match part.halve().filter(|_| may_look) {
                        Some(rest) => open.extend([rest, part]),
                        None => outcome.refuse(part, &message),
                    }
                }
                Err(stop) => {
                    open.push(part);
                    return Err(give_back(batch, open, outcome, updates, stop));
                }
            }
        }
        if taken == 0 && !outcome.refused.is_empty() {
            *batch = outcome.refused;
            batch.updates = updates;
            return Err(Stop::Refused(outcome.why.unwrap_or_default()));
        }
        // The updates count as done only when all spans have arrived.
        if outcome.refused.is_empty() {
            batch.updates = updates;
        } else {
            outcome.refused.updates = updates;
        }
        Ok(outcome)
    }

    /// Makes one request, and retries it while that may help.
    fn post(&self, batch: &Batch) -> Result<Answer, Stop> {
        let bytes = request(&batch.spans, &self.target.project).encode_to_vec();
        let (bytes, is_packed) = match self.target.is_packed.then(|| pack(&bytes)) {
            Some(Ok(packed)) => (packed, true),
            _ => (bytes, false),
        };
        let mut failures = 0;
        loop {
            let (message, asked, is_broken) = match self.once(bytes.clone(), is_packed) {
                Ok(response) => match judge(response) {
                    Judged::Final(answer) => return answer,
                    Judged::Later(message, asked, is_broken) => (message, asked, is_broken),
                },
                Err(error) => match cause(&error) {
                    Ok(message) => (message, None, false),
                    Err(stop) => return Err(stop),
                },
            };
            failures += 1;
            let wait = asked.unwrap_or_else(|| backoff(failures, chance()));
            if failures > self.target.tries || wait > LONGEST_ASKED {
                return if is_broken {
                    Ok(Answer::Broken(message))
                } else {
                    Err(Stop::Down(message))
                };
            }
            std::thread::sleep(wait);
        }
    }

    fn once(&self, bytes: Vec<u8>, is_packed: bool) -> reqwest::Result<Response> {
        let mut request = self.client.post(&self.target.url).headers(self.target.headers.clone());
        request = request.header(CONTENT_TYPE, "application/x-protobuf");
        if is_packed {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        request.body(bytes).send()
    }
}

/// Puts what did not arrive back into its batch, in the original order.
fn give_back(
    batch: &mut Batch,
    open: Vec<Batch>,
    outcome: Sent,
    updates: Vec<Update>,
    stop: Stop,
) -> Stop {
    open.into_iter().rev().chain([outcome.refused]).for_each(|part| batch.join(part));
    batch.updates = updates;
    stop
}

impl Sent {
    fn refuse(&mut self, part: Batch, message: &str) {
        self.why.get_or_insert_with(|| {
            let name = part.spans.first().map(|(_, span)| span_name(span)).unwrap_or_default();
            format!("{message}; the first refused is {name}")
        });
        self.refused.join(part);
    }
}

fn span_name(span: &opentelemetry_proto::tonic::trace::v1::Span) -> String {
    let hex = crate::id::hex;
    format!("span {} `{}` of trace {}", hex(&span.span_id), span.name, hex(&span.trace_id))
}

enum Judged {
    Final(Result<Answer, Stop>),
    /// The request may be retried, after the given time if the receiver names one. The last field:
    /// whether the receiver itself failed (500).
    Later(String, Option<Duration>, bool),
}

fn judge(response: Response) -> Judged {
    let status = response.status().as_u16();
    let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default();
    let moved = header(LOCATION.as_str()).unwrap_or_default();
    let after = header(RETRY_AFTER.as_str());
    let mut body = Vec::new();
    // If the body cannot be read, the status alone has to do.
    let _ = response.take(LONGEST_ANSWER).read_to_end(&mut body);
    if (200..300).contains(&status) {
        let warning = kind.starts_with("application/x-protobuf").then(|| partial(&body)).flatten();
        return Judged::Final(Ok(Answer::Taken(warning)));
    }
    let message = describe(status, &body);
    Judged::Final(match status {
        413 => Ok(Answer::TooLarge(message)),
        400 | 422 => Ok(Answer::Bad(message)),
        401 | 403 => Err(Stop::Denied(message)),
        300..400 => Err(Stop::Wrong(format!("it redirects to `{moved}`"))),
        501 => Err(Stop::Wrong(message)),
        408 | 429 | 500.. => {
            // Seconds. A date is ignored, and the usual backoff applies.
            let after = after.and_then(|text| text.trim().parse::<f64>().ok());
            let is_broken = status == 500;
            let after = after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            return Judged::Later(message, after, is_broken);
        }
        _ => Err(Stop::Wrong(message)),
    })
}

/// What the receiver reports of spans that it did not keep although it accepted the request: how
/// many, and why.
fn partial(body: &[u8]) -> Option<(usize, String)> {
    let partial = ExportTraceServiceResponse::decode(body).ok()?.partial_success?;
    let count = usize::try_from(partial.rejected_spans).ok().filter(|count| *count > 0)?;
    let why =
        if partial.error_message.is_empty() { "no reason given" } else { &partial.error_message };
    Some((count, format!("the receiver accepted a request but did not keep all of it: {why}")))
}

/// The status, and the beginning of the response body.
fn describe(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = words.chars().filter(|letter| !letter.is_control()).take(200).collect();
    if short.is_empty() { status.to_string() } else { format!("{status} {short}") }
}

/// Why there was no response; an error if retrying cannot help. Uses the innermost cause, which is
/// the most specific, and never the address, which may contain a password.
fn cause(error: &reqwest::Error) -> Result<String, Stop> {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let message = cause.to_string();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if error.is_builder() {
        Err(Stop::Wrong(message))
    } else if has(&["corrupt message", "InvalidContentType"]) {
        Err(Stop::Wrong("it does not use TLS; try `http://`".to_owned()))
    } else if has(&["certificate", "UnknownIssuer", "CaUsedAsEndEntity"]) {
        let hint = "set OTEL_EXPORTER_OTLP_CERTIFICATE to a file with one that is";
        Err(Stop::Wrong(format!("its certificate is not trusted: {message}; {hint}")))
    } else {
        Ok(message)
    }
}

/// How long to wait after so many failures. `chance` is from 0 to 1.
fn backoff(failures: u32, chance: f64) -> Duration {
    let steps = failures.saturating_sub(1).min(16);
    let base = Duration::from_millis(500) * (1 << steps);
    base.min(LONGEST).mul_f64(1.0 + chance.clamp(0.0, 1.0) / 2.0)
}

/// A random number from 0 to 1, so that processes that fail together do not retry together.
#[allow(clippy::cast_precision_loss, reason = "any number will do")]
fn chance() -> f64 {
    (RandomState::new().build_hasher().finish() >> 12) as f64 / (1_u64 << 52) as f64
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
