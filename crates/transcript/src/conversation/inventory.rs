//! Counts what sessions contain: records, stop reasons, blocks, tools, turns, versions and models,
//! over any number of files.
//!
//! Counts records as they are in the file, not what they mean together: an answer written as three
//! lines is three records, and a repeated line counts again. Invariant: the counts of several files
//! are the sums of the counts of each, so the order of reading does not matter.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::format::entry::{Entry, Kind};
use crate::format::file::{Line, State};

/// How often each name occurred.
pub type Counts = BTreeMap<String, u64>;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Bytes, including line endings.
    pub bytes: u64,
    /// Lines, including blank and damaged ones.
    pub lines: u64,
    /// Records: whole and recovered ones.
    pub records: u64,
    /// Of these, records recovered from damaged lines.
    pub recovered: u64,
    /// Pieces of lines that are not a record.
    pub damaged: u64,
    /// Lines that are JSON, but not an object.
    pub bare: u64,
    /// Records by type; without a type, by the role of the message; without that, `(none)`.
    pub types: Counts,
    /// Records by `type/subtype`: `system`, `attachment` and `progress` records.
    pub subtypes: Counts,
    /// Assistant records by stop reason; `null` if there is none.
    pub stop_reasons: Counts,
    /// Content blocks by type. Content that is a plain string counts as `(string)`.
    pub blocks: Counts,
    /// Tool calls.
    pub tool_calls: u64,
    /// Tool calls by tool.
    pub tools: Counts,
    /// Records in which a person speaks: see [`Entry::is_human_turn`].
    pub human_turns: u64,
    /// Records by client version.
    pub versions: Counts,
    /// Assistant records by model.
    pub models: Counts,
}

impl Inventory {
    /// Counts the records of a line.
    pub fn add(&mut self, line: &Line<'_>) {
        self.bytes += line.len + u64::from(line.ended);
        self.lines += u64::from(line.part.is_none_or(|part| part == 0));
        for record in line.records() {
            self.recovered += u64::from(record.state == State::Recovered);
            self.damaged += u64::from(record.state == State::Damaged);
            self.bare += u64::from(record.bare.is_some());
            if let Some(entry) = &record.entry {
                self.add_entry(entry);
            }
        }
    }

    fn add_entry(&mut self, entry: &Entry<'_>) {
        self.records += 1;
        let name = entry.type_name();
        let name = name.as_deref().unwrap_or("(none)");
        count(&mut self.types, name);
        if matches!(entry.kind(), Kind::System | Kind::Attachment | Kind::Progress) {
            let subtype = entry.subtype();
            count(
                &mut self.subtypes,
                &format!("{name}/{}", subtype.as_deref().unwrap_or("(none)")),
            );
        }
        if let Some(version) = entry.version() {
            count(&mut self.versions, &version);
        }
        if !matches!(entry.kind(), Kind::User | Kind::Assistant) {
            return;
        }
        let Some(message) = entry.message() else { return };
        if entry.kind() == Kind::Assistant {
            let reason = message.text("stop_reason");
            count(&mut self.stop_reasons, reason.as_deref().unwrap_or("null"));
            if let Some(model) = message.text("model") {
                count(&mut self.models, &model);
            }
        }
        for block in message.blocks() {
            let name = block.type_name();
            let name = name.as_deref().unwrap_or("(none)");
            count(&mut self.blocks, if block.is_string() { "(string)" } else { name });
            if name == "tool_use" {
                self.tool_calls += 1;
                count(&mut self.tools, block.tool().as_deref().unwrap_or("(none)"));
            }
        }
        self.human_turns += u64::from(entry.is_human_turn());
    }

    /// Adds the counts of another inventory.
    pub fn merge(&mut self, other: &Inventory) {
        let Inventory {
            bytes,
            lines,
            records,
            recovered,
            damaged,
            bare,
            types,
            subtypes,
            stop_reasons,
            blocks,
            tool_calls,
            tools,
            human_turns,
            versions,
            models,
        } = other;
        self.bytes += bytes;
        self.lines += lines;
        self.records += records;
        self.recovered += recovered;
        self.damaged += damaged;
        self.bare += bare;
        self.tool_calls += tool_calls;
        self.human_turns += human_turns;
        for (mine, theirs) in [
            (&mut self.types, types),
            (&mut self.subtypes, subtypes),
            (&mut self.stop_reasons, stop_reasons),
            (&mut self.blocks, blocks),
            (&mut self.tools, tools),
            (&mut self.versions, versions),
            (&mut self.models, models),
        ] {
            for (name, number) in theirs {
                *mine.entry(name.clone()).or_default() += number;
            }
        }
    }
}

fn count(counts: &mut Counts, name: &str) {
    match counts.get_mut(name) {
        Some(number) => *number += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    }
}
