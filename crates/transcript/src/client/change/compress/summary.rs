//! The text of a summary, under a budget.
//!
//! Prompts stand word for word, the newest first in line; of the rest, the entries that weigh most
//! and are newest. A third to half of the budget is kept free for the rest, as far as there is any:
//! as much as the prompts leave.
//! Invariants: the same records give the same text; the text is within the budget; a prompt is in
//! it whole, or is named among those that are not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hashbrown::HashSet;

use super::cue::{self, Failed};
use super::story::{CommandUse, Dated, ErrorSeen, FileUse, Story};
use crate::client::context::Context;

/// A summary.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) text: String,
    /// The turns of prompts that are not in it word for word.
    pub(super) shortened: Vec<usize>,
    /// How many prompts are.
    pub(super) prompts: usize,
}

/// A line of the text that may be in it.
#[derive(Debug)]
struct Candidate {
    section: Section,
    turn: usize,
    weight: f64,
    text: String,
    tokens: f64,
    is_in: bool,
}

/// The parts of the text, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Todos,
    Decisions,
    Errors,
    Files,
    Commands,
    Calls,
    Answers,
}

/// Each with its heading and its share of what is free for them.
const SECTIONS: [(Section, &str, f64); 7] = [
    (Section::Todos, "Open todos", 0.12),
    (Section::Decisions, "Decisions and findings", 0.24),
    (Section::Errors, "Errors and what solved them", 0.22),
    (Section::Files, "Files", 0.18),
    (Section::Commands, "Commands and how they ended last", 0.24),
    (Section::Calls, "Calls", 0.0),
    (Section::Answers, "Answers, in short", 0.0),
];

/// The share of the budget that is kept free for what is not a prompt: at least, and at most.
const FACTS: [f64; 2] = [0.3, 0.5];
/// The share that the summary of an earlier compaction may take.
const EARLIER: f64 = 0.2;

const HEAD: &str = "This session continues an earlier conversation that is no longer in the context. Its \
    turns were summed up from its records, not by a model: what the user wrote stands word for word \
    where it fits, the rest is what the records show. Numbers in brackets are turns.";

/// What stands between the head and the end if a model has written it.
pub(super) enum SummaryBody<'a> {
    Extracted,
    Written(&'a str),
}

/// Composes a summary of at most so many tokens.
pub(super) fn compose(
    story: &Story,
    body: &SummaryBody<'_>,
    cwd: Option<&str>,
    context: &Context,
    budget: u64,
) -> Summary {
    let tokens = |text: &str| context.of_text(text);
    let mut free = number(budget) - tokens(HEAD) - HEADINGS;
    let mut head = HEAD.to_owned();
    if let Some(cwd) = cwd {
        let _ = write!(head, " Paths without a leading slash are in `{cwd}`.");
        free -= tokens(cwd) + 12.0;
    }
    if let Some(earlier) =
        story.earlier.as_deref().filter(|_| matches!(body, SummaryBody::Extracted))
    {
        let earlier = fitting(earlier, free * EARLIER, &tokens);
        free -= tokens(earlier) + 12.0;
        let _ = write!(head, "\n\n## Summary of what was before\n{earlier}");
    }
    if let SummaryBody::Written(text) = body {
        let text = fitting(text, free * 0.7, &tokens);
        free -= tokens(text) + 4.0;
        let _ = write!(head, "\n\n{text}");
    }
    let mut all = match body {
        SummaryBody::Extracted => candidates(story, cwd, &tokens),
        SummaryBody::Written(_) => Vec::new(),
    };
    let of_prompts = story.prompts.iter().filter_map(|one| one.what.text.as_deref());
    let of_prompts: f64 = of_prompts.map(tokens).sum();
    let [least, most] = FACTS.map(|share| (free * share).max(0.0));
    let facts = (free - of_prompts).clamp(least, most);
    for (section, _, share) in SECTIONS {
        fill(&mut all, section, &mut free, facts * share);
    }
    let prompts = Prompts::fitting(story, &mut free, &tokens);
    for (section, _, _) in SECTIONS {
        let most = free;
        fill(&mut all, section, &mut free, most);
    }
    let mut text = head;
    if !prompts.parts.is_empty() {
        text.push_str("\n\n## What the user wrote");
        for part in prompts.parts.values() {
            text.push_str(part);
        }
    }
    for (section, heading, _) in SECTIONS {
        let is_in = |one: &&Candidate| one.is_in && one.section == section;
        let mut lines: Vec<&Candidate> = all.iter().filter(is_in).collect();
        if lines.is_empty() {
            continue;
        }
        lines.sort_by_key(|one| one.turn);
        let _ = write!(text, "\n\n## {heading}");
        for line in lines {
            let _ = write!(text, "\n{}", line.text);
        }
    }
    Summary { text, prompts: prompts.whole, shortened: prompts.shortened }
}

/// About how many tokens the headings are.
const HEADINGS: f64 = 80.0;

/// Takes the entries of a section that weigh most, as far as they fit.
fn fill(all: &mut [Candidate], section: Section, free: &mut f64, most: f64) {
    let mut order: Vec<usize> =
        (0..all.len()).filter(|at| all[*at].section == section && !all[*at].is_in).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&all[*one], &all[*other]);
        other.weight.total_cmp(&one.weight).then(other.turn.cmp(&one.turn))
    });
    let mut left = most.min(*free);
    for at in order {
        let one = &mut all[at];
        if one.tokens <= left {
            left -= one.tokens;
            *free -= one.tokens;
            one.is_in = true;
        }
    }
}

/// What the user wrote, as far as it fits, the newest first in line.
#[derive(Default)]
struct Prompts {
    /// By their place among all.
    parts: BTreeMap<usize, String>,
    whole: usize,
    /// The turns of those that are not there word for word, in order.
    shortened: Vec<usize>,
}

impl Prompts {
    fn fitting(story: &Story, free: &mut f64, tokens: &dyn Fn(&str) -> f64) -> Prompts {
        let mut prompts = Prompts::default();
        for (at, one) in story.prompts.iter().enumerate().rev() {
            let text = one.what.text.as_deref().map(|text| format!("\n\n[{}] {text}", one.turn));
            let cost = text.as_deref().map(tokens);
            match text.zip(cost).filter(|(_, cost)| *cost <= *free) {
                Some((text, cost)) => {
                    *free -= cost;
                    prompts.parts.insert(at, text);
                }
                None => prompts.shortened.push(one.turn),
            }
        }
        prompts.whole = prompts.parts.len();
        for (at, one) in story.prompts.iter().enumerate().rev() {
            let text = format!("\n\n[{}, shortened] {}", one.turn, one.what.start);
            let cost = tokens(&text);
            if !prompts.parts.contains_key(&at) && cost <= *free / 2.0 {
                *free -= cost;
                prompts.parts.insert(at, text);
            }
        }
        prompts.shortened.sort_unstable();
        prompts.shortened.dedup();
        prompts
    }
}

/// The beginning of a text that fits.
fn fitting<'a>(text: &'a str, most: f64, tokens: &dyn Fn(&str) -> f64) -> &'a str {
    let mut text = text.trim();
    while !text.is_empty() && tokens(text) > most {
        let end = cue::boundary(text, text.len() * 9 / 10);
        text = text[..end].trim_end();
    }
    text
}

fn candidates(story: &Story, cwd: Option<&str>, tokens: &dyn Fn(&str) -> f64) -> Vec<Candidate> {
    let last = number(story.turns.max(1) as u64);
    let mut all = Vec::new();
    let mut add = |section: Section, turn: usize, weight: f64, text: String| {
        let tokens = tokens(&text) + 1.0;
        // The newest weigh up to one more than the oldest.
        let weight = weight + number(turn as u64) / last;
        all.push(Candidate { section, turn, weight, text, tokens, is_in: false });
    };
    for todo in &story.todos {
        add(Section::Todos, story.turns, 0.0, format!("- [ ] {todo}"));
    }
    // What is repeated counts once, where it was last.
    let mut known: HashSet<&str> = HashSet::new();
    for one in story.decisions.iter().rev() {
        let Dated { turn, what: (weight, text) } = one;
        if known.insert(text) {
            add(Section::Decisions, *turn, f64::from(*weight), format!("- [{turn}] {text}"));
        }
    }
    for error in &story.errors {
        add(Section::Errors, error.turn, error_weight(error), error_line(error, cwd));
    }
    for file in &story.files {
        let changes = f64::from((file.edited + file.written).min(9));
        let weight = changes / 3.0 + if changes > 0.0 { 2.0 } else { 0.0 };
        add(Section::Files, file.turn, weight, file_line(file, cwd));
    }
    for command in &story.commands {
        add(Section::Commands, command.turn, command_weight(command), command_line(command));
    }
    for Dated { turn, what } in &story.calls {
        add(Section::Calls, *turn, 0.0, format!("- [{turn}] {what}"));
    }
    for Dated { turn, what } in &story.answers {
        add(Section::Answers, *turn, 0.0, format!("- [{turn}] {what}"));
    }
    all
}

/// A path as it is written in the text: without the folder that the session is in.
pub(super) fn relative<'a>(path: &'a str, cwd: Option<&str>) -> &'a str {
    let below = cwd.and_then(|cwd| path.strip_prefix(cwd)?.strip_prefix('/'));
    below.filter(|path| !path.is_empty()).unwrap_or(path)
}

fn file_line(file: &FileUse, cwd: Option<&str>) -> String {
    let times = |count: u32, what: &str| match count {
        0 => None,
        1 => Some(what.to_owned()),
        _ => Some(format!("{what} {count}×")),
    };
    let done =
        [times(file.written, "written"), times(file.edited, "edited"), times(file.read, "read")];
    let done: Vec<String> = done.into_iter().flatten().collect();
    format!("- [{}] {}: {}", file.turn, relative(&file.path, cwd), done.join(", "))
}

fn command_line(command: &CommandUse) -> String {
    let ended = match (command.failed, command.exit) {
        (Failed::Yes, Some(code)) => format!("failed (exit {code})"),
        (Failed::Yes, None) => "failed".to_owned(),
        // The exit code is that of the last program of a pipe.
        (Failed::No, _) if command.command.contains(" | ") => "ran".to_owned(),
        (Failed::No, _) => "passed".to_owned(),
    };
    let runs = if command.runs > 1 { format!(" {}×,", command.runs) } else { String::new() };
    let lines = command.lines.join(" | ");
    let seam = if lines.is_empty() { "" } else { ": " };
    format!("- [{}] `{}`{runs} {ended}{seam}{lines}", command.turn, command.command)
}

fn error_line(error: &ErrorSeen, cwd: Option<&str>) -> String {
    let folder = cwd.map(|cwd| format!(" {cwd}/")).filter(|_| !error.is_command);
    let what = folder.map_or_else(|| error.what.clone(), |folder| error.what.replace(&folder, " "));
    let mut text = format!("- [{}] `{what}`: {}", error.turn, error.lines.join(" | "));
    if let Some(fix) = &error.fix {
        let _ = write!(text, " → {fix}");
    }
    if !error.edited.is_empty() {
        let files: Vec<&str> = error.edited.iter().map(|path| relative(path, cwd)).collect();
        let _ = write!(text, " → edited {}", files.join(", "));
    }
    match error.solved {
        Some(turn) => _ = write!(text, " → passed [{turn}]"),
        None if error.is_command => text.push_str(" → not run again with success"),
        None => {}
    }
    text
}

/// An error that was explained or solved says more than one that was not; a tool that was called
/// wrongly says little.
fn error_weight(error: &ErrorSeen) -> f64 {
    let base = if error.is_command { 2.0 } else { 0.0 };
    let fix = if error.fix.is_some() { 1.0 } else { 0.0 };
    let solved = if error.solved.is_some() { 1.5 } else { 0.0 };
    let edited = if error.edited.is_empty() { 0.0 } else { 0.5 };
    base + fix + solved + edited
}

/// Programs that only look, and words of commands that check, build or publish.
const LOOKS: [&str; 18] = [
    "ls", "cat", "grep", "rg", "find", "head", "tail", "pwd", "echo", "sed", "wc", "which",
    "sleep", "ps", "tree", "file", "stat", "awk",
];
const DOES: [&str; 22] = [
    "test", "check", "build", "lint", "clippy", "make", "deploy", "release", "install", "migrate",
    "commit", "push", "merge", "publish", "verify", "pytest", "tsc", "eslint", "compile", "docker",
    "cargo", "npm",
];

fn command_weight(command: &CommandUse) -> f64 {
    let words = || command.command.split(|c: char| !c.is_alphanumeric());
    let first = command.command.split("&&").map(str::trim).find(|part| !part.starts_with("cd "));
    let program = first.and_then(|part| part.split_whitespace().next()).unwrap_or_default();
    let does = words().any(|word| DOES.contains(&word));
    let base = match (LOOKS.contains(&program), does) {
        (true, _) => 0.0,
        (false, true) => 3.0,
        (false, false) => 1.0,
    };
    base + if command.failed == Failed::Yes && base > 0.0 { 1.0 } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "no session is that long")]
fn number(count: u64) -> f64 {
    count as f64
}
