//! `StructuredOutput`: what a turn returns, in the form that a program asked for.
//!
//! Invariant: what is accepted has the form; a turn returns the last value that was accepted.

use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use rules::{Access, Mode};
use serde_json::{Value, json};

use super::{Answer, Call, Site, Tool, ToolSpec, Trouble, unknown};
use crate::schema;

/// The name of the tool.
pub(crate) const NAME: &str = "StructuredOutput";
/// How often the model is reminded.
pub(crate) const MOST: u32 = 5;
/// The reminder.
pub(crate) const REMINDER: &str = "You have to return your result by calling the tool StructuredOutput, with an input of the form that it describes. Call it now.";

/// Takes what a turn returns. Without a form it is not offered.
#[derive(Debug, Default)]
pub struct OutputTool {
    spec: OnceLock<ToolSpec>,
    state: Mutex<OutputState>,
}

#[derive(Debug, Default)]
struct OutputState {
    value: Option<Value>,
    reminders: u32,
}

impl OutputTool {
    /// Each turn has to return a value of this form from now on. The first form counts.
    pub(crate) fn want(&self, form: Value) {
        self.spec.get_or_init(|| ToolSpec {
            name: NAME.to_owned(),
            description: "Returns the result of your work in the form that was asked for. Call it once, at the end.".to_owned(),
            input_schema: form,
        });
    }

    /// Whether the model has to be reminded of it now. None if that was tried too often.
    pub(crate) fn reminds(&self) -> Option<bool> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.spec.get().is_none() || state.value.is_some() {
            return Some(false);
        }
        state.reminders += 1;
        (state.reminders <= MOST).then_some(true)
    }

    /// Whether the turn has returned something.
    pub(crate) fn is_given(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).value.is_some()
    }

    /// What the turn returned; the next one begins.
    pub(crate) fn take(&self) -> Option<Value> {
        std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner)).value
    }
}

impl Tool for OutputTool {
    fn spec(&self) -> &ToolSpec {
        static NONE: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
            name: NAME.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        });
        self.spec.get().unwrap_or(&NONE)
    }

    fn is_parallel(&self) -> bool {
        false
    }

    fn is_offered(&self, _: Mode) -> bool {
        self.spec.get().is_some()
    }

    fn check(&self, call: &Call) -> Result<(), Trouble> {
        let form = self.spec.get().ok_or_else(|| unknown(NAME))?;
        let issues = schema::issues(&Value::Object(call.input.clone()), &form.input_schema);
        if issues.is_empty() {
            return Ok(());
        }
        let text = format!("InputValidationError: {NAME} failed: {}", issues.join("; "));
        Err(Trouble { detail: Some(text.clone()), ..Trouble::wrong(text) })
    }

    fn access(&self, _: &Call, _: &Site) -> Access {
        Access { is_internal: true, ..Access::default() }
    }

    fn run(&self, call: &Call, _: &Site) -> Result<Answer, Trouble> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.value = Some(Value::Object(call.input.clone()));
        let text = "The result was accepted. End your turn now.";
        Ok(Answer::text(text, &text))
    }
}
