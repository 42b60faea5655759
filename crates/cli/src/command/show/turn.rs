//! Draws one turn.

use std::io;

use ratatui::style::{Color, Modifier, Style};
use transcript::conversation::Conversation;
use transcript::conversation::agents::{Owner, WithAgents};
use transcript::conversation::price::Prices;
use transcript::conversation::turn::{Outcome, Turn};
use transcript::conversation::view::{self, Detail, Item, MessageView, Piece, Role};
use transcript::format::input::Input;
use unicode_width::UnicodeWidthStr;

use super::{Wanted, call};
use crate::compaction;
use crate::failure::Failure;
use crate::markup;
use crate::out::{BAD, BOLD, DIM, WARN};
use crate::page::{Lead, Page, styled};
use crate::text::{
    count, dollars, fit, local, one_line, output, short_number, shown, span, uncoloured,
};

const PROMPT: Style = Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD);
const THINKING: Style = DIM.add_modifier(Modifier::ITALIC);

/// Shown where a record is too long to hold.
pub(super) const CUT: &str = "(the record is too long to hold: the middle of its texts is missing; `quipu cat` has all of it)";

/// How many lines are shown of what is not the conversation itself, unless all are wanted.
const GLIMPSE: usize = 4;

/// Draws a turn.
pub(super) fn write(
    page: &mut Page<'_>,
    session: &WithAgents,
    owner: Owner,
    turn: &Turn,
    number: usize,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let conversation = session.of(owner);
    page.blank()?;
    rule(page, conversation, turn, number, wanted.prices)?;
    // Calls are drawn together; everything else is drawn apart.
    let mut before = Apart::Rule;
    for item in view::items(session, owner, turn) {
        let item = item?;
        if !item.is_shown(wanted.show) {
            continue;
        }
        match item {
            Item::Message(message) => write_message(page, &message, &mut before, wanted)?,
            Item::Answer(_) => {}
            Item::Block(block) => {
                if let Some(piece) = &block.piece {
                    answer(page, piece, block.is_error, &mut before)?;
                }
            }
            Item::Call(call) => {
                apart(page, &mut before, Apart::Call)?;
                call::write(page, session, &call, wanted)?;
            }
            Item::Orphan(orphan) => {
                apart(page, &mut before, Apart::Call)?;
                call::orphan(page, &orphan, wanted)?;
            }
            Item::Event(event) => match &event.compaction {
                Some(boundary) => {
                    let facts = compaction::facts(conversation, boundary).join(" · ");
                    let text = format!("compaction: {facts}");
                    apart(page, &mut before, Apart::Note)?;
                    let fill = page.room(&Lead::default()).saturating_sub(text.width() + 4);
                    page.line(&[styled(WARN, format!("━━ {text} {}", "━".repeat(fill)))])?;
                }
                None => glimpse(page, &mut before, "", &event.text, wanted)?,
            },
        }
    }
    let Some(end) = view::turn_end(turn.outcome) else { return Ok(()) };
    apart(page, &mut before, Apart::Text)?;
    Ok(page.line(&[styled(WARN, format!("({end})"))])?)
}

/// What was drawn before: a blank line separates what does not belong together.
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

/// Draws the line above a turn: its number, when it began, and what it took.
fn rule(
    page: &mut Page<'_>,
    conversation: &Conversation,
    turn: &Turn,
    number: usize,
    prices: &Prices,
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
        let input = short_number(tokens.total() - tokens.output);
        facts.push(format!("{input} in, {} out", output(tokens)));
        let spent = turn.spending(&conversation.table, prices);
        facts.extend((spent.messages > 0).then(|| dollars(&spent)));
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
        page.line(&[styled(style, left.trim_end())])?;
        return page.paragraph(&Lead::spaces(3), &[styled(style, facts.join(" · "))]);
    }
    page.line(&[styled(style, format!("{left}{}{right}", "─".repeat(fill)))])
}

/// Draws what the model was sent.
fn write_message(
    page: &mut Page<'_>,
    message: &MessageView,
    before: &mut Apart,
    wanted: Wanted<'_>,
) -> io::Result<()> {
    let text = &message.text;
    let name = match message.role {
        Role::Output => return glimpse(page, before, "", &uncoloured(text), wanted),
        Role::Summary => return glimpse(page, before, "summary: ", text, wanted),
        Role::Hook => return glimpse(page, before, "hook: ", text, wanted),
        Role::Reminder => return glimpse(page, before, "", text, wanted),
        Role::Interrupt => {
            apart(page, before, Apart::Note)?;
            return page.line(&[styled(BAD, one_line(text))]);
        }
        Role::Queued => "while it works: ",
        Role::Prompt | Role::Notification | Role::Peer => "",
    };
    apart(page, before, Apart::Prompt)?;
    let lead = Lead::all(styled(PROMPT, "▌ "));
    for (number, line) in text.lines().enumerate() {
        let mut spans = Vec::new();
        if number == 0 && !name.is_empty() {
            spans.push(styled(DIM, name));
        }
        spans.push(styled(BOLD, shown(line)));
        page.paragraph(&lead, &spans)?;
    }
    for addition in message.additions() {
        let text = fit(&one_line(&addition), page.room(&lead) * 2);
        page.paragraph(&lead, &[styled(DIM, text)])?;
    }
    if message.content.iter().any(Piece::is_cut) {
        page.paragraph(&lead, &[styled(WARN, CUT)])?;
    }
    Ok(())
}

/// Draws the first lines of a text, or all.
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
    let lead = Lead::hanging(styled(DIM, "  ⎿ "));
    let most = if wanted.show.detail == Detail::Full { usize::MAX } else { GLIMPSE };
    call::lines(page, &lead, &format!("{name}{text}"), DIM, most)
}

/// Draws a block of an answer.
fn answer(
    page: &mut Page<'_>,
    piece: &Piece,
    is_error: bool,
    before: &mut Apart,
) -> io::Result<()> {
    match piece {
        Piece::Text { text, .. } if is_error => {
            apart(page, before, Apart::Text)?;
            for line in text.lines() {
                page.paragraph(&Lead::default(), &[styled(BAD, shown(line))])?;
            }
        }
        Piece::Text { text, .. } => {
            apart(page, before, Apart::Text)?;
            markup::write(page, &Lead::default(), text)?;
        }
        Piece::Thinking { text, .. } => {
            apart(page, before, Apart::Text)?;
            let lead = Lead::hanging(styled(THINKING, "∴ "));
            for (number, line) in text.trim().lines().enumerate() {
                let lead = if number == 0 { lead.clone() } else { lead.inside() };
                page.paragraph(&lead, &[styled(THINKING, shown(line))])?;
            }
        }
        piece => {
            apart(page, before, Apart::Note)?;
            if let Some(words) = piece.in_words() {
                page.paragraph(&Lead::spaces(2), &[styled(DIM, one_line(&words))])?;
            }
        }
    }
    if piece.is_cut() {
        page.paragraph(&Lead::default(), &[styled(WARN, CUT)])?;
    }
    Ok(())
}
