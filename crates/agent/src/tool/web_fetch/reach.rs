//! Which hosts pages are fetched from: those of the public internet, and none in the local network.
//!
//! Services on this machine, in its network or next to it in a cloud trust everything that can
//! reach them. Invariant: a name is looked up once, and connections go to the addresses that were
//! checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use reqwest::Url;

use super::{Trouble, failed};

/// Where a page is: its host, and the addresses that were found for it. No addresses if a proxy is
/// to look it up.
pub(super) struct Found {
    pub(super) host: String,
    pub(super) addresses: Vec<SocketAddr>,
}

/// Which hosts may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Those of the public internet.
    Public,
    /// All.
    All,
}

/// Names that mean something only in a local network, or in a cloud: a proxy may look them up.
const LOCAL: [&str; 11] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
];

/// Whether a name, or a part of its end, means something only in a local network.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_below = |local: &&str| {
        name.strip_suffix(*local).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_address = name.parse::<IpAddr>().is_ok();
    !is_address && (!name.contains('.') || LOCAL.iter().any(is_below))
}

/// Looks up where a page is. `near` are hosts that need not be on the public internet.
pub(super) fn look_up(
    url: &Url,
    hosts: Hosts,
    near: &[String],
    is_proxied: bool,
) -> Result<Found, Trouble> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Trouble::wrong("Only http and https addresses can be fetched."));
    }
    let is_named = !url.username().is_empty() || url.password().is_some();
    if hosts == Hosts::Public && is_named {
        let message = "An address with a user name or a password in it is not fetched.";
        return Err(Trouble::wrong(message));
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    // A host in brackets is an IPv6 address.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses: Vec<SocketAddr> = match (name, port).to_socket_addrs() {
        // Port 0 means that of the scheme, which may change on a redirect.
        Ok(found) => found.map(|address| SocketAddr::new(address.ip(), 0)).collect(),
        // The name itself is enough to refuse it, or a proxy looks it up.
        Err(_) if is_proxied || is_local_name(name) => Vec::new(),
        Err(error) => return Err(failed(&error)),
    };
    let is_far = addresses.iter().all(|address| is_public(address.ip())) && !is_local_name(name);
    if hosts == Hosts::Public && !is_far && !near.contains(&host) {
        return Err(Trouble::failed(format!(
            "{host} is not on the public internet: pages of this machine and its network are not fetched."
        )));
    }
    Ok(Found { host, addresses })
}

/// Whether two addresses mean the same server, reached in the same way; a change from http to https
/// is allowed.
pub(super) fn is_same_place(from: &Url, to: &Url) -> bool {
    let port = Url::port_or_known_default;
    let is_upgrade = (from.scheme(), to.scheme()) == ("http", "https")
        && (port(from), port(to)) == (Some(80), Some(443));
    let is_same = from.scheme() == to.scheme() && port(from) == port(to);
    from.host() == to.host() && (is_same || is_upgrade)
}

/// Whether an address belongs to the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // The address through which Azure gives a machine its secrets looks like any other.
    let is_cloud = address == Ipv4Addr::new(168, 63, 129, 16);
    let is_special =
        matches!((a, b, c), (0 | 240.., ..) | (100, 64..128, _) | (192, 0, 0) | (198, 18 | 19, _));
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_special
        || is_cloud)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // IPv4 addresses, in the forms that they have in IPv6.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        // Public addresses, except Teredo and those for documentation.
        [0x2001, 0 | 0xdb8, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
