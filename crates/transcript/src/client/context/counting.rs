//! Gives each piece its tokens: a share of a recorded sum if there is one, else an estimate.
//!
//! Invariant: the shares of a sum add up to it.

use hashbrown::HashMap;

use super::calls::{Addition, RecordedCall, tokens};
use super::fit::Weights;
use super::pieces::{Piece, Pieces};
use super::{Basis, Context, ContextPart, PartKind, Scale};
use crate::client::history::History;
use crate::conversation::Conversation;
use crate::conversation::price;
use crate::conversation::table::RowId;
use crate::conversation::turn::Step;

pub(super) fn estimate(weights: &Weights, piece: &Piece) -> f64 {
    let features = piece.features();
    // The overhead of a block is not one of an image.
    let text = if piece.size.units > 0.0 || piece.size.media == 0.0 {
        weights.tokens(&features)
    } else {
        0.0
    };
    text + piece.size.media
}

/// The tokens of the pieces while they are counted.
pub(super) struct Counting<'a> {
    pieces: &'a Pieces,
    weights: &'a Weights,
    estimates: Vec<f64>,
    tokens: Vec<u64>,
    sums: Vec<Option<u32>>,
    next_sum: u32,
    pub(super) system: u64,
    /// The sum that the system prompt is a share of.
    system_sum: Option<u32>,
}

/// A recorded sum fits what is in the file if it is not more than this many times as large or as
/// small, or this many tokens apart.
const FITS: f64 = 2.5;
const FITS_TOKENS: f64 = 150.0;

/// The file is what the last call read if the sums agree up to this share, and this many tokens.
const SAME: f64 = 0.15;
const SAME_TOKENS: f64 = 1_000.0;

fn fits(recorded: f64, estimated: f64) -> bool {
    let is_near = (recorded - estimated).abs() <= FITS_TOKENS;
    recorded >= 0.0 && (is_near || (recorded < estimated * FITS && estimated < recorded * FITS))
}

impl<'a> Counting<'a> {
    pub(super) fn new(pieces: &'a Pieces, weights: &'a Weights) -> Self {
        let estimates: Vec<f64> = pieces.list.iter().map(|one| estimate(weights, one)).collect();
        Counting {
            tokens: estimates.iter().map(|tokens| rounded(*tokens)).collect(),
            sums: vec![None; estimates.len()],
            pieces,
            weights,
            estimates,
            next_sum: 0,
            system: 0,
            system_sum: None,
        }
    }

    fn estimated(&self, places: &[usize]) -> f64 {
        places.iter().map(|at| self.estimates[*at]).sum()
    }

    /// Divides a recorded sum among pieces, in proportion to their estimates.
    fn divide(&mut self, sum: f64, places: &[usize]) {
        let all = self.estimated(places);
        if places.is_empty() || all <= 0.0 {
            return;
        }
        let (mut before, mut given) = (0.0, 0);
        for at in places {
            before += self.estimates[*at];
            let upto = rounded(sum * before / all);
            self.tokens[*at] = upto.saturating_sub(given);
            self.sums[*at] = Some(self.next_sum);
            given = upto.max(given);
        }
        self.next_sum += 1;
    }

    /// What the first call read, minus what is in the file of it, is the system prompt.
    pub(super) fn head(&mut self, first: &RecordedCall) {
        let messages: u64 = self.tokens[..first.at].iter().sum();
        self.system = first.usage.read().saturating_sub(messages);
    }

    /// Counts by recorded calls.
    pub(super) fn record(&mut self, calls: &[RecordedCall]) -> Basis {
        let (Some(first), Some(last)) = (calls.first(), calls.last()) else {
            return Basis::Nothing;
        };
        self.head(first);
        let plain = self.tokens.clone();
        if self.tokens[..first.at].iter().sum::<u64>() <= first.usage.read() {
            self.system_sum = Some(self.next_sum);
            self.sums[..first.at].fill(Some(self.next_sum));
            self.next_sum += 1;
        }
        for pair in calls.windows(2) {
            self.step(&Addition::new(&self.pieces.list, &pair[0], &pair[1]));
        }
        self.last_answer(last);
        // What is left is not in the file: texts that the client did not record.
        let counted = self.system + self.tokens[..last.at].iter().sum::<u64>();
        let read = last.usage.read();
        let is_same = tokens(counted.abs_diff(read)) <= SAME * tokens(read) + SAME_TOKENS;
        match (self.system + read).checked_sub(counted) {
            Some(system) if is_same => {
                self.system = system;
                Basis::Recorded
            }
            _ => {
                self.tokens = plain;
                self.sums.fill(None);
                self.system_sum = None;
                Basis::Changed
            }
        }
    }

    fn step(&mut self, step: &Addition<'_>) {
        let Some(more) = step.more() else { return };
        let [answer, rest] = step.places();
        let (of_answer, of_rest) = (self.estimated(&answer), self.estimated(&rest));
        if let Some(output) = step.output().filter(|output| fits(*output, of_answer))
            && fits(more - output, of_rest)
        {
            self.divide(output, &answer);
            self.divide(more - output, &rest);
        } else if fits(more, of_answer + of_rest) {
            let all: Vec<usize> = answer.into_iter().chain(rest).collect();
            self.divide(more, &all);
        }
    }

    /// The last answer is what the last call wrote.
    fn last_answer(&mut self, last: &RecordedCall) {
        let pieces = &self.pieces.list;
        let places: Vec<usize> =
            (last.at..pieces.len()).filter(|at| pieces[*at].answer == Some(last.answer)).collect();
        let output = tokens(last.usage.output);
        if last.is_final && fits(output, self.estimated(&places)) {
            self.divide(output, &places);
        }
    }

    /// Counts a session that was made from another: what is the same is as many tokens.
    pub(super) fn like(&mut self, scale: &Scale) {
        self.system = scale.system;
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for (at, piece) in self.pieces.list.iter().enumerate() {
            let Some(known) = scale.pieces.get(&piece.hash) else { continue };
            // The same text may be there several times, as shares of several sums.
            let count = seen.entry(piece.hash).or_default();
            if let Some(tokens) = known.get(*count).or(known.last()) {
                self.tokens[at] = *tokens;
            }
            *count += 1;
        }
    }

    pub(super) fn finish(
        self,
        conversation: &Conversation,
        sent: &History,
        model: &str,
        calls: Vec<RecordedCall>,
        basis: Basis,
    ) -> Context {
        let system = ContextPart {
            kind: PartKind::System,
            tokens: self.system,
            tool: None,
            turn: None,
            row: None,
            block: None,
            message: 0,
            file: None,
            sum: self.system_sum,
            hash: 0,
        };
        let mut parts = vec![system];
        let mut read = Vec::with_capacity(calls.len());
        let turns = turns(conversation);
        let mut turn = None;
        let mut open = calls.iter().peekable();
        for (at, piece) in self.pieces.list.iter().enumerate() {
            if open.next_if(|call| call.at == at).is_some() {
                read.push(parts.len());
            }
            turn = piece.row.and_then(|row| turns[row.index()]).or(turn);
            self.parts(conversation, at, turn, &mut parts);
        }
        // What is before the first turn belongs to it.
        let first = parts.iter().find_map(|part| part.turn);
        for part in parts.iter_mut().skip(1) {
            part.turn = part.turn.or(first).or(Some(1));
        }
        let recorded = match (basis, calls.last()) {
            (Basis::Recorded, Some(last)) => last.usage.total(),
            _ => 0,
        };
        Context {
            window: price::known(model).and_then(|price| price.max_input_tokens),
            compacts_from: sent.limit.as_ref().and_then(|limit| limit.compacts_from),
            model: model.to_owned(),
            tokens: parts.iter().map(|part| part.tokens).sum(),
            recorded,
            basis,
            calibrated_by: self.weights.seen,
            parts,
            files: self.pieces.files.clone(),
            calls,
            read,
            weights: self.weights.clone(),
            boundary: sent.boundary,
        }
    }

    /// A piece as parts: a result with an image is two.
    fn parts(
        &self,
        conversation: &Conversation,
        at: usize,
        turn: Option<usize>,
        parts: &mut Vec<ContextPart>,
    ) {
        let table = &conversation.table;
        let piece = &self.pieces.list[at];
        let call = match piece.kind {
            PartKind::Call => piece.block,
            PartKind::Result => piece.block.and_then(|block| conversation.pairs.of(block)),
            _ => None,
        };
        let all = self.tokens[at];
        let part = ContextPart {
            kind: piece.kind,
            tokens: all,
            tool: call.and_then(|call| table.block(call).name),
            turn,
            row: piece.row,
            block: piece.block,
            message: piece.message,
            file: piece.file,
            sum: self.sums[at],
            hash: piece.hash,
        };
        if piece.kind == PartKind::Result && piece.size.media > 0.0 {
            let share = piece.size.media / self.estimates[at].max(piece.size.media);
            let media = rounded(tokens(all) * share).min(all);
            parts.push(ContextPart { kind: PartKind::Image, tokens: media, ..part.clone() });
            parts.push(ContextPart { tokens: all - media, ..part });
        } else {
            parts.push(part);
        }
    }
}

/// For each record, the number of its turn on the live branch.
fn turns(conversation: &Conversation) -> Vec<Option<usize>> {
    let table = &conversation.table;
    let mut turns = vec![None; table.rows().len()];
    let live = conversation.turns_in(&conversation.live());
    for (number, turn) in (1..).zip(&live) {
        let mut note = |row: RowId| turns[row.index()] = Some(number);
        for step in &turn.steps {
            match step {
                Step::Said(row) | Step::Event(row) => note(*row),
                Step::Orphan(block) => note(table.block(*block).row),
                Step::Answer { blocks, .. } => {
                    for block in blocks {
                        note(table.block(*block).row);
                        if let Some(result) = conversation.pairs.of(*block) {
                            note(table.block(result).row);
                        }
                    }
                }
            }
        }
    }
    turns
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "negative numbers become 0, and no request is that long"
)]
pub(super) fn rounded(number: f64) -> u64 {
    number.max(0.0).round() as u64
}
