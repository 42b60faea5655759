//! Counts the time, tokens and refusals of a turn.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::ContextUse;
use crate::model::{self, Usage};
use crate::turn::Input;

/// The counts of a turn and of the run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// When the turn began.
    pub(crate) began: i64,
    /// When the last request was made.
    pub(crate) asked: i64,
    /// How long all answers of the API took.
    pub(crate) api: i64,
    /// The last text of the last answer.
    pub(crate) text: String,
    model: String,
    start: Value,
    /// The tokens of the last request and its answer.
    pub(crate) last: Usage,
    /// The tokens of the turn.
    pub(crate) turn: Usage,
    /// The tokens of the whole run by model, including side requests.
    pub(crate) models: BTreeMap<String, Usage>,
    /// Calls that were not permitted.
    pub(crate) denials: Vec<Value>,
}

impl Tally {
    /// Begins the next turn. The context is as full as it was.
    pub(crate) fn begin(&mut self, now: i64) {
        let models = std::mem::take(&mut self.models);
        *self = Tally { began: now, models, last: self.last, ..Tally::default() };
    }

    /// Counts an input.
    pub(crate) fn note(&mut self, input: &Input, now: i64) {
        match input {
            Input::Started(message) => {
                let message: Value = serde_json::from_str(message).unwrap_or_default();
                message["model"].as_str().unwrap_or_default().clone_into(&mut self.model);
                self.start = message["usage"].clone();
                self.text.clear();
            }
            Input::Ended(ending) => {
                let more = ending.usage.as_deref();
                let more = more.and_then(|usage| serde_json::from_str(usage).ok());
                let mut usage = std::mem::take(&mut self.start);
                if let (Value::Object(usage), Some(Value::Object(more))) = (&mut usage, more) {
                    usage.extend(more);
                }
                let usage = model::usage(&usage);
                self.last = usage;
                self.turn += usage;
                let model = self.model.clone();
                *self.models.entry(model).or_default() += usage;
                self.api += now - self.asked;
            }
            _ => {}
        }
    }

    /// How full the context is, after an answer.
    pub(crate) fn context(&self, model: &str) -> ContextUse {
        let window = model::known(model).and_then(|known| known.max_input_tokens);
        let last = self.last;
        let used = last.input + last.cache_read + last.cache_5m + last.cache_1h + last.output;
        ContextUse { last, turn: self.turn, used, window }
    }

    /// Counts the requests that tools made to the API.
    pub(crate) fn aside(&mut self, spent: BTreeMap<String, Usage>) {
        for (model, usage) in spent {
            *self.models.entry(model).or_default() += usage;
        }
    }
}
