//! What else changes if turns go: the end of the conversation, branches beside it, and records that
//! are about what is gone.

use hashbrown::HashSet;

use super::super::splice::To;
use super::{Rest, Reworking, is_step};
use crate::conversation::table::RowId;
use crate::format::entry::{Entry, Kind};
use crate::format::json::Json;

impl Reworking<'_> {
    /// Makes what is left of the path the live conversation.
    pub(super) fn make_live(&mut self) {
        self.end();
        self.tops();
    }

    /// If the end goes, the last record that stays becomes the end, for every version. Branches
    /// that continue from it would be taken for the live one, so they go too.
    fn end(&mut self) {
        let table = &self.conversation.table;
        let graph = &self.conversation.graph;
        let is_kept = |row: &RowId| {
            let known = table.row(*row);
            is_step(known.kind)
                && known.kind != Kind::Progress
                && known.uuid.is_some()
                && graph.link(*row).is_step()
                && !self.change.goes(*row)
        };
        if self.conversation.end().is_none_or(|leaf| !self.change.goes(leaf)) {
            return;
        }
        let Some(end) = self.spans.order.iter().copied().rfind(is_kept) else { return };
        // What would hang on the new end, once the records in between are gone.
        let mut above: Vec<Option<RowId>> = vec![None; table.rows().len()];
        let mut gone = 0;
        for row in graph.order() {
            let known = table.row(*row);
            let parent = graph.link(*row).parent();
            let is_kept = |parent: &RowId| {
                !self.change.goes(*parent)
                    && graph.link(*parent).is_step()
                    && is_step(table.row(*parent).kind)
            };
            above[row.index()] =
                parent.and_then(|parent| Some(parent).filter(is_kept).or(above[parent.index()]));
            let is_beside = self.spans.place(*row).is_none() && !known.is_sidechain;
            if is_beside
                && is_step(known.kind)
                && above[row.index()] == Some(end)
                && !self.change.goes(*row)
            {
                self.change.drop(*row);
                gone += usize::from(matches!(known.kind, Kind::User | Kind::Assistant));
            }
        }
        if gone > 0 {
            let messages = if gone == 1 { "message" } else { "messages" };
            let text =
                format!("removed: {gone} {messages} of abandoned branches after the new end");
            self.change.did(None, None, text);
        }
        let time = table.row(end).time;
        if let Some(time) = self.change.needed_time(self.conversation, Some(end), time) {
            self.change.edit(end).set_text("timestamp", &time.to_string());
            let line = Some(table.row(end).line);
            self.change.did(None, line, "given the newest time: the last record");
        }
        // Newer versions continue from the last end in the file, unless a record names another.
        let is_later = |(row, known): &(RowId, &crate::conversation::table::Row)| {
            *row > end && is_step(known.kind) && !known.is_sidechain && !self.change.goes(*row)
        };
        if table.numbered().any(|row| is_later(&row)) {
            self.change.name_end(self.conversation, end);
        }
    }

    /// Branches that lose everything before them would become roots of their own: they go too.
    fn tops(&mut self) {
        let graph = &self.conversation.graph;
        let table = &self.conversation.table;
        let mut has_kept = vec![false; table.rows().len()];
        let mut gone = 0;
        for row in graph.order().iter().copied() {
            let known = table.row(row);
            let parent = graph.link(row).parent();
            let is_below = parent.is_some_and(|above| {
                has_kept[above.index()]
                    || (!self.change.goes(above) && is_step(table.row(above).kind))
            });
            has_kept[row.index()] = is_below;
            let is_main = is_step(known.kind) && !known.is_sidechain && known.uuid.is_some();
            let is_beside = self.spans.place(row).is_none();
            if is_main && is_beside && parent.is_some() && !is_below && !self.change.goes(row) {
                self.change.drop(row);
                gone += usize::from(matches!(known.kind, Kind::User | Kind::Assistant));
            }
        }
        if gone > 0 {
            let messages = if gone == 1 { "message" } else { "messages" };
            let text = format!(
                "removed: {gone} {messages} of abandoned branches that began in these turns"
            );
            self.change.did(None, None, text);
        }
    }

    /// Records that have no place in the conversation, and are about what is gone: file snapshots
    /// for a prompt, prompts in the queue, requests that contained it, the last prompt.
    pub(super) fn asides(&mut self) -> crate::Result<()> {
        let table = &self.conversation.table;
        let is_touched = |row: RowId| self.change.goes(row) || self.reworded.contains(&row);
        let rows = table.numbered().map(|(row, _)| row);
        let touched: HashSet<RowId> = rows.filter(|row| is_touched(*row)).collect();
        let Some(first) = touched.iter().min().copied() else { return Ok(()) };
        let last_named = table.numbered().rev().find(|(_, row)| row.kind == Kind::LastPrompt);
        let last_named = last_named.map(|(row, _)| row);
        let mut is_next_touched = false;
        let (mut gone, mut silent) = (Vec::new(), Vec::new());
        for (id, row) in table.numbered().rev() {
            match row.kind {
                kind if is_step(kind) && row.uuid.is_some() && !row.is_sidechain => {
                    is_next_touched = touched.contains(&id);
                }
                Kind::QueueOperation if is_next_touched => gone.push(id),
                Kind::ApiRequest
                | Kind::ApiRequestShape
                | Kind::ApiRequestBlob
                | Kind::ToolsUsed
                    if id > first =>
                {
                    gone.push(id);
                }
                Kind::LastPrompt => {
                    let turn = self.spans.owner(id);
                    if turn.is_some_and(|turn| self.is_changed(turn)) {
                        if Some(id) == last_named { &mut silent } else { &mut gone }.push(id);
                    }
                }
                Kind::FileHistorySnapshot => {
                    let message = self.conversation.look(id, snapshot_of)?;
                    let row = message.and_then(|message| {
                        self.conversation.graph.row_of(table.ids.find(&message)?)
                    });
                    if row.is_some_and(|row| self.change.goes(row)) {
                        gone.push(id);
                    }
                }
                _ => {}
            }
        }
        for row in gone {
            self.change.drop(row);
        }
        for row in silent {
            self.change.edit(row).set("lastPrompt", To::Nothing);
        }
        Ok(())
    }

    /// Whether the prompt of a turn is no longer what it was.
    fn is_changed(&self, turn: usize) -> bool {
        let prompt = self.spans.prompt(&self.conversation.table, turn);
        self.rests[turn] != Rest::Whole || prompt.iter().any(|row| self.reworded.contains(row))
    }
}

/// The id of the prompt that a file snapshot was made for.
fn snapshot_of(entry: &Entry<'_>) -> Option<String> {
    let inner = entry.get("snapshot").and_then(|snapshot| snapshot.get("messageId"));
    let message = entry.get("messageId").or(inner);
    message.and_then(Json::text).map(std::borrow::Cow::into_owned)
}
