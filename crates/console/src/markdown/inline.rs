//! What stands inside of a paragraph: emphasis, code, targets.
//!
//! Invariant: no text is lost, whatever its lines begin with.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::{Color, Line, Modifier, Span, Style, safe};

const CODE: Style = Style::new().fg(Color::Cyan);

/// A character that no text has. Before the first one of a line, it keeps that from being the mark
/// of a block: of a heading, a list, a definition, a piece of HTML.
const GUARD: char = '\u{fdd0}';

/// The lines of a paragraph, in that style.
pub(super) fn inline(text: &str, style: Style) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let mut styles = vec![style];
    let mut targets: Vec<(String, String)> = Vec::new();
    let guarded: Vec<String> = text.split('\n').map(guarded).collect();
    let guarded = guarded.join("\n");
    for event in Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH) {
        let now = styles.last().copied().unwrap_or_default();
        match event {
            Event::Start(Tag::Emphasis) => styles.push(now.add_modifier(Modifier::ITALIC)),
            Event::Start(Tag::Strong) => styles.push(now.add_modifier(Modifier::BOLD)),
            Event::Start(Tag::Strikethrough) => {
                styles.push(now.add_modifier(Modifier::CROSSED_OUT));
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                targets.push((dest_url.into_string(), String::new()));
                styles.push(now.add_modifier(Modifier::UNDERLINED));
            }
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {
                styles.pop();
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                styles.pop();
                if let Some((target, words)) = targets.pop()
                    && target != words
                    && !target.is_empty()
                {
                    add(
                        &mut lines,
                        &format!(" ({target})"),
                        styles.last().copied().unwrap_or_default(),
                    );
                }
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                if let Some((_, words)) = targets.last_mut() {
                    words.push_str(&text);
                }
                add(&mut lines, &text, now);
            }
            // With its backticks: colours only repeat what the text says.
            Event::Code(code) => add(&mut lines, &format!("`{code}`"), now.patch(CODE)),
            Event::SoftBreak | Event::HardBreak => lines.push(Line::default()),
            Event::FootnoteReference(name) => add(&mut lines, &format!("[^{name}]"), now),
            _ => {}
        }
    }
    while lines.len() > 1 && lines.last().is_some_and(|line| line.spans.is_empty()) {
        lines.pop();
    }
    lines
}

/// A line that begins no block.
fn guarded(line: &str) -> String {
    let text = line.trim_start();
    let is_mark = text.starts_with(|c: char| "#>+-=~|[<`".contains(c) || c.is_ascii_digit());
    // Emphasis begins with the same characters, and would not be found behind another one.
    let is_rule = text.chars().all(|c| "*_ ".contains(c));
    if is_mark || is_rule || text.starts_with("* ") {
        format!("{GUARD}{text}")
    } else {
        line.to_owned()
    }
}

fn add(lines: &mut Vec<Line<'static>>, text: &str, style: Style) {
    let text = text.replace(GUARD, "");
    for (number, piece) in text.split('\n').enumerate() {
        if number > 0 {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut().filter(|_| !piece.is_empty()) {
            line.spans.push(Span::styled(safe(piece), style));
        }
    }
}
