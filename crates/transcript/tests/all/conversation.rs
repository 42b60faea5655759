//! The turns of all real files: nothing is shown twice, nothing is dropped, every record is in one
//! chain.

use std::collections::HashMap;
use std::path::Path;

use transcript::conversation::Conversation;
use transcript::conversation::table::BlockId;
use transcript::conversation::turn::{Step, Turn};
use transcript::format::content::BlockKind;

/// How often each block is shown by these turns.
fn shown(conversation: &Conversation, turns: &[Turn], counts: &mut HashMap<BlockId, u32>) {
    let mut count = |block: BlockId| *counts.entry(block).or_default() += 1;
    let is_result = |block: BlockId| {
        matches!(
            conversation.table.block(block).kind,
            BlockKind::ToolResult | BlockKind::ServerToolResult
        )
    };
    for step in turns.iter().flat_map(|turn| &turn.steps) {
        match step {
            Step::Said(row) => {
                let blocks = conversation.table.blocks_of(*row).filter(|block| !is_result(*block));
                blocks
                    .filter(|block| !conversation.table.block(*block).is_repeat)
                    .for_each(&mut count);
            }
            Step::Answer { blocks, .. } => {
                for block in blocks {
                    count(*block);
                    // The results of tools that the API runs are in the answer itself.
                    if let Some(result) = conversation.pairs.of(*block)
                        && conversation.table.block(result).kind == BlockKind::ToolResult
                    {
                        count(result);
                    }
                }
            }
            Step::Orphan(block) => count(*block),
            Step::Event(_) => {}
        }
    }
}

/// How often each block is shown by all turns.
fn all_shown(conversation: &Conversation) -> HashMap<BlockId, u32> {
    let turns = conversation.turns();
    let mut counts = HashMap::new();
    shown(conversation, &turns.live, &mut counts);
    for (_, turns) in turns.dead.iter().chain(&turns.side) {
        shown(conversation, turns, &mut counts);
    }
    counts
}

/// How many blocks are not shown at all.
pub(crate) fn lost(conversation: &Conversation) -> usize {
    conversation.table.blocks().iter().filter(|part| !part.is_repeat).count()
        - all_shown(conversation).len()
}

pub(crate) fn check(path: &Path) {
    let conversation = Conversation::open(path).unwrap();
    let mut chains = 0;
    for number in 0..u32::try_from(conversation.graph.chains().len()).unwrap() {
        chains += conversation.graph.rows(transcript::conversation::graph::ChainId(number)).len();
    }
    assert_eq!(chains, conversation.table.rows().len(), "{}", path.display());
    let counts = all_shown(&conversation);
    for (at, part) in conversation.table.blocks().iter().enumerate() {
        let times = counts.get(&BlockId(u32::try_from(at).unwrap())).copied().unwrap_or(0);
        let row = conversation.table.row(part.row);
        assert_eq!(
            times,
            u32::from(!part.is_repeat),
            "{}: line {} {:?} {:?} {:?}",
            path.display(),
            row.line,
            part,
            row.input,
            conversation.graph.link(part.row)
        );
    }
}

#[test]
fn no_block_is_shown_twice_and_none_is_dropped() {
    let files = testkit::real_files();
    assert!(files.len() > 100);
    for file in files {
        check(&file.path);
    }
}
