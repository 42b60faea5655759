//! Whether a JSON value has the form that a JSON Schema describes.
//!
//! The keywords that people use to describe results: types, members, items, alternatives, limits
//! and local references. Others (`format`, `$id`, remote references) say nothing here. Invariant:
//! total and bounded, whatever the schema says.

use regex::Regex;
use serde_json::{Map, Value};

/// How deep values and references are followed.
const DEEPEST: usize = 64;
/// How many issues are listed.
const MOST: usize = 8;

/// What is wrong with a value, in words; nothing if it fits.
pub(crate) fn issues(value: &Value, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Checker { root: schema }.check(value, schema, ("the result", 0), &mut found);
    found.truncate(MOST);
    found
}

/// Why a schema cannot be the form of a result; None if it can.
pub fn unusable(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Object(members) if members.get("type").is_none_or(|kind| kind == "object") => None,
        Value::Object(_) => Some("its `type` is not `object`"),
        _ => Some("it is no object"),
    }
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn fits(&self, value: &Value, schema: &Value, depth: usize) -> bool {
        let mut found = Vec::new();
        self.check(value, schema, ("", depth), &mut found);
        found.is_empty()
    }

    fn check(
        &self,
        value: &Value,
        schema: &Value,
        (place, depth): (&str, usize),
        found: &mut Vec<String>,
    ) {
        if depth > DEEPEST || found.len() >= MOST {
            return;
        }
        let schema = match schema {
            Value::Bool(false) => return found.push(format!("{place} may not be there")),
            Value::Object(schema) => schema,
            _ => return,
        };
        let next = depth + 1;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|path| self.root.pointer(path));
            if let Some(target) = target {
                self.check(value, target, (place, next), found);
            }
        }
        if let Some(kinds) = schema.get("type").filter(|kinds| !is_kind(value, kinds)) {
            found.push(format!("{place} is not of the type {kinds}"));
            return;
        }
        if let Some(all) = schema.get("enum").and_then(Value::as_array)
            && !all.contains(value)
        {
            found.push(format!("{place} is none of {}", Value::from(all.clone())));
        }
        if let Some(only) = schema.get("const").filter(|only| *only != value) {
            found.push(format!("{place} is not {only}"));
        }
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        for one in list("allOf").into_iter().flatten() {
            self.check(value, one, (place, next), found);
        }
        let count = |all: &Vec<Value>| all.iter().filter(|one| self.fits(value, one, next)).count();
        if list("anyOf").is_some_and(|all| count(all) == 0) {
            found.push(format!("{place} fits none of `anyOf`"));
        }
        if list("oneOf").is_some_and(|all| count(all) != 1) {
            found.push(format!("{place} does not fit exactly one of `oneOf`"));
        }
        if schema.get("not").is_some_and(|not| self.fits(value, not, next)) {
            found.push(format!("{place} fits `not`"));
        }
        match value {
            Value::Object(members) => self.members(members, schema, (place, next), found),
            Value::Array(items) => self.items(items, schema, (place, next), found),
            Value::String(text) => strings(text, schema, place, found),
            Value::Number(_) => numbers(value, schema, place, found),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn members(
        &self,
        members: &Map<String, Value>,
        schema: &Map<String, Value>,
        (place, depth): (&str, usize),
        found: &mut Vec<String>,
    ) {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                found.push(format!("`{name}` is missing in {place}"));
            }
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (name, value) in members {
            let of_name = known.and_then(|known| known.get(name)).or(others);
            if let Some(of_name) = of_name {
                self.check(value, of_name, (&format!("`{name}`"), depth), found);
            }
        }
        limits(members.len(), ("minProperties", "maxProperties"), schema, place, found);
    }

    fn items(
        &self,
        items: &[Value],
        schema: &Map<String, Value>,
        (place, depth): (&str, usize),
        found: &mut Vec<String>,
    ) {
        if let Some(of_items) = schema.get("items") {
            for (number, item) in items.iter().enumerate() {
                self.check(item, of_items, (&format!("item {number} of {place}"), depth), found);
            }
        }
        limits(items.len(), ("minItems", "maxItems"), schema, place, found);
        let is_unique = schema.get("uniqueItems") == Some(&Value::Bool(true));
        if is_unique && (1..items.len()).any(|at| items[..at].contains(&items[at])) {
            found.push(format!("{place} has an item twice"));
        }
    }
}

fn is_kind(value: &Value, kinds: &Value) -> bool {
    let is_one = |kind: &Value| match (kind.as_str(), value) {
        (Some("null"), Value::Null)
        | (Some("boolean"), Value::Bool(_))
        | (Some("string"), Value::String(_))
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_))
        | (Some("number"), Value::Number(_)) => true,
        (Some("integer"), Value::Number(number)) => {
            number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    };
    kinds.as_array().map_or_else(|| is_one(kinds), |kinds| kinds.iter().any(is_one))
}

fn limits(
    len: usize,
    (least, most): (&str, &str),
    schema: &Map<String, Value>,
    place: &str,
    found: &mut Vec<String>,
) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    let len = u64::try_from(len).unwrap_or(u64::MAX);
    if let Some(limit) = limit(least).filter(|limit| len < *limit) {
        found.push(format!("{place} has {len}, fewer than `{least}` {limit}"));
    }
    if let Some(limit) = limit(most).filter(|limit| len > *limit) {
        found.push(format!("{place} has {len}, more than `{most}` {limit}"));
    }
}

fn strings(text: &str, schema: &Map<String, Value>, place: &str, found: &mut Vec<String>) {
    limits(text.chars().count(), ("minLength", "maxLength"), schema, place, found);
    // A pattern that this engine does not understand says nothing.
    let pattern = schema.get("pattern").and_then(Value::as_str);
    if let Some(pattern) = pattern
        && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
    {
        found.push(format!("{place} does not match `{pattern}`"));
    }
}

fn numbers(value: &Value, schema: &Map<String, Value>, place: &str, found: &mut Vec<String>) {
    let Some(number) = value.as_f64() else { return };
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let wrong = [
        ("minimum", limit("minimum").is_some_and(|limit| number < limit)),
        ("maximum", limit("maximum").is_some_and(|limit| number > limit)),
        ("exclusiveMinimum", limit("exclusiveMinimum").is_some_and(|limit| number <= limit)),
        ("exclusiveMaximum", limit("exclusiveMaximum").is_some_and(|limit| number >= limit)),
    ];
    for (name, _) in wrong.into_iter().filter(|(_, is_wrong)| *is_wrong) {
        found.push(format!("{place} is beyond `{name}`"));
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
