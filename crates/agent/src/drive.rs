//! The driver: carries out what the turn wants, and returns the outcome to it.
//!
//! One thread decides; others wait for the API, for tools and for time, and send events.
//! Invariants: an event of an answer or a wait that was given up is dropped (it has an old number);
//! once something could not be recorded, nothing more is done.

mod decide;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::ambient::Ambient;
use crate::api::Model;
use crate::api::request::{Request, text_block};
use crate::api::stream::Limits;
use crate::control::{self, Wish};
use crate::host::{Host, Summary};
use crate::model;
use crate::permit::Permit;
use crate::reader::{Hearing, listen};
use crate::record::{Recorder, Snapshot};
use crate::tally::Tally;
use crate::tool::{self, Cancel, Site};
use crate::turn::{Effect, Entry, Input, Outcome, Prompt, Turn, Wanted};

pub use crate::inbox::{Event, Said};

/// The parameters of requests to the API.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The name of the model.
    pub model: String,
    /// The most tokens that an answer may have.
    pub max_tokens: u64,
    /// How many of these may be thinking.
    pub thinking: Option<u64>,
    /// The system prompt.
    pub system: Vec<String>,
    /// The tools.
    pub tools: Vec<String>,
    /// The reminder before the first prompt.
    pub reminder: String,
    /// What has changed since then; sent with the next prompt.
    pub news: Option<String>,
    /// What to store next to the session once that was sent: a path and the text.
    pub kept: Option<(PathBuf, String)>,
    /// Whether the API is asked to cache the beginning.
    pub is_cached: bool,
}

/// A session at work.
pub struct Driver {
    /// The conversation, and what is to be done next.
    pub turn: Turn,
    /// Writes the transcript.
    pub recorder: Recorder,
    /// Answers requests: the API, or a script.
    pub model: Arc<dyn Model>,
    /// The parameters of requests.
    pub asking: Asking,
    /// Where tools work.
    pub site: Arc<Site>,
    /// What tools may do.
    pub permit: Permit,
    /// Time, ids and random numbers.
    pub nature: Arc<dyn Ambient>,
    notes: Sender<Event>,
    number: u64,
    calls: HashMap<String, (Wanted, Cancel)>,
    /// The answer that is being received.
    hearing: Hearing,
    prompt: Option<String>,
    /// What was asked and not answered yet.
    questions: decide::Questions,
    /// The model of the next turn, if it is another one.
    next_model: Option<String>,
    count: Tally,
    end: Option<u8>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Driver {
    /// A session that waits for a prompt.
    pub fn new(
        turn: Turn,
        recorder: Recorder,
        (model, asking): (Arc<dyn Model>, Asking),
        (site, permit): (Arc<Site>, Permit),
        nature: Arc<dyn Ambient>,
        notes: Sender<Event>,
    ) -> Driver {
        let ear = notes.clone();
        let listener: tool::Listener = Box::new(move |call: &str, progress, number| {
            let _ = ear.send(Event::Progress(call.to_owned(), progress, number));
        });
        *site.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        Driver {
            turn,
            recorder,
            model,
            asking,
            site,
            permit,
            nature,
            notes,
            number: 0,
            calls: HashMap::new(),
            hearing: Hearing::default(),
            prompt: None,
            questions: decide::Questions::default(),
            next_model: None,
            count: Tally::default(),
            end: None,
        }
    }

    /// Runs turns until there are no more prompts, and kills what still runs. Returns the exit
    /// code.
    pub fn run(&mut self, inbox: &Receiver<Event>, face: &mut dyn Host) -> u8 {
        let code = self.turns(inbox, face);
        self.site.shells.end();
        face.finish();
        code
    }

    fn turns(&mut self, inbox: &Receiver<Event>, face: &mut dyn Host) -> u8 {
        let mut queue: VecDeque<Said> = VecDeque::new();
        let (mut is_closed, mut code) = (false, 0);
        let mut patience = PATIENCE;
        loop {
            if let Some(utterance) = queue.pop_front() {
                if face.is_gone() {
                    return NOBODY;
                }
                code = self.one(utterance, inbox, &mut queue, &mut is_closed, face);
                if let Some(end) = self.end {
                    return end;
                }
                continue;
            }
            if let Some(text) = tool::notification(&self.site) {
                queue.push_back(Said::text(&text));
                continue;
            }
            let is_awaited = self.site.shells.awaits_news();
            if is_closed && (!is_awaited || patience.is_zero()) {
                return code;
            }
            if face.is_gone() {
                return NOBODY;
            }
            if is_closed && patience == PATIENCE {
                face.waits();
            }
            let note = if is_awaited {
                patience = if is_closed { patience.saturating_sub(OFTEN) } else { patience };
                match inbox.recv_timeout(OFTEN) {
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => Err(RecvError),
                    Ok(note) => Ok(note),
                }
            } else {
                inbox.recv()
            };
            match note {
                Ok(Event::Say(utterance)) => queue.push_back(utterance),
                Ok(Event::End(code)) => return code,
                Ok(Event::Nonsense(why)) => {
                    face.complain(&why);
                    return 1;
                }
                Ok(Event::Control(line)) => {
                    if self.control(&line, face) == Wish::Impossible {
                        return IMPOSSIBLE;
                    }
                }
                Ok(Event::Closed) | Err(_) => is_closed = true,
                Ok(_) => {}
            }
        }
    }

    /// Runs one turn.
    fn one(
        &mut self,
        utterance: Said,
        inbox: &Receiver<Event>,
        queue: &mut VecDeque<Said>,
        is_closed: &mut bool,
        face: &mut dyn Host,
    ) -> u8 {
        self.count.begin(self.nature.elapsed());
        self.change_model();
        face.begin(&self.asking.model, self.permit.mode);
        let prompt = self.prompt(utterance, face);
        let mut outcome = self.step(Input::Prompt(prompt), face);
        while outcome.is_none() {
            // If nothing reads the output, work is neither done nor paid for.
            let gone = (face.is_gone() && self.end.is_none()).then_some(Event::End(NOBODY));
            let Some(note) = gone.or_else(|| inbox.recv().ok()) else { break };
            let input = match note {
                Event::Of(number, input) if number == self.number => input,
                Event::Event(number, event) if number == self.number => {
                    face.event(&event);
                    continue;
                }
                Event::Of(..) | Event::Event(..) => continue,
                Event::Answered(call, answer) => match self.answered(call, answer, face) {
                    Some(input) => input,
                    None => continue,
                },
                Event::Reply(reply) => match self.replied(&reply, face) {
                    Some(input) => input,
                    None => continue,
                },
                Event::Progress(call, progress, number) => {
                    if self.calls.contains_key(&call)
                        && let Err(error) = self.recorder.progress(&call, &progress, number)
                    {
                        Input::Unwritable(error.to_string())
                    } else {
                        continue;
                    }
                }
                Event::Say(utterance) => match self.recorder.enqueue(&utterance.blocks) {
                    Err(error) => Input::Unwritable(error.to_string()),
                    // While tools run, it is sent along with their results; otherwise it waits for
                    // its own turn.
                    Ok(()) if !self.calls.is_empty() => Input::Prompt(self.prompt(utterance, face)),
                    Ok(()) => {
                        queue.push_back(utterance);
                        continue;
                    }
                },
                Event::Control(line) => match self.control(&line, face) {
                    Wish::Stop => Input::Interrupt,
                    Wish::Impossible => {
                        self.end = Some(IMPOSSIBLE);
                        Input::Interrupt
                    }
                    _ => continue,
                },
                Event::End(code) => {
                    self.end = Some(code);
                    Input::Interrupt
                }
                Event::Closed => {
                    *is_closed = true;
                    continue;
                }
                Event::Nonsense(why) => {
                    face.complain(&why);
                    self.end = Some(1);
                    Input::Interrupt
                }
            };
            self.count.note(&input, self.nature.elapsed());
            // What has arrived of an answer that is stopped is kept.
            let heard = matches!(input, Input::Interrupt) && self.turn.is_answering();
            if let Some(block) = self.hearing.partial().filter(|_| heard) {
                let block = self.site.secrets.redacted_json(&block).into_owned();
                outcome = self.step(Input::Block(block), face);
            }
            outcome = outcome.or_else(|| self.step(input, face));
        }
        let outcome = outcome.unwrap_or(Outcome::Interrupted);
        let left = self.turn.take_waiting();
        queue.extend(left.map(|prompt| Said { blocks: prompt.blocks, ..Said::default() }));
        self.finish(outcome, face)
    }

    /// The prompt, preceded by what has changed.
    fn prompt(&mut self, utterance: Said, face: &mut dyn Host) -> Prompt {
        let id = self.recorder.id_for(utterance.id.as_deref());
        if let Some(line) = &utterance.line {
            face.again(line, &id);
        }
        let news = self.asking.news.take().map(|news| text_block(&news));
        let blocks = news.into_iter().chain(utterance.blocks);
        let secrets = &self.site.secrets;
        Prompt {
            id,
            blocks: blocks.map(|block| secrets.redacted_json(&block).into_owned()).collect(),
        }
    }

    /// Does what the host wants, and answers it.
    fn control(&mut self, line: &Value, face: &mut dyn Host) -> Wish {
        let (wish, answer) = control::asked(&line["request"], self.permit.bypass);
        match &wish {
            Wish::Mode(mode) => self.set_mode(*mode, face),
            Wish::Model(model) => self.next_model = Some(model.clone()),
            Wish::Thinking(tokens) => {
                self.asking.thinking = model::thinking_tokens(*tokens, self.asking.max_tokens);
            }
            Wish::Stop | Wish::Impossible | Wish::Nothing => {}
        }
        if let (Wish::Impossible, Err(refusal)) = (&wish, &answer) {
            face.complain(&refusal.why);
        }
        face.answer(&control::answer(&line["request_id"], answer));
        wish
    }

    fn change_model(&mut self) {
        let next = self.next_model.take().filter(|model| *model != self.asking.model);
        if let Some(model) = next {
            self.asking.max_tokens = model::output_tokens(&model);
            self.asking.model = model;
            self.turn.forget_thinking();
        }
    }

    /// Passes an input to the turn and carries out what it wants. Returns how the turn ended, once
    /// it has.
    fn step(&mut self, input: Input, face: &mut dyn Host) -> Option<Outcome> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.turn.step(input) {
                match self.carry_out(effect, face) {
                    Carried::On => {}
                    Carried::Next(next) => inputs.push_back(next),
                    // If something cannot be written, the turn ends.
                    Carried::Lost(why) => {
                        inputs = VecDeque::from([Input::Unwritable(why)]);
                        break;
                    }
                    Carried::Done(outcome) => return Some(outcome),
                }
            }
        }
        None
    }

    fn carry_out(&mut self, effect: Effect, face: &mut dyn Host) -> Carried {
        match effect {
            Effect::Record(entry) => return self.record(&entry, face),
            Effect::Show(block) => {
                let id = self.recorder.id_of(&block);
                if let Ok(json) = serde_json::from_str::<Value>(&block.block)
                    && let Some(text) = json["text"].as_str()
                {
                    text.clone_into(&mut self.count.text);
                }
                face.block(&block, &id);
            }
            Effect::Rewind => self.recorder.rewind(),
            Effect::Ask => self.ask(),
            Effect::Wait(time, error, failures) => {
                face.retry(&error, failures, self.turn.retry.most, time);
                self.number += 1;
                let (notes, number) = (self.notes.clone(), self.number);
                thread::spawn(move || {
                    thread::sleep(time);
                    let _ = notes.send(Event::Of(number, Input::Waited));
                });
            }
            Effect::Decide(wanted) => return self.decide(&wanted, face),
            Effect::Run(wanted) => return self.start(wanted),
            Effect::Stop => {
                self.number += 1;
                self.hearing.cancel.set();
                for (_, cancel) in self.calls.values() {
                    cancel.set();
                }
                self.calls.clear();
                for id in self.questions.withdraw() {
                    face.withdraw(&id);
                }
            }
            Effect::Done(outcome) => return Carried::Done(outcome),
        }
        Carried::On
    }

    fn record(&mut self, entry: &Entry, face: &mut dyn Host) -> Carried {
        let id = match self.recorder.record(entry) {
            Ok(id) => id,
            Err(error) => return Carried::Lost(error.to_string()),
        };
        let mut kept = Ok(());
        match entry {
            Entry::Prompt(_) => {
                self.keep_context();
                self.site.backups.renew();
                kept = self.recorder.snapshot(&id, &id, &self.site.backups, Snapshot::First);
                self.prompt = Some(id.clone());
            }
            Entry::Result(call, _) => {
                self.calls.remove(call);
                if self.site.backups.has_new() {
                    let of = self.prompt.clone().unwrap_or_default();
                    kept = self.recorder.snapshot(&id, &of, &self.site.backups, Snapshot::Update);
                }
            }
            _ => {}
        }
        face.recorded(entry, &id);
        kept.map_or_else(|error| Carried::Lost(error.to_string()), |()| Carried::On)
    }

    /// Stores what the model was told about where it works, after it was told.
    fn keep_context(&mut self) {
        let Some((path, text)) = self.asking.kept.take() else { return };
        // Without it the next run collects it anew, and the API reads everything again: not a
        // reason to stop.
        let _ = files::put(&path, text.as_bytes(), files::Durability::Process);
    }

    /// The request as it would be sent now.
    pub fn body(&self) -> String {
        let request = Request {
            model: &self.asking.model,
            max_tokens: self.asking.max_tokens,
            thinking: self.asking.thinking,
            system: &self.asking.system,
            tools: &self.asking.tools,
            reminder: Some(&self.asking.reminder),
            messages: self.turn.messages(),
            is_cached: self.asking.is_cached,
        };
        request.body()
    }

    fn ask(&mut self) {
        self.recorder.mark();
        self.number += 1;
        self.count.asked = self.nature.elapsed();
        let (model, notes, number) = (self.model.clone(), self.notes.clone(), self.number);
        let (body, chance) = (self.body(), self.nature.chance());
        self.hearing = Hearing::new(Limits::of(self.asking.max_tokens));
        let (hearing, site) = (self.hearing.clone(), self.site.clone());
        thread::spawn(move || {
            let heard = listen(&*model, body, (&notes, number), &hearing, &site.secrets);
            if let Some(error) = heard {
                let _ = notes.send(Event::Of(number, Input::Failed(error, chance)));
            }
        });
    }

    fn finish(&mut self, outcome: Outcome, face: &mut dyn Host) -> u8 {
        let taken = self.nature.elapsed() - self.count.began;
        // If the transcript could not be written, the turn is reported as such and ends.
        let is_lost = matches!(outcome, Outcome::Unwritable(_));
        let outcome = match if is_lost { Ok(()) } else { self.recorder.duration(taken) } {
            Ok(()) => outcome,
            Err(error) => Outcome::Unwritable(error.to_string()),
        };
        let spent =
            std::mem::take(&mut *self.site.spent.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.aside(spent);
        let summary = Summary {
            outcome,
            text: std::mem::take(&mut self.count.text),
            taken,
            api: self.count.api,
            turns: 1 + self.turn.answered,
            usage: self.count.turn,
            models: self.count.models.clone(),
            denials: std::mem::take(&mut self.count.denials),
        };
        face.end(&summary);
        summary.code()
    }
}

/// The exit code of a session whose output is no longer read: the code that a shell reports for a
/// program that wrote to a closed pipe.
pub const NOBODY: u8 = 141;

/// How long to wait for commands in the background when there are no more prompts; as long as any
/// command may run.
const PATIENCE: Duration = Duration::from_secs(600);
/// The exit code for wrong usage: a host asked for something that is not supported.
const IMPOSSIBLE: u8 = 2;
/// How often commands in the background are checked.
const OFTEN: Duration = Duration::from_millis(50);

/// The outcome of an effect.
enum Carried {
    On,
    Next(Input),
    Lost(String),
    Done(Outcome),
}
