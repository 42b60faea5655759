//! How many tokens a unit is: a guess by the model, corrected by each recorded call.
//!
//! A call's recorded input, minus that of the call before it, is what was added in between. Each
//! such difference corrects the weights a little (recursive least squares, relative to the size of
//! the difference); one that cannot be explained is passed over, because texts that are not in the
//! file, and texts that were changed later, would spoil the weights. Invariants: deterministic; the
//! weights are never negative; a prediction for a call uses only calls before it.

/// What is counted of pieces: units by kind, and how many blocks and calls they are.
pub(super) type Features = [f64; COUNT];

/// How many features there are.
const COUNT: usize = 7;
pub(super) const TEXT: usize = 0;
pub(super) const CALL: usize = 1;
pub(super) const RESULT: usize = 2;
pub(super) const THINKING: usize = 3;
pub(super) const REMINDER: usize = 4;
pub(super) const BLOCKS: usize = 5;
pub(super) const CALLS: usize = 6;

/// The guess for models with the tokenizer of 4.6 and before, and for those after it. Means over
/// many sessions; what matters is that they are near enough to be corrected.
const EARLIER: Features = [0.95, 1.03, 1.07, 0.4, 1.25, 14.0, 60.0];
const LATER: Features = [1.26, 1.3, 1.33, 0.8, 1.9, 20.0, 40.0];

/// How far a weight may be from the guess, as a share of it: each on its own, and all together.
const APART: f64 = 0.3;
const TOGETHER: f64 = 0.2;

/// How exact a recorded difference is: a share of it, and a few tokens.
const NOISE: f64 = 0.05;
const NOISE_TOKENS: f64 = 10.0;

/// A difference is passed over if it is off by more than this share of what was recorded or
/// expected; what is that of so few tokens never is.
const ODD: f64 = 0.6;
const FEW: f64 = 100.0;

/// The weights for one model, and how sure they are.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    mean: Features,
    spread: [Features; COUNT],
    /// How many differences corrected them.
    pub(super) seen: u64,
}

impl Weights {
    /// The guess for a model.
    pub(super) fn guess(model: &str) -> Weights {
        let mean = if has_later_tokenizer(model) { LATER } else { EARLIER };
        let mut spread = [[0.0; COUNT]; COUNT];
        for (row, line) in spread.iter_mut().enumerate() {
            for (column, cell) in line.iter_mut().enumerate() {
                let both = mean[row] * mean[column];
                let alone = if row == column { APART * APART } else { 0.0 };
                *cell = both * (alone + TOGETHER * TOGETHER);
            }
        }
        Weights { mean, spread, seen: 0 }
    }

    /// How many tokens these are.
    pub(super) fn tokens(&self, features: &Features) -> f64 {
        dot(features, &self.mean)
    }

    /// Corrects the weights: `features` were that many tokens, in a difference of `whole`.
    pub(super) fn learn(&mut self, features: &Features, tokens: f64, whole: f64) {
        let expected = self.tokens(features);
        if (tokens - expected).abs() > ODD * tokens.max(expected).max(FEW) {
            return;
        }
        let along: Features = std::array::from_fn(|row| dot(&self.spread[row], features));
        let noise = NOISE * whole.max(expected) + NOISE_TOKENS;
        let total = dot(features, &along) + noise * noise;
        let miss = tokens - expected;
        for row in 0..COUNT {
            self.mean[row] = (self.mean[row] + along[row] / total * miss).max(0.0);
            for column in 0..COUNT {
                self.spread[row][column] -= along[row] * along[column] / total;
            }
        }
        self.seen += 1;
    }
}

fn dot(one: &Features, other: &Features) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Whether a model has the tokenizer that came with 4.7, which makes more tokens of the same text.
pub(super) fn has_later_tokenizer(model: &str) -> bool {
    crate::client::history::is_at_least(model, [4, 7])
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
