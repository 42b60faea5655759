//! A pager, for what is longer than the screen.
//!
//! What `QUIPU_PAGER` or `PAGER` names, else `less`; if it cannot be started, there is none, and nothing is lost. `less` is told to
//! end by itself if all fits on one screen.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Debug)]
pub(crate) struct Pager {
    child: Child,
    input: Option<ChildStdin>,
}

impl Pager {
    /// Starts a pager; `None` if there is none, or none is wanted.
    pub(crate) fn start(command: &str) -> Option<Pager> {
        let mut words = command.split_whitespace();
        let program = words.next().filter(|program| *program != "cat")?;
        let mut pager = Command::new(program);
        pager.args(words).stdin(Stdio::piped());
        if program.ends_with("less") {
            // As other tools do: quit if it fits, pass colours on, leave the text on the screen.
            pager.env("LESS", "FRX").env("LESSCHARSET", "utf-8");
        }
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

    /// Waits until the reader has had enough.
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
