//! What a call was asked and what it returned, in the form that its tool has.
//!
//! Edits are diffs, commands are terminals, files have line numbers. Invariant: whatever the input
//! and the result of a call are, something of both is shown; a form that does not fit falls back to
//! the JSON and the text.

use std::cell::OnceCell;
use std::fmt::Write;

use maud::{Markup, PreEscaped, html};
use transcript::conversation::diff::Action;
use transcript::conversation::table::BlockId;
use transcript::conversation::view::{Call, FileChange, Piece, size};
use transcript::format::json::{Json, Object};

use crate::draw::{Drawing, Extent, cut_note, prose};
use crate::escape::{T, indented, push, start};
use crate::opened::Flow;
use crate::prose::push_link;
use crate::words::count;

/// How much of a result is shown on a page, and put into a file.
const ON_PAGE: usize = 120_000;
const IN_FILE: usize = 40_000;
/// How many rows of a diff are on a page: each is an element.
const ROWS_ON_PAGE: usize = 1_000;

/// The inside of a call.
pub(crate) fn body(
    drawing: &Drawing<'_>,
    flow: &Flow,
    call: &Call,
    id: Option<BlockId>,
) -> transcript::Result<Markup> {
    let form = Body {
        drawing,
        flow,
        call,
        address: id.map(|id| drawing.part_address(flow, id)),
        input: OnceCell::new(),
        structured: OnceCell::new(),
        text: OnceCell::new(),
    };
    let mut agents = Vec::new();
    for at in &call.started {
        agents.push(drawing.agent(*at)?);
    }
    Ok(html! {
        div.body {
            (form.draw())
            @if call.is_cut() { (cut_note()) }
            @for agent in &agents { (agent) }
        }
    })
}

struct Body<'a, 'd> {
    drawing: &'a Drawing<'d>,
    flow: &'a Flow,
    call: &'a Call,
    /// Where it is on the server.
    address: Option<String>,
    // Without their secrets, from when they are needed: most forms need one of them.
    input: OnceCell<String>,
    structured: OnceCell<Option<String>>,
    text: OnceCell<Option<String>>,
}

impl Body<'_, '_> {
    fn json(&self) -> &str {
        self.input.get_or_init(|| self.drawing.masked_json(self.call.input.as_str()))
    }

    fn input(&self) -> Option<Object<'_>> {
        Object::parse(self.json().as_bytes())
    }

    /// The client's own result.
    fn structured(&self) -> Option<Object<'_>> {
        let json = self.structured.get_or_init(|| {
            let json = self.call.result.as_ref()?.structured.as_ref()?;
            Some(self.drawing.masked_json(json.as_str()))
        });
        Object::parse(json.as_ref()?.as_bytes())
    }

    /// The result, as the model got it.
    fn text(&self) -> Option<&str> {
        let masked = || Some(self.drawing.masked(&self.call.result.as_ref()?.text()));
        self.text.get_or_init(masked).as_deref()
    }

    fn draw(&self) -> Markup {
        if self.call.result.as_ref().is_some_and(|result| result.error) {
            return html! { (self.wanted()) (self.result()) };
        }
        match self.call.tool.as_str() {
            "Bash" | "PowerShell" => html! { (self.command()) (self.result()) },
            "TodoWrite" => self.todos().unwrap_or_else(|| self.plain()),
            "TaskCreate" | "TaskUpdate" => self.one_todo().unwrap_or_else(|| self.plain()),
            "WebSearch" => self.web().unwrap_or_else(|| self.plain()),
            "Glob" | "Grep" | "LS" => html! { (self.asked()) (self.list()) },
            "Task" | "Agent" => html! { (self.task()) (self.prose_result()) },
            "WebFetch" => html! { (self.asked()) (self.prose_result()) },
            "AskUserQuestion" => self.questions().unwrap_or_else(|| self.plain()),
            _ if self.call.plan().is_some() => html! { (self.plan()) (self.result()) },
            _ => match &self.call.file {
                Some(file) if file.action == Action::Read => self.file(&file.path),
                Some(file) => self.change(file),
                None => self.plain(),
            },
        }
    }

    /// What a call that failed was to do.
    fn wanted(&self) -> Markup {
        match self.call.tool.as_str() {
            "Bash" | "PowerShell" => self.command(),
            "TodoWrite" => self.todos().unwrap_or_else(|| self.asked()),
            "TaskCreate" | "TaskUpdate" => self.one_todo().unwrap_or_else(|| self.asked()),
            "Task" | "Agent" => self.task(),
            "AskUserQuestion" => self.questions().unwrap_or_else(|| self.asked()),
            _ if self.call.plan().is_some() => self.plan(),
            _ => match &self.call.attempt() {
                Some(file) => html! {
                    p.addition { "What it was to change; it failed:" }
                    (self.change(file))
                },
                None => self.asked(),
            },
        }
    }

    fn plan(&self) -> Markup {
        let plan = self.drawing.masked(&self.call.plan().unwrap_or_default());
        html! { div.prose { (prose(&plan)) } }
    }

    fn plain(&self) -> Markup {
        html! { (self.asked()) (self.result()) }
    }

    fn text_of(&self, name: &str) -> Option<String> {
        Some(self.input()?.text(name)?.into_owned())
    }

    /// The input: its members that are texts, as texts.
    fn asked(&self) -> Markup {
        let Some(input) = self.input() else {
            let (head, left) = start(self.json(), ON_PAGE);
            return html! { pre.code tabindex="0" { (T(head)) } (Self::unshown(left, self.call.line)) };
        };
        let members: Vec<(String, String)> = input
            .members()
            .map(|(name, value)| {
                let shown = value.text().map_or_else(
                    || indented(&String::from_utf8_lossy(value.raw())),
                    std::borrow::Cow::into_owned,
                );
                (name.into_owned(), shown)
            })
            .collect();
        html! {
            @if !members.is_empty() {
                dl.input {
                    @for (name, value) in &members {
                        dt { (T(name)) }
                        @let (head, left) = start(value, IN_FILE);
                        dd { (T(head)) (Self::unshown(left, self.call.line)) }
                    }
                }
            }
        }
    }

    /// A note that the rest of a text is left out: the record has all of it.
    fn unshown(left: usize, line: u64) -> Markup {
        html! { @if left > 0 { p.addition { (size(left as u64)) " more: in the record on line " (line) } } }
    }

    fn most(&self) -> usize {
        match self.drawing.extent {
            _ if self.drawing.is_file() => IN_FILE,
            Extent::Beginning => ON_PAGE,
            Extent::Whole => usize::MAX,
        }
    }

    /// A note that the rest of a change is left out.
    fn rest(&self, rest: &str) -> Markup {
        html! {
            p.addition {
                @match &self.address {
                    Some(address) if !self.drawing.is_file() => a.more href={ (address) "?all=1" } target="_blank"
                        rel="noopener" { "Show all: " (rest) },
                    _ => { (rest) ": not in this file" }
                }
            }
        }
    }

    /// A note that the rest of the result is left out.
    fn left(&self, left: usize) -> Markup {
        let line = self.call.result.as_ref().map_or(0, |result| result.line);
        html! {
            @if left > 0 {
                p.addition {
                    @if self.drawing.is_file() { (size(left as u64)) " more are not in this file" }
                    @else {
                        a href=(format!("{}text/{}/{line}", self.drawing.base, self.flow.name.text()))
                            target="_blank" rel="noopener" {
                            "Show all: " (size(left as u64)) " more"
                        }
                    }
                }
            }
        }
    }

    /// The result as the output of a terminal.
    fn result(&self) -> Markup {
        let Some(text) = self.text() else { return html! { p.addition { "no result" } } };
        let is_media = |piece: &Piece| matches!(piece, Piece::Media { .. });
        let result = self.call.result.as_ref();
        let has_media = result.is_some_and(|result| result.content.iter().any(is_media));
        let line = result.map_or(0, |result| result.line);
        let (head, left) = start(text.trim_end(), self.most());
        html! {
            @if has_media { (self.drawing.media(self.flow, line)) }
            @if !(head.is_empty() || has_media && head.starts_with('[')) {
                pre.out tabindex="0" { (output(head)) }
            }
            (self.left(left))
        }
    }

    fn prose_result(&self) -> Markup {
        let Some(text) = self.text() else { return html! { p.addition { "no result" } } };
        let (head, left) = start(text, self.most());
        html! { div.prose.result { (prose(head)) } (self.left(left)) }
    }

    fn command(&self) -> Markup {
        let command = self.text_of("command").unwrap_or_default();
        let words = self.text_of("description");
        html! {
            @if let Some(words) = &words { p.addition { (T(words)) } }
            pre.cmd.code data-lang="sh" tabindex="0" { (T(&command)) }
        }
    }

    fn task(&self) -> Markup {
        let prompt = self.text_of("prompt").unwrap_or_default();
        html! { div.prose.task { (prose(&prompt)) } }
    }

    /// A file that was read: the numbers of its lines beside them.
    fn file(&self, path: &str) -> Markup {
        let Some(text) = self.text() else { return self.plain() };
        let (head, left) = start(text, self.most());
        let language = language(path);
        let split: Option<Vec<(&str, &str)>> = head.lines().map(numbered).collect();
        let Some(lines) = split.filter(|lines| !lines.is_empty()) else {
            return html! { (self.result()) };
        };
        let (mut numbers, mut code) = (String::new(), String::new());
        for (number, line) in lines {
            numbers.push_str(number);
            numbers.push('\n');
            push(&mut code, line);
            code.push('\n');
        }
        html! {
            div.file tabindex="0" {
                pre.numbers aria-hidden="true" { (numbers) }
                pre.code data-lang=[language] { (PreEscaped(code)) }
            }
            (self.left(left))
        }
    }

    /// What a call changed in a file.
    fn change(&self, file: &FileChange) -> Markup {
        let language = language(&file.path);
        let is_new = file.action == Action::Created;
        if is_new && file.removed == 0 {
            let lines = file.diff.iter().flat_map(|hunk| hunk.signed().map(|(_, line)| line));
            let text = self.drawing.masked(&lines.collect::<Vec<_>>().join("\n"));
            let (head, left) = start(&text, self.most());
            let count = head.lines().count();
            let numbers =
                (1..=count).fold(String::new(), |all, number| all + &format!("{number}\n"));
            return html! {
                div.file tabindex="0" {
                    pre.numbers aria-hidden="true" { (numbers) }
                    pre.code data-lang=[language] { (T(head)) }
                }
                @if left > 0 { (self.rest(&format!("{} more", size(left as u64)))) }
            };
        }
        let (rows, left) = self.hunks(file);
        html! {
            div.diff tabindex="0" data-lang=[language] { (rows) }
            @if left > 0 { (self.rest(&format!("{} more", count(left, "line")))) }
        }
    }

    /// The rows of a diff, and how many are left out.
    fn hunks(&self, file: &FileChange) -> (Markup, usize) {
        let mut out = String::new();
        let mut left = self.most();
        let is_beginning = !self.drawing.is_file() && self.drawing.extent == Extent::Beginning;
        let most = if is_beginning { ROWS_ON_PAGE } else { usize::MAX };
        let total: usize = file.diff.iter().map(|hunk| hunk.lines.len()).sum();
        let mut rows = 0;
        for hunk in &file.diff {
            // A secret may have several lines.
            let all: Vec<&str> = hunk.lines.iter().map(String::as_str).collect();
            let text = self.drawing.masked(&all.join("\n"));
            let [mut old, mut new] = hunk.start.unwrap_or([0, 0]);
            if let Some([from, to]) = hunk.start {
                let _ = write!(out, "<span class=\"hunk\">@@ -{from} +{to} @@</span>");
            } else if !out.is_empty() {
                out.push_str("<span class=\"hunk\">@@</span>");
            }
            for line in text.split('\n') {
                if line.len() > left || rows >= most {
                    return (PreEscaped(out), total.saturating_sub(rows).max(1));
                }
                left -= line.len();
                rows += 1;
                let sign = line.chars().next().filter(|c| matches!(c, ' ' | '+' | '-' | '\\'));
                let rest = sign.map_or(line, |sign| &line[sign.len_utf8()..]);
                let (tag, number) = match sign {
                    Some('+') => ("ins", new),
                    Some('-') => ("del", old),
                    _ => ("span", new),
                };
                old += u64::from(sign != Some('+'));
                new += u64::from(sign != Some('-'));
                let _ = write!(out, "<{tag}");
                if hunk.start.is_some() {
                    let _ = write!(out, " data-n=\"{number}\"");
                }
                out.push('>');
                push(&mut out, rest);
                let _ = write!(out, "</{tag}>");
            }
        }
        (PreEscaped(out), 0)
    }

    /// Files or lines that were found.
    fn list(&self) -> Markup {
        let Some(text) = self.text() else { return self.result() };
        let (head, left) = start(text.trim_end(), self.most());
        let mut out = String::new();
        for (number, line) in head.lines().enumerate() {
            let parts: Vec<&str> = line.splitn(3, ':').collect();
            match parts[..] {
                [path, at, found] if number < 300 && at.parse::<u32>().is_ok() => {
                    out.push_str("<b>");
                    push(&mut out, path);
                    out.push_str("</b>:");
                    out.push_str(at);
                    out.push(':');
                    push(&mut out, found);
                }
                _ => push(&mut out, line),
            }
            out.push('\n');
        }
        html! { pre.out.list tabindex="0" { (PreEscaped(out)) } (self.left(left)) }
    }

    /// A todo list, and what changed in it.
    fn todos(&self) -> Option<Markup> {
        let list = |object: &Object<'_>, name: &str| -> Option<Vec<[String; 2]>> {
            let todos = object.get(name)?.elements().filter_map(|todo| {
                let text = |name: &str| Some(todo.get(name)?.text()?.into_owned());
                Some([text("content")?, text("status").unwrap_or_default()])
            });
            Some(todos.collect())
        };
        let todos = list(&self.input()?, "todos").filter(|todos| !todos.is_empty())?;
        let old = self.structured().and_then(|result| list(&result, "oldTodos"));
        let old = old.unwrap_or_default();
        let change = |[content, status]: &[String; 2]| {
            let before = old.iter().find(|one| one[0] == *content).map(|one| one[1].as_str());
            match (before, status.as_str()) {
                (Some(before), status) if before == status => "",
                (_, "completed") => "done now",
                (_, "in_progress") => "begun now",
                (None, _) if !old.is_empty() => "new",
                _ => "",
            }
        };
        Some(html! {
            ul.todos {
                @for todo in &todos {
                    @let (class, mark) = mark(&todo[1]);
                    li.(class) { (mark) " " (T(&todo[0])) @let news = change(todo); @if !news.is_empty() { " "
                        span.news { (news) } } }
                }
                @for gone in old.iter().filter(|one| !todos.iter().any(|todo| todo[0] == one[0])) {
                    li.gone { "☒ " s { (T(&gone[0])) } " " span.news { "removed" } }
                }
            }
        })
    }

    /// A thing to do that was added or changed by itself, as newer clients do it.
    fn one_todo(&self) -> Option<Markup> {
        let result = self.structured();
        let made = result.as_ref().and_then(|result| result.get("task")?.object());
        let in_made = |name: &str| Some(made.as_ref()?.text(name)?.into_owned());
        let number = self.text_of("taskId").or_else(|| in_made("id"));
        let subject = self.text_of("subject").or_else(|| in_made("subject"));
        let change = result.as_ref().and_then(|result| result.get("statusChange")?.object());
        let before = change.as_ref().and_then(|change| Some(change.text("from")?.into_owned()));
        let status = self.text_of("status");
        if number.is_none() && subject.is_none() {
            return None;
        }
        let (class, mark) = mark(status.as_deref().unwrap_or_default());
        let is_new = self.call.tool == "TaskCreate";
        Some(html! {
            ul.todos {
                li.(class) {
                    (mark) " "
                    @if let Some(number) = &number { "#" (T(number)) " " }
                    @if let Some(subject) = &subject { (T(subject)) " " }
                    @if is_new { span.news { "new" } }
                    @if let Some(status) = &status {
                        span.news { @if let Some(before) = &before { (T(before)) " → " } (T(status)) }
                    }
                }
            }
            @if let Some(words) = self.text_of("description") { div.prose { (prose(&words)) } }
        })
    }

    /// The results of a web search.
    fn web(&self) -> Option<Markup> {
        let results = self.structured()?.get("results")?;
        let mut out = String::new();
        let mut texts = Vec::new();
        let line = self.call.result.as_ref().map_or(0, |result| result.line);
        for result in results.elements() {
            if let Some(text) = result.text() {
                texts.push(text.into_owned());
                continue;
            }
            for hit in result.get("content").into_iter().flat_map(Json::elements) {
                let text = |name: &str| Some(hit.get(name)?.text()?.into_owned());
                out.push_str("<li>");
                push(&mut out, &text("title").unwrap_or_default());
                out.push_str(" <span class=\"url\">");
                push_link(&mut out, &text("url").unwrap_or_default());
                out.push_str("</span></li>");
            }
        }
        Some(html! {
            (self.asked())
            ul.hits { (PreEscaped(out)) }
            @for text in &texts {
                @let (head, left) = start(text, self.most());
                div.prose { (prose(head)) } (Self::unshown(left, line))
            }
        })
    }

    /// Questions with their options, and the answers.
    fn questions(&self) -> Option<Markup> {
        let questions = self.input()?.get("questions")?;
        let is_error = self.call.result.as_ref().is_some_and(|result| result.error);
        let answers = self.structured().and_then(|result| result.get("answers")?.object());
        let mut drawn = Vec::new();
        for question in questions.elements() {
            let text = question.get("question")?.text()?.into_owned();
            let options: Vec<String> = question
                .get("options")
                .into_iter()
                .flat_map(Json::elements)
                .filter_map(|one| Some(one.get("label")?.text()?.into_owned()))
                .collect();
            let answer = answers.as_ref().and_then(|all| Some(all.text(&text)?.into_owned()));
            drawn.push((text, options, answer));
        }
        Some(html! {
            @for (text, options, answer) in &drawn {
                p { strong { (T(text)) } }
                ul { @for option in options { li { (T(option)) } } }
                @if let Some(answer) = answer { p { "Answer: " (T(answer)) } }
            }
            @if answers.is_none() && !is_error { (self.result()) }
        })
    }
}

/// How a thing to do is shown, by its status.
fn mark(status: &str) -> (&'static str, &'static str) {
    match status {
        "completed" => ("done", "☑"),
        "in_progress" => ("now", "▶"),
        "deleted" => ("gone", "☒"),
        _ => ("open", "☐"),
    }
}

/// Output of a terminal, masked already.
fn output(text: &str) -> Markup {
    let mut out = String::new();
    crate::ansi::push_output(&mut out, text);
    PreEscaped(out)
}

/// A line of a file as the client numbers it: `   12→text`.
fn numbered(line: &str) -> Option<(&str, &str)> {
    let trimmed = line.trim_start_matches(' ');
    let end = trimmed.find(|c: char| !c.is_ascii_digit())?;
    let rest = &trimmed[end..];
    let text = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'))?;
    (end > 0).then_some((&trimmed[..end], text))
}

/// The language of a file, by the end of its name; the script knows these names.
fn language(path: &str) -> Option<String> {
    let end = path.rsplit_once('.')?.1.to_ascii_lowercase();
    let is_plain = end.len() < 8 && end.chars().all(|c| c.is_ascii_alphanumeric());
    is_plain.then_some(end)
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
