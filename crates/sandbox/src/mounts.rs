//! The view of the files: everything is read-only except the writable folders, hidden files are
//! empty, and `/dev` has only harmless devices.
//!
//! Invariant: a mount that can be reached and is not writable by the specification is read-only
//! afterwards, or this fails.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_move, mount_remount,
};

use crate::Spec;

/// The devices that commands see.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// The kernel accepts no lower limit of processes.
const LEAST: u64 = 301;
/// The size of `/dev/shm`.
const SHARED: &str = "size=1g,mode=1777";

/// Changes the mounts of this namespace.
pub(crate) fn arrange(spec: &Spec, has_processes: bool) -> io::Result<()> {
    let all = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", all)?;
    let writable: Vec<&PathBuf> = spec.writable.iter().filter(|path| path.exists()).collect();
    for path in writable.iter().copied() {
        mount_bind_recursive(path, path).map_err(at(path))?;
    }
    let stand_in = File::create(spec.blank.join("file")).map(|_| spec.blank.join("file"))?;
    let folder = spec.blank.join("folder");
    fs::create_dir_all(&folder)?;
    let stage = spec.blank.join("dev");
    fs::create_dir_all(&stage)?;
    devices(spec, &stage)?;
    for path in &spec.hidden {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => mount_bind(&folder, path).map_err(at(path))?,
            Ok(_) => mount_bind(&stand_in, path).map_err(at(path))?,
            Err(_) => {}
        }
    }
    // What contains something protected cannot be moved away either. From the outside in, as
    // shorter paths come first.
    let between: BTreeSet<PathBuf> =
        spec.protected.iter().flat_map(|path| between(path, &writable)).collect();
    for inner in between.iter().filter(|inner| inner.is_dir()) {
        mount_bind_recursive(inner, inner).map_err(at(inner))?;
    }
    for path in spec.protected.iter().filter(|path| path.exists()) {
        mount_bind_recursive(path, path).map_err(at(path))?;
    }
    let is_writable = |point: &Path| {
        writable.iter().any(|path| point.starts_with(path))
            && !spec.protected.iter().chain(&spec.hidden).any(|path| point.starts_with(path))
    };
    for (point, flags) in points()? {
        let is_own = point == Path::new("/dev/shm") || point == Path::new("/dev/pts");
        if is_own || is_writable(&point) || (has_processes && point == Path::new("/proc")) {
            continue;
        }
        // A mount that another one covers cannot be reached by its name.
        let remounted = mount_remount(&point, MountFlags::BIND | MountFlags::RDONLY | flags, "");
        if let Err(error) = remounted
            && statvfs(&point).is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::RDONLY))
        {
            return Err(at(&point)(error));
        }
    }
    Ok(())
}

/// A `/proc` that shows only the processes of this namespace, of which there can be this many. It
/// is read-only: the user may be root, and settings of the kernel belong to root.
pub(crate) fn own_processes(most: u64) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)?;
    if counts_by_namespace() {
        // The limit of processes by user does not hold for root; this one does.
        let _ = fs::write("/proc/sys/kernel/pid_max", most.max(LEAST).to_string());
    }
    Ok(mount_remount("/proc", MountFlags::BIND | MountFlags::RDONLY | flags, "")?)
}

/// Whether the largest number of a process is a setting of the namespace: since Linux 6.14. Before,
/// it is that of the machine, and must not be changed.
fn counts_by_namespace() -> bool {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

fn devices(spec: &Spec, stage: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", stage, "tmpfs", flags, c"size=64k,mode=0755")?;
    for name in DEVICES {
        let (from, to) = (Path::new("/dev").join(name), stage.join(name));
        File::create(&to)?;
        mount_bind(&from, &to).map_err(at(&from))?;
    }
    for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{to}"), stage.join(name))?;
    }
    fs::create_dir(stage.join("shm"))?;
    let options = std::ffi::CString::new(SHARED)?;
    let inner = flags | MountFlags::NODEV;
    mount("tmpfs", stage.join("shm"), "tmpfs", inner, &*options)?;
    shared(spec, &stage.join("shm"))?;
    fs::create_dir(stage.join("pts"))?;
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    // Without terminals of their own, commands still run.
    if mount("devpts", stage.join("pts"), "devpts", flags, options).is_ok() {
        symlink("pts/ptmx", stage.join("ptmx"))?;
    }
    Ok(mount_move(stage, "/dev")?)
}

/// A session may work in shared memory: then what it needs of that is in the new one, too.
fn shared(spec: &Spec, stage: &Path) -> io::Result<()> {
    let old = Path::new("/dev/shm");
    let needed = spec.writable.iter().chain([&spec.cwd, &spec.blank]);
    let first = |path: &PathBuf| path.strip_prefix(old).ok()?.iter().next().map(ToOwned::to_owned);
    let names: BTreeSet<OsString> = needed.filter_map(first).collect();
    for name in names {
        let (from, to) = (old.join(&name), stage.join(&name));
        if from.is_dir() {
            fs::create_dir(&to)?;
        } else {
            File::create(&to)?;
        }
        mount_bind_recursive(&from, &to).map_err(at(&from))?;
    }
    Ok(())
}

/// The folders between a writable folder and a path in it.
fn between(path: &Path, writable: &[&PathBuf]) -> Vec<PathBuf> {
    let is_below = |inner: &&Path| {
        writable.iter().any(|outer| inner.starts_with(outer) && *inner != outer.as_path())
    };
    path.ancestors().skip(1).filter(is_below).map(Path::to_owned).collect()
}

fn at(path: &Path) -> impl Fn(rustix::io::Errno) -> io::Error {
    move |error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
    }
}

/// The mount points, and the flags that must stay.
fn points() -> io::Result<Vec<(PathBuf, MountFlags)>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        Some((unescaped(fields.get(4)?), String::from_utf8_lossy(fields.get(5)?).into_owned()))
    });
    Ok(fields.map(|(path, options)| (path, kept(&options))).collect())
}

fn kept(options: &str) -> MountFlags {
    let flag = |option: &str| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.split(',').map(flag).collect()
}

/// A path as it is written there: blanks and the like as octal numbers.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let number = rest.get(1..4).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = number.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(number) = number.filter(|_| *first == b'\\') {
            bytes.push(number);
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    OsString::from_vec(bytes).into()
}
