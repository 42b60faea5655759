//! A screen in the terminal: what is drawn is replaced at every key.
//!
//! It is drawn on stderr, so that stdout stays what the command prints. Invariants: the terminal is
//! as before when the screen is left, also after an error, a panic or a signal that ends the
//! program; only `ratatui` writes cells, and callers give it printable text; without a terminal
//! that can show it, nothing is written.

pub(crate) mod clipboard;
mod edit;

use std::io::{self, BufWriter, IsTerminal, Stderr, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use terminal_size::terminal_size_of;

pub(crate) use clipboard::Multiplexer;
use console::input::Inputs;
pub(crate) use console::input::{Input, Waker};
pub(crate) use edit::Edit;

/// Whether there is a terminal that keys come from and that shows a screen. `name` is what `TERM`
/// says.
pub(crate) fn is_possible(name: Option<&str>) -> bool {
    let has_cells = name.is_some_and(|name| name != "dumb") || cfg!(windows);
    has_cells && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// What is drawn reaches the terminal in one piece.
type Drawn = Terminal<CrosstermBackend<BufWriter<Stderr>>>;

/// The screen of a program that reacts to keys.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Drawn,
    inputs: Inputs,
}

/// Whether the terminal shows a screen now, for what restores it after a panic.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

impl Screen {
    pub(crate) fn open() -> io::Result<Screen> {
        restore_after_panic();
        let inputs = Inputs::new()?;
        let mut screen = Screen { terminal: blank(area())?, inputs };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal. Does no harm if it has it.
    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        IS_OPEN.store(true, Ordering::SeqCst);
        execute!(io::stderr(), EnterAlternateScreen, EnableBracketedPaste)?;
        self.redraw()
    }

    /// Draws everything; only what is different reaches the terminal.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if self.terminal.get_frame().area() != area() {
            self.redraw()?;
        }
        self.terminal.draw(draw).map(drop)
    }

    /// Makes the next drawing a whole one, whatever the terminal shows now.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        execute!(io::stderr(), Clear(ClearType::All))?;
        self.terminal = blank(area())?;
        Ok(())
    }

    /// Waits until something happens. What comes with a `Waker` is only that it came.
    pub(crate) fn wait(&mut self) -> io::Result<Vec<Input>> {
        let inputs = self.inputs.wait(None)?;
        if inputs.contains(&Input::Continued) {
            self.enter()?;
        }
        Ok(inputs)
    }

    /// Ends a wait, from another thread.
    pub(crate) fn waker(&self) -> Waker {
        self.inputs.waker()
    }

    /// Stops the process, as the key for that does elsewhere, until the shell continues it.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        {
            leave();
            let group = rustix::process::Signal::TSTP;
            rustix::process::kill_current_process_group(group)?;
            self.enter()?;
        }
        Ok(())
    }

    /// Puts a text into the clipboard, if the terminal allows that.
    pub(crate) fn copy(&mut self, text: &str, within: Multiplexer) -> io::Result<()> {
        let terminal = self.terminal.backend_mut();
        terminal.write_all(clipboard::sequence(text, within).as_bytes())?;
        Write::flush(terminal)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// A screen of that size with nothing on it. The size is fixed, because `ratatui` would ask for it,
/// and for the cursor: of another terminal, if this one does not control the process, and of one
/// that may not answer.
fn blank(area: Rect) -> io::Result<Drawn> {
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    let writer = BufWriter::with_capacity(1 << 16, io::stderr());
    Terminal::with_options(CrosstermBackend::new(writer), options)
}

/// Gives the terminal back. Nothing can be done about errors: it may be gone.
fn leave() {
    if !IS_OPEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut terminal = io::stderr().lock();
    let _ = queue!(terminal, DisableBracketedPaste, Show, LeaveAlternateScreen);
    let _ = terminal.flush();
    let _ = disable_raw_mode();
}

/// A panic is reported on the terminal as it was before.
fn restore_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            report(panic);
        }));
    });
}

fn area() -> Rect {
    let size = terminal_size_of(io::stderr());
    let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
    Rect::new(0, 0, width, height)
}
