//! A window in a tmux server of its own, for programs that draw on a terminal.
//!
//! The scrollback is far longer than what tests print, and the size changes only when a test says
//! so. The server ends with the value.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long something on the screen is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a program gets for a key.
const KEY: Duration = Duration::from_millis(60);

/// A window.
#[derive(Debug)]
pub struct Tmux {
    socket: String,
}

/// Words as a line that a shell reads as these words.
pub fn shell_line<T: AsRef<str>>(words: &[T]) -> String {
    let quoted = |word: &T| format!("'{}'", word.as_ref().replace('\'', "'\\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl Tmux {
    /// Runs a line of the shell in a window of that size; None if there is no tmux.
    pub fn open(line: &str, cwd: &Path, (width, height): (u16, u16)) -> Option<Tmux> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        Command::new("tmux").arg("-V").output().ok()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux { socket: format!("quipu{}n{number}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        let cwd = cwd.display().to_string();
        // Options first: they hold for windows that are made later.
        tmux.run(&[
            "-f",
            "/dev/null",
            "start-server",
            ";",
            "set",
            "-g",
            "history-limit",
            "200000",
            ";",
            "set",
            "-s",
            "escape-time",
            "0",
            ";",
            "set",
            "-g",
            "default-terminal",
            "tmux-256color",
            ";",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "-c",
            &cwd,
            "/bin/sh",
            "-c",
            line,
        ]);
        tmux.run(&["set", "-g", "window-size", "manual"]);
        Some(tmux)
    }

    /// Runs a command of tmux. Returns what it printed.
    pub fn run(&self, args: &[&str]) -> String {
        let done = Command::new("tmux").args(["-u", "-L", &self.socket]).args(args).output();
        done.map_or_else(
            |error| error.to_string(),
            |done| String::from_utf8_lossy(&done.stdout).into_owned(),
        )
    }

    /// Presses keys, by their names.
    pub fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys", "-t", ":0"];
        args.extend(keys);
        self.run(&args);
        sleep(KEY);
    }

    /// Types a text.
    pub fn text(&self, text: &str) {
        self.run(&["send-keys", "-t", ":0", "-l", text]);
        sleep(KEY);
    }

    /// Types a text, and presses Enter.
    pub fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// Pastes a text, as a terminal does it.
    pub fn paste(&self, text: &str) {
        self.run(&["set-buffer", text]);
        self.run(&["paste-buffer", "-p", "-t", ":0"]);
        sleep(KEY);
    }

    /// Sends bytes that no key sends, such as what a terminal answers.
    pub fn bytes(&self, bytes: &[u8]) {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut args = vec!["send-keys", "-t", ":0", "-H"];
        args.extend(hex.iter().map(String::as_str));
        self.run(&args);
        sleep(KEY);
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-t", ":0", "-p"])
    }

    /// The same with colours, as bytes for a terminal.
    pub fn colored(&self) -> String {
        self.run(&["capture-pane", "-t", ":0", "-p", "-e"])
    }

    /// Everything that was printed, as logical lines.
    pub fn scrollback(&self) -> Vec<String> {
        let text = self.run(&["capture-pane", "-t", ":0", "-p", "-J", "-S", "-"]);
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until a text is on the screen. Returns the screen.
    ///
    /// # Panics
    /// If it does not come.
    pub fn wait(&self, wanted: &str) -> String {
        self.until(wanted, |screen| screen.contains(wanted))
    }

    /// Waits until the screen is as it should be. Returns the screen.
    ///
    /// # Panics
    /// If it does not become so.
    pub fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "{what:?} does not come:\n{screen}");
            sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
