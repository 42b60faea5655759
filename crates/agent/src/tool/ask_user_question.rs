//! `AskUserQuestion`: questions of the model, which a person answers.
//!
//! Invariant: it runs only after somebody was asked; what is answered is the person's alone.

use serde_json::{Value, json};

use super::{Answer, Call, Site, Trouble};

pub(super) const NAME: &str = "AskUserQuestion";

/// Whether there is something to choose from.
pub(super) fn check(call: &Call) -> Result<(), Trouble> {
    let questions = call.input.get("questions").and_then(Value::as_array);
    let is_good = |one: &Value| {
        let options = one["options"].as_array().map_or(&[][..], Vec::as_slice);
        one["question"].is_string()
            && options.len() > 1
            && options.iter().all(|option| option["label"].is_string())
    };
    match questions {
        Some(all) if !all.is_empty() && all.iter().all(is_good) => Ok(()),
        _ => {
            Err(Trouble::wrong("Each question needs a text, and two options or more with labels."))
        }
    }
}

pub(super) fn run(call: &Call, _: &Site) -> Result<Answer, Trouble> {
    let questions = call.input.get("questions").cloned().unwrap_or_default();
    let answers = call.input.get("answers").and_then(Value::as_object);
    let answers = answers.ok_or_else(|| Trouble::failed("Nobody has answered."))?;
    let asked = questions.as_array().into_iter().flatten();
    let pair = |one: &Value| {
        let question = one["question"].as_str()?;
        Some(format!("\"{question}\"=\"{}\"", answers.get(question)?.as_str()?))
    };
    let pairs: Vec<String> = asked.filter_map(pair).collect();
    let text = format!("The user has answered: {}. Go on with that.", pairs.join(", "));
    Ok(Answer::text(text, &json!({"questions": questions, "answers": answers})))
}
