//! Goes back to an earlier prompt: which one, what that would change, and what goes back.
//!
//! The session is asked as a host would ask it, and its answers become questions to the user.
//! Invariants: nothing goes back before the user has seen what would change; what someone else
//! changed is overwritten only if the user chooses that.

use ::console::News;
use ::console::question::{Answer, Question};
use ::console::text::{Line, line, look, output_lines};
use agent::drive::{Note, Said};
use serde_json::{Value, json};

use crate::text::{count, printable};

/// How the ids of these requests begin.
const MINE: &str = "console-rewind";
/// How many prompts are offered.
const MOST: usize = 30;
/// How much of a prompt is shown.
const WIDTH: usize = 60;

/// What the session says that takes no images.
const NO_IMAGES: &str = "File rewinding is not enabled.";

const BOTH: &str = "Files and conversation";
const FILES: &str = "Only files";
const CONVERSATION: &str = "Only the conversation";
const FORCE: &str = "Files and conversation, over what others changed";
const SUMMARY: &str = "Only a summary of what followed; files stay";
const BEFORE: &str = "Nothing; what came before is summed up, from the records";
const NOTHING: &str = "Nothing";
/// The step after which nothing is said.
const UNSAID: &str = "unsaid";

fn request(step: &str, request: &Value) -> Note {
    let id = format!("{MINE} {step}");
    Note::Control(json!({"type": "control_request", "request_id": id, "request": request}))
}

/// Asks the session for its prompts.
pub(super) fn begin() -> Note {
    request("points", &json!({"subtype": "rewind_points"}))
}

/// The conversation goes on before a prompt of which nothing came.
pub(super) fn unsaid(id: &str) -> Note {
    rewind(UNSAID, id, "conversation", &[])
}

/// What the user sees of an answer of the session; None if it is about something else.
pub(super) fn heard(answer: &Value) -> Option<Vec<News>> {
    let response = &answer["response"];
    let step = response["request_id"].as_str()?.strip_prefix(MINE)?.trim_start();
    let body = &response["response"];
    let (step, rest) = step.split_once(' ').unwrap_or((step, ""));
    if step == UNSAID {
        return Some(vec![News::Shortened]);
    }
    if let Some(error) = response["error"].as_str() {
        return Some(match step {
            // The conversation can go back without files.
            "plan" => {
                let choices = [CONVERSATION, SUMMARY, BEFORE, NOTHING];
                let choices = choices.map(|label| json!({"label": label}));
                let step = format!("plan {rest}");
                let question = question(&step, "What goes back?", &choices, &Value::Null);
                let mut text = error.to_owned();
                if error == NO_IMAGES {
                    text +=
                        " From outside, `quipu rewind --files` puts back what edit tools changed.";
                }
                vec![News::Notice(text), question]
            }
            _ => vec![News::Notice(error.to_owned())],
        });
    }
    Some(match step {
        "points" => points(body),
        "plan" => plan(body, rest),
        _ => done(body, rest),
    })
}

fn question(step: &str, text: &str, options: &[Value], more: &Value) -> News {
    let asked = json!({"question": text, "options": options});
    News::Ask(Box::new(Question {
        request: format!("{MINE} {step}"),
        tool: "AskUserQuestion".to_owned(),
        input: json!({"questions": [asked], "is_closed": true, "more": more}),
        ..Question::default()
    }))
}

/// Which prompt, the last one first.
fn points(body: &Value) -> Vec<News> {
    let points: Vec<&Value> = body["points"].as_array().into_iter().flatten().rev().collect();
    if points.is_empty() {
        let text = "there is no prompt to go back to";
        return vec![News::Lines(vec![line(look::DIM, text)])];
    }
    let short = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(WIDTH) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    let shown = points.iter().take(MOST).zip((1..=points.len()).rev());
    let options = shown.map(|(point, number)| {
        let text = short(point["text"].as_str().unwrap_or_default());
        json!({"label": format!("#{number} {text}")})
    });
    let ids: Vec<&Value> = points.iter().map(|point| &point["user_message_id"]).collect();
    let options: Vec<Value> = options.chain([json!({"label": NOTHING})]).collect();
    vec![question("points", "Go back to before which prompt?", &options, &json!(ids))]
}

/// What would change, and what goes back.
fn plan(body: &Value, id: &str) -> Vec<News> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    let files = body["filesChanged"].as_array().map_or(0, Vec::len);
    let of_git = body["filesOfGit"].as_u64().unwrap_or(0);
    let diff = body["diff"].as_str().unwrap_or_default();
    for text in output_lines(diff) {
        let style = match text.as_bytes().first() {
            Some(b'+') => look::GOOD,
            Some(b'-') => look::BAD,
            _ => look::DIM,
        };
        lines.push(line(style, &text));
    }
    if of_git > 0 {
        lines.push(line(look::DIM, &format!("{} of git", count(of_git, "file"))));
    }
    for path in body["notCovered"].as_array().into_iter().flatten() {
        let text = format!("stays as it is: {}", printable(path.as_str().unwrap_or_default()));
        lines.push(line(look::WARN, &text));
    }
    match body["withoutImages"].as_u64().unwrap_or(0) {
        0 => {}
        turns => lines.push(line(
            look::WARN,
            &format!(
                "there are no images of {}: only files that edit tools changed then are put back, \
                 and what commands changed then is not undone",
                count(turns, "turn")
            ),
        )),
    }
    let mut choices = vec![CONVERSATION];
    if let Some(error) = body["error"].as_str() {
        lines.push(line(look::WARN, &format!("files cannot be put back: {}", printable(error))));
        choices.push(FORCE);
    } else if files > 0 || of_git > 0 {
        choices = vec![BOTH, CONVERSATION, FILES];
    } else {
        lines.push(line(look::DIM, "no file has to be changed"));
    }
    choices.extend([SUMMARY, BEFORE, NOTHING]);
    let options: Vec<Value> = choices.iter().map(|label| json!({"label": label})).collect();
    let step = format!("plan {id}");
    vec![News::Lines(lines), question(&step, "What goes back?", &options, &Value::Null)]
}

/// What has gone back.
fn done(body: &Value, what: &str) -> Vec<News> {
    if let Some(error) = body["error"].as_str() {
        return vec![News::Notice(format!("nothing was rewound: {}", printable(error)))];
    }
    let mut news = Vec::new();
    if what != "conversation" {
        let text = "the files are as they were before this prompt; `quipu undo` takes that back";
        news.push(News::Lines(vec![line(look::DIM, text)]));
    }
    if what != "files" {
        let text = "the conversation goes on before this prompt; nothing is written until the next";
        news.push(News::Lines(vec![line(look::DIM, text)]));
        news.push(News::Write(body["prompt"].as_str().unwrap_or_default().to_owned()));
        news.push(News::Shortened);
    }
    news
}

/// What follows from an answer of the user.
pub(super) enum Consequence {
    /// The session gets these.
    Notes(Vec<Note>),
    /// What came before this prompt is summed up.
    SumUpBefore(String),
}

/// What follows from an answer of the user; None if the question was another one.
pub(super) fn answered(question: &Question, answer: &Answer) -> Option<Consequence> {
    let step = question.request.strip_prefix(MINE)?.trim_start();
    Some(match (step.strip_prefix("plan "), answer) {
        (Some(id), Answer::Chosen(chosen)) if chosen.iter().any(|(_, label)| label == BEFORE) => {
            Consequence::SumUpBefore(id.to_owned())
        }
        (_, Answer::Chosen(chosen)) => {
            let label = chosen.first().map(|(_, label)| label.as_str()).unwrap_or_default();
            Consequence::Notes(notes(step, label, question))
        }
        _ => Consequence::Notes(Vec::new()),
    })
}

/// What the session gets once the user has chosen.
fn notes(step: &str, label: &str, question: &Question) -> Vec<Note> {
    let options = question.input["questions"][0]["options"].as_array();
    if step == "points" {
        let at = options.into_iter().flatten().position(|option| option["label"] == label);
        let id = at.and_then(|at| question.input["more"][at].as_str());
        let plan = id.map(|id| rewind(&format!("plan {id}"), id, "both", &["dry_run"]));
        return plan.into_iter().collect();
    }
    let Some(id) = step.strip_prefix("plan ") else { return Vec::new() };
    let (what, flags): (&str, &[&str]) = match label {
        BOTH => ("both", &[]),
        FILES => ("files", &[]),
        CONVERSATION => ("conversation", &[]),
        FORCE => ("both", &["force"]),
        SUMMARY => return vec![Note::Say(Said::compact_since(id))],
        _ => return Vec::new(),
    };
    vec![rewind(&format!("done {what}"), id, what, flags)]
}

fn rewind(step: &str, id: &str, what: &str, flags: &[&str]) -> Note {
    let mut wanted = json!({"subtype": "rewind", "user_message_id": id, "what": what});
    for flag in flags {
        wanted[*flag] = true.into();
    }
    request(step, &wanted)
}
