//! The first process: makes the namespaces, starts the second one in them, and reports the exit
//! code of the command.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::{INSIDE, Layers, NO_SANDBOX, Network, Spec};

/// Runs the command of the specification in this file. Returns its exit code.
pub(crate) fn run(file: &Path) -> u8 {
    match started(file) {
        Ok(code) => code,
        Err(error) => {
            crate::init::complain(&format!("the sandbox could not be made: {error}"));
            NO_SANDBOX
        }
    }
}

pub(crate) fn read(file: &Path) -> io::Result<Spec> {
    serde_json::from_slice(&fs::read(file)?).map_err(io::Error::other)
}

fn started(file: &Path) -> io::Result<u8> {
    let spec = read(file)?;
    let mut inside = Command::new("/proc/self/exe");
    inside.arg(INSIDE).arg(file).stdout(Stdio::piped());
    match &spec.layers {
        None => {
            let has_namespaces = namespaces(Network::On).is_ok();
            // Separately: a system may allow one and not the other.
            let has_network = has_namespaces && unshare(CloneFlags::CLONE_NEWNET).is_ok();
            inside.arg(format!("{}{}", u8::from(has_namespaces), u8::from(has_network)));
            inside.stdout(Stdio::inherit());
            return Ok(u8::from(!inside.status()?.success()));
        }
        Some(layers) if layers.namespaces => {
            namespaces(if layers.network { spec.network } else { Network::On })?;
        }
        Some(_) => {}
    }
    let mut child = inside.spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    match line.trim_end().strip_prefix("exit ").and_then(|code| code.parse().ok()) {
        // What the command left running goes on without this process.
        Some(code) => Ok(code),
        None => Ok(child.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(137)),
    }
}

/// Moves this process into namespaces of its own, with the same user.
fn namespaces(network: Network) -> io::Result<()> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC;
    flags.set(CloneFlags::CLONE_NEWNET, network == Network::Off);
    unshare(flags)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    inherit()
}

/// Passes the rights in the new namespace on to the second process: a user other than root would
/// lose them when it starts. They are worth nothing outside the namespace.
fn inherit() -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    for capability in sets.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// What the kernel can enforce: found out by doing it.
pub(crate) fn probe(folder: &Path) -> Layers {
    let found = || -> io::Result<Layers> {
        fs::create_dir_all(folder)?;
        let file = folder.join("probe");
        let blank = folder.join("blank");
        fs::create_dir_all(&blank)?;
        let spec =
            Spec { cwd: "/".into(), blank, writable: vec![folder.to_owned()], ..Spec::default() };
        fs::write(&file, serde_json::to_vec(&spec)?)?;
        let mut command = crate::command(&file);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            out.take(1 << 16).read_to_string(&mut line)?;
        }
        child.wait()?;
        Ok(serde_json::from_str(&line)?)
    };
    // A kernel that cannot even do that enforces nothing.
    found().unwrap_or_default()
}
