//! Makes one request and receives its answer, in a thread of its own.
//!
//! Invariant: what is passed on contains no secrets, in whatever pieces it came, except for the
//! input of a call, which runs as it came ([`Input::Call`]).

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::stream::{Limits, Step, Stream};
use crate::api::{ApiError, Heard, Model};
use crate::block::input_of;
use crate::drive::{Note, Report};
use crate::event::AgentId;
use crate::secret::{Events, Extent, Secrets};
use crate::tool::Cancel;
use crate::turn::Input;

/// An answer that is being received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hearing {
    /// Set when the answer is no longer wanted.
    pub(crate) cancel: Cancel,
    stream: Arc<Mutex<Stream>>,
}

impl Hearing {
    /// Receives an answer with these limits.
    pub(crate) fn new(limits: Limits) -> Hearing {
        let stream = Arc::new(Mutex::new(Stream::new(limits)));
        Hearing { cancel: Cancel::default(), stream }
    }

    /// The text that has arrived of an incomplete block, as a block.
    pub(crate) fn partial(&self) -> Option<String> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).partial()
    }
}

/// Makes the request and sends events of what is received, until it is cancelled. Returns what went
/// wrong.
pub(crate) fn listen(
    model: &dyn Model,
    body: String,
    (notes, agent, number): (&Sender<Note>, &AgentId, u64),
    hearing: &Hearing,
    secrets: &Secrets,
) -> Option<ApiError> {
    let send = |report: Report| notes.send(Note::From(agent.clone(), report)).is_ok();
    let mut failure = None;
    let mut events = Events::new(secrets);
    let asked = model.ask(body, &mut |heard| {
        // An answer that is no longer wanted is not paid for either.
        if hearing.cancel.is_set() {
            return ControlFlow::Break(());
        }
        let event = match heard {
            Heard::Accepted(request) => {
                let report = Report::Input(number, Input::Accepted(request.to_owned()));
                return flow(send(report));
            }
            Heard::Event(event) => event,
        };
        let step = hearing.stream.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        let cleaned = |json: String| secrets.redacted_json(&json).into_owned();
        // A block is reported before its last event is passed on, as other clients do.
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
        let passed = events.pass(event).into_iter().map(|event| Report::Streamed(number, event));
        let input = input.map(|input| Report::Input(number, input));
        let (first, last) = if is_end { (None, input) } else { (input, None) };
        flow(first.into_iter().chain(passed).chain(last).all(send))
    });
    let end = || hearing.stream.lock().unwrap_or_else(PoisonError::into_inner).end();
    let error = asked.err().or(failure).or_else(end)?;
    let message = secrets.redacted(&error.message, Extent::Piece).into_owned();
    Some(ApiError { message, ..error })
}

/// Continues if the receiver still listens.
fn flow(is_heard: bool) -> ControlFlow<()> {
    if is_heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
