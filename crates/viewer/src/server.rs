//! The server: answers requests on loopback until the program ends.
//!
//! The only place with an async runtime; nothing of it is in an API. Invariants: every request
//! passes the `guard`; answers say that they are not to be stored, sniffed or framed.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, header};
use tokio::sync::Semaphore;
use transcript::Session;
use transcript::conversation::place::Home;
use transcript::conversation::price::Prices;
use transcript::format::secret::Redactor;

use crate::earlier::{Changes, Survey};
use crate::guard::{Admission, Asked, Guard};
use crate::library::{Library, key_of};
use crate::page;
use crate::routes::{Address, Pages};

/// The port that is tried first.
const PORT: u16 = 4747;
/// How many requests are worked on at once.
const AT_ONCE: usize = 4;

/// Whether pages show secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// As they are in the files.
    Shown,
    /// Redacted.
    Redacted,
}

/// What is served, and where.
#[derive(Debug)]
pub struct Serving {
    /// The homes whose sessions are listed.
    pub homes: Vec<Home>,
    /// The session that opens first.
    pub session: Option<Session>,
    /// The catalog to read and to bring up to date.
    pub catalog: Option<PathBuf>,
    /// Finds secrets.
    pub redactor: Arc<Redactor>,
    /// What tokens cost.
    pub prices: Prices,
    /// Whether pages show secrets.
    pub secrets: Secrets,
    /// The address to listen at; none: loopback, under a random name.
    pub listen: Option<IpAddr>,
    /// The port; none: one that is free.
    pub port: Option<u16>,
    /// The command that uses the same homes, for commands that pages show.
    pub again: String,
    /// Knows what sessions were before they were changed.
    pub changes: Box<dyn Changes>,
    /// Knows what has to be hidden of a session.
    pub survey: Box<dyn Survey>,
}

/// A server that is ready.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    guard: Guard,
    pages: Pages,
    first: String,
    limit: Semaphore,
}

impl Server {
    /// Takes a port.
    pub fn bind(serving: Serving) -> io::Result<Server> {
        let address = serving.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let bind = |port| std::net::TcpListener::bind(SocketAddr::new(address, port));
        let listener = match serving.port {
            Some(port) => bind(port)?,
            None => bind(PORT).or_else(|_| bind(0))?,
        };
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let guard = match serving.listen {
            Some(address) if address.is_unspecified() => Guard::anywhere(&outward(address), port),
            Some(address) => Guard::new(&at(address), port),
            None => Guard::new(&Guard::random_host(), port),
        };
        let first = serving.session.as_ref();
        let first = first.map_or(String::new(), |session| format!("s/{}", key_of(&session.path)));
        let again = serving.again.clone();
        let library = Arc::new(Library::new(serving));
        let pages = Pages { library, root: guard.root(), again };
        let shared = Shared { guard, pages, first, limit: Semaphore::new(AT_ONCE) };
        Ok(Server { listener, shared: Arc::new(shared) })
    }

    /// The address that opens the pages, once.
    pub fn address(&self) -> String {
        self.shared.guard.start()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(0, |address| address.port())
    }

    /// Answers requests until the program ends.
    pub fn run(self) -> io::Result<()> {
        let Server { listener, shared } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(AT_ONCE)
            .build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let router = Router::new().fallback(answer).with_state(shared);
            axum::serve(listener, router).await
        })
    }
}

/// An address as a part of others.
fn at(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The address by which others reach this machine, most likely. Nothing is sent to find it out.
fn outward(any: IpAddr) -> String {
    let far: SocketAddr = match any {
        IpAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
        IpAddr::V6(_) => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
    };
    let found = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    at(found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |found| found.ip()))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let held = shared.limit.acquire().await;
    let worker = Arc::clone(&shared);
    let work = move || respond(&worker, parts.method.as_str(), &parts.uri, &parts.headers);
    let made = tokio::task::spawn_blocking(work).await;
    drop(held);
    made.unwrap_or_else(|_| Response::new(Body::from("something went wrong")))
}

/// The value of a header; of one that is there twice, what no header may have: who decides by one
/// of them must not be wrong about the other.
fn only_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(match all.next() {
        None => String::from_utf8_lossy(first.as_bytes()),
        Some(_) => Cow::Borrowed("?"),
    })
}

fn respond(
    shared: &Shared,
    method: &str,
    uri: &axum::http::Uri,
    headers: &HeaderMap,
) -> Response<Body> {
    let names = ["host", "origin", "sec-fetch-site", "sec-fetch-dest", "cookie", "x-quipu"];
    let texts = names.map(|name| only_value(headers, name));
    let [host, origin, site, destination, cookie, part] = texts.each_ref().map(Option::as_deref);
    let asked = Asked { method, host, origin, site, destination, cookie, path: uri.path() };
    let builder = Response::builder()
        .header(header::CONTENT_SECURITY_POLICY, page::SERVED.as_str())
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(header::CACHE_CONTROL, "no-store")
        .header("cross-origin-opener-policy", "same-origin")
        .header("cross-origin-resource-policy", "same-origin")
        .header(header::X_FRAME_OPTIONS, "DENY");
    let made = match shared.guard.admit(&asked) {
        Admission::Refused(status, why) => builder
            .status(status)
            .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(Body::from(format!("{why}\n"))),
        Admission::Welcome => builder
            .status(303)
            .header(header::SET_COOKIE, shared.guard.set_cookie())
            .header(header::LOCATION, format!("{}{}", shared.pages.root, shared.first))
            .body(Body::empty()),
        Admission::Page(path) => {
            let query = uri.query().unwrap_or_default();
            let is_part = part == Some("part");
            let reply = shared.pages.answer(Address { path, query, is_part });
            builder
                .status(reply.status)
                .header(header::CONTENT_TYPE, reply.kind)
                .body(Body::from(reply.body))
        }
    };
    made.unwrap_or_else(|_| Response::new(Body::empty()))
}
