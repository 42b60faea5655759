//! The console: a session, face to face, in a terminal.
//!
//! The crate `console` is the screen; here it meets a session. The session runs in a thread and
//! tells what happens ([`face`]); [`backend`] does what the user wants. Invariants: the session is
//! the engine's alone, the console only sends it events; the terminal is given back before anything
//! else is printed.

mod backend;
mod command;
mod face;
mod local_rule;
mod plain;
mod status_line;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ::console::composer::{Keymap, Prompt};
use ::console::history::History;
use ::console::input::Inputs;
use ::console::run::{self, Backend as _, Stage};
use ::console::terminal::{Reflow, Sync, Terminal};
use ::console::text::{Colors, Line, Span, look, safe};
use ::console::{News, Screen, Wish};
use agent::Session;
use agent::drive::Note;

use super::demo::Lab;
use super::{ChatArgs, demo, start};
use crate::failure::Failure;
use crate::text::quoted;
use crate::world::World;
use backend::Backend;

/// How long a session may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether the flags and the terminal mean the console.
pub(super) fn is_wanted(args: &ChatArgs) -> bool {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    is_terminal
        && !args.print
        && args.input_format == super::In::Text
        && args.output_format == super::Output::Text
}

/// Talks until the user leaves. A command may go on with another session.
pub(super) fn run(world: &mut World, args: &ChatArgs) -> Result<(), Failure> {
    let mut args = args.clone();
    while let Some(next) = once(world, &args)? {
        args = next;
    }
    Ok(())
}

/// Whether lines are all that the terminal, or the user, can take.
fn is_plain(world: &World, args: &ChatArgs) -> bool {
    let is_set = |name: &str| {
        world.variable(name).is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
    };
    let is_dumb = world.variable("TERM").is_none_or(|name| name == "dumb" || name.is_empty());
    args.ax_screen_reader
        || is_set("CLAUDE_AX_SCREEN_READER")
        || is_dumb
        || face::setting(&world.first_home().0, "axScreenReader").is_some_and(|value| value == true)
}

/// One session. Returns how to go on, if not at the shell.
fn once(world: &mut World, args: &ChatArgs) -> Result<Option<ChatArgs>, Failure> {
    let demo = demo::lab(args)?;
    let (notes, inbox) = mpsc::channel();
    let session = start::start(world, args, demo.as_ref(), notes.clone())?;
    world.out.finish()?;
    let is_plain = is_plain(world, args);
    let mut inputs = Inputs::new()?;
    let (tell, heard) = mpsc::channel();
    let Session { mut driver, init, scratch: _scratch } = session;
    let site = driver.site.clone();
    let (model, mode) = (site.model.1.clone(), driver.permit.mode);
    let mut face = face::Face::new(tell, inputs.waker(), site.clone(), &init);
    let project = init.cwd.clone();
    let id = init.session.clone();
    let home = demo.as_ref().map_or_else(|| world.first_home().0, |demo| demo.home.clone());
    let history = History::open(Some(&home.join("history.jsonl")), &project, &id);
    let mut screen =
        Screen::new(keymap(&home), history, command::names(Path::new(&project), &home));
    screen.status.model.clone_from(&model);
    mode.name().clone_into(&mut screen.status.mode);
    screen.status.branch = face::branch(Path::new(&project));
    init.sandbox.clone_into(&mut screen.status.sandbox);
    screen.status.meter.window = face::window(&model);
    greet(&mut screen, &init.cwd, &model, demo.as_ref());
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, waker) = (is_over.clone(), inputs.waker());
    let worker = thread::spawn(move || {
        let code = driver.run(&inbox, &mut face);
        over.store(true, Ordering::SeqCst);
        waker.wake();
        // The program ends soon: freeing the memory of a long session would take longer.
        std::mem::forget(driver);
        code
    });
    let images = site.images.clone();
    let draft = world.draft("console").ok().and_then(|path| {
        let name = format!("chat-{}.txt", transcript::conversation::place::slug(&project));
        Some(path.parent()?.join(name))
    });
    let mut backend = Backend::new(world, args, (notes.clone(), heard), (site, id.clone()), &home);
    backend.is_over = is_over;
    backend.draft.clone_from(&draft);
    backend.find_files(inputs.waker());
    backend.status.model.clone_from(&model);
    backend.status.meter.window = face::window(&model);
    backend.run_status_line();
    if let Some(text) =
        draft.and_then(|path| files::read_text(path, 1 << 20).ok()).filter(|text| !text.is_empty())
    {
        screen.write(&text);
        screen.note(look::DIM, "(a draft that was not sent is in the composer)");
    }
    let first = args.prompt.clone().or_else(|| demo.as_ref().map(|demo| demo.prompt.clone()));
    let ended = if is_plain {
        plain::run(&mut screen, &mut backend, first.as_deref())
    } else {
        let colors = if backend.world.out.has_color() { Colors::Sixteen } else { Colors::None };
        let reflow =
            match backend.world.variable("XTERM_VERSION").or_else(|| backend.world.variable("STY"))
            {
                Some(_) => Reflow::No,
                None => Reflow::Yes,
            };
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let mut terminal = Terminal::new(out, run::size(), colors).of_kind(Sync::On, reflow);
        if let Some(first) = first {
            let mut stage =
                Stage { screen: &mut screen, terminal: &mut terminal, now: Duration::ZERO };
            backend.first(&Prompt::typed(&first), &mut stage)?;
        }
        let folder =
            Path::new(&project).file_name().map(|name| name.to_string_lossy().into_owned());
        title(terminal.out(), &format!("quipu – {}", folder.unwrap_or_default()))?;
        let ended = run::run(&mut screen, &mut terminal, &mut inputs, &mut backend);
        terminal.out().write_all(b"\x1b[23;2t")?;
        terminal.out().flush()?;
        ended
    };
    let (next, has_spoken, rename) =
        (backend.next.take(), backend.has_spoken, backend.title.take());
    let _ = notes.send(Note::End(0));
    let begun = Instant::now();
    while !worker.is_finished() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    drop(inputs);
    if let Some(images) = &images {
        images.close();
        crate::images::tidy(world)?;
    }
    if let Some(title) = rename {
        let _ = command::program(world, &["rename", &id, &title]);
    }
    let signal = ended?;
    if next.is_none() && has_spoken && !args.no_session_persistence {
        farewell(world, &id, demo.as_ref())?;
    }
    match signal {
        Some(signal) => Err(Failure::ended(128 + signal)),
        None => Ok(next),
    }
}

/// The keys that the user's settings want.
fn keymap(home: &Path) -> Keymap {
    let is_vi = face::setting(home, "editorMode").is_some_and(|mode| mode == "vim");
    if is_vi { Keymap::Vi } else { Keymap::Emacs }
}

/// The first lines.
fn greet(screen: &mut Screen, cwd: &str, model: &str, demo: Option<&Lab>) {
    let head = Line::from(vec![
        Span::styled("quipu ", look::BOLD),
        Span::raw(env!("CARGO_PKG_VERSION")),
        Span::styled(format!("  {}  {}", safe(model), safe(cwd)), look::DIM),
    ]);
    let hint = match demo {
        Some(_) => "a demonstration, without a model: everything else is real",
        None => "? lists the keys, /help the commands; Ctrl-D leaves",
    };
    screen.print(vec![head, ::console::text::line(look::DIM, hint)]);
}

/// The last lines: how to come back.
fn farewell(world: &mut World, id: &str, demo: Option<&Lab>) -> Result<(), Failure> {
    let program = "quipu";
    if let Some(demo) = demo {
        let home = quoted(&demo.home.display().to_string());
        writeln!(world.out, "look at this session with:")?;
        writeln!(world.out, "  {program} --home {home} show {id}")?;
        writeln!(world.out, "  {program} --home {home} check {id}")?;
    } else {
        writeln!(world.out, "resume this session with:")?;
        writeln!(world.out, "  {program} chat --resume {id}")?;
    }
    world.out.finish()?;
    Ok(())
}

/// Sets the title of the window, after the terminal has kept the old one.
fn title(out: &mut impl Write, text: &str) -> io::Result<()> {
    write!(out, "\x1b[22;2t\x1b]2;{}\x07", safe(text))?;
    out.flush()
}

impl Backend<'_> {
    /// Sends the prompt of the command line.
    fn first<W: Write>(&mut self, prompt: &Prompt, stage: &mut Stage<'_, W>) -> io::Result<()> {
        stage.screen.hear(News::Begin, stage.now);
        stage.screen.note(look::BOLD, &format!("❯ {}", prompt.display));
        self.wish(Wish::Say(prompt.clone()), stage).map(drop)
    }
}
