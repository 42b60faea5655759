//! Who may ask: only the browser that opened the start address.
//!
//! The start address has a token that works once, because lists of processes show it. For it, the
//! browser gets a cookie, and a key that is part of all further addresses. Browsers send cookies to
//! every port of a host, so the server has a random name below `.localhost`, and the cookie alone
//! opens nothing. Invariants: a request without the right `Host`, the key and the cookie gets
//! nothing; so does one that another site made.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// What is asked of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub(crate) site: Option<&'a str>,
    /// `Sec-Fetch-Dest`.
    pub(crate) destination: Option<&'a str>,
    pub(crate) cookie: Option<&'a str>,
    pub(crate) path: &'a str,
}

/// What a request gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<'a> {
    /// What is at this path, without the key.
    Page(&'a str),
    /// A cookie, and the way to the first page.
    Welcome,
    /// Nothing, and why.
    Refused(u16, &'static str),
}

/// The secrets of one run.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The value that `Host` must have.
    host: String,
    /// Whether `Host` may also be another address of the machine, with this port. Not a name: a
    /// name can be made to lead here by whoever owns it, an address cannot.
    any_address: Option<u16>,
    token: Mutex<Option<String>>,
    name: String,
    cookie: String,
    key: String,
}

fn random() -> String {
    Uuid::new_v4().simple().to_string()
}

impl Guard {
    /// For a server at that host and port.
    pub(crate) fn new(host: &str, port: u16) -> Guard {
        // Browsers leave out the port that is usual.
        let host = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
        let name = format!("quipu-{}", &random()[..8]);
        let token = Mutex::new(Some(random()));
        Guard { host, any_address: None, token, name, cookie: random(), key: random() }
    }

    /// For a server at all addresses of the machine, one of which is `host`.
    pub(crate) fn anywhere(host: &str, port: u16) -> Guard {
        Guard { any_address: Some(port), ..Guard::new(host, port) }
    }

    /// Whether a value of `Host` names this server.
    fn is_host(&self, host: &str) -> bool {
        let is_address = |port: u16| match host.parse::<SocketAddr>() {
            Ok(address) => address.port() == port,
            Err(_) => port == 80 && host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok(),
        };
        host == self.host || self.any_address.is_some_and(is_address)
    }

    /// A name that no other server has.
    pub(crate) fn random_host() -> String {
        format!("quipu-{}.localhost", &random()[..12])
    }

    /// The address that works once.
    pub(crate) fn start(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        format!("http://{}/open/{}", self.host, token.as_deref().unwrap_or_default())
    }

    /// Where the pages are, with a slash at the end.
    pub(crate) fn root(&self) -> String {
        format!("/{}/", self.key)
    }

    /// The header that sets the cookie.
    pub(crate) fn set_cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.name, self.cookie)
    }

    /// Decides about a request.
    pub(crate) fn admit<'a>(&self, asked: &Asked<'a>) -> Admission<'a> {
        use Admission::{Page, Refused, Welcome};
        if asked.method != "GET" {
            return Refused(405, "Nothing here can be changed.");
        }
        let Some(host) = asked.host.filter(|host| self.is_host(host)) else {
            return Refused(421, "This server has another name.");
        };
        let origin = format!("http://{host}");
        if asked.origin.is_some_and(|one| one != origin) {
            return Refused(403, "The request comes from another site.");
        }
        let is_near = matches!(asked.site, None | Some("none" | "same-origin"));
        let is_framed = matches!(asked.destination, Some("iframe" | "frame" | "embed" | "object"));
        if is_framed {
            return Refused(403, "Pages are not shown inside others.");
        }
        if let Some(token) = asked.path.strip_prefix("/open/") {
            let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
            if known.as_deref().is_some_and(|known| is_same(known, token)) {
                *known = None;
                return Welcome;
            }
            return Refused(
                403,
                "This address worked once. Use the tab that is open, or start quipu view again.",
            );
        }
        if !is_near {
            return Refused(403, "The request comes from another site.");
        }
        let rest = asked.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((_, rest)) = rest.filter(|(key, _)| is_same(key, &self.key)) else {
            return Refused(403, "Open the address that quipu view printed.");
        };
        let is_ours = |one: &str| {
            let pair = one.trim().split_once('=');
            pair.is_some_and(|(name, value)| name == self.name && is_same(value, &self.cookie))
        };
        if !asked.cookie.is_some_and(|all| all.split(';').any(is_ours)) {
            return Refused(403, "Open the address that quipu view printed.");
        }
        Page(rest)
    }
}

/// Compares secrets in the same time, wherever they differ.
fn is_same(known: &str, given: &str) -> bool {
    known.len() == given.len()
        && known.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
