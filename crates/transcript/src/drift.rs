//! What a transcript holds that the format, as far as it is known, does not.
//!
//! An early warning: a new client release adds types, members and blocks, and here is where they show
//! first. Takes records, gives findings, by client version. Unknown is not wrong: such records are read
//! and kept like all others.

use std::collections::BTreeMap;

use crate::entry::Entry;
use crate::json::{Json, Object, Shape};
use crate::known::{self, Place};
use crate::limit::KNOWN_DEPTH;

/// What was found, by client version and what it is.
pub type Findings = BTreeMap<(String, Novelty), Finding>;

/// Something that is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Novelty {
    /// A type of record, block, attachment, progress or system event, as `block.future`.
    Type(String),
    /// A member of an object of a known place, as `user.future`.
    Field(String),
}

/// How often it was found, and where first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How many times.
    pub count: u64,
    /// The file of the first one, as the caller named it.
    pub file: String,
    /// The line of the first one.
    pub line: u64,
}

/// Looks for what is not known in one file after the other.
#[derive(Debug, Default)]
pub struct Drift {
    findings: Findings,
    file: String,
    line: u64,
    /// The version that the records around are of: many say none themselves.
    version: String,
}

impl Drift {
    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// What follows is of another file.
    pub fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        "unknown".clone_into(&mut self.version);
    }

    /// Looks at one record.
    pub fn add(&mut self, line: u64, entry: &Entry<'_>) {
        self.line = line;
        if let Some(version) = entry.version() {
            self.version = version.into_owned();
        }
        let name = entry.type_name();
        let name = match (name.as_deref(), entry.subtype()) {
            (None, _) => return self.found(Novelty::Type("(none)".to_owned())),
            (Some("system"), Some(subtype)) => format!("system.{subtype}"),
            (Some(name), _) => name.to_owned(),
        };
        match known::place(&name) {
            Some(place) => self.members(entry.json(), place, KNOWN_DEPTH),
            None => self.found(Novelty::Type(name)),
        }
    }

    /// Looks at the members of an object. What is nested deeper than `depth` is not looked into.
    fn members(&mut self, json: Json<'_>, place: &Place, depth: usize) {
        let Some(object) = json.object() else { return };
        for (name, value) in object.members() {
            match place.field(&name) {
                Some(field) if depth > 0 => {
                    self.value(value, field.into, &format!("{}.{name}", place.name), depth - 1);
                }
                Some(_) => {}
                None => self.found(Novelty::Field(format!("{}.{name}", place.name))),
            }
        }
    }

    /// Looks into the value of a member, as its place says.
    fn value(&mut self, value: Json<'_>, into: &str, name: &str, depth: usize) {
        let (for_object, for_list) = into.split_once(',').unwrap_or((into, into));
        match value.shape() {
            Shape::Object => {}
            Shape::Array if into != "~" && depth > 0 => {
                return value.elements().for_each(|one| self.value(one, for_list, name, depth - 1));
            }
            _ => return,
        }
        if for_object == "~" {
        } else if let Some(inner) = for_object.strip_prefix('*') {
            let members = value
                .object()
                .into_iter()
                .flat_map(|object| object.members().map(|(_, value)| value).collect::<Vec<_>>());
            members.for_each(|one| self.value(one, inner, name, depth));
        } else if let Some(family) = for_object.strip_suffix('.') {
            let kind = value.get("type").and_then(Json::text).unwrap_or("(none)".into());
            let name = format!("{family}.{kind}");
            match known::place(&name) {
                Some(inner) => self.members(value, inner, depth),
                None => self.found(Novelty::Type(name)),
            }
        } else if let Some(inner) = known::place(for_object) {
            self.members(value, inner, depth);
        } else {
            // No object was ever seen here, so nothing in it is known.
            let object = value.object();
            for (inner, _) in object.iter().flat_map(Object::members) {
                self.found(Novelty::Field(format!("{name}.{inner}")));
            }
        }
    }

    fn found(&mut self, what: Novelty) {
        let first = Finding { count: 0, file: self.file.clone(), line: self.line };
        let finding = self.findings.entry((self.version.clone(), what)).or_insert(first);
        finding.count += 1;
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
