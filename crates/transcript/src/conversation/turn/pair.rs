//! Pairs calls with their results.
//!
//! Paired by id over the whole file: first each result with a call in its parent record, then the
//! rest in file order, so that ids that are used again pair one by one. Invariant: a block has at
//! most one partner, and is the partner of that one.

use hashbrown::HashMap;

use crate::conversation::table::{BlockId, Id, RowId, Table};
use crate::format::content::BlockKind;

/// Which result answers which call.
#[derive(Debug, Default)]
pub struct Pairs {
    partners: Vec<Option<BlockId>>,
}

/// How many blocks of a record are searched for a call. Calls after them pair in file order just as
/// well.
const SEARCHED: usize = 64;

impl Pairs {
    /// Pairs the calls and results of a table.
    pub fn new(table: &Table) -> Pairs {
        let mut pairs = Pairs { partners: vec![None; table.blocks().len()] };
        let mut rows: HashMap<Id, RowId> = HashMap::new();
        let mut waiting: HashMap<Id, Vec<BlockId>> = HashMap::new();
        for block in blocks(table, BlockKind::is_call).rev() {
            let part = table.block(block);
            rows.extend(table.row(part.row).uuid.map(|uuid| (uuid, part.row)));
            if let Some(id) = part.id {
                waiting.entry(id).or_default().push(block);
            }
        }
        for result in blocks(table, BlockKind::is_result) {
            let hangs_on = table.row(table.block(result).row).parent.and_then(|id| rows.get(&id));
            let call = hangs_on.and_then(|row| {
                let mut near = table.blocks_of(*row).take(SEARCHED);
                near.find(|call| pairs.fits(table, *call, result))
            });
            pairs.join(call, result);
        }
        for result in blocks(table, BlockKind::is_result) {
            let id = table.block(result).id;
            if pairs.of(result).is_none()
                && let Some(calls) = id.and_then(|id| waiting.get_mut(&id))
            {
                while calls.last().is_some_and(|call| pairs.of(*call).is_some()) {
                    calls.pop();
                }
                pairs.join(calls.pop(), result);
            }
        }
        pairs
    }

    fn fits(&self, table: &Table, call: BlockId, result: BlockId) -> bool {
        let (call_part, result_part) = (table.block(call), table.block(result));
        call_part.kind.is_call()
            && !call_part.is_repeat
            && call_part.id.is_some()
            && call_part.id == result_part.id
            && self.of(call).is_none()
    }

    fn join(&mut self, call: Option<BlockId>, result: BlockId) {
        if let Some(call) = call {
            self.partners[call.index()] = Some(result);
            self.partners[result.index()] = Some(call);
        }
    }

    /// The result of a call, or the call of a result.
    pub fn of(&self, block: BlockId) -> Option<BlockId> {
        self.partners[block.index()]
    }

    /// The results without a call.
    pub fn orphans(&self, table: &Table) -> Vec<BlockId> {
        blocks(table, BlockKind::is_result).filter(|block| self.of(*block).is_none()).collect()
    }

    /// The calls without a result.
    pub fn open(&self, table: &Table) -> Vec<BlockId> {
        blocks(table, BlockKind::is_call).filter(|block| self.of(*block).is_none()).collect()
    }
}

/// The blocks of a kind that are not repeats, in file order.
fn blocks(
    table: &Table,
    wanted: fn(BlockKind) -> bool,
) -> impl DoubleEndedIterator<Item = BlockId> {
    let numbers = 0..u32::try_from(table.blocks().len()).unwrap_or(u32::MAX);
    numbers.map(BlockId).filter(move |block| {
        let part = table.block(*block);
        wanted(part.kind) && !part.is_repeat
    })
}
