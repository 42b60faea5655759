//! Markdown files that people have written for agents, and their front matter: a small part of
//! YAML, as people write it there.
//!
//! `key: value`, lists (`[a, b]` or lines with `-`), quotes, `|` and `>`; hooks as deep as settings
//! have them. Invariants: what is not understood is kept as text, never an error; links to folders
//! are not followed, and how many files there are is bounded.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// How many files of a folder are looked at.
const MOST: usize = 1_000;
/// How deep folders may be nested.
const DEEPEST_FOLDER: usize = 4;

/// The Markdown files in a folder and below it, by name.
pub(crate) fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    find(folder, DEEPEST_FOLDER, &mut files);
    files
}

fn find(folder: &Path, deepest: usize, files: &mut Vec<PathBuf>) {
    for path in listed(folder) {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            if deepest > 0 {
                find(&path, deepest - 1, files);
            }
        } else if path.extension().is_some_and(|ending| ending == "md") && files.len() < MOST {
            files.push(path);
        }
    }
}

/// What is in a folder, by name.
pub(crate) fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The members before the text, and the text. A file without front matter is all text.
pub(crate) fn read(text: &str) -> (Map<String, Value>, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text
        .strip_prefix("---")
        .and_then(|rest| rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n")))
    else {
        return (Map::new(), text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let body = rest[at + line.len()..].trim_start_matches(['\r', '\n']);
            return (members(&rest[..at]), body);
        }
        at += line.len();
    }
    (Map::new(), text)
}

fn members(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_nested = line.starts_with([' ', '\t', '-', '#']);
        let Some((key, value)) = line.split_once(':').filter(|_| !is_nested) else { continue };
        let (key, value) = (key.trim(), value.trim());
        let mut inner = Vec::new();
        while let Some(next) =
            lines.next_if(|next| next.starts_with([' ', '\t', '-']) || next.is_empty())
        {
            inner.push(next);
        }
        let value = match value {
            "" if key == "hooks" => nested(&inner, DEEPEST),
            "" if inner.iter().any(|line| line.trim_start().starts_with("- ")) => inner
                .iter()
                .filter_map(|line| line.trim_start().strip_prefix("- "))
                .map(|item| scalar(item.trim()))
                .collect(),
            "" | "|" | "|-" | ">" | ">-" => {
                let lines: Vec<&str> = inner.iter().map(|line| line.trim()).collect();
                let glue = if value.starts_with('>') { " " } else { "\n" };
                Value::String(lines.join(glue).trim().to_owned())
            }
            value => scalar(value),
        };
        found.insert(key.to_owned(), value);
    }
    found
}

/// How deep what is nested may be.
const DEEPEST: usize = 16;

/// Lines that are nested by their indentation: members, or items after `-`.
fn nested(lines: &[&str], deepest: usize) -> Value {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let is_said = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<&str> = lines.iter().filter(is_said).copied().collect();
    let Some(first) = lines.first().filter(|_| deepest > 0) else { return Value::Null };
    let level = depth(first);
    let is_item = |line: &str| line.trim_start().starts_with("- ") || line.trim() == "-";
    let is_list = is_item(first);
    let begins = |line: &str| depth(line) <= level && is_item(line) == is_list;
    let mut parts: Vec<Vec<&str>> = Vec::new();
    for &line in &lines {
        match parts.last_mut() {
            Some(part) if !begins(line) => part.push(line),
            _ => parts.push(vec![line]),
        }
    }
    if is_list {
        let item = |part: Vec<&str>| {
            let (dashes, text) = part[0].split_at(depth(part[0]) + 1);
            // What stands behind the dash is as deep as what follows.
            let head = format!("{} {text}", " ".repeat(dashes.len() - 1));
            let lines: Vec<&str> =
                std::iter::once(head.as_str()).chain(part[1..].to_vec()).collect();
            match text.trim() {
                text if member(text).is_none() && part.len() == 1 => scalar(text),
                _ => nested(&lines, deepest - 1),
            }
        };
        return parts.into_iter().map(item).collect();
    }
    let members = parts.into_iter().filter_map(|part| {
        let (key, value) = member(part[0].trim())?;
        let value = match value {
            "" => nested(&part[1..], deepest - 1),
            "|" | "|-" | ">" | ">-" => {
                let lines: Vec<&str> = part[1..].iter().map(|line| line.trim()).collect();
                lines.join(if value.starts_with('>') { " " } else { "\n" }).into()
            }
            value => scalar(value),
        };
        Some((key.trim_matches(['"', '\'']).to_owned(), value))
    });
    Value::Object(members.collect())
}

/// `key: value`, or `key:`.
fn member(text: &str) -> Option<(&str, &str)> {
    let (key, value) = match text.split_once(": ") {
        Some(parts) => parts,
        None => (text.strip_suffix(':')?, ""),
    };
    let is_name = key.chars().all(|c| c.is_alphanumeric() || "_-\"'".contains(c));
    (is_name && !key.is_empty()).then_some((key, value.trim()))
}

fn scalar(text: &str) -> Value {
    let inner = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(list) = inner('[', ']') {
        return items(list).map(scalar).collect();
    }
    if let Some(text) = inner('\'', '\'').or_else(|| inner('"', '"')) {
        return Value::String(text.to_owned());
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(text.to_owned()),
        },
    }
}

/// What is separated by commas outside of brackets and quotes.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quote) = (0_usize, None);
    let is_comma = move |c: char| {
        match c {
            '{' | '(' if quote.is_none() => depth += 1,
            '}' | ')' if quote.is_none() => depth = depth.saturating_sub(1),
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ => {}
        }
        c == ',' && depth == 0 && quote.is_none()
    };
    text.split(is_comma).map(str::trim).filter(|item| !item.is_empty())
}

/// The rules in a member: a list, or one text with commas.
pub(crate) fn list(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => rules::split([text.as_str()]),
        Value::Array(list) => rules::split(list.iter().filter_map(Value::as_str)),
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "frontmatter_tests.rs"]
mod tests;
