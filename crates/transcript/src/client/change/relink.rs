//! Re-parents kept records whose parent is dropped, and rewrites references to dropped records.

use hashbrown::{HashMap, HashSet};

use super::splice::{Splices, To, range_of};
use super::{Change, Subject, answer_of};
use crate::client::history::Note;
use crate::conversation::Conversation;
use crate::conversation::table::{Id, RowId};
use crate::format::entry::{Entry, Kind};
use crate::format::json::{Json, Object, quote};
use crate::format::limit::LONGEST_SEGMENT;

impl Change {
    /// Re-parents kept records whose parent is dropped, and rewrites references to dropped records.
    pub(super) fn relink(&mut self, subject: &Subject) -> crate::Result<()> {
        if !self.goes.contains(&true) {
            return Ok(());
        }
        let conversation = &subject.case.conversation;
        let gone = Gone::new(conversation, self, subject.sent());
        let existed = |id: Id| conversation.graph.row_of(id).is_some();
        let table = &conversation.table;
        let mut parents: Vec<(RowId, Option<Id>)> = Vec::new();
        let mut others: Vec<RowId> = table.boundaries.iter().map(|boundary| boundary.row).collect();
        for (id, row) in table.numbered().filter(|(id, _)| !self.goes(*id)) {
            if let Some(parent) = row.parent
                && gone.is_gone(parent)
                && existed(parent)
                && self
                    .edits
                    .get(&id)
                    .is_none_or(|edit| !edit.members.iter().any(|(name, _)| *name == "parentUuid"))
            {
                parents.push((id, gone.instead(conversation, id, parent)));
            }
            if matches!(
                row.kind,
                Kind::LastPrompt
                    | Kind::Summary
                    | Kind::FileHistorySnapshot
                    | Kind::FileHistoryDelta
            ) {
                others.push(id);
            }
        }
        parents.extend(gone.stranded(conversation, subject.sent()));
        // Clients bridge this gap to a record that is dropped.
        let notes = subject.found.as_ref().map_or(&[][..], |found| &found.notes);
        for note in notes {
            if let Note::Missing { row, bridged: Some(to) } = note
                && self.goes(*to)
                && !self.goes(*row)
            {
                parents.push((*row, gone.before(conversation, *row)));
            }
        }
        // If several branches lose their common root, each would become a root of its own. So the
        // root is kept, without its content.
        let mut tops = common_tops(conversation, &parents);
        tops.retain(|top| self.goes(*top));
        for top in &tops {
            self.goes[top.index()] = false;
            if matches!(table.row(*top).kind, Kind::User | Kind::Assistant) {
                let edit = self.edit(*top);
                edit.blocks.clear();
                edit.set("toolUseResult", To::Nothing);
                edit.message.push(("content", To::Value(REMOVED.as_bytes().to_vec())));
            }
        }
        if !tops.is_empty() {
            return self.relink(subject);
        }
        for (row, parent) in parents {
            let to = parent.map_or("null".to_owned(), |id| quote(table.ids.text(id)));
            self.edit(row).set("parentUuid", To::Value(to.into_bytes()));
        }
        others.retain(|row| !self.goes(*row));
        for row in others {
            let changes = conversation.look(row, |entry| gone.references(conversation, entry))?;
            for (name, to) in changes {
                self.edit(row).set(name, to);
            }
        }
        Ok(())
    }
}

/// The content of a message that is kept only as a link.
const REMOVED: &str = r#"[{"type":"text","text":"[removed]"}]"#;

/// The roots whose descendants would become several roots.
fn common_tops(conversation: &Conversation, parents: &[(RowId, Option<Id>)]) -> Vec<RowId> {
    let mut roots = parents.iter().filter(|(_, parent)| parent.is_none()).peekable();
    if roots.peek().is_none() {
        return Vec::new();
    }
    let mut tops: Vec<RowId> = conversation.table.numbered().map(|(row, _)| row).collect();
    for row in conversation.graph.order() {
        if let Some(above) = conversation.graph.link(*row).parent() {
            tops[row.index()] = tops[above.index()];
        }
    }
    let mut counts: HashMap<RowId, usize> = HashMap::new();
    for (row, _) in roots.filter(|(row, _)| tops[row.index()] != *row) {
        *counts.entry(tops[row.index()]).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(top, _)| top).collect()
}

/// What is dropped, and what replaces it.
struct Gone {
    /// By id number: whether a kept record has this id.
    kept: Vec<bool>,
    goes: Vec<bool>,
    /// For each record, its nearest kept ancestor.
    above: Vec<Option<RowId>>,
    /// For each record that is sent after the compaction, its position.
    order: HashMap<RowId, usize>,
    /// For each position, the last record before it that is sent and kept.
    before: Vec<Option<RowId>>,
}

impl Gone {
    fn new(
        conversation: &Conversation,
        change: &Change,
        (sent, boundary): (&[RowId], Option<RowId>),
    ) -> Gone {
        let table = &conversation.table;
        let mut kept = vec![false; table.ids.len()];
        let mut goes = change.goes.clone();
        for row in &change.elsewhere {
            goes[row.index()] = false;
        }
        for (_, row) in table.numbered().filter(|(id, _)| !goes[id.index()]) {
            if let Some(uuid) = row.uuid {
                kept[uuid.index()] = true;
            }
        }
        let mut above: Vec<Option<RowId>> = vec![None; table.rows().len()];
        for row in conversation.graph.order() {
            let Some(parent) = conversation.graph.link(*row).parent() else { continue };
            let is_fit = !goes[parent.index()]
                && conversation.graph.link(parent).is_step()
                && table.row(parent).uuid.is_some();
            above[row.index()] = if is_fit { Some(parent) } else { above[parent.index()] };
        }
        let (mut order, mut before, mut last) = (HashMap::new(), Vec::new(), None);
        for row in sent.iter().copied().filter(|row| Some(*row) > boundary) {
            order.insert(row, before.len());
            before.push(last);
            if !goes[row.index()] && table.row(row).uuid.is_some() {
                last = Some(row);
            }
        }
        Gone { kept, goes, above, order, before }
    }

    /// Whether no kept record has this id.
    fn is_gone(&self, id: Id) -> bool {
        !self.kept[id.index()]
    }

    /// The last record that is sent before this one and kept. What hangs below this one can be
    /// sent before it too, but cannot be its parent.
    fn before(&self, conversation: &Conversation, row: RowId) -> Option<Id> {
        let before = self.before[*self.order.get(&row)?]?;
        let mut at = before;
        while at > row {
            at = conversation.graph.link(at).parent().unwrap_or(RowId(0));
        }
        if at == row { None } else { conversation.table.row(before).uuid }
    }

    /// The new parent of a record whose parent is dropped: the record that is sent before it, so
    /// that parallel results stay on the path; otherwise the nearest ancestor.
    fn instead(&self, conversation: &Conversation, row: RowId, parent: Id) -> Option<Id> {
        let gone = conversation.graph.row_of(parent)?;
        let is_before = self
            .order
            .get(&row)
            .zip(self.order.get(&gone))
            .is_some_and(|(place, above)| above < place);
        let before = if is_before { self.before(conversation, row) } else { None };
        before.or_else(|| self.above(conversation, gone))
    }

    /// Clients recover records beside the path if another record of the same answer is on it. If
    /// that other record is dropped, they must be on the path themselves. This returns the new
    /// parents: theirs, and those of the records that follow them.
    fn stranded(
        &self,
        conversation: &Conversation,
        (sent, boundary): (&[RowId], Option<RowId>),
    ) -> Vec<(RowId, Option<Id>)> {
        let table = &conversation.table;
        let sent: Vec<RowId> = sent.iter().copied().filter(|row| Some(*row) > boundary).collect();
        let mut on_way: HashSet<RowId> = HashSet::new();
        let mut at = conversation.end().filter(|leaf| self.order.contains_key(leaf));
        while let Some(here) = at.filter(|here| on_way.insert(*here)) {
            at = conversation.graph.link(here).parent();
        }
        // Answers that had a record on the path, and those that still have one.
        let (mut had, mut has) = (HashSet::new(), HashSet::new());
        for row in sent.iter().filter(|row| on_way.contains(*row)) {
            if let Some(answer) = table.row(*row).answer {
                had.insert(answer);
                if !self.goes[row.index()] {
                    has.insert(answer);
                }
            }
        }
        let kept: Vec<RowId> = sent.into_iter().filter(|row| !self.goes[row.index()]).collect();
        let mut found = Vec::new();
        for (place, row) in kept.iter().enumerate().filter(|(_, row)| !on_way.contains(*row)) {
            if answer_of(conversation, *row)
                .is_some_and(|of| had.contains(&of) && !has.contains(&of))
            {
                found.push((*row, self.before(conversation, *row)));
                found.extend(kept.get(place + 1).map(|next| (*next, table.row(*row).uuid)));
            }
        }
        found
    }

    /// The nearest kept ancestor of a dropped record.
    fn above(&self, conversation: &Conversation, gone: RowId) -> Option<Id> {
        conversation.table.row(self.above[gone.index()]?).uuid
    }

    /// The members of a record that refer to dropped records, with their new values.
    fn references(
        &self,
        conversation: &Conversation,
        entry: &Entry<'_>,
    ) -> Vec<(&'static str, To)> {
        let mut changes = Vec::new();
        let known = |value: Json<'_>| conversation.table.ids.find(&value.text()?);
        let is_gone = |value: Json<'_>| {
            known(value)
                .is_some_and(|id| self.is_gone(id) && conversation.graph.row_of(id).is_some())
        };
        let instead = |value: Json<'_>| {
            let gone = known(value).and_then(|id| conversation.graph.row_of(id))?;
            Some(quote(conversation.table.ids.text(self.above(conversation, gone)?)).into_bytes())
        };
        for name in ["leafUuid", "logicalParentUuid"] {
            if let Some(value) = entry.get(name).filter(|value| is_gone(*value)) {
                changes.push((name, instead(value).map_or(To::Nothing, To::Value)));
            }
        }
        for name in ["messageId", "snapshotMessageId"] {
            if let Some(value) = entry.get(name).filter(|value| is_gone(*value))
                && let Some(new) = instead(value)
            {
                changes.push((name, To::Value(new)));
            }
        }
        if let Some(snapshot) = entry.get("snapshot")
            && let Some(value) = snapshot.get("messageId").filter(|value| is_gone(*value))
            && let (Some(new), Some(object)) = (instead(value), snapshot.object())
        {
            changes.push(("snapshot", To::Value(object.with("messageId", &new))));
        }
        let Some(metadata) = entry.get("compactMetadata").and_then(Json::object) else {
            return changes;
        };
        let mut splices = Splices::default();
        let raw = metadata.raw();
        let kept = |name: &str| metadata.get("preservedMessages").and_then(|kept| kept.get(name));
        for uuids in ["uuids", "allUuids"].into_iter().filter_map(kept) {
            if let Some(range) = range_of(uuids.raw(), raw) {
                splices.elements(raw, range, |_, value| {
                    Json::parse(value).is_some_and(is_gone).then_some(To::Nothing)
                });
            }
        }
        if let Some(value) = kept("anchorUuid").filter(|value| is_gone(*value))
            && let (Some(range), Some(new)) = (range_of(value.raw(), raw), instead(value))
        {
            splices.put(range, new);
        }
        if let Some(segment) = metadata.get("preservedSegment").and_then(Json::object) {
            let known = |name: &str| segment.get(name).and_then(known);
            if let (Some(head), Some(tail)) = (known("headUuid"), known("tailUuid")) {
                let anchor = segment.get("anchorUuid").filter(|value| is_gone(*value));
                let to =
                    self.segment_to(conversation, &segment, [head, tail], anchor.and_then(instead));
                splices.members(&metadata, 0, &[("preservedSegment", to)]);
            }
        }
        if !splices.is_empty() {
            changes.push(("compactMetadata", To::Value(splices.apply(raw))));
        }
        changes
    }

    /// The new value of a segment that a compaction keeps.
    fn segment_to(
        &self,
        conversation: &Conversation,
        segment: &Object<'_>,
        [head, tail]: [Id; 2],
        anchor: Option<Vec<u8>>,
    ) -> To {
        // Possibly nothing of it is left.
        let Some([head, tail]) = self.segment(conversation, Some(head), Some(tail)) else {
            return To::Nothing;
        };
        let text = |id: Id| To::Value(quote(conversation.table.ids.text(id)).into_bytes());
        let mut ends = vec![("headUuid", text(head)), ("tailUuid", text(tail))];
        ends.extend(anchor.map(|anchor| ("anchorUuid", To::Value(anchor))));
        let mut splices = Splices::default();
        splices.members(segment, 0, &ends);
        To::Value(splices.apply(segment.raw()))
    }

    /// The ids of the first and the last kept record of a segment.
    fn segment(
        &self,
        conversation: &Conversation,
        head: Option<Id>,
        tail: Option<Id>,
    ) -> Option<[Id; 2]> {
        let head = head.and_then(|id| conversation.graph.row_of(id))?;
        let mut at = tail.and_then(|id| conversation.graph.row_of(id));
        let mut found: Option<[Id; 2]> = None;
        for _ in 0..LONGEST_SEGMENT {
            let Some(here) = at else { break };
            if !self.goes[here.index()]
                && let Some(uuid) = conversation.table.row(here).uuid
            {
                found = Some([uuid, found.map_or(uuid, |[_, tail]| tail)]);
            }
            if here == head {
                break;
            }
            at = conversation.graph.link(here).parent();
        }
        found
    }
}
