//! Markdown of a transcript as HTML.
//!
//! Written event by event, not by a library that passes HTML through. Invariants: HTML in the text
//! is shown as text; only `http` and `https` become links, which show their whole target; nothing
//! is loaded, also no image; the depth of elements is bounded, and each is closed.

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
    let mut writer = Writer { out, open: Vec::new(), skipped: 0, is_head: false, link: None };
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
    /// The ends of the elements that are open.
    open: Vec<&'static str>,
    /// How many elements are not written because they are too deep.
    skipped: usize,
    /// In the head of a table.
    is_head: bool,
    /// The target of the link that is open, and where its text begins.
    link: Option<(String, usize)>,
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
        if self.open.len() >= DEEPEST {
            self.skipped += 1;
            return;
        }
        self.out.push_str(begin);
        self.open.push(end);
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
                let target = dest_url.into_string();
                self.link = Some((target, self.out.len()));
                self.element("", IMAGE);
            }
            _ => self.element("<div>", "</div>"),
        }
    }

    fn link(&mut self, target: &str) {
        if is_web(target) && self.open.len() < DEEPEST && self.link.is_none() {
            let mut begin = String::new();
            push_link_start(&mut begin, target);
            self.element(&begin, LINK);
            self.link = Some((target.to_owned(), self.out.len()));
        } else if self.link.is_none() {
            self.link = Some((target.to_owned(), self.out.len()));
            self.element("", NO_LINK);
        } else {
            self.element("", "");
        }
    }

    fn end(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        let Some(end) = self.open.pop() else { return };
        match end {
            LINK | NO_LINK | IMAGE => {
                let Some((target, at)) = self.link.take() else { return };
                let mut shown = String::new();
                push(&mut shown, &target);
                let is_same = self.out.get(at..) == Some(shown.as_str());
                self.out.push_str(if end == LINK { LINK } else { "" });
                if !is_same {
                    self.out.push_str(" <span class=\"url\">(");
                    self.out.push_str(&shown);
                    self.out.push_str(")</span>");
                }
                self.out.push_str(if end == IMAGE { "]" } else { "" });
            }
            end => self.out.push_str(end),
        }
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            self.skipped = 0;
            self.end();
        }
    }
}

/// The end of a link.
const LINK: &str = "</a>";
/// The end of a link that is none, because of its scheme.
const NO_LINK: &str = "<!-- -->";
/// The end of an image, which is not loaded.
const IMAGE: &str = "<!--i-->";

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
