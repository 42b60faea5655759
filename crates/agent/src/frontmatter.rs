//! The front matter of Markdown files: a small part of YAML, as people write it there.
//!
//! `key: value`, lists (`[a, b]` or lines with `-`), quotes, `|` and `>`. Invariant: what is not
//! understood is kept as text, never an error.

use serde_json::{Map, Value};

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

fn scalar(text: &str) -> Value {
    let inner = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(list) = inner('[', ']') {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        return items.map(scalar).collect();
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

/// The texts of a member: a list, or one text with commas.
pub(crate) fn list(value: &Value) -> Vec<String> {
    let names = |text: &str| -> Vec<String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    match value {
        Value::String(text) => names(text),
        Value::Array(list) => list.iter().filter_map(Value::as_str).flat_map(names).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "frontmatter_tests.rs"]
mod tests;
