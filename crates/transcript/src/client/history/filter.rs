//! What a client omits before it sends, and what it adds where the conversation ends.

use hashbrown::HashSet;

use super::block::{CallId, SentBlock};
use super::line::Line;
use super::rules::{Closing, Fill, Rules};
use super::{AnswerName, Note};
use crate::conversation::table::Ids;
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::input::Input;

const OPEN: &str = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. Check whether it took effect before relying on it or running it again.]";
const INTERRUPTED: &str = "[Request interrupted by user for tool use]";
const NO_RESPONSE: &str = "No response requested.";
const CONTINUE: &str = "Continue from where you left off.";

/// Omits what must not be sent, and closes calls at the end if a prompt follows. Returns whether
/// blank answers were among what is omitted.
pub(super) fn filter(
    lines: &mut Vec<Line>,
    rules: Rules,
    is_followed: bool,
    ids: &Ids,
    notes: &mut Vec<Note>,
) -> bool {
    let results = |lines: &[Line]| -> HashSet<CallId> {
        let blocks =
            lines.iter().filter(|line| line.kind == Kind::User).flat_map(|line| &line.blocks);
        blocks
            .filter(|block| block.kind() == BlockKind::ToolResult)
            .filter_map(SentBlock::call)
            .collect()
    };
    let mut answered = results(lines);
    // From this index on, calls are sent even if they have no result.
    let mut unfinished = usize::MAX;
    if rules.closing != Closing::No && is_followed {
        let from = unfinished_from(lines, &answered, rules);
        unfinished = from.unwrap_or(unfinished);
        let made = match rules.closing {
            Closing::Always => closing(lines, &answered, rules, ids, OPEN),
            Closing::InTurn if from.is_some() => closing(lines, &answered, rules, ids, INTERRUPTED),
            Closing::InTurn | Closing::No => Vec::new(),
        };
        if !made.is_empty() {
            let answer = lines.iter().rfind(|line| line.kind == Kind::Assistant);
            let answer = answer.and_then(|line| line.row);
            notes.push(Note::ClosedCalls { count: made.len(), answer });
        }
        lines.extend(made);
        answered = results(lines);
    }
    let note = |line: &Line, notes: &mut Vec<Note>| {
        notes.extend(line.row.map(|row| Note::OpenCall { row }));
    };
    let mut kept = (0..lines.len()).map(|at| at >= unfinished);
    lines.retain_mut(|line| {
        let is_kept = kept.next().unwrap_or(false);
        if line.kind != Kind::Assistant || (is_kept && line.calls().next().is_some()) {
            return true;
        }
        let open = line.calls().filter(|id| !answered.contains(id)).count();
        if open == 0 {
            return rules.open_drops_record || !line.blocks.is_empty();
        }
        if rules.open_drops_record {
            let all = open == line.calls().count();
            if all {
                note(line, notes);
            }
            return !all;
        }
        note(line, notes);
        line.blocks.retain(|block| {
            block.kind() != BlockKind::ToolUse
                || block.call().is_some_and(|id| answered.contains(&id))
        });
        !line.blocks.is_empty()
    });
    if rules.drops_thinking_only {
        let thinks =
            |line: &Line| !line.blocks.is_empty() && line.blocks.iter().all(SentBlock::is_thinking);
        let more: HashSet<AnswerName> = lines
            .iter()
            .filter(|line| line.kind == Kind::Assistant && !thinks(line))
            .map(|line| line.id)
            .collect();
        lines.retain(|line| {
            let goes = line.kind == Kind::Assistant && thinks(line) && !more.contains(&line.id);
            notes.extend(line.row.filter(|_| goes).map(|row| Note::Empty { row }));
            !goes
        });
    }
    let before = lines.len();
    if rules.drops_blank {
        lines.retain(|line| {
            let goes = line.kind == Kind::Assistant
                && !line.blocks.is_empty()
                && line.blocks.iter().all(SentBlock::is_blank);
            notes.extend(line.row.filter(|_| goes).map(|row| Note::Empty { row }));
            !goes
        });
    }
    lines.len() < before
}

/// Whether the user says something, for once not with the result of a call. That the program was
/// ended in the middle of a turn is not said by the user.
fn asks(line: &Line, rules: Rules) -> bool {
    line.kind == Kind::User && !line.is_result() && !is_shutdown(line, rules)
}

fn is_shutdown(line: &Line, rules: Rules) -> bool {
    rules.continues_after_shutdown && line.is_shutdown
}

/// The index where the last turn begins, if the session ends inside it: apart from unanswered calls
/// and answers without content, the last line is a shutdown, or a result that does not end the
/// turn.
fn unfinished_from(lines: &[Line], answered: &HashSet<CallId>, rules: Rules) -> Option<usize> {
    let is_open = |line: &Line| {
        line.calls().next().is_some() && line.calls().all(|id| !answered.contains(&id))
    };
    let is_said = |line: &&Line| match line.kind {
        Kind::User => true,
        Kind::Assistant if line.is_error && rules.looks_past_errors => false,
        Kind::Assistant => (line.speaks() || line.blocks.is_empty()) && !is_open(line),
        _ => false,
    };
    let last = lines.iter().rev().find(is_said);
    let is_end = |line: &Line| line.ends_turn && rules.ends_turns;
    last.filter(|last| last.is_result() && !is_end(last) || is_shutdown(last, rules))?;
    Some(lines.iter().rposition(|line| asks(line, rules)).map_or(0, |at| at + 1))
}

/// Made-up results for the open calls of the last answer, if no user message follows it.
fn closing(
    lines: &[Line],
    answered: &HashSet<CallId>,
    rules: Rules,
    ids: &Ids,
    text: &str,
) -> Vec<Line> {
    let is_answer = |line: &Line| line.kind == Kind::Assistant && line.speaks();
    let Some(last) = lines.iter().rposition(is_answer) else {
        return Vec::new();
    };
    if lines[last..].iter().any(|line| asks(line, rules)) {
        return Vec::new();
    }
    let of_last =
        lines.iter().filter(|line| line.kind == Kind::Assistant && line.id == lines[last].id);
    let open = of_last.flat_map(Line::calls).filter(|id| !answered.contains(id));
    open.map(|id| Line::made(Kind::User, vec![SentBlock::made_result(id, ids, text, false)], false))
        .collect()
}

/// Inserts what the client writes between the end of the conversation and the next prompt: after
/// the last message, before lines that are not part of the conversation.
/// Where blank answers were dropped, some versions take the user's last records for one.
pub(super) fn fill(lines: &mut Vec<Line>, rules: Rules, had_blanks: bool, notes: &mut Vec<Note>) {
    let last_of =
        |lines: &[Line], kinds: &[Kind]| lines.iter().rposition(|line| kinds.contains(&line.kind));
    let kinds = [Kind::User, Kind::Assistant, Kind::Attachment];
    let at = match rules.fill {
        Fill::Last => lines.len().checked_sub(1),
        Fill::LastSaid => last_of(lines, &kinds),
        Fill::LastSpoken if ends_in_commands(lines) => None,
        Fill::LastMessage | Fill::LastSpoken => last_of(lines, &[Kind::User, Kind::Assistant])
            .or_else(|| last_of(lines, &[Kind::Attachment])),
    };
    let before_error = at.filter(|at| rules.looks_past_errors && lines[*at].is_error);
    let before_error = before_error.and_then(|at| last_of(&lines[..at], &kinds));
    let is_open = |at: &usize| lines[*at].kind == Kind::Attachment || lines[*at].is_result();
    let at = before_error.filter(is_open).or(at);
    let Some(mut at) = at else { return };
    let is_attachment = lines[at].kind == Kind::Attachment && rules.fill != Fill::Last;
    if lines[at].kind != Kind::User && !is_attachment {
        return;
    }
    // Attachments stay with the message that they follow.
    at += lines[at + 1..].iter().take_while(|line| line.kind == Kind::Attachment).count();
    let is_attachment = lines[at].kind == Kind::Attachment && rules.fill != Fill::Last;
    let is_user = |line: &&Line| line.kind == Kind::User;
    let alone = if had_blanks && rules.joins_after_blanks { usize::MAX } else { 1 };
    let mut records = lines[..=at].iter().rev().take_while(is_user).take(alone);
    let is_unfinished =
        is_attachment || records.any(Line::is_result) || is_shutdown(&lines[at], rules);
    if rules.says_continue && is_unfinished {
        at = lines.len();
        lines.push(Line::made(Kind::User, vec![SentBlock::text(CONTINUE)], true));
    }
    let mut filler = Line::made(Kind::Assistant, vec![SentBlock::text(NO_RESPONSE)], false);
    filler.id = AnswerName::Filler;
    lines.insert(at + 1, filler);
    notes.push(Note::Filled);
}

/// Whether the user's last lines are a caveat, a local command and its outputs. After these, newer
/// clients insert no filler; they do after a command that has no caveat directly before it.
fn ends_in_commands(lines: &[Line]) -> bool {
    let is_message = |line: &&Line| matches!(line.kind, Kind::User | Kind::Assistant);
    let mut lines = lines.iter().rev().filter(is_message);
    let mut last = lines.find(|line| line.input != Some(Input::Output));
    if last.is_some_and(|line| line.input == Some(Input::Command)) {
        last = lines.next();
    }
    last.is_some_and(|line| {
        let words = line.blocks.first().and_then(SentBlock::words).unwrap_or_default();
        line.kind == Kind::User && words.starts_with("<local-command-caveat>")
    })
}
