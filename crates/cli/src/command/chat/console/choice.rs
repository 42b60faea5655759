//! A choice of a command of the console, such as of a model: a list to choose from, whose answer is
//! the same command with an argument.

use ::console::News;
use ::console::question::{Answer, Question};
use serde_json::{Value, json};

/// How the ids of these questions begin.
const MINE: &str = "console-choice ";

/// One that can be chosen: what is shown, and the argument that it stands for; an empty one stands
/// for nothing.
pub(super) struct Choice {
    pub(super) label: String,
    pub(super) about: String,
    pub(super) argument: String,
}

/// Asks which one; None if there are none.
pub(super) fn ask(command: &str, question: &str, choices: &[Choice]) -> Option<News> {
    let options: Vec<Value> = choices
        .iter()
        .map(|choice| json!({"label": choice.label, "description": choice.about}))
        .collect();
    let arguments: Vec<&str> = choices.iter().map(|choice| choice.argument.as_str()).collect();
    let asked = json!({"question": question, "options": options});
    let question = Question {
        request: format!("{MINE}{command}"),
        tool: "AskUserQuestion".to_owned(),
        input: json!({"questions": [asked], "is_closed": true, "more": arguments}),
        ..Question::default()
    };
    (!choices.is_empty()).then(|| News::Ask(Box::new(question)))
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// This command, with this argument.
    Command(String, String),
    Nothing,
}

/// What follows from an answer; None if the question was another one.
pub(super) fn answered(question: &Question, answer: &Answer) -> Option<Chosen> {
    let command = question.request.strip_prefix(MINE)?;
    let Answer::Chosen(chosen) = answer else { return Some(Chosen::Nothing) };
    let label = chosen.first().map(|(_, label)| label.as_str()).unwrap_or_default();
    let options = question.input["questions"][0]["options"].as_array();
    let at = options.into_iter().flatten().position(|option| option["label"] == label);
    let argument = at.and_then(|at| question.input["more"][at].as_str());
    Some(match argument.unwrap_or_default() {
        "" => Chosen::Nothing,
        argument => Chosen::Command(command.to_owned(), argument.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_command() {
        let choice = |label: &str, argument: &str| Choice {
            label: label.to_owned(),
            about: String::new(),
            argument: argument.to_owned(),
        };
        assert!(ask("model", "Which?", &[]).is_none());
        let asked =
            ask("model", "Which?", &[choice("one", "1"), choice("two", "2"), choice("no", "")]);
        let Some(News::Ask(question)) = asked else { panic!("{asked:?}") };
        let chosen = |label: &str| {
            let chosen = vec![("Which?".to_owned(), label.to_owned())];
            answered(&question, &Answer::Chosen(chosen))
        };
        let two = Chosen::Command("model".to_owned(), "2".to_owned());
        assert_eq!(chosen("two"), Some(two));
        for label in ["no", "three"] {
            assert_eq!(chosen(label), Some(Chosen::Nothing));
        }
        assert_eq!(answered(&question, &Answer::No), Some(Chosen::Nothing));
        assert_eq!(answered(&Question::default(), &Answer::No), None);
    }
}
