//! Keeps calls and results together, whatever else a change removes.
//!
//! Invariant: a call that had a result in the file has one in the result, and the other way round.

use hashbrown::HashSet;

use super::Change;
use super::edit::BlockEdit;
use super::splice::To;
use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, Id, RowId};

impl Change {
    /// Keeps pairs whole: a result goes if its call goes, and stays if its call stays.
    pub(super) fn keep_pairs(&mut self, conversation: &Conversation) {
        let table = &conversation.table;
        let parts = || (0..).map(BlockId).zip(table.blocks());
        let (mut calls, mut gone): (HashSet<Id>, HashSet<Id>) = (HashSet::new(), HashSet::new());
        for (block, part) in parts().filter(|(_, part)| part.kind.is_call()) {
            let Some(id) = part.id else { continue };
            if self.keeps(conversation, block) {
                calls.insert(id);
            } else {
                gone.insert(id);
            }
        }
        let results = || parts().filter(|(_, part)| part.kind.is_result());
        let mut answered: HashSet<Id> = results()
            .filter(|(block, _)| self.keeps(conversation, *block))
            .filter_map(|(_, part)| part.id)
            .collect();
        let mut emptied: Vec<(RowId, BlockId)> = Vec::new();
        for (block, part) in results() {
            let Some(id) = part.id else { continue };
            if calls.contains(&id) {
                // A copy of a record changes nothing.
                let is_first = !part.is_repeat && self.goes(part.row);
                if is_first && answered.insert(id) {
                    self.goes[part.row.index()] = false;
                }
            } else if gone.contains(&id) && !self.goes(part.row) {
                emptied.push((part.row, block));
            }
        }
        for (row, block) in emptied {
            if self.goes(row) || !self.keeps(conversation, block) {
                continue;
            }
            let place = u32::try_from(table.place(block)).unwrap_or(u32::MAX);
            let edit = self.edit(row);
            edit.blocks.push((place, BlockEdit::Gone));
            edit.set("toolUseResult", To::Nothing);
            let mut rest = table.blocks_of(row);
            if !rest.any(|block| self.keeps(conversation, block)) {
                self.drop(row);
            }
        }
    }
}
