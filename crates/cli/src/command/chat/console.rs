//! The console: a session, face to face, in a terminal.
//!
//! The crate `console` is the screen; here it meets a session. The session runs in a thread and
//! tells what happens ([`face`]); [`backend`] does what the user wants. Invariants: the session is
//! the engine's alone, the console only sends it events; the terminal is given back before anything
//! else is printed.

mod agent_file;
mod backend;
mod beside;
mod browser;
mod choice;
mod command;
mod draft;
mod face;
mod list;
mod past;
mod picture;
mod plain;
mod rewind;
mod rule_place;
mod shell;
mod status_line;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ::console::composer::{Keymap, Prompt};
use ::console::history::History;
use ::console::input::Inputs;
use ::console::run::{self, Backend as _, Stage};
use ::console::screen::CommandName;
use ::console::terminal::{Reflow, Sync, Terminal};
use ::console::text::{Colors, Line, Span, look, safe};
use ::console::{News, Screen, Wish};
use agent::Session;
use agent::drive::{Departure, Note};
use agent::host::Init;

use super::demo::Lab;
use super::{ChatArgs, demo, start};
use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::pick::{self, PickWish, Scope};
use crate::text::quoted;
use crate::world::World;
use backend::Backend;
use rule_place::RulePlaces;
use workshop::SumUpError;

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
    if args.resume.as_deref() == Some("") {
        args.resume = Some(picked(world, &args)?);
    }
    let demo = demo::lab(&args)?;
    args.prompt = args.prompt.or_else(|| demo.as_ref().map(|demo| demo.prompt.clone()));
    let mut seen = Seen::No;
    let mut left = None;
    loop {
        match once(world, &args, demo.as_ref(), seen) {
            Ok(Some(next)) => (args, seen, left) = (next.args, next.seen, next.left),
            Ok(None) => return Ok(()),
            Err(failure) => {
                // The session that was left for one that could not begin.
                if let Some(left) = left {
                    farewell(world, &left, demo.as_ref())?;
                }
                return Err(failure);
            }
        }
    }
}

/// The session that the user picks, on a screen or from numbered lines.
fn picked(world: &mut World, args: &ChatArgs) -> Result<String, Failure> {
    if is_plain(world, args) {
        return plain::picked(world);
    }
    let catalog = CatalogArgs::default();
    let query = String::new();
    let wish = PickWish { verb: "resume", query, scope: Scope::All, catalog: &catalog };
    Ok(pick::pick(world, &wish)?.name)
}

/// How to go on after a session.
struct Next {
    args: ChatArgs,
    seen: Seen,
    /// The session that was left, if it can be resumed.
    left: Option<Left>,
}

/// A session that was left.
struct Left {
    id: String,
    home: PathBuf,
}

/// Whether the conversation that is resumed is on the terminal already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// Whether lines are all that the terminal, or the user, can take.
fn is_plain(world: &World, args: &ChatArgs) -> bool {
    let is_set = |name: &str| {
        world.variable(name).is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
    };
    args.ax_screen_reader
        || is_set("CLAUDE_AX_SCREEN_READER")
        || is_dumb(world)
        || face::setting(&world.first_home().0, "axScreenReader").is_some_and(|value| value == true)
}

/// Whether the terminal obeys nothing.
fn is_dumb(world: &World) -> bool {
    world.variable("TERM").is_none_or(|name| name == "dumb" || name.is_empty())
}

/// One session. Returns how to go on, if not at the shell.
fn once(
    world: &mut World,
    args: &ChatArgs,
    demo: Option<&Lab>,
    seen: Seen,
) -> Result<Option<Next>, Failure> {
    let (notes, inbox) = mpsc::channel();
    let session = start::start(world, args, demo, notes.clone())?;
    world.out.finish()?;
    let is_plain = is_plain(world, args);
    let mut inputs = Inputs::new()?;
    let (tell, heard) = mpsc::channel();
    let Session { mut driver, init, scratch: _scratch } = session;
    let site = driver.site.clone();
    let (model, mode, slashes) = (site.model.1.clone(), driver.permit.mode, driver.slashes.clone());
    let bypass = driver.permit.bypass;
    let is_thinking = driver.main().is_some_and(|main| main.asking.thinking.is_some());
    let (earlier, spoken) =
        driver.main().map(|main| past::end(main.turn.messages())).unwrap_or_default();
    let agents: Vec<(String, String)> =
        driver.kinds.all().map(|kind| (kind.name.clone(), kind.description.clone())).collect();
    let trusted = world.config_file("trusted").ok();
    let places = RulePlaces { site: site.clone(), trusted };
    let mut face = face::Face::new(tell, inputs.waker(), places.clone());
    let project = init.cwd.clone();
    let id = init.session.clone();
    let transcript = driver.transcript().to_owned();
    let home = demo.map_or_else(|| world.first_home().0, |demo| demo.home.clone());
    let mut screen = screen_of(&home, &init, &model, command::names(&driver.slashes));
    mode.name().clone_into(&mut screen.status.mode);
    greet(&mut screen, &init.cwd, &model, demo);
    if let Some(topic) = args.name.as_deref().or(past::topic(earlier.iter().chain(&spoken))) {
        screen.set_topic(topic);
    }
    let has_topic = !screen.topic().is_empty();
    if is_plain {
        screen.set_lines_only();
    }
    if seen == Seen::No && !spoken.is_empty() {
        screen.recall(earlier, &spoken);
    }
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
    let draft = world.draft("console").ok();
    let draft = draft.and_then(|path| Some(draft::Draft::of(path.parent()?, &project)));
    let mut backend =
        Backend::new(world, args, (notes.clone(), heard), (places, id.clone()), &home);
    (backend.is_over, backend.slashes, backend.agents) = (is_over, slashes, agents);
    (backend.bypass, backend.has_topic) = (bypass, has_topic);
    backend.status.is_thinking = is_thinking;
    let left = draft.as_ref().and_then(draft::Draft::take_over);
    backend.draft = draft;
    backend.find_files(inputs.waker());
    backend.status.model.clone_from(&model);
    backend.status.meter.window = face::window(&model);
    backend.run_status_line();
    backend.measure();
    if let Some(text) = left {
        screen.hear(News::Write(text), Duration::ZERO);
        if !is_plain {
            screen.note(look::DIM, "(a draft that was not sent is in the composer)");
        }
    }
    let words = program(backend.world, &home);
    run::set_last_words(&format!("resume this session with:\n  {words} chat --resume {id}\n"));
    let first = args.prompt.as_deref();
    let ended = if is_plain {
        plain::run(&mut screen, &mut backend, &mut inputs, first)
    } else {
        in_terminal(&mut screen, &mut backend, &mut inputs, first)
    };
    let (next, has_spoken) = (backend.next.take(), backend.has_spoken);
    let sum_up = backend.sum_up_before.take();
    let departure = departure(&ended, next.as_ref().map(|(args, _)| args));
    let _ = notes.send(departure.map_or(Note::End(0), Note::Leave));
    let worker_has_ended = has_ended(&worker);
    drop(inputs);
    if let Some(images) = &images {
        images.close();
        crate::images::tidy(world)?;
    }
    if let Some(prompt) = sum_up.filter(|_| worker_has_ended) {
        sum_up_before(world, &transcript, &prompt)?;
    }
    let signal = ended?;
    // One that was resumed is there, also if nothing was said; a copy of it is not.
    let is_there = (args.resume.is_some() || args.continues) && !args.fork_session;
    let is_there = has_spoken || is_there;
    let left = (is_there && !args.no_session_persistence).then_some(Left { id, home });
    match (signal, next) {
        (None, Some((args, seen))) => Ok(Some(Next { args, seen, left })),
        (signal, _) => {
            if let Some(left) = left {
                farewell(world, &left, demo)?;
            }
            signal.map_or(Ok(None), |signal| Err(Failure::ended(128 + signal)))
        }
    }
}

/// Why the user leaves, if it is the user who ends the session, and not a signal or an error.
fn departure(ended: &io::Result<Option<u8>>, next: Option<&ChatArgs>) -> Option<Departure> {
    match (ended, next) {
        (Ok(None), Some(args)) => args.after,
        (Ok(None), None) => Some(Departure::Exit),
        _ => None,
    }
}

/// Whether a session that is to end has ended after a while.
fn has_ended(worker: &thread::JoinHandle<u8>) -> bool {
    let begun = Instant::now();
    while !worker.is_finished() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    worker.is_finished()
}

/// Sums up what came before a prompt, in the session that was left, and says what came of it.
fn sum_up_before(world: &mut World, transcript: &Path, prompt: &str) -> Result<(), Failure> {
    let summed = transcript::Session::at(transcript)
        .map_err(|error| SumUpError::Nothing(error.into()))
        .and_then(|session| world.workshop.sum_up_before(&session, prompt, &mut |_| {}));
    match summed {
        Ok(deeds) => {
            for deed in deeds {
                world.out.note(&deed)?;
            }
            world.out.note("`quipu undo` takes it back")?;
        }
        Err(error) => world.out.note(&format!("nothing was summed up: {error}"))?,
    }
    Ok(())
}

/// Runs the console in the terminal, until the user leaves or a signal comes.
fn in_terminal(
    screen: &mut Screen,
    backend: &mut Backend<'_>,
    inputs: &mut Inputs,
    first: Option<&str>,
) -> io::Result<Option<u8>> {
    let colors = if backend.world.out.has_color() { Colors::Sixteen } else { Colors::None };
    let reflow =
        match backend.world.variable("XTERM_VERSION").or_else(|| backend.world.variable("STY")) {
            Some(_) => Reflow::No,
            None => Reflow::Yes,
        };
    let out = BufWriter::with_capacity(1 << 16, io::stdout());
    let sync = match backend.world.variable("QUIPU_SYNC").as_deref() {
        Some("0" | "off") => Sync::Off,
        _ => Sync::On,
    };
    let mut terminal = Terminal::new(out, run::size(), colors).of_kind(sync, reflow);
    if let Some(first) = first {
        let mut stage = Stage { screen, terminal: &mut terminal, now: Duration::ZERO };
        backend.first(&Prompt::typed(first), &mut stage)?;
    }
    // The terminal keeps its title, and has it again afterwards.
    terminal.out().write_all(b"\x1b[22;2t")?;
    let ended = run::run(screen, &mut terminal, inputs, backend);
    terminal.out().write_all(b"\x1b[23;2t")?;
    terminal.out().flush()?;
    ended
}

/// The keys that the user's settings want.
fn keymap(home: &Path) -> Keymap {
    let is_vi = face::setting(home, "editorMode").is_some_and(|mode| mode == "vim");
    if is_vi { Keymap::Vi } else { Keymap::Emacs }
}

/// An empty screen of a session.
fn screen_of(home: &Path, init: &Init, model: &str, commands: Vec<CommandName>) -> Screen {
    let project = &init.cwd;
    let history = History::open(Some(&home.join("history.jsonl")), project, &init.session);
    let mut screen = Screen::new(keymap(home), history, commands);
    model.clone_into(&mut screen.status.model);
    screen.status.branch = face::branch(Path::new(project));
    init.sandbox.clone_into(&mut screen.status.sandbox);
    screen.status.meter.window = face::window(model);
    let folder = Path::new(project).file_name().map(|name| name.to_string_lossy().into_owned());
    screen.set_name(&format!("quipu – {}", folder.unwrap_or_default()));
    screen.set_place(project);
    screen
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

/// How this program is called for a session that is kept in `home`.
fn program(world: &World, home: &Path) -> String {
    let usual = world.first_home().1.map(|user| user.join(".claude"));
    let named = world.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    if [usual, named].iter().flatten().any(|usual| usual == home) {
        return "quipu".to_owned();
    }
    format!("quipu --home {}", quoted(&home.display().to_string()))
}

/// The last lines: how to come back.
fn farewell(world: &mut World, left: &Left, demo: Option<&Lab>) -> Result<(), Failure> {
    let (program, id) = (program(world, &left.home), &left.id);
    if demo.is_some() {
        writeln!(world.out, "look at this session with:")?;
        writeln!(world.out, "  {program} show {id}")?;
        writeln!(world.out, "  {program} check {id}")?;
    } else {
        writeln!(world.out, "resume this session with:")?;
        writeln!(world.out, "  {program} chat --resume {id}")?;
    }
    world.out.finish()?;
    Ok(())
}

impl Backend<'_> {
    /// Sends the prompt of the command line.
    fn first<W: Write>(&mut self, prompt: &Prompt, stage: &mut Stage<'_, W>) -> io::Result<()> {
        stage.screen.hear(News::Begin, stage.now);
        stage.screen.say(prompt);
        self.wish(Wish::Say(prompt.clone()), stage).map(drop)
    }
}
