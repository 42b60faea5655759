//! macOS: the system's own sandbox, by a profile. Written by its documentation and not tried.
//!
//! Invariant: the profile denies what is not allowed, as on Linux; what it cannot do is a [`Gap`].
//!
//! [`Gap`]: crate::Gap

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Layers, Network, Spec};

/// The program that applies a profile.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

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
        "(allow mach-lookup) (allow ipc-posix-shm*) (allow file-read*)".to_owned(),
        "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\"))".to_owned(),
    ];
    let quoted = |path: &Path| {
        let text = path.to_string_lossy();
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    if spec.network == Network::On {
        lines.push("(allow network*)".to_owned());
    } else {
        lines.push(
            "(allow network* (local ip \"localhost:*\") (remote ip \"localhost:*\"))".to_owned(),
        );
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
