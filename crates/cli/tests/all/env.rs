//! Surroundings for the program: a home of its own, a clock that stands still, no colours.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

/// When the tests take place: 2026-11-20, 00:00 UTC.
pub(crate) const NOW: u64 = 1_795_132_800;

/// How many files the tests of this process have written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Env {
    folder: TempDir,
}

impl Env {
    /// A user who never ran the client.
    pub(crate) fn bare() -> Self {
        Env { folder: tempfile::tempdir().unwrap() }
    }

    /// The same where nobody has to wait for a disk, if there is such a place.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Env { folder: folder.unwrap() }
    }

    /// A user with sessions: the samples, under two projects, each an hour older than the one
    /// before.
    pub(crate) fn with_sessions() -> Self {
        let env = Env::bare();
        let samples =
            testkit::root().join("crates/testkit/fixtures/samples/projects/-home-dev-demo");
        let project = env.path(".claude/projects/-home-dev-demo");
        testkit::copy_folder(&samples, &project).unwrap();
        let other = env.path(".claude/projects/-home-dev-other");
        testkit::copy_folder(
            &testkit::fixtures().join("recordings/2.1.45/k_hooks/projects/-home-dev-demo"),
            &other,
        )
        .unwrap();
        let mut files = testkit::files_under(&[env.path(".claude")]);
        files.sort_by_key(|file| file.path.file_name().map(std::ffi::OsStr::to_owned));
        for (age, file) in (1..).zip(files) {
            set_age(&file.path, age * 3_600);
        }
        env
    }

    /// A user with the samples that are built in: every dialect, sub-agents and damage.
    pub(crate) fn with_samples() -> Self {
        let env = Env::bare();
        testkit::copy_folder(
            &testkit::root().join("samples/home/projects"),
            &env.path(".claude/projects"),
        )
        .unwrap();
        env
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the surroundings, as if long before `NOW`, and after those before it:
    /// what a test says may not depend on the day on which it runs.
    #[allow(clippy::disallowed_methods, reason = "tests make the files they need")]
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let written = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let time = UNIX_EPOCH + Duration::from_secs(NOW - 86_400) + Duration::from_millis(written);
        File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("QUIPU_NOW", NOW.to_string())
            .env("TZ", "UTC")
            .current_dir(self.folder.path());
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a script in a mount namespace of its own, with a file system of so many bytes at
    /// `$HOME/disk`. Returns what it prints; `None` if that cannot be had here.
    pub(crate) fn on_small_disk(&self, bytes: &str, script: &str) -> Option<String> {
        let disk = self.path("disk");
        fs::create_dir_all(&disk).unwrap();
        let mount = format!("mount -t tmpfs -o size={bytes} tmpfs {} || exit 99", disk.display());
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &format!("{mount}\n{script}")]);
        command.env("HOME", self.path("")).env("QUIPU", env!("CARGO_BIN_EXE_quipu"));
        let output = command.output().ok().filter(|output| output.status.code() != Some(99))?;
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Some(text.concat())
    }

    /// Exit code, stdout and stderr as one text, with the temporary folder's name taken out.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.show(&self.output(args))
    }

    pub(crate) fn show(&self, output: &Output) -> String {
        let mut text = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                let bytes = String::from_utf8_lossy(bytes);
                write!(text, "--- {name}\n{bytes}").unwrap();
            }
        }
        self.cleaned(&text)
    }

    /// The text with the temporary folder's name taken out.
    pub(crate) fn cleaned(&self, text: &str) -> String {
        let here = self.folder.path().to_string_lossy();
        text.replace(here.as_ref(), "[HOME]").replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
    }
}

/// What a terminal shows of a program, without colours, and the exit code. One that does not end by
/// itself is ended after so long; then there is no exit code.
#[cfg(unix)]
pub(crate) fn in_a_terminal(
    mut command: Command,
    typed: &str,
    patience: Duration,
) -> (Option<i32>, String) {
    use std::io::{Read, Write};
    use std::thread;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let end = || File::options().read(true).write(true).open(&name).unwrap();
    command.env("NO_COLOR", "1").stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    // The other end is closed when the program ends, and not before.
    drop(command);
    let mut ours = File::from(ours);
    ours.write_all(typed.as_bytes()).unwrap();
    let reader = thread::spawn(move || {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = ours.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&seen).replace("\r\n", "\n")
    });
    let begin = std::time::Instant::now();
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if begin.elapsed() > patience => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    (code, reader.join().unwrap())
}

/// Makes a file look as if it was last changed so long ago.
pub(crate) fn set_age(path: &Path, seconds: u64) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(NOW - seconds)).unwrap();
}
