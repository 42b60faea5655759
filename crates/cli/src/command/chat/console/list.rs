//! What commands of the console let the user choose from.

use std::io::Write;

use ::console::run::Stage;
use ::console::text::look;

use super::choice::{Choice, ask};
use crate::failure::Failure;
use crate::pick;
use crate::world::World;

/// How the argument of `/resume` begins that names one session, and not words.
const CHOSEN: &str = "=";
/// How many tokens of an answer may be thinking, as it is offered.
const THINKING: [(&str, &str); 4] = [
    ("off", "no thinking"),
    ("4000", "4,000 tokens of an answer"),
    ("16000", "16,000 tokens, as /thinking on"),
    ("30000", "30,000 tokens, nearly all of an answer"),
];

/// The models that have short names.
pub(super) fn models<W: Write>(stage: &mut Stage<'_, W>) {
    let now = stage.screen.status.model.clone();
    let choices: Vec<Choice> = agent::model::offered()
        .map(|(name, meant)| Choice {
            label: name.to_owned(),
            about: if meant == now { format!("{meant}, in use") } else { meant.to_owned() },
            argument: name.to_owned(),
        })
        .collect();
    let question = format!("Which model? It is {now}; /model NAME takes any");
    show(stage, "model", &question, choices);
}

/// How much may be thought.
pub(super) fn thinking<W: Write>(stage: &mut Stage<'_, W>) {
    let choices = THINKING.map(|(argument, about)| Choice {
        label: about.to_owned(),
        about: String::new(),
        argument: argument.to_owned(),
    });
    let question = "How much may be thought? /thinking NUMBER takes any";
    show(stage, "thinking", question, choices.into());
}

/// The newest sessions, where lines are all that can be shown. Returns the only one whose names
/// have all the words; of several, one is asked for.
pub(super) fn sessions<W: Write>(
    world: &mut World,
    query: &str,
    stage: &mut Stage<'_, W>,
) -> Result<Option<String>, Failure> {
    if let Some(name) = query.strip_prefix(CHOSEN) {
        return Ok(Some(name.to_owned()));
    }
    let mut found = pick::listed(world, query)?;
    if found.len() == 1 && !query.is_empty() {
        return Ok(found.pop().map(|(name, _)| name));
    }
    if found.is_empty() {
        stage.screen.note(look::DIM, "no session has these words");
    }
    let choices: Vec<Choice> = found
        .into_iter()
        .map(|(name, label)| Choice {
            label,
            about: String::new(),
            argument: CHOSEN.to_owned() + &name,
        })
        .collect();
    show(stage, "resume", "Which session? /resume WORDS looks for words", choices);
    Ok(None)
}

fn show<W: Write>(
    stage: &mut Stage<'_, W>,
    command: &str,
    question: &str,
    mut choices: Vec<Choice>,
) {
    // Where there is no key for that, nothing is a choice, too.
    if stage.screen.is_lines_only() && !choices.is_empty() {
        let (about, argument) = (String::new(), String::new());
        choices.push(Choice { label: "Nothing".to_owned(), about, argument });
    }
    if let Some(news) = ask(command, question, &choices) {
        // Whoever has typed a command looks at the screen: no bell.
        let _ = stage.screen.hear(news, stage.now);
    }
}
