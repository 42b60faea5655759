//! Finds what a transcript contains that the schema does not have.
//!
//! An early warning: new client releases add types, members and blocks, and they show up here
//! first. Records go in, findings by client version come out. Unknown does not mean wrong: such
//! records are read and kept like all others.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::entry::Entry;
use crate::format::json::{Json, Object, Shape};
use crate::format::limit::KNOWN_DEPTH;
use crate::format::schema::{self, Place};

/// What was found, by client version and by what it is.
pub type Findings = BTreeMap<(Version, Novelty), Finding>;

/// A client version. Sorts by number: 2.1.9 comes before 2.1.45. Texts that are not versions come
/// last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: (bool, Vec<u64>),
    text: String,
}

impl Version {
    fn new(text: &str) -> Self {
        let numbers: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
        Version { numbers: (numbers.is_none(), numbers.unwrap_or_default()), text: text.to_owned() }
    }

    /// The version as the client writes it; `unknown` if no record of the file has one.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Something that the schema does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Novelty {
    /// A type of record, block, attachment, progress or system event, such as `block.future`.
    Type(String),
    /// A member of an object of a known place, such as `user.future`.
    Field(String),
}

/// How often something was found, and where first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How many times it was found.
    pub count: u64,
    /// The file of the first one, as the caller named it.
    pub file: String,
    /// The line number of the first one.
    pub line: u64,
}

/// Looks for unknown types and members in one file after the other.
#[derive(Debug, Default)]
pub struct Drift {
    findings: Findings,
    file: String,
    line: u64,
    /// The version of the surrounding records. Many records do not have one themselves.
    version: Option<Version>,
    /// Found before any record of the file had a version.
    waiting: BTreeMap<Novelty, Finding>,
    versions: BTreeSet<Version>,
}

impl Drift {
    /// The client versions that wrote what was examined so far, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter()
    }

    /// Everything that was found.
    pub fn finish(mut self) -> Findings {
        self.end_of_file();
        self.findings
    }

    /// Begins another file.
    pub fn begin(&mut self, file: &str) {
        self.end_of_file();
        file.clone_into(&mut self.file);
        self.version = None;
    }

    /// No version can follow any more for the findings that wait for one.
    fn end_of_file(&mut self) {
        self.take_pending(&Version::new("unknown"));
    }

    fn take_pending(&mut self, version: &Version) {
        for (what, early) in std::mem::take(&mut self.waiting) {
            let key = (version.clone(), what);
            match self.findings.get_mut(&key) {
                Some(known) => known.count += early.count,
                None => drop(self.findings.insert(key, early)),
            }
        }
    }

    /// Examines one record.
    pub fn add(&mut self, line: u64, entry: &Entry<'_>) {
        self.line = line;
        if let Some(text) = entry.version()
            && self.version.as_ref().is_none_or(|version| version.text != text)
        {
            let version = Version::new(&text);
            self.take_pending(&version);
            if !self.versions.contains(&version) {
                self.versions.insert(version.clone());
            }
            self.version = Some(version);
        }
        let name = entry.type_name();
        let name = match (name.as_deref(), entry.subtype()) {
            (None, _) => return self.found(Novelty::Type("(none)".to_owned())),
            (Some("system"), Some(subtype)) => format!("system.{subtype}"),
            (Some(name), _) => name.to_owned(),
        };
        match schema::place(&name) {
            Some(place) => self.members(entry.json(), place, KNOWN_DEPTH),
            None => self.found(Novelty::Type(name)),
        }
    }

    /// Examines the members of an object. Nothing that is nested deeper than `depth` is examined.
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

    /// Examines the value of a member, as its place requires.
    fn value(&mut self, value: Json<'_>, into: &str, name: &str, depth: usize) {
        let mut ways = into.split(',');
        let for_object = ways.next().unwrap_or(into);
        let for_list = ways.next().unwrap_or(for_object);
        // Elements that do not say what they are.
        let for_untyped = ways.next().unwrap_or(for_list);
        match value.shape() {
            _ if into == "~" => {}
            Shape::Array if depth > 0 => value.elements().for_each(|one| {
                let has_type = one.get("type").is_some();
                let into = if has_type { for_list } else { for_untyped };
                self.value(one, into, name, depth - 1);
            }),
            Shape::Object => self.object(value, for_object, name, depth),
            _ => {}
        }
    }

    fn object(&mut self, value: Json<'_>, into: &str, name: &str, depth: usize) {
        if let Some(inner) = into.strip_prefix('*') {
            for (_, one) in value.object().iter().flat_map(Object::members) {
                self.value(one, inner, name, depth);
            }
        } else if let Some(family) = into.strip_suffix('.') {
            let kind = value.get("type").and_then(Json::text).unwrap_or("(none)".into());
            let name = format!("{family}.{kind}");
            match schema::place(&name) {
                Some(inner) => self.members(value, inner, depth),
                None => self.found(Novelty::Type(name)),
            }
        } else if let Some(inner) = schema::place(into) {
            self.members(value, inner, depth);
        } else {
            // No object was ever seen here, so nothing in it is known.
            for (inner, _) in value.object().iter().flat_map(Object::members) {
                self.found(Novelty::Field(format!("{name}.{inner}")));
            }
        }
    }

    fn found(&mut self, what: Novelty) {
        let first = Finding { count: 0, file: self.file.clone(), line: self.line };
        let finding = match &self.version {
            Some(version) => self.findings.entry((version.clone(), what)).or_insert(first),
            None => self.waiting.entry(what).or_insert(first),
        };
        finding.count += 1;
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
