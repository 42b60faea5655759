//! Lines only: for screen readers, for terminals that can do nothing else.
//!
//! The same console without a area area: what is finished is printed, questions are printed with
//! numbered choices, a line that is typed is what would have been typed into the composer.
//! Invariant: nothing is drawn over, nothing ticks, the cursor is the terminal's.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ::console::Screen;
use ::console::composer::Prompt;
use ::console::run::{Backend as _, Flow, Stage, size};
use ::console::terminal::Terminal;
use ::console::text::{Colors, plain};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::backend::Backend;

/// How often news are looked for.
const OFTEN: Duration = Duration::from_millis(50);

/// Runs until the input ends or the user leaves.
pub(super) fn run(
    screen: &mut Screen,
    backend: &mut Backend<'_>,
    first: Option<&str>,
) -> io::Result<Option<u8>> {
    let (typed, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if typed.send(line).is_err() {
                return;
            }
        }
    });
    let start = Instant::now();
    let mut terminal = Terminal::new(io::sink(), size(), Colors::None);
    if let Some(first) = first {
        let mut stage = Stage { screen, terminal: &mut terminal, now: start.elapsed() };
        backend.first(&Prompt::typed(first), &mut stage)?;
    }
    let mut out = io::stdout();
    let mut asked = String::new();
    let mut is_prompted = false;
    loop {
        let news = run_news(screen, backend, &mut terminal, start.elapsed())?;
        if news == Flow::Leave {
            return Ok(None);
        }
        for line in screen.take_lines() {
            writeln!(out, "{}", plain(&line))?;
            is_prompted = false;
        }
        // What can be chosen is a part of the area area.
        let area = screen.live(size(), start.elapsed());
        let choices: Vec<String> =
            if area.caret.is_none() { area.rows.iter().map(plain).collect() } else { Vec::new() };
        let choices = choices.join("\n");
        if choices != asked && !choices.is_empty() {
            writeln!(out, "{choices}")?;
            is_prompted = false;
        }
        asked = choices;
        if !is_prompted && (!screen.is_busy() || !asked.is_empty()) {
            write!(out, "> ")?;
            is_prompted = true;
        }
        out.flush()?;
        let line = match lines.recv_timeout(OFTEN) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        };
        is_prompted = false;
        let keys = line.chars().map(KeyCode::Char).chain([KeyCode::Enter]);
        for code in keys {
            // A number has answered already, and the rest of the line is nothing.
            let is_answered =
                asked.is_empty() == screen.live(size(), start.elapsed()).caret.is_none();
            if is_answered {
                break;
            }
            let wishes = screen.key(KeyEvent::new(code, KeyModifiers::NONE), start.elapsed());
            for wish in wishes {
                let mut stage = Stage { screen, terminal: &mut terminal, now: start.elapsed() };
                if backend.wish(wish, &mut stage)? == Flow::Leave {
                    return Ok(None);
                }
            }
        }
    }
}

fn run_news(
    screen: &mut Screen,
    backend: &mut Backend<'_>,
    terminal: &mut Terminal<io::Sink>,
    now: Duration,
) -> io::Result<Flow> {
    let is_over = ::console::run::Backend::<io::Sink>::is_over(backend);
    while let Some(news) = ::console::run::Backend::<io::Sink>::news(backend) {
        for wish in screen.hear(news, now) {
            let mut stage = Stage { screen, terminal, now };
            if backend.wish(wish, &mut stage)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
    }
    Ok(if is_over { Flow::Leave } else { Flow::On })
}
