//! What a command may do, as data. Pure.
//!
//! Invariant: everything that is not named here as allowed is refused, as far as the layers reach.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A command, and what it may do. All paths are absolute and real.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// All variables that it sees.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Folders and files that it may change.
    pub writable: Vec<PathBuf>,
    /// Files and folders inside these that it may not change.
    pub protected: Vec<PathBuf>,
    /// Files and folders that it may neither read nor change.
    pub hidden: Vec<PathBuf>,
    /// An empty, private folder that stands in for hidden ones and holds mount points.
    pub blank: PathBuf,
    /// What it may reach.
    pub network: Network,
    /// Whether it may use Unix sockets.
    pub sockets: Sockets,
    /// Whether it may change modes, owners, times and extended attributes.
    pub metadata: Metadata,
    /// What it may use up.
    pub limits: Limits,
    /// The control group that is made for it; None: each of its processes is limited by itself.
    pub group: Option<PathBuf>,
    /// The layers that must hold.
    pub layers: Layers,
}

/// What a command may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Itself, over a loopback of its own.
    #[default]
    Off,
    /// Everything.
    On,
}

/// Whether a command may use Unix sockets other than pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sockets {
    /// Only pairs.
    #[default]
    Pairs,
    /// All, also those of other programs.
    All,
}

/// Whether modes, owners, times and extended attributes of files may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metadata {
    /// Where files may be changed.
    #[default]
    Writable,
    /// Nowhere.
    Fixed,
}

/// What a command may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at a time.
    pub processes: u64,
    /// Bytes of memory of one process, and of all together in a control group.
    pub memory: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Open files of one process.
    pub open: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { processes: 2_048, memory: usual_memory(), file: 4 << 30, open: 16_384 }
    }
}

/// Half of the machine's memory, so that one process cannot take all of it.
fn usual_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    total.map_or(8 << 30, |kilobytes| (kilobytes / 2) << 10)
}

/// What the kernel enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a layer that is there or not")]
pub struct Layers {
    /// User, mount and PID namespaces: all but the writable folders is read-only, what is hidden is
    /// not there, other processes cannot be seen.
    pub namespaces: bool,
    /// A network namespace: nothing but a loopback of its own.
    pub network: bool,
    /// A `/proc` of its own.
    pub processes: bool,
    /// The version of Landlock; 0 without it.
    pub landlock: u32,
    /// Filters of system calls.
    pub seccomp: bool,
    /// macOS: the profile of a sandbox.
    pub seatbelt: bool,
}

/// Something that the kernel does not enforce here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// There is no sandbox at all.
    Everything,
    /// Landlock is missing, and namespaces too: nothing limits what is written.
    Writing,
    /// Modes, owners and times outside can be changed, and sensitive files inside too until they
    /// are put back.
    Metadata,
    /// Names of other processes can be seen.
    Processes,
    /// Commands have no loopback of their own: without the network, they have none.
    Loopback,
    /// Signals may reach other processes of the user.
    Signals,
    /// System calls are not filtered: sockets of other programs can be used.
    Calls,
    /// Landlock is missing: a pipe with a name can be written to although its folder is read-only.
    Pipes,
    /// What commands use up is not limited.
    Limits,
    /// What leaves the group of its command does not end with the session.
    Lasting,
}

impl Gap {
    /// What is open, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Gap::Everything => "this system has no sandbox: commands can do what you can",
            Gap::Writing => "commands can write wherever you can",
            Gap::Metadata => {
                "commands can change modes and times of files outside, and names in your home that appear later can be read"
            }
            Gap::Processes => "commands see the names of other processes",
            Gap::Loopback => "without the network, commands have no loopback either",
            Gap::Signals => "commands can signal your other processes",
            Gap::Calls => "commands can use the sockets of other programs",
            Gap::Pipes => "commands can write to pipes of other programs that have a name",
            Gap::Limits => "what commands use up is not limited",
            Gap::Lasting => "what leaves the group of its command goes on after the session",
        }
    }
}

impl Layers {
    /// What is not enforced.
    pub fn gaps(&self) -> Vec<Gap> {
        if self.seatbelt {
            return vec![Gap::Processes, Gap::Loopback, Gap::Limits, Gap::Lasting];
        }
        if !self.namespaces && self.landlock == 0 && !self.seccomp {
            return vec![Gap::Everything];
        }
        let mut gaps = Vec::new();
        let mut open = |is_open: bool, gap: Gap| gaps.extend(is_open.then_some(gap));
        open(!self.namespaces && self.landlock == 0, Gap::Writing);
        open(!self.namespaces && self.landlock > 0, Gap::Metadata);
        open(self.namespaces && self.landlock == 0, Gap::Pipes);
        open(!self.processes, Gap::Processes);
        open(!self.network, Gap::Loopback);
        open(!self.namespaces && self.landlock < 6, Gap::Signals);
        open(!self.seccomp, Gap::Calls);
        gaps
    }
}
