//! Draws one call: a line, what it changed, and what a sub-agent did.

use std::io;

use ratatui::style::Style;
use transcript::conversation::agents::{Owner, SubAgent, WithAgents};
use transcript::conversation::turn::Step;
use transcript::conversation::usage::Usage;
use transcript::conversation::view::{Call, Detail, FileChange, Orphan};
use transcript::format::json::Json;
use unicode_width::UnicodeWidthStr;

use super::{Wanted, turn};
use crate::failure::Failure;
use crate::markup;
use crate::out::{BAD, BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, styled, unstyled};
use crate::text::{count, fit, one_line, short_number, shown, span};

/// How many lines of a diff, and of an error, are shown unless all are wanted.
const DIFF_LINES: usize = 14;
const ERROR_LINES: usize = 3;

/// Down to which nesting sub-agents of sub-agents are shown.
const DEEPEST: usize = 8;

/// The duration of a call is shown from so many milliseconds on.
const QUICK: i64 = 1_000;

/// Draws a call.
pub(super) fn write(
    page: &mut Page<'_>,
    session: &WithAgents,
    call: &Call,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let is_full = wanted.show.detail == Detail::Full;
    headline(page, call, wanted.cwd)?;
    let inside = Lead::hanging(styled(DIM, "    ⎿ "));
    asked(page, call, is_full)?;
    match &call.result {
        Some(result) if result.error => {
            let most = if is_full { usize::MAX } else { ERROR_LINES };
            lines(page, &inside, &result.text(), BAD, most)?;
        }
        Some(result) if is_full => {
            lines(page, &inside, &result.text(), DIM, usize::MAX)?;
        }
        _ => {}
    }
    if call.is_cut() {
        page.paragraph(&Lead::spaces(6), &[styled(WARN, turn::CUT)])?;
    }
    if let Some(file) = &call.file {
        diff(page, file, if is_full { usize::MAX } else { DIFF_LINES })?;
    }
    for at in &call.started {
        agent(page, session, *at, wanted)?;
    }
    Ok(())
}

/// Draws what a call was asked, where its line does not say all: a plan always, other inputs if
/// everything is wanted.
fn asked(page: &mut Page<'_>, call: &Call, is_full: bool) -> io::Result<()> {
    let lead = Lead::spaces(6);
    if let Some(plan) = call.plan() {
        return markup::write(page, &lead, &plan);
    }
    // What was changed is shown as a diff.
    if !is_full || call.file.is_some() {
        return Ok(());
    }
    let input = Json::parse(call.input.as_str().as_bytes()).and_then(Json::object);
    for (name, value) in input.iter().flat_map(transcript::format::json::Object::members) {
        let name = styled(DIM, format!("{}: ", one_line(&name)));
        match value.text() {
            Some(text) if text.contains('\n') => {
                page.paragraph(&lead, &[name])?;
                lines(page, &Lead::spaces(8), &text, DIM, usize::MAX)?;
            }
            Some(text) => page.paragraph(&lead, &[name, styled(DIM, shown(&text))])?,
            None => {
                let json = String::from_utf8_lossy(value.raw()).into_owned();
                page.paragraph(&lead, &[name, styled(DIM, one_line(&json))])?;
            }
        }
    }
    Ok(())
}

/// Draws a result whose call is not in the file.
pub(super) fn orphan(
    page: &mut Page<'_>,
    orphan: &Orphan,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    page.line(&[styled(WARN, "  ? a result without its call")])?;
    let inside = Lead::hanging(styled(DIM, "    ⎿ "));
    let most = if wanted.show.detail == Detail::Full { usize::MAX } else { ERROR_LINES };
    Ok(lines(page, &inside, &orphan.text(), DIM, most)?)
}

/// Draws the line of a call: how it went, which tool, what for, and what came of it.
fn headline(page: &mut Page<'_>, call: &Call, cwd: Option<&str>) -> io::Result<()> {
    let (mark, style) = match &call.result {
        None => ("○", WARN),
        Some(result) if result.error => ("✗", BAD),
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
        unstyled("  "),
        styled(style, mark),
        unstyled(" "),
        styled(BOLD, tool),
        unstyled(format!("{gap}{about}")),
    ];
    spans.push(styled(DIM, tail));
    page.line(&spans)
}

fn tail(call: &Call) -> String {
    let mut facts: Vec<String> = call.facts().iter().map(|fact| fit(&one_line(fact), 40)).collect();
    let taken = call.result.as_ref().and_then(|result| result.duration_ms);
    facts.extend(taken.filter(|taken| *taken >= QUICK).map(span));
    if facts.is_empty() { String::new() } else { format!("  {}", facts.join(" · ")) }
}

/// A path, relative to the folder of the session.
fn short_path<'a>(path: &'a str, cwd: Option<&str>) -> &'a str {
    let below = cwd.and_then(|cwd| path.strip_prefix(cwd)?.strip_prefix(['/', '\\']));
    below.filter(|below| !below.is_empty()).unwrap_or(path)
}

/// Draws the first lines of a text, and says how many more there are.
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
        page.paragraph(&lead, &[styled(style, line)])?;
    }
    if all > most {
        let rest = format!("… {} (--full)", count((all - most) as u64, "more line"));
        page.line(&[lead.inside().first.as_slice(), &[styled(DIM, rest)]].concat())?;
    }
    Ok(())
}

/// A line as it is, or cut if not everything is wanted: one line may be a whole file.
fn folded(page: &Page<'_>, lead: &Lead, line: &str, most: usize) -> String {
    let line = shown(line);
    if most == usize::MAX { line } else { fit(&line, page.room(lead) * 3) }
}

/// Draws what a call changed.
fn diff(page: &mut Page<'_>, file: &FileChange, most: usize) -> io::Result<()> {
    let all: usize = file.diff.iter().map(|hunk| hunk.lines.len()).sum();
    let most = if all == most.saturating_add(1) { all } else { most };
    let mut left = most;
    for (number, hunk) in file.diff.iter().enumerate() {
        if left == 0 {
            break;
        }
        if number > 0 {
            page.line(&[styled(DIM, "          ⋯")])?;
        }
        let [mut old, mut new] = hunk.start.unwrap_or_default();
        for (sign, line) in hunk.signed().take(left) {
            let (place, style) = match sign {
                '+' => (new, GOOD),
                '-' => (old, BAD),
                _ => (new, DIM),
            };
            let place = if hunk.start.is_some() { place.to_string() } else { String::new() };
            let lead = Lead::hanging(styled(DIM, format!("    {place:>5} ")));
            page.code(&lead, &styled(style, format!("{sign} {}", shown(line))))?;
            old += u64::from(matches!(sign, '-' | ' '));
            new += u64::from(matches!(sign, '+' | ' '));
        }
        left = left.saturating_sub(hunk.lines.len());
    }
    if all > most {
        let rest = format!("          … {} more lines (--full)", all - most);
        page.line(&[styled(DIM, rest)])?;
    }
    Ok(())
}

/// Draws what a sub-agent did: in a line, or all of it.
fn agent(
    page: &mut Page<'_>,
    session: &WithAgents,
    at: usize,
    wanted: Wanted<'_>,
) -> Result<(), Failure> {
    let agent = &session.agents[at];
    let conversation = session.body(agent);
    let turns = session.turns(agent);
    let (mut calls, mut answers) = (0, 0);
    for turn in &turns {
        calls += turn.calls(&conversation.table).count();
        answers += turn.steps.iter().filter(|step| matches!(step, Step::Answer { .. })).count();
    }
    let tokens: Usage = turns.iter().map(|turn| turn.tokens(&conversation.table)).sum();
    let mut facts = vec![
        count(answers as u64, "answer"),
        count(calls as u64, "call"),
        format!("{} tokens", short_number(tokens.total())),
    ];
    facts.extend(doubt(agent));
    let [kind, _] = session.task(agent)?;
    let kind = kind.map(|kind| format!("{} ", one_line(&kind))).unwrap_or_default();
    let text = format!("    ↳ {kind}agent {}: {}", one_line(&agent.id), facts.join(", "));
    page.paragraph(&Lead::default(), &[styled(DIM, text)])?;
    if wanted.show.detail == Detail::Full && page.margin.rest.len() < DEEPEST {
        let margin = page.margin.clone();
        page.margin = margin.then(&Lead::all(styled(DIM, "    │ ")));
        for (number, turn) in (1..).zip(&turns) {
            turn::write(page, session, Owner::Agent(at), turn, number, wanted)?;
        }
        page.margin = margin;
    }
    Ok(())
}

/// How the parent of a sub-agent was found, if that is a guess.
fn doubt(agent: &SubAgent) -> Option<String> {
    let start = agent.start.filter(|start| start.is_guess)?;
    Some(format!("perhaps: found by its {}", start.how.name()))
}
