//! What the user wants of a session and of the program.
//!
//! Invariant: a wish never waits for the session; commands that take long run in threads.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;

use ::console::composer::{Image, Prompt};
use ::console::input::Waker;
use ::console::question::{Answer, Question};
use ::console::run::{self, Flow, Stage};
use ::console::text::{look, safe};
use ::console::{News, Wish};
use agent::control::Reply;
use agent::drive::{Note, Said};
use agent::permit::{Bypass, Mode};
use agent::slash::SlashBook;
use agent::tool::Site;
use serde_json::{Value, json};

use super::browser::Viewer;
use super::choice::Chosen;
use super::draft::Draft;
use super::rewind::Consequence;
use super::rule_place::RulePlaces;
use super::{Seen, choice, command, face, is_dumb, picture, rewind, status_line};
use crate::command::chat::ChatArgs;
use crate::world::World;

/// How many files can be completed.
const FILES: usize = 50_000;

/// What stands behind the console.
pub(super) struct Backend<'a> {
    pub(super) world: &'a mut World,
    pub(super) args: &'a ChatArgs,
    pub(super) notes: Sender<Note>,
    heard: Receiver<News>,
    pub(super) site: Arc<Site>,
    places: RulePlaces,
    pub(super) id: String,
    pub(super) home: PathBuf,
    pub(super) is_over: Arc<AtomicBool>,
    /// Commands and skills that people have written.
    pub(super) slashes: Arc<SlashBook>,
    pub(super) draft: Option<Draft>,
    /// The session that the user goes on with.
    pub(super) next: Option<(ChatArgs, Seen)>,
    /// The prompt before which everything is summed up once the session is left.
    pub(super) sum_up_before: Option<String>,
    pub(super) has_spoken: bool,
    /// The agents that can be started, with what they are for.
    pub(super) agents: Vec<(String, String)>,
    /// Stops the user's command that runs.
    pub(super) stop: Option<Arc<AtomicBool>>,
    /// The calls that run, newest last, to be sent to the background.
    running: Vec<String>,
    mode: Mode,
    /// Whether the window says what the session is about.
    pub(super) has_topic: bool,
    /// The id of the last prompt of this turn.
    prompt: Option<String>,
    /// Whether everything may be permitted.
    pub(super) bypass: Bypass,
    /// What shows the session in a browser.
    pub(super) viewer: Option<Viewer>,
    /// The rules that count in this session only.
    pub(super) session_rules: Vec<String>,
    /// Whether files may have changed since they were listed.
    is_listing_old: bool,
    /// The last answer, to be copied.
    pub(super) answer: LastAnswer,
    pub(super) waker: Option<Waker>,
    pub(super) later: (Sender<News>, Receiver<News>),
    pub(super) status: status_line::StatusLine,
}

/// The last answer, as far as it has come.
#[derive(Default)]
pub(super) struct LastAnswer {
    pub(super) text: String,
    is_over: bool,
}

impl<'a> Backend<'a> {
    pub(super) fn new(
        world: &'a mut World,
        args: &'a ChatArgs,
        (notes, heard): (Sender<Note>, Receiver<News>),
        (places, id): (RulePlaces, String),
        home: &Path,
    ) -> Backend<'a> {
        let site = places.site.clone();
        let mut status = status_line::StatusLine::new(home);
        status.added = args.add_dir.iter().map(|path| path.display().to_string()).collect();
        status.effort.clone_from(&args.effort);
        let mode = *site.mode.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Backend {
            world,
            args,
            notes,
            heard,
            site,
            places,
            id,
            home: home.to_owned(),
            slashes: Arc::default(),
            is_over: Arc::default(),
            draft: None,
            next: None,
            sum_up_before: None,
            has_spoken: false,
            agents: Vec::new(),
            stop: None,
            running: Vec::new(),
            mode,
            has_topic: false,
            prompt: None,
            bypass: Bypass::default(),
            viewer: None,
            session_rules: Vec::new(),
            is_listing_old: false,
            answer: LastAnswer::default(),
            waker: None,
            later: std::sync::mpsc::channel(),
            status,
        }
    }

    /// Looks for the files that can be named, in a thread.
    pub(super) fn find_files(&mut self, waker: Waker) {
        self.waker = Some(waker);
        self.list_files();
    }

    fn list_files(&self) {
        let Some(waker) = self.waker.clone() else { return };
        let (root, tell) = (self.site.root.clone(), self.later.0.clone());
        thread::spawn(move || {
            let mut names = Vec::new();
            for entry in ignore::WalkBuilder::new(&root)
                .max_depth(Some(12))
                // Such as `.github`, which people name as well.
                .hidden(false)
                .filter_entry(|entry| entry.file_name() != ".git")
                .build()
                .flatten()
                .skip(1)
            {
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                if let Ok(path) = entry.path().strip_prefix(&root) {
                    let name = path.to_string_lossy().into_owned();
                    names.push(if is_folder { name + "/" } else { name });
                }
                if names.len() >= FILES {
                    break;
                }
            }
            let _ = tell.send(News::Files(names));
            waker.wake();
        });
    }

    pub(super) fn note(&self, note: Note) {
        // A session that has ended takes nothing; the console ends with it.
        let _ = self.notes.send(note);
    }

    /// Whether the session has a file.
    pub(super) fn has_begun(&self) -> bool {
        self.has_spoken || self.args.resume.is_some() || self.args.continues
    }

    /// Asks the session for something, as a host does.
    pub(super) fn control(&self, request: &Value) {
        let line = json!({"type": "control_request", "request_id": "console", "request": request});
        self.note(Note::Control(line));
    }

    /// Sends a prompt.
    pub(super) fn say(&mut self, prompt: &Prompt) {
        let mut blocks: Vec<String> = Vec::new();
        for image in prompt.images() {
            let source = json!({"type": "base64", "media_type": image.media, "data": image.data});
            blocks.push(json!({"type": "image", "source": source}).to_string());
        }
        blocks.push(json!({"type": "text", "text": prompt.text.trim()}).to_string());
        self.has_spoken = true;
        self.note(Note::Say(Said { blocks, ..Said::default() }));
    }

    fn remember<W: Write>(&mut self, prompt: &Prompt, stage: &mut Stage<'_, W>) {
        let now = self.site.nature.now();
        if let Err(error) = stage.screen.history().add(prompt, now) {
            stage.screen.note(look::WARN, &format!("the history could not be written: {error}"));
        }
        if let Some(draft) = &self.draft {
            draft.keep(&stage.screen.draft());
        }
    }

    fn decide(&mut self, question: &Question, answer: Answer, screen: &mut ::console::Screen) {
        let deny = |message: String, is_interrupt| Reply::Deny { message, is_interrupt };
        // A plan is approved as the user has written it.
        let plan = question.is_rewritten.then_some(&question.input);
        let allow = |updates: Vec<Value>| Reply::Allow { input: plan.cloned(), updates };
        let set_mode =
            |mode: &str| json!({"type": "setMode", "mode": mode, "destination": "session"});
        // It goes along with the result.
        let more = match &answer {
            Answer::YesAnd(words) => Some(Prompt::typed(words)),
            _ => None,
        };
        let reply = match answer {
            Answer::Yes | Answer::YesAnd(_) => allow(Vec::new()),
            Answer::AcceptEdits => allow(vec![set_mode("acceptEdits")]),
            Answer::Manual => allow(vec![set_mode("default")]),
            Answer::Always(rule, place) => {
                let mut one = json!({"toolName": rule.tool});
                if let Some(content) = &rule.content {
                    one["ruleContent"] = content.as_str().into();
                }
                let places = self.places.all();
                let place = places.get(place).or(places.first());
                let destination = place.map_or("session", |place| place.destination);
                if destination == "session" {
                    self.session_rules.push(rule.text());
                }
                if let Some(place) = place {
                    screen.note(look::DIM, &format!("{} → {}", rule.text(), place.label));
                }
                allow(vec![json!({
                    "type": "addRules", "rules": [one], "behavior": "allow",
                    "destination": destination,
                })])
            }
            Answer::Because(why) => {
                let plan = plan
                    .and_then(|input| input["plan"].as_str())
                    .map_or_else(String::new, |plan| {
                        format!("\nThe user has written the plan anew:\n{plan}")
                    });
                deny(format!("The user does not want this, and says:\n{why}{plan}"), false)
            }
            Answer::No if question.tool == "AskUserQuestion" => {
                deny("The user does not want to answer this.".to_owned(), true)
            }
            Answer::No => deny("The user does not want this.".to_owned(), true),
            Answer::Chosen(chosen) => {
                let mut input = question.input.clone();
                let answers =
                    chosen.into_iter().map(|(question, answer)| (question, Value::from(answer)));
                input["answers"] = Value::Object(answers.collect());
                Reply::Allow { input: Some(input), updates: Vec::new() }
            }
        };
        self.note(Note::Decide(question.request.clone(), reply));
        if let Some(more) = more {
            self.say(&more);
        }
    }

    /// Switches to a mode by its name. Returns whether there is such a mode here.
    pub(super) fn switch_mode(&mut self, name: &str) -> bool {
        let Some(mode) = Mode::named(name) else { return false };
        if mode == Mode::Bypass && self.bypass != Bypass::Offered {
            return false;
        }
        self.mode = mode;
        self.note(Note::Mode(mode));
        true
    }

    /// The mode after the current one.
    fn next_mode(&mut self) {
        self.mode = match self.mode {
            Mode::Default => Mode::AcceptEdits,
            Mode::AcceptEdits => Mode::Plan,
            Mode::Plan => Mode::Auto,
            Mode::Auto if self.bypass == Bypass::Offered => Mode::Bypass,
            _ => Mode::Default,
        };
        self.note(Note::Mode(self.mode));
    }

    /// Opens a text in the user's editor. Returns it as it was left there; None if it was not.
    fn edited<W: Write>(
        &mut self,
        name: &str,
        text: &str,
        stage: &mut Stage<'_, W>,
    ) -> io::Result<Option<String>> {
        let (Some(editor), Ok(path)) = (self.world.editor(), self.world.draft(name)) else {
            stage.screen.note(look::WARN, "set `EDITOR` to write in an editor");
            return Ok(None);
        };
        files::put(&path, text.as_bytes(), files::Durability::Process)?;
        let status = run::outside(stage.terminal, || {
            Command::new("/bin/sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(&path).status()
        });
        let text = match status {
            Ok(status) if status.success() => files::read_text(&path, 4 << 20).map(Some),
            status => status.map(|_| None),
        };
        let _ = std::fs::remove_file(&path);
        text.map(|text| text.map(|text| text.trim_end().to_owned()))
    }

    /// The prompt in an editor.
    fn edit<W: Write>(&mut self, stage: &mut Stage<'_, W>) -> io::Result<()> {
        let text = stage.screen.written();
        if let Some(text) = self.edited("prompt", &text, stage)? {
            stage.screen.write(&text);
        }
        Ok(())
    }

    /// The plan that is asked about, in an editor. An empty one is no plan.
    fn edit_plan<W: Write>(&mut self, stage: &mut Stage<'_, W>) -> io::Result<()> {
        let Some(plan) = stage.screen.plan().map(str::to_owned) else { return Ok(()) };
        let written = self.edited("plan", &plan, stage)?;
        if let Some(text) = written.filter(|text| text != plan.trim_end() && !text.is_empty()) {
            stage.screen.rewrite_plan(&text);
        }
        Ok(())
    }

    /// Whether the terminal obeys anything but text.
    pub(super) fn is_obeyed(&self) -> bool {
        !is_dumb(self.world)
    }

    /// Asks the session how full its context is.
    pub(super) fn measure(&self) {
        self.control(&json!({"subtype": "get_context_usage"}));
    }

    /// Runs the user's command for the status line, in a thread.
    pub(super) fn run_status_line(&self) {
        let Some(waker) = self.waker.clone() else { return };
        let tell = self.later.0.clone();
        self.status.run(&self.id, &self.site.root, &self.home, move |lines| {
            let _ = tell.send(News::StatusLine(lines));
            waker.wake();
        });
    }

    fn hear(&mut self, news: &News) {
        match news {
            News::Call { id, .. } => self.running.push(id.clone()),
            News::Result { id, detail, .. } => {
                self.running.retain(|one| one != id);
                self.status.count_lines(detail);
            }
            News::End(_) => self.running.clear(),
            News::Begin => self.prompt = None,
            News::Prompted(id) => {
                self.prompt = Some(id.clone());
                self.status.prompt = Some(id.clone());
            }
            News::Meter(meter) => self.status.meter = *meter,
            News::Shortened => self.measure(),
            News::Model(model) => model.clone_into(&mut self.status.model),
            News::Mode(mode) => self.mode = Mode::named(mode).unwrap_or(self.mode),
            News::Text(text) => {
                if std::mem::take(&mut self.answer.is_over) {
                    self.answer.text.clear();
                }
                self.answer.text.push_str(text);
            }
            _ => {}
        }
        if matches!(news, News::Result { .. } | News::End(_)) {
            self.run_status_line();
        }
        self.is_listing_old |= matches!(news, News::Result { .. });
        if matches!(news, News::End(_)) && std::mem::take(&mut self.is_listing_old) {
            self.list_files();
        }
        self.answer.is_over |= matches!(news, News::BlockEnd | News::End(_));
    }
}

impl<W: Write> run::Backend<W> for Backend<'_> {
    fn news(&mut self) -> Option<News> {
        let news = self.heard.try_recv().ok().or_else(|| self.later.1.try_recv().ok())?;
        self.hear(&news);
        Some(news)
    }

    fn wish(&mut self, wish: Wish, stage: &mut Stage<'_, W>) -> io::Result<Flow> {
        match wish {
            Wish::Say(prompt) => {
                if !std::mem::replace(&mut self.has_topic, true) {
                    stage.screen.set_topic(&prompt.display);
                }
                self.remember(&prompt, stage);
                self.say(&prompt);
            }
            Wish::Unsay => {
                if let Some(id) = self.prompt.take() {
                    self.note(rewind::unsaid(&id));
                }
            }
            Wish::Interrupt => {
                self.stop_shell();
                self.note(Note::Interrupt);
            }
            Wish::Background => match self.running.last() {
                Some(call) => self.note(Note::Background(call.clone())),
                None => stage.screen.note(look::DIM, "no command runs"),
            },
            Wish::NextMode => self.next_mode(),
            Wish::Answer(question, answer) => {
                match choice::answered(&question, &answer) {
                    Some(Chosen::Nothing) => return Ok(Flow::On),
                    Some(Chosen::Command(name, rest)) => {
                        return command::run(self, &name, &rest, stage);
                    }
                    None => {}
                }
                match rewind::answered(&question, &answer) {
                    Some(Consequence::Notes(notes)) => {
                        for note in notes {
                            self.note(note);
                        }
                    }
                    Some(Consequence::SumUpBefore(prompt)) => {
                        return command::sum_up_before(self, prompt, stage);
                    }
                    None => self.decide(&question, answer, stage.screen),
                }
            }
            Wish::Command(name, rest) => {
                let line = format!("/{name} {rest}");
                self.remember(&Prompt::typed(line.trim_end()), stage);
                return command::run(self, &name, &rest, stage);
            }
            Wish::Key(name) => return command::run(self, name, "", stage),
            Wish::Shell(text) => {
                self.remember(&Prompt::typed(&format!("!{text}")), stage);
                stage.screen.hear(News::Begin, stage.now);
                self.shell(&text);
            }
            Wish::Edit => self.edit(stage)?,
            Wish::EditPlan => self.edit_plan(stage)?,
            Wish::PasteImage => self.paste_clipboard(),
            Wish::Rewind => return command::run(self, "rewind", "", stage),
            Wish::Suspend => run::suspend(stage.terminal)?,
            Wish::Redraw => stage.terminal.redraw(),
            Wish::Ring(_) if !self.is_obeyed() => {}
            Wish::Ring(why) => {
                let channel = face::setting(&self.home, "preferredNotifChannel");
                let channel = channel.as_ref().and_then(Value::as_str).unwrap_or_default();
                stage.terminal.out().write_all(notice(channel, &why).as_bytes())?;
                stage.terminal.out().flush()?;
            }
            Wish::Leave => return Ok(Flow::Leave),
        }
        Ok(Flow::On)
    }

    fn keep(&mut self, draft: &str) {
        if let Some(kept) = &self.draft {
            kept.keep(draft);
        }
    }

    fn image(&mut self, pasted: &str) -> Option<Image> {
        picture::in_file(&self.site.root, pasted)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// What attracts attention in the way that the user's setting names: the bell, if it names none.
fn notice(channel: &str, why: &str) -> String {
    let shown = format!("\u{1b}]9;quipu: {}\u{7}", safe(why));
    match channel {
        "notifications_disabled" => String::new(),
        "iterm2" => shown,
        "iterm2_with_bell" => shown + "\u{7}",
        "kitty" => format!("\u{1b}]99;;quipu: {}\u{1b}\\", safe(why)),
        _ => "\u{7}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_attracted_as_the_user_wants_it() {
        for (channel, sent) in [
            ("", "\u{7}"),
            ("terminal_bell", "\u{7}"),
            ("notifications_disabled", ""),
            ("iterm2", "\u{1b}]9;quipu: Bash\\x07 asks\u{7}"),
            ("iterm2_with_bell", "\u{1b}]9;quipu: Bash\\x07 asks\u{7}\u{7}"),
            ("kitty", "\u{1b}]99;;quipu: Bash\\x07 asks\u{1b}\\"),
        ] {
            assert_eq!(notice(channel, "Bash\u{7} asks"), sent, "{channel}");
        }
    }
}
