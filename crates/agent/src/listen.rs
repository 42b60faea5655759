//! One request and its answer, heard by a thread of its own.
//!
//! Invariant: what is passed on has no secrets in it, in whatever pieces it came, but for the input
//! of a call, which runs as it came ([`Input::Call`]).

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::stream::{Limits, Step, Stream};
use crate::api::{ApiError, Heard, Model};
use crate::block::input_of;
use crate::drive::Note;
use crate::secret::{Events, Extent, Secrets};
use crate::tool::Cancel;
use crate::turn::Input;

/// An answer that comes in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hearing {
    /// Set when nobody waits for it.
    pub(crate) cancel: Cancel,
    stream: Arc<Mutex<Stream>>,
}

impl Hearing {
    /// Of an answer that may be so long.
    pub(crate) fn new(limits: Limits) -> Hearing {
        let stream = Arc::new(Mutex::new(Stream::new(limits)));
        Hearing { cancel: Cancel::default(), stream }
    }

    /// The text that has come of a block that is not complete, as a block.
    pub(crate) fn partial(&self) -> Option<String> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).partial()
    }
}

/// Asks, and sends notes of what is heard, until somebody has had enough. Gives what went wrong.
pub(crate) fn listen(
    model: &dyn Model,
    body: String,
    (notes, number): (&Sender<Note>, u64),
    hearing: &Hearing,
    secrets: &Secrets,
) -> Option<ApiError> {
    let mut failure = None;
    let mut events = Events::new(secrets);
    let asked = model.ask(body, &mut |heard| {
        // What nobody waits for is not paid for either.
        if hearing.cancel.is_set() {
            return ControlFlow::Break(());
        }
        let event = match heard {
            Heard::Accepted(request) => {
                let note = Note::Of(number, Input::Accepted(request.to_owned()));
                return flow(notes.send(note).is_ok());
            }
            Heard::Event(event) => event,
        };
        let step = hearing.stream.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        let cleaned = |json: String| secrets.redacted_json(&json).into_owned();
        // A block is told about before its last event is passed on, as other clients do.
        let input = match step {
            Some(Step::Started(message)) => Some(Input::Started(cleaned(message))),
            Some(Step::Block(block)) => Some(match secrets.redacted_json(&block) {
                Cow::Borrowed(_) => Input::Block(block),
                Cow::Owned(redacted) => match input_of(&block) {
                    Some(input) => Input::Call(redacted, input),
                    None => Input::Block(redacted),
                },
            }),
            Some(Step::Ended(ending)) => Some(Input::Ended(ending)),
            Some(Step::Failed(error)) => {
                failure = Some(error);
                return ControlFlow::Break(());
            }
            None => None,
        };
        let is_end = matches!(input, Some(Input::Ended(_)));
        let passed = events.pass(event).into_iter().map(|event| Note::Event(number, event));
        let input = input.map(|input| Note::Of(number, input));
        let (first, last) = if is_end { (None, input) } else { (input, None) };
        flow(first.into_iter().chain(passed).chain(last).all(|note| notes.send(note).is_ok()))
    });
    let end = || hearing.stream.lock().unwrap_or_else(PoisonError::into_inner).end();
    let error = asked.err().or(failure).or_else(end)?;
    let message = secrets.redacted(&error.message, Extent::Piece).into_owned();
    Some(ApiError { message, ..error })
}

/// Whether anybody still wants to hear.
fn flow(is_heard: bool) -> ControlFlow<()> {
    if is_heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
