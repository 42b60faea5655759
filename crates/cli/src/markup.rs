//! Markdown on a terminal.
//!
//! The model writes Markdown. Here it becomes lines with colours: headings, lists, quotes, code,
//! tables, links. Syntax that is not understood is shown as it was written. Marks that only change
//! how words look (`**`, the language of a code block) are left out.

use std::io;

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use ratatui::style::{Color, Modifier, Style};

use crate::out::{BOLD, DIM};
use crate::page::{Lead, Page, Span, styled, unstyled, width, wrap};
use crate::text::shown;

const CODE: Style = Style::new().fg(Color::Cyan);
const LINK: Style = Style::new().add_modifier(Modifier::UNDERLINED);

/// How deep quotes and lists are indented.
const DEEPEST: usize = 12;

/// Writes Markdown.
pub(crate) fn write(page: &mut Page<'_>, lead: &Lead, text: &str) -> io::Result<()> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        page,
        leads: vec![lead.clone()],
        styles: vec![Style::new()],
        spans: Vec::new(),
        lists: Vec::new(),
        code: None,
        rows: Vec::new(),
        table: None,
        links: Vec::new(),
        started: false,
    };
    for event in Parser::new_ext(text, options) {
        writer.event(event)?;
    }
    writer.end_paragraph()
}

struct Writer<'p, 'o> {
    page: &'p mut Page<'o>,
    /// The leads of lines, by depth.
    leads: Vec<Lead>,
    styles: Vec<Style>,
    spans: Vec<Span>,
    /// The number of the next item of each list; `None` for lists without numbers.
    lists: Vec<Option<u64>>,
    /// The text of a code block that is being read.
    code: Option<String>,
    rows: Vec<Vec<Vec<Span>>>,
    table: Option<Vec<Alignment>>,
    /// The targets of the links that are open, and the words of each so far.
    links: Vec<(String, String)>,
    /// Whether something was written: a blank line separates the next block from it.
    started: bool,
}

impl Writer<'_, '_> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Start(tag) => self.start(tag)?,
            Event::End(tag) => self.end(tag)?,
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Html(text) | Event::InlineHtml(text) => {
                // HTML is not rendered: it is shown as written, line by line.
                for (number, line) in text.lines().enumerate() {
                    if number > 0 {
                        self.end_paragraph()?;
                    }
                    self.span(Style::new(), line);
                }
                if text.ends_with('\n') {
                    self.end_paragraph()?;
                }
            }
            Event::SoftBreak | Event::HardBreak => self.end_line()?,
            Event::Rule => {
                self.gap()?;
                let room = self.page.room(self.lead());
                self.span(DIM, &"─".repeat(room.min(40)));
                self.end_paragraph()?;
            }
            Event::TaskListMarker(done) => {
                self.span(Style::new(), if done { "[x] " } else { "[ ] " });
            }
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                // With its backticks: colours only repeat what the text says.
                self.span(CODE, &format!("`{text}`"));
            }
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
        }
        Ok(())
    }

    fn start(&mut self, tag: Tag<'_>) -> io::Result<()> {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap()?,
            Tag::Heading { level, .. } => {
                self.gap()?;
                self.styles.push(BOLD);
                self.text(&format!("{} ", "#".repeat(level as usize)));
            }
            Tag::BlockQuote(_) => {
                self.gap()?;
                self.deeper(&Lead::all(styled(DIM, "│ ")));
                self.started = false;
            }
            Tag::CodeBlock(_) => {
                self.end_paragraph()?;
                self.gap()?;
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.end_paragraph()?;
                if self.lists.is_empty() {
                    self.gap()?;
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_paragraph()?;
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.deeper(&Lead::hanging(unstyled(mark)));
                self.started = false;
            }
            Tag::Emphasis => self.push(Modifier::ITALIC),
            Tag::Strong => self.push(Modifier::BOLD),
            Tag::Strikethrough => {
                self.push(Modifier::CROSSED_OUT);
                self.text("~~");
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), String::new()));
                self.styles.push(LINK);
            }
            Tag::Table(alignments) => {
                self.gap()?;
                self.table = Some(alignments);
                self.rows.clear();
            }
            Tag::TableHead => {
                self.rows.push(Vec::new());
                self.styles.push(BOLD);
            }
            Tag::TableRow => self.rows.push(Vec::new()),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) -> io::Result<()> {
        match tag {
            TagEnd::Paragraph => self.end_paragraph()?,
            TagEnd::Heading(_) => {
                self.end_paragraph()?;
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_paragraph()?;
                self.leads.pop();
                self.started = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => {
                let lead = self.lead().inside().then(&Lead::spaces(2));
                let code = self.code.take().unwrap_or_default();
                for line in code.lines() {
                    self.page.code(&lead, &styled(CODE, shown(line)))?;
                }
                self.started = true;
            }
            TagEnd::Strikethrough => {
                self.text("~~");
                self.styles.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::TableHead => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((target, words)) = self.links.pop()
                    && words != target
                    && !target.is_empty()
                {
                    self.span(DIM, &format!(" ({target})"));
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.table()?,
            _ => {}
        }
        Ok(())
    }

    fn lead(&self) -> &Lead {
        // The first one is never removed.
        self.leads.last().unwrap_or(&self.leads[0])
    }

    /// Goes one level deeper; what is nested too deep is shown flat.
    fn deeper(&mut self, inner: &Lead) {
        let lead = self.lead().inside();
        self.leads.push(if self.leads.len() < DEEPEST { lead.then(inner) } else { lead });
    }

    fn push(&mut self, modifier: Modifier) {
        let style = self.styles.last().copied().unwrap_or_default();
        self.styles.push(style.add_modifier(modifier));
    }

    fn text(&mut self, text: &str) {
        let style = self.styles.last().copied().unwrap_or_default();
        self.span(style, text);
    }

    fn span(&mut self, style: Style, text: &str) {
        for (_, words) in &mut self.links {
            words.push_str(text);
        }
        self.spans.push(styled(style, shown(text)));
    }

    /// A blank line between blocks, except inside lists.
    fn gap(&mut self) -> io::Result<()> {
        self.end_paragraph()?;
        if self.started && self.lists.is_empty() {
            let lead = self.lead().inside();
            self.page.line(&lead.rest)?;
        }
        self.started = false;
        Ok(())
    }

    fn end_paragraph(&mut self) -> io::Result<()> {
        if self.spans.is_empty() {
            return Ok(());
        }
        self.end_line()?;
        self.started = true;
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        let lead = self.lead().clone();
        let spans = std::mem::take(&mut self.spans);
        self.page.paragraph(&lead, &spans)?;
        // A hanging lead is printed before the first line only.
        if let Some(last) = self.leads.last_mut() {
            *last = last.inside();
        }
        Ok(())
    }

    fn table(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let alignments = self.table.take().unwrap_or_default();
        let lead = self.lead().inside();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(wide).collect();
        // The widest columns shrink until all fit.
        let room = self.page.room(&lead).saturating_sub(3 * columns.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > 4 => *widest -= 1,
                _ => break,
            }
        }
        for (number, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<Vec<Span>>> = (widths.iter().enumerate())
                .map(|(column, wide)| wrap(row.get(column).map_or(&[], Vec::as_slice), *wide))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut line = lead.rest.clone();
                for (column, wide) in widths.iter().enumerate() {
                    let text = cells[column].get(at).cloned().unwrap_or_default();
                    let pad = unstyled(" ".repeat(wide.saturating_sub(width(&text))));
                    if column > 0 {
                        line.push(styled(DIM, " │ "));
                    }
                    if alignments.get(column) == Some(&Alignment::Right) {
                        line.push(pad);
                        line.extend(text);
                    } else {
                        line.extend(text);
                        line.push(pad);
                    }
                }
                self.page.line(&line)?;
            }
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
                let rule = styled(DIM, rule.join("─┼─"));
                self.page.line(&[lead.rest.as_slice(), &[rule]].concat())?;
            }
        }
        self.started = true;
        Ok(())
    }
}

#[cfg(test)]
#[path = "markup_tests.rs"]
mod tests;
