//! The types of attachments that clients create a text for, and the session's content in it.
//!
//! Observed with the cases `kind_*` of the fixtures. A type that is not here is never sent, unless
//! the file says how it was.

use super::listed::VersionChange;
use crate::format::content::{BlockKind, blocks};
use crate::format::json::{Json, Object, quote};

/// A text or an image of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The session's content.
    Text(String),
    /// A block with an image.
    Image(Vec<u8>),
}

/// Which types a version knows: the version of the last change of [`KINDS`] up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Known([u32; 3]);

/// A type of attachments.
struct Kind {
    name: &'static str,
    /// The first version that sends it, and the first one that no longer does.
    since: [u32; 3],
    until: [u32; 3],
    /// Models that accept the role `system` are not sent it from this version on.
    until_system: [u32; 3],
    /// The first version that sends the content that is sent today.
    as_today: [u32; 3],
    /// A case that shows all of these, if there are any.
    case: &'static str,
}

const FIRST: [u32; 3] = [0; 3];
const ALWAYS: [u32; 3] = [u32::MAX; 3];

const fn kind(name: &'static str) -> Kind {
    Kind { name, since: FIRST, until: ALWAYS, until_system: ALWAYS, as_today: FIRST, case: "" }
}

const fn since(name: &'static str, since: [u32; 3], case: &'static str) -> Kind {
    Kind { since, case, ..kind(name) }
}

const KINDS: &[Kind] = &[
    since("agent_listing_delta", [2, 1, 84], "kind_agents_sonnet45"),
    kind("agent_mention"),
    kind("async_hook_response"),
    kind("budget_usd"),
    kind("compact_file_reference"),
    kind("critical_system_reminder"),
    since("date_change", [2, 1, 42], "att_date_opus46"),
    since("deferred_tools_delta", [2, 1, 69], "kind_tools_sonnet45"),
    kind("diagnostics"),
    Kind { as_today: [2, 1, 86], case: "kind_directory_sonnet45", ..kind("directory") },
    kind("edited_text_file"),
    kind("file"),
    kind("hook_additional_context"),
    kind("hook_blocking_error"),
    kind("hook_stopped_continuation"),
    kind("hook_success"),
    kind("invoked_skills"),
    since("mcp_instructions_delta", [2, 1, 70], "kind_servers_sonnet45"),
    kind("mcp_resource"),
    kind("nested_memory"),
    kind("opened_file_in_ide"),
    kind("output_style"),
    since("pdf_reference", [2, 1, 30], "kind_pdf_sonnet45"),
    kind("plan_file_reference"),
    kind("plan_mode"),
    kind("plan_mode_exit"),
    kind("plan_mode_reentry"),
    Kind { as_today: [2, 0, 77], case: "kind_queued_image_sonnet45", ..kind("queued_command") },
    since("read_truncation_notice", [2, 1, 205], "kind_read_notice_sonnet45"),
    since("relevant_memories", [2, 1, 45], "kind_memories_sonnet45"),
    kind("selected_lines_in_ide"),
    since("silent_turn_reminder", [2, 1, 236], "kind_silent_sonnet45"),
    since("skill_listing", [2, 1, 23], "kind_skills_sonnet45"),
    Kind {
        until_system: [2, 1, 233],
        ..since("task_reminder", [2, 1, 142], "kind_task_full_opus5")
    },
    Kind { as_today: [2, 1, 83], case: "kind_task_status_sonnet45", ..kind("task_status") },
    Kind { until: [2, 1, 63], case: "kind_todo_sonnet45", ..kind("todo") },
    Kind { until: [2, 1, 233], case: "kind_todo_full_sonnet45", ..kind("todo_reminder") },
    kind("token_usage"),
    since("total_tokens_reminder", [2, 1, 176], "att_tokens_sonnet45"),
    since("ultrathink_effort", [2, 1, 68], "kind_ultra_sonnet45"),
    Kind { until: [2, 1, 83], case: "kind_context_files_sonnet45", ..kind("ultramemory") },
    Kind {
        until: [2, 1, 187],
        ..since("verify_plan_reminder", [2, 1, 2], "kind_verify_plan_sonnet45")
    },
];

/// Which types a version knows.
pub(super) fn known(version: [u32; 3]) -> Known {
    let changes =
        KINDS.iter().flat_map(|kind| [kind.since, kind.until, kind.until_system, kind.as_today]);
    Known(changes.filter(|at| *at <= version).max().unwrap_or(FIRST))
}

/// What changed between versions.
pub(super) fn changes() -> Vec<VersionChange> {
    let of = |Kind { name, since, until, until_system, as_today, case }: &Kind| {
        let sent = format!("attachments of the type `{name}`");
        [
            (*since, format!("{sent} are sent")),
            (*until, format!("{sent} are no longer sent")),
            (*until_system, format!("{sent} are no longer sent to models that accept `system`")),
            (*as_today, format!("{sent} are sent as today")),
        ]
        .map(|(at, what)| VersionChange::new(at, what, case))
    };
    let all = KINDS.iter().flat_map(of);
    all.filter(|one| one.since != FIRST && one.since != ALWAYS).collect()
}

impl Kind {
    fn is_sent(&self, Known(at): Known) -> bool {
        (self.since..self.until).contains(&at)
    }
}

/// The parts of an attachment that are sent, none if the type is not sent; the type; and whether
/// models that accept the role `system` are not sent them.
pub(super) fn parts(
    name: &str,
    attachment: &Object<'_>,
    known: Known,
) -> (Vec<Part>, Option<&'static str>, bool) {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    match kind.filter(|kind| kind.is_sent(known)) {
        Some(kind) => {
            let parts = parts_of(name, attachment, kind.as_today > known.0);
            (parts, Some(kind.name), kind.until_system <= known.0)
        }
        None => (Vec::new(), None, false),
    }
}

/// `is_old`: as they were before the last change of that type.
fn parts_of(name: &str, attachment: &Object<'_>, is_old: bool) -> Vec<Part> {
    let get = |path: &[&str]| words(attachment, path);
    let has = |name, raw: &[u8]| attachment.get(name).is_some_and(|value| value.raw() == raw);
    let one = |paths: &[&[&str]]| {
        let texts: Vec<String> = paths.iter().map(|path| get(path)).collect();
        vec![Part::Text(texts.join("\n"))]
    };
    match name {
        "agent_listing_delta" | "deferred_tools_delta" => one(&[&["addedLines"]]),
        "agent_mention" => one(&[&["agentType"]]),
        "async_hook_response" => {
            let context = ["response", "hookSpecificOutput", "additionalContext"];
            let texts = [get(&["response", "systemMessage"]), get(&context)];
            texts.into_iter().filter(|text| !text.is_empty()).map(Part::Text).collect()
        }
        "budget_usd" | "token_usage" => one(&[&["used"], &["total"], &["remaining"]]),
        "compact_file_reference" | "opened_file_in_ide" | "pdf_reference" => one(&[&["filename"]]),
        "critical_system_reminder"
        | "hook_additional_context"
        | "skill_listing"
        | "ultramemory" => one(&[&["content"]]),
        "date_change" => one(&[&["newDate"]]),
        "diagnostics" => vec![Part::Text(diagnostics(attachment))],
        "directory" => {
            let content = get(&["content"]);
            let content = if is_old { quote(&content) } else { content };
            vec![Part::Text(get(&["path"])), Part::Text(content)]
        }
        "edited_text_file" => one(&[&["filename"], &["snippet"]]),
        "file" => file(attachment),
        "hook_blocking_error" => one(&[&["blockingError", "blockingError"]]),
        "hook_stopped_continuation" => one(&[&["message"]]),
        "hook_success" => {
            let event = get(&["hookEvent"]);
            let is_sent = matches!(event.as_str(), "SessionStart" | "UserPromptSubmit")
                && !get(&["content"]).is_empty();
            if is_sent { one(&[&["content"]]) } else { Vec::new() }
        }
        "invoked_skills" => vec![Part::Text(each(attachment, "skills", &["path", "content"]))],
        "mcp_instructions_delta" => one(&[&["addedBlocks"]]),
        // What it is, its text, and what to do with it.
        "mcp_resource" => {
            ["", &resource(attachment), ""].map(|text| Part::Text(text.into())).into()
        }
        "nested_memory" => one(&[&["path"], &["content", "content"]]),
        "output_style" => one(&[&["style"]]),
        "plan_file_reference" => one(&[&["planFilePath"], &["planContent"]]),
        "plan_mode_exit" if has("planExists", b"false") => one(&[]),
        "plan_mode" | "plan_mode_exit" | "plan_mode_reentry" => one(&[&["planFilePath"]]),
        "queued_command" => queued(attachment, is_old),
        "read_truncation_notice" => one(&[&["banner"]]),
        "relevant_memories" => vec![Part::Text(each(attachment, "memories", &["path", "content"]))],
        "selected_lines_in_ide" => one(&[&["filename"], &["content"]]),
        "silent_turn_reminder" | "total_tokens_reminder" => one(&[&["text"]]),
        "task_reminder" => vec![Part::Text(each(attachment, "content", &["subject"]))],
        "task_status" if is_old => {
            one(&[&["taskId"], &["taskType"], &["status"], &["description"]])
        }
        "task_status" => one(&[&["taskId"], &["description"], &["status"], &["outputFilePath"]]),
        "todo" => {
            let names = ["content", "status", "activeForm"];
            vec![Part::Text(each(attachment, "content", &names))]
        }
        "todo_reminder" => vec![Part::Text(each(attachment, "content", &["content"]))],
        "ultrathink_effort" | "verify_plan_reminder" => one(&[]),
        _ => Vec::new(),
    }
}

/// The text, the numbers or the list of texts under these members.
fn words(object: &Object<'_>, path: &[&str]) -> String {
    let mut found = path.first().and_then(|name| object.get(name));
    for name in path.iter().skip(1) {
        found = found.and_then(|value| value.get(name));
    }
    found.map(text).unwrap_or_default()
}

fn text(value: Json<'_>) -> String {
    if let Some(text) = value.text() {
        return text.into_owned();
    }
    if value.object().is_some() {
        return String::new();
    }
    let parts: Vec<String> = value.elements().map(text).collect();
    if parts.is_empty() {
        return String::from_utf8_lossy(value.raw()).trim_matches(['[', ']']).to_owned();
    }
    parts.join("\n")
}

/// These members of every element of a list.
fn each(object: &Object<'_>, list: &str, names: &[&str]) -> String {
    let elements = object.get(list).into_iter().flat_map(Json::elements);
    let texts = elements
        .filter_map(Json::object)
        .flat_map(|one| names.iter().map(|name| words(&one, &[name])).collect::<Vec<_>>());
    texts.collect::<Vec<_>>().join("\n")
}

fn diagnostics(attachment: &Object<'_>) -> String {
    let files = attachment.get("files").into_iter().flat_map(Json::elements);
    let files = files.filter_map(Json::object).map(|file| {
        let uri = words(&file, &["uri"]);
        let name = uri.rsplit('/').next().unwrap_or_default().to_owned();
        format!("{name}\n{}", each(&file, "diagnostics", &["message", "source"]))
    });
    files.collect::<Vec<_>>().join("\n")
}

fn resource(attachment: &Object<'_>) -> String {
    let content = attachment.get("content").and_then(Json::object);
    content.map(|content| each(&content, "contents", &["text"])).unwrap_or_default()
}

/// What the client says about a file that the user named, as if it had been read.
fn file(attachment: &Object<'_>) -> Vec<Part> {
    let name = Part::Text(words(attachment, &["filename"]));
    let Some(file) = attachment.get("content").and_then(|content| content.get("file")) else {
        return vec![name];
    };
    let Some(file) = file.object() else { return vec![name] };
    let base64 = words(&file, &["base64"]);
    if !base64.is_empty() {
        return vec![name, image(&words(&file, &["type"]), &base64)];
    }
    let start = words(&file, &["startLine"]).parse().unwrap_or(1);
    let content = words(&file, &["content"]);
    let lines: Vec<String> = content
        .split('\n')
        .zip(start..)
        .map(|(line, number): (_, u64)| format!("{number}\t{line}"))
        .collect();
    let mut parts = vec![name.clone(), Part::Text(lines.join("\n"))];
    if attachment.get("truncated").is_some_and(|value| value.raw() == b"true") {
        parts.push(name);
    }
    parts
}

/// What the user typed while the model was working; `is_old`: without the images in it.
fn queued(attachment: &Object<'_>, is_old: bool) -> Vec<Part> {
    let Some(prompt) = attachment.get("prompt") else { return Vec::new() };
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for block in blocks(prompt) {
        // Whatever else a file has here is not sent: a call or a result would be taken for one.
        match (block.text(), block.kind()) {
            (Some(text), _) => texts.push(text.into_owned()),
            (None, BlockKind::Image) if !is_old => {
                images.push(Part::Image(block.json().raw().to_vec()));
            }
            (None, _) => {}
        }
    }
    let mut parts = vec![Part::Text(texts.join("\n"))];
    parts.append(&mut images);
    parts
}

fn image(media_type: &str, base64: &str) -> Part {
    let (media_type, data) = (quote(media_type), quote(base64));
    let source = format!(r#"{{"type":"base64","media_type":{media_type},"data":{data}}}"#);
    Part::Image(format!(r#"{{"type":"image","source":{source}}}"#).into_bytes())
}
