//! Who a row comes from: the machine, and the project that a session worked on.
//!
//! Invariants: the machine's name survives the loss of our state, and does not reveal the system's
//! own id; a project's identity contains no credentials and no path of this machine.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::sheet::hex;

/// Where Linux systems keep the id of the machine.
const MACHINE_ID: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// A name for this machine: a hash of the system's id for it; `None` if the system has none.
pub fn machine_of_system() -> Option<String> {
    let id = MACHINE_ID
        .iter()
        .find_map(|path| machine_id(&files::read_text(path, 4096).ok()?).map(str::to_owned));
    id.or_else(other_system).map(|id| hashed(&id))
}

/// The id in such a file. Images of systems have one without an id, or with a word instead of one,
/// which would be the same on all machines made from them.
fn machine_id(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty() && *text != "uninitialized")
}

/// The id of the machine where it is not a file.
fn other_system() -> Option<String> {
    use std::process::Command;
    let text_of = |command: &mut Command| {
        let done = command.output().ok().filter(|done| done.status.success())?;
        Some(String::from_utf8_lossy(&done.stdout).into_owned())
    };
    if cfg!(target_os = "macos") {
        let text = text_of(Command::new("/usr/sbin/ioreg").args([
            "-rd1",
            "-c",
            "IOPlatformExpertDevice",
        ]))?;
        let line = text.lines().find(|line| line.contains("IOPlatformUUID"))?;
        return line.rsplit('"').nth(1).map(str::to_owned);
    }
    if cfg!(windows) {
        let key = r"HKLM\SOFTWARE\Microsoft\Cryptography";
        let text = text_of(Command::new("reg").args(["query", key, "/v", "MachineGuid"]))?;
        return text.split_whitespace().last().map(str::to_owned);
    }
    None
}

/// The id itself is confidential (`man machine-id`): others must not see it.
fn hashed(id: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update("quipu lake machine\0");
    hasher.update(id);
    hex(&hasher.finalize()[..6])
}

/// No git configuration is longer.
const LONGEST: u64 = 1 << 20;

/// The identity of the project in a working directory: its git remote as `host/owner/name`.
pub fn project_of(folder: &Path) -> Option<String> {
    if !folder.is_absolute() {
        return None;
    }
    let config = folder.ancestors().find_map(|folder| config_of(&folder.join(".git")))?;
    let text = files::read_text(&config, LONGEST).ok()?;
    remote_in(&text)
}

/// The file with the configuration of a repository.
fn config_of(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.join("config"));
    }
    // A worktree or a submodule: a file names the folder.
    let text = files::read_text(git, LONGEST).ok()?;
    let named = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    // Worktrees share the configuration of their repository.
    let shared = files::read_text(named.join("commondir"), LONGEST).ok();
    Some(shared.map_or(named.clone(), |shared| named.join(shared.trim())).join("config"))
}

/// The identity of `origin`, else of the first remote.
fn remote_in(config: &str) -> Option<String> {
    let (mut name, mut first) = (None, None);
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']').trim();
            name = section.strip_prefix("remote").map(|name| name.trim().trim_matches('"'));
        } else if let (Some(name), Some((key, value))) = (name, line.split_once('='))
            && key.trim() == "url"
            && let Some(found) = remote(&value_of(value))
        {
            if name == "origin" {
                return Some(found);
            }
            first = first.or(Some(found));
        }
    }
    first
}

/// A value as git reads it: without its quotes, and without a comment behind it.
fn value_of(text: &str) -> String {
    let (mut found, mut is_quoted) = (String::new(), false);
    for c in text.trim().chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            c => found.push(c),
        }
    }
    found.trim().to_owned()
}

/// A remote's URL as `host/path`, without user, password, port and query; `None` for a path.
fn remote(url: &str) -> Option<String> {
    let (rest, is_url) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => (rest, true),
        None => (url, false),
    };
    let (authority, path) = if is_url { rest.split_once('/')? } else { rest.split_once(':')? };
    // `host:path`, as ssh has it; one letter before a colon is a drive.
    if !is_url && (authority.contains('/') || authority.len() < 2) {
        return None;
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // Of an address of IPv6, the port is behind its bracket.
    let port = host.rfind(']').map_or_else(|| host.find(':'), |end| Some(end + 1));
    let host = port.map_or(host, |port| &host[..port]).to_lowercase();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.trim_matches('/').trim_end_matches(".git");
    let is_plain = |text: &str| !text.is_empty() && !text.contains(char::is_control);
    (is_plain(&host) && is_plain(path) && !path.contains('@')).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
