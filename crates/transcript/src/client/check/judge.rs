//! What one client version does with a session: what it refuses, what it omits, and what it sends
//! that the API refuses.

use std::borrow::Cow;

use super::code::{Code, Severity};
use super::examine::What;
use super::finding::Findings;
use super::reach::{Lost, Reach, Reason, is_replacing, reach};
use super::request::request;
use super::{Case, Judged, Verdict};
use crate::client::history::{History, Note, NullLine, Refusal, Rules};
use crate::conversation::graph::Link;
use crate::conversation::table::{Placed, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::input::{Input, SUMMARY_LEAD};

/// Judges a session by the rules of one version. `shared` is the verdict that holds for every
/// version.
pub(super) fn judge(
    case: &Case,
    rules: Rules,
    found: Result<&History, Refusal>,
    shared: Verdict,
) -> crate::Result<Judged> {
    let mut findings = Findings::new(&case.conversation.table);
    lines(case, rules, &mut findings);
    let (mut leaf, mut counted, mut limit) = (None, Reach::default(), None);
    match found {
        Err(refusal) => refused(case, refusal, &mut findings),
        Ok(found) => {
            leaf = found.leaf;
            limit.clone_from(&found.limit);
            counted = losses(case, found, rules, &mut findings)?;
            notes(case, found, &mut findings);
            if !has_summary(case, found, &mut findings)? {
                counted.lost += std::mem::take(&mut counted.summed_up);
            }
            request(case, found, rules, &mut findings);
        }
    }
    let findings = findings.into_list();
    let verdict = Verdict::of(&findings).max(shared);
    Ok(Judged { verdict, limit, leaf, reach: counted, findings, sent: None })
}

fn refused(case: &Case, refusal: Refusal, findings: &mut Findings<'_>) {
    let row = |row: RowId| Some(case.conversation.table.row(row).line);
    let (code, line, text) = match refusal {
        Refusal::Nothing if case.conversation.table.is_agent => {
            (Code::NoConversation, None, "this is the file of a sub-agent, which no client resumes")
        }
        Refusal::Nothing => (Code::NoConversation, None, "there is no conversation in the file"),
        Refusal::NoEnd => (Code::NoEnd, None, "there is no end that the client can continue from"),
        Refusal::NoTime(at) => (
            Code::BadTime,
            row(at),
            "the client needs the time of this record to continue, and it is missing or invalid",
        ),
        Refusal::Input(at) => (
            Code::CallInput,
            row(at),
            "a tool call has a path or contents that are not a string, and the client exits on it",
        ),
        Refusal::Null(line) => {
            (Code::NullLine, Some(line), "the line is `null`, and the client exits on it")
        }
        Refusal::Loop(at) => (
            Code::ParentLoop,
            row(at),
            "the parent links form a cycle here; the client never returns",
        ),
    };
    findings.add(code, Severity::Refused, line, text);
}

/// Lines that are not valid records.
fn lines(case: &Case, rules: Rules, findings: &mut Findings<'_>) {
    for mark in &case.examined.marks {
        let line = Some(mark.line);
        match &mark.what {
            What::Damaged(_) if case.examined.is_torn(mark) => {}
            What::Damaged(why) => {
                let text = format!("unreadable: {why}");
                findings.add(Code::DamagedLine, Severity::Warning, line, text);
            }
            What::Nul => {
                findings.add(
                    Code::NulBytes,
                    Severity::Warning,
                    line,
                    "NUL bytes instead of a record",
                );
            }
            What::NotUtf8 => {
                let text = "the record contains bytes that are not UTF-8";
                findings.add(Code::NotUtf8, Severity::Warning, line, text);
            }
            What::Glued => {
                let row = case.row_at(mark.offset).map(|row| case.conversation.table.row(row));
                let is_first = row.is_some_and(|row| row.placed == Placed::First);
                if rules.reads_glued && is_first {
                    let text = "a record shares its line with other data; the client reads it";
                    findings.add(Code::GluedRecords, Severity::Warning, line, text);
                } else if row.is_none_or(|row| !matches!(row.kind, Kind::User | Kind::Assistant)) {
                    let text =
                        "a record shares its line with other data; the client does not read it";
                    findings.add(Code::GluedRecords, Severity::Warning, line, text);
                }
            }
            What::Bare => {
                findings.add(Code::NotAnObject, Severity::Note, line, "JSON, but not an object");
            }
            What::Null if rules.null_line == NullLine::Ends => {
                let text = "the line is `null`; the client stops reading here";
                findings.add(Code::NullLine, Severity::Warning, line, text);
            }
            What::Null => {
                let text = "the line is `null`; some older clients stop reading here, or exit";
                findings.add(Code::NullLine, Severity::Note, line, text);
            }
            _ => {}
        }
    }
    tail(case, rules, findings);
}

/// The end of the file, where the client appends.
fn tail(case: &Case, rules: Rules, findings: &mut Findings<'_>) {
    let Some(last) = case.examined.last else { return };
    let line = Some(last.line);
    // The newest client writes a newline first.
    let next = if last.is_ended {
        ""
    } else if rules.ends_lines {
        "; the client begins a new line after it"
    } else {
        "; the client appends to the same line, and loses its next record too"
    };
    if last.is_damaged {
        // The record is lost, whatever ends the line. Losing a snapshot is not a loss.
        let severity = if last.is_said { Severity::Loss } else { Severity::Warning };
        findings.add(Code::TornTail, severity, line, format!("the last record is cut off{next}"));
    } else if !last.is_ended && !last.is_blank {
        let severity = if rules.ends_lines { Severity::Note } else { Severity::Warning };
        let text = format!("the last record does not end with a newline{next}");
        findings.add(Code::NoFinalNewline, severity, line, text);
    }
}

/// Invalid records, whether they are sent or not, for every version.
pub(super) fn records(case: &Case, rules: Rules, findings: &mut Findings<'_>) -> crate::Result<()> {
    let (table, graph) = (&case.conversation.table, &case.conversation.graph);
    for mark in &case.examined.marks {
        let line = Some(mark.line);
        match &mark.what {
            What::NoField(name) => {
                let text = format!("the record has no `{name}`");
                findings.add(Code::MissingField, Severity::Note, line, text);
            }
            What::Content(text) if mark.block.is_none() => {
                let text = format!("the message {text}");
                findings.add(Code::ContentShape, Severity::Warning, line, text);
            }
            What::NoBlocks => {
                let text = "the message is empty";
                findings.add(Code::EmptyContent, Severity::Note, line, text);
            }
            What::Surrogate if rules.replaces_surrogates => {
                let text = "an unpaired UTF-16 surrogate; the client replaces it with U+FFFD";
                findings.add(Code::LoneSurrogate, Severity::Note, line, text);
            }
            _ => {}
        }
    }
    for (id, row) in table.numbered() {
        if row.time.is_none() && row.uuid.is_some() {
            let is_there = case.conversation.look(id, |entry| entry.get("timestamp").is_some())?;
            let (code, severity, text) = if is_there {
                (Code::BadTime, Severity::Warning, "the record's `timestamp` is not a valid time")
            } else {
                (Code::MissingField, Severity::Note, "the record has no `timestamp`")
            };
            findings.row(code, severity, Some(id), text);
        }
        let is_said = matches!(row.kind, Kind::User | Kind::Assistant);
        let fields = [("uuid", row.uuid), ("sessionId", row.session)];
        for (name, _) in fields.iter().filter(|(_, id)| is_said && id.is_none()) {
            let text = format!("the record has no `{name}`");
            findings.row(Code::MissingField, Severity::Note, Some(id), text);
        }
        match graph.link(id) {
            Link::Repeat(first) => repeated(case, id, first, findings),
            Link::Loop => {
                let text = "the parent links form a cycle here; newer clients break it";
                findings.row(Code::ParentLoop, Severity::Warning, Some(id), text);
            }
            Link::Parent(parent)
                if !row.says_sidechain
                    && table.row(parent).says_sidechain
                    && matches!(row.kind, Kind::User | Kind::Assistant) =>
            {
                let text = "the record is outside any sidechain, but its parent is inside one";
                findings.row(Code::SidechainMarker, Severity::Warning, Some(id), text);
            }
            _ => {}
        }
    }
    Ok(())
}

fn repeated(case: &Case, id: RowId, first: RowId, findings: &mut Findings<'_>) {
    let table = &case.conversation.table;
    let line = table.row(first).line;
    // What a compaction has summed up is not sent in any case.
    let is_summed_up = table.boundaries.last().is_some_and(|boundary| boundary.row > id);
    if is_replacing(table, id, first) {
        let severity = if is_summed_up { Severity::Warning } else { Severity::Loss };
        let text = format!("the record has the same id as line {line}, and replaces it");
        findings.row(Code::RepeatedUuid, severity, Some(id), text);
    } else {
        let text = format!("the record repeats the id of line {line}");
        findings.row(Code::RepeatedUuid, Severity::Note, Some(id), text);
    }
}

/// Which messages are lost, and why.
fn losses(
    case: &Case,
    found: &History,
    rules: Rules,
    findings: &mut Findings<'_>,
) -> crate::Result<Reach> {
    let table = &case.conversation.table;
    let (counted, lost) = reach(&case.conversation, found, rules);
    if counted.left > 0 {
        let text = format!("{} on abandoned branches", messages(counted.left));
        findings.add(Code::Rewound, Severity::Note, None, text);
    }
    for (reason, lost) in lost {
        let (code, why) = why(case, found, rules, reason, &lost);
        let text = format!("{} lost: {why}", messages(lost.count));
        findings.row(code, Severity::Loss, Some(lost.first), text);
    }
    // Prompts that are only in the queue. Commands are not meant for the model.
    for row in table.unsaid.iter().filter(|row| Some(**row) > found.boundary) {
        let content = |entry: &Entry<'_>| entry.text("content").map(Cow::into_owned);
        if case.conversation.look(*row, content)?.is_some_and(|text| !text.starts_with('/')) {
            let text = "a prompt typed while the model worked is not sent: it is only in the queue, not in the conversation";
            findings.row(Code::QueuedPrompt, Severity::Loss, Some(*row), text);
        }
    }
    if rules.drops_images {
        for row in &found.rows {
            let images =
                table.blocks_of(*row).filter(|part| table.block(*part).kind == BlockKind::Image);
            for _ in images {
                let text = "the client sends the text `[image]` instead of an image";
                findings.row(Code::ImageDropped, Severity::Loss, Some(*row), text);
            }
        }
    }
    Ok(counted)
}

/// Why messages are lost: the code, and the reason as text.
fn why(case: &Case, found: &History, rules: Rules, reason: Reason, lost: &Lost) -> (Code, String) {
    let table = &case.conversation.table;
    let leaf = found.leaf.map_or(0, |leaf| table.row(leaf).line);
    let is_tie = |row: RowId| {
        !rules.leaf_is_last()
            && found.leaf.is_some_and(|leaf| table.row(leaf).time == table.row(row).time)
    };
    let tie = || {
        (
            Code::TimeTie,
            format!(
                "the client continues from line {leaf}, the first of the records with the newest time"
            ),
        )
    };
    let (code, text) = match reason {
        Reason::BehindLeaf if is_tie(lost.first) => return tie(),
        Reason::BehindLeaf => {
            let text = format!("the client continues from line {leaf}, not from the end");
            return (Code::WrongLeaf, text);
        }
        Reason::Cut => {
            let first = found.rows.iter().find(|row| Some(**row) > found.boundary);
            let line = first.map_or(0, |row| table.row(*row).line);
            let why = first.map(|row| parent(case, *row, &format!("the parent of line {line}")));
            let why = why.unwrap_or_default();
            return (Code::MissingParent, format!("{why}, so nothing before line {line} is sent"));
        }
        Reason::OtherBranch if case.is_named() && rules.leaf_is_named => {
            (Code::WrongLeaf, "a `last-prompt` record names another branch")
        }
        Reason::OtherBranch if !rules.leaf_is_last() && is_tie(lost.last) => return tie(),
        Reason::OtherBranch if !rules.leaf_is_last() && Some(lost.last) > found.leaf => {
            (Code::WrongLeaf, "another branch has the newest time")
        }
        Reason::OtherBranch => (
            Code::DeadBranch,
            "on another branch, which was written to after the live branch began",
        ),
        Reason::SilentBranch => {
            (Code::WrongLeaf, "the client continues on a branch that has no prompt and no answer")
        }
        Reason::Beside => (Code::LostResult, "tool result on a side branch that is not sent"),
        Reason::OtherRoot => (Code::SecondRoot, "under another root record"),
        Reason::Glued => (
            Code::GluedRecords,
            "on a line shared with other data, where the client does not read them",
        ),
        Reason::BehindNull => {
            (Code::NullLine, "after the line `null`, where the client stops reading")
        }
        Reason::Foreign => (Code::ForeignRecord, "a record type that no client reads"),
        Reason::NoUuid => {
            (Code::NoUuid, "no id; of the records without an id, the client keeps only the last")
        }
    };
    (code, text.to_owned())
}

/// Why the client does not find the parent of a record; `parent` is what to call it.
fn parent(case: &Case, row: RowId, parent: &str) -> String {
    let table = &case.conversation.table;
    let found = table.row(row).parent.and_then(|parent| case.conversation.graph.row_of(parent));
    match found.map(|parent| table.row(parent)) {
        None => format!("{parent} (the record that it follows) is not in the file"),
        Some(found) if found.placed == Placed::Marked => {
            format!("{parent} begins with a byte order mark, and the client does not read it")
        }
        Some(found) if !found.placed.is_alone() => {
            format!(
                "{parent} shares line {} with other data, and the client does not read it",
                found.line
            )
        }
        Some(found) => {
            format!("{parent}, line {}, is a record that the client does not follow", found.line)
        }
    }
}

/// A number of messages, as text.
pub(super) fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// What the client changed in the records that it sends.
fn notes(case: &Case, found: &History, findings: &mut Findings<'_>) {
    let table = &case.conversation.table;
    let row_of = |block: &Option<crate::conversation::table::BlockId>| {
        block.map(|block| table.block(block).row)
    };
    for note in &found.notes {
        match note {
            Note::Missing { row, bridged } => {
                let why = parent(case, *row, "its parent");
                let (severity, text) = match bridged {
                    Some(to) if case.is_damaged_between(*to, *row) => (
                        Severity::Loss,
                        format!(
                            "the message before it is damaged; Claude Code continues from line {} instead",
                            table.row(*to).line
                        ),
                    ),
                    Some(to) => (
                        Severity::Warning,
                        format!(
                            "{why}; Claude Code continues from line {} instead",
                            table.row(*to).line
                        ),
                    ),
                    // The loss that this causes was reported above.
                    None if case.first_said.is_some_and(|first| first < *row) => continue,
                    None => {
                        (Severity::Warning, format!("{why}: the conversation begins in the middle"))
                    }
                };
                findings.row(Code::MissingParent, severity, Some(*row), text);
            }
            Note::OpenCall { row } => {
                let mut calls = table.blocks_of(*row).filter_map(|part| table.block(part).id);
                let result = calls.find_map(|call| case.results.get(&call));
                let text = match result {
                    Some(line) => {
                        format!(
                            "a tool call is not sent: its result, line {line}, is not on the path that is sent"
                        )
                    }
                    None => "a tool call without a result is not sent".to_owned(),
                };
                findings.row(Code::OpenCall, Severity::Loss, Some(*row), text);
            }
            Note::ClosedCalls { count, answer } => {
                let text = format!(
                    "tool calls without a result at the end ({count}): the client adds results that say that they were interrupted"
                );
                findings.row(Code::OpenCall, Severity::Note, *answer, text);
            }
            Note::Empty { row } => {
                let text = "an answer with only thinking or white space is not sent";
                findings.row(Code::EmptyContent, Severity::Note, Some(*row), text);
            }
            Note::ThinkingOnly { .. } => {
                let text = "an answer with only thinking is not sent";
                findings.add(Code::EmptyContent, Severity::Note, None, text);
            }
            Note::ForeignThinking { id } => {
                let row = id.and_then(|id| case.answers.get(&id).copied());
                let text = format!(
                    "thinking of another model is not sent: the client continues with `{}`",
                    found.model
                );
                findings.row(Code::ThinkingForeign, Severity::Note, row, text);
            }
            Note::OrphanResult { block } => {
                let text = "a tool result is not sent: its call is not in the message before it";
                findings.row(Code::OrphanResult, Severity::Loss, row_of(block), text);
            }
            Note::SuffixedResult { block } => {
                let text = "a tool result is not sent: its call's id is that of another call plus `_` and a number, and the client treats them as the same";
                findings.row(Code::RepeatedCall, Severity::Loss, row_of(block), text);
            }
            Note::RepeatedResult { block } => {
                let text = "a second result of the same tool call is not sent";
                findings.row(Code::RepeatedResult, Severity::Note, row_of(block), text);
            }
            Note::RepeatedCall { block } => {
                let text = "a tool call is not sent: its id was used before";
                findings.row(Code::RepeatedCall, Severity::Loss, row_of(block), text);
            }
            Note::MadeResults { count } => {
                let text =
                    format!("tool calls sent with results that the client makes up: {count}");
                findings.add(Code::OpenCall, Severity::Warning, None, text);
            }
            Note::Compacted { .. }
            | Note::Kept { .. }
            | Note::Recovered { .. }
            | Note::Created { .. }
            | Note::Filled => {}
        }
    }
    for row in found.rows.iter().filter(|row| table.row(**row).is_sidechain) {
        let text = "a sub-agent's record is on the path to the end, and is sent";
        findings.row(Code::SidechainMarker, Severity::Warning, Some(*row), text);
    }
}

/// Whether the compaction that the client continues from has a summary. Also reports records that
/// it keeps and that are missing.
fn has_summary(case: &Case, found: &History, findings: &mut Findings<'_>) -> crate::Result<bool> {
    let table = &case.conversation.table;
    let Some(boundary) = found.boundary.and_then(|row| table.boundary(row)) else {
        return Ok(true);
    };
    if let Some(kept) = &boundary.messages {
        let missing =
            kept.uuids.iter().filter(|id| case.conversation.graph.row_of(**id).is_none()).count();
        if missing > 0 {
            let text =
                format!("{missing} of the records that the compaction keeps are not in the file");
            findings.row(Code::CompactionKeptMissing, Severity::Loss, Some(boundary.row), text);
        }
    }
    let mut after = found.rows.iter().copied().filter(|row| *row > boundary.row);
    let is_summary = |row: RowId| table.row(row).input == Some(Input::Summary);
    if after.clone().any(is_summary) {
        return Ok(true);
    }
    let first = after.find(|row| table.row(*row).kind == Kind::User);
    let is_told = match first {
        None => false,
        Some(row) => case.conversation.look(row, |entry| {
            let text = entry.message().and_then(crate::format::content::Message::first_text);
            text.is_some_and(|text| text.trim_start().starts_with(SUMMARY_LEAD))
        })?,
    };
    // If no answer precedes it, nothing is missing.
    let before = table.rows()[..boundary.row.index()].iter().any(|row| row.kind == Kind::Assistant);
    let is_missing = !is_told && before;
    if is_missing {
        let text = "the compaction has no summary: nothing that was said before it is sent";
        findings.row(Code::CompactionWithoutSummary, Severity::Loss, Some(boundary.row), text);
    }
    Ok(!is_missing)
}
