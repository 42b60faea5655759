//! Calls and results: each call has one result, directly after its answer.

use hashbrown::{HashMap, HashSet};

use super::super::answer_of;
use super::super::edit::BlockEdit;
use super::{Repairing, Step, StepKind};
use crate::client::check::Code;
use crate::client::history::without_suffix;
use crate::conversation::table::{AnswerId, BlockId, Id, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::json::quote;

/// The content that replaces a result that was never recorded.
const UNKNOWN: &str = "[The result of this call was never recorded. It may have taken effect: look before relying on it, or before running it again.]";

impl Repairing<'_> {
    pub(super) fn calls(&mut self) -> crate::Result<()> {
        self.bring_calls();
        self.bring_back();
        self.renamed();
        self.moved();
        self.orphans();
        self.server();
        self.sorted();
        self.answered();
        self.queued()
    }

    fn of_steps(&self, wanted: fn(BlockKind) -> bool) -> Vec<BlockId> {
        let table = &self.conversation.table;
        let rows = self.steps.iter().filter_map(Step::row);
        let parts = rows.flat_map(|row| table.blocks_of(row));
        parts.filter(|part| wanted(table.block(*part).kind)).collect()
    }

    fn rows(&self) -> HashSet<RowId> {
        self.steps.iter().filter_map(Step::row).collect()
    }

    /// Restores calls beside the path whose results are on it. If records lost their order and
    /// their parents, one half of a pair may be on the path without the other.
    fn bring_calls(&mut self) {
        let table = &self.conversation.table;
        let mut on = self.rows();
        let old = std::mem::take(&mut self.steps);
        for step in old {
            let results = step.row().into_iter().flat_map(|row| table.blocks_of(row));
            let results = results.filter(|part| table.block(*part).kind == BlockKind::ToolResult);
            for call in results.filter_map(|result| self.conversation.pairs.of(result)) {
                let row = table.block(call).row;
                if table.row(row).is_sidechain || Some(row) <= self.boundary || !on.insert(row) {
                    continue;
                }
                let Some(step) = self.step(row) else { continue };
                self.steps.push(step);
                self.did(Code::OrphanResult, Some(row), "tool call restored before its result");
            }
            self.steps.push(step);
        }
    }

    /// Restores results beside the path.
    fn bring_back(&mut self) {
        let table = &self.conversation.table;
        let mut on = self.rows();
        let mut found: Vec<(Option<AnswerId>, Step)> = Vec::new();
        for call in self.of_steps(|kind| kind == BlockKind::ToolUse) {
            let Some(result) =
                self.conversation.pairs.of(call).map(|result| table.block(result).row)
            else {
                continue;
            };
            // A child of the call answers it, even if it is marked as a sidechain.
            let of_call = table.row(table.block(call).row).uuid;
            let is_sidechain =
                table.row(result).is_sidechain && table.row(result).parent != of_call;
            if is_sidechain || Some(result) <= self.boundary || !on.insert(result) {
                continue;
            }
            let Some(step) = self.step(result) else { continue };
            found.push((table.row(table.block(call).row).answer, step));
            self.did(Code::LostResult, Some(result), "tool result restored");
        }
        self.put_behind(found);
    }

    /// Inserts steps after the last records of their answers, and after results that are already
    /// there.
    fn put_behind(&mut self, steps: Vec<(Option<AnswerId>, Step)>) {
        if steps.is_empty() {
            return;
        }
        let table = &self.conversation.table;
        let mut last: HashMap<AnswerId, usize> = HashMap::new();
        for (at, row) in
            self.steps.iter().enumerate().filter_map(|(at, step)| Some((at, step.row()?)))
        {
            if let Some(answer) = table.row(row).answer {
                last.insert(answer, at);
            } else if let Some(answer) = answer_of(self.conversation, row)
                && let Some(end) = last.get_mut(&answer)
                && *end + 1 == at
            {
                *end = at;
            }
        }
        let end = self.steps.len();
        let mut behind: HashMap<usize, Vec<Step>> = HashMap::new();
        for (answer, step) in steps {
            let at = answer.and_then(|answer| last.get(&answer)).map_or(end, |at| at + 1);
            behind.entry(at).or_default().push(step);
        }
        let old = std::mem::take(&mut self.steps);
        for (at, step) in old.into_iter().enumerate() {
            self.steps.extend(behind.remove(&at).into_iter().flatten());
            self.steps.push(step);
        }
        self.steps.extend(behind.remove(&end).into_iter().flatten());
    }

    /// Renames ids that are used twice, that clients confuse with each other, or that the API does
    /// not accept.
    fn renamed(&mut self) {
        let table = &self.conversation.table;
        let calls = self.of_steps(BlockKind::is_call);
        let ids: HashSet<Id> = calls.iter().filter_map(|call| table.block(*call).id).collect();
        let mut taken: HashSet<String> =
            ids.iter().map(|id| table.ids.text(*id).to_owned()).collect();
        // A name that another id extends with `_` and a number is not free either.
        let bases = ids.iter().filter_map(|id| without_suffix(table.ids.text(*id)));
        let bases: HashSet<String> = bases.map(str::to_owned).collect();
        let mut used: HashSet<Id> = HashSet::new();
        let mut given: HashMap<Id, (String, Code)> = HashMap::new();
        let mut names: Vec<(BlockId, String, Code)> = Vec::new();
        for call in calls {
            let part = table.block(call);
            let Some(id) = part.id else { continue };
            // A copy of a call gets the same name as the call.
            if part.is_repeat {
                names.extend(given.get(&id).map(|(name, code)| (call, name.clone(), *code)));
                continue;
            }
            let is_used = !used.insert(id);
            let text = table.ids.text(id);
            let is_suffixed = without_suffix(text).is_some_and(|base| taken.contains(base));
            let plain: String = text
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
                .collect();
            let code = match (is_used || is_suffixed, plain == text) {
                (true, _) => Code::RepeatedCall,
                (false, false) => Code::CallForm,
                (false, true) => continue,
            };
            let is_free = |name: &String| {
                !taken.contains(name)
                    && !bases.contains(name)
                    && without_suffix(name).is_none_or(|base| !taken.contains(base))
            };
            // A letter before the number, so that no client treats it as the same id.
            let others = (2_u64..).map(|number| format!("{plain}x{number}"));
            let first = (code == Code::CallForm).then(|| plain.clone());
            let Some(name) = first.into_iter().chain(others).find(is_free) else { continue };
            taken.insert(name.clone());
            given.insert(id, (name.clone(), code));
            names.push((call, name, code));
        }
        for (call, name, code) in names {
            let row = table.block(call).row;
            let value = quote(&name).into_bytes();
            self.block(call, BlockEdit::Member("id", value.clone()));
            if let Some(result) = self.conversation.pairs.of(call) {
                self.block(result, BlockEdit::Member("tool_use_id", value));
            }
            self.did(code, Some(row), "tool call and its result given a new id");
        }
    }

    pub(super) fn block(&mut self, block: BlockId, edit: BlockEdit) {
        let place = u32::try_from(self.conversation.table.place(block)).unwrap_or(u32::MAX);
        self.change.edit(self.conversation.table.block(block).row).blocks.push((place, edit));
    }

    /// Moves results that are separated from their call by another answer.
    fn moved(&mut self) {
        let table = &self.conversation.table;
        let places = self.steps.iter().enumerate().filter_map(|(at, step)| Some((step.row()?, at)));
        let places: HashMap<RowId, usize> = places.collect();
        // For each step, the last answer before it, and the index where that answer begins.
        let mut runs: Vec<(Option<AnswerId>, usize)> = Vec::with_capacity(self.steps.len());
        let mut run = (None, 0);
        for (at, step) in self.steps.iter().enumerate() {
            runs.push(run);
            let answer = step.row().and_then(|row| table.row(row).answer);
            if answer.is_some() && answer != run.0 {
                run = (answer, at);
            }
        }
        let (mut found, mut gone) = (Vec::new(), HashSet::new());
        for result in self.of_steps(|kind| kind == BlockKind::ToolResult) {
            let Some(call) = self.conversation.pairs.of(result) else { continue };
            let (row, of_call) = (table.block(result).row, table.block(call).row);
            let answer = table.row(of_call).answer;
            let (Some(from), Some(call_at)) = (places.get(&row), places.get(&of_call)) else {
                continue;
            };
            let (last, since) = runs[*from];
            let is_apart = from < call_at || last != answer || since > *call_at;
            if !is_apart || table.blocks_of(row).count() > 1 {
                continue;
            }
            if let Some(step) = self.step(row) {
                gone.insert(row);
                found.push((answer, step));
                self.did(Code::Unpaired, Some(row), "tool result moved directly after its call");
            }
        }
        self.steps.retain(|step| step.row().is_none_or(|row| !gone.contains(&row)));
        self.put_behind(found);
    }

    /// Removes results without a call, and second results of the same call.
    fn orphans(&mut self) {
        let table = &self.conversation.table;
        let on = self.rows();
        let calls = self.of_steps(|kind| kind == BlockKind::ToolUse);
        let calls: HashSet<Option<Id>> = calls.iter().map(|call| table.block(*call).id).collect();
        let mut seen: HashSet<Id> = HashSet::new();
        for result in self.of_steps(|kind| kind == BlockKind::ToolResult) {
            let part = table.block(result);
            let partner = self.conversation.pairs.of(result);
            let is_known = partner.is_some_and(|call| on.contains(&table.block(call).row));
            let is_second = partner.is_none() && calls.contains(&part.id);
            let is_repeat = part.is_repeat && part.id.is_some_and(|id| !seen.insert(id));
            if !part.is_repeat {
                seen.extend(part.id);
            }
            let (code, text) = if is_second || is_repeat {
                (Code::RepeatedResult, "second result of the same tool call removed")
            } else if !is_known && !part.is_repeat {
                (Code::OrphanResult, "tool result without its call removed")
            } else {
                continue;
            };
            self.did(code, Some(part.row), text);
            self.remove(result);
        }
        self.forget_gone();
    }

    /// Forgets the steps whose records were dropped.
    pub(super) fn forget_gone(&mut self) {
        let change = &self.change;
        self.steps.retain(|step| step.row().is_none_or(|row| !change.goes(row)));
    }

    /// Moves results before texts: the API does not see results that follow a text in the same
    /// record.
    fn sorted(&mut self) {
        if !self.is_rejected(Code::Unpaired) {
            return;
        }
        let table = &self.conversation.table;
        for row in self.steps.iter().filter_map(Step::row).collect::<Vec<_>>() {
            let kinds = table.blocks_of(row).map(|part| table.block(part).kind);
            let mut behind = kinds.skip_while(|kind| *kind == BlockKind::ToolResult);
            let is_mixed = behind.any(|kind| kind == BlockKind::ToolResult);
            let is_edited = self.change.edits.get(&row).is_some_and(|edit| !edit.blocks.is_empty());
            if is_mixed && !is_edited && table.row(row).kind == Kind::User {
                self.change.edit(row).results_first = true;
                self.did(Code::Unpaired, Some(row), "tool results moved before the text");
            }
        }
    }

    /// Removes a block, and its record if that has no other block.
    pub(super) fn remove(&mut self, block: BlockId) {
        let table = &self.conversation.table;
        let row = table.block(block).row;
        self.block(block, BlockEdit::Gone);
        let gone = |part: BlockId| {
            let place = table.place(part);
            self.change.edits.get(&row).is_some_and(|edit| {
                edit.blocks
                    .iter()
                    .any(|(at, edit)| *at as usize == place && *edit == BlockEdit::Gone)
            })
        };
        if table.blocks_of(row).all(gone) {
            self.change.drop(row);
        }
    }

    /// Server tools, which the API runs itself: removes calls and results that are not paired
    /// within one answer.
    fn server(&mut self) {
        if !self.is_rejected(Code::OpenServerCall) && !self.is_rejected(Code::OrphanServerResult) {
            return;
        }
        let table = &self.conversation.table;
        let mut open: HashMap<Option<Id>, Vec<BlockId>> = HashMap::new();
        let mut gone: Vec<(BlockId, Code, &str)> = Vec::new();
        let close = |open: &mut HashMap<Option<Id>, Vec<BlockId>>, gone: &mut Vec<_>| {
            for call in std::mem::take(open).into_values().flatten() {
                gone.push((
                    call,
                    Code::OpenServerCall,
                    "server tool call removed: it has no result",
                ));
            }
        };
        for step in &self.steps {
            let Some(row) = step.row() else { continue };
            if table.row(row).kind == Kind::User {
                close(&mut open, &mut gone);
            }
            for part in table.blocks_of(row) {
                let id = table.block(part).id;
                match table.block(part).kind {
                    BlockKind::ServerToolUse => open.entry(id).or_default().push(part),
                    BlockKind::ServerToolResult
                        if open.get_mut(&id).and_then(Vec::pop).is_none() =>
                    {
                        gone.push((
                            part,
                            Code::OrphanServerResult,
                            "server tool result removed: it has no call",
                        ));
                    }
                    _ => {}
                }
            }
        }
        close(&mut open, &mut gone);
        for (block, code, text) in gone {
            self.did(code, Some(table.block(block).row), text);
            self.remove(block);
        }
        self.forget_gone();
    }

    /// Gives unanswered calls a result that says so.
    fn answered(&mut self) {
        let table = &self.conversation.table;
        let on = self.rows();
        let mut found = Vec::new();
        for call in self.of_steps(|kind| kind == BlockKind::ToolUse) {
            let part = table.block(call);
            let result = self.conversation.pairs.of(call).map(|result| table.block(result).row);
            let is_answered = part.is_repeat || result.is_some_and(|row| on.contains(&row));
            let Some(id) = part.id.filter(|_| !is_answered) else { continue };
            let members = format!(
                r#""message":{{"role":"user","content":[{{"tool_use_id":{0},"type":"tool_result","content":{1},"is_error":true}}]}},"toolUseResult":{1}"#,
                quote(table.ids.text(id)),
                quote(UNKNOWN)
            );
            let uuid = self.made_id(&format!("result {}", table.ids.text(id)));
            let time = table.row(part.row).time;
            let what = StepKind::Made { behind: part.row, members };
            found.push((table.row(part.row).answer, Step { uuid, what, time }));
            let text = "result added that says that the outcome is unknown";
            self.did(Code::OpenCall, Some(part.row), text);
        }
        self.put_behind(found);
    }
}
