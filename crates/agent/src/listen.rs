//! One request and its answer, heard by a thread of its own.

use std::ops::ControlFlow;
use std::sync::mpsc::Sender;

use crate::api::stream::{Step, Stream};
use crate::api::{ApiError, Heard, Model};
use crate::drive::Note;
use crate::tool::Cancel;
use crate::turn::Input;

/// Asks, and sends notes of what is heard, until somebody has had enough. Gives what went wrong.
pub(crate) fn listen(
    model: &dyn Model,
    body: String,
    (notes, number): (&Sender<Note>, u64),
    cancel: &Cancel,
) -> Option<ApiError> {
    let mut stream = Stream::default();
    let mut failure = None;
    let asked = model.ask(body, &mut |heard| {
        // What nobody waits for is not paid for either.
        if cancel.is_set() {
            return ControlFlow::Break(());
        }
        let event = match heard {
            Heard::Accepted(request) => {
                let note = Note::Of(number, Input::Accepted(request.to_owned()));
                return flow(notes.send(note).is_ok());
            }
            Heard::Event(event) => event,
        };
        let step = stream.event(event);
        // A block is told about before its last event is passed on, as other clients do.
        let input = match step {
            Some(Step::Started(message)) => Some(Input::Started(message)),
            Some(Step::Block(block)) => Some(Input::Block(block)),
            Some(Step::Ended(ending)) => Some(Input::Ended(ending)),
            Some(Step::Failed(error)) => {
                failure = Some(error);
                return ControlFlow::Break(());
            }
            None => None,
        };
        let is_end = matches!(input, Some(Input::Ended(_)));
        let event = Note::Event(number, event.to_owned());
        let input = input.map(|input| Note::Of(number, input));
        let order = if is_end { [Some(event), input] } else { [input, Some(event)] };
        flow(order.into_iter().flatten().all(|note| notes.send(note).is_ok()))
    });
    asked.err().or(failure).or_else(|| stream.end())
}

/// Whether anybody still wants to hear.
fn flow(is_heard: bool) -> ControlFlow<()> {
    if is_heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
