//! Compares hypotheses with the recorded value, and ranks those that it supports.

use super::{Candidate, Cause};
use crate::Matrix;
use crate::judge::Pair;
use crate::metrics::{Measure, difference, ratio};
use crate::oracle::Call;

pub(super) const MOST: usize = 6;

/// Wrong elements from which a cause is believed: fewer are explained by chance.
pub(super) const ENOUGH: usize = 8;

/// The probability from which on nothing is reported: by chance, `left^(n/2)` hypotheses leave the part `left` of the error.
const CHANCE: f64 = 1e-3;

/// Wrong rows in which an operation is tried before it is computed in all.
const FEW: usize = 4;

/// How specific a hypothesis is: among those that fit equally well, the most specific comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A mistake without fitted parameters.
    Known,
    /// A mistake with a parameter estimated from the data.
    Estimated,
    /// One of so many that one is near by chance.
    General,
    /// A description with many fitted parameters.
    Fitted,
}

/// The hypotheses that the elements support.
pub(super) struct Diagnosis<'a> {
    pub(super) candidate: &'a Candidate<'a>,
    causes: Vec<(Rank, bool, Cause)>,
    error: f64,
    region_error: f64,
    /// The part of it that is rounding, which no mistake explains.
    rounding: f64,
    /// The error that zero or a factor leaves, whichever is less.
    pub(super) plain: f64,
    /// Elements that make up the error.
    wrong: usize,
}

impl<'a> Diagnosis<'a> {
    pub(super) fn new(candidate: &'a Candidate<'a>) -> Diagnosis<'a> {
        let expected = &candidate.expected;
        let (error, region_error) = (candidate.error(expected), candidate.region_error(expected));
        let rounding = rounding(candidate).min(0.9 * region_error);
        let (plain, wrong) = (region_error.min(candidate.energy(&candidate.found)), wrong(candidate));
        Diagnosis { candidate, causes: Vec::new(), error, region_error, rounding, plain, wrong }
    }

    pub(super) fn try_result(
        &mut self,
        kind: &'static str,
        rank: Rank,
        text: impl Into<String>,
        made: &Matrix,
    ) {
        let s = self.candidate;
        let error = s.region_error(made);
        let left = ratio((error - self.rounding).max(0.0), self.region_error - self.rounding);
        // Among many values, some resemble each other by chance, and a few elements resemble anything.
        let (most, fitted) = match rank {
            Rank::Known => (0.5, 0),
            Rank::Estimated => (0.5, 1),
            Rank::General | Rank::Fitted => (0.1, 1),
        };
        let numbers = self.wrong.saturating_sub(fitted) as f64;
        if left.is_nan() || left > most || numbers == 0.0 || left.powf(numbers / 2.0) > CHANCE {
            return;
        }
        // Zero is as near, unless the mistake makes zeros.
        let energy = s.energy(made);
        if error >= energy && (error > 0.0 || energy > 0.0) {
            return;
        }
        // A mistake that holds everywhere says more than one in the wrong region only.
        let everywhere = ratio((s.error(made) - self.rounding).max(0.0), self.error - self.rounding)
            <= left.max(1e-9) * 1.5;
        let (mut text, mut mixed) = (text.into(), None);
        if !everywhere {
            text = format!("{text} (only {})", s.place);
            mixed = Some(s.only_in_region(made));
        }
        let made = mixed.as_ref().unwrap_or(made);
        let plain = Pair::plain(made, &s.found, s.limit);
        let is_supported = Pair { rounding: Some(&s.rounding), ..plain }.wrong().is_none();
        let likely = is_supported && left <= 0.1 && error <= 0.1 * energy && self.wrong >= ENOUGH;
        if !likely && error - self.rounding > most * (self.plain - self.rounding).max(0.0) {
            return;
        }
        let mut measure = Measure::default();
        measure.add(0, made, &s.found);
        let cause = Cause { kind, text, nmse: measure.metrics().nmse, explained: 1.0 - left, likely };
        self.causes.push((rank, !everywhere, cause));
    }

    pub(super) fn try_inputs(&mut self, kind: &'static str, rank: Rank, text: String, inputs: &[Matrix]) {
        self.try_both(kind, rank, text, &self.candidate.call, inputs);
    }

    pub(super) fn try_call(&mut self, kind: &'static str, rank: Rank, text: String, call: &Call) {
        self.try_both(kind, rank, text, call, &self.candidate.inputs);
    }

    /// First in a few rows, unless rows depend on later ones, and in all where these support it. What cannot be computed is no hypothesis.
    fn try_both(&mut self, kind: &'static str, rank: Rank, text: String, call: &Call, inputs: &[Matrix]) {
        let few = Few::new(self.candidate);
        let store = || call.op.store().map(|(store, _)| *self.candidate.oracle.graph.store(store));
        let is_causal = call.store.or_else(store).is_none_or(|store| store.mask.is_causal());
        if is_causal
            && few.rows.len() * 2 < self.candidate.found.rows
            && few.error(call, inputs).is_none_or(|error| error > 0.5 * few.expected())
        {
            return;
        }
        if let Ok(made) = self.candidate.oracle.run(call, inputs) {
            self.try_result(kind, rank, text, &made);
        }
    }

    pub(super) fn finish(self) -> Vec<Cause> {
        // Below this, fits differ by rounding alone.
        let limit = self.candidate.limit;
        let noise = if limit > 1e-4 { limit } else { limit * 1e-3 };
        let bucket = |cause: &Cause| (cause.nmse.max(noise).log10() * 2.0).floor() as i64;
        let mut causes = self.causes;
        causes.sort_by_key(|(rank, part, cause)| (!cause.likely, bucket(cause), *rank, *part));
        // A likely cause rules out unlikely ones, estimates behind a known mistake, and parts behind one that holds everywhere.
        if let Some((best, best_part, true)) =
            causes.first().map(|(rank, part, cause)| (*rank, *part, cause.likely))
        {
            causes.retain(|(rank, part, cause)| {
                cause.likely && (*rank <= best || *rank == Rank::General) && *part <= best_part
            });
        }
        let mut reported: Vec<Cause> = Vec::new();
        for (_, _, cause) in causes {
            // A cause with equal figures adds no information.
            let is_same = |other: &Cause| (other.nmse, other.explained) == (cause.nmse, cause.explained);
            if !reported.iter().any(is_same) {
                reported.push(cause);
            }
        }
        reported.truncate(MOST);
        reported
    }
}

/// The squared error of rounding over the wrong region, in the way that is nearer to the error.
fn rounding(s: &Candidate<'_>) -> f64 {
    let left = |way: usize| {
        s.region.sum(|r, c| {
            let error = f64::from(s.found.at(r, c)) - f64::from(s.expected.at(r, c));
            (error - s.rounding.at(r, c)[way]).powi(2)
        })
    };
    let way = usize::from(left(1) < left(0));
    s.region.sum(|r, c| s.rounding.at(r, c)[way].powi(2))
}

/// Elements of the wrong region whose error exceeds the limit or is close to the worst; others show noise.
fn wrong(s: &Candidate<'_>) -> usize {
    let numbers = || s.region.rows.iter().flat_map(|&r| s.region.cols.iter().map(move |&c| (r, c)));
    let error = |(r, c)| difference(s.expected.at(r, c), s.found.at(r, c));
    let worst = numbers().map(error).fold(0.0, f64::max);
    let usual = (s.limit * s.energy(&s.expected) / numbers().count() as f64).sqrt();
    numbers().filter(|&at| error(at) > usual.min(0.05 * worst)).count()
}

/// The first wrong rows, with those before them where positions count.
pub(super) struct Few<'a> {
    candidate: &'a Candidate<'a>,
    rows: Vec<usize>,
    /// The wrong ones: index in `rows`, and row.
    wrong: Vec<(usize, usize)>,
}

impl<'a> Few<'a> {
    pub(super) fn new(candidate: &'a Candidate<'a>) -> Few<'a> {
        let wrong = &candidate.region.rows[..FEW.min(candidate.region.rows.len())];
        let rows: Vec<usize> = match (candidate.call.op.is_positional(), wrong.last()) {
            (true, Some(&last)) => (0..=last).collect(),
            _ => wrong.to_vec(),
        };
        let wrong = rows.iter().copied().enumerate().filter(|(_, row)| wrong.contains(row)).collect();
        Few { candidate, wrong, rows }
    }

    /// The squared error of `call` in these rows; `None` where it cannot be computed.
    pub(super) fn error(&self, call: &Call, inputs: &[Matrix]) -> Option<f64> {
        let tokens = self.rows.iter().filter_map(|&r| call.tokens.get(r).copied()).collect();
        let inputs: Vec<Matrix> = inputs.iter().map(|x| x.take_rows(&self.rows)).collect();
        let made = self.candidate.oracle.run(&Call { tokens, ..call.clone() }, &inputs).ok()?;
        Some(self.sum(|i, _, c| made.at(i, c)))
    }

    fn expected(&self) -> f64 {
        self.sum(|_, r, c| self.candidate.expected.at(r, c))
    }

    fn sum(&self, of: impl Fn(usize, usize, usize) -> f32) -> f64 {
        let s = self.candidate;
        let square = |i: usize, r: usize, c: usize| difference(of(i, r, c), s.found.at(r, c)).powi(2);
        self.wrong.iter().map(|&(i, r)| s.region.cols.iter().map(|&c| square(i, r, c)).sum::<f64>()).sum()
    }
}
