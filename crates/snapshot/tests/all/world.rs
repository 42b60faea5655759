//! Folders to destroy, and an independent record of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use snapshot::plan::{Others, Plan, plan};
use snapshot::restore::Journal;
use snapshot::{About, Event, Limits, Recorder};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Repository,
    Worktree,
    Plain,
}

pub(crate) struct World {
    pub(crate) temp: TempDir,
    pub(crate) roots: Vec<PathBuf>,
}

pub(crate) fn sh(folder: &Path, command: &str) -> String {
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder.parent().unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&done.stdout), text(&done.stderr))
}

const FILES: &str = "mkdir -p src deep/er empty node_modules/x && printf 'int one;\nint two;\n' > src/main.c \
    && printf 'int one;\n' > src/side.c && printf 'one\ntwo\nthree\n' > notes.txt \
    && head -c 3000 /dev/urandom > blob.bin && echo 'echo hi' > run.sh && chmod 755 run.sh \
    && echo deep > deep/er/file.txt && ln -s src/main.c link && echo KEY=1 > .env \
    && echo ignored > node_modules/x/index.js && printf 'node_modules/\n.env\n' > .gitignore";
const GIT: &str = "git init -q -b main . && git config user.email a@b && git config user.name me \
    && git add -A && git commit -qm first && git tag v1 && echo four >> notes.txt \
    && git commit -qam second && git checkout -q -b side && echo side >> src/side.c \
    && git commit -qam side && git checkout -q main && echo stashed >> notes.txt && git stash -q \
    && echo open >> notes.txt && echo staged >> src/main.c && git add src/main.c \
    && echo untracked > untracked.txt";

/// Puts the files into a folder. They are made once: most of the time would be git's.
fn unpack(folder: &Path, has_git: bool) {
    static PLAIN: OnceLock<Vec<u8>> = OnceLock::new();
    static GITS: OnceLock<Vec<u8>> = OnceLock::new();
    let packed = if has_git { &GITS } else { &PLAIN }.get_or_init(|| {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("base");
        fs::create_dir(&base).unwrap();
        sh(&base, FILES);
        assert_eq!(if has_git { sh(&base, GIT) } else { String::new() }, "");
        Command::new("tar").args(["cf", "-", "."]).current_dir(&base).output().unwrap().stdout
    });
    let mut tar = Command::new("tar")
        .args(["xpf", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(packed).unwrap();
    assert!(tar.wait().unwrap().success());
}

impl World {
    pub(crate) fn new(setting: Setting) -> World {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let main = base.join("main");
        fs::create_dir(&main).unwrap();
        unpack(&main, setting != Setting::Plain);
        let mut roots = vec![main.clone()];
        if setting == Setting::Worktree {
            sh(&main, "git worktree add -q -b tree ../tree main~1");
            let tree = base.join("tree");
            sh(
                &tree,
                "echo open >> notes.txt; echo s >> src/side.c; git add src/side.c; echo u > untracked.txt; echo KEY > .env; mkdir empty",
            );
            roots = vec![tree, main.join(".git")];
        }
        World { temp, roots }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.roots[0]
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.temp.path().join("state/snapshots")
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::open(&self.store(), "session", &self.roots, Limits::default()).unwrap()
    }

    /// Everything in the folders, as an independent program sees it.
    pub(crate) fn record(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for root in &self.roots {
            walk(root, &mut all);
        }
        all
    }

    /// What git says.
    pub(crate) fn git(&self) -> String {
        let commands = "git status --porcelain=v2 --branch; git log --all --format='%H %D'; \
            git stash list; git fsck; git config --list; git for-each-ref; git diff; git diff --cached";
        sh(self.root(), commands)
    }

    /// Plans to undo everything from the moment `cut` on.
    #[allow(clippy::unused_self, reason = "reads better")]
    pub(crate) fn plan(&self, recorder: &Recorder, cut: usize, others: Others) -> Plan {
        let moments = recorder.log().read().unwrap();
        let about = (Limits::default(), SystemTime::now());
        plan((recorder.store(), recorder.vault()), &moments, cut, others, about).unwrap()
    }

    pub(crate) fn rewind(&self, recorder: &Recorder, cut: usize, others: Others) -> Plan {
        let plan = self.plan(recorder, cut, others);
        assert!(plan.clashes.is_empty(), "{:?}", plan.clashes);
        let journal = Journal::new(recorder.store(), recorder.vault(), Limits::default());
        let rewind =
            journal.prepare("session", None, plan.steps.clone(), SystemTime::now()).unwrap();
        journal.commit(&rewind, &mut || {}).unwrap();
        plan
    }
}

pub(crate) fn about(call: &str) -> About {
    About { prompt: Some("p1".to_owned()), call: Some(call.to_owned()), tool: None }
}

pub(crate) fn take(recorder: &mut Recorder, event: Event, call: &str) {
    recorder.take(event, about(call), SystemTime::now()).unwrap();
}

fn walk(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let found = fs::symlink_metadata(path).unwrap();
    let mode = found.permissions().mode() & 0o7777;
    let name = path.file_name().unwrap();
    if found.is_dir() {
        // What is not covered: an ignored folder.
        if name == "node_modules" {
            return;
        }
        all.insert(path.to_owned(), format!("folder {mode:o}"));
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), all);
        }
    } else if found.is_symlink() {
        all.insert(path.to_owned(), format!("link {}", fs::read_link(path).unwrap().display()));
    } else if found.is_file() {
        // Git writes what it knows about times into the index whenever it is asked.
        let bytes = if name == "index" { Vec::new() } else { fs::read(path).unwrap() };
        let text = if bytes.len() > 1 << 20 {
            // Too long to be printed.
            snapshot::Hash::of(&bytes).to_string()
        } else {
            format!("{bytes:?}")
        };
        all.insert(path.to_owned(), format!("file {mode:o} {} {text}", bytes.len()));
    } else {
        all.insert(path.to_owned(), format!("special {}", found.mode()));
    }
}
