//! Markdown of a transcript as HTML.
//!
//! Written event by event, not by a library that passes HTML through. Invariants: HTML in the text
//! is shown as text; only `http` and `https` become links, which show their whole target; nothing
//! is loaded, also no image; the depth of elements is bounded, each is closed by what it was opened
//! with, and no link is inside another.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

use crate::escape::{push, start};

/// How deep elements are nested at most; what is deeper is shown at this depth.
const DEEPEST: usize = 12;
/// How much of a text is read as Markdown; the rest is shown as it is.
const MOST: usize = 200_000;

/// Adds a Markdown text.
pub(crate) fn push_prose(out: &mut String, text: &str) {
    let (head, _) = start(text, MOST);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer { out, open: Vec::new(), is_head: false };
    for event in Parser::new_ext(head, options) {
        writer.event(event);
    }
    writer.finish();
    let rest = &text[head.len()..];
    if !rest.is_empty() {
        out.push_str("<pre class=\"plain\">");
        push(out, rest);
        out.push_str("</pre>");
    }
}

struct Writer<'a> {
    out: &'a mut String,
    /// What is open, also what is not written because it is too deep.
    open: Vec<Open>,
    /// In the head of a table.
    is_head: bool,
}

/// Something that is open, by what comes at its end.
enum Open {
    /// An element, and this tag; nothing if it is too deep.
    Element(&'static str),
    /// A link or an image: its target, and where its text begins.
    Target { kind: TargetKind, target: String, from: usize },
}

/// What has a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    /// A link that can be followed.
    Link,
    /// A link that is text: because of its scheme, or of where it is.
    Text,
    /// An image, which is not loaded.
    Image,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(_) => self.end(),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => push(self.out, &text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                push(self.out, &text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(is_done) => {
                self.out.push_str(if is_done { "☑ " } else { "☐ " });
            }
        }
    }

    /// Writes the beginning of an element, and remembers its end.
    fn element(&mut self, begin: &str, end: &'static str) {
        let is_written = self.open.len() < DEEPEST;
        self.out.push_str(if is_written { begin } else { "" });
        self.open.push(Open::Element(if is_written { end } else { "" }));
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.element("<p>", "</p>"),
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 | HeadingLevel::H2 => self.element("<h4>", "</h4>"),
                HeadingLevel::H3 => self.element("<h5>", "</h5>"),
                _ => self.element("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => {
                let mut begin = "<pre class=\"code\" tabindex=\"0\"".to_owned();
                if let CodeBlockKind::Fenced(info) = kind {
                    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '#');
                    let name = info.split(word).next().unwrap_or_default();
                    if !name.is_empty() && name.len() < 20 {
                        begin.push_str(" data-lang=\"");
                        push(&mut begin, &name.to_ascii_lowercase());
                        begin.push('"');
                    }
                }
                begin.push('>');
                self.element(&begin, "</pre>");
            }
            Tag::List(Some(first)) => {
                self.element(&format!("<ol start=\"{first}\">"), "</ol>");
            }
            Tag::List(None) => self.element("<ul>", "</ul>"),
            Tag::Item => self.element("<li>", "</li>"),
            Tag::Table(_) => {
                let begin = "<div class=\"wide\" tabindex=\"0\"><table>";
                self.element(begin, "</table></div>");
            }
            Tag::TableHead => {
                self.is_head = true;
                self.element("<thead><tr>", "</tr></thead>");
            }
            Tag::TableRow => {
                self.is_head = false;
                self.element("<tr>", "</tr>");
            }
            Tag::TableCell if self.is_head => self.element("<th>", "</th>"),
            Tag::TableCell => self.element("<td>", "</td>"),
            Tag::Emphasis => self.element("<em>", "</em>"),
            Tag::Strong => self.element("<strong>", "</strong>"),
            Tag::Strikethrough => self.element("<s>", "</s>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.out.push_str("[image: ");
                self.target(TargetKind::Image, &dest_url);
            }
            _ => self.element("<div>", "</div>"),
        }
    }

    fn link(&mut self, target: &str) {
        let is_link = |one: &Open| matches!(one, Open::Target { kind: TargetKind::Link, .. });
        let is_written = is_web(target) && self.open.len() < DEEPEST;
        if is_written && !self.open.iter().any(is_link) {
            push_link_start(self.out, target);
            self.target(TargetKind::Link, target);
        } else {
            self.target(TargetKind::Text, target);
        }
    }

    fn target(&mut self, kind: TargetKind, target: &str) {
        let (target, from) = (target.to_owned(), self.out.len());
        self.open.push(Open::Target { kind, target, from });
    }

    fn end(&mut self) {
        let (kind, target, from) = match self.open.pop() {
            Some(Open::Element(end)) => return self.out.push_str(end),
            Some(Open::Target { kind, target, from }) => (kind, target, from),
            None => return,
        };
        let mut shown = String::new();
        push(&mut shown, &target);
        let is_same = self.out.get(from..) == Some(shown.as_str());
        self.out.push_str(if kind == TargetKind::Link { "</a>" } else { "" });
        if !is_same {
            self.out.push_str(" <span class=\"url\">(");
            self.out.push_str(&shown);
            self.out.push_str(")</span>");
        }
        self.out.push_str(if kind == TargetKind::Image { "]" } else { "" });
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            self.end();
        }
    }
}

/// Whether a target may be followed.
pub(crate) fn is_web(target: &str) -> bool {
    let lower: String = target.chars().take(8).collect::<String>().to_ascii_lowercase();
    (lower.starts_with("http://") || lower.starts_with("https://"))
        && !target.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// Adds the start tag of a link that opens in another tab and tells it nothing.
fn push_link_start(out: &mut String, target: &str) {
    out.push_str("<a target=\"_blank\" rel=\"noopener noreferrer\" href=\"");
    push(out, target);
    out.push_str("\">");
}

/// Adds a link that shows its whole target, or the target as text if it may not be followed.
pub(crate) fn push_link(out: &mut String, target: &str) {
    if is_web(target) {
        push_link_start(out, target);
        push(out, target);
        out.push_str("</a>");
    } else {
        push(out, target);
    }
}

#[cfg(test)]
#[path = "prose_tests.rs"]
mod tests;
