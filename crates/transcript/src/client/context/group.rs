//! The parts of a context, added up by what they have in common.
//!
//! Invariants: a part is in one group; the groups of kinds add up to everything, those of turns to
//! all messages, those of tools to all calls and results.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Context, ContextPart, PartKind};
use crate::conversation::table::Table;
use crate::names::named;

named! {
    /// What parts are added up by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GroupBy {
        /// What they are.
        Kind = "kind",
        /// The tool: calls and results, and the images in results.
        Tool = "tool",
        /// The file that was read, written or attached.
        File = "file",
        /// The turn: everything except the system prompt.
        Turn = "turn",
    }
}

impl GroupBy {
    /// All of them.
    pub const ALL: [GroupBy; 4] = [GroupBy::Kind, GroupBy::Tool, GroupBy::File, GroupBy::Turn];
}

/// Parts with something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they have in common: a kind, a tool, a path, the number of a turn.
    pub key: String,
    /// How many tokens they are.
    pub tokens: u64,
    /// How many parts they are.
    pub parts: u64,
    /// The number is an estimate, or a share of a recorded sum.
    pub is_estimate: bool,
}

/// A result whose call is not in the file.
const NO_TOOL: &str = "?";

impl Context {
    /// The parts, added up; the largest group first.
    pub fn groups(&self, table: &Table, by: GroupBy) -> Vec<Group> {
        let mut members: HashMap<u32, u64> = HashMap::new();
        for sum in self.parts.iter().filter_map(|part| part.sum) {
            *members.entry(sum).or_default() += 1;
        }
        let mut groups: BTreeMap<String, (Group, HashMap<u32, u64>)> = BTreeMap::new();
        for part in &self.parts {
            let Some(key) = self.key(part, table, by) else { continue };
            let (group, sums) = groups.entry(key).or_insert_with_key(|key| {
                let key = key.clone();
                (Group { key, tokens: 0, parts: 0, is_estimate: false }, HashMap::new())
            });
            group.tokens += part.tokens;
            group.parts += 1;
            match part.sum {
                Some(sum) => *sums.entry(sum).or_default() += 1,
                None => group.is_estimate |= part.tokens > 0,
            }
        }
        let mut groups: Vec<Group> = groups
            .into_values()
            .map(|(mut group, sums)| {
                // A recorded sum is exact only as a whole.
                group.is_estimate |= sums.iter().any(|(sum, count)| members[sum] != *count);
                group
            })
            .collect();
        // By the number of turns rather than by their texts.
        groups.sort_by_cached_key(|group| {
            let turn = group.key.parse::<usize>().unwrap_or(0);
            (Reverse(group.tokens), turn, group.key.clone())
        });
        groups
    }

    fn key(&self, part: &ContextPart, table: &Table, by: GroupBy) -> Option<String> {
        match by {
            GroupBy::Kind => Some(part.kind.name().to_owned()),
            GroupBy::Tool => match (part.kind, part.tool) {
                (_, Some(tool)) => Some(table.ids.text(tool).to_owned()),
                (PartKind::Call | PartKind::Result, None) => Some(NO_TOOL.to_owned()),
                _ => None,
            },
            GroupBy::File => self.file(part).map(str::to_owned),
            GroupBy::Turn => part.turn.map(|turn| turn.to_string()),
        }
    }
}
