//! The command that takes a part of the context away, and what it saves.
//!
//! Invariant: what it saves is computed from the plan that the command would carry out.

use std::path::Path;

use transcript::client::change::{Keep, Strip, Subject, saving};
use transcript::client::context::{Context, Group, GroupBy, PartKind};
use transcript::conversation::place::Session;

use crate::failure::Failure;
use crate::survey::short_id;
use crate::text::shell_word;

/// A command, and how many tokens it saves.
#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) command: String,
    pub(super) saves: u64,
}

/// Finds commands for one session.
pub(super) struct Remedies<'a> {
    subject: &'a Subject,
    context: &'a Context,
    /// The program, with the home that the user named.
    again: String,
    /// The session, as a word of a command line.
    name: String,
    turns: usize,
    /// The last turn begins with a compaction: a fork before it would bring everything back.
    is_compacted: bool,
}

/// The session as a word of a command line: a path as it was given, or the start of its id.
pub(super) fn name(session: &Session, given: &str) -> String {
    if Path::new(given).symlink_metadata().is_ok() {
        return shell_word(given);
    }
    shell_word(&short_id(session))
}

impl<'a> Remedies<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        context: &'a Context,
        [again, name]: [String; 2],
    ) -> Self {
        let conversation = subject.conversation();
        let turns = conversation.turns_in(&conversation.live());
        let is_compacted = turns.last().is_some_and(|turn| {
            let rows = turn.rows[0]..=turn.rows[1];
            conversation.table.boundaries.iter().any(|boundary| rows.contains(&boundary.row))
        });
        Remedies { subject, context, again, name, turns: turns.len(), is_compacted }
    }

    /// The command that takes a group away; none if there is no such command, or if it would save
    /// nothing.
    pub(super) fn find(&self, by: GroupBy, group: &Group) -> Result<Option<Remedy>, Failure> {
        let key = &group.key;
        let strip = Strip::default();
        match by {
            GroupBy::Kind => {
                let is = |kind: PartKind| kind.name() == key;
                if is(PartKind::Result) {
                    self.strip("--results", &Strip { results: true, ..strip })
                } else if is(PartKind::Call) {
                    self.strip("--calls", &Strip { calls: true, ..strip })
                } else if is(PartKind::Thinking) {
                    self.strip("--thinking", &Strip { thinking: true, ..strip })
                } else if is(PartKind::Image) || is(PartKind::Document) {
                    self.strip("--images", &Strip { images: true, ..strip })
                } else {
                    Ok(None)
                }
            }
            GroupBy::Tool => {
                let what = Strip { tools: vec![key.clone()], ..strip };
                self.pairs(&format!("--tool={}", shell_word(key)), what, group.tokens)
            }
            GroupBy::File => {
                let what = Strip { files: vec![key.clone()], ..strip };
                self.pairs(&format!("--file={}", shell_word(key)), what, group.tokens)
            }
            GroupBy::Turn => match key.parse() {
                Ok(turn) => self.turn(turn, group.tokens),
                Err(_) => Ok(None),
            },
        }
    }

    /// The results alone, if they are most of it: without a call, the thinking of its turn has to
    /// go too.
    fn pairs(&self, options: &str, what: Strip, all: u64) -> Result<Option<Remedy>, Failure> {
        let results = Strip { results: true, ..what.clone() };
        let remedy = self.strip(&format!("--results {options}"), &results)?;
        if remedy.as_ref().is_some_and(|remedy| remedy.saves * 2 >= all) {
            return Ok(remedy);
        }
        self.strip(&format!("--calls {options}"), &Strip { calls: true, ..what })
    }

    /// The last turn goes with a fork to the one before it; from an earlier one and those before
    /// it, results or calls go.
    fn turn(&self, turn: usize, all: u64) -> Result<Option<Remedy>, Failure> {
        if turn >= self.turns && turn > 1 && !self.is_compacted {
            let parts = self.context.parts.iter().filter(|part| part.turn >= Some(turn));
            let saves = parts.map(|part| part.tokens).sum();
            let command = format!("{} fork {} --at {}", self.again, self.name, turn - 1);
            return Ok(Some(Remedy { command, saves }).filter(|remedy| remedy.saves > 0));
        }
        let keep = self.turns.saturating_sub(turn);
        let what = Strip { keep: Keep::Turns(keep), ..Strip::default() };
        self.pairs(&format!("--older-than {keep}"), what, all)
    }

    fn strip(&self, options: &str, what: &Strip) -> Result<Option<Remedy>, Failure> {
        let saves = saving(self.subject, self.context, what)?;
        let command = format!("{} strip {} {options}", self.again, self.name);
        Ok(Some(Remedy { command, saves }).filter(|remedy| remedy.saves > 0))
    }
}
