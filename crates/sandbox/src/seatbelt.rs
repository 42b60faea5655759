//! macOS: the system's own sandbox, by a profile. Written by its documentation and not tried.
//!
//! Invariant: the profile denies what is not allowed, as on Linux; what it cannot do is a [`Gap`].
//!
//! [`Gap`]: crate::Gap

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::{Layers, Network, Spec};

/// The program that applies a profile.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

pub(crate) fn layers() -> Layers {
    Layers { seatbelt: Path::new(PROGRAM).exists(), ..Layers::default() }
}

pub(crate) fn command(spec_file: &Path) -> Command {
    let read = || -> io::Result<Spec> {
        serde_json::from_slice(&fs::read(spec_file)?).map_err(io::Error::other)
    };
    let Ok(spec) = read() else { return Command::new("false") };
    let mut command = Command::new(PROGRAM);
    command.arg("-p").arg(profile(&spec)).args(&spec.program);
    command
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
