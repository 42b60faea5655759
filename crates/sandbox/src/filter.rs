//! Which system calls are refused, whatever they are about.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use crate::{Layers, Metadata, Network, Sockets, Spec};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

const FCHMODAT2: i64 = 452;
/// The bit of a mode by which a program runs with the rights of its owner. The one for groups is
/// not refused: folders use it to give what is in them to a group.
const LENDING: i32 = 0o4000;
/// Flags that make a new file: `O_CREAT`, and the one of `O_TMPFILE` that no other has.
const NEW_FILE: [i32; 2] = [0o100, 0o20_000_000];
/// `FS_IOC_SETFLAGS`, its form for 32 bits, `FS_IOC_FSSETXATTR` and `FS_IOC_SETVERSION`.
const FLAGS_OF_FILES: [libc::Ioctl; 4] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4008_7602];

/// What is said to mean all processes of a user: `PRIO_USER`, and the same for disks.
const OF_USER: [(libc::c_long, i32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Refuses these system calls from now on.
pub(crate) fn apply(spec: &Spec, layers: &Layers) -> io::Result<()> {
    let mut rules = refused(spec, layers);
    rules.extend(conditional(spec, layers)?);
    let answer = |rules: Rules, errno: i32| -> io::Result<BpfProgram> {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        // Calls of another architecture end the process.
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
        filter.and_then(TryInto::try_into).map_err(io::Error::other)
    };
    apply_filter(&answer(rules, libc::EPERM)?).map_err(io::Error::other)?;
    // Programs try something else where a call does not exist.
    let missing = [
        libc::SYS_clone3,
        // What it is to do is not in its arguments.
        libc::SYS_openat2,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    let missing = missing.into_iter().map(|call| (call, Vec::new())).collect();
    apply_filter(&answer(missing, libc::ENOSYS)?).map_err(io::Error::other)?;
    if cfg!(target_arch = "x86_64") {
        apply_filter(&other_table()).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Refuses the numbers of the x32 table, by which every call could be made under another name.
fn other_table() -> BpfProgram {
    let instruction = |code: u16, jt: u8, jf: u8, k: u32| sock_filter { code, jt, jf, k };
    vec![
        // Load the number; is it at least that of the other table; refuse; allow.
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, 0x4000_0000),
        instruction(0x06, 0, 0, 0x0005_0000 | libc::EPERM.unsigned_abs()),
        instruction(0x06, 0, 0, 0x7fff_0000),
    ]
}

/// Calls that are always refused.
fn refused(spec: &Spec, layers: &Layers) -> Rules {
    let mut calls = vec![
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        467, // open_tree_attr
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_syslog,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_adjtimex,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_vhangup,
        libc::SYS_fanotify_init,
        libc::SYS_lookup_dcookie,
        469, // file_setattr
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_modify_ldt,
        libc::SYS_kexec_file_load,
    ]);
    // Without a namespace of their own: memory, messages and semaphores of other programs.
    if !layers.namespaces {
        calls.extend([
            libc::SYS_shmat,
            libc::SYS_shmctl,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_msgctl,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_semctl,
            libc::SYS_mq_open,
            libc::SYS_mq_unlink,
        ]);
    }
    if spec.metadata == Metadata::Fixed {
        calls.extend([
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            FCHMODAT2,
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_utimensat,
            libc::SYS_setxattr,
            libc::SYS_lsetxattr,
            libc::SYS_fsetxattr,
            libc::SYS_removexattr,
            libc::SYS_lremovexattr,
            libc::SYS_fremovexattr,
            463, // setxattrat
            466, // removexattrat
        ]);
        #[cfg(target_arch = "x86_64")]
        calls.extend([
            libc::SYS_chmod,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_utime,
            libc::SYS_utimes,
            libc::SYS_futimesat,
        ]);
    }
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Calls that are refused by their arguments.
fn conditional(spec: &Spec, layers: &Layers) -> io::Result<Rules> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let when = |argument: u8, op: SeccompCmpOp, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
            .map_err(io::Error::other)
    };
    let all =
        |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(io::Error::other);
    let set =
        |argument: u8, bits: i32| when(argument, MaskedEq(u64::from(bits.cast_unsigned())), bits);
    let lends = |argument: u8| all(vec![set(argument, LENDING)?]);
    let mut rules = Rules::new();
    // Sockets of families that were not allowed.
    let has_internet = spec.network == Network::On || layers.network;
    let mut families = Vec::new();
    if has_internet {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if spec.sockets == Sockets::All {
        families.push(libc::AF_UNIX);
    }
    if families.is_empty() {
        rules.insert(libc::SYS_socket, Vec::new());
    } else {
        let others =
            families.iter().map(|family| when(0, Ne, *family)).collect::<io::Result<_>>()?;
        // Of netlink, only what lists interfaces and addresses.
        let netlink = vec![when(0, Eq, libc::AF_NETLINK)?, when(2, Ne, libc::NETLINK_ROUTE)?];
        rules.insert(libc::SYS_socket, vec![all(others)?, all(netlink)?]);
    }
    // Pairs of no other family; and one end of a pair of datagram sockets, which the kernel also
    // makes of raw ones, can send to any socket.
    let mut pairs = vec![all(vec![when(0, Ne, libc::AF_UNIX)?])?];
    if spec.sockets == Sockets::Pairs {
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            pairs.push(all(vec![when(1, MaskedEq(0xf), kind)?])?);
        }
    }
    rules.insert(libc::SYS_socketpair, pairs);
    let spaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let space = |flag: &i32| all(vec![when(0, MaskedEq(u64::from(flag.cast_unsigned())), *flag)?]);
    rules.insert(libc::SYS_clone, spaces.iter().map(space).collect::<io::Result<_>>()?);
    // Limits of other processes; without namespaces, also how much the system gives to them.
    let others = |argument: u8| -> io::Result<Vec<SeccompRule>> {
        Ok(vec![all(vec![when(argument, Ne, 0)?])?])
    };
    rules.insert(libc::SYS_prlimit64, others(0)?);
    if !layers.namespaces {
        for (call, argument) in [
            (libc::SYS_setpriority, 1),
            (libc::SYS_ioprio_set, 1),
            (libc::SYS_sched_setaffinity, 0),
            (libc::SYS_sched_setparam, 0),
            (libc::SYS_sched_setscheduler, 0),
            (libc::SYS_sched_setattr, 0),
        ] {
            rules.insert(call, others(argument)?);
        }
        for (call, kind) in OF_USER {
            rules.entry(call).or_default().push(all(vec![when(0, Eq, kind)?])?);
        }
    }
    // Device nodes, and files with which everybody gets the rights of their owner.
    let nodes = |argument: u8| -> io::Result<Vec<SeccompRule>> {
        let kinds = [libc::S_IFCHR, libc::S_IFBLK].map(|kind| {
            let kind = i32::try_from(kind).map_err(io::Error::other)?;
            all(vec![when(argument, MaskedEq(u64::from(libc::S_IFMT)), kind)?])
        });
        kinds.into_iter().chain([lends(argument)]).collect()
    };
    rules.insert(libc::SYS_mknodat, nodes(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, nodes(1)?);
    // The same, where a file is opened that is made by that.
    let opened = |flags: u8| -> io::Result<Vec<SeccompRule>> {
        let made = |flag: &i32| all(vec![set(flags, *flag)?, set(flags + 1, LENDING)?]);
        NEW_FILE.iter().map(made).collect()
    };
    rules.insert(libc::SYS_openat, opened(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_open, opened(1)?), (libc::SYS_creat, vec![lends(1)?])]);
    if spec.metadata == Metadata::Writable {
        rules.insert(libc::SYS_fchmod, vec![lends(1)?]);
        rules.extend([(libc::SYS_fchmodat, vec![lends(2)?]), (FCHMODAT2, vec![lends(2)?])]);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_chmod, vec![lends(1)?]);
    }
    // Typing into a terminal; flags of files, which are neither content nor mode.
    let refused = [libc::TIOCSTI, libc::TIOCLINUX].into_iter().chain(FLAGS_OF_FILES);
    let refused =
        refused.map(|kind| all(vec![when(1, Eq, i32::try_from(kind).map_err(io::Error::other)?)?]));
    rules.insert(libc::SYS_ioctl, refused.collect::<io::Result<_>>()?);
    Ok(rules)
}
