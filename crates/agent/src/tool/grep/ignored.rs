//! What a search leaves out: files that `.ignore` names, and in a repository those that
//! `.gitignore` and `.git/info/exclude` name.
//!
//! These files come with the folder and are not trusted. Invariants: they are opened like
//! everything else, only as regular files of a bounded length; anything else names nothing. As in
//! ripgrep, a deeper file takes precedence over one above it, and `.ignore` over git's files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The most bytes of such a file that are read.
const LONGEST: u64 = 1 << 20;

/// The files of this kind in all folders that were searched.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    folders: Mutex<HashMap<PathBuf, Arc<Folder>>>,
}

/// The files of this kind in one folder.
#[derive(Debug)]
struct Folder {
    ignore: Option<Gitignore>,
    git: Option<Gitignore>,
    /// The file of the repository that has its top folder here.
    exclude: Option<Gitignore>,
    is_repository: bool,
}

impl Ignored {
    /// Whether a file or folder is ignored.
    pub(super) fn names(&self, path: &Path, is_folder: bool) -> bool {
        let folders: Vec<Arc<Folder>> =
            path.ancestors().skip(1).map(|folder| self.folder(folder)).collect();
        let decides = |rules: &Option<Gitignore>| match rules.as_ref()?.matched(path, is_folder) {
            Match::None => None,
            found => Some(found.is_ignore()),
        };
        let by_ignore = || folders.iter().find_map(|folder| decides(&folder.ignore));
        let by_git = || {
            let root = folders.iter().position(|folder| folder.is_repository)?;
            let by_file = folders[..=root].iter().find_map(|folder| decides(&folder.git));
            by_file.or_else(|| decides(&folders[root].exclude))
        };
        by_ignore().or_else(by_git).unwrap_or(false)
    }

    fn folder(&self, path: &Path) -> Arc<Folder> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(path) {
            return known.clone();
        }
        let is_repository = path.join(".git").symlink_metadata().is_ok();
        let folder = Arc::new(Folder {
            ignore: rules(path, ".ignore"),
            git: rules(path, ".gitignore"),
            exclude: is_repository.then(|| rules(path, ".git/info/exclude")).flatten(),
            is_repository,
        });
        folders.insert(path.to_owned(), folder.clone());
        folder
    }
}

fn rules(folder: &Path, name: &str) -> Option<Gitignore> {
    let path = folder.join(name);
    let bytes = files::read(&path, LONGEST).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A line that is not a pattern names nothing.
        let _ = builder.add_line(Some(path.clone()), line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
