//! Whether an operation's own error is within its limit, and where it is wrong when it is not.
//!
//! The limit holds for the value as a whole and for each row and column of it, since one wrong row among
//! many, or one wrong output of a matrix, hardly shows in the whole. Rows count alike in a column, whatever
//! their size, since that of one token may be a thousand times that of the others. The mean of few squares strays
//! further from its expectation than that of many, so a slice of `n` numbers is allowed
//! `1 + 6 sqrt(2/n) + 20/n` times the limit: six standard deviations of a chi-square mean and its
//! exponential tail.
//!
//! Where a product is beyond its limit, the rounding of its inputs may be why ([`Rounding`]): it is more than the limit
//! where a block has an outlier, or where a product nearly cancels, as those of a trained model's first token do.
//! Up to twice as much is no fault. What is less than the limit, but always to one side, is one (`drift.rs`).

mod drift;
mod pair;
mod region;
mod rounding;
mod slice;

use std::ops::Range;

use backend::KvFormat;
use graph::{Op, Role};

use crate::metrics::{Measure, Metrics, difference, ratio};
use crate::{Error, Matrix, Oracle};

pub(crate) use pair::Pair;
pub use region::Region;
pub(crate) use rounding::{Rounding, format};

/// The largest error of one operation on f32.
const FLOAT: f64 = 1e-6;

/// The largest error of a product with a quantised weight, where activations are rounded to 8 bits.
const QUANTIZED: f64 = 5e-4;

/// The largest error of attention over K and V in F16. Keys and values are rounded before the replay as
/// the store rounds them; engines round queries, probabilities or sums to the same 11 bits, too, each
/// with an NMSE of up to 2^-22 = 2.4e-7, and the error of a score grows with its size in the softmax.
const ATTENTION_F16: f64 = 1e-5;

/// The largest error of a whole model with weights of F32 or F16.
pub(crate) const WHOLE_FLOAT: f64 = 1e-5;

/// Numbers of a value that are in memory at a time, about: 8 MB of f32. What is computed from them takes
/// up to some 20 times that.
const NUMBERS: usize = 1 << 21;

/// The ranges of `rows` rows of `cols` columns that are taken together.
pub(crate) fn chunks(rows: usize, cols: usize) -> impl Iterator<Item = Range<usize>> {
    let at_once = (NUMBERS / cols.max(1)).max(1);
    (0..rows).step_by(at_once).map(move |first| first..rows.min(first + at_once))
}

/// The one-operation limit of `op`.
pub(crate) fn limit(oracle: &Oracle<'_>, op: &Op, kv: KvFormat) -> f64 {
    let is_quantized = op.weights().any(|(id, role)| {
        matches!(role, Role::Matrix | Role::Experts)
            && oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1)
    });
    match () {
        () if is_quantized => QUANTIZED,
        () if op.store().is_some() && kv == KvFormat::F16 => ATTENTION_F16,
        () => FLOAT,
    }
}

/// What a replay says about a value, of which rows come one chunk after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    measure: Measure,
    /// Where it is wrong; nowhere when it is right.
    pub(crate) region: Region,
    error: f64,
    energy: f64,
}

impl Judgement {
    /// Takes in rows from `first` on, which are wrong in `region`, counted from there.
    pub(crate) fn add(&mut self, first: usize, expected: &Matrix, found: &Matrix, region: Option<Region>) {
        self.measure.add(first, expected, found);
        let Some(region) = region else { return };
        self.error += region.sum(|r, c| difference(expected.at(r, c), found.at(r, c)).powi(2));
        self.energy += region.sum(|r, c| f64::from(expected.at(r, c)).powi(2));
        self.region.extend(first, &region);
    }

    /// That of a value of `shape`, rows and columns. `rows` makes a chunk, what should be and what was recorded, and
    /// `wrong` says where it is wrong, counted from its first row.
    ///
    /// # Errors
    /// When a chunk cannot be made.
    pub(crate) fn of(
        shape: (usize, usize),
        rows: impl Fn(Range<usize>) -> Result<[Matrix; 2], Error>,
        wrong: impl Fn(&Range<usize>, &Matrix, &Matrix) -> Option<Region>,
    ) -> Result<Judgement, Error> {
        let mut judgement = Judgement::default();
        for chunk in chunks(shape.0, shape.1) {
            let [expected, found] = rows(chunk.clone())?;
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

    /// NMSE of the region.
    pub(crate) fn nmse(&self) -> f64 {
        ratio(self.error, self.energy)
    }
}

#[cfg(test)]
mod tests;
