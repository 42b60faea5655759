//! Converts HTML to Markdown, or to bare text if its structure would cost too much.
//!
//! Invariant: never a crash. The library walks a page's tree by recursion, and its parser searches
//! all open elements for each tag. So the tags are removed instead from a page that is nested too
//! deeply or opens too many elements.

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdown};

/// How deep elements may be nested: browsers also stop at 512.
const DEEPEST: usize = 512;
/// The stack size: many times what that depth needs.
pub(super) const STACK: usize = 64 << 20;
/// How much work parsing a page may take: open elements, counted at each tag and each line.
const WORK: usize = 20_000_000;

/// Elements that have no end tag, or do not need one: they are not nested in each other without
/// other elements between them.
const ENDLESS: [&str; 33] = [
    "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "frame", "head", "hr",
    "html", "img", "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt",
    "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
];

/// Elements that contain code, not text.
const CODE: [&str; 2] = ["script", "style"];

/// A page as Markdown.
pub(super) fn markdown(html: &str) -> String {
    if !is_cheap(html) {
        return bare(html);
    }
    // The library's own tables lose cells of rows that have a heading of their own.
    let converter = HtmlToMarkdown::builder()
        .skip_tags(CODE.to_vec())
        .add_handler(vec!["td", "th"], shaped(cell))
        .add_handler(vec!["tr"], shaped(row))
        .add_handler(vec!["thead", "tbody", "tfoot"], shaped(str::to_owned))
        .add_handler(vec!["table"], shaped(|inner| format!("\n\n{}\n\n", inner.trim())))
        .build();
    match converter.html_to_tree(html) {
        Ok(tree) if is_flat(&tree) => converter.tree_to_markdown(&tree),
        _ => bare(html),
    }
}

/// A handler that makes the output of an element from that of its children.
fn shaped(
    shape: fn(&str) -> String,
) -> impl Fn(&dyn Handlers, Element<'_>) -> Option<HandlerResult> {
    move |handlers, element| Some(shape(&handlers.walk_children(element.node).content).into())
}

/// A mark before each cell until its row is complete.
const CELL: char = '\u{1}';

fn cell(inner: &str) -> String {
    format!("{CELL}{}", inner.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn row(inner: &str) -> String {
    let cells: Vec<&str> = inner.split(CELL).skip(1).map(str::trim).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Whether the tags of a page take no more than a limited amount of work.
fn is_cheap(html: &str) -> bool {
    let (mut open, mut work): (Vec<&str>, usize) = (Vec::new(), 0);
    for (at, _) in html.match_indices(['<', '\n']) {
        let rest = &html[at + 1..];
        let (is_end, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let name = name(rest);
        if is_end {
            // Only tags that certainly end an element are counted.
            let _ = open.pop_if(|last| last.eq_ignore_ascii_case(name));
        } else if html.as_bytes()[at] == b'<' && is_counted(name, rest, &open) {
            open.push(name);
        }
        work += open.len();
        if work > WORK {
            return false;
        }
    }
    true
}

/// The name that a tag begins with; empty if it is not a tag.
fn name(tag: &str) -> &str {
    if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    &tag[..tag.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(tag.len())]
}

/// Whether a tag opens an element that must be closed.
fn is_counted(name: &str, tag: &str, open: &[&str]) -> bool {
    let is_one_of =
        |list: &[&str], name: &str| list.iter().any(|listed| listed.eq_ignore_ascii_case(name));
    let is_drawing = || open.iter().any(|name| is_one_of(&["svg", "math"], name));
    let is_whole = || tag.split('>').next().is_some_and(|tag| tag.ends_with('/'));
    !(name.is_empty() || is_one_of(&ENDLESS, name) || is_whole() && is_drawing())
}

/// Whether a tree is not too deep.
fn is_flat(tree: &std::rc::Rc<htmd::Node>) -> bool {
    let mut level = vec![tree.clone()];
    for _ in 0..DEEPEST {
        level = level.iter().flat_map(|node| node.children.borrow().clone()).collect();
        if level.is_empty() {
            return true;
        }
    }
    false
}

/// A page's text without its tags.
fn bare(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        out.push_str(text);
        let tag_name = name(tag);
        rest = tag;
        if let Some(code) = CODE.iter().find(|code| tag_name.eq_ignore_ascii_case(code)) {
            rest = rest.find(&format!("</{code}")).map_or("", |end| &rest[end..]);
        }
        if tag_name.is_empty() && !tag.starts_with(['/', '!', '?']) {
            out.push('<');
            continue;
        }
        out.push('\n');
        rest = rest.split_once('>').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    for (entity, text) in [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        out = out.replace(entity, text);
    }
    let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
