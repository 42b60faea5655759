//! Markdown as it arrives: finished blocks become lines, the rest waits.
//!
//! A line of code is finished with its newline; a paragraph, a heading and a list's item with what
//! follows it; a table with its last row. Lines are logical: the terminal wraps them. Code stands
//! as it is, between its fences. Invariants: however a text is cut into pieces, the lines are the
//! same; no line is returned twice.

mod inline;
mod table;

use inline::inline;

use crate::highlight::Highlighter;
use crate::text::{Line, Span, Style, look, safe};

/// Markdown that is being written.
#[derive(Debug, Default)]
pub struct Markdown {
    /// What has come of the last line.
    partial: String,
    /// The lines of the block that is not finished.
    block: Vec<String>,
    fence: Option<Fence>,
    /// Whether something was written, and whether a blank line is due.
    has_lines: bool,
    is_gap: bool,
}

#[derive(Debug)]
struct Fence {
    /// The characters that begin it.
    mark: String,
    /// The blanks before it, which its lines have, too.
    indent: usize,
    code: Highlighter,
}

impl Markdown {
    /// Takes the next piece. Returns the lines that are finished; tables are at most that wide.
    pub fn push(&mut self, piece: &str, width: usize) -> Vec<Line<'static>> {
        let mut done = Vec::new();
        self.partial.push_str(piece);
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            self.line(line.trim_end_matches(['\n', '\r']), width, &mut done);
        }
        done
    }

    /// The text is complete. Returns the last lines.
    pub fn end(&mut self, width: usize) -> Vec<Line<'static>> {
        let mut done = Vec::new();
        let last = std::mem::take(&mut self.partial);
        if !last.is_empty() {
            self.line(&last, width, &mut done);
        }
        self.flush(width, &mut done);
        *self = Markdown::default();
        done
    }

    /// What is not finished, as it would look.
    pub fn rest(&self) -> Vec<Line<'static>> {
        if self.fence.is_some() {
            let line = (!self.partial.is_empty()).then(|| Line::from(safe(&self.partial)));
            return line.into_iter().collect();
        }
        let mut text = self.block.join("\n");
        if !self.partial.is_empty() {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&self.partial);
        }
        if text.is_empty() { Vec::new() } else { paragraph(&text) }
    }

    fn line(&mut self, line: &str, width: usize, done: &mut Vec<Line<'static>>) {
        if let Some(fence) = &mut self.fence {
            let trimmed = line.trim();
            let is_end = trimmed.starts_with(&fence.mark)
                && trimmed.chars().all(|c| fence.mark.starts_with(c));
            if is_end {
                self.fence = None;
                done.push(Line::from(Span::styled(safe(line), look::DIM)));
                self.is_gap = true;
            } else {
                let start = line.len() - line.trim_start().len();
                let code = fence.code.line(&line[start.min(fence.indent)..]);
                done.push(code);
            }
            return;
        }
        let trimmed = line.trim_start();
        let mark: String = trimmed.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        let is_fence = (mark.starts_with("```") || mark.starts_with("~~~"))
            && !trimmed[mark.len()..].contains('`');
        if is_fence {
            self.flush(width, done);
            self.gap(done);
            let indent = line.len() - trimmed.len();
            let code = Highlighter::new(trimmed[mark.len()..].trim());
            done.push(Line::from(Span::styled(safe(trimmed), look::DIM)));
            self.fence = Some(Fence { mark, indent, code });
            return;
        }
        if trimmed.is_empty() {
            self.flush(width, done);
            self.is_gap = self.has_lines;
            return;
        }
        let is_row = trimmed.starts_with('|');
        let is_in_table = self.block.last().is_some_and(|last| last.trim_start().starts_with('|'));
        let is_whole = is_heading(trimmed) || is_rule(trimmed);
        let begins = is_whole || item(trimmed).is_some() || trimmed.starts_with('>');
        if begins || is_row != is_in_table {
            self.flush(width, done);
        }
        self.block.push(line.to_owned());
        if is_whole {
            self.flush(width, done);
        }
    }

    fn gap(&mut self, done: &mut Vec<Line<'static>>) {
        if std::mem::take(&mut self.is_gap) && self.has_lines {
            done.push(Line::default());
        }
        self.has_lines = true;
    }

    fn flush(&mut self, width: usize, done: &mut Vec<Line<'static>>) {
        let block = std::mem::take(&mut self.block);
        let Some(first) = block.first() else { return };
        self.gap(done);
        if first.trim_start().starts_with('|') {
            done.extend(table::table(&block, width));
        } else {
            done.extend(paragraph(&block.join("\n")));
        }
    }
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with(' '))
}

/// Whether a line is a rule across the page.
fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let first = marks.next().filter(|c| "-*_".contains(*c));
    first.is_some_and(|first| marks.clone().count() >= 2 && marks.all(|c| c == first))
}

/// The mark of a list's item, and the rest of the line.
fn item(line: &str) -> Option<(String, &str)> {
    if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)) {
        if let Some(rest) = rest.strip_prefix("[ ] ") {
            return Some(("☐ ".to_owned(), rest));
        }
        let done = rest.strip_prefix("[x] ").or_else(|| rest.strip_prefix("[X] "));
        return Some(match done {
            Some(rest) => ("☒ ".to_owned(), rest),
            None => ("• ".to_owned(), rest),
        });
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = line[digits..].strip_prefix(". ").or_else(|| line[digits..].strip_prefix(") "))?;
    (1..=4).contains(&digits).then(|| (line[..digits + 2].to_owned(), rest))
}

/// The lines of a block that is no code and no table.
fn paragraph(text: &str) -> Vec<Line<'static>> {
    let trimmed = text.trim_start();
    let indent = " ".repeat(text.len() - trimmed.len());
    let (lead, style, body) = if is_heading(trimmed) {
        let level = trimmed.len() - trimmed.trim_start_matches('#').len();
        let (mark, rest) = trimmed.split_at(level);
        (format!("{mark} "), look::BOLD, rest.trim_start().to_owned())
    } else if is_rule(trimmed) {
        return vec![Line::from(Span::styled("────────", look::DIM))];
    } else if let Some((mark, rest)) = item(trimmed) {
        (format!("{indent}{mark}"), Style::new(), rest.to_owned())
    } else if let Some(rest) = trimmed.strip_prefix('>') {
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        (format!("{indent}> "), look::DIM, rest.replace("\n> ", "\n").replace("\n>", "\n"))
    } else {
        // A paragraph is not code because it is indented.
        (indent, Style::new(), trimmed.to_owned())
    };
    let mut lines = inline(&body, style);
    if let Some(first) = lines.first_mut().filter(|_| !lead.is_empty()) {
        first.spans.insert(0, Span::styled(lead, style));
    }
    lines
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
