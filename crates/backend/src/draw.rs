//! How a device draws the token of an output row.

use std::sync::Arc;

use crate::Error;

/// Maximum number of candidates per output row: the tokens with the largest logits.
pub const MAX_CANDIDATES: usize = 64;

/// How the token after a row is drawn from the row's logits. In this order: biases, penalties, the `top_k` largest logits,
/// filters, the draw.
///
/// Logits are f32 after each of these, without fused multiply-add; probabilities and their sums are f64. Sums over up to
/// [`MAX_CANDIDATES`] candidates begin with the largest logit, the lower id first among equals; those of the draw with the lowest
/// id. A device's exponential may differ from the host's in the last bit, so that a `u` at the very border of two tokens may give
/// either. Sums over more tokens have no fixed order, so a `u` or `p` within about 1e-12 of a boundary may select the token next
/// to it.
///
/// A token whose logit is -∞ is never drawn. A row has no token if a logit of the model is NaN or +∞, or if none is left.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// From `[0, 1)`. The token is the first one, in the order of ids, at which the sum of probabilities exceeds `u`.
    pub u: f64,
    /// Tokens, and what is added to their logits, in the order of ids; several of one token are added one after the other. A sum
    /// is at most `f32::MAX`; a bias of -∞ rules a token out.
    pub biases: Arc<[(u32, f32)]>,
    /// Changes the logits of tokens that occurred.
    pub penalties: Option<Penalties>,
    /// The number of tokens with the largest logits that are kept, the lower id first among equals. One is the argmax, 0 keeps
    /// all.
    pub top_k: usize,
    /// What drops or changes those that are kept, in order.
    pub filters: Arc<[Filter]>,
}

/// Penalties of tokens that occurred `n` times: a logit above 0 is divided by `repeat`, another one multiplied with it. Then
/// `n * frequency + presence` is subtracted. Infinite results are clamped, so that no token is ruled out.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Penalties {
    pub repeat: f32,
    pub frequency: f32,
    pub presence: f32,
    /// Tokens and how often they occurred, by strictly increasing id. The token of the output row itself always counts once more:
    /// the host need not know it.
    pub counts: Vec<(u32, u32)>,
}

/// Drops or changes candidates. At least one is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// Keeps the most probable ones whose probabilities together reach this, from 0 to 1.
    TopP(f32),
    /// Keeps those that are at least this, from 0 to 1, times as probable as the most probable one.
    MinP(f32),
    /// Subtracts the largest logit, and divides by this, above 0.
    Temperature(f32),
}

impl Draw {
    /// Maximum number of biases and of counts together.
    pub const MAX_ENTRIES: usize = 1024;
    /// Maximum number of filters.
    pub const MAX_FILTERS: usize = 6;

    /// Number of biases and of counts.
    pub fn entries(&self) -> usize {
        self.biases.len() + self.penalties.as_ref().map_or(0, |penalties| penalties.counts.len())
    }

    /// Whether the [`MAX_CANDIDATES`] best tokens are all that it considers, once biases and penalties have changed logits.
    pub fn is_of_best(&self) -> bool {
        (1..=MAX_CANDIDATES).contains(&self.top_k)
    }

    /// Whether it chooses the largest logit, once biases and penalties have changed logits.
    pub fn is_largest(&self) -> bool {
        self.top_k == 1
    }

    /// Whether it changes logits of the whole vocabulary.
    pub fn adjusts(&self) -> bool {
        !self.biases.is_empty() || self.penalties.is_some()
    }

    /// Checks that all is in its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Draw { u, biases, penalties, top_k: _, filters } = self;
        let is_good = |filter: &Filter| match *filter {
            Filter::TopP(p) | Filter::MinP(p) => (0.0..=1.0).contains(&p),
            Filter::Temperature(temperature) => temperature > 0.0 && temperature.is_finite(),
        };
        let are_penalties_good = |Penalties { repeat, frequency, presence, counts }: &Penalties| {
            *repeat > 0.0
                && [repeat, frequency, presence].iter().all(|x| x.is_finite())
                && counts.is_sorted_by(|a, b| a.0 < b.0)
        };
        let are_good = [
            ("u", (0.0..1.0).contains(u)),
            ("number of filters", filters.len() <= Draw::MAX_FILTERS),
            ("filters", filters.iter().all(is_good)),
            ("number of biases and counts", self.entries() <= Draw::MAX_ENTRIES),
            ("biases", biases.iter().all(|(_, bias)| *bias < f32::INFINITY)),
            ("order of biases", biases.is_sorted_by_key(|(id, _)| *id)),
            ("penalties", penalties.as_ref().is_none_or(are_penalties_good)),
        ];
        match are_good.iter().find(|(_, is_good)| !is_good) {
            Some((what, _)) => Err(Error::Step(format!("the {what} of a draw: {self:?}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, Row, Sequence, Step, Transfer};

    fn draw() -> Draw {
        Draw { u: 0.5, biases: [].into(), penalties: None, top_k: 40, filters: [].into() }
    }

    fn step(outputs: &[Output]) -> Result<Step, Error> {
        let rows = outputs.iter().flat_map(|output| Row::all([0], output)).collect();
        Step::new(rows, vec![Sequence::uniform(0, outputs.len(), 0, [])])
    }

    #[test]
    fn a_step_copies_no_more_than_its_rows_need() {
        let biased = Draw { biases: [(1, 0.5)].into(), ..draw() };
        let [draw, biased, all] =
            [draw(), biased, Draw { top_k: 0, ..draw() }].map(|draw| Output::Draw(draw.into()));
        let (greedy, best, logits) = (Output::Greedy, Output::Candidates, Output::Logits);
        let transfers = |outputs: &[&Output]| {
            let outputs: Vec<Output> = outputs.iter().map(|&output| output.clone()).collect();
            let step = step(&outputs).expect("a good step");
            (step.transfer(), step.transfer_undrawn())
        };
        use Transfer::{Candidates, Drawn, Logits, Tokens};
        assert_eq!(transfers(&[&Output::None]), (Logits, Logits), "for stages of a pipeline");
        assert_eq!(transfers(&[&greedy, &Output::None]), (Tokens, Tokens));
        assert_eq!(transfers(&[&draw, &greedy]), (Drawn, Candidates));
        assert_eq!(transfers(&[&biased, &draw]), (Drawn, Logits), "a bias can lift any token");
        assert_eq!(transfers(&[&all]), (Drawn, Logits));
        assert_eq!(transfers(&[&greedy, &best]), (Candidates, Candidates));
        assert_eq!(transfers(&[&draw, &best, &Output::None]), (Candidates, Candidates));
        for most in [&logits, &Output::Top(1)] {
            assert_eq!(transfers(&[&greedy, most, &draw, &best]), (Logits, Logits));
        }
    }

    #[test]
    fn draws_out_of_range_are_refused() {
        let counts = |counts: &[(u32, u32)]| {
            Some(Penalties { repeat: 1.1, frequency: 0.0, presence: 0.0, counts: counts.to_vec() })
        };
        let many = |n: u32| (0..n).map(|id| (id, 0.5)).collect::<Arc<[_]>>();
        let is_good = |draw: Draw| step(&[Output::Draw(draw.into())]).is_ok();
        for good in [
            draw(),
            Draw { u: 0.0, top_k: 1, ..draw() },
            Draw { top_k: 0, ..draw() },
            Draw { top_k: usize::MAX, ..draw() },
            Draw { biases: [(3, 1.0), (3, f32::NEG_INFINITY), (9, -1.0)].into(), ..draw() },
            Draw { penalties: counts(&[(1, 2), (2, 1)]), biases: many(1022), ..draw() },
            Draw {
                filters: [Filter::TopP(0.0), Filter::MinP(1.0), Filter::Temperature(1e-9)].into(),
                ..draw()
            },
        ] {
            assert!(is_good(good.clone()), "{good:?}");
        }
        for bad in [
            Draw { u: 1.0, ..draw() },
            Draw { u: f64::NAN, ..draw() },
            Draw { filters: [Filter::TopP(1.0); 7].into(), ..draw() },
            Draw { filters: [Filter::Temperature(0.0)].into(), ..draw() },
            Draw { filters: [Filter::MinP(f32::NAN)].into(), ..draw() },
            Draw { biases: [(9, 1.0), (3, 1.0)].into(), ..draw() },
            Draw { biases: [(9, f32::INFINITY)].into(), ..draw() },
            Draw { biases: [(9, f32::NAN)].into(), ..draw() },
            Draw { penalties: counts(&[(2, 1), (2, 1)]), ..draw() },
            Draw { penalties: counts(&[(1, 2), (2, 1)]), biases: many(1023), ..draw() },
        ] {
            assert!(!is_good(bad.clone()), "{bad:?}");
        }
    }
}
