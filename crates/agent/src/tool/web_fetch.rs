//! `WebFetch`: fetches a web page as Markdown. No second model reads it: the model that makes the
//! call knows what it needs the page for.
//!
//! Invariants: only `http` and `https`, and only the public internet ([`reach`]), unless both rules
//! and sandbox are switched off; the address that was checked is the one that is connected to; what
//! a proxy connects to is the proxy's affair, except for names of the local network; a redirect to
//! another host, port or scheme is reported, not followed; a page of any length and any shape takes
//! bounded time and stack; a cancelled call does not wait.

mod page;
mod reach;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::sync::PoisonError;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use reqwest::blocking::{Client, Response};
use reqwest::redirect::Policy;
use serde::Serialize;

use super::{Answer, Call, Cancel, Site, Trouble, text};
use crate::api::http::through;
use crate::permit::Mode;
use crate::secret::PROXIES;
use reach::Hosts;

/// How many bytes of a page are read, and how many characters of it the model gets.
const READ: u64 = 10 << 20;
const TOLD: usize = 100_000;
/// How long a server may be silent, and how long everything may take.
const SILENT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 4 } else { 120 });
/// How many redirects are followed.
const HOPS: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebFetchDetail<'a> {
    bytes: usize,
    code: u16,
    code_text: &'a str,
    result: &'a str,
    duration_ms: u64,
    url: &'a str,
}

/// How pages are reached.
struct Way {
    /// Which hosts may be.
    hosts: Hosts,
    /// Hosts that need not be on the public internet.
    near: Vec<String>,
    /// Proxies, if the environment does not contain them.
    proxies: Vec<(String, String)>,
}

impl Way {
    fn is_proxied(&self) -> bool {
        let is_proxy = |name: &OsStr| PROXIES.iter().any(|proxy| name == *proxy);
        !self.proxies.is_empty() || std::env::vars_os().any(|(name, _)| is_proxy(&name))
    }
}

/// A fetched page.
struct Fetched {
    code: u16,
    code_text: &'static str,
    bytes: usize,
    text: String,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    if site.is_offline {
        return Err(super::offline());
    }
    let start = Instant::now();
    let named = text(call, "url");
    let url: reqwest::Url = named
        .parse()
        .map_err(|error| Trouble::wrong(format!("`{named}` is no address: {error}")))?;
    let way =
        Way { hosts: hosts(site), near: site.near_hosts.clone(), proxies: site.proxies.clone() };
    let found = in_time(start, url, way, &call.cancel)?;
    let mut excerpt: String = found.text.chars().take(TOLD).collect();
    if excerpt.len() < found.text.len() {
        excerpt.push_str("\n\n[the rest of the page is left out]");
    }
    let detail = WebFetchDetail {
        bytes: found.bytes,
        code: found.code,
        code_text: found.code_text,
        result: &excerpt,
        duration_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        url: named,
    };
    Ok(Answer::text(excerpt.clone(), &detail))
}

/// Which hosts may be reached. Whoever has switched off both rules and sandbox has commands that
/// reach what the user can; then this does, too.
fn hosts(site: &Site) -> Hosts {
    let mode = *site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    if site.guard.is_none() && mode == Mode::Bypass { Hosts::All } else { Hosts::Public }
}

/// Fetches a page on a thread of its own, and waits for it until the time is over or the call is
/// cancelled.
fn in_time(
    start: Instant,
    url: reqwest::Url,
    way: Way,
    cancel: &Cancel,
) -> Result<Fetched, Trouble> {
    let (done, found) = mpsc::channel();
    let stop = Cancel::default();
    let given_up = stop.clone();
    let fetching = thread::Builder::new().stack_size(page::STACK).spawn(move || {
        let _ = done.send(fetch(url, &way, &given_up));
    });
    fetching.map_err(|error| failed(&error))?;
    loop {
        match found.recv_timeout(Duration::from_millis(20)) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Disconnected) => return Err(failed(&"it came to nothing")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if cancel.is_set() || start.elapsed() > LONGEST {
            stop.set();
            let is_late = !cancel.is_set();
            let why = if is_late { "it takes too long" } else { "the fetch was cancelled" };
            return Err(failed(&why));
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> Trouble {
    Trouble::failed(format!("The page cannot be fetched: {error}"))
}

fn fetch(mut url: reqwest::Url, way: &Way, stop: &Cancel) -> Result<Fetched, Trouble> {
    let found = reach::look_up(&url, way.hosts, &way.near, way.is_proxied())?;
    let client = Client::builder()
        .user_agent(crate::USER_AGENT)
        .redirect(Policy::none())
        .timeout(SILENT)
        .resolve_to_addrs(&found.host, &found.addresses);
    let client = through(client, &way.proxies).map_err(|error| failed(&error))?;
    let client = client.build().map_err(|error| failed(&error))?;
    for _ in 0..HOPS {
        let response = client.get(url.clone()).send().map_err(|error| failed(&error))?;
        let status = response.status();
        if status.is_redirection()
            && let Some(to) = response.headers().get("location").and_then(|to| to.to_str().ok())
        {
            let next = url.join(to).map_err(|error| failed(&error))?;
            if !reach::is_same_place(&url, &next) {
                let is_host = next.host() != url.host();
                let what = if is_host { "host" } else { "port or scheme" };
                return Err(Trouble::failed(format!(
                    "The page has moved to another {what}: fetch {next} instead."
                )));
            }
            url = next;
            continue;
        }
        if !status.is_success() {
            return Err(failed(&status));
        }
        return read(response, stop);
    }
    Err(Trouble::failed("The page leads from one address to the next without an end."))
}

fn read(response: Response, stop: &Cancel) -> Result<Fetched, Trouble> {
    let status = response.status();
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("text/html").to_ascii_lowercase();
    let mut bytes = Vec::new();
    let read = Stopped { inner: response, stop }.take(READ).read_to_end(&mut bytes);
    read.map_err(|error| Trouble::failed(format!("The page cannot be read: {error}")))?;
    let is_other = ["image/", "audio/", "video/", "font/", "application/pdf"];
    let is_other = is_other.iter().any(|other| kind.starts_with(other)) && !kind.contains("xml");
    if is_other || bytes.contains(&0) {
        return Err(Trouble::failed(format!("It is no text, but {kind}.")));
    }
    let is_latin = ["iso-8859-1", "latin1", "windows-1252"].iter().any(|name| kind.contains(name));
    let text = if is_latin {
        // These bytes are the first characters of Unicode.
        bytes.iter().copied().map(char::from).collect()
    } else {
        String::from_utf8_lossy(&bytes)
    };
    let text = if kind.contains("html") { page::markdown(&text) } else { text.into_owned() };
    let code_text = status.canonical_reason().unwrap_or_default();
    Ok(Fetched { code: status.as_u16(), code_text, bytes: bytes.len(), text })
}

/// A reader that ends when the page is no longer wanted.
struct Stopped<'a, R> {
    inner: R,
    stop: &'a Cancel,
}

impl<R: Read> Read for Stopped<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() { Ok(0) } else { self.inner.read(bytes) }
    }
}

#[cfg(test)]
#[path = "web_fetch_tests.rs"]
mod tests;
