//! Why a value is wrong: hypotheses, each an alternative computation on the inputs that were recorded,
//! whose result is held against what was recorded.
//!
//! A hypothesis that the recorded value bears out within the one-operation limit is likely; one that takes
//! away much of the error, but not all of it, is possible. What explains nothing is not reported: neither is
//! what zero or a factor would explain as well, nor what is further from the value than zero is, nor what
//! so few wrong numbers bear out by chance.

mod attention;
mod blocks;
mod close;
mod consumed;
mod elementwise;
mod embed;
mod experts;
mod general;
mod linear;
mod norm;
mod rope;
mod words;

use graph::{Op, Value, ValueId};
use serde::Serialize;

use crate::judge::{Region, Rounding, judge_pair};
use crate::metrics::{difference, ratio};
use crate::oracle::Call;
use crate::{Error, Matrix, Oracle};

pub(crate) use words::place;

/// The most causes that are reported.
const MOST: usize = 6;

/// Wrong numbers from which a cause is believed: fewer are explained by chance.
const ENOUGH: usize = 8;

/// The probability of chance from which on nothing is reported. A hypothesis leaves the part `left` of the error
/// of `n` numbers by chance in about `left^(n/2)` of all cases.
const CHANCE: f64 = 1e-3;

/// What may have gone wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// What kind of mistake it is, in a word or two for programs, such as `rope-pairs`.
    pub kind: &'static str,
    /// What to look at, for people.
    pub text: String,
    /// NMSE of the value against what this mistake would give.
    pub nmse: f64,
    /// The part of the error that it explains, from 0 to 1.
    pub explained: f64,
    /// Whether the value is, within the limit of one operation, what this mistake gives.
    pub likely: bool,
}

/// A value that is wrong although its inputs are given.
pub(crate) struct Candidate<'a> {
    pub(crate) oracle: Oracle<'a>,
    pub(crate) id: ValueId,
    pub(crate) call: Call,
    /// What it was computed from.
    pub(crate) inputs: Vec<Matrix>,
    /// What was recorded.
    pub(crate) found: Matrix,
    /// What it should be.
    pub(crate) expected: Matrix,
    /// The position of its first row here: of a large value, there are not all.
    pub(crate) first: usize,
    /// Where it is wrong in these rows, counted from the first.
    pub(crate) region: Region,
    /// Where it is wrong, in words.
    pub(crate) place: &'a str,
    pub(crate) limit: f64,
    /// What rounding its inputs costs.
    pub(crate) rounding: Rounding,
    /// These rows of any value that was recorded.
    pub(crate) recorded: &'a dyn Fn(ValueId) -> Option<Matrix>,
    /// These rows of an input by its number, computed again although they were recorded.
    pub(crate) again: &'a dyn Fn(usize) -> Option<Matrix>,
}

impl Candidate<'_> {
    fn value(&self) -> &Value {
        self.oracle.graph().value(self.id)
    }

    fn name(&self, id: ValueId) -> &str {
        &self.oracle.graph().value(id).name
    }

    /// The operation on other inputs.
    fn on(&self, inputs: &[&Matrix]) -> Result<Matrix, Error> {
        self.oracle.run(&self.call, inputs)
    }

    /// Another operation on the same inputs.
    fn as_op(&self, op: Op) -> Result<Matrix, Error> {
        self.run(&self.call.with_op(op))
    }

    /// Another call on the same inputs.
    fn run(&self, call: &Call) -> Result<Matrix, Error> {
        self.oracle.run(call, &self.inputs.iter().collect::<Vec<_>>())
    }

    /// Columns of a head, where the value has heads: for what attention and RoPE make and read.
    pub(crate) fn head_dim(&self) -> Option<usize> {
        head_dim(&self.oracle, self.id)
    }

    /// Square errors of `against` over the whole value.
    fn error(&self, against: &Matrix) -> f64 {
        against.data.iter().zip(&self.found.data).map(|(&a, &b)| difference(a, b).powi(2)).sum()
    }

    /// A sum over the wrong region.
    fn in_region(&self, of: impl Fn(usize, usize) -> f64) -> f64 {
        let Region { rows, cols } = &self.region;
        rows.iter().map(|&r| cols.iter().map(|&c| of(r, c)).sum::<f64>()).sum()
    }

    /// The square errors that rounding makes over the wrong region, in the way that the error is nearest to.
    fn rounding_error(&self) -> f64 {
        let left = |way: usize| {
            self.in_region(|r, c| {
                let error = f64::from(self.found.at(r, c)) - f64::from(self.expected.at(r, c));
                (error - self.rounding.added(r, c)[way]).powi(2)
            })
        };
        let way = usize::from(left(1) < left(0));
        self.in_region(|r, c| self.rounding.added(r, c)[way].powi(2))
    }

    /// Square errors of `against` over the wrong region.
    fn region_error(&self, against: &Matrix) -> f64 {
        self.in_region(|r, c| difference(against.at(r, c), self.found.at(r, c)).powi(2))
    }

    /// The squares of a value over the wrong region.
    fn energy(&self, of: &Matrix) -> f64 {
        self.in_region(|r, c| f64::from(of.at(r, c)).powi(2))
    }

    /// Numbers of the wrong region that are wrong themselves, beyond the limit or about as much as its worst:
    /// those that are not show noise.
    fn wrong(&self) -> usize {
        let Region { rows, cols } = &self.region;
        let numbers = || rows.iter().flat_map(|&r| cols.iter().map(move |&c| (r, c)));
        let error = |(r, c)| difference(self.expected.at(r, c), self.found.at(r, c));
        let worst = numbers().map(error).fold(0.0, f64::max);
        let usual = (self.limit * self.energy(&self.expected) / numbers().count() as f64).sqrt();
        numbers().filter(|&at| error(at) > usual.min(0.05 * worst)).count()
    }

    /// `inside` in the wrong region, what should be elsewhere. A head is wrong as a whole where that is
    /// nearer: columns that hardly turn do not show it.
    fn only_in_region(&self, inside: &Matrix) -> Matrix {
        let Region { rows, cols } = &self.region;
        let mixed = |cols: &[usize]| {
            let mut mixed = self.expected.clone();
            for &r in rows {
                cols.iter().for_each(|&c| mixed.data[r * mixed.cols + c] = inside.at(r, c));
            }
            mixed
        };
        let only = mixed(cols);
        let Some(dim) = self.head_dim() else { return only };
        let in_head = |c: &usize| cols.iter().any(|wrong| wrong / dim == c / dim);
        let heads = mixed(&(0..self.expected.cols).filter(in_head).collect::<Vec<_>>());
        if self.error(&heads) < self.error(&only) { heads } else { only }
    }
}

/// Columns of a head of the value `id`; `None` when it has no heads.
pub(crate) fn head_dim(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let graph = oracle.graph();
    let of = |id: ValueId| {
        let value = graph.value(id);
        if let Op::Attention { heads, .. } = value.op {
            Some(value.cols / heads)
        } else {
            by_heads(oracle, id)
        }
    };
    let read_by = |(reader_id, reader): (ValueId, &Value)| {
        if let Op::AddBias { x, .. } = reader.op
            && x == id
        {
            return head_dim(oracle, reader_id);
        }
        if let Op::Attention { q, kv, store, .. } = reader.op {
            let (store, [k, v]) = (graph.store(store), kv.unwrap_or([q; 2]));
            let dim = if id == v && v != q { store.v_dim } else { store.k_dim };
            return [q, k, v].contains(&id).then_some(dim);
        }
        by_heads(oracle, reader_id).filter(|_| reader.op.inputs().any(|x| x == id))
    };
    of(id).or_else(|| graph.values().find_map(read_by))
}

/// Columns of a head where the operation of `id` treats heads alike, one by one.
fn by_heads(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let value = oracle.graph().value(id);
    if let Op::Rope { rope, .. } = value.op {
        return Some(rope.head_dim);
    }
    if let Op::RmsNorm { weight, .. } = value.op {
        return Some(oracle.graph().weight(weight).cols).filter(|&cols| cols < value.cols);
    }
    None
}

/// How special a hypothesis is: among those that fit equally well, the one that says most comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A known mistake, with nothing fitted to the data.
    Known,
    /// A known mistake with a number estimated from the data.
    Estimated,
    /// The same for any operation.
    General,
    /// Says how it looks, with many numbers fitted.
    Fitted,
}

/// Hypotheses that were borne out.
struct Diagnosis<'a> {
    candidate: &'a Candidate<'a>,
    /// With rank, and whether they hold only in the wrong region.
    causes: Vec<(Rank, bool, Cause)>,
    error: f64,
    region_error: f64,
    /// What of that is rounding, at least, which no mistake explains.
    rounding: f64,
    /// What of it is left by zero or by a factor, whichever is less.
    plain: f64,
    /// Numbers that make up the error.
    wrong: usize,
}

impl<'a> Diagnosis<'a> {
    fn new(candidate: &'a Candidate<'a>) -> Diagnosis<'a> {
        let expected = &candidate.expected;
        let (error, region_error) = (candidate.error(expected), candidate.region_error(expected));
        let rounding = candidate.rounding_error().min(0.9 * region_error);
        let (plain, wrong) = (region_error.min(candidate.energy(&candidate.found)), candidate.wrong());
        Diagnosis { candidate, causes: Vec::new(), error, region_error, rounding, plain, wrong }
    }

    /// The part of the error that is left in the wrong region when `made` is what was meant.
    fn left(&self, made: &Matrix) -> f64 {
        ratio((self.candidate.region_error(made) - self.rounding).max(0.0), self.region_error - self.rounding)
    }

    /// Holds what a mistake would have made against what was recorded.
    fn try_out(&mut self, kind: &'static str, rank: Rank, text: impl Into<String>, made: &Matrix) {
        let (left, error) = (self.left(made), self.candidate.region_error(made));
        // By chance alone, one of many values is a little like another, and few numbers are like anything.
        let (most, fitted) = match rank {
            Rank::Known => (0.5, 0),
            Rank::Estimated => (0.5, 1),
            Rank::General | Rank::Fitted => (0.1, 1),
        };
        let numbers = self.wrong.saturating_sub(fitted) as f64;
        if left.is_nan() || left > most || numbers == 0.0 || left.powf(numbers / 2.0) > CHANCE {
            return;
        }
        // Zero is as near, unless it is zero that is meant, as of a sum that is lost.
        let energy = self.candidate.energy(made);
        if error >= energy && (error > 0.0 || !matches!(kind, "zero" | "part-of-sum")) {
            return;
        }
        // Everywhere or only where the value is wrong: the former says more.
        let everywhere =
            ratio((self.candidate.error(made) - self.rounding).max(0.0), self.error - self.rounding)
                <= left.max(1e-9) * 1.5;
        let mixed;
        let made = if everywhere {
            made
        } else {
            mixed = self.candidate.only_in_region(made);
            &mixed
        };
        let s = self.candidate;
        let judged = judge_pair(made, &s.found, s.limit, &s.rounding);
        let mut text = text.into();
        if !everywhere {
            text = format!("{text} (only {})", s.place);
        }
        let likely = judged.region.is_none() && left <= 0.1 && error <= 0.1 * energy && self.wrong >= ENOUGH;
        if !likely && error - self.rounding > most * (self.plain - self.rounding).max(0.0) {
            return;
        }
        let cause = Cause { kind, text, nmse: judged.metrics.nmse, explained: 1.0 - left, likely };
        self.causes.push((rank, !everywhere, cause));
    }

    /// Tells what does not explain the error, but says where it comes from.
    fn note(&mut self, kind: &'static str, text: String) {
        let s = self.candidate;
        let nmse = ratio(self.region_error, s.in_region(|r, c| f64::from(s.expected.at(r, c)).powi(2)));
        self.causes.push((Rank::Fitted, true, Cause { kind, text, nmse, explained: 0.0, likely: false }));
    }

    /// Tries out a computation that may fail; what cannot be computed is no hypothesis.
    fn try_run(
        &mut self,
        kind: &'static str,
        rank: Rank,
        text: impl Into<String>,
        made: Result<Matrix, Error>,
    ) {
        if let Ok(made) = made {
            self.try_out(kind, rank, text, &made);
        }
    }

    /// What was borne out, the best first.
    fn finish(self) -> Vec<Cause> {
        // Below this, fits differ by rounding alone.
        let limit = self.candidate.limit;
        let noise = if limit > 1e-4 { limit } else { limit * 1e-3 };
        let bucket = |cause: &Cause| (cause.nmse.max(noise).log10() * 2.0).floor() as i64;
        let mut causes = self.causes;
        causes.sort_by_key(|(rank, part, cause)| (!cause.likely, bucket(cause), *rank, *part));
        let best = causes.first().map(|(rank, part, cause)| (*rank, *part, cause.likely));
        let mut reported: Vec<Cause> = Vec::new();
        for (rank, part, cause) in causes {
            let same = |other: &Cause| (other.kind, other.nmse) == (cause.kind, cause.nmse);
            let is_new = reported.iter().all(|other| other.text != cause.text && !same(other));
            let worth = match best {
                // What is borne out makes what is not idle, and so it does with what only describes it, with
                // what holds in a part where it holds everywhere, and with an estimate of the same.
                Some((best, best_part, true)) => {
                    let describes = rank == Rank::Fitted && best < Rank::Fitted;
                    let same = reported.iter().any(|other| other.kind == cause.kind) && rank > best;
                    cause.likely && !describes && part <= best_part && !same
                }
                _ => true,
            };
            if is_new && worth && reported.len() < MOST {
                reported.push(cause);
            }
        }
        reported
    }
}

/// The causes that the evidence supports, the best first.
pub(crate) fn find(candidate: &Candidate<'_>) -> Vec<Cause> {
    if let Some(cause) = general::not_finite(candidate) {
        return vec![cause];
    }
    let mut diagnosis = Diagnosis::new(candidate);
    general::plain(&mut diagnosis);
    match candidate.call.op {
        Op::Embed { table } => embed::diagnose(&mut diagnosis, table),
        Op::Linear { weight, .. } => linear::diagnose(&mut diagnosis, weight),
        Op::RmsNorm { weight, eps, .. } => norm::diagnose(&mut diagnosis, weight, eps),
        Op::Rope { x, rope } => rope::diagnose(&mut diagnosis, x, &rope),
        Op::Attention { store, heads, scale, .. } => attention::diagnose(&mut diagnosis, store, heads, scale),
        Op::Gate { act, .. } => elementwise::gate(&mut diagnosis, act),
        Op::Route { logits, used } => experts::route(&mut diagnosis, logits, used),
        Op::Experts { .. } => experts::diagnose(&mut diagnosis),
        Op::Scale { factor, .. } => elementwise::scale(&mut diagnosis, factor),
        Op::Add { .. } => elementwise::add(&mut diagnosis),
        Op::AddBias { .. } => elementwise::add_bias(&mut diagnosis),
        Op::Input { .. } | Op::OutputRows { .. } => {}
    }
    general::diagnose(&mut diagnosis);
    let mut causes = diagnosis.finish();
    if let Some(cause) = consumed::diagnose(candidate) {
        // Then nothing that is said of this operation is certain.
        causes.iter_mut().for_each(|cause| cause.likely = false);
        causes.insert(0, cause);
        causes.truncate(MOST);
    }
    causes
}
