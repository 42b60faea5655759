//! The program stopped before every single write: the old file or the new one is whole, and what the journal has can be brought back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Deed, Disk, Journal, Mark, Ready, Real, beside, create, replace, undo};

const OLD: &[u8] = b"what it was\n";
const NEW: &[u8] = b"what it is now, and longer\n";

/// A disk on which nothing happens any more after so many steps; the step itself is left half done where it can be.
struct Dying {
    left: usize,
}

impl Dying {
    fn dead(&mut self) -> io::Result<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(io::Error::other("dead")),
        }
    }
}

fn write(path: &Path, bytes: &[u8]) {
    io::Write::write_all(&mut fs::File::create(path).unwrap(), bytes).unwrap();
}

impl Disk for Dying {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        self.dead()?;
        Real.create_folder(path)
    }

    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.dead().inspect_err(|_| write(path, &bytes[..bytes.len() / 2]))?;
        Real.create(path, bytes)
    }

    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.dead().inspect_err(|_| {
            let bytes = fs::read(from).unwrap();
            write(to, &bytes[..bytes.len() / 2]);
        })?;
        Real.copy(from, to)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.dead()?;
        Real.rename(from, to)
    }

    fn place(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.dead()?;
        Real.place(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.dead()?;
        Real.remove(path)
    }

    fn remove_empty(&mut self, gone: &Path, other: &Path) {
        if self.dead().is_ok() {
            Real.remove_empty(gone, other);
        }
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        self.dead()?;
        Real.remove_folder(path)
    }

    fn set_modified(&mut self, path: &Path, modified: u128) -> io::Result<()> {
        self.dead()?;
        Real.set_modified(path, modified)
    }
}

struct Scene {
    folder: tempfile::TempDir,
    journal: Journal,
    path: PathBuf,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    write(&path, OLD);
    Real.set_modified(&path, 1_700_000_000_000_000_000).unwrap();
    let journal = Journal::at(folder.path().join("journal"));
    Scene { folder, journal, path }
}

fn deed() -> Deed<'static> {
    Deed { what: "strip", session: "s", now: UNIX_EPOCH + Duration::from_secs(1_800_000_000) }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_100)
}

impl Scene {
    fn replace(&self, disk: &mut dyn Disk) -> io::Result<String> {
        let temp = self.folder.path().join(".new");
        write(&temp, NEW);
        let ready = Ready { temp, path: self.path.clone() };
        replace(disk, &self.journal, deed(), &ready, Mark::of(&self.path).unwrap())
    }
}

#[test]
fn a_file_is_whole_whenever_the_program_is_stopped() {
    let mut outcomes = Vec::new();
    for left in 0.. {
        let scene = scene();
        let done = scene.replace(&mut Dying { left });
        let bytes = fs::read(&scene.path).unwrap();
        assert!(bytes == OLD || bytes == NEW, "stopped before step {left}");
        // The journal knows of it if and only if it happened.
        let entries = scene.journal.entries().unwrap();
        assert_eq!(entries.len(), usize::from(bytes == NEW), "stopped before step {left}");
        outcomes.push(bytes == NEW);
        if done.is_ok() {
            break;
        }
    }
    // A folder, the copy, two steps for the entry, the rename.
    assert_eq!(outcomes, [false, false, false, false, false, true]);
}

#[test]
fn undo_brings_back_every_byte_and_survives_being_stopped() {
    for left in 0.. {
        let scene = scene();
        let name = scene.replace(&mut Real).unwrap();
        let entries = scene.journal.entries().unwrap();
        assert_eq!(entries[0].name, name);
        let done = undo(&mut Dying { left }, &scene.journal, &entries[0], now(), false);
        let bytes = fs::read(&scene.path).unwrap();
        assert!(bytes == OLD || bytes == NEW, "stopped before step {left}");
        if done.is_ok() {
            assert_eq!(bytes, OLD);
            assert!(scene.journal.entries().unwrap().is_empty());
            break;
        }
        // Once more, without being stopped, if there is anything left to take back.
        if let Some(entry) = scene.journal.entries().unwrap().first() {
            undo(&mut Real, &scene.journal, entry, now(), false).unwrap();
        }
        assert_eq!(fs::read(&scene.path).unwrap(), OLD, "stopped before step {left}");
        let modified = Mark::of(&scene.path).unwrap().modified;
        assert_eq!(modified, 1_700_000_000_000_000_000, "its time is what it was, too");
    }
}

#[test]
fn what_was_written_since_is_not_lost() {
    let scene = scene();
    let temp = scene.folder.path().join(".new");
    write(&temp, NEW);
    let was = Mark::of(&scene.path).unwrap();
    write(&scene.path, b"somebody else wrote\n");
    let ready = Ready { temp, path: scene.path.clone() };
    let refused = replace(&mut Real, &scene.journal, deed(), &ready, was).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
    assert_eq!(fs::read(&scene.path).unwrap(), b"somebody else wrote\n");
    assert!(scene.journal.entries().unwrap().is_empty());
    // The same for taking back: not without being told to, and then it is kept.
    scene.replace(&mut Real).unwrap();
    write(&scene.path, b"and more\n");
    let entries = scene.journal.entries().unwrap();
    assert!(undo(&mut Real, &scene.journal, &entries[0], now(), false).is_err());
    assert_eq!(fs::read(&scene.path).unwrap(), b"and more\n");
    undo(&mut Real, &scene.journal, &entries[0], now(), true).unwrap();
    assert_eq!(fs::read(&scene.path).unwrap(), b"somebody else wrote\n");
    let kept = scene.journal.entries().unwrap();
    undo(&mut Real, &scene.journal, &kept[0], now(), true).unwrap();
    assert_eq!(fs::read(&scene.path).unwrap(), b"and more\n");
}

#[test]
fn new_files_take_nobodys_place_and_go_again() {
    for left in 0.. {
        let scene = scene();
        let inner = scene.folder.path().join("new/subagents/agent-a.jsonl");
        fs::create_dir_all(inner.parent().unwrap()).unwrap();
        let paths = [scene.folder.path().join("new.jsonl"), inner];
        let ready: Vec<Ready> = paths
            .iter()
            .map(|path| {
                let temp = beside(path);
                write(&temp, NEW);
                Ready { temp, path: path.clone() }
            })
            .collect();
        let done = create(&mut Dying { left }, &scene.journal, deed(), &ready);
        // The session's own file comes last: where it is, everything is.
        assert!(!paths[0].exists() || paths[1].exists(), "stopped before step {left}");
        assert_eq!(fs::read(&scene.path).unwrap(), OLD);
        let entries = scene.journal.entries().unwrap();
        if let Some(entry) = entries.first() {
            undo(&mut Real, &scene.journal, entry, now(), false).unwrap();
        }
        assert!(!paths[0].exists() && !paths[1].exists(), "stopped before step {left}");
        if done.is_ok() {
            assert!(!scene.folder.path().join("new").exists(), "no empty folder stays");
            write(&paths[0], OLD);
            write(&ready[0].temp, NEW);
            let taken = create(&mut Real, &scene.journal, deed(), &ready[..1]).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&paths[0]).unwrap(), OLD);
            break;
        }
    }
}
