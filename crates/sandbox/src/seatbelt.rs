//! macOS: the system's own sandbox, by a profile. Written by what is known of it, and not tried.
//!
//! Invariant: the profile denies what is not allowed, as on Linux; what it cannot do is a [`Gap`].
//!
//! [`Gap`]: crate::Gap

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Layers, Network, Sockets, Spec};

/// The program that applies a profile.
const PROGRAM: &str = "/usr/bin/sandbox-exec";
/// The services of the system that ordinary programs cannot do without. Those that keep keys,
/// start programs or send events to others are not among them.
const SERVICES: [&str; 12] = [
    "com.apple.bsd.dirhelper",
    "com.apple.cfprefsd.agent",
    "com.apple.cfprefsd.daemon",
    "com.apple.diagnosticd",
    "com.apple.dnssd.service",
    "com.apple.FSEvents",
    "com.apple.logd",
    "com.apple.PowerManagement.control",
    "com.apple.SystemConfiguration.configd",
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
];
/// Where names of hosts are looked up.
const RESOLVER: &str = "/private/var/run/mDNSResponder";

pub(crate) fn layers() -> Layers {
    Layers { seatbelt: Path::new(PROGRAM).exists(), ..Layers::default() }
}

pub(crate) fn command(spec: &Spec, output: &File) -> io::Result<Command> {
    let mut command = Command::new(PROGRAM);
    command.arg("-p").arg(profile(spec)).args(&spec.program);
    command.env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&spec.cwd).stdin(Stdio::null()).process_group(0);
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    Ok(command)
}

/// The profile: later rules win over earlier ones.
fn profile(spec: &Spec) -> String {
    let mut lines = vec![
        "(version 1)".to_owned(),
        "(deny default)".to_owned(),
        "(allow process*) (allow signal (target same-sandbox)) (allow sysctl-read)".to_owned(),
        "(allow ipc-posix-shm*) (allow file-read*)".to_owned(),
        "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\"))".to_owned(),
    ];
    let services = SERVICES.iter().map(|name| format!("(global-name \"{name}\")"));
    lines.push(format!("(allow mach-lookup {})", services.collect::<Vec<_>>().join(" ")));
    // The system compares where links lead.
    let quoted = |path: &Path| {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let text = path.to_string_lossy();
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    // There is no loopback of its own: the one there is would be that of other programs.
    if spec.network == Network::On {
        lines.push("(allow network*)".to_owned());
    }
    if spec.sockets == Sockets::All {
        lines.push("(allow network* (remote unix-socket))".to_owned());
    } else if spec.network == Network::On {
        lines.push("(deny network-outbound (remote unix-socket))".to_owned());
        lines.push(format!("(allow network-outbound (literal \"{RESOLVER}\"))"));
    }
    for path in &spec.writable {
        lines.push(format!("(allow file-write* (subpath {}))", quoted(path)));
    }
    for path in &spec.protected {
        lines.push(format!("(deny file-write* (subpath {}))", quoted(path)));
    }
    for path in &spec.hidden {
        lines.push(format!("(deny file-read* file-write* (subpath {}))", quoted(path)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a profile behind those that are always the same.
    fn rest(spec: &Spec) -> Vec<String> {
        profile(spec).lines().skip(6).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_not_named_is_denied() {
        let spec = Spec {
            writable: vec!["/nowhere/a \"b\"".into()],
            protected: vec!["/nowhere/a/.git/hooks".into()],
            hidden: vec!["/nowhere/.ssh".into()],
            ..Spec::default()
        };
        let start = "(version 1)\n(deny default)\n";
        assert!(profile(&spec).starts_with(start));
        let files = [
            r#"(allow file-write* (subpath "/nowhere/a \"b\""))"#,
            r#"(deny file-write* (subpath "/nowhere/a/.git/hooks"))"#,
            r#"(deny file-read* file-write* (subpath "/nowhere/.ssh"))"#,
        ];
        assert_eq!(rest(&spec), files);
    }

    #[test]
    fn sockets_of_other_programs_are_closed_unless_all_are_open() {
        let open = Spec { network: Network::On, ..Spec::default() };
        let network = [
            "(allow network*)",
            "(deny network-outbound (remote unix-socket))",
            r#"(allow network-outbound (literal "/private/var/run/mDNSResponder"))"#,
        ];
        assert_eq!(rest(&open), network);
        let sockets = Spec { sockets: Sockets::All, ..Spec::default() };
        assert_eq!(rest(&sockets), ["(allow network* (remote unix-socket))"]);
    }
}
