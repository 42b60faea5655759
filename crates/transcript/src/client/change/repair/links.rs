//! Links each step to the one before it, and makes the last step the end for every version.

use super::super::splice::{Splices, To, range_of};
use super::{Repairing, Step, StepKind};
use crate::client::check::Code;
use crate::conversation::graph::Link;
use crate::conversation::table::{Id, RowId};
use crate::format::entry::Kind;
use crate::format::json::{Json, quote};
use crate::format::time::Time;

impl Repairing<'_> {
    pub(super) fn links(&mut self) -> crate::Result<()> {
        self.times();
        self.chain()?;
        self.end()?;
        self.kept()
    }

    /// Gives records without a time that of the record before, or after, them.
    fn times(&mut self) {
        let first = self.steps.iter().find_map(|step| step.time);
        let mut last = first;
        for at in 0..self.steps.len() {
            if let Some(time) = self.steps[at].time {
                last = Some(time);
                continue;
            }
            self.steps[at].time = last;
            if let (Some(row), Some(time)) = (self.steps[at].row(), last) {
                self.change.edit(row).set_text("timestamp", &time.to_string());
                self.did(Code::BadTime, Some(row), "set to the time of a neighbouring record");
            }
        }
    }

    fn chain(&mut self) -> crate::Result<()> {
        let table = &self.conversation.table;
        let boundary = self.boundary.and_then(|row| self.uuid(row));
        let mut made: Vec<(RowId, Vec<u8>)> = Vec::new();
        let steps = self.steps.clone();
        // Old versions do not follow `progress` records. If nothing else is wrong, that is no
        // reason to change a session.
        let is_fit = |at: usize| {
            let before = at.checked_sub(1).map(|before| &steps[before]);
            match (before, steps[at].row()) {
                (None, Some(row)) => self.is_fit_start(row),
                (Some(before), Some(row)) => {
                    self.leads_to(table.row(row).parent, Some(&before.uuid))
                }
                (_, None) => false,
            }
        };
        let may_pass = (0..steps.len()).all(is_fit);
        for (at, step) in steps.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &steps[before]);
            let parent = before.map(|before| before.uuid.clone());
            match &step.what {
                StepKind::Made { behind, members } => {
                    let line =
                        self.record(*behind, &step.uuid, parent.as_deref(), step.time, members)?;
                    made.push((*behind, line));
                }
                StepKind::Row(row) => {
                    let known = table.row(*row);
                    if before.is_none() && self.is_fit_start(*row) {
                        continue;
                    }
                    let wanted = parent.or_else(|| boundary.clone());
                    let is_renamed = self.change.edits.get(row).is_some_and(|edit| {
                        edit.members.iter().any(|(name, _)| *name == "parentUuid")
                    });
                    let is_direct = table.text(known.parent) == wanted.as_deref();
                    if !is_renamed && (is_direct || may_pass) {
                        continue;
                    }
                    let to = wanted.as_deref().map_or("null".to_owned(), quote);
                    self.change.edit(*row).set("parentUuid", To::Value(to.into_bytes()));
                    self.explain_parent(*row);
                }
            }
        }
        for (behind, line) in made {
            self.change.behind.entry(behind).or_default().push(line);
        }
        Ok(())
    }

    /// Whether the first step has a valid parent: none or, after a compaction, a record in the
    /// file.
    fn is_fit_start(&self, row: RowId) -> bool {
        let known = self.conversation.table.row(row);
        match (known.parent, self.boundary) {
            (None, _) => known.uuid.is_some(),
            (Some(parent), Some(_)) => self.conversation.graph.row_of(parent).is_some(),
            (Some(_), None) => false,
        }
    }

    /// Whether a parent is the wanted record, apart from `progress` records in between.
    fn leads_to(&self, parent: Option<Id>, wanted: Option<&str>) -> bool {
        let table = &self.conversation.table;
        let mut at = parent;
        for _ in 0..table.rows().len() {
            let Some(id) = at else { return wanted.is_none() };
            if Some(table.ids.text(id)) == wanted {
                return true;
            }
            let Some(row) =
                self.conversation.graph.row_of(id).filter(|row| !self.change.goes(*row))
            else {
                return false;
            };
            if table.row(row).kind != Kind::Progress {
                return false;
            }
            at = table.row(row).parent;
        }
        false
    }

    /// Reports why a record has a new parent.
    fn explain_parent(&mut self, row: RowId) {
        let (code, text) = match self.conversation.graph.link(row) {
            Link::Bridged(_) | Link::Lost => (
                Code::MissingParent,
                "its parent was missing; its parent is now the message before it",
            ),
            Link::Behind(_) => (
                Code::LostResult,
                "its parent was the progress of a call; its parent is now the last answer before it",
            ),
            Link::Loop => (Code::ParentLoop, "cycle of parent links broken here"),
            Link::Order(_) => (Code::NoUuid, "its parent is now the message before it"),
            _ => (Code::LostResult, "linked into a single chain, so that every version reads it"),
        };
        if self.joined != Some(row) {
            self.did(code, Some(row), text);
        }
    }

    /// Makes the last step the end for every version: it gets the newest time and, if necessary, a
    /// record that names it.
    fn end(&mut self) -> crate::Result<()> {
        let Some(last) = self.steps.last().cloned() else { return Ok(()) };
        let table = &self.conversation.table;
        let made = self.steps.iter().filter(|step| step.row().is_none() && step.uuid != last.uuid);
        let made = made.filter_map(|step| step.time).max().filter(|made| Some(*made) >= last.time);
        let needed = self.change.needed_time(self.conversation, last.row(), last.time);
        if let Some(time) = needed.max(made.map(|made| Time(made.0 + 1))) {
            match &last.what {
                StepKind::Row(row) => {
                    self.change.edit(*row).set_text("timestamp", &time.to_string());
                    self.did(Code::TimeTie, Some(*row), "the last record now has the newest time");
                }
                StepKind::Made { behind, members } => {
                    let before =
                        self.steps.len().checked_sub(2).map(|at| self.steps[at].uuid.clone());
                    let line =
                        self.record(*behind, &last.uuid, before.as_deref(), Some(time), members)?;
                    if let Some(end) =
                        self.change.behind.get_mut(behind).and_then(|lines| lines.last_mut())
                    {
                        *end = line;
                    }
                }
            }
        }
        let is_named = table.text(table.named_leaf) == Some(&last.uuid);
        if !is_named && (self.is_led_astray || self.is_named_elsewhere(&last)) {
            let code = if self.is_found(Code::NoEnd) { Code::NoEnd } else { Code::WrongLeaf };
            self.did(code, last.row(), "the conversation now continues from here");
            let session = last.row().map(|row| table.row(row).session);
            let session =
                session.flatten().map_or("null".to_owned(), |id| quote(table.ids.text(id)));
            let line = format!(
                r#"{{"type":"last-prompt","leafUuid":{},"sessionId":{session}}}"#,
                quote(&last.uuid)
            );
            self.change.end.push(line.into_bytes());
        }
        Ok(())
    }

    /// Whether a record names an end that is not one of the steps.
    fn is_named_elsewhere(&self, last: &Step) -> bool {
        let table = &self.conversation.table;
        let Some(row) = table.named_leaf.and_then(|id| self.conversation.graph.row_of(id)) else {
            return false;
        };
        let on = self.steps.iter().any(|step| step.row() == Some(row));
        // A record before the compaction leads to the steps anyway.
        !on && last.row().is_some() && self.boundary.is_none_or(|boundary| row > boundary)
    }

    /// Removes references from a compaction to kept records that are missing.
    fn kept(&mut self) -> crate::Result<()> {
        if !self.is_found(Code::CompactionKeptMissing) {
            return Ok(());
        }
        let Some(boundary) = self.boundary else { return Ok(()) };
        let changed = self.conversation.look(boundary, |entry| {
            let metadata = entry.get("compactMetadata")?;
            let uuids = metadata.get("preservedMessages")?.get("uuids")?;
            let mut splices = Splices::default();
            splices.elements(metadata.raw(), range_of(uuids.raw(), metadata.raw())?, |_, value| {
                let text = Json::parse(value)?.text()?;
                let known = self
                    .conversation
                    .table
                    .ids
                    .find(&text)
                    .and_then(|id| self.conversation.graph.row_of(id));
                known.is_none().then_some(To::Nothing)
            });
            Some(splices.apply(metadata.raw()))
        })?;
        if let Some(changed) = changed {
            self.change.edit(boundary).set("compactMetadata", To::Value(changed));
            let text = "references to records that are not in the file removed";
            self.did(Code::CompactionKeptMissing, Some(boundary), text);
        }
        Ok(())
    }
}
