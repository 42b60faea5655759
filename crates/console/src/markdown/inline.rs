//! What stands inside of a paragraph: emphasis, code, targets.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::{Color, Line, Modifier, Span, Style, safe};

const CODE: Style = Style::new().fg(Color::Cyan);

/// The lines of a paragraph, in that style.
pub(super) fn inline(text: &str, style: Style) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let mut styles = vec![style];
    let mut targets: Vec<(String, String)> = Vec::new();
    // What looks like a block is none here: the first character is kept from being a mark.
    let is_mark = text.starts_with(|c: char| "#>+-=~|".contains(c) || c.is_ascii_digit())
        || text.starts_with("* ");
    let guarded = if is_mark { format!("\u{2060}{text}") } else { text.to_owned() };
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

fn add(lines: &mut Vec<Line<'static>>, text: &str, style: Style) {
    let text = text.strip_prefix('\u{2060}').unwrap_or(text);
    for (number, piece) in text.split('\n').enumerate() {
        if number > 0 {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut().filter(|_| !piece.is_empty()) {
            line.spans.push(Span::styled(safe(piece), style));
        }
    }
}
