//! What a redaction hid, and where the secrets still stand. Never a secret, or a part of one.

use serde::Serialize;

use crate::failure::Failure;
use crate::out::WARN;
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::text::{count, shown};

/// What was redacted.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Redacted {
    /// By kind, in the order in which they were found.
    pub(crate) kinds: Vec<KindCount>,
    /// By place.
    pub(crate) places: Vec<SpotCount>,
    /// How many secrets are hidden only where they are recognized.
    pub(crate) only_recognized: u64,
    /// Where secrets still stand.
    pub(crate) stands: Vec<StandJson>,
    /// Further changes, as `quipu undo` names them.
    pub(crate) changes: Vec<String>,
    /// How many changes were removed from the journal.
    pub(crate) forgotten: u64,
    /// The files that were written beside the file given by `-o`.
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct KindCount {
    pub(crate) kind: String,
    /// How many different secrets.
    pub(crate) secrets: u64,
    /// How often one of them was recognized.
    pub(crate) times: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct SpotCount {
    pub(crate) file: &'static str,
    pub(crate) place: &'static str,
    pub(crate) times: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct StandJson {
    pub(crate) what: &'static str,
    pub(crate) path: String,
}

/// How many paths of one kind are printed.
const MOST: usize = 8;

impl Redacted {
    /// The lines for people: a name and a text.
    pub(super) fn rows(&self, is_dry: bool) -> Vec<(&'static str, String)> {
        let mut rows = self.found(is_dry);
        if self.only_recognized > 0 {
            let some = count(self.only_recognized, "secret");
            let text = format!("{some}, short or made of words: hidden only where recognized");
            rows.push(("note", text));
        }
        for path in &self.files {
            rows.push(("written", path.clone()));
        }
        for name in &self.changes {
            rows.push(("undo", format!("quipu undo {name}")));
        }
        if self.forgotten > 0 {
            let some = count(self.forgotten, "change");
            rows.push(("undo", format!("{some} removed from the journal: not kept anywhere")));
        }
        rows
    }

    /// What was found, by kind and by place.
    fn found(&self, is_dry: bool) -> Vec<(&'static str, String)> {
        if self.kinds.is_empty() {
            return vec![("secrets", "none found".to_owned())];
        }
        let kinds: Vec<String> = self
            .kinds
            .iter()
            .map(|one| format!("{} {} ({})", one.secrets, one.kind, count(one.times, "time")))
            .collect();
        let all = self.kinds.iter().map(|one| one.secrets).sum();
        let would = if is_dry { "would be redacted" } else { "redacted" };
        let places = self.places.iter().map(|one| match (one.file, one.place) {
            ("transcript", place) => format!("{place} {}", one.times),
            (file, "name") => format!("{file} name {}", one.times),
            (file, _) => format!("{file} {}", one.times),
        });
        let places = places.collect::<Vec<_>>().join(", ");
        vec![
            ("secrets", format!("{} {would}: {}", count(all, "secret"), kinds.join(", "))),
            ("places", places),
        ]
    }

    pub(super) fn show(&self, page: &mut Page<'_>, is_dry: bool) -> Result<(), Failure> {
        for (name, text) in self.rows(is_dry) {
            page.paragraph(&Lead::hanging(label(name)), &[unstyled(shown(&text))])?;
        }
        for (number, stand) in self.stands.iter().enumerate() {
            let lead = Lead::hanging(styled(WARN, format!("  {:<9}", "still in")));
            if number == MOST {
                let more = format!("{} more files; `--json` lists all", self.stands.len() - MOST);
                page.paragraph(&lead, &[unstyled(more)])?;
                break;
            }
            let text = shown(&format!("{} {}", stand.what, stand.path));
            page.paragraph(&lead, &[unstyled(text)])?;
        }
        Ok(())
    }
}
