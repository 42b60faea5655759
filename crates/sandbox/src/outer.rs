//! The first process: makes the namespaces, starts the second one in them, and reports the exit
//! code of the command.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::{ENTER, INSIDE, Layers, NO_SANDBOX, Network, Spec};

/// Without namespaces.
pub(crate) const PLAIN: &str = "plain";
/// With namespaces, and the network.
pub(crate) const NAMESPACES: &str = "namespaces";
/// With namespaces, also of the network.
pub(crate) const ISOLATED: &str = "isolated";
/// Finds out what there is.
const PROBE: &str = "probe";

/// This program as the first process, in a group of its own and without any variable.
pub(crate) fn itself(how: &str) -> Command {
    // Not the path of the program: that may have been replaced by an update.
    let mut command = Command::new("/proc/self/exe");
    command.arg(ENTER).arg(how).env_clear().current_dir("/").stdin(Stdio::piped());
    command.process_group(0);
    command
}

/// Makes the namespaces, and has the command run in them. Returns its exit code.
pub(crate) fn run(how: &str) -> u8 {
    match started(how) {
        Ok(code) => code,
        Err(error) => {
            crate::init::complain(&format!("the sandbox could not be made: {error}"));
            NO_SANDBOX
        }
    }
}

fn started(how: &str) -> io::Result<u8> {
    close_inherited()?;
    let mut inside = Command::new("/proc/self/exe");
    inside.arg(INSIDE).stdout(Stdio::piped());
    match how {
        PROBE => {
            let has_namespaces = namespaces(Network::On).is_ok();
            // Separately: a system may allow one and not the other.
            let has_network = has_namespaces && unshare(CloneFlags::CLONE_NEWNET).is_ok();
            inside.arg(format!("{}{}", u8::from(has_namespaces), u8::from(has_network)));
            inside.stdout(Stdio::inherit());
            return Ok(u8::from(!inside.status()?.success()));
        }
        NAMESPACES => namespaces(Network::On)?,
        ISOLATED => namespaces(Network::Off)?,
        PLAIN => {}
        other => return Err(io::Error::other(format!("`{other}` is not known"))),
    }
    // Without namespaces, commands see this process.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let mut child = inside.arg(how).spawn()?;
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

/// Closes the files that whoever started the program has left open: no rule holds for them.
fn close_inherited() -> io::Result<()> {
    let entries = fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let numbers: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in numbers {
        // The one with which they were listed is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
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

/// Starts what finds out what the kernel can enforce.
pub(crate) fn probe(folder: &Path) -> io::Result<Child> {
    let blank = folder.join("blank");
    fs::create_dir_all(&blank)?;
    let spec =
        Spec { cwd: "/".into(), blank, writable: vec![folder.to_owned()], ..Spec::default() };
    let mut command = itself(PROBE);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = serde_json::to_vec(&spec)?;
    line.push(b'\n');
    if let Some(input) = &mut child.stdin {
        input.write_all(&line)?;
    }
    Ok(child)
}

/// What it has found.
pub(crate) fn found(mut child: Child) -> io::Result<Layers> {
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(1 << 16).read_to_string(&mut line)?;
    }
    child.wait()?;
    Ok(serde_json::from_str(&line)?)
}
