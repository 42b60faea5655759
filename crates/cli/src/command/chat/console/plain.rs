//! Lines only: for screen readers, for terminals that can do nothing else.
//!
//! The same console without a live area: what is finished is printed, questions are printed with
//! numbered choices, a line that is typed is a prompt or an answer. Invariants: nothing is drawn
//! over, nothing ticks, the cursor is the terminal's; while nothing happens, nothing wakes up;
//! the key for it (Ctrl-C) stops a turn, and leaves when none runs.

use std::io::{self, Write};
use std::time::Instant;

use ::console::Screen;
use ::console::composer::Prompt;
use ::console::input::{Input, Inputs};
use ::console::run::{Backend as _, Flow, Stage, size};
use ::console::terminal::Terminal;
use ::console::text::{Colors, look, plain};
use ::console::{News, Wish};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::backend::Backend;
use crate::failure::Failure;
use crate::pick;
use crate::world::World;

/// The signal of the key that stops things.
const INTERRUPT: u8 = 2;

/// What is written to: lines, and what is not drawn, such as the bell.
struct Lines {
    terminal: Terminal<io::Stdout>,
    /// The choices that were printed last.
    asked: String,
    is_prompted: bool,
}

/// Runs until the input ends, the user leaves or a signal comes.
pub(super) fn run(
    screen: &mut Screen,
    backend: &mut Backend<'_>,
    inputs: &mut Inputs,
    first: Option<&str>,
) -> io::Result<Option<u8>> {
    let start = Instant::now();
    let terminal = Terminal::new(io::stdout(), size(), Colors::None);
    let mut lines = Lines { terminal, asked: String::new(), is_prompted: false };
    if let Some(first) = first {
        let mut stage = Stage { screen, terminal: &mut lines.terminal, now: start.elapsed() };
        backend.first(&Prompt::typed(first), &mut stage)?;
    }
    let mut typed = String::new();
    let mut is_leaving = false;
    loop {
        if lines.news(screen, backend, start)? == Flow::Leave {
            return Ok(None);
        }
        lines.write(screen, start)?;
        for input in inputs.wait(None)? {
            let now = start.elapsed();
            let wishes = match input {
                Input::Key(key) => {
                    let is_end = key.code == KeyCode::Enter
                        || key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Char('j');
                    match key.code {
                        _ if is_end => {
                            (lines.is_prompted, is_leaving) = (false, false);
                            screen.line(&std::mem::take(&mut typed), now)
                        }
                        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                            typed.push(c);
                            continue;
                        }
                        KeyCode::Tab => {
                            typed.push('\t');
                            continue;
                        }
                        _ => continue,
                    }
                }
                Input::Paste(text) => {
                    typed.push_str(&text);
                    continue;
                }
                Input::Ended(INTERRUPT) if screen.is_busy() => vec![Wish::Interrupt],
                Input::Ended(INTERRUPT) if !is_leaving => {
                    is_leaving = true;
                    lines.is_prompted = false;
                    screen.note(look::DIM, "Ctrl-C again leaves");
                    Vec::new()
                }
                Input::Ended(signal) => {
                    keep(screen, backend);
                    return Ok((signal != INTERRUPT).then_some(signal));
                }
                Input::Closed => {
                    keep(screen, backend);
                    return Ok(None);
                }
                Input::Woken | Input::Continued => continue,
            };
            for wish in wishes {
                let mut stage = Stage { screen, terminal: &mut lines.terminal, now };
                if backend.wish(wish, &mut stage)? == Flow::Leave {
                    return Ok(None);
                }
            }
            // What a line has changed is seen before the next one means anything.
            lines.write(screen, start)?;
        }
    }
}

/// The session that the user picks from the newest ones, by its number.
pub(super) fn picked(world: &mut World) -> Result<String, Failure> {
    let mut found = pick::listed(world, "")?;
    for (number, (_, text)) in found.iter().enumerate() {
        writeln!(world.out, "{}. {text}", number + 1)?;
    }
    loop {
        write!(world.out, "the number of your choice, or an empty line for none\n> ")?;
        world.out.finish()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        if line.trim().is_empty() {
            return Err(Failure::ended(128 + INTERRUPT));
        }
        let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(at) = number.filter(|at| *at < found.len()) {
            return Ok(found.swap_remove(at).0);
        }
    }
}

/// Keeps what waits to be sent.
fn keep(screen: &Screen, backend: &mut Backend<'_>) {
    ::console::run::Backend::<io::Stdout>::keep(backend, &screen.draft());
}

impl Lines {
    fn news(
        &mut self,
        screen: &mut Screen,
        backend: &mut Backend<'_>,
        start: Instant,
    ) -> io::Result<Flow> {
        let is_over = ::console::run::Backend::<io::Stdout>::is_over(backend);
        while let Some(news) = ::console::run::Backend::<io::Stdout>::news(backend) {
            let now = start.elapsed();
            let begun = match &news {
                News::Call { id, .. } => Some(id.clone()),
                _ => None,
            };
            let wishes = screen.hear(news, now);
            if let Some(words) = begun.and_then(|id| screen.call_words(&id)) {
                screen.note(look::DIM, &format!("running {words}"));
            }
            for wish in wishes {
                let mut stage = Stage { screen, terminal: &mut self.terminal, now };
                if backend.wish(wish, &mut stage)? == Flow::Leave {
                    return Ok(Flow::Leave);
                }
            }
        }
        Ok(if is_over { Flow::Leave } else { Flow::On })
    }

    /// Prints what is finished, and what can be chosen.
    fn write(&mut self, screen: &mut Screen, start: Instant) -> io::Result<()> {
        let mut out = io::stdout();
        let finished = screen.take_lines();
        // What is typed next begins a line of its own.
        if self.is_prompted && !finished.is_empty() {
            writeln!(out)?;
            self.is_prompted = false;
        }
        for line in finished {
            writeln!(out, "{}", plain(&line))?;
        }
        // What can be chosen is a part of the live area.
        let area = screen.live(size(), start.elapsed());
        let choices: Vec<String> =
            if area.caret.is_none() { area.rows.iter().map(plain).collect() } else { Vec::new() };
        let choices = choices.join("\n");
        if choices != self.asked && !choices.is_empty() {
            writeln!(out, "{choices}")?;
            self.is_prompted = false;
        }
        self.asked = choices;
        if !self.is_prompted && (!screen.is_busy() || !self.asked.is_empty()) {
            write!(out, "> ")?;
            self.is_prompted = true;
        }
        out.flush()
    }
}
