//! Control groups, where one is delegated to the user: they limit a command as a whole.
//!
//! Only version 2. A group for a command is made below the nearest group around this process in
//! which the user may make groups, and which limits memory and processes of the groups in it:
//! usually one of the user's service manager. Invariant: a group has its limits before anything
//! runs in it, or the command does not start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Limits;

/// The group in which groups for commands can be made; None if there is none.
pub fn delegated() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(mount_point)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let inner = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    nearest(Path::new(&mount), inner, &may_write)
}

/// Where a line of the list of mounts mounts the groups.
fn mount_point(line: &str) -> Option<String> {
    let (mount, kind) = line.split_once(" - ")?;
    let is_all = kind.starts_with("cgroup2 ");
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (is_all && root == "/").then(|| point.to_owned())
}

/// The innermost group around a process that the user may use.
fn nearest(mount: &Path, inner: &str, may_write: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let place = mount.join(inner.trim_start_matches('/'));
    let around = place.ancestors().take_while(|group| group.starts_with(mount));
    let fits = |group: &&Path| {
        let control = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |name: &str| control.split_whitespace().any(|one| one == name);
        has("memory") && has("pids") && may_write(group) && may_write(&group.join("cgroup.procs"))
    };
    around.into_iter().find(fits).map(Path::to_owned)
}

#[cfg(target_os = "linux")]
fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn may_write(_: &Path) -> bool {
    false
}

/// Makes a group with these limits, and moves this process into it.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there are no groups"))]
pub(crate) fn enter(group: &Path, limits: &Limits) -> io::Result<()> {
    fs::create_dir(group)?;
    fs::write(group.join("memory.max"), limits.memory.to_string())?;
    fs::write(group.join("pids.max"), limits.processes.to_string())?;
    // Not there without swap; and an older kernel ends one process instead of all.
    let _ = fs::write(group.join("memory.swap.max"), "0");
    let _ = fs::write(group.join("memory.oom.group"), "1");
    fs::write(group.join("cgroup.procs"), "0")
}

/// Removes the group of a command, if nothing runs in it any more.
pub fn remove_group(group: &Path) {
    // The system refuses to remove one that is in use; then the next attempt does it.
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
