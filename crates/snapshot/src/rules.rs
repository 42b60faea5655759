//! Which folders git ignores.
//!
//! Only folders are ever left out, and only if nothing in them is tracked. Patterns come from
//! `.gitignore` in the folders from the top of the repository down, from `info/exclude`, and from
//! the user's own file. Invariant: whatever cannot be read ignores nothing.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git;
use crate::mark::mark;

/// The patterns that hold in a folder of a repository.
#[derive(Debug)]
pub(crate) struct Rules {
    outer: Option<Arc<Rules>>,
    patterns: Arc<Gitignore>,
    /// The top of the repository, and where its index is.
    top: Arc<Repository>,
}

#[derive(Debug)]
struct Repository {
    top: PathBuf,
    /// The folder with its index.
    git: PathBuf,
}

/// The paths that an index lists, with the mark of its file.
type Tracked = (u64, Arc<Vec<Vec<u8>>>);

/// Patterns and indexes that were read, with the marks of their files.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    patterns: Mutex<HashMap<PathBuf, (u64, Arc<Gitignore>)>>,
    tracked: Mutex<HashMap<PathBuf, Tracked>>,
    global: OnceLock<Arc<Gitignore>>,
}

impl Cache {
    /// The rules for a folder from those around it. `has` are the names of `.git` and `.gitignore`
    /// in it, if they exist.
    pub(crate) fn enter(
        &self,
        folder: &Path,
        outer: Option<&Arc<Rules>>,
        (has_git, has_patterns): (bool, bool),
        now: SystemTime,
    ) -> Option<Arc<Rules>> {
        let mut rules = outer.cloned();
        if has_git && let Some(git) = git::folder_of(folder) {
            rules = Some(self.top(folder, git, now));
        }
        let rules = rules?;
        if !has_patterns {
            return Some(rules);
        }
        let patterns = self.patterns(folder, &folder.join(".gitignore"), now);
        let top = Arc::clone(&rules.top);
        Some(Arc::new(Rules { outer: Some(rules), patterns, top }))
    }

    /// The rules that hold in a folder because of those around it.
    pub(crate) fn around(&self, folder: &Path, now: SystemTime) -> Option<Arc<Rules>> {
        let is_top = |folder: &&Path| folder.join(".git").exists();
        let top = folder.ancestors().skip(1).find(is_top)?;
        let mut rules = None;
        let mut path = top.to_owned();
        let mut names = folder.strip_prefix(top).ok()?.iter().peekable();
        loop {
            let has = (path == top, path.join(".gitignore").is_file());
            rules = self.enter(&path, rules.as_ref(), has, now);
            let name = names.next()?;
            if names.peek().is_none() {
                return rules;
            }
            path.push(name);
        }
    }

    fn top(&self, top: &Path, git: PathBuf, now: SystemTime) -> Arc<Rules> {
        let global = self.global.get_or_init(|| {
            let (global, _) = GitignoreBuilder::new(top).build_global();
            Arc::new(global)
        });
        let exclude = self.patterns(top, &git::common(&git).join("info/exclude"), now);
        let repository = Arc::new(Repository { top: top.to_owned(), git });
        let outer =
            Rules { outer: None, patterns: Arc::clone(global), top: Arc::clone(&repository) };
        Arc::new(Rules { outer: Some(Arc::new(outer)), patterns: exclude, top: repository })
    }

    fn patterns(&self, base: &Path, file: &Path, now: SystemTime) -> Arc<Gitignore> {
        let is = fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file);
        let is = is.map_or(0, |found| mark(&found, now));
        let mut known = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((was, patterns)) = known.get(file)
            && *was == is
            && is != 0
        {
            return Arc::clone(patterns);
        }
        let mut builder = GitignoreBuilder::new(base);
        if let Ok(text) = files::read(file, 1 << 20) {
            for line in String::from_utf8_lossy(&text).lines() {
                // A pattern that cannot be understood ignores nothing.
                let _ = builder.add_line(None, line);
            }
        }
        let patterns = Arc::new(builder.build().unwrap_or_else(|_| Gitignore::empty()));
        known.insert(file.to_owned(), (is, Arc::clone(&patterns)));
        patterns
    }

    /// Whether git ignores a folder, with all that is in it.
    pub(crate) fn ignores(&self, rules: &Arc<Rules>, folder: &Path, now: SystemTime) -> bool {
        let mut next = Some(rules);
        while let Some(rules) = next {
            let relative = folder.strip_prefix(rules.patterns.path());
            match rules.patterns.matched(relative.unwrap_or(folder), true) {
                Match::Ignore(_) => return !self.is_tracked(&rules.top, folder, now),
                Match::Whitelist(_) => return false,
                Match::None => next = rules.outer.as_ref(),
            }
        }
        false
    }

    /// Whether git tracks a file below a folder.
    fn is_tracked(&self, repository: &Repository, folder: &Path, now: SystemTime) -> bool {
        let Ok(relative) = folder.strip_prefix(&repository.top) else { return true };
        let mut prefix = relative.as_os_str().to_owned().into_vec();
        prefix.push(b'/');
        let file = repository.git.join("index");
        let is = fs::symlink_metadata(&file).map_or(1, |found| mark(&found, now));
        let mut known = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known.get(&file).filter(|(was, _)| *was == is && is != 0);
        let paths = if let Some((_, paths)) = fresh {
            Arc::clone(paths)
        } else {
            let paths = Arc::new(git::tracked(&file));
            known.insert(file, (is, Arc::clone(&paths)));
            paths
        };
        let at = paths.partition_point(|path| path.as_slice() < prefix.as_slice());
        paths.get(at).is_some_and(|path| path.starts_with(&prefix))
    }
}

/// A path below a root, from bytes.
pub(crate) fn path_of(root: &Path, place: &[u8]) -> PathBuf {
    if place.is_empty() { root.to_owned() } else { root.join(std::ffi::OsStr::from_bytes(place)) }
}
