//! The conversation as it should be sent: which records, in which order.

use hashbrown::{HashMap, HashSet};

use super::super::splice::To;
use super::{Level, Repairing};
use crate::client::check::{Code, Severity, is_replacing, is_voice};
use crate::client::history::{History, Note};
use crate::conversation::graph::{ChainId, Link};
use crate::conversation::table::{Id, RowId};
use crate::format::entry::Kind;
use crate::format::input::Input;

/// Codes that mean that records are not sent because of how they are linked.
const APART: [Code; 11] = [
    Code::GluedRecords,
    Code::NullLine,
    Code::RepeatedUuid,
    Code::ForeignRecord,
    Code::NoUuid,
    Code::MissingParent,
    Code::SecondRoot,
    Code::WrongLeaf,
    Code::TimeTie,
    Code::LostResult,
    Code::CompactionWithoutSummary,
];

/// A path, plus the records that are sent now but are not on it, each after the record that is sent
/// before it.
fn merged(way: Vec<RowId>, sent: &[RowId]) -> Vec<RowId> {
    let on: HashSet<RowId> = way.iter().copied().collect();
    let mut behind: HashMap<Option<RowId>, Vec<RowId>> = HashMap::new();
    let mut last = None;
    for row in sent {
        if on.contains(row) {
            last = Some(*row);
        } else {
            behind.entry(last).or_default().push(*row);
        }
    }
    let mut rows = behind.remove(&None).unwrap_or_default();
    for row in way {
        rows.push(row);
        rows.extend(behind.remove(&Some(row)).into_iter().flatten());
    }
    rows
}

impl Repairing<'_> {
    /// Determines the steps.
    pub(super) fn order(&mut self) -> crate::Result<()> {
        self.name()?;
        let sent = match &self.subject.found {
            Ok(found) => self.sent(found),
            Err(_) => Vec::new(),
        };
        let is_apart = self
            .judged
            .findings
            .iter()
            .any(|finding| finding.severity >= Severity::Loss && APART.contains(&finding.code));
        let rows = match &self.subject.found {
            // If nothing is lost, the records that are sent are already right.
            Ok(found) if !is_apart => {
                self.boundary = found.boundary;
                sent
            }
            _ => {
                let way = self.way();
                let is_behind = |row: &RowId| Some(*row) > self.boundary;
                let sent = sent.into_iter().filter(is_behind).filter(|_| !self.is_led_astray);
                merged(way, &sent.collect::<Vec<_>>())
            }
        };
        self.steps = rows.into_iter().filter_map(|row| self.step(row)).collect();
        Ok(())
    }

    /// What the client sends after its compaction. Records that it recovers from other branches,
    /// because they belong to the same answer, stay there.
    fn sent(&self, found: &History) -> Vec<RowId> {
        let (table, graph) = (&self.conversation.table, &self.conversation.graph);
        let bridged = found.notes.iter().filter_map(|note| match note {
            Note::Missing { row, bridged } => Some((*row, *bridged)),
            _ => None,
        });
        let bridged: HashMap<RowId, Option<RowId>> = bridged.collect();
        let mut on_way = HashSet::new();
        let mut at = found.leaf;
        while let Some(here) = at.filter(|here| on_way.insert(*here)) {
            let parent = || table.row(here).parent.and_then(|parent| graph.row_of(parent));
            at = bridged.get(&here).copied().unwrap_or_else(parent);
        }
        let end = found.leaf.map(|leaf| graph.chain_of(leaf));
        let path: HashSet<ChainId> = end.into_iter().flat_map(|end| graph.path(end)).collect();
        let is_on = |row: &RowId| on_way.contains(row) || path.contains(&graph.chain_of(*row));
        let is_behind = |row: &RowId| Some(*row) > found.boundary;
        found.rows.iter().copied().filter(|row| is_behind(row) && is_on(row)).collect()
    }

    /// Gives each message an id of its own, and a type that clients read.
    fn name(&mut self) -> crate::Result<()> {
        let (table, graph) = (&self.conversation.table, &self.conversation.graph);
        // The children of ids that occur twice.
        let twice = table.rows().iter().filter(|row| row.is_repeat).filter_map(|row| row.uuid);
        let mut children: HashMap<Id, Vec<RowId>> = twice.map(|id| (id, Vec::new())).collect();
        for (id, row) in table.numbered().filter(|_| !children.is_empty()).collect::<Vec<_>>() {
            if let Some(known) = row.parent.and_then(|parent| children.get_mut(&parent)) {
                known.push(id);
            }
        }
        for (id, row) in table.numbered() {
            let is_message = matches!(row.kind, Kind::User | Kind::Assistant);
            if !is_message || row.is_sidechain {
                continue;
            }
            if row.uuid.is_none() {
                let uuid = self.made_id(&format!("line {} {}", row.line, row.offset));
                self.change.edit(id).set_text("uuid", &uuid);
                self.uuids.insert(id, uuid);
                self.did(Code::NoUuid, Some(id), "record given an id");
            }
            if !row.is_native {
                let role = if row.kind == Kind::User { "user" } else { "assistant" };
                let plain = self.conversation.look(id, |entry| {
                    let content = entry.get("content").filter(|_| entry.get("message").is_none());
                    content.map(|content| String::from_utf8_lossy(content.raw()).into_owned())
                })?;
                let edit = self.change.edit(id);
                edit.set_text("type", role);
                if let Some(content) = plain {
                    let message = format!(r#"{{"role":"{role}","content":{content}}}"#);
                    edit.set("message", To::Value(message.into_bytes()));
                }
                self.did(Code::ForeignRecord, Some(id), format!("record type changed to `{role}`"));
            }
            if let Link::Repeat(first) = graph.link(id) {
                self.repeated(id, first, &children);
            }
        }
        Ok(())
    }

    /// Renames a record that has the same id as another with different content.
    fn repeated(&mut self, id: RowId, first: RowId, children: &HashMap<Id, Vec<RowId>>) {
        let table = &self.conversation.table;
        if !is_replacing(table, id, first) || table.row(id).is_sidechain {
            return;
        }
        let uuid = self.made_id(&format!("repeat {} {}", table.row(id).line, table.row(id).offset));
        // Its children are the records after it in the file that name this id as their parent.
        let old = table.row(id).uuid;
        for child in old.and_then(|old| children.get(&old)).into_iter().flatten() {
            if *child > id && table.row(*child).uuid != old {
                self.change.edit(*child).set_text("parentUuid", &uuid);
            }
        }
        self.change.edit(id).set_text("uuid", &uuid);
        self.uuids.insert(id, uuid);
        self.did(Code::RepeatedUuid, Some(id), "record given an id of its own");
    }

    /// The path to the intended end, from its last compaction on.
    fn way(&mut self) -> Vec<RowId> {
        let (table, graph) = (&self.conversation.table, &self.conversation.graph);
        let is_spoken = |row: &RowId| is_voice(self.conversation, *row);
        let last = table.numbered().map(|(row, _)| row).rfind(is_spoken);
        let found = self.subject.found.as_ref().ok();
        let live = found.and_then(|found| found.leaf).or_else(|| self.conversation.end());
        let is_wrong =
            self.is_found(Code::WrongLeaf) || self.is_found(Code::NoEnd) || live.is_none();
        let end = if is_wrong { last.or(live) } else { live };
        let Some(end) = end else { return Vec::new() };
        self.is_led_astray = is_wrong;
        let mut rows: Vec<RowId> =
            self.conversation.rows(&graph.path(graph.chain_of(end))).collect();
        self.joined(&mut rows, is_spoken);
        let start = self.start(&rows);
        let mut seen = HashSet::new();
        let is_step = |row: &RowId| {
            let known = table.row(*row);
            let is_tree = matches!(
                known.kind,
                Kind::User | Kind::Assistant | Kind::Attachment | Kind::System
            );
            let is_repeat =
                matches!(graph.link(*row), Link::Repeat(_)) && !self.uuids.contains_key(row);
            is_tree && !known.is_sidechain && !is_repeat && !table.is_agent
        };
        let rows = rows.into_iter().skip(start).filter(is_step);
        rows.filter(|row| seen.insert(*row)).collect()
    }

    /// Treats another root before the live one in the file as the earlier part of the conversation.
    fn joined(&mut self, rows: &mut Vec<RowId>, is_spoken: impl Fn(&RowId) -> bool) {
        if !self.is_found(Code::SecondRoot) {
            return;
        }
        let (table, graph) = (&self.conversation.table, &self.conversation.graph);
        let Some(first) = rows.iter().copied().find(|row| is_spoken(row)) else { return };
        // Nothing is joined across a compaction.
        if rows.iter().any(|row| {
            table.boundary(*row).is_some() || table.row(*row).input == Some(Input::Summary)
        }) {
            return;
        }
        let on: HashSet<RowId> = rows.iter().copied().collect();
        let before = table.numbered().map(|(row, _)| row).take_while(|row| *row < first);
        let Some(last) = before.filter(|row| is_spoken(row) && !on.contains(row)).last() else {
            return;
        };
        let mut all: Vec<RowId> =
            self.conversation.rows(&graph.path(graph.chain_of(last))).collect();
        all.retain(|row| *row < first);
        if all.iter().any(|row| table.boundary(*row).is_some()) {
            return;
        }
        self.joined = Some(first);
        self.did(
            Code::SecondRoot,
            Some(first),
            "now continues from the end of the conversation before it",
        );
        all.append(rows);
        *rows = all;
    }

    /// Where the part to send begins: after the last compaction that has a summary. A compaction
    /// without a summary is removed.
    fn start(&mut self, rows: &[RowId]) -> usize {
        let table = &self.conversation.table;
        let without = self.is_found(Code::CompactionWithoutSummary);
        let found = self.subject.found.as_ref().ok().and_then(|found| found.boundary);
        for (at, row) in rows.iter().enumerate().rev() {
            if table.boundary(*row).is_none() {
                continue;
            }
            if without && Some(*row) == found && self.level == Level::All {
                self.change.drop(*row);
                self.did(
                    Code::CompactionWithoutSummary,
                    Some(*row),
                    "compaction removed: the messages before it are sent again",
                );
                continue;
            }
            self.boundary = Some(*row);
            return at + 1;
        }
        0
    }
}
