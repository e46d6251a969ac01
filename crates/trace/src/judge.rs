//! Whether an operation's own error is within its limit, and where it is wrong.
//!
//! The limit holds for the value and for each row and column, since one wrong row among many hardly shows in the whole.
//! Within a column, rows are normalised: those of one token may be a thousand times those of another. The mean of few squares
//! varies more, so a slice of `n` elements may have `1 + 6 sqrt(2/n) + 20/n` times the limit: six standard deviations of a
//! chi-square mean, and its exponential tail.
//!
//! A matmul beyond its limit may only show the rounding of its inputs ([`Rounding`]): up to twice as much is right. So is attention
//! that may only show another choice between two quants of the cache. A bias is wrong even within the limit (`drift.rs`).

mod drift;
mod pair;
mod region;
mod rounding;

use std::ops::Range;

use backend::KvFormat;
use graph::{Op, Role};

use crate::metrics::{Measure, Metrics, difference, ratio};
use crate::{Error, Matrix, Oracle};

pub(crate) use pair::Pair;
pub(crate) use region::Region;
pub(crate) use rounding::{Rounding, format};

/// NMSE limit of one operation on f32.
const FLOAT: f64 = 1e-6;

/// NMSE limit of a matmul with a quantised weight: activations are rounded to 8 bits.
pub(crate) const QUANTIZED: f64 = 5e-4;

/// NMSE limit of attention over a cache that is not in F32. The replay rounds K and V, too; engines round queries, probabilities
/// or sums to F16, each with an NMSE of up to 2^-22 = 2.4e-7, and the error of a score grows with its size in the softmax.
const ATTENTION_ROUNDED: f64 = 1e-5;

/// NMSE limit of a whole model with F32 or F16 weights.
pub(crate) const WHOLE_FLOAT: f64 = 1e-5;

/// Elements of a value in memory at a time, about 8 MB of f32; the judgement needs some 20 times as much.
const NUMBERS: usize = 1 << 21;

pub(crate) fn chunks(rows: usize, cols: usize) -> impl Iterator<Item = Range<usize>> {
    let at_once = (NUMBERS / cols.max(1)).max(1);
    (0..rows).step_by(at_once).map(move |first| first..rows.min(first + at_once))
}

pub(crate) fn limit(oracle: &Oracle<'_>, op: &Op) -> f64 {
    let is_quantized = op.weights().any(|(id, role)| {
        matches!(role, Role::Matrix | Role::Experts)
            && oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1)
    });
    match oracle.kv {
        _ if is_quantized => QUANTIZED,
        KvFormat::F32 => FLOAT,
        _ if op.store().is_some() => ATTENTION_ROUNDED,
        _ => FLOAT,
    }
}

/// The error of a value, and where it is wrong. The rows of the value come in chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) limit: f64,
    pub(crate) shape: (usize, usize),
    /// Empty when the value is right.
    pub(crate) region: Region,
    measure: Measure,
    error: f64,
    energy: f64,
}

impl Judgement {
    pub(crate) fn new(limit: f64) -> Judgement {
        Judgement { limit, ..Judgement::default() }
    }

    /// Adds rows from `first` on, which are wrong in `region`, counted from there.
    pub(crate) fn add(&mut self, first: usize, expected: &Matrix, found: &Matrix, region: Option<Region>) {
        self.shape = (self.shape.0 + expected.rows, expected.cols);
        self.measure.add(first, expected, found);
        let Some(region) = region else { return };
        self.error += region.sum(|r, c| difference(expected.at(r, c), found.at(r, c)).powi(2));
        self.energy += region.sum(|r, c| f64::from(expected.at(r, c)).powi(2));
        self.region.extend(first, &region);
    }

    /// Judges a value, chunk by chunk. `read` returns the expected and the found rows of a chunk. `wrong` gets these and returns
    /// the region that is wrong, counted from the first of these rows.
    pub(crate) fn of(
        limit: f64,
        (rows, cols): (usize, usize),
        read: impl Fn(Range<usize>) -> Result<[Matrix; 2], Error>,
        wrong: impl Fn(&Range<usize>, &Matrix, &Matrix) -> Option<Region>,
    ) -> Result<Judgement, Error> {
        let mut judgement = Judgement::new(limit);
        for chunk in chunks(rows, cols) {
            let [expected, found] = read(chunk.clone())?;
            judgement.add(chunk.start, &expected, &found, wrong(&chunk, &expected, &found));
        }
        Ok(judgement)
    }

    pub(crate) fn is_wrong(&self) -> bool {
        !self.region.rows.is_empty()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.measure.metrics()
    }

    pub(crate) fn nmse(&self) -> f64 {
        ratio(self.error, self.energy)
    }
}

#[cfg(test)]
mod tests;
