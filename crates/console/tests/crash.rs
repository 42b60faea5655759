//! A panic in the console: the terminal is as before, and how to go on is printed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::io::{self, Write};

use console::composer::{Image, Keymap};
use console::history::History;
use console::input::Inputs;
use console::run::{self, Backend, Flow, Stage};
use console::terminal::Terminal;
use console::text::Colors;
use console::{News, Screen, Wish};
use testkit::tmux::{Tmux, shell_line};

/// Set in the process that crashes.
const CRASHES: &str = "QUIPU_TEST_CRASH";

struct Crashes;

impl<W: Write> Backend<W> for Crashes {
    fn news(&mut self) -> Option<News> {
        None
    }

    fn wish(&mut self, wish: Wish, _: &mut Stage<'_, W>) -> io::Result<Flow> {
        panic!("an error in the program: {wish:?}")
    }

    fn keep(&mut self, _: &str) {}

    fn image(&mut self, _: &str) -> Option<Image> {
        None
    }

    fn is_over(&self) -> bool {
        false
    }
}

fn crash() {
    let mut screen = Screen::new(Keymap::Emacs, History::default(), Vec::new());
    "default".clone_into(&mut screen.status.mode);
    let mut terminal = Terminal::new(io::stdout(), run::size(), Colors::None);
    run::set_last_words("resume this session with:\n  quipu chat --resume 1234\n");
    let mut inputs = Inputs::new().unwrap();
    run::run(&mut screen, &mut terminal, &mut inputs, &mut Crashes).unwrap();
}

#[test]
fn a_panic_gives_the_terminal_back() {
    #[allow(clippy::disallowed_methods, reason = "how the other process is told what to do")]
    if std::env::var_os(CRASHES).is_some() {
        return crash();
    }
    let program = std::env::current_exe().unwrap().display().to_string();
    let words = ["--exact", "a_panic_gives_the_terminal_back", "--nocapture"];
    let line = format!(
        "RUST_BACKTRACE=0 {CRASHES}=1 {} {}; stty -a; cat",
        shell_line(&[program]),
        shell_line(&words)
    );
    let Some(tmux) = Tmux::open(&line, &std::env::temp_dir(), (100, 60)) else { return };
    tmux.wait("manual mode on");
    tmux.line("crash now");
    tmux.wait("quipu chat --resume 1234");
    let screen = tmux.until("a terminal as before", |screen| {
        screen.contains(" icanon") && screen.contains(" echo ")
    });
    assert!(screen.contains("an error in the program"), "{screen}");
    assert!(!screen.contains("manual mode on"), "{screen}");
    // The cursor is seen, and pastes are plain again.
    let state = tmux.run(&["display-message", "-p", "-t", ":0", "#{cursor_flag}"]);
    assert_eq!(state.trim(), "1");
}
