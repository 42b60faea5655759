//! A pager, for output that is longer than the screen.
//!
//! The one that `QUIPU_PAGER` or `PAGER` names, else `less`; without any, output goes to the
//! terminal directly. `less` is told to exit by itself if everything fits on one screen, unless the
//! user has options for it.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The pager that the user wants.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) command: String,
    /// Whether the user has set options for `less`.
    pub(crate) has_less_options: bool,
}

#[derive(Debug)]
pub(crate) struct Pager {
    child: Child,
    input: Option<ChildStdin>,
}

impl Pager {
    /// Starts a pager; `None` if there is none, or none is wanted.
    pub(crate) fn start(Choice { command, has_less_options }: &Choice) -> Option<Pager> {
        let has_less_options = *has_less_options;
        if command.trim().is_empty() || command.trim() == "cat" {
            return None;
        }
        // It may contain options, quotes, pipes: a shell parses them.
        let mut pager = if cfg!(windows) {
            Command::new(command)
        } else {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]);
            shell
        };
        pager.stdin(Stdio::piped());
        if !has_less_options {
            // As other tools do: exit if it fits, pass colours on, leave the text on the screen.
            pager.env("LESS", "FRX");
        }
        pager.env("LESSCHARSET", "utf-8");
        let mut child = pager.spawn().ok()?;
        // The interrupt key belongs to the pager while it runs.
        #[cfg(unix)]
        let _ = signal_hook::flag::register(
            signal_hook::consts::SIGINT,
            Arc::new(AtomicBool::new(false)),
        );
        let input = child.stdin.take();
        Some(Pager { child, input })
    }

    /// Waits until the user leaves the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.input = None;
        self.child.wait().map(drop)
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.input {
            Some(input) => input.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), Write::flush)
    }
}
