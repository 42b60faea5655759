//! The state of the console: keys and news go in; lines to print, a live area and wishes come out.
//!
//! No clock, no terminal, no engine: time is given, so that every screen can be tested. Invariants:
//! what is printed was finished; a prompt that waits can be taken back until it is handed over;
//! questions come one at a time, in their order.

mod call;
mod draw;
mod hear;
pub mod keys;
mod news;
mod past;
mod queue;
mod status;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

pub use news::{AgentRow, Ending, News, Task, Todo, TodoState, Wish};
pub use past::Spoken;
pub use status::{Cache, Meter, Status};

use crate::complete::{self, Wanted};
use crate::composer::{Composer, Keymap, Prompt};
use crate::history::History;
use crate::markdown::Markdown;
use crate::question::Dialog;
use crate::text::{Line, Style, look};
use call::Running;

/// How long the API remembers what was sent, unless it is asked for more.
const WARM: Duration = Duration::from_secs(300);
/// How many columns of what a session is about are in the title of the window.
const TOPIC: usize = 50;
/// How many lines that were folded away in earlier turns are kept.
const OLDER: usize = 10_000;
/// How many completions are shown.
const COMPLETIONS: usize = 6;

/// A command that can be typed: its name, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandName {
    /// Without the slash.
    pub name: String,
    /// In a few words.
    pub about: String,
}

/// Whether something is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Since then.
    Busy(Duration),
}

/// The history is searched.
#[derive(Clone, Debug, Default)]
struct Search {
    text: String,
    /// Which of the hits is shown.
    hit: usize,
    /// What was typed before.
    draft: Prompt,
}

/// The console.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Screen {
    composer: Composer,
    history: History,
    /// What is shown in the status line.
    pub status: Status,
    commands: Vec<CommandName>,
    files: Vec<String>,
    markdown: Markdown,
    phase: Phase,
    /// What is being thought, and since when.
    thinking: Option<(String, Duration)>,
    calls: Vec<Running>,
    queue: VecDeque<queue::Queued>,
    /// The place in the queue of the prompt that was taken back into the composer.
    taken: Option<usize>,
    dialogs: VecDeque<Dialog>,
    /// What was printed of calls to decide about them, by their ids.
    asked: HashMap<String, String>,
    todos: Vec<Todo>,
    agents: Vec<AgentRow>,
    tasks: Vec<Task>,
    /// Lines that wait to be printed.
    out: Vec<Line<'static>>,
    /// While something is asked, only so many of them are: what is asked about stays next to what
    /// can be answered.
    free: usize,
    /// What was folded away in this turn, or in the last one with something to fold.
    folded: Vec<Line<'static>>,
    is_folded_before: bool,
    /// What was folded away in turns before that; of all that, the end.
    older: VecDeque<Line<'static>>,
    /// What was said before a resume and is not shown, until it is wanted.
    earlier: Vec<Spoken>,
    /// What the user's command has printed so far.
    printed: String,
    is_open: bool,
    search: Option<Search>,
    /// What was typed and put aside.
    aside: Option<Prompt>,
    /// The prompt of this turn, as long as nothing has come of it.
    unanswered: Option<Prompt>,
    /// Completions, and which one is selected; None after Esc.
    selected: Option<usize>,
    hint: Option<(String, Duration)>,
    /// Until when the API remembers what was sent.
    warm_until: Option<Duration>,
    /// When Esc or Ctrl-C was pressed last.
    escaped: Option<Duration>,
    leaving: Option<Duration>,
    /// How wide tables may be.
    width: usize,
    /// Whether the line before was blank, and whether it was part of an answer.
    is_after_text: bool,
    /// Whether the line before is a call of one line: others follow without a blank line.
    is_after_call: bool,
    ticks: usize,
    /// Whether whole lines are typed, and nothing is drawn over.
    is_lines: bool,
    /// What the window is called, and what the session is about.
    name: String,
    topic: String,
    /// The folder where calls work.
    place: String,
}

impl Screen {
    /// An empty console.
    pub fn new(keymap: Keymap, history: History, commands: Vec<CommandName>) -> Screen {
        Screen {
            composer: Composer::new(keymap),
            history,
            status: Status::default(),
            commands,
            files: Vec::new(),
            markdown: Markdown::default(),
            phase: Phase::Idle,
            thinking: None,
            calls: Vec::new(),
            queue: VecDeque::new(),
            taken: None,
            dialogs: VecDeque::new(),
            asked: HashMap::new(),
            todos: Vec::new(),
            agents: Vec::new(),
            tasks: Vec::new(),
            out: Vec::new(),
            free: 0,
            folded: Vec::new(),
            is_folded_before: false,
            older: VecDeque::new(),
            earlier: Vec::new(),
            printed: String::new(),
            is_open: false,
            search: None,
            aside: None,
            unanswered: None,
            selected: Some(0),
            hint: None,
            warm_until: None,
            escaped: None,
            leaving: None,
            width: 80,
            is_after_text: false,
            is_after_call: false,
            ticks: 0,
            is_lines: false,
            name: String::new(),
            topic: String::new(),
            place: String::new(),
        }
    }

    /// Everything that is written and not sent, to be kept as a draft: what was put aside, what
    /// waits, what is being written. Texts that were pasted are in it, images are not.
    pub fn draft(&self) -> Cow<'_, str> {
        if self.aside.is_none() && self.queue.is_empty() && !self.composer.has_pasted() {
            return Cow::Borrowed(self.composer.text());
        }
        let written = self.composer.prompt();
        let queued = self.queue.iter().map(queue::Queued::prompt);
        let all = self.aside.iter().chain(queued).chain(std::iter::once(&written));
        let texts = all.map(Prompt::without_images).filter(|text| !text.trim().is_empty());
        Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
    }

    /// What is in the composer, with the texts that were pasted: for an editor.
    pub fn written(&self) -> String {
        self.composer.prompt().text
    }

    /// The plan that is asked about, for an editor.
    pub fn plan(&self) -> Option<&str> {
        let dialog = self.dialogs.front().filter(|dialog| dialog.is_plan())?;
        dialog.question.input["plan"].as_str()
    }

    /// Takes that plan as the user has written it: it is printed, and asked about again.
    pub fn rewrite_plan(&mut self, plan: &str) {
        if let Some(dialog) = self.dialogs.front_mut().filter(|dialog| dialog.is_plan()) {
            dialog.rewrite(plan);
            self.ask();
        }
    }

    /// The title of the window: what goes on, and where.
    pub fn title(&self) -> String {
        let mark = if !self.dialogs.is_empty() {
            "? "
        } else if self.is_busy() {
            "… "
        } else {
            ""
        };
        let about = if self.topic.is_empty() {
            self.name.clone()
        } else {
            format!("{} – {}", self.topic, self.name)
        };
        format!("{mark}{}", crate::text::safe(&about))
    }

    /// What the session is about, for the title of the window.
    pub fn set_topic(&mut self, topic: &str) {
        let words = topic.split_whitespace().collect::<Vec<_>>().join(" ");
        self.topic = crate::text::fit(&words, TOPIC);
    }

    /// Lines are all that is typed and printed.
    pub fn set_lines_only(&mut self) {
        self.is_lines = true;
    }

    /// Whether lines are all that is typed and printed.
    pub fn is_lines_only(&self) -> bool {
        self.is_lines
    }

    /// What the session is about.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Shows a prompt that was given before there was a composer, and is sent now.
    pub fn say(&mut self, prompt: &Prompt) {
        self.echo(prompt);
        self.unanswered = Some(prompt.clone());
    }

    /// Calls work in this folder: paths are shown from there on.
    pub fn set_place(&mut self, folder: &str) {
        folder.trim_end_matches('/').clone_into(&mut self.place);
    }

    /// Calls the window by another name from now on.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Puts a text into the composer, such as a draft, or what an editor wrote.
    pub fn write(&mut self, text: &str) {
        self.composer.set(text);
    }

    /// Takes an image into the composer.
    pub fn paste_image(&mut self, image: crate::composer::Image) {
        self.composer.paste_image(image);
    }

    /// The history, for what is sent.
    pub fn history(&mut self) -> &mut History {
        &mut self.history
    }

    /// Uses other keys from now on.
    pub fn set_keymap(&mut self, keymap: Keymap) {
        self.composer.set_keymap(keymap);
    }

    /// The commands that can be typed.
    pub fn commands(&self) -> &[CommandName] {
        &self.commands
    }

    /// The commands in the background.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// A call that runs, in a few words.
    pub fn call_words(&self, id: &str) -> Option<String> {
        self.calls.iter().find(|call| call.id == id).map(Running::words)
    }

    /// Whether a turn runs.
    pub fn is_busy(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whether something on the screen moves by itself.
    pub fn is_moving(&self) -> bool {
        self.is_busy() && self.dialogs.is_empty()
    }

    /// When something on the screen is to change although nothing happens: a hint ends, the API
    /// forgets what was sent.
    pub fn next_change(&self) -> Option<Duration> {
        let hint = self.hint.as_ref().map(|(_, until)| *until);
        hint.into_iter().chain(self.warm_until).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        self.ticks += 1;
        if self.hint.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.hint = None;
        }
        if self.warm_until.is_some_and(|until| until <= now) {
            self.warm_until = None;
            self.status.meter.cache = Cache::Cold;
        }
    }

    /// The lines that are to be printed now.
    pub fn take_lines(&mut self) -> Vec<Line<'static>> {
        let held = self.held();
        let rest = self.out.split_off(self.out.len() - held);
        self.free = 0;
        std::mem::replace(&mut self.out, rest)
    }

    /// The lines that are to be printed at the end, whatever is asked.
    pub fn take_all_lines(&mut self) -> Vec<Line<'static>> {
        self.free = self.out.len();
        self.take_lines()
    }

    /// How many lines wait until what is asked is answered.
    fn held(&self) -> usize {
        if self.dialogs.is_empty() { 0 } else { self.out.len().saturating_sub(self.free) }
    }

    /// Prints lines, after what is printed already.
    pub fn print(&mut self, lines: Vec<Line<'static>>) {
        (self.is_after_text, self.is_after_call) = (false, false);
        self.out.extend(lines);
    }

    /// Prints a line of the console's.
    pub fn note(&mut self, style: Style, text: &str) {
        (self.is_after_text, self.is_after_call) = (false, false);
        self.out.extend(text.lines().map(|line| crate::text::line(style, line)));
    }

    /// Shows a hint for a while.
    fn hint(&mut self, text: &str, now: Duration) {
        self.hint = Some((text.to_owned(), now + Duration::from_secs(3)));
    }

    /// What can be completed now.
    fn completions(&self) -> Vec<(String, String)> {
        if self.selected.is_none() || self.search.is_some() {
            return Vec::new();
        }
        let text = self.composer.text();
        match complete::wanted(text, self.composer.at()) {
            Some(Wanted::Command(range)) => {
                let names = self.commands.iter().map(|command| command.name.as_str());
                let best = complete::best(&text[range], names, COMPLETIONS);
                let about = |name: &str| {
                    let found = self.commands.iter().find(|command| command.name == name);
                    found.map_or(String::new(), |command| command.about.clone())
                };
                best.into_iter().map(|name| (format!("/{name}"), about(name))).collect()
            }
            Some(Wanted::File(range)) => {
                let names = self.files.iter().map(String::as_str);
                let best = complete::best(&text[range], names, COMPLETIONS);
                best.into_iter().map(|name| (format!("@{name}"), String::new())).collect()
            }
            None => Vec::new(),
        }
    }

    /// Prints a prompt of the user's.
    fn echo(&mut self, prompt: &Prompt) {
        self.gap();
        for (number, line) in prompt.display.lines().enumerate() {
            let lead = if number == 0 { "❯ " } else { "  " };
            let mut shown = crate::text::line(look::BOLD, line);
            shown.spans.insert(0, crate::text::Span::styled(lead, look::ACCENT));
            self.out.push(shown);
        }
        self.is_after_text = false;
    }

    /// A blank line between what belongs apart.
    fn gap(&mut self) {
        self.is_after_call = false;
        self.out.push(Line::default());
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
