//! The git repository of a folder, from its files: no program runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::Repository;

/// The maximum size of a file of git that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The repository that a folder is in.
pub fn repository(folder: &Path) -> Option<Repository> {
    let root = folder.ancestors().find(|one| fs::symlink_metadata(one.join(".git")).is_ok())?;
    let remote = config(&root.join(".git")).and_then(|text| remote_of(&text));
    Some(Repository { root: root.to_str()?.to_owned(), remote })
}

/// The configuration of a repository; a worktree has that of the repository it belongs to.
fn config(git: &Path) -> Option<String> {
    if git.is_dir() {
        return files::read_text(git.join("config"), LARGEST).ok();
    }
    let text = files::read_text(git, LARGEST).ok()?;
    let folder = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    let common = files::read_text(folder.join("commondir"), LARGEST).ok();
    let common: PathBuf = common.map_or(folder.clone(), |common| folder.join(common.trim()));
    files::read_text(common.join("config"), LARGEST).ok()
}

/// The address of `origin`; without one, of the first remote.
fn remote_of(config: &str) -> Option<String> {
    let mut found: Vec<(bool, String)> = Vec::new();
    let mut section = None;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            let name = line.strip_prefix("[remote \"").and_then(|rest| rest.strip_suffix("\"]"));
            section = name.map(|name| name == "origin");
        } else if let (Some(is_origin), Some((key, value))) = (section, line.split_once('='))
            && key.trim() == "url"
        {
            found.push((is_origin, value.trim().to_owned()));
        }
    }
    let origin = found.iter().find(|(is_origin, _)| *is_origin).or(found.first());
    origin.and_then(|(_, url)| plain(url))
}

/// An address as host and path, which are the same whatever the protocol: without user, password,
/// port and ending. `None` for a path of this machine.
fn plain(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // The short form of SSH.
        None => url.split_once(':').filter(|(host, _)| !host.contains('/') && host.len() > 1)?,
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or_default().to_lowercase();
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::{plain, remote_of};

    #[test]
    fn addresses_are_the_same_whatever_the_protocol() {
        for url in [
            "https://github.com/o/r.git",
            "https://user:secret@GitHub.com/o/r",
            "git@github.com:o/r.git",
            "ssh://git@github.com:22/o/r.git/",
            "https://github.com/o/r?token=secret",
        ] {
            assert_eq!(plain(url).as_deref(), Some("github.com/o/r"), "{url}");
        }
        for url in ["/srv/r.git", "../r", "file:///srv/r", "C:\\r", "", "https://host"] {
            assert_eq!(plain(url), None, "{url}");
        }
    }

    #[test]
    fn origin_comes_first() {
        let config = "[core]\n\turl = no\n[remote \"fork\"]\n\turl = https://h/fork\n\
                      [remote \"origin\"]\n\turl = https://h/origin\n\tfetch = x\n";
        assert_eq!(remote_of(config).as_deref(), Some("h/origin"));
        assert_eq!(remote_of("[remote \"a\"]\nurl=https://h/a").as_deref(), Some("h/a"));
        assert_eq!(remote_of("[branch \"a\"]\nurl=https://h/a"), None);
    }
}
