//! Tool calls in a few words: what a tool was asked, and what its result was.
//!
//! For lines that a person reads; programs use the input and the result themselves. For an unknown
//! tool, the first argument that is a text is shown.

use std::borrow::Cow;
use std::fmt::Write;

use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Object, Shape};

/// The arguments that describe a call best, by tool.
const TELLING: [(&str, &[&str]); 31] = [
    ("Read", &["file_path"]),
    ("Write", &["file_path"]),
    ("Edit", &["file_path"]),
    ("MultiEdit", &["file_path"]),
    ("NotebookEdit", &["notebook_path"]),
    ("NotebookRead", &["notebook_path"]),
    ("LS", &["path"]),
    ("Glob", &["pattern", "path"]),
    ("Grep", &["pattern", "path"]),
    ("Bash", &["command"]),
    ("PowerShell", &["command"]),
    ("BashOutput", &["bash_id"]),
    ("KillShell", &["shell_id"]),
    ("KillBash", &["shell_id"]),
    ("Task", &["description"]),
    ("Agent", &["description"]),
    ("TaskOutput", &["task_id"]),
    ("TaskStop", &["task_id"]),
    ("TaskCreate", &["subject"]),
    ("TaskUpdate", &["taskId", "status"]),
    ("TaskGet", &["taskId"]),
    ("WebFetch", &["url"]),
    ("WebSearch", &["query"]),
    ("web_search", &["query"]),
    ("Skill", &["skill", "args"]),
    ("SlashCommand", &["command"]),
    ("ToolSearch", &["query"]),
    ("SendMessage", &["to", "message"]),
    ("ExitPlanMode", &[]),
    ("exit_plan_mode", &[]),
    ("LSP", &["operation", "filePath"]),
];

/// What a call asks for, in a few words.
pub fn about(tool: &str, input: Json<'_>) -> String {
    let Some(input) = input.object() else { return String::new() };
    match tool {
        "TodoWrite" => return todos(&input),
        "AskUserQuestion" => {
            let questions = input.get("questions").into_iter().flat_map(Json::elements);
            let texts: Vec<_> = questions.filter_map(|one| one.get("question")?.text()).collect();
            return texts.join(" ");
        }
        _ => {}
    }
    let telling = TELLING.iter().find(|(name, _)| *name == tool).map(|(_, names)| *names);
    let texts: Vec<Cow<'_, str>> = match telling {
        Some(names) => names.iter().filter_map(|name| input.text(name)).collect(),
        None => input.members().filter_map(|(_, value)| value.text()).take(1).collect(),
    };
    texts.join(" ")
}

/// The file that a call reads or writes.
pub fn file<'a>(call: &Block<'a>) -> Option<Cow<'a, str>> {
    let input = call.get("input").filter(|_| call.kind() == BlockKind::ToolUse)?;
    file_in(&input.object()?)
}

/// The file that the input of a call names.
pub(crate) fn file_in<'a>(input: &Object<'a>) -> Option<Cow<'a, str>> {
    let names = ["file_path", "notebook_path", "filePath"];
    names.iter().find_map(|name| input.text(name)).filter(|path| !path.is_empty())
}

fn todos(input: &Object<'_>) -> String {
    let (mut all, mut done, mut now) = (0, 0, None);
    for todo in input.get("todos").into_iter().flat_map(Json::elements) {
        all += 1;
        let status = todo.get("status").and_then(Json::text);
        done += usize::from(status.as_deref() == Some("completed"));
        if status.as_deref() == Some("in_progress") {
            now = now.or_else(|| todo.get("content")?.text());
        }
    }
    let now = now.map(|now| format!(": {now}")).unwrap_or_default();
    format!("{done} of {all} done{now}")
}

/// What a call resulted in, from the client's structured result. `None` if that says no more than
/// the text of the result.
pub fn outcome(tool: &str, result: &Object<'_>) -> Option<String> {
    // What changed in a file is said elsewhere, and its results have all of the file.
    if matches!(tool, "Edit" | "MultiEdit" | "Write") {
        return None;
    }
    let number = |name: &str| result.get(name).and_then(Json::integer);
    match tool {
        "Read" => {
            let file = result.get("file")?.object()?;
            match file.get("numLines").and_then(Json::integer) {
                Some(lines) => Some(plural(lines, "line")),
                None => Some(result.text("type")?.into_owned()),
            }
        }
        "Glob" => number("numFiles").map(|files| plural(files, "file")),
        "Grep" => match result.text("mode").as_deref() {
            Some("content") => number("numLines").map(|lines| plural(lines, "line")),
            Some("count") => number("numMatches").map(|matches| plural(matches, "match")),
            _ => number("numFiles").map(|files| plural(files, "file")),
        },
        "Bash" | "PowerShell" => shell(result),
        "BashOutput" => Some(result.text("status")?.into_owned()),
        "WebSearch" => {
            let results = result.get("results").filter(|json| json.shape() == Shape::Array)?;
            Some(plural(i64::try_from(results.elements().count()).ok()?, "result"))
        }
        "WebFetch" => Some(format!("{} {}", number("code")?, result.text("codeText")?)),
        "Task" | "Agent" => {
            let mut text = match result.text("status").as_deref() {
                Some("async_launched") => return Some("in the background".to_owned()),
                Some("completed") | None => String::new(),
                Some(status) => format!("{status}, "),
            };
            write!(text, "{}", plural(number("totalToolUseCount")?, "call")).ok()?;
            Some(text)
        }
        "AskUserQuestion" => {
            let answers = result.get("answers")?.object()?;
            let texts: Vec<_> = answers.members().filter_map(|(_, answer)| answer.text()).collect();
            Some(texts.join("; "))
        }
        _ => None,
    }
}

/// The outcome of a shell command.
fn shell(result: &Object<'_>) -> Option<String> {
    if let Some(task) = result.text("backgroundTaskId") {
        return Some(format!("in the background as {task}"));
    }
    if result.flag("interrupted") {
        return Some("interrupted".to_owned());
    }
    if let Some(interpretation) = result.text("returnCodeInterpretation") {
        return Some(interpretation.into_owned());
    }
    let lines = |name: &str| result.text(name).map_or(0, |text| text.lines().count());
    let count = lines("stdout") + lines("stderr");
    Some(plural(i64::try_from(count).ok()?, "line"))
}

fn plural(number: i64, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "match") => format!("{number} matches"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
