//! The loop: waits, and draws what is different.
//!
//! Invariants: a key is drawn before anything else is waited for, and news are drawn at most every
//! `FRAME`; when nothing happens and nothing moves, nothing wakes up; the terminal is as before
//! when the loop is left, also after an error, a panic or a signal.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use terminal_size::terminal_size_of;

use crate::input::{Input, Inputs};
use crate::screen::{News, Screen, Wish};
use crate::terminal::{Size, Terminal};

/// How long one drawing of news is shown at least.
const FRAME: Duration = Duration::from_millis(16);
/// How often something that moves is drawn.
const TICK: Duration = Duration::from_millis(120);
/// How soon a draft is kept after the last key.
const KEEP: Duration = Duration::from_millis(400);
/// The signal of a terminal that is gone.
const HANGUP: u8 = 1;
/// How many news are taken between two drawings.
const NEWS: usize = 4_000;

/// How it goes on after a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// As before.
    On,
    /// The loop ends.
    Leave,
}

/// What a wish needs of the terminal.
#[derive(Debug)]
pub struct Stage<'a, W: Write> {
    /// The state.
    pub screen: &'a mut Screen,
    /// The terminal.
    pub terminal: &'a mut Terminal<W>,
    /// The time since the start.
    pub now: Duration,
}

/// What stands behind the console: the session, and the program's commands.
pub trait Backend<W: Write> {
    /// The next news, if there are any.
    fn news(&mut self) -> Option<News>;
    /// Does what the console wants.
    fn wish(&mut self, wish: Wish, stage: &mut Stage<'_, W>) -> io::Result<Flow>;
    /// Keeps what is typed, in case that the program ends.
    fn keep(&mut self, draft: &str);
    /// A text is pasted; an image that it names is taken instead of it.
    fn image(&mut self, pasted: &str) -> Option<crate::composer::Image>;
    /// Whether the session has ended by itself.
    fn is_over(&self) -> bool;
}

/// The size of the terminal.
pub fn size() -> Size {
    let size = terminal_size_of(io::stdout());
    let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
    Size { width: width.max(1), height: height.max(1) }
}

/// The bytes that restore the terminal if nothing else does; None if it is as before.
static FAREWELL: Mutex<Option<String>> = Mutex::new(None);
/// What is printed after the report of a panic.
static LAST_WORDS: Mutex<String> = Mutex::new(String::new());

/// After a panic, this is printed below its report: how to go on.
pub fn set_last_words(text: &str) {
    text.clone_into(&mut LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner));
}

/// What the terminal is asked for: pastes as such, and keys with their modifiers. Terminals that do
/// not know one of these ignore it; nothing is asked that would be answered.
const ENTER: &str = "\u{1b}[?2004h\u{1b}[>1u\u{1b}[>4;1m";
const LEAVE: &str = "\u{1b}[>4;0m\u{1b}[<u\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h";

/// Takes the terminal.
pub fn enter(out: &mut impl Write) -> io::Result<()> {
    restore_after_panic();
    enable_raw_mode()?;
    remember(Some(String::new()));
    out.write_all(ENTER.as_bytes())?;
    out.flush()
}

/// Gives the terminal back.
pub fn leave(out: &mut impl Write) -> io::Result<()> {
    remember(None);
    let written = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    disable_raw_mode()?;
    written
}

fn is_taken() -> bool {
    FAREWELL.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

fn remember(farewell: Option<String>) {
    *FAREWELL.lock().unwrap_or_else(PoisonError::into_inner) = farewell;
}

/// A panic is reported on the terminal as it was before.
fn restore_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let farewell = FAREWELL.try_lock().ok().and_then(|mut farewell| farewell.take());
            let was_taken = farewell.is_some();
            if let Some(farewell) = farewell {
                let mut out = io::stdout();
                // If the terminal is gone, there is nothing to restore.
                let _ = out
                    .write_all(farewell.as_bytes())
                    .and_then(|()| out.write_all(LEAVE.as_bytes()));
                let _ = out.flush();
                let _ = disable_raw_mode();
            }
            report(panic);
            if let (true, Ok(words)) = (was_taken, LAST_WORDS.try_lock()) {
                let _ = io::stderr().write_all(words.as_bytes());
            }
        }));
    });
}

/// Runs the console until it is left. Returns the signal that ended it, if one did.
pub fn run<W: Write>(
    screen: &mut Screen,
    terminal: &mut Terminal<W>,
    inputs: &mut Inputs,
    backend: &mut dyn Backend<W>,
) -> io::Result<Option<u8>> {
    let start = Instant::now();
    enter(terminal.out())?;
    let ended = turns(screen, terminal, inputs, backend, start);
    let lines = screen.take_all_lines();
    terminal.print(&lines);
    terminal.clear()?;
    leave(terminal.out())?;
    ended
}

fn turns<W: Write>(
    screen: &mut Screen,
    terminal: &mut Terminal<W>,
    inputs: &mut Inputs,
    backend: &mut dyn Backend<W>,
    start: Instant,
) -> io::Result<Option<u8>> {
    let mut drawn = start;
    let mut ticked = start;
    let mut kept = screen.draft().into_owned();
    let mut title = String::new();
    let mut typed: Option<Instant> = None;
    let mut is_urgent = true;
    loop {
        let now = start.elapsed();
        let is_due = is_urgent || drawn.elapsed() >= FRAME;
        if is_due {
            draw(screen, terminal, &mut title, now)?;
            drawn = Instant::now();
            is_urgent = false;
        }
        let mut rests: Vec<Duration> = Vec::new();
        if !is_due {
            rests.push(FRAME.saturating_sub(drawn.elapsed()));
        }
        if screen.is_moving() {
            rests.push(TICK.saturating_sub(ticked.elapsed()));
        }
        rests.extend(screen.next_change().map(|at| at.saturating_sub(start.elapsed())));
        rests.extend(typed.map(|at| KEEP.saturating_sub(at.elapsed())));
        let waited = inputs.wait(rests.into_iter().min())?;
        let now = start.elapsed();
        for input in waited {
            let mut wishes = Vec::new();
            match input {
                Input::Key(key) => {
                    wishes = screen.key(key, now);
                    is_urgent = true;
                }
                Input::Paste(text) => {
                    match backend.image(&text) {
                        Some(image) => screen.paste_image(image),
                        None => screen.paste(&text, now),
                    }
                    is_urgent = true;
                }
                Input::Woken => {}
                Input::Continued => {
                    // The shell may have changed the terminal meanwhile.
                    leave(terminal.out())?;
                    enter(terminal.out())?;
                    terminal.redraw();
                    is_urgent = true;
                }
                Input::Ended(signal) => {
                    backend.keep(&screen.draft());
                    return Ok(Some(signal));
                }
                // As after the signal that says so.
                Input::Closed => {
                    backend.keep(&screen.draft());
                    return Ok(Some(HANGUP));
                }
            }
            for wish in wishes {
                let mut stage = Stage { screen, terminal, now };
                if backend.wish(wish, &mut stage)? == Flow::Leave {
                    backend.keep(&screen.draft());
                    return Ok(None);
                }
            }
        }
        for _ in 0..NEWS {
            let Some(news) = backend.news() else { break };
            for wish in screen.hear(news, now) {
                let mut stage = Stage { screen, terminal, now };
                if backend.wish(wish, &mut stage)? == Flow::Leave {
                    return Ok(None);
                }
            }
        }
        if screen.is_moving() && ticked.elapsed() >= TICK
            || screen.next_change().is_some_and(|at| at <= now)
        {
            screen.tick(now);
            ticked = Instant::now();
            is_urgent = true;
        }
        let draft = screen.draft();
        if draft == kept {
            typed = None;
        } else if typed.get_or_insert_with(Instant::now).elapsed() >= KEEP {
            kept = draft.into_owned();
            backend.keep(&kept);
            typed = None;
        }
        if backend.is_over() {
            return Ok(None);
        }
    }
}

/// Draws what is different, and names the window.
fn draw<W: Write>(
    screen: &mut Screen,
    terminal: &mut Terminal<W>,
    title: &mut String,
    now: Duration,
) -> io::Result<()> {
    let size = size();
    terminal.resize(size);
    let live = screen.live(size, now);
    let lines = screen.take_lines();
    terminal.print(&lines);
    terminal.draw(&live)?;
    remember(Some(terminal.farewell()));
    let name = screen.title();
    if name != *title {
        write!(terminal.out(), "\u{1b}]2;{name}\u{7}")?;
        terminal.out().flush()?;
        *title = name;
    }
    Ok(())
}

/// Gives the terminal back if it was taken, does something with it, and takes it again.
pub fn outside<W: Write, T>(
    terminal: &mut Terminal<W>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    // With lines only, it is as it was all the time.
    if !is_taken() {
        return work();
    }
    terminal.clear()?;
    leave(terminal.out())?;
    let done = work();
    enter(terminal.out())?;
    terminal.redraw();
    done
}

/// Stops the process, as the key for that does elsewhere, until the shell continues it.
pub fn suspend<W: Write>(terminal: &mut Terminal<W>) -> io::Result<()> {
    #[cfg(unix)]
    outside(terminal, || {
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        Ok(())
    })?;
    Ok(())
}
