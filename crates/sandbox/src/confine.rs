//! Capabilities, Landlock, limits and the loopback.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use rustix::net::{AddressFamily, SendFlags, SocketType, send, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::{Layers, Limits, Spec};

/// Gives up all capabilities, for good.
pub(crate) fn capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // Fails for those that the kernel does not know, and where they are given up already.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Limits what processes can use up. What is limited more already stays so.
pub(crate) fn limits(limits: &Limits) {
    let set = |resource, most: u64| {
        let now = getrlimit(resource);
        let most = now.maximum.map_or(most, |now| now.min(most));
        // It cannot fail when a limit is lowered.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    };
    set(Resource::Nproc, limits.processes);
    // What this process has already would count as the command's.
    set(Resource::Data, limits.memory.saturating_add(data_of_this_process()));
    set(Resource::Fsize, limits.file);
    set(Resource::Nofile, limits.open);
    set(Resource::Core, 0);
    // If memory runs out all the same, commands end and not the agent.
    let _ = fs::write("/proc/self/oom_score_adj", "800");
}

/// How much memory this process has that counts for the limit.
fn data_of_this_process() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default() * 1_024
}

/// Allows reading, and writing to the writable folders; nothing else. Returns the version of
/// Landlock; 0 without it.
pub(crate) fn landlock(spec: &Spec, layers: &Layers) -> io::Result<u32> {
    let abi = ABI::V7;
    let reading = AccessFs::from_read(abi);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create);
    let mut ruleset = ruleset.map_err(io::Error::other)?;
    // With namespaces, what is hidden is not there; without, everything around it is named.
    let readable = if layers.namespaces { vec![PathBuf::from("/")] } else { around(&spec.hidden) };
    let writable = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let devices = ["null", "zero", "full", "random", "urandom"];
    let devices = devices.iter().map(|name| Path::new("/dev").join(name));
    let device =
        AccessFs::from_read(abi) | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut rules: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    rules.extend(readable.into_iter().map(|path| (path, reading)));
    rules.extend(spec.writable.iter().map(|path| (path.clone(), writable)));
    rules.extend(devices.map(|path| (path, device)));
    if layers.namespaces {
        rules.push(("/dev/shm".into(), writable));
        rules.push(("/dev/pts".into(), device));
    }
    for (path, access) in rules {
        // What is not there needs no rule.
        let (Ok(found), Ok(opened)) = (fs::metadata(&path), PathFd::new(&path)) else { continue };
        let access = if found.is_dir() { access } else { access & AccessFs::from_file(abi) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    })
}

/// The largest folders and files that contain none of these paths.
fn around(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let above: BTreeSet<&Path> = hidden.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::from("/")];
    while let Some(path) = todo.pop() {
        if hidden.contains(&path) {
            continue;
        }
        if !above.contains(path.as_path()) {
            found.push(path);
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        // A link is followed to what may be hidden; where it leads is named anyway.
        let entries =
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        todo.extend(entries.map(|entry| entry.path()));
    }
    found
}

/// Switches the loopback of a new network namespace on.
pub(crate) fn loopback() -> io::Result<()> {
    let link = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    // A header (length, kind, flags) and a body (family, kind, index, flags, mask).
    let mut message = Vec::new();
    message.extend(32_u32.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(1_u16.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend([1_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat());
    send(&link, &message, SendFlags::empty())?;
    Ok(())
}
