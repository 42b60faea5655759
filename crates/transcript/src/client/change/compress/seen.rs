//! What is taken from one record for a summary: a prompt word for word, what an answer says in
//! short, which calls it makes, how a command ended.
//!
//! Invariant: what is kept of a record is bounded, except for prompts that may fit.

use hashbrown::HashSet;

use super::ListCalls;
use super::cue::{self, Failed};
use crate::conversation::table::{BlockId, BlockRow, RowId};
use crate::conversation::{Conversation, Look, tool};
use crate::format::content::{Block, BlockKind, Message};
use crate::format::entry::{Entry, Kind};
use crate::format::input::{Input, attached_prompt, typed_exactly};
use crate::format::json::Json;

/// What a record says.
#[derive(Debug)]
pub(super) enum Seen {
    Nothing,
    Prompt(PromptSeen),
    /// The summary of an earlier compaction.
    Summary(String),
    Answer(Vec<Said>),
    Results(Vec<ResultSeen>),
}

/// What a person wrote.
#[derive(Clone, Debug)]
pub(super) struct PromptSeen {
    /// Word for word; `None` if it is too long in any case.
    pub(super) text: Option<String>,
    pub(super) start: String,
}

/// A block of an answer.
#[derive(Debug)]
pub(super) enum Said {
    Text(TextSeen),
    Call(CallSeen),
}

#[derive(Debug)]
pub(super) struct TextSeen {
    pub(super) start: String,
    /// Its sentences that decide or explain, with their weights.
    pub(super) decisions: Vec<(u32, String)>,
    /// Its first sentence that may say how an error is solved.
    pub(super) fix: Option<String>,
}

#[derive(Debug)]
pub(super) struct CallSeen {
    pub(super) block: BlockId,
    /// Its result is read, too.
    pub(super) is_awaited: bool,
    pub(super) tool: String,
    /// What it asks for; empty if nothing needs that.
    pub(super) about: String,
    pub(super) file: Option<String>,
    /// The whole list of things to do: what, and whether it is done.
    pub(super) todos: Option<Vec<(String, bool)>>,
    /// The plan that the user is asked to accept.
    pub(super) plan: Option<String>,
    /// One thing to do whose state changes: its number and the state.
    pub(super) task: Option<(String, String)>,
}

#[derive(Debug)]
pub(super) struct ResultSeen {
    /// The call that it answers.
    pub(super) call: BlockId,
    /// What was decided or found.
    pub(super) decision: Option<String>,
    pub(super) failed: Failed,
    pub(super) exit: Option<i64>,
    pub(super) lines: Vec<String>,
}

/// How much of texts is kept.
const LONGEST_START: usize = 400;
const LONGEST_SENTENCE: usize = 260;
const LONGEST_ABOUT: usize = 160;
const LONGEST_PATH: usize = 300;
const LONGEST_SUMMARY: usize = 40_000;
/// How many sentences of a text, lines of an output and things to do.
const SENTENCES: usize = 3;
const LINES: usize = 2;
const TODOS: usize = 100;
/// How much of either end of an output is looked at.
const OUTPUT_END: usize = 16 << 10;

/// Reads records.
pub(super) struct Seeing<'a> {
    pub(super) conversation: &'a Conversation,
    /// The prompts that are short enough to be kept word for word.
    pub(super) may_fit: HashSet<RowId>,
    /// Whether all calls are listed.
    pub(super) calls: ListCalls,
}

impl Seeing<'_> {
    pub(super) fn row(&self, look: &mut Look<'_>, row: RowId) -> crate::Result<Seen> {
        let table = &self.conversation.table;
        let known = table.row(row);
        let is_prompt = |input: Input| input.is_typed() || input == Input::Queued;
        match (known.kind, known.input) {
            (_, Some(input)) if is_prompt(input) && !known.is_repeat => {
                look.record(row, |entry| self.prompt(row, entry))
            }
            (Kind::User, Some(Input::Summary)) => look.record(row, |entry| {
                let text = entry.message().and_then(Message::first_text);
                text.map_or(Seen::Nothing, |text| {
                    Seen::Summary(text.chars().take(LONGEST_SUMMARY).collect())
                })
            }),
            (Kind::User, Some(Input::ToolResult)) => self.results(look, row),
            (Kind::Assistant, _) if known.answer.is_none_or(|answer| !table.is_filler(answer)) => {
                self.answer(look, row)
            }
            _ => Ok(Seen::Nothing),
        }
    }

    fn prompt(&self, row: RowId, entry: &Entry<'_>) -> Seen {
        let text = if entry.kind() == Kind::Attachment {
            Some(attached_prompt(entry))
        } else {
            let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
            typed_exactly(blocks.filter_map(|block| block.text()))
        };
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Seen::Nothing };
        let start = cue::clean(&text, LONGEST_START);
        let text = Some(text).filter(|_| self.may_fit.contains(&row));
        Seen::Prompt(PromptSeen { text, start })
    }

    /// The blocks of a record, one after the other; those that cannot be read alone are skipped.
    fn answer(&self, look: &mut Look<'_>, row: RowId) -> crate::Result<Seen> {
        let table = &self.conversation.table;
        let mut spoken = Vec::new();
        for id in table.blocks_of(row) {
            let block = table.block(id);
            if block.is_repeat || !matches!(block.kind, BlockKind::Text | BlockKind::ToolUse) {
                continue;
            }
            spoken.extend(look.block(id, |block| self.of_answer(id, &block))?.flatten());
        }
        Ok(if spoken.is_empty() { Seen::Nothing } else { Seen::Answer(spoken) })
    }

    fn of_answer(&self, id: BlockId, block: &Block<'_>) -> Option<Said> {
        if block.kind() == BlockKind::Text {
            let text = block.text()?;
            return (!text.trim().is_empty()).then(|| Said::Text(of_text(&text)));
        }
        let tool = block.tool()?.into_owned();
        let input = block.get("input")?;
        let todos = (tool == "TodoWrite").then(|| {
            let todos = input.get("todos").into_iter().flat_map(Json::elements);
            let one = |todo: Json<'_>| {
                let is_done = todo.get("status").is_some_and(|status| status.is("completed"));
                Some((cue::clean(&todo.get("content")?.text()?, LONGEST_SENTENCE), is_done))
            };
            todos.filter_map(one).take(TODOS).collect()
        });
        let task = (tool == "TaskUpdate").then(|| {
            let text = |name: &str| input.get(name).and_then(Json::text).unwrap_or_default();
            (text("taskId").into_owned(), text("status").into_owned())
        });
        let plan = input.get("plan").and_then(Json::text).filter(|_| tool == "ExitPlanMode");
        let plan = plan.map(|plan| cue::clean(&plan, LONGEST_START));
        let file = tool::file(block).map(|path| cue::clean(&path, LONGEST_PATH));
        let table = &self.conversation.table;
        let result = self.conversation.pairs.of(id);
        let is_awaited = result.is_some_and(|result| reads(table.block(result), Some(&tool)));
        let is_named = is_awaited || self.calls == ListCalls::List || tool == NEW_TASK;
        let about = is_named.then(|| cue::clean(&tool::about(&tool, input), LONGEST_ABOUT));
        let about = about.unwrap_or_default();
        Some(Said::Call(CallSeen { block: id, is_awaited, about, file, todos, plan, task, tool }))
    }

    /// Of results, only what failed and what commands print is read.
    fn results(&self, look: &mut Look<'_>, row: RowId) -> crate::Result<Seen> {
        let table = &self.conversation.table;
        let mut results = Vec::new();
        for id in table.blocks_of(row) {
            let block = table.block(id);
            let Some(call) = self.conversation.pairs.of(id).filter(|_| !block.is_repeat) else {
                continue;
            };
            let name = table.text(table.block(call).name);
            if !reads(block, name) {
                continue;
            }
            if name.is_some_and(decides) && !block.is_error {
                results.extend(look.block(id, |block| decision(call, &block))?);
            } else {
                results.extend(look.block(id, |block| result(call, &block))?);
            }
        }
        Ok(if results.is_empty() { Seen::Nothing } else { Seen::Results(results) })
    }
}

/// The tool that adds a thing to do.
pub(super) const NEW_TASK: &str = "TaskCreate";

/// Whether the result of a call of that tool is read.
fn reads(result: &BlockRow, tool: Option<&str>) -> bool {
    let is_told = |tool: &str| decides(tool) || is_shell(tool) || tool == NEW_TASK;
    result.kind == BlockKind::ToolResult && (result.is_error || tool.is_some_and(is_told))
}

/// Whether the result of a tool is what was decided or found: what the user answered, the plan that
/// was accepted, what a sub-agent reports.
fn decides(tool: &str) -> bool {
    matches!(tool, "AskUserQuestion" | "ExitPlanMode" | "Task" | "Agent")
}

pub(super) fn is_shell(tool: &str) -> bool {
    matches!(tool, "Bash" | "PowerShell")
}

fn of_text(text: &str) -> TextSeen {
    let mut decisions: Vec<(u32, String)> = Vec::new();
    for sentence in cue::sentences(text) {
        let weight = cue::weight(sentence);
        if weight < 2 || sentence.len() < 16 {
            continue;
        }
        decisions.push((weight, cue::clean(sentence, LONGEST_SENTENCE)));
        if decisions.len() > SENTENCES {
            let least = (0..decisions.len()).min_by_key(|at| decisions[*at].0);
            decisions.remove(least.unwrap_or(0));
        }
    }
    let fix = cue::sentences(text).find(|sentence| cue::is_fix(sentence));
    let fix = fix.map(|sentence| cue::clean(sentence, LONGEST_SENTENCE));
    TextSeen { start: cue::clean(text, LONGEST_START), decisions, fix }
}

fn result(call: BlockId, block: &Block<'_>) -> ResultSeen {
    let texts = block.inner().filter_map(|inner| inner.text());
    let text = texts.collect::<Vec<_>>().join("\n");
    let text = ends(&text);
    let exit = exit_code(&text);
    let is_error = block.get("is_error").and_then(Json::bool) == Some(true);
    let has_failed = is_error || exit.is_some_and(|code| code != 0) || cue::is_broken(&text);
    let failed = if has_failed { Failed::Yes } else { Failed::No };
    let rest = text.strip_prefix("Error: ").unwrap_or(&text);
    let rest =
        if exit.is_some() { rest.split_once('\n').map_or("", |(_, rest)| rest) } else { rest };
    let lines = cue::key_lines(rest, failed, LINES);
    ResultSeen { call, decision: None, failed, exit, lines }
}

/// A result that says what was decided or found.
fn decision(call: BlockId, block: &Block<'_>) -> ResultSeen {
    let texts = block.inner().filter_map(|inner| inner.text());
    let text = cue::clean(&texts.collect::<Vec<_>>().join("\n"), LONGEST_START);
    let (failed, exit, lines) = (Failed::No, None, Vec::new());
    ResultSeen { call, decision: Some(text), failed, exit, lines }
}

/// The exit code that the client writes before the output of a command that failed.
fn exit_code(text: &str) -> Option<i64> {
    let text = text.strip_prefix("Error: ").unwrap_or(text);
    let rest = text.strip_prefix("Exit code ").or_else(|| {
        let rest = text.strip_prefix("Command failed with exit code ")?;
        Some(rest)
    })?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Both ends of a long output.
fn ends(text: &str) -> std::borrow::Cow<'_, str> {
    if text.len() <= 2 * OUTPUT_END {
        return text.into();
    }
    let start = cue::boundary(text, OUTPUT_END);
    let end = cue::boundary(text, text.len() - OUTPUT_END);
    format!("{}\n{}", &text[..start], &text[end..]).into()
}
