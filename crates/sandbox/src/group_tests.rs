#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use super::{enter, mount_point, nearest};
use crate::Limits;

#[test]
fn the_innermost_group_counts_in_which_the_user_may_make_others() {
    let mount = tempfile::tempdir().unwrap();
    let make = |path: &str, control: &str| {
        let group = mount.path().join(path);
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.subtree_control"), control).unwrap();
    };
    make("", "cpu memory pids");
    make("user", "memory pids");
    make("user/app", "cpu memory pids");
    make("user/app/terminal", "");
    let whose = "/user/app/terminal";
    let all = |_: &Path| true;
    assert_eq!(nearest(mount.path(), whose, &all), Some(mount.path().join("user/app")));
    let root = mount.path().to_owned();
    let outer = |path: &Path| !path.starts_with(root.join("user/app"));
    assert_eq!(nearest(mount.path(), whose, &outer), Some(mount.path().join("user")));
    assert_eq!(nearest(mount.path(), whose, &|_| false), None);
    // What is outside of the mounted tree is never looked at.
    assert_eq!(nearest(&mount.path().join("user/app/terminal"), "/", &all), None);
}

#[test]
fn a_group_has_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("one");
    let limits = Limits { memory: 5, processes: 7, ..Limits::default() };
    enter(&group, &limits).unwrap();
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
    assert_eq!((read("memory.max"), read("pids.max")), ("5".to_owned(), "7".to_owned()));
    assert_eq!(read("cgroup.procs"), "0");
    // One that exists has other limits.
    assert!(enter(&group, &limits).is_err());
}

#[test]
fn groups_are_found_where_they_are_mounted() {
    let line = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    assert_eq!(mount_point(line).as_deref(), Some("/sys/fs/cgroup"));
    let part = "30 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    assert_eq!(mount_point(part), None);
    assert_eq!(mount_point("30 23 0:26 / /sys rw - sysfs sysfs rw"), None);
}
