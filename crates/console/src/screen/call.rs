//! Calls: while they run, and what is printed of them afterwards.
//!
//! Invariant: what is folded away is counted, and Ctrl-O prints it.

use std::time::Duration;

use serde_json::Value;
use transcript::conversation::tool;
use transcript::format::json::{Json, Object};

use crate::diff;
use crate::text::{Line, Span, columns, exact, fit, look, output_lines, plain_lines, safe};

/// How many lines of output are printed of a call that went well.
const OUTPUT: usize = 4;
/// And of one that failed.
const TROUBLE: usize = 10;
/// How many lines of a diff.
const DIFF: usize = 40;
/// How many lines of output are shown while it runs.
const LIVE: usize = 3;
/// How many columns of a call itself are printed.
const WORDS: usize = 240;

/// A call that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
    pub(super) since: Duration,
    pub(super) output: String,
    /// The call in a few words.
    words: String,
    /// All of it, if these are not.
    whole: Vec<String>,
}

/// What is printed of a call, and what is folded away.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) folded: Vec<Line<'static>>,
    /// The call, if the first line does not have all of it.
    pub(super) whole: Vec<Line<'static>>,
    /// Whether the last line says how much is folded away.
    is_counted: bool,
    /// Whether the lines below the first are changes of a file.
    is_change: bool,
}

impl Running {
    /// A call that begins; paths are shown from the folder `place` on.
    pub(super) fn new(
        id: String,
        name: String,
        input: Value,
        place: &str,
        now: Duration,
    ) -> Running {
        let json = input.to_string();
        let about = Json::parse(json.as_bytes()).map(|input| tool::about(&name, input));
        let about = about.unwrap_or_default();
        let first = about.lines().next().unwrap_or_default();
        let more = if about.lines().count() > 1 { " …" } else { "" };
        // A command is shown as it is.
        let is_command = input.get("command").is_some();
        let first = if is_command { first.to_owned() } else { below(first, place) };
        let words = format!("{}({}{more})", safe(&name), exact(&first));
        let is_all = more.is_empty() && columns(&words) <= WORDS;
        let whole = if is_all { Vec::new() } else { about.lines().map(exact).collect() };
        let words = fit(&words, WORDS);
        Running { id, name, input, since: now, output: String::new(), words, whole }
    }

    /// The call in a few words.
    pub(super) fn words(&self) -> String {
        self.words.clone()
    }

    /// The rows while it runs.
    pub(super) fn rows(&self, width: usize, now: Duration) -> Vec<Line<'static>> {
        let seconds = now.saturating_sub(self.since).as_secs();
        let time = if seconds > 0 { format!("  {seconds}s") } else { String::new() };
        let words = fit(&self.words(), width.saturating_sub(time.len() + 3));
        let mut rows = vec![Line::from(vec![
            Span::styled("○ ", look::ACCENT),
            Span::raw(words),
            Span::styled(time, look::DIM),
        ])];
        let lines = output_lines(&self.output);
        for line in &lines[lines.len().saturating_sub(LIVE)..] {
            rows.push(Line::from(Span::styled(fit(&format!("  {line}"), width), look::DIM)));
        }
        rows
    }

    /// What is printed when it has its result.
    pub(super) fn finished(&self, is_error: bool, text: &str, detail: &Value) -> Shown {
        let (mark, style) = if is_error { ("✗ ", look::BAD) } else { ("● ", look::GOOD) };
        let structured = detail.to_string();
        let outcome =
            Object::parse(structured.as_bytes()).and_then(|json| tool::outcome(&self.name, &json));
        let mut head = Line::from(vec![Span::styled(mark, style), Span::raw(self.words())]);
        let whole = self.whole.iter().map(|line| Line::from(Span::raw(line.clone())));
        let mut shown = Shown { whole: whole.collect(), ..Shown::default() };
        let patch =
            detail.get("structuredPatch").map(diff::patch).filter(|(lines, _)| !lines.is_empty());
        let created = detail["content"].as_str().filter(|_| self.name == "Write" && !is_error);
        let changes = patch.or_else(|| created.map(|content| diff::lines("", content)));
        if let Some((lines, counts)) = changes.filter(|_| !is_error) {
            head.spans
                .push(Span::styled(format!("  +{} -{}", counts.added, counts.removed), look::DIM));
            shown.lines.push(head);
            shown.fold(lines, DIFF);
            shown.is_change = true;
            return shown;
        }
        if let Some(lines) = answers(detail).filter(|_| !is_error) {
            shown.lines = lines;
            return shown;
        }
        let report = report(detail).filter(|_| !is_error);
        if let Some((_, counts)) = &report {
            head.spans.push(Span::styled(format!("  {counts}"), look::DIM));
        }
        let text = report.as_ref().map_or(text, |(text, _)| text);
        let has_body = is_error
            || !matches!(
                self.name.as_str(),
                "Read" | "Glob" | "Grep" | "TodoWrite" | "ExitPlanMode"
            );
        if let Some(outcome) = outcome.filter(|_| !has_body) {
            head.spans.push(Span::styled(format!("  {}", safe(&outcome)), look::DIM));
        }
        shown.lines.push(head);
        let body =
            output_lines(text).into_iter().map(|line| Line::from(Span::styled(line, look::DIM)));
        let body: Vec<Line<'static>> = body.collect();
        match (has_body, is_error) {
            (true, true) => shown.fold(body, TROUBLE),
            (true, false) => shown.fold(body, OUTPUT),
            (false, _) => shown.folded = body,
        }
        shown
    }
}

/// What people answered to questions of the model, with these.
fn answers(detail: &Value) -> Option<Vec<Line<'static>>> {
    let answers = detail["answers"].as_object().filter(|answers| !answers.is_empty())?;
    let line = |(question, answer): (&String, &Value)| {
        Line::from(vec![
            Span::styled("● ", look::GOOD),
            Span::raw(safe(question)),
            Span::styled(format!("  {}", safe(answer.as_str().unwrap_or_default())), look::BOLD),
        ])
    };
    Some(answers.iter().map(line).collect())
}

/// What an agent reported, without what only the model needs, and what it took.
fn report(detail: &Value) -> Option<(String, String)> {
    let (calls, tokens) = (detail["totalToolUseCount"].as_u64()?, detail["totalTokens"].as_u64()?);
    let blocks = detail["content"].as_array()?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let s = if calls == 1 { "" } else { "s" };
    Some((texts.join("\n"), format!("{calls} call{s}, {tokens} tokens")))
}

/// A text whose paths begin at a folder.
fn below(text: &str, place: &str) -> String {
    if place.is_empty() {
        return text.to_owned();
    }
    let word = |word: &str| match word.strip_prefix(place) {
        Some("") => ".".to_owned(),
        Some(rest) => rest.strip_prefix('/').unwrap_or(word).to_owned(),
        None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl Shown {
    /// Prints the first lines, and folds the others away.
    fn fold(&mut self, mut lines: Vec<Line<'static>>, most: usize) {
        // One line more is no reason to fold.
        if lines.len() > most + 1 {
            self.folded = lines.split_off(most);
            let more = format!("… {} more lines (Ctrl-O)", self.folded.len());
            lines.push(Line::from(Span::styled(more, look::DIM)));
            self.is_counted = true;
        }
        self.lines.extend(lines);
    }

    /// Where there are no keys, a command opens what is folded.
    pub(super) fn open_by_command(&mut self) {
        if let Some(last) = self.lines.last_mut().filter(|_| self.is_counted) {
            let more = format!("… {} more lines (/open)", self.folded.len());
            *last = Line::from(Span::styled(more, look::DIM));
        }
    }

    /// Folds nothing away.
    pub(super) fn open(&mut self) {
        let head = self.lines.len().min(1);
        self.lines.splice(head..head, std::mem::take(&mut self.whole));
        if std::mem::take(&mut self.is_counted) {
            self.lines.pop();
        }
        self.lines.append(&mut self.folded);
    }

    /// Whether it is a change whose lines are in what was printed already.
    pub(super) fn is_in(&self, printed: &str) -> bool {
        let shown = self.lines.len() - usize::from(self.is_counted);
        let body = self.lines.get(1..shown).unwrap_or_default();
        self.is_change && printed.contains(&(plain_lines(body) + &plain_lines(&self.folded)))
    }

    /// What is folded away, in order.
    pub(super) fn take_folded(&mut self) -> Vec<Line<'static>> {
        let mut all = std::mem::take(&mut self.whole);
        all.append(&mut self.folded);
        all
    }

    /// Folds everything but the first line away.
    pub(super) fn fold_all(&mut self) {
        self.open();
        self.folded = self.lines.split_off(1);
    }
}
