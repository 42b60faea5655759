//! One call on the screen: a line, what it changed, and what a sub-agent made of it.

use std::io;

use anstyle::Style;
use transcript::conversation::Conversation;
use transcript::diff::{Action, Touched};
use transcript::family::{Family, Owner, SubAgent};
use transcript::json::Json;
use transcript::table::BlockId;
use transcript::turn::{Call, Piece, Step, Tokens, What};
use unicode_width::UnicodeWidthStr;

use super::{Wanted, turn};
use crate::failure::Failure;
use crate::markup;
use crate::out::{BAD, BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, Span};
use crate::text::{count, fit, one_line, short_number, shown, span};

/// How many lines of a diff, and of an error, are shown if not all are wanted.
const DIFF_LINES: usize = 14;
const ERROR_LINES: usize = 3;

/// How deep agents of agents are shown.
const DEEPEST: usize = 8;

/// Quicker than this is not worth a word.
const QUICK: i64 = 1_000;

/// Writes a call.
pub(super) fn write(
    page: &mut Page<'_>,
    family: &Family,
    owner: Owner,
    block: BlockId,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let conversation = family.of(owner);
    let call =
        conversation.call(block).map_err(|error| Failure::unreadable(&conversation.path, error))?;
    headline(page, &call, wanted.cwd)?;
    let inside = Lead::hanging(Span::new(DIM, "    ⎿ "));
    asked(page, &call, wanted)?;
    match &call.result {
        Some(result) if result.is_error => {
            let most = if wanted.full { usize::MAX } else { ERROR_LINES };
            lines(page, &inside, &words(&result.pieces), BAD, most)?;
        }
        Some(result) if wanted.full => {
            lines(page, &inside, &words(&result.pieces), DIM, usize::MAX)?;
        }
        _ => {}
    }
    if call.is_cut {
        page.paragraph(&Lead::spaces(6), &[Span::new(WARN, turn::CUT)])?;
    }
    if let Some(touched) = &call.touched {
        diff(page, touched, if wanted.full { usize::MAX } else { DIFF_LINES })?;
    }
    for at in family.started(owner, block) {
        agent(page, family, *at, wanted)?;
    }
    Ok(())
}

/// What a call was asked, where its line does not say all: a plan always, other inputs if everything is wanted.
fn asked(page: &mut Page<'_>, call: &Call, wanted: Wanted<'_>) -> io::Result<()> {
    let Some(input) = Json::parse(&call.input).and_then(Json::object) else { return Ok(()) };
    let lead = Lead::spaces(6);
    if let Some(plan) = input.text("plan").filter(|_| call.tool.to_lowercase().contains("plan")) {
        return markup::write(page, &lead, &plan);
    }
    // What was changed is shown as a diff.
    if !wanted.full || call.touched.is_some() {
        return Ok(());
    }
    for (name, value) in input.members() {
        let name = Span::new(DIM, format!("{}: ", one_line(&name)));
        match value.text() {
            Some(text) if text.contains('\n') => {
                page.paragraph(&lead, &[name])?;
                lines(page, &Lead::spaces(8), &text, DIM, usize::MAX)?;
            }
            Some(text) => page.paragraph(&lead, &[name, Span::new(DIM, shown(&text))])?,
            None => {
                let json = String::from_utf8_lossy(value.raw()).into_owned();
                page.paragraph(&lead, &[name, Span::new(DIM, one_line(&json))])?;
            }
        }
    }
    Ok(())
}

/// A result whose call is not in the file.
pub(super) fn orphan(
    page: &mut Page<'_>,
    conversation: &Conversation,
    block: BlockId,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let (pieces, _) = conversation
        .result(block)
        .map_err(|error| Failure::unreadable(&conversation.path, error))?;
    page.line(&[Span::new(WARN, "  ? a result without its call")])?;
    let inside = Lead::hanging(Span::new(DIM, "    ⎿ "));
    let most = if wanted.full { usize::MAX } else { ERROR_LINES };
    Ok(lines(page, &inside, &words(&pieces), DIM, most)?)
}

/// The line of a call: how it went, which tool, what for, and what came of it.
fn headline(page: &mut Page<'_>, call: &Call, cwd: Option<&str>) -> io::Result<()> {
    let (mark, style) = match &call.result {
        None => ("○", WARN),
        Some(result) if result.is_error => ("✗", BAD),
        Some(_) => ("●", GOOD),
    };
    let tool = one_line(&call.tool);
    let tail = tail(call);
    let room = page.room(&Lead::default());
    let used = 4 + tool.width() + 1;
    let about = fit(
        &one_line(short_path(&call.about, cwd)),
        room.saturating_sub(used + tail.width()).max(12),
    );
    let gap = if about.is_empty() { "" } else { " " };
    let mut spans = vec![
        Span::plain("  "),
        Span::new(style, mark),
        Span::plain(" "),
        Span::new(BOLD, tool),
        Span::plain(format!("{gap}{about}")),
    ];
    spans.push(Span::new(DIM, tail));
    page.line(&spans)
}

fn tail(call: &Call) -> String {
    let mut facts = Vec::new();
    if let Some(touched) = call.touched.as_ref().filter(|touched| touched.action != Action::Read) {
        let [added, removed] = touched.counts();
        if touched.action == Action::Created {
            facts.push("new".to_owned());
        }
        if added > 0 {
            facts.push(format!("+{added}"));
        }
        if removed > 0 {
            facts.push(format!("−{removed}"));
        }
    }
    match &call.result {
        None => facts.push("no result".to_owned()),
        Some(result) => {
            let outcome = result.outcome.as_deref().filter(|_| !result.is_error).map(one_line);
            facts.extend(outcome.map(|outcome| fit(&outcome, 40)));
            let slow = result.duration.filter(|taken| *taken >= QUICK);
            facts.extend(slow.map(span));
        }
    }
    if facts.is_empty() { String::new() } else { format!("  {}", facts.join(" · ")) }
}

/// A path as it is seen from the session's folder.
fn short_path<'a>(path: &'a str, cwd: Option<&str>) -> &'a str {
    let below = cwd.and_then(|cwd| path.strip_prefix(cwd)?.strip_prefix(['/', '\\']));
    below.filter(|below| !below.is_empty()).unwrap_or(path)
}

/// The texts of a result, and what is no text in a few words.
fn words(pieces: &[Piece]) -> String {
    let texts = pieces.iter().filter_map(|piece| match &piece.what {
        What::Text(text) | What::Thinking(text) => Some(text.clone()),
        what => turn::aside(what),
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    // The client's own wrapping, for the model.
    let inner = text.trim().strip_prefix("<tool_use_error>");
    inner.and_then(|inner| inner.strip_suffix("</tool_use_error>")).unwrap_or(&text).to_owned()
}

/// Writes the first lines of a text; says how many there are more.
pub(super) fn lines(
    page: &mut Page<'_>,
    lead: &Lead,
    text: &str,
    style: Style,
    most: usize,
) -> io::Result<()> {
    let text = text.trim_end();
    let all = text.lines().count();
    // One line more is as short as saying that there is one.
    let most = if all == most.saturating_add(1) { all } else { most };
    for (number, line) in text.lines().take(most).enumerate() {
        let lead = if number == 0 { lead.clone() } else { lead.inside() };
        let line = folded(page, &lead, line, most);
        page.paragraph(&lead, &[Span::new(style, line)])?;
    }
    if all > most {
        let rest = format!("… {} (--full)", count((all - most) as u64, "more line"));
        page.line(&[lead.inside().first.as_slice(), &[Span::new(DIM, rest)]].concat())?;
    }
    Ok(())
}

/// A line as it is, or cut if not everything is wanted: one line may be a whole file.
fn folded(page: &Page<'_>, lead: &Lead, line: &str, most: usize) -> String {
    let line = shown(line);
    if most == usize::MAX { line } else { fit(&line, page.room(lead) * 3) }
}

/// What a call changed.
fn diff(page: &mut Page<'_>, touched: &Touched, most: usize) -> io::Result<()> {
    let all: usize = touched.hunks.iter().map(|hunk| hunk.lines.len()).sum();
    let most = if all == most.saturating_add(1) { all } else { most };
    let mut left = most;
    for (number, hunk) in touched.hunks.iter().enumerate() {
        if left == 0 {
            break;
        }
        if number > 0 {
            page.line(&[Span::new(DIM, "          ⋯")])?;
        }
        let [mut old, mut new] = hunk.start.unwrap_or_default();
        for (sign, line) in hunk.lines.iter().take(left) {
            let (place, style) = match sign {
                '+' => (new, GOOD),
                '-' => (old, BAD),
                _ => (new, DIM),
            };
            let place = if hunk.start.is_some() { place.to_string() } else { String::new() };
            let lead = Lead::hanging(Span::new(DIM, format!("    {place:>5} ")));
            page.code(&lead, &Span::new(style, format!("{sign} {}", shown(line))))?;
            old += u64::from(matches!(sign, '-' | ' '));
            new += u64::from(matches!(sign, '+' | ' '));
        }
        left = left.saturating_sub(hunk.lines.len());
    }
    if all > most {
        let rest = format!("          … {} more lines (--full)", all - most);
        page.line(&[Span::new(DIM, rest)])?;
    }
    Ok(())
}

/// What a sub-agent did: in a line, or all of it.
fn agent(
    page: &mut Page<'_>,
    family: &Family,
    at: usize,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let agent = &family.agents[at];
    let conversation = family.body(agent);
    let turns = family.turns(agent);
    let (mut calls, mut answers, mut tokens) = (0, 0, Tokens::default());
    for turn in &turns {
        calls += turn.calls(&conversation.table).count();
        answers += turn.steps.iter().filter(|step| matches!(step, Step::Answer { .. })).count();
        tokens.add(turn.tokens(&conversation.table));
    }
    let mut facts = vec![
        count(answers as u64, "answer"),
        count(calls as u64, "call"),
        format!("{} tokens", short_number(tokens.total())),
    ];
    facts.extend(doubt(agent));
    let [kind, _] =
        family.task(agent).map_err(|error| Failure::unreadable(&conversation.path, error))?;
    let kind = kind.map(|kind| format!("{} ", one_line(&kind))).unwrap_or_default();
    let text = format!("    ↳ {kind}agent {}: {}", one_line(&agent.id), facts.join(", "));
    page.paragraph(&Lead::default(), &[Span::new(DIM, text)])?;
    if wanted.full && page.margin.rest.len() < DEEPEST {
        let margin = page.margin.clone();
        page.margin = margin.then(&Lead::all(Span::new(DIM, "    │ ")));
        for (number, turn) in (1..).zip(&turns) {
            turn::write(page, family, Owner::Agent(at), turn, number, wanted)?;
        }
        page.margin = margin;
    }
    Ok(())
}

/// How it is known whose agent it is, if that is not sure.
fn doubt(agent: &SubAgent) -> Option<String> {
    let start = agent.start.filter(|start| start.is_guess)?;
    Some(format!("perhaps: found by its {}", start.how.name()))
}
