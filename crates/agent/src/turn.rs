//! The turn as a pure state machine: inputs in, effects out; no clock, no files, no network.
//!
//! The driver carries out the effects and returns their outcome as inputs. Invariants: no request
//! is made while a call has no result; no call runs before it was decided that it may, and one that
//! waits for a decision holds up no other; every call gets exactly one result: its own, an error or
//! an interruption; what was not recorded is not sent.

mod kind;
mod waypoint;

use std::collections::VecDeque;

use transcript::format::json::Json;

use crate::api::request::{Message, text_block};
use crate::api::retry::Retry;
use crate::api::stream::{Ending, with};
use crate::api::{ApiError, Why};
use crate::block::{is_text, is_thinking, result_block, sent, text_of, with_usage};
use crate::tool::{Answer, Trouble};

pub use kind::{Block, Effect, Entry, Input, Outcome, Prompt, Ruling, Wanted};
pub use waypoint::Waypoint;
pub(crate) use waypoint::words;

/// What a client records when the user stops it. Other clients recognize it by this text.
pub const INTERRUPTED: &str = "[Request interrupted by user]";
/// The same while a tool runs.
pub const INTERRUPTED_TOOL: &str = "[Request interrupted by user for tool use]";
/// The result of a call that was stopped.
const STOPPED: &str =
    "Stopped by the user before it was done. What it may have done already is not undone.";
/// The reply to an answer that was too long.
const GO_ON: &str =
    "The answer reached the limit of its length. Go on right where it ends, in smaller pieces.";
/// How often that reply is sent.
const GO_ON_MOST: u32 = 3;
/// The message for the user if that did not help either.
const TOO_LONG: &str = "API Error: the answer is longer than it may be, and did not end in pieces either. Ask for less at once, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS.";
const REFUSED: &str =
    "API Error: the model refuses to answer. Say it in other words, or begin a new session.";
const FULL: &str = "API Error: the conversation does not fit into the model any more. Go on in a smaller session: `quipu strip` takes tool results out.";
/// The result of a call that a hook has put off.
const DEFERRED: &str = "A hook put this call off, and the turn ended. Nothing was done; call it again if it is needed.";
/// The result of a call whose end is missing.
const CUT: &str = "InputValidationError: the answer reached the limit of its length inside this call. Nothing was done. Use smaller pieces.";

/// The state machine.
#[derive(Debug)]
pub struct Turn {
    messages: Vec<Message>,
    /// Where prompts begin in them.
    waypoints: Vec<Waypoint>,
    state: State,
    /// How often a failed request is retried.
    pub retry: Retry,
    /// The number of requests in a row that failed.
    failures: u32,
    max_turns: Option<u32>,
    rounds: u32,
    longer: u32,
    /// Prompts that came while the turn ran.
    waiting: VecDeque<Prompt>,
    blocks: u64,
    /// Texts of the client that go along with the next request.
    remarks: Vec<Entry>,
    /// Why the turn ends before the next request.
    halt: Option<String>,
    /// Calls that were put off, and their results, which are recorded before the next prompt: until
    /// then, the file says that they are open.
    deferred: Vec<(String, Answer)>,
    /// The number of calls in this turn that have a result.
    pub answered: u32,
}

#[derive(Debug)]
enum State {
    Idle,
    /// A request was made; the answer is being received.
    Asking(Coming),
    /// The request is retried after a while.
    Waiting,
    /// Calls are running.
    Running(Vec<Slot>),
}

/// An answer that is being received.
#[derive(Debug, Default)]
struct Coming {
    /// Whether the request was made.
    is_asked: bool,
    request: Option<String>,
    message: Option<String>,
    /// The blocks that were recorded.
    blocks: Vec<String>,
    /// The last block, held until it is known whether it is the last.
    held: Option<Block>,
    calls: Vec<Wanted>,
}

impl Coming {
    /// Whether nothing of it has come.
    fn is_empty(&self) -> bool {
        self.request.is_none() && self.message.is_none() && self.blocks.is_empty()
    }
}

/// A call and its result.
#[derive(Debug)]
struct Slot {
    call: Wanted,
    state: SlotState,
}

impl Slot {
    fn new(call: Wanted) -> Slot {
        Slot { call, state: SlotState::Waiting }
    }
}

#[derive(Debug)]
enum SlotState {
    Waiting,
    /// It is being decided whether it may run.
    Undecided,
    /// It may run.
    Ready,
    Running,
    /// It does not run now.
    Deferred,
    /// It has its result, but an earlier call does not.
    Held(Answer),
    Recorded,
}

impl Turn {
    /// Continues a conversation.
    pub fn new(messages: Vec<Message>, retry: Retry, max_turns: Option<u32>) -> Turn {
        Turn {
            messages,
            waypoints: Vec::new(),
            state: State::Idle,
            retry,
            failures: 0,
            max_turns,
            rounds: 0,
            longer: 0,
            waiting: VecDeque::new(),
            blocks: 0,
            remarks: Vec::new(),
            halt: None,
            deferred: Vec::new(),
            answered: 0,
        }
    }

    /// The same conversation, with the places that one can go back to.
    #[must_use]
    pub fn with_waypoints(self, waypoints: Vec<Waypoint>) -> Turn {
        Turn { waypoints, ..self }
    }

    /// The messages that are sent.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether no turn runs.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the file says of calls that they are open that have no result to come.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// The request is made now: what comes later goes along with the next one.
    pub(crate) fn asked(&mut self) {
        if let State::Asking(coming) = &mut self.state {
            coming.is_asked = true;
        }
    }

    /// Replaces the conversation, between two requests: by what was said in this order.
    pub(crate) fn begin_again(&mut self, messages: &[(&'static str, Vec<String>)]) {
        if let State::Asking(coming) = &mut self.state {
            *coming = Coming::default();
        }
        self.messages.clear();
        self.waypoints.clear();
        self.deferred.clear();
        for run in messages.chunk_by(|(one, _), (other, _)| one == other) {
            let blocks = run.iter().map(|(_, blocks)| blocks.clone());
            match run[0].0 {
                // All blocks of an answer are one message.
                "assistant" => self.push_answer(blocks.flatten().collect()),
                _ => blocks.for_each(|blocks| _ = self.add(blocks)),
            }
        }
    }

    /// Whether an answer has begun.
    pub fn is_answering(&self) -> bool {
        matches!(&self.state, State::Asking(coming) if coming.message.is_some())
    }

    /// Processes an input. Returns what is to be done, in this order.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match (input, std::mem::replace(&mut self.state, State::Idle)) {
            (Input::Prompt(prompt), State::Idle) => {
                (self.rounds, self.longer, self.failures, self.answered) = (0, 0, 0, 0);
                let deferred = std::mem::take(&mut self.deferred).into_iter();
                effects
                    .extend(deferred.map(|(id, answer)| Effect::Record(Entry::Result(id, answer))));
                self.say(prompt, &mut effects);
                self.ask(&mut effects);
            }
            (Input::Prompt(prompt), state) => {
                self.waiting.push_back(prompt);
                self.state = state;
            }
            (Input::Interrupt, state) => self.interrupt(state, &mut effects),
            // The record that could not be written may also be the one that ends a turn.
            (Input::Unwritable(why), _) => {
                effects.extend([Effect::Stop, Effect::Done(Outcome::Unwritable(why))]);
            }
            (Input::GoOn(text), State::Idle) => {
                self.remarks.push(Entry::Meta(text));
                self.ask(&mut effects);
            }
            (Input::Expansion(text), state) => {
                // Right behind the command.
                self.remarks.insert(0, Entry::Expansion(text));
                self.state = state;
            }
            (Input::Printed(text), state) => {
                self.remarks.insert(0, Entry::Printed(text));
                self.state = state;
            }
            (Input::Remark(text), state) => {
                self.remarks.push(Entry::Meta(text));
                if matches!(&state, State::Asking(coming) if !coming.is_asked) {
                    self.remark(&mut effects);
                }
                self.state = state;
            }
            (Input::Halt(why), State::Asking(coming)) if coming.is_empty() => {
                effects.extend([Effect::Stop, Effect::Done(Outcome::Halted(why))]);
            }
            (Input::Complete, State::Asking(coming)) if coming.is_empty() => {
                let reason = Some("tool_use".to_owned());
                effects.extend([Effect::Stop, Effect::Done(Outcome::Answered(reason))]);
            }
            (Input::OverBudget, State::Asking(coming)) if coming.is_empty() => {
                effects.extend([Effect::Stop, Effect::Done(Outcome::OverBudget)]);
            }
            (Input::Halt(why), state) => {
                self.halt = Some(why);
                self.state = state;
            }
            (input, State::Asking(coming)) => self.hear(input, coming, &mut effects),
            (Input::Waited, State::Waiting) => {
                self.state = State::Asking(Coming::default());
                effects.push(Effect::Ask);
            }
            (Input::Decided(id, ruling), State::Running(slots)) => {
                self.decided(&id, ruling, slots, &mut effects);
            }
            (Input::Answered(id, answer), State::Running(slots)) => {
                self.answer(&id, answer, slots, &mut effects);
            }
            // An input that comes too late is ignored.
            (_, state) => self.state = state,
        }
        effects
    }

    /// Prompts that came while a turn ran and that it did not include. They still have to be sent.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = Prompt> {
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Another model continues: it does not accept the thinking of this one.
    pub fn forget_thinking(&mut self) {
        for message in &mut self.messages {
            message.blocks.retain(|block| !is_thinking(block));
        }
        self.drop_empty_messages();
    }

    fn say(&mut self, prompt: Prompt, effects: &mut Vec<Effect>) {
        let (message, block) = self.add(prompt.blocks.clone());
        let (id, text) = (prompt.id.clone(), words(&prompt.blocks));
        self.waypoints.push(Waypoint { id, text, message, block });
        effects.push(Effect::Record(Entry::Prompt(prompt)));
    }

    /// Adds blocks to the user's message. If a text follows a text, clients put a newline between
    /// them: that is what a resume produces, so it is done here too. Returns the message that they
    /// are in, and the place of the first one there.
    fn add(&mut self, blocks: Vec<String>) -> (usize, usize) {
        // What the client itself says comes after what the user says.
        let spoken = self.messages.iter().rposition(|last| last.role != "system");
        let Some(at) = spoken.filter(|at| self.messages[*at].role == "user") else {
            self.messages.push(Message { role: "user", blocks });
            return (self.messages.len() - 1, 0);
        };
        let last = &mut self.messages[at];
        let place = (at, last.blocks.len());
        if let (Some(before), true) =
            (last.blocks.last().and_then(|block| text_of(block)), is_text(blocks.first()))
        {
            last.blocks.pop();
            last.blocks.push(text_block(&(before + "\n")));
        }
        last.blocks.extend(blocks);
        place
    }

    /// Adds what the client has to say.
    fn remark(&mut self, effects: &mut Vec<Effect>) {
        for entry in std::mem::take(&mut self.remarks) {
            if let Entry::Meta(text) | Entry::Expansion(text) | Entry::Printed(text) = &entry {
                self.add(vec![text_block(text)]);
            }
            effects.push(Effect::Record(entry));
        }
    }

    fn ask(&mut self, effects: &mut Vec<Effect>) {
        self.remark(effects);
        if let Some(why) = self.halt.take() {
            effects.push(Effect::Done(Outcome::Halted(why)));
            return;
        }
        if let Some(most) = self.max_turns.filter(|most| self.rounds >= *most) {
            effects.push(Effect::Done(Outcome::MaxTurns(most)));
            return;
        }
        self.rounds += 1;
        self.state = State::Asking(Coming::default());
        effects.push(Effect::Ask);
    }

    fn hear(&mut self, input: Input, mut coming: Coming, effects: &mut Vec<Effect>) {
        match input {
            Input::Accepted(request) => {
                coming.request = Some(request).filter(|request| !request.is_empty());
            }
            Input::Started(message) => coming.message = Some(message),
            Input::Block(block) => self.heard(block, &mut coming, effects),
            Input::Call(block, input) => {
                self.heard(block, &mut coming, effects);
                let is_call = coming.held.as_ref().is_some_and(|held| held.call.is_some());
                if let Some(call) = coming.calls.last_mut().filter(|_| is_call) {
                    call.input = input;
                }
            }
            Input::Ended(ending) => return self.ended(&ending, coming, effects),
            Input::Failed(error, chance) => return self.failed(error, chance, &coming, effects),
            _ => {}
        }
        self.state = State::Asking(coming);
    }

    fn heard(&mut self, block: String, coming: &mut Coming, effects: &mut Vec<Effect>) {
        if let Some(before) = coming.held.take() {
            coming.blocks.push(before.block.clone());
            effects.push(Effect::Record(Entry::Block(before)));
        }
        let held = self.block(block, coming);
        effects.push(Effect::Show(held.clone()));
        coming.held = Some(held);
    }

    fn block(&mut self, block: String, coming: &mut Coming) -> Block {
        self.blocks += 1;
        let json = Json::parse(block.as_bytes()).and_then(Json::object);
        let text = |name: &str| json.as_ref().and_then(|json| json.text(name)).map(String::from);
        let call = text("id").filter(|_| text("type").as_deref() == Some("tool_use"));
        if let Some(id) = &call {
            let input = json.as_ref().and_then(|json| json.get("input"));
            let input = input.map_or("{}".into(), |input| String::from_utf8_lossy(input.raw()));
            coming.calls.push(Wanted {
                id: id.clone(),
                name: text("name").unwrap_or_default(),
                input: input.into_owned(),
            });
        }
        let start = coming.message.as_deref().unwrap_or("{}");
        let message = with(start, "content", &format!("[{block}]")).unwrap_or_default();
        Block { number: self.blocks, message, block, request: coming.request.clone(), call }
    }

    fn ended(&mut self, ending: &Ending, mut coming: Coming, effects: &mut Vec<Effect>) {
        self.failures = 0;
        if let Some(mut last) = coming.held.take() {
            if let Some(usage) = &ending.usage {
                last.message = with_usage(&last.message, usage);
            }
            coming.blocks.push(last.block.clone());
            effects.push(Effect::Record(Entry::Block(last)));
        }
        let ends_in_call = coming.blocks.last().is_some_and(|block| !is_text(Some(block)));
        self.push_answer(coming.blocks);
        let is_longer = ending.stop_reason.as_deref() == Some("max_tokens");
        if !coming.calls.is_empty() {
            let mut slots: Vec<Slot> = coming.calls.into_iter().map(Slot::new).collect();
            let last = slots.last_mut().filter(|last| last.call.input == "{}");
            if let Some(last) = last.filter(|_| is_longer && ends_in_call) {
                last.state = SlotState::Held(Trouble::wrong(CUT).answer());
            }
            return self.go_on(slots, effects);
        }
        match ending.stop_reason.as_deref() {
            // The API's own tools are not done: it wants another request.
            Some("pause_turn") => self.ask(effects),
            Some("max_tokens") if self.longer < GO_ON_MOST => {
                self.longer += 1;
                effects.push(Effect::Record(Entry::Meta(GO_ON.to_owned())));
                self.add(vec![text_block(GO_ON)]);
                self.ask(effects);
            }
            _ if !self.waiting.is_empty() => self.next(effects),
            reason => effects.push(Effect::Done(match reason {
                Some("max_tokens") => Outcome::Unfinished(TOO_LONG),
                Some("refusal") => Outcome::Unfinished(REFUSED),
                Some("model_context_window_exceeded") => Outcome::Unfinished(FULL),
                reason => Outcome::Answered(reason.map(str::to_owned)),
            })),
        }
    }

    /// Adds an answer to the conversation.
    fn push_answer(&mut self, blocks: Vec<String>) {
        let blocks = sent(blocks);
        if !blocks.is_empty() {
            self.messages.push(Message { role: "assistant", blocks });
        }
    }

    /// Adds the prompts that came meanwhile, and makes another request.
    fn next(&mut self, effects: &mut Vec<Effect>) {
        self.remark(effects);
        while let Some(prompt) = self.waiting.pop_front() {
            self.say(prompt, effects);
        }
        self.ask(effects);
    }

    fn failed(&mut self, error: ApiError, chance: f64, coming: &Coming, effects: &mut Vec<Effect>) {
        self.failures += 1;
        if !coming.blocks.is_empty() || coming.held.is_some() {
            effects.push(Effect::Rewind);
        }
        if let Some(wait) = self.retry.wait(self.failures, &error, chance) {
            self.state = State::Waiting;
            effects.push(Effect::Wait(wait, error, self.failures));
            return;
        }
        // Without an address or a key there was no request, and nothing that the next one must
        // know.
        if error.why != Why::Setup {
            effects.push(Effect::Record(Entry::Failed(error.clone())));
        }
        effects.push(Effect::Done(Outcome::Failed(error)));
    }

    /// Has the calls decided about, and starts those that may run now: the next one, and later ones
    /// that are safe to run in parallel.
    fn run(&mut self, mut slots: Vec<Slot>, effects: &mut Vec<Effect>) {
        for slot in &mut slots {
            if matches!(slot.state, SlotState::Waiting) {
                slot.state = SlotState::Undecided;
                effects.push(Effect::Decide(slot.call.clone()));
            }
        }
        let is_running = |slot: &&Slot| matches!(slot.state, SlotState::Running);
        let is_shared = |slot: &Slot| crate::tool::is_parallel(&slot.call.name);
        if slots.iter().filter(is_running).all(is_shared) {
            let mut is_free = !slots.iter().any(|slot| is_running(&slot));
            for slot in &mut slots {
                let is_shared = is_shared(slot);
                match slot.state {
                    SlotState::Ready if is_free || is_shared => {
                        slot.state = SlotState::Running;
                        effects.push(Effect::Run(slot.call.clone()));
                        is_free = false;
                        if !is_shared {
                            break;
                        }
                    }
                    SlotState::Ready => break,
                    _ => {}
                }
            }
        }
        self.state = State::Running(slots);
    }

    fn decided(
        &mut self,
        id: &str,
        ruling: Ruling,
        mut slots: Vec<Slot>,
        effects: &mut Vec<Effect>,
    ) {
        let is_open =
            |slot: &&mut Slot| slot.call.id == id && matches!(slot.state, SlotState::Undecided);
        let mut is_end = false;
        // What was decided stays decided.
        if let Some(slot) = slots.iter_mut().find(is_open) {
            slot.state = match ruling {
                Ruling::Allow => SlotState::Ready,
                Ruling::Change(input) => {
                    slot.call.input = input;
                    SlotState::Ready
                }
                Ruling::Deny(answer) => SlotState::Held(answer),
                Ruling::Defer => SlotState::Deferred,
                Ruling::Interrupt(answer) => {
                    is_end = true;
                    SlotState::Held(answer)
                }
            };
        }
        if is_end {
            return self.interrupt(State::Running(slots), effects);
        }
        self.go_on(slots, effects);
    }

    fn answer(
        &mut self,
        id: &str,
        answer: Answer,
        mut slots: Vec<Slot>,
        effects: &mut Vec<Effect>,
    ) {
        let is_running =
            |slot: &&mut Slot| slot.call.id == id && matches!(slot.state, SlotState::Running);
        // A call that already has a result keeps it.
        if let Some(slot) = slots.iter_mut().find(is_running) {
            slot.state = SlotState::Held(answer);
        }
        self.go_on(slots, effects);
    }

    /// Records what can be recorded, and starts what can be started.
    fn go_on(&mut self, mut slots: Vec<Slot>, effects: &mut Vec<Effect>) {
        self.record(&mut slots, effects);
        let is_deferred = |slot: &&Slot| matches!(slot.state, SlotState::Deferred);
        let is_done = |slot: &Slot| matches!(slot.state, SlotState::Recorded | SlotState::Deferred);
        if !slots.iter().all(is_done) {
            return self.run(slots, effects);
        }
        let Some(first) = slots.iter().find(is_deferred).map(|slot| slot.call.clone()) else {
            return self.next(effects);
        };
        for slot in slots.iter().filter(is_deferred) {
            let answer = Trouble::failed(DEFERRED).answer();
            self.add(vec![result_block(&slot.call.id, &answer)]);
            self.deferred.push((slot.call.id.clone(), answer));
        }
        effects.push(Effect::Done(Outcome::Deferred(first)));
    }

    /// Records the results that come next, in the order of the calls.
    fn record(&mut self, slots: &mut [Slot], effects: &mut Vec<Effect>) {
        for slot in slots {
            match std::mem::replace(&mut slot.state, SlotState::Recorded) {
                SlotState::Recorded => {}
                SlotState::Deferred => slot.state = SlotState::Deferred,
                SlotState::Held(answer) => {
                    self.answered += 1;
                    self.add(vec![result_block(&slot.call.id, &answer)]);
                    effects.push(Effect::Record(Entry::Result(slot.call.id.clone(), answer)));
                }
                state => {
                    slot.state = state;
                    break;
                }
            }
        }
    }

    fn interrupt(&mut self, state: State, effects: &mut Vec<Effect>) {
        let slots = match state {
            State::Idle => return,
            State::Waiting => Vec::new(),
            State::Asking(mut coming) => {
                if let Some(held) = coming.held.take() {
                    coming.blocks.push(held.block.clone());
                    effects.push(Effect::Record(Entry::Block(held)));
                }
                self.push_answer(coming.blocks);
                coming.calls.into_iter().map(Slot::new).collect()
            }
            State::Running(slots) => slots,
        };
        effects.push(Effect::Stop);
        let text = if slots.is_empty() { INTERRUPTED } else { INTERRUPTED_TOOL };
        let mut slots = slots;
        for slot in &mut slots {
            if !matches!(slot.state, SlotState::Held(_) | SlotState::Recorded) {
                slot.state = SlotState::Held(Trouble::failed(STOPPED).answer());
            }
        }
        self.record(&mut slots, effects);
        effects.push(Effect::Record(Entry::Interrupted(text)));
        self.add(vec![text_block(text)]);
        while let Some(prompt) = self.waiting.pop_front() {
            self.say(prompt, effects);
        }
        effects.push(Effect::Done(Outcome::Interrupted));
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
