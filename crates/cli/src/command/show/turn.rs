//! One turn on the screen.

use std::io;

use anstyle::{AnsiColor, Style};
use transcript::conversation::Conversation;
use transcript::event::event;
use transcript::family::{Family, Owner};
use transcript::input::{Input, typed};
use transcript::table::{BlockId, RowId};
use transcript::turn::{Outcome, Piece, Step, Turn, What};
use unicode_width::UnicodeWidthStr;

use super::{Wanted, call};
use crate::command::compaction;
use crate::command::turns::output;
use crate::failure::Failure;
use crate::markup;
use crate::out::{BAD, BOLD, DIM, WARN};
use crate::page::{Lead, Page, Span};
use crate::text::{count, fit, local, one_line, short_number, shown, size, span, uncoloured};

const PROMPT: Style = AnsiColor::Blue.on_default().bold();
const THINKING: Style = DIM.italic();

/// What is said of a record that is too long to hold.
pub(super) const CUT: &str = "(the record is too long to be held: its texts have lost their middle; `quipu cat` has all of it)";

/// How many lines of what is not the conversation itself are shown, if not all are wanted.
const GLIMPSE: usize = 4;

/// Writes a turn.
pub(super) fn write(
    page: &mut Page<'_>,
    family: &Family,
    owner: Owner,
    turn: &Turn,
    number: usize,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let conversation = family.of(owner);
    let unreadable = |error| Failure::unreadable(&conversation.path, error);
    page.blank()?;
    rule(page, conversation, turn, number)?;
    // Calls stand together; everything else stands apart.
    let mut before = Apart::Rule;
    for step in &turn.steps {
        match step {
            Step::Said(row) => {
                let pieces = conversation.pieces_of(*row).map_err(unreadable)?;
                write_message(
                    page,
                    conversation.table.row(*row).input,
                    &pieces,
                    &mut before,
                    wanted,
                )?;
            }
            Step::Answer { id, .. } if !wanted.full && conversation.table.is_filler(*id) => {}
            Step::Answer { blocks, .. } => {
                for run in blocks.chunk_by(|one, other| {
                    is_call(conversation, *one) == is_call(conversation, *other)
                }) {
                    if is_call(conversation, run[0]) {
                        for block in run {
                            apart(page, &mut before, Apart::Call)?;
                            call::write(page, family, owner, *block, wanted)?;
                        }
                    } else {
                        let pieces = conversation.pieces(run).map_err(unreadable)?;
                        let answering = Answering {
                            error: is_error(conversation, step),
                            thinking: wanted.thinking,
                        };
                        for piece in &pieces {
                            answer(page, piece, answering, &mut before)?;
                        }
                    }
                }
            }
            Step::Orphan(block) => {
                apart(page, &mut before, Apart::Call)?;
                call::orphan(page, conversation, *block, wanted)?;
            }
            Step::Event(row) => note(page, conversation, *row, &mut before, wanted)?,
        }
    }
    let end = match turn.outcome {
        Outcome::Open => "the model did not go on",
        Outcome::Unanswered => "not answered",
        Outcome::Answered
        | Outcome::Interrupted
        | Outcome::Failed
        | Outcome::Local
        | Outcome::Compacted => {
            return Ok(());
        }
    };
    apart(page, &mut before, Apart::Text)?;
    Ok(page.line(&[Span::new(WARN, format!("({end})"))])?)
}

/// What stands before: a blank line parts things that do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    Rule,
    Prompt,
    Text,
    Call,
    Note,
}

fn apart(page: &mut Page<'_>, before: &mut Apart, now: Apart) -> io::Result<()> {
    let together = *before == Apart::Rule
        || matches!((*before, now), (Apart::Call | Apart::Note, Apart::Call | Apart::Note));
    *before = now;
    if together { Ok(()) } else { page.blank() }
}

fn is_call(conversation: &Conversation, block: BlockId) -> bool {
    conversation.table.part(block).kind.is_call()
}

fn is_error(conversation: &Conversation, step: &Step) -> bool {
    matches!(step, Step::Answer { id, .. } if conversation.table.answer(*id).is_error)
}

/// The line above a turn: its number, when it began, and what it took.
fn rule(
    page: &mut Page<'_>,
    conversation: &Conversation,
    turn: &Turn,
    number: usize,
) -> io::Result<()> {
    let mut names = vec![number.to_string()];
    names.extend(turn.times.map(|[start, _]| local(start, "%Y-%m-%d %H:%M:%S")));
    let input = turn.input.filter(|input| *input != Input::Plain);
    names.extend(input.map(|input| input.name().replace('_', " ")));
    let left = format!("── {} ", names.join(" ── "));
    let mut facts = Vec::new();
    if let Some([start, end]) = turn.times {
        facts.push(span(end.0.saturating_sub(start.0)));
    }
    let calls = turn.calls(&conversation.table).count();
    if calls > 0 {
        facts.push(count(calls as u64, "call"));
    }
    let tokens = turn.tokens(&conversation.table);
    if tokens.total() > 0 {
        let input = tokens.input + tokens.cache_read + tokens.cache_write;
        facts.push(format!("{} in, {} out", short_number(input), output(tokens)));
    }
    if turn.outcome != Outcome::Answered {
        facts.push(turn.outcome.name().to_owned());
    }
    let right =
        if facts.is_empty() { String::new() } else { format!(" {} ──", facts.join(" · ")) };
    let room = page.room(&Lead::default());
    let fill = room.saturating_sub(left.width() + right.width());
    let style = if turn.outcome.is_complete() { DIM } else { WARN };
    if fill == 0 {
        page.line(&[Span::new(style, left.trim_end())])?;
        return page.paragraph(&Lead::spaces(3), &[Span::new(style, facts.join(" · "))]);
    }
    page.line(&[Span::new(style, format!("{left}{}{right}", "─".repeat(fill)))])
}

/// What was said to the model.
fn write_message(
    page: &mut Page<'_>,
    input: Option<Input>,
    pieces: &[Piece],
    before: &mut Apart,
    wanted: Wanted<'_>,
) -> io::Result<()> {
    let texts = pieces.iter().filter_map(|piece| match &piece.what {
        What::Text(text) => Some(text.as_str().into()),
        _ => None,
    });
    let words = typed(texts).unwrap_or_default();
    let name = match input {
        Some(Input::Output) => return glimpse(page, before, "", &uncoloured(&words), wanted),
        Some(Input::Summary) => return glimpse(page, before, "summary: ", &words, wanted),
        Some(Input::Hook) => return glimpse(page, before, "hook: ", &words, wanted),
        Some(Input::Meta | Input::Preface) => {
            return if wanted.full { glimpse(page, before, "", &words, wanted) } else { Ok(()) };
        }
        Some(Input::Interrupt) => {
            apart(page, before, Apart::Note)?;
            return page.line(&[Span::new(BAD, one_line(&words))]);
        }
        Some(Input::Queued) | None => "while it works: ",
        Some(_) => "",
    };
    apart(page, before, Apart::Prompt)?;
    let lead = Lead::all(Span::new(PROMPT, "▌ "));
    for (number, line) in words.lines().enumerate() {
        let mut spans = Vec::new();
        if number == 0 && !name.is_empty() {
            spans.push(Span::new(DIM, name));
        }
        spans.push(Span::new(BOLD, shown(line)));
        page.paragraph(&lead, &spans)?;
    }
    for piece in pieces {
        let text = match &piece.what {
            // What an editor added.
            What::Text(text) if text.starts_with("<ide_") => {
                Some(fit(&one_line(text), page.room(&lead) * 2))
            }
            what => aside(what),
        };
        if let Some(text) = text {
            page.paragraph(&lead, &[Span::new(DIM, text)])?;
        }
    }
    if pieces.iter().any(|piece| piece.is_cut) {
        page.paragraph(&lead, &[Span::new(WARN, CUT)])?;
    }
    Ok(())
}

/// A block that is no text, in a few words.
pub(super) fn aside(what: &What) -> Option<String> {
    match what {
        What::Text(_) | What::Thinking(_) => None,
        What::Redacted => Some("[thinking that only the API can read]".to_owned()),
        What::Call(name, _) => Some(format!("[call of {}]", one_line(name))),
        What::Media(kind, media_type, bytes) => {
            Some(format!("[{} {} {}]", one_line(kind), one_line(media_type), size(*bytes as u64)))
        }
        What::Other(kind, json) => {
            Some(format!("[{} {}]", one_line(kind), size(json.len() as u64)))
        }
    }
}

/// The first lines of something, or all.
fn glimpse(
    page: &mut Page<'_>,
    before: &mut Apart,
    name: &str,
    text: &str,
    wanted: Wanted<'_>,
) -> io::Result<()> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    apart(page, before, Apart::Note)?;
    let lead = Lead::hanging(Span::new(DIM, "  ⎿ "));
    call::lines(
        page,
        &lead,
        &format!("{name}{text}"),
        DIM,
        if wanted.full { usize::MAX } else { GLIMPSE },
    )
}

/// What kind of answer is shown, and how.
#[derive(Clone, Copy)]
struct Answering {
    error: bool,
    thinking: bool,
}

fn answer(
    page: &mut Page<'_>,
    piece: &Piece,
    how: Answering,
    before: &mut Apart,
) -> io::Result<()> {
    match &piece.what {
        What::Text(text) if text.trim().is_empty() => return Ok(()),
        What::Text(text) if how.error => {
            apart(page, before, Apart::Text)?;
            for line in text.lines() {
                page.paragraph(&Lead::default(), &[Span::new(BAD, shown(line))])?;
            }
        }
        What::Text(text) => {
            apart(page, before, Apart::Text)?;
            markup::write(page, &Lead::default(), text)?;
        }
        What::Thinking(text) => {
            if !how.thinking || text.trim().is_empty() {
                return Ok(());
            }
            apart(page, before, Apart::Text)?;
            let lead = Lead::hanging(Span::new(THINKING, "∴ "));
            for (number, line) in text.trim().lines().enumerate() {
                let lead = if number == 0 { lead.clone() } else { lead.inside() };
                page.paragraph(&lead, &[Span::new(THINKING, shown(line))])?;
            }
        }
        What::Redacted if !how.thinking => return Ok(()),
        what => {
            apart(page, before, Apart::Note)?;
            if let Some(text) = aside(what) {
                page.paragraph(&Lead::spaces(2), &[Span::new(DIM, text)])?;
            }
        }
    }
    if piece.is_cut {
        page.paragraph(&Lead::default(), &[Span::new(WARN, CUT)])?;
    }
    Ok(())
}

/// What the client noted.
fn note(
    page: &mut Page<'_>,
    conversation: &Conversation,
    row: RowId,
    before: &mut Apart,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    if let Some(boundary) = conversation.table.boundary(row) {
        let text = format!("compaction: {}", compaction::facts(conversation, boundary).join(" · "));
        apart(page, before, Apart::Note)?;
        let fill = page.room(&Lead::default()).saturating_sub(text.width() + 4);
        return Ok(page.line(&[Span::new(WARN, format!("━━ {text} {}", "━".repeat(fill)))])?);
    }
    let seen = conversation
        .look(row, event)
        .map_err(|error| Failure::unreadable(&conversation.path, error))?;
    if seen.matters || wanted.full {
        glimpse(page, before, "", &seen.text, wanted)?;
    }
    Ok(())
}
