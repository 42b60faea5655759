//! The HTTP client of the tree, for `object_store`: it brings none of its own.
//!
//! Invariants: requests without TLS go only to this machine, unless the user allows more; bodies
//! are whole in memory, no request has more than one part of an upload, and an answer that is
//! longer than any list is not read to its end.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Request, Url};

use crate::LakeError;

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// How long one request may take, with its body.
const REQUEST: Duration = Duration::from_secs(300);
/// The most bytes that a file of certificates may have.
const LONGEST_BUNDLE: u64 = 16 << 20;

/// The most bytes that an answer may have. A list has at most a thousand names.
const LONGEST_ANSWER: usize = 16 << 20;

/// Why a request is not sent.
pub(crate) const NO_TLS: &str =
    "requests without TLS go only to this machine; AWS_ALLOW_HTTP=true allows more";

/// Which requests may go without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// Those to this machine.
    Here,
    /// All: the user says so.
    Anywhere,
}

/// Makes requests with the client of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    client: Client,
    plain: Plain,
    /// An answer to a deletion said that it only marks what it deletes.
    only_marks: Arc<AtomicBool>,
}

impl Connector {
    /// A client that also trusts the certificates in a file.
    pub(crate) fn new(plain: Plain, bundle: Option<&Path>) -> Result<Connector, LakeError> {
        let wrong = |error: reqwest::Error| LakeError::Settings(format!("no HTTP client: {error}"));
        let mut builder = Client::builder()
            .user_agent(concat!("quipu/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(REQUEST)
            // A redirect would take the signature of a request elsewhere.
            .redirect(reqwest::redirect::Policy::none());
        if let Some(path) = bundle {
            let bad = |why: String| {
                LakeError::Settings(format!("the certificates in `{}`: {why}", path.display()))
            };
            let pem = files::read(path, LONGEST_BUNDLE).map_err(|error| bad(error.to_string()))?;
            let found = reqwest::Certificate::from_pem_bundle(&pem);
            for certificate in found.map_err(|error| bad(error.to_string()))? {
                builder = builder.add_root_certificate(certificate);
            }
        }
        let client = builder.build().map_err(wrong)?;
        Ok(Connector { client, plain, only_marks: Arc::default() })
    }

    /// Is set once a bucket has said that what is deleted stays there as an old version.
    pub(crate) fn only_marks(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.only_marks)
    }

    /// Looks into the answer to a deletion: of one object, or of several.
    fn note_marks(&self, headers: &HeaderMap, body: &[u8]) {
        let mark = b"<DeleteMarker>true";
        let in_head = headers.get("x-amz-delete-marker").is_some_and(|value| value == "true");
        if in_head || body.windows(mark.len()).any(|part| part == mark) {
            self.only_marks.store(true, Ordering::Relaxed);
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url: Url = parts.uri.to_string().parse().map_err(|_| refused("not an address"))?;
        if url.scheme() != "https" && self.plain == Plain::Here && !is_here(&url) {
            return Err(refused(NO_TLS));
        }
        let is_deletion = parts.method == Method::DELETE
            || (parts.method == Method::POST && url.query() == Some("delete"));
        let mut asked = Request::new(parts.method, url);
        *asked.headers_mut() = parts.headers;
        let body = body.collect().await?.to_bytes();
        *asked.body_mut() = Some(body.into());
        let mut answer = self.client.execute(asked).await.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > LONGEST_ANSWER {
                return Err(refused("the answer is too long"));
            }
            body.extend_from_slice(&piece);
        }
        if is_deletion {
            self.note_marks(&headers, &body);
        }
        let mut response = HttpResponse::new(Bytes::from(body).into());
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }
}

fn refused(why: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Whether an address is that of this machine, or of the service that gives a machine in a cloud
/// its credentials.
fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_near = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback(),
    };
    host == "localhost" || host == "metadata.google.internal" || host.parse().is_ok_and(is_near)
}

/// What a failed request means: whether it can be tried again is decided by that.
fn failed(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() || error.is_redirect() {
        HttpErrorKind::Unknown
    } else {
        // The connection ended early; whether the request was carried out is not known.
        HttpErrorKind::Interrupted
    };
    let mut why = String::new();
    let mut source = error.source();
    while let Some(inner) = source {
        why = inner.to_string();
        source = inner.source();
    }
    let text = if why.is_empty() { error.without_url().to_string() } else { why };
    HttpError::new(kind, io::Error::other(text))
}
