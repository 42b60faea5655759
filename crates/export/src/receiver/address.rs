//! Which place names the receiver, and the address that this leads to.
//!
//! Invariants: the first place that names one wins, as a whole: its address with its credentials;
//! an address is shown without its password and query.

use std::net::IpAddr;

use reqwest::Url;

use super::{ResolveError, Settings};

/// The address, where it is named, and the credentials for it.
pub(super) struct Named {
    pub(super) url: String,
    pub(super) by: &'static str,
    /// Whether the path is complete.
    pub(super) is_whole: bool,
    pub(super) keys: Option<[String; 2]>,
    pub(super) headers: Vec<(String, String)>,
}

/// The address of Langfuse if only keys are given.
const LANGFUSE: &str = "https://cloud.langfuse.com";
pub(super) const LANGFUSE_PATH: &str = "/api/public/otel";
const TRACES: &str = "/v1/traces";

impl Settings<'_> {
    /// The first place that names a receiver, in this order.
    pub(super) fn named(&self) -> Result<Option<Named>, ResolveError> {
        let otel_headers = || {
            let text = self.otel("HEADERS").unwrap_or_default();
            let parts = text.split(',').filter(|part| !part.trim().is_empty());
            let pairs =
                parts.map(|part| pair(part, '=').map(|(name, value)| (name, decode(&value))));
            pairs.collect::<Result<Vec<_>, _>>()
        };
        let endpoint = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .into_iter()
            .find_map(|name| Some((name, self.variable(name)?)));
        if let Some(url) = &self.overrides.to {
            // Keys go only to the origin that they are for: same scheme, host and port.
            let place = |text: &str| Url::parse(text).ok().map(|url| url.origin());
            let is_theirs =
                |named: &Named| place(url).is_some_and(|to| place(&named.url) == Some(to));
            let headers = if endpoint.is_none() { otel_headers()? } else { Vec::new() };
            // An incomplete pair of keys for another receiver does not matter for this one.
            let langfuse = self.langfuse().ok().flatten();
            let keys = langfuse.filter(is_theirs).and_then(|named| named.keys);
            let url = if keys.is_some() { in_langfuse(url) } else { url.clone() };
            return Ok(Some(Named { url, by: "--to", is_whole: false, keys, headers }));
        }
        if let Some(langfuse) = self.langfuse()? {
            return Ok(Some(langfuse));
        }
        if let Some((by, url)) = endpoint {
            if self.otel("PROTOCOL").is_some_and(|name| name == "grpc") {
                return Err(ResolveError::Grpc);
            }
            let is_whole = by.contains("TRACES");
            return Ok(Some(Named { url, by, is_whole, keys: None, headers: otel_headers()? }));
        }
        let config = self.config;
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

    /// Langfuse as the environment names it, with the prefix of the cc-langfuse hook or without.
    fn langfuse(&self) -> Result<Option<Named>, ResolveError> {
        for (prefix, by) in [("CC_LANGFUSE", "CC_LANGFUSE_*"), ("LANGFUSE", "LANGFUSE_*")] {
            let variable = |name: &str| self.variable(&format!("{prefix}_{name}"));
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
}

/// The address where a Langfuse server accepts traces.
fn in_langfuse(url: &str) -> String {
    if url.contains(LANGFUSE_PATH) {
        return url.to_owned();
    }
    format!("{}{LANGFUSE_PATH}", url.trim_end_matches('/'))
}

/// Two keys, neither of which is useful alone.
fn both(keys: [Option<String>; 2], names: [&str; 2]) -> Result<Option<[String; 2]>, ResolveError> {
    match keys {
        [Some(public), Some(secret)] => Ok(Some([public, secret])),
        [None, None] => Ok(None),
        [public, _] => {
            let [set, missing] = if public.is_some() { names } else { [names[1], names[0]] };
            Err(ResolveError::HalfOfKeys { set: set.to_owned(), missing: missing.to_owned() })
        }
    }
}

/// The address that gets the requests.
pub(super) fn address(named: &Named) -> Result<Url, ResolveError> {
    let (by, shown) = (named.by, masked(&named.url));
    let bad = |why: String| ResolveError::Address { shown: shown.clone(), by, why };
    let mut url = Url::parse(&named.url).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(format!("`{}` is not supported, only http and https", url.scheme())));
    }
    if url.port() == Some(4317) {
        return Err(ResolveError::GrpcPort { shown, by });
    }
    if !named.is_whole && !url.path().ends_with(TRACES) {
        let path = format!("{}{TRACES}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// Whether an address is on this machine.
pub(super) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An address without credentials: the password and the query are masked.
pub(super) fn masked(address: &str) -> String {
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

/// The name and the value of a header.
pub(super) fn pair(text: &str, between: char) -> Result<(String, String), ResolveError> {
    let (name, value) = text.split_once(between).ok_or(ResolveError::NoValue)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
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

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
