//! The calls that a session has recorded, and what was added between one and the next.
//!
//! Each call reads everything before it: the difference between two calls is the answer of the
//! first and what came after it. Invariants: calls are in the order of what is sent; an answer is
//! one call, however many records it has; what the client wrote itself is none.

use hashbrown::{HashMap, HashSet};

use super::fit::{Features, Weights};
use super::pieces::Piece;
use crate::conversation::table::{AnswerId, Id, RowId, Table};
use crate::conversation::usage::Usage;
use crate::format::time::Time;

/// A call of the API that is recorded.
#[derive(Clone, Debug)]
pub(super) struct RecordedCall {
    pub(super) answer: AnswerId,
    /// The first record of its answer.
    pub(super) row: RowId,
    /// The number of the first piece of its answer: it read those before it.
    pub(super) at: usize,
    pub(super) model: Id,
    pub(super) usage: Usage,
    /// Its output is complete.
    pub(super) is_final: bool,
    /// When its answer began.
    pub(super) time: Option<Time>,
}

impl RecordedCall {
    /// The call that an answer stands for, if it is one.
    pub(super) fn of(table: &Table, answer: AnswerId, row: RowId, at: usize) -> Option<Self> {
        let known = table.answer(answer);
        let usage = known.usage.as_ref()?.usage;
        let model = known.model.filter(|model| table.ids.text(*model) != "<synthetic>")?;
        (usage.read() > 0 && !known.is_error).then(|| RecordedCall {
            answer,
            row,
            at,
            model,
            usage,
            is_final: known.is_final(),
            time: table.row(row).time,
        })
    }
}

/// The calls among these pieces.
pub(super) fn calls(table: &Table, pieces: &[Piece]) -> Vec<RecordedCall> {
    let mut seen: HashSet<AnswerId> = HashSet::new();
    let answers = pieces.iter().enumerate().filter_map(|(at, piece)| {
        let answer = piece.answer.filter(|answer| seen.insert(*answer))?;
        RecordedCall::of(table, answer, piece.row?, at)
    });
    answers.collect()
}

/// What was added between two calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addition<'a> {
    pub(super) before: &'a RecordedCall,
    pub(super) after: &'a RecordedCall,
    pieces: &'a [Piece],
}

impl<'a> Addition<'a> {
    pub(super) fn new(
        pieces: &'a [Piece],
        before: &'a RecordedCall,
        after: &'a RecordedCall,
    ) -> Self {
        Addition { before, after, pieces: &pieces[before.at..after.at] }
    }

    /// The places of its pieces among all: those of the answer, and what came after it.
    pub(super) fn places(&self) -> [Vec<usize>; 2] {
        let places = self.before.at..self.after.at;
        places.partition(|at| self.is_answer(&self.pieces[at - self.before.at])).into()
    }

    fn is_answer(&self, piece: &Piece) -> bool {
        piece.answer == Some(self.before.answer)
    }

    /// How many tokens more the second call read; `None` if the two cannot be compared.
    pub(super) fn more(&self) -> Option<f64> {
        let [before, after] = [self.before, self.after].map(|call| tokens(call.usage.read()));
        (self.before.model == self.after.model && after > before).then_some(after - before)
    }

    /// The tokens of the answer, if they are recorded.
    pub(super) fn output(&self) -> Option<f64> {
        self.before.is_final.then(|| tokens(self.before.usage.output))
    }

    /// What has to be estimated: features, tokens of images, and recorded tokens.
    fn unknown(&self) -> (Features, f64, f64) {
        let output = self.output();
        let estimated = self.pieces.iter().filter(|one| output.is_none() || !self.is_answer(one));
        let mut sum = [0.0; 7];
        let mut media = 0.0;
        for piece in estimated {
            for (sum, more) in sum.iter_mut().zip(piece.features()) {
                *sum += more;
            }
            media += piece.size.media;
        }
        (sum, media, output.unwrap_or(0.0))
    }

    /// How many tokens more the second call reads, by these weights.
    pub(super) fn expected(&self, weights: &Weights) -> f64 {
        let (features, media, output) = self.unknown();
        let expected = weights.tokens(&features) + media + output;
        // What is recorded of an answer that had not ended is a lower bound.
        expected.max(tokens(self.before.usage.output))
    }

    pub(super) fn teach(&self, weights: &mut Weights) {
        let Some(more) = self.more() else { return };
        let (features, media, output) = self.unknown();
        weights.learn(&features, more - media - output, more);
    }

    /// When the second call was made: when what it was to read was there.
    pub(super) fn time(&self, table: &Table) -> Option<Time> {
        let rows = self.pieces.iter().filter(|piece| !self.is_answer(piece));
        let last = rows.filter_map(|piece| table.row(piece.row?).time).max();
        last.or(self.after.time)
    }
}

/// The weights of each model that answered.
#[derive(Clone, Debug, Default)]
pub(super) struct AllWeights(HashMap<String, Weights>);

impl AllWeights {
    pub(super) fn of(&mut self, model: &str) -> &mut Weights {
        self.0.entry_ref(model).or_insert_with(|| Weights::guess(model))
    }

    /// The weights for a model; those of the guess if it has not answered.
    pub(super) fn get(&self, model: &str) -> Weights {
        self.0.get(model).cloned().unwrap_or_else(|| Weights::guess(model))
    }
}

#[allow(clippy::cast_precision_loss, reason = "no request is that long")]
pub(super) fn tokens(count: u64) -> f64 {
    count as f64
}
