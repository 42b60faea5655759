//! `quipu view`: sessions as pages in a browser.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use viewer::{Secrets, Server, Serving};

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::prices;
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

pub(crate) fn view(world: &mut World, args: &ViewCommandArgs) -> Result<(), Failure> {
    let session = args.session.as_deref().map(|name| select::session(world, name)).transpose()?;
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
    if world.variable("SSH_CONNECTION").is_some() {
        let port = server.port();
        world.out.note(&format!(
            "on your own machine: ssh -N -L {port}:127.0.0.1:{port} HOST, and open the address there"
        ))?;
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
