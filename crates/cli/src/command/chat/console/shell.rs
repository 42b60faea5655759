//! `!command`: a command of the user's, in their own shell and outside of the session's rules.
//!
//! Invariants: it gets neither the keyboard nor the terminal; what it prints is bounded; when it is
//! stopped, everything in its group ends, and nothing is sent to the model.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::console::News;
use ::console::screen::Ending;
use ::console::text::{Line, line, look, output_lines};
use agent::drive::{Note, Said};

use super::backend::Backend;

/// How much of a command's output is sent to the model.
const OUTPUT: usize = 30_000;
/// How long a command may take.
const LONGEST: Duration = Duration::from_secs(3_600);
/// How much of its output is read.
const READ: usize = 4 << 20;
/// How often what it prints is shown while it runs, and how much of the end.
const LOOK: Duration = Duration::from_millis(200);
const TAIL: usize = 2_000;

/// What a command printed.
struct Printed {
    stdout: String,
    stderr: String,
    is_stopped: bool,
}

impl Backend<'_> {
    /// Runs a command in a thread. What it printed is shown, recorded and sent.
    pub(super) fn shell(&mut self, text: &str) {
        let (command, cwd, notes) = (text.to_owned(), self.site.root.clone(), self.notes.clone());
        let (tell, waker) = (self.later.0.clone(), self.waker.clone());
        self.has_spoken = true;
        let is_stopped: Arc<AtomicBool> = Arc::default();
        self.stop = Some(is_stopped.clone());
        thread::spawn(move || {
            let show = |text: String| {
                let _ = tell.send(News::Printed(text));
                if let Some(waker) = &waker {
                    waker.wake();
                }
            };
            let printed = run(&command, &cwd, &is_stopped, &show);
            show(String::new());
            let lines = output_lines(&format!("{}\n{}", printed.stdout, printed.stderr));
            let lines = lines.iter().filter(|text| !text.is_empty());
            let lines: Vec<Line<'static>> = lines.map(|text| line(look::DIM, text)).collect();
            let _ = tell.send(News::Lines(lines));
            if printed.is_stopped {
                let _ = tell.send(News::End(Ending::Interrupted));
            } else {
                let spoken = Said::shell(&command, &printed.stdout, &printed.stderr);
                let _ = notes.send(Note::Say(spoken));
            }
            if let Some(waker) = waker {
                waker.wake();
            }
        });
    }

    /// Stops the command that runs, if there is one.
    pub(super) fn stop_shell(&mut self) {
        if let Some(is_stopped) = self.stop.take() {
            is_stopped.store(true, Ordering::SeqCst);
        }
    }
}

fn run(command: &str, cwd: &Path, is_stopped: &AtomicBool, show: &dyn Fn(String)) -> Printed {
    let failed = |error: io::Error| Printed {
        stdout: String::new(),
        stderr: error.to_string(),
        is_stopped: false,
    };
    let mut child = match start(command, cwd) {
        Ok(child) => child,
        Err(error) => return failed(error),
    };
    let (out, err) = (Arc::default(), Arc::default());
    let stdout = reader(child.stdout.take(), &out);
    let stderr = reader(child.stderr.take(), &err);
    let begun = Instant::now();
    let (mut looked, mut shown) = (begun, String::new());
    let mut more = String::new();
    while let Ok(None) = child.try_wait() {
        let is_late = begun.elapsed() > LONGEST;
        if is_late || is_stopped.load(Ordering::SeqCst) {
            end(&mut child);
            if is_late {
                more = format!("(stopped after {} seconds)", LONGEST.as_secs());
            }
            break;
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let text = [&out, &err].map(tail).concat();
            if text != shown {
                shown.clone_from(&text);
                show(text);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    // What it left in its group would keep the output open.
    end(&mut child);
    let read = |handle: JoinHandle<()>, bytes: &Bytes| {
        let _ = handle.join();
        shortened(&bytes.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let stderr = format!("{}{more}", read(stderr, &err));
    Printed { stdout: read(stdout, &out), stderr, is_stopped: is_stopped.load(Ordering::SeqCst) }
}

fn start(command: &str, cwd: &Path) -> io::Result<Child> {
    let mut shell = sandbox::apart("/bin/sh").unwrap_or_else(|| {
        let mut shell = Command::new("/bin/sh");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        shell
    });
    shell.arg("-c").arg(command).current_dir(cwd);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.spawn()
}

/// Ends everything in the group of a command.
pub(super) fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended already.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What was read so far.
type Bytes = Arc<Mutex<Vec<u8>>>;

/// Reads a pipe to its end, in a thread; the beginning is kept.
pub(super) fn reader<R: Read + Send + 'static>(pipe: Option<R>, bytes: &Bytes) -> JoinHandle<()> {
    let bytes = bytes.clone();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut piece = vec![0; 1 << 16];
        loop {
            let count = match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let room = READ.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..count.min(room)]);
        }
    })
}

/// The last lines of what was read so far.
fn tail(bytes: &Bytes) -> String {
    let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
    let start = bytes.len().saturating_sub(TAIL);
    let text = String::from_utf8_lossy(&bytes[start..]).into_owned();
    match text.split_once('\n').filter(|_| start > 0) {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

/// The text of an output, without the last newlines; what is cut is counted.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\n');
    match text.char_indices().nth(OUTPUT) {
        Some((end, _)) => {
            format!("{}\n… ({} characters in all)", &text[..end], text.chars().count())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_bounded_and_stopped() {
        let folder = std::env::temp_dir();
        let go = AtomicBool::new(false);
        let printed = run("printf 'a\\nb\\n\\n'; echo no >&2; cat", &folder, &go, &|_| ());
        let words = (printed.stdout.as_str(), printed.stderr.as_str(), printed.is_stopped);
        assert_eq!(words, ("a\nb", "no", false));
        let printed = run("head -c 100000 /dev/zero | tr '\\0' x", &folder, &go, &|_| ());
        assert!(printed.stdout.ends_with("(100000 characters in all)"));
        let stop = AtomicBool::new(true);
        let begun = Instant::now();
        assert!(run("sleep 60", &folder, &stop, &|_| ()).is_stopped);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
