//! Files and folders that a prompt mentions: `@path`, `@"path with blanks"`, `@path#L2-9`.
//!
//! Invariants: only what may be read without a question is read; what is missing or may not be read
//! stays a text; what is read is bounded as for the tool `Read`.

use std::fs;

use serde_json::{Map, Value, json};

use crate::api::request::text_block;
use crate::context::tagged;
use crate::permit::Permit;
use crate::tool::{self, Call, Cancel, Content, Site};

/// How many mentions of a prompt are looked at.
const MOST: usize = 32;
/// How many names of a folder are listed.
const NAMES: usize = 1_000;

/// A mention: the path, and the first and last line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mention {
    path: String,
    lines: Option<(u64, u64)>,
}

/// The mentions in a text, in their order, each once.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut before = None;
    for (at, c) in text.char_indices() {
        let is_free = before.is_none_or(char::is_whitespace);
        before = Some(c);
        if c != '@' || !is_free {
            continue;
        }
        let rest = &text[at + 1..];
        let mention = if let Some(quoted) = rest.strip_prefix('"') {
            quoted.split_once('"').map(|(path, _)| Mention { path: path.to_owned(), lines: None })
        } else {
            let word = rest.split(char::is_whitespace).next().unwrap_or_default();
            let (path, lines) = match word.split_once("#L") {
                Some((path, lines)) => (path, range(lines)),
                None => (word.trim_end_matches([',', ';', ':', '!', '?', ')']), None),
            };
            Some(Mention { path: path.to_owned(), lines })
        };
        let mention = mention.filter(|one| !one.path.is_empty() && !found.contains(one));
        found.extend(mention.filter(|_| found.len() < MOST));
    }
    found
}

/// `2` or `2-9`.
fn range(text: &str) -> Option<(u64, u64)> {
    let text = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range: (u64, u64) = (first.parse().ok()?, last.trim_start_matches('L').parse().ok()?);
    (range.0 > 0 && range.1 >= range.0).then_some(range)
}

/// What the model gets of the files and folders that texts mention, as blocks.
pub(crate) fn blocks(texts: &[String], permit: &Permit, site: &Site) -> Vec<String> {
    let mut blocks = Vec::new();
    for mention in texts.iter().flat_map(|text| mentions(text)).take(MOST) {
        blocks.extend(of(&mention, permit, site));
    }
    blocks
}

fn of(mention: &Mention, permit: &Permit, site: &Site) -> Vec<String> {
    let path = site.path(&mention.path);
    // A sentence may end with the path.
    let path = match mention.path.strip_suffix('.') {
        Some(shorter) if !path.exists() => site.path(shorter),
        _ => path,
    };
    let mut input = Map::new();
    input.insert("file_path".to_owned(), path.display().to_string().into());
    if let Some((first, last)) = mention.lines {
        input.insert("offset".to_owned(), first.into());
        input.insert("limit".to_owned(), (last - first + 1).into());
    }
    let call = Call {
        id: format!("mention-{}", site.nature.id()),
        name: "Read".to_owned(),
        input,
        cancel: Cancel::default(),
    };
    let may = permit.judge(&call, site).decision == rules::Decision::Allow;
    let Ok(found) = fs::metadata(&path) else { return Vec::new() };
    if !may {
        return Vec::new();
    }
    if found.is_dir() {
        let command = json!({
            "command": format!("ls {}", path.display()),
            "description": format!("Lists files in {}", path.display()),
        });
        return reminders("Bash", &command, &listing(&path));
    }
    let answer = tool::run(&call, site);
    if answer.is_error == Some(true) {
        return Vec::new();
    }
    match answer.content {
        Content::Text(text) => reminders("Read", &Value::Object(call.input), &text),
        Content::Blocks(blocks) => blocks.iter().map(|block| block.get().to_owned()).collect(),
    }
}

/// A call in words, and its result.
fn reminders(tool: &str, input: &Value, result: &str) -> Vec<String> {
    let call = format!("Called the {tool} tool with the following input: {input}");
    let result = format!("Result of calling the {tool} tool:\n{result}");
    vec![text_block(&tagged(&call)), text_block(&tagged(&result))]
}

fn listing(folder: &std::path::Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    if more > 0 {
        names.push(format!("… and {more} more"));
    }
    names.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(path: &str, lines: Option<(u64, u64)>) -> Mention {
        Mention { path: path.to_owned(), lines }
    }

    #[test]
    fn mentions_begin_after_white_space() {
        let text =
            "See @a.txt, @src/util.py#L2-3 and @\"my file.txt\" (me@example.org) @a.txt, @ @b#L4";
        let expected = [
            mention("a.txt", None),
            mention("src/util.py", Some((2, 3))),
            mention("my file.txt", None),
            mention("b", Some((4, 4))),
        ];
        assert_eq!(mentions(text), expected);
        assert_eq!(mentions("@x#L9-2"), [mention("x", None)]);
        let many: Vec<String> = (0..100).map(|number| format!("@f{number}")).collect();
        assert_eq!(mentions(&many.join(" ")).len(), MOST);
    }
}
