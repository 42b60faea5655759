//! What a program in a terminal waits for: keys, other threads, signals.
//!
//! Invariants: nothing is read from the terminal except while somebody waits here, so another
//! program can have it afterwards; signals do what they usually do when nobody waits for them any
//! more: a picker that ends leaves them to the console that it was opened from.

use std::io;

use ratatui::crossterm::event::KeyEvent;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Key(KeyEvent),
    Paste(String),
    /// Another thread has something, or the size has changed.
    Woken,
    /// The process was stopped, and goes on.
    Continued,
    /// A signal wants the process to end.
    Ended(u8),
    /// There will be no more keys: the terminal is gone, or its line mode has reached the end.
    Closed,
}

#[cfg(unix)]
pub use unix::{Inputs, Waker};

#[cfg(unix)]
mod unix {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant};

    use ratatui::crossterm::event::Event;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use signal_hook::SigId;
    use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
    use signal_hook::low_level::{pipe, unregister};

    use super::{Input, io};
    use crate::keys::{Meaning, is_paste, is_report, meaning, meaning_at_end, shorten};

    /// How long the rest of a sequence may take. The key Esc is only known after it.
    const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 40_000_000 };

    /// How many such times the rest of a paste may take: after that, its end is lost.
    const PASTE_PAUSES: usize = 250;
    /// How many the rest of a report may take.
    const REPORT_PAUSES: usize = 25;

    /// Where inputs come from.
    #[derive(Debug)]
    pub struct Inputs {
        /// Bytes that are not a whole key yet.
        held: Vec<u8>,
        /// How long the rest of them has not come.
        pauses: usize,
        wakes: UnixStream,
        waker: Waker,
        /// The last signal that wants the end; 0 if there was none since it was told.
        ended: Arc<AtomicUsize>,
        is_continued: Arc<AtomicBool>,
        registered: Vec<SigId>,
    }

    /// Ends a wait.
    #[derive(Clone, Debug)]
    pub struct Waker(Arc<UnixStream>);

    impl Waker {
        pub fn wake(&self) {
            // If it is full, the other side wakes up anyway.
            let _ = (&*self.0).write(&[0]);
        }
    }

    impl Inputs {
        pub fn new() -> io::Result<Inputs> {
            let (wakes, send) = UnixStream::pair()?;
            wakes.set_nonblocking(true)?;
            send.set_nonblocking(true)?;
            let usual = without_screen()?;
            ALIVE.fetch_add(1, Ordering::SeqCst);
            let mut inputs = Inputs {
                held: Vec::new(),
                pauses: 0,
                wakes,
                waker: Waker(Arc::new(send)),
                ended: Arc::default(),
                is_continued: Arc::default(),
                registered: Vec::new(),
            };
            usual.store(false, Ordering::SeqCst);
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                let number = usize::try_from(signal).unwrap_or_default();
                let ended = inputs.ended.clone();
                let id = signal_hook::flag::register_usize(signal, ended, number)?;
                inputs.registered.push(id);
            }
            let is_continued = inputs.is_continued.clone();
            inputs.registered.push(signal_hook::flag::register(SIGCONT, is_continued)?);
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT, SIGWINCH] {
                let id = pipe::register(signal, inputs.waker.0.try_clone()?)?;
                inputs.registered.push(id);
            }
            Ok(inputs)
        }

        pub fn waker(&self) -> Waker {
            self.waker.clone()
        }

        /// Waits until there is something, or for that long.
        pub fn wait(&mut self, most: Option<Duration>) -> io::Result<Vec<Input>> {
            let mut inputs = Vec::new();
            let most = most.map(|most| Instant::now() + most);
            while inputs.is_empty() {
                let rest = most.map(|end| timespec(end.saturating_duration_since(Instant::now())));
                let pause = if self.held.is_empty() { rest } else { Some(PAUSE) };
                let stdin = io::stdin();
                let mut both =
                    [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.wakes, PollFlags::IN)];
                let count = match poll(&mut both, pause.as_ref()) {
                    Err(Errno::INTR) => continue,
                    count => count?,
                };
                let [keys, wakes] = [both[0].revents(), both[1].revents()];
                if wakes.contains(PollFlags::IN) {
                    // Many of them are one.
                    while self.wakes.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
                    inputs.push(Input::Woken);
                }
                if keys.contains(PollFlags::IN) {
                    let mut buffer = vec![0; 1 << 16];
                    match rustix::io::read(&stdin, &mut buffer) {
                        Ok(0) => inputs.push(Input::Closed),
                        Err(Errno::IO) => inputs.push(gone()),
                        Ok(count) => {
                            self.held.extend_from_slice(&buffer[..count]);
                            shorten(&mut self.held);
                        }
                        Err(Errno::INTR | Errno::AGAIN) => {}
                        Err(error) => return Err(error.into()),
                    }
                } else if !keys.is_empty() {
                    inputs.push(gone());
                }
                if count == 0 && self.held.is_empty() {
                    break;
                }
                self.pauses = if count == 0 { self.pauses + 1 } else { 0 };
                let patience = match &self.held {
                    held if is_paste(held) => PASTE_PAUSES,
                    held if is_report(held) => REPORT_PAUSES,
                    _ => 0,
                };
                let is_end = count == 0 && self.pauses > patience;
                self.take_keys(is_end, &mut inputs);
                if self.is_continued.swap(false, Ordering::SeqCst) {
                    inputs.push(Input::Continued);
                }
                let signal = self.ended.swap(0, Ordering::SeqCst);
                if signal != 0 {
                    inputs.push(Input::Ended(u8::try_from(signal).unwrap_or_default()));
                }
            }
            Ok(inputs)
        }

        fn take_keys(&mut self, is_end: bool, inputs: &mut Vec<Input>) {
            let mut at = 0;
            while at < self.held.len() {
                let rest = &self.held[at..];
                let found = match meaning(rest) {
                    Meaning::More if is_end => meaning_at_end(rest),
                    found => found,
                };
                match found {
                    Meaning::More => break,
                    Meaning::Skip(used) => at += used,
                    Meaning::Event(event, used) => {
                        at += used;
                        match event {
                            Event::Key(key) => inputs.push(Input::Key(key)),
                            Event::Paste(text) => inputs.push(Input::Paste(text)),
                            _ => {}
                        }
                    }
                }
            }
            self.held.drain(..at);
        }
    }

    /// How many there are.
    static ALIVE: AtomicUsize = AtomicUsize::new(0);

    /// Whether signals do what they usually do. What sees to that stays, because a signal that
    /// nobody waits for any more would be ignored.
    fn without_screen() -> io::Result<&'static Arc<AtomicBool>> {
        static USUAL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        if USUAL.get().is_none() {
            let usual: Arc<AtomicBool> = Arc::default();
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                signal_hook::flag::register_conditional_default(signal, usual.clone())?;
            }
            return Ok(USUAL.get_or_init(|| usual));
        }
        Ok(USUAL.get_or_init(Arc::default))
    }

    fn timespec(time: Duration) -> Timespec {
        Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        }
    }

    /// The terminal is gone, as after the signal that says so.
    fn gone() -> Input {
        Input::Ended(u8::try_from(SIGHUP).unwrap_or_default())
    }

    impl Drop for Inputs {
        fn drop(&mut self) {
            let is_last = ALIVE.fetch_sub(1, Ordering::SeqCst) == 1;
            if let Ok(usual) = without_screen() {
                usual.store(is_last, Ordering::SeqCst);
            }
            for id in self.registered.drain(..) {
                unregister(id);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn signals_are_waited_for_until_the_last_one_ends() {
            let console = Inputs::new().unwrap();
            let picker = Inputs::new().unwrap();
            let is_usual = || without_screen().unwrap().load(Ordering::SeqCst);
            assert!(!is_usual());
            drop(picker);
            assert!(!is_usual());
            // Who gave way to the picker still gets the signal, and this process goes on.
            signal_hook::low_level::raise(SIGTERM).unwrap();
            assert_eq!(console.ended.load(Ordering::SeqCst), usize::try_from(SIGTERM).unwrap());
            drop(console);
            assert!(is_usual());
        }
    }
}

#[cfg(not(unix))]
pub use other::{Inputs, Waker};

#[cfg(not(unix))]
mod other {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use ratatui::crossterm::event::{self, Event, KeyEventKind};

    use super::{Input, io};

    /// How long a wait for keys is, before other threads are asked.
    const PAUSE: Duration = Duration::from_millis(30);

    /// Where inputs come from.
    #[derive(Debug)]
    pub struct Inputs(Waker);

    /// Ends a wait.
    #[derive(Clone, Debug, Default)]
    pub struct Waker(Arc<AtomicBool>);

    impl Waker {
        pub fn wake(&self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    impl Inputs {
        pub fn new() -> io::Result<Inputs> {
            Ok(Inputs(Waker::default()))
        }

        pub fn waker(&self) -> Waker {
            self.0.clone()
        }

        /// Waits until there is something, or for that long.
        pub fn wait(&mut self, most: Option<Duration>) -> io::Result<Vec<Input>> {
            let most = most.map(|most| std::time::Instant::now() + most);
            loop {
                if most.is_some_and(|end| std::time::Instant::now() > end) {
                    return Ok(Vec::new());
                }
                if self.0.0.swap(false, Ordering::SeqCst) {
                    return Ok(vec![Input::Woken]);
                }
                if !event::poll(PAUSE)? {
                    continue;
                }
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        return Ok(vec![Input::Key(key)]);
                    }
                    Event::Paste(text) => return Ok(vec![Input::Paste(text)]),
                    Event::Resize(..) => return Ok(vec![Input::Woken]),
                    _ => {}
                }
            }
        }
    }
}
