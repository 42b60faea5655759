//! Blocks that are repeated in growing copies of an answer.

use hashbrown::HashMap;

use super::{ChainId, Graph};
use crate::conversation::table::{AnswerId, BlockId, Table};

/// The blocks of answers that an earlier record of the same answer contains, on the same path
/// through the conversation. A copy on another branch is not a repeat: a reader of that branch does
/// not see the first one.
pub(crate) fn repeats(table: &Table, graph: &Graph) -> Vec<BlockId> {
    let mut held: HashMap<(AnswerId, u64), Vec<ChainId>> = HashMap::new();
    let mut found = Vec::new();
    for (chain, _) in graph.numbered() {
        for row in graph.rows(chain) {
            // Without an id, nothing shows that two records belong to one answer.
            let answer = table.row(*row).answer.filter(|answer| table.answer(*answer).id.is_some());
            let Some(answer) = answer else { continue };
            let mut fresh = Vec::new();
            for block in table.blocks_of(*row) {
                let part = table.block(block);
                let call = part.id.filter(|_| part.kind.is_call());
                let key = (answer, call.map_or(table.hash(block), |call| u64::from(call.number())));
                let above = |other: &ChainId| graph.is_above(*other, chain);
                if held.get(&key).is_some_and(|chains| chains.iter().any(above)) {
                    found.push(block);
                } else {
                    fresh.push(key);
                }
            }
            // Equal blocks in one record all count.
            for key in fresh {
                held.entry(key).or_default().push(chain);
            }
        }
    }
    found
}
