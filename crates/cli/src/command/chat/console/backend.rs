//! What the user wants of a session and of the program.
//!
//! Invariant: a wish never waits for the session; commands that take long run in threads.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ::console::composer::{Image, Prompt};
use ::console::input::Waker;
use ::console::question::{Answer, Question};
use ::console::run::{self, Flow, Stage};
use ::console::text::look;
use ::console::{News, Wish};
use agent::control::Reply;
use agent::drive::{Note, Said};
use agent::permit::Mode;
use agent::tool::Site;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{command, local_rule, status_line};
use crate::command::chat::ChatArgs;
use crate::world::World;

/// The largest image that is sent.
const LARGEST: u64 = 5 << 20;
/// How many files can be completed.
const FILES: usize = 50_000;
/// How much of a command's output is sent to the model.
const OUTPUT: usize = 30_000;
/// How long a command of the user's may take.
const LONGEST: Duration = Duration::from_secs(120);

/// What stands behind the console.
pub(super) struct Backend<'a> {
    pub(super) world: &'a mut World,
    pub(super) args: &'a ChatArgs,
    pub(super) notes: Sender<Note>,
    heard: Receiver<News>,
    pub(super) site: Arc<Site>,
    pub(super) id: String,
    pub(super) home: PathBuf,
    pub(super) is_over: Arc<AtomicBool>,
    pub(super) draft: Option<PathBuf>,
    /// The session that the user goes on with.
    pub(super) next: Option<ChatArgs>,
    pub(super) has_spoken: bool,
    /// The title that the session gets when it ends.
    pub(super) title: Option<String>,
    /// The calls that run, newest last, to be sent to the background.
    running: Vec<String>,
    mode: Mode,
    /// The last answer, to be copied.
    pub(super) answer: String,
    is_answer_over: bool,
    pub(super) waker: Option<Waker>,
    pub(super) later: (Sender<News>, Receiver<News>),
    pub(super) status: status_line::StatusLine,
}

impl<'a> Backend<'a> {
    pub(super) fn new(
        world: &'a mut World,
        args: &'a ChatArgs,
        (notes, heard): (Sender<Note>, Receiver<News>),
        (site, id): (Arc<Site>, String),
        home: &Path,
    ) -> Backend<'a> {
        let mode = *site.mode.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Backend {
            world,
            args,
            notes,
            heard,
            site,
            id,
            home: home.to_owned(),
            is_over: Arc::default(),
            draft: None,
            next: None,
            has_spoken: false,
            title: None,
            running: Vec::new(),
            mode,
            answer: String::new(),
            is_answer_over: true,
            waker: None,
            later: std::sync::mpsc::channel(),
            status: status_line::StatusLine::new(home),
        }
    }

    /// Looks for the files that can be named, in a thread.
    pub(super) fn find_files(&mut self, waker: Waker) {
        self.waker = Some(waker.clone());
        let (root, tell) = (self.site.root.clone(), self.later.0.clone());
        thread::spawn(move || {
            let mut names = Vec::new();
            for entry in
                ignore::WalkBuilder::new(&root).max_depth(Some(12)).build().flatten().skip(1)
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
        self.forget_draft();
    }

    fn forget_draft(&self) {
        if let Some(path) = &self.draft {
            // Nothing was kept, or it stays: it is offered again.
            let _ = std::fs::remove_file(path);
        }
    }

    fn decide(&mut self, question: &Question, answer: Answer, screen: &mut ::console::Screen) {
        let deny = |message: String, is_interrupt| Reply::Deny { message, is_interrupt };
        let allow = |updates: Vec<Value>| Reply::Allow { input: None, updates };
        let set_mode =
            |mode: &str| json!({"type": "setMode", "mode": mode, "destination": "session"});
        let reply = match answer {
            Answer::Yes => allow(Vec::new()),
            Answer::AcceptEdits => allow(vec![set_mode("acceptEdits")]),
            Answer::Manual => allow(vec![set_mode("default")]),
            Answer::Always(rule) => {
                let (tool, content) = rule.split_once('(').unwrap_or((&rule, ""));
                let mut one = json!({"toolName": tool});
                if let Some(content) = content.strip_suffix(')') {
                    one["ruleContent"] = content.into();
                }
                match local_rule::add(&self.site.root, &rule) {
                    Ok(()) => {
                        screen.note(look::DIM, &format!("{rule} is in {} now", local_rule::FILE));
                    }
                    Err(error) => screen.note(
                        look::WARN,
                        &format!(
                            "{} could not be written ({error}); the rule holds for this session",
                            local_rule::FILE
                        ),
                    ),
                }
                allow(vec![json!({
                    "type": "addRules", "rules": [one], "behavior": "allow", "destination": "session",
                })])
            }
            Answer::Because(why) => {
                deny(format!("The user does not want this, and says:\n{why}"), false)
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
    }

    /// The mode after the current one.
    fn next_mode(&mut self) {
        self.mode = match self.mode {
            Mode::Default => Mode::AcceptEdits,
            Mode::AcceptEdits => Mode::Plan,
            Mode::Plan => Mode::Auto,
            _ => Mode::Default,
        };
        self.note(Note::Mode(self.mode));
    }

    /// Runs a command of the user's, and sends what it printed.
    fn shell(&mut self, text: &str) {
        let (command, cwd, notes) = (text.to_owned(), self.site.root.clone(), self.notes.clone());
        let (tell, waker) = (self.later.0.clone(), self.waker.clone());
        self.has_spoken = true;
        thread::spawn(move || {
            let (out, err) = output(&command, &cwd);
            let lines = ::console::text::output_lines(&format!("{out}{err}"));
            let lines = lines.iter().map(|line| ::console::text::line(look::DIM, line)).collect();
            let _ = tell.send(News::Lines(lines));
            if let Some(waker) = waker {
                waker.wake();
            }
            let input = format!("<bash-input>{command}</bash-input>");
            let output =
                format!("<bash-stdout>{out}</bash-stdout><bash-stderr>{err}</bash-stderr>");
            let block = |text: &str| json!({"type": "text", "text": text}).to_string();
            let _ = notes.send(Note::Say(Said {
                blocks: vec![block(&input), block(&output)],
                ..Said::default()
            }));
        });
    }

    fn edit<W: Write>(&mut self, stage: &mut Stage<'_, W>) -> io::Result<()> {
        let (Some(editor), Ok(path)) = (self.world.editor(), self.world.draft("prompt")) else {
            stage.screen.note(look::WARN, "set `EDITOR` to write prompts in an editor");
            return Ok(());
        };
        files::put(&path, stage.screen.draft().as_bytes(), files::Durability::Process)?;
        let status = run::outside(stage.terminal, || {
            Command::new("/bin/sh").arg("-c").arg(format!("{editor} \"$0\"")).arg(&path).status()
        })?;
        if status.success() {
            let text = files::read_text(&path, 4 << 20)?;
            stage.screen.write(text.trim_end());
        }
        let _ = std::fs::remove_file(&path);
        Ok(())
    }

    /// Runs the user's command for the status line, in a thread.
    pub(super) fn run_status_line(&self) {
        let Some(waker) = self.waker.clone() else { return };
        self.status.run(&self.id, &self.site.root, &self.home, (self.later.0.clone(), waker));
    }

    fn hear(&mut self, news: &News) {
        match news {
            News::Call { id, .. } => self.running.push(id.clone()),
            News::Result { id, .. } => self.running.retain(|one| one != id),
            News::End(_) => self.running.clear(),
            News::Meter(meter) => self.status.meter = *meter,
            News::Model(model) => model.clone_into(&mut self.status.model),
            News::Mode(mode) => self.mode = Mode::named(mode).unwrap_or(self.mode),
            News::Text(text) => {
                if std::mem::take(&mut self.is_answer_over) {
                    self.answer.clear();
                }
                self.answer.push_str(text);
            }
            _ => {}
        }
        if matches!(news, News::Result { .. } | News::End(_)) {
            self.run_status_line();
        }
        self.is_answer_over |= matches!(news, News::BlockEnd | News::End(_));
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
                self.remember(&prompt, stage);
                self.say(&prompt);
            }
            Wish::Interrupt => self.note(Note::Interrupt),
            Wish::Background => match self.running.last() {
                Some(call) => self.note(Note::Background(call.clone())),
                None => stage.screen.note(look::DIM, "no command runs"),
            },
            Wish::NextMode => self.next_mode(),
            Wish::Answer(question, answer) => self.decide(&question, answer, stage.screen),
            Wish::Command(name, rest) => {
                let line = format!("/{name} {rest}");
                self.remember(&Prompt::typed(line.trim_end()), stage);
                return command::run(self, &name, &rest, stage);
            }
            Wish::Shell(text) => {
                self.remember(&Prompt::typed(&format!("!{text}")), stage);
                self.shell(&text);
            }
            Wish::Edit => self.edit(stage)?,
            Wish::Rewind => return command::run(self, "rewind", "", stage),
            Wish::Suspend => run::suspend(stage.terminal)?,
            Wish::Redraw => stage.terminal.redraw(),
            Wish::Ring(_) => {
                stage.terminal.out().write_all(b"\x07")?;
                stage.terminal.out().flush()?;
            }
            Wish::Leave => return Ok(Flow::Leave),
        }
        Ok(Flow::On)
    }

    fn keep(&mut self, draft: &str) {
        let Some(path) = &self.draft else { return };
        if draft.is_empty() {
            self.forget_draft();
        } else {
            // Without it a draft is lost in a crash: no reason to disturb.
            let _ = files::put(path, draft.as_bytes(), files::Durability::Process);
        }
    }

    fn image(&mut self, pasted: &str) -> Option<Image> {
        let name = pasted.trim().trim_matches(['\'', '"']).replace("\\ ", " ");
        let name = name.strip_prefix("file://").map_or(name.clone(), str::to_owned);
        let media = match Path::new(&name).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "png" => "image/png",
            "jpg" | "jpeg" => "image/jpeg",
            "gif" => "image/gif",
            "webp" => "image/webp",
            _ => return None,
        };
        if name.contains('\n') {
            return None;
        }
        let bytes = files::read(self.site.root.join(&name), LARGEST).ok()?;
        Some(Image { media: media.to_owned(), data: STANDARD.encode(bytes) })
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// What a command prints: its output and its errors. It gets neither the keyboard nor the terminal.
fn output(command: &str, cwd: &Path) -> (String, String) {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(cwd);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let mut child = match shell.spawn() {
        Ok(child) => child,
        Err(error) => return (String::new(), format!("{error}\n")),
    };
    let read = |pipe: Option<Box<dyn io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = io::copy(&mut io::Read::take(&mut pipe, 4 << 20), &mut bytes);
                let _ = io::copy(&mut pipe, &mut io::sink());
            }
            bytes
        })
    };
    let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn io::Read + Send>));
    let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn io::Read + Send>));
    let begun = Instant::now();
    let mut more = String::new();
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() > LONGEST {
            let _ = child.kill();
            more = format!("(stopped after {} seconds)\n", LONGEST.as_secs());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match text.char_indices().nth(OUTPUT) {
            Some((end, _)) => {
                format!("{}\n… ({} characters in all)\n", &text[..end], text.chars().count())
            }
            None => text,
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    (text(out), text(err) + &more)
}
