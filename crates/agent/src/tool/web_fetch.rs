//! `WebFetch`: a page of the web, as Markdown.
//!
//! Invariants: only `http` and `https`; another host is named, not followed; a page of any length takes bounded memory.

use std::io::Read;
use std::time::{Duration, Instant};

use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use serde::Serialize;

use super::{Answer, Call, Site, Trouble, text};

/// How much of a page is read, and how much of it the model is told.
const READ: u64 = 10 << 20;
const TOLD: usize = 100_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    bytes: usize,
    code: u16,
    code_text: &'a str,
    result: &'a str,
    duration_ms: u64,
    url: &'a str,
}

pub(super) fn run(call: &Call, _: &Site) -> Result<Answer, Trouble> {
    let start = Instant::now();
    let named = text(call, "url");
    let mut url: reqwest::Url = named
        .parse()
        .map_err(|error| Trouble::wrong(format!("`{named}` is no address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Trouble::wrong("Only http and https addresses can be fetched."));
    }
    let failed =
        |error: &reqwest::Error| Trouble::failed(format!("The page cannot be fetched: {error}"));
    let client = Client::builder()
        .user_agent(crate::USER_AGENT)
        .redirect(Policy::none())
        .timeout(Duration::from_secs(30))
        .build()
        .map_err(|error| failed(&error))?;
    for _ in 0..10 {
        let response = client.get(url.clone()).send().map_err(|error| failed(&error))?;
        let status = response.status();
        if status.is_redirection()
            && let Some(to) = response.headers().get("location").and_then(|to| to.to_str().ok())
        {
            let next = url.join(to).map_err(|error| Trouble::failed(error.to_string()))?;
            if next.host() != url.host() {
                return Err(Trouble::failed(format!(
                    "The page has moved to another host: fetch {next} instead."
                )));
            }
            url = next;
            continue;
        }
        let is_html = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let is_html = is_html.is_none_or(|kind| kind.contains("html"));
        let mut bytes = Vec::new();
        let read = response.take(READ).read_to_end(&mut bytes);
        read.map_err(|error| Trouble::failed(format!("The page cannot be read: {error}")))?;
        let page = String::from_utf8_lossy(&bytes);
        let page =
            if is_html { htmd::convert(&page).unwrap_or_default() } else { page.into_owned() };
        let mut told: String = page.chars().take(TOLD).collect();
        if told.len() < page.len() {
            told.push_str("\n\n[the rest of the page is left out]");
        }
        let detail = Detail {
            bytes: bytes.len(),
            code: status.as_u16(),
            code_text: status.canonical_reason().unwrap_or_default(),
            result: &told,
            duration_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            url: named,
        };
        return Ok(Answer::text(told.clone(), &detail));
    }
    Err(Trouble::failed("The page leads from one address to the next without an end."))
}
