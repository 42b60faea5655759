//! The first process: makes the namespaces, forks the second one into them, and reports the exit
//! code of the command.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{ENTER, Layers, NO_SANDBOX, Network, init};

/// Without namespaces.
const PLAIN: &str = "plain";
/// With namespaces, and the network.
const NAMESPACES: &str = "namespaces";
/// With namespaces, also of the network.
pub(crate) const ISOLATED: &str = "isolated";

/// Which namespaces a command gets.
pub(crate) fn how(layers: &Layers, network: Network) -> &'static str {
    match (layers.namespaces, layers.network && network == Network::Off) {
        (true, true) => ISOLATED,
        (true, false) => NAMESPACES,
        (false, _) => PLAIN,
    }
}

/// This program as the first process, in a group of its own and without any variable. What the
/// command puts out goes into this file.
pub(crate) fn itself(how: &str, output: &File) -> io::Result<Command> {
    // Not the path of the program: that may have been replaced by an update.
    let mut command = Command::new("/proc/self/exe");
    command.arg(ENTER).arg(how).env_clear().current_dir("/").stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(output.try_clone()?).process_group(0);
    Ok(command)
}

/// Makes the namespaces, and has the command run in them. With a folder, it first tries there what
/// the kernel can enforce, and prints that. Returns the exit code of the command.
pub(crate) fn run(how: &str, folder: Option<&Path>) -> u8 {
    match started(how, folder) {
        Ok(code) => code,
        Err(error) => {
            init::complain(&format!("the sandbox could not be made: {error}"));
            NO_SANDBOX
        }
    }
}

fn started(how: &str, folder: Option<&Path>) -> io::Result<u8> {
    close_inherited()?;
    let how = folder.map_or(Ok(how), |folder| possible(how, folder))?;
    match how {
        NAMESPACES => namespaces(Network::On)?,
        ISOLATED => namespaces(Network::Off)?,
        PLAIN => {}
        other => return Err(io::Error::other(format!("`{other}` is not known"))),
    }
    // Without namespaces, commands see this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let (report, reporting) = io::pipe()?;
    let inside = safe_fork::fork_spawn(|| init::run(how, reporting).into())?;
    let mut line = String::new();
    BufReader::new(report).read_line(&mut line)?;
    match line.trim_end().strip_prefix("exit ").and_then(|code| code.parse().ok()) {
        // What the command left running goes on without this process.
        Some(code) => Ok(code),
        None => Ok(inside.join()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(137)),
    }
}

/// Prints what the kernel can enforce, found out by doing it, and returns what is possible of what
/// is wanted. A kernel that cannot even do that enforces nothing.
fn possible(how: &str, folder: &Path) -> io::Result<&'static str> {
    let (report, reporting) = io::pipe()?;
    let tried = || {
        let namespaces = namespaces(Network::On).is_ok();
        // Separately: a system may allow one and not the other.
        let network = namespaces && unshare(CloneFlags::CLONE_NEWNET).is_ok();
        let layers = Layers { namespaces, network, ..Layers::default() };
        let inside = || i32::from(init::find_out(folder, layers, reporting).is_err());
        safe_fork::fork_join(inside).unwrap_or(1)
    };
    let trial = safe_fork::fork_spawn(tried)?;
    let mut found = Vec::new();
    BufReader::new(report).read_to_end(&mut found)?;
    trial.join()?;
    let layers: Layers = serde_json::from_slice(&found).unwrap_or_default();
    writeln!(io::stdout(), "{}", serde_json::to_string(&layers)?)?;
    let network = if how == ISOLATED { Network::Off } else { Network::On };
    Ok(self::how(&layers, network))
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

/// Moves this process, and what it starts, into namespaces of its own, with the same user.
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
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
