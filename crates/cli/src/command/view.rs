//! `quipu view`: sessions as pages in a browser.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use transcript::Session;
use transcript::format::secret::{Cover, Redactor};
use transcript::format::time::Time;
use viewer::{Changes, Descent, Earlier, Secrets, Server, Serving, Survey};
use workshop::store::{Entry, Journal, State, Was};

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::prices;
use crate::redact::cover_of;
use crate::select;
use crate::world::World;

/// Show sessions in a browser, from a server on this machine
///
/// Prints an address, and opens it in a browser if there is a desktop. The address works once;
/// after that, only that browser can ask. The server reads sessions and changes nothing; it listens
/// on loopback only, and ends with Ctrl-C. Pages show what the files hold, secrets included.
#[derive(clap::Args, Debug)]
pub(crate) struct ViewCommandArgs {
    /// The session that opens first; without one, the list of all
    session: Option<String>,
    /// Use this port; without it, 4747 or one that is free
    #[arg(long, value_name = "NUMBER")]
    port: Option<u16>,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
    /// Listen at this address of the machine; what is sent there is not encrypted
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Redact secrets on all pages
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    catalog: CatalogArgs,
}

/// What sessions were before their changes, from the journal of `quipu undo`.
#[derive(Debug)]
struct Journaled(Option<Journal>);

impl Journaled {
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let entries = self.0.as_ref().and_then(|journal| journal.entries().ok());
        let entries = entries.into_iter().flatten();
        entries.filter(|entry| !matches!(entry.state, State::Damaged(_)))
    }
}

impl Changes for Journaled {
    fn before(&self, session: &Path) -> Vec<Earlier> {
        self.entries()
            .flat_map(|entry| {
                let items = entry.items.iter().filter(|item| item.path == session);
                let old = items.filter_map(|item| match &item.was {
                    Was::There { copy, .. } => Some(entry.folder.join(&copy.name)),
                    Was::Nothing => None,
                });
                let (name, what, time) = (&entry.name, &entry.what, Time(entry.time));
                let earlier =
                    old.map(|path| Earlier { name: name.clone(), what: what.clone(), time, path });
                earlier.collect::<Vec<_>>()
            })
            .collect()
    }

    fn descents(&self, session: &str) -> Vec<Descent> {
        let made = self.entries().filter_map(|entry| {
            let made = entry.made.filter(|made| *made != entry.session)?;
            let (what, time) = (entry.what, Time(entry.time));
            Some(Descent { what, time, origin: entry.session, made })
        });
        made.filter(|one| one.origin == session || one.made == session).collect()
    }
}

/// Looks through a session as `quipu export` does.
#[derive(Debug)]
struct Surveyed(Arc<Redactor>);

impl Survey for Surveyed {
    fn cover(&self, session: &Session) -> Result<Cover, String> {
        cover_of(Arc::clone(&self.0), session).map_err(|failure| failure.to_string())
    }
}

pub(crate) fn view(world: &mut World, args: &ViewCommandArgs) -> Result<(), Failure> {
    let session = args.session.as_deref().map(|name| select::session(world, name)).transpose()?;
    if let Some(session) = &session {
        // Said now, not on the page.
        files::open(&session.path).map_err(|error| Failure::unreadable(&session.path, error))?;
    }
    let homes = match (world.homes(), &session) {
        (Ok(homes), _) => homes.list,
        // A file that was named needs no home.
        (Err(_), Some(_)) => Vec::new(),
        (Err(failure), None) => return Err(failure),
    };
    let prices = prices::in_force(world, None)?;
    let catalog = args.catalog.path(world).ok().filter(|_| !homes.is_empty());
    let serving = Serving {
        homes,
        session,
        catalog,
        redactor: world.redactor(),
        prices,
        secrets: if args.redact { Secrets::Redacted } else { Secrets::Shown },
        listen: args.listen,
        port: args.port,
        again: world.again(),
        changes: Box::new(Journaled(world.workshop.journal().ok())),
        survey: Box::new(Surveyed(world.redactor())),
    };
    let server = Server::bind(serving).map_err(|error| {
        let place = match (args.listen, args.port) {
            (Some(address), Some(port)) => format!("{address}, port {port}"),
            (Some(address), None) => address.to_string(),
            (None, Some(port)) => format!("port {port}"),
            (None, None) => "any port".to_owned(),
        };
        let hint =
            "without `--port`, a free one is taken; `--listen` needs an address of this machine";
        Failure::usage(format!("cannot listen at {place}: {error}"), Some(hint))
    })?;
    let address = server.address();
    writeln!(world.out, "{address}")?;
    world.out.flush()?;
    if let Some(listen) = args.listen.filter(|address| !address.is_loopback()) {
        world.out.note(&format!(
            "everyone who can reach {listen} can see what is sent: it is not encrypted"
        ))?;
    }
    let is_near = args.listen.is_none_or(|address| address.is_loopback());
    if world.variable("SSH_CONNECTION").is_some() {
        // What listens at another address is reached there.
        if is_near {
            let (port, at) = (server.port(), args.listen.unwrap_or(Ipv4Addr::LOCALHOST.into()));
            let target = SocketAddr::new(at, server.port());
            world.out.note(&format!(
                "on your own machine: ssh -N -L {port}:{target} HOST, and open the address there"
            ))?;
        }
    } else if !args.no_open {
        open(world, &address);
    }
    world.out.note("the address works once; Ctrl-C ends the server")?;
    server.run().map_err(|error| Failure::usage(format!("the server ended: {error}"), None))
}

/// Opens an address in the browser of a desktop. If there is none, the address is printed anyway.
fn open(world: &World, address: &str) {
    let has_desktop = cfg!(any(target_os = "macos", windows))
        || world.variable("DISPLAY").is_some()
        || world.variable("WAYLAND_DISPLAY").is_some();
    let name = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let found = world
        .programs()
        .iter()
        .map(|folder: &PathBuf| folder.join(name))
        .find(|path| path.is_file());
    if let Some(program) = found.filter(|_| has_desktop) {
        let mut command = Command::new(program);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Without a browser, the address was printed.
        drop(command.spawn());
    }
}
