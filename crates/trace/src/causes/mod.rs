//! Why a value is wrong: hypotheses, each an alternative computation on the recorded inputs, whose result is compared with the
//! recorded one. They name no operation, but vary what it reports about itself: another value or weight is read, in another order,
//! at another position, or not at all. Patterns in the result are the same for all operations (`result.rs`).
//!
//! A hypothesis that explains the recorded value within the one-operation limit is likely; one that explains much of the error is
//! possible. Not reported are others, those that zero or a factor would explain as well, and those that few wrong elements support.

mod diagnosis;
mod operands;
mod parameters;
mod positions;
mod result;
pub(crate) mod words;

use graph::ValueId;
use serde::Serialize;

use crate::judge::{Region, Rounding};
use crate::metrics::{difference, ratio};
use crate::oracle::Call;
use crate::{Matrix, Oracle};

pub(crate) use words::head_dim;

use diagnosis::Diagnosis;

/// A possible cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The kind of mistake, for programs, such as `wrong-input`.
    pub kind: &'static str,
    /// What to check, for people.
    pub text: String,
    /// NMSE of the value against the result of this mistake.
    pub nmse: f64,
    /// The part of the error that it explains, from 0 to 1.
    pub explained: f64,
    /// Whether it explains the value within the limit of one operation.
    pub likely: bool,
}

impl Cause {
    /// A cause that needs no hypothesis.
    pub(crate) fn certain(kind: &'static str, text: String) -> Cause {
        Cause { kind, text, nmse: 0.0, explained: 1.0, likely: true }
    }
}

/// A value that is wrong although its inputs are given.
pub(crate) struct Candidate<'a> {
    pub(crate) oracle: Oracle<'a>,
    pub(crate) id: ValueId,
    pub(crate) call: Call,
    pub(crate) inputs: Vec<Matrix>,
    pub(crate) found: Matrix,
    pub(crate) expected: Matrix,
    /// The position of the first of these rows; a large value is not held whole.
    pub(crate) first: usize,
    /// Where these rows are wrong, counted from the first.
    pub(crate) region: Region,
    pub(crate) place: &'a str,
    pub(crate) limit: f64,
    pub(crate) rounding: Rounding,
    /// These rows of any recorded value.
    pub(crate) recorded: &'a dyn Fn(ValueId) -> Option<Matrix>,
    /// These rows of an input by its index, computed again although they were recorded.
    pub(crate) again: &'a dyn Fn(usize) -> Option<Matrix>,
}

impl Candidate<'_> {
    fn name(&self, id: ValueId) -> &str {
        &self.oracle.graph.value(id).name
    }

    fn ids(&self) -> Vec<ValueId> {
        self.call.op.inputs().collect()
    }

    fn with_input(&self, slot: usize, input: Matrix) -> Vec<Matrix> {
        let mut inputs = self.inputs.clone();
        inputs[slot] = input;
        inputs
    }

    fn head_dim(&self) -> Option<usize> {
        head_dim(&self.oracle, self.id)
    }

    /// Squared error of `made` over the whole value.
    fn error(&self, made: &Matrix) -> f64 {
        made.data.iter().zip(&self.found.data).map(|(&a, &b)| difference(a, b).powi(2)).sum()
    }

    /// Squared error of `made` over the wrong region.
    fn region_error(&self, made: &Matrix) -> f64 {
        self.region.sum(|r, c| difference(made.at(r, c), self.found.at(r, c)).powi(2))
    }

    fn energy(&self, of: &Matrix) -> f64 {
        self.region.sum(|r, c| f64::from(of.at(r, c)).powi(2))
    }

    /// A matrix with the elements of `inside` in the wrong region, or in the whole heads of the region if that fits better, and with
    /// the expected elements elsewhere.
    fn only_in_region(&self, inside: &Matrix) -> Matrix {
        let mixed = |cols: &[usize]| {
            let mut mixed = self.expected.clone();
            for &r in &self.region.rows {
                cols.iter().for_each(|&c| mixed.data[r * mixed.cols + c] = inside.at(r, c));
            }
            mixed
        };
        let only = mixed(&self.region.cols);
        let Some(dim) = self.head_dim() else { return only };
        let in_head = |c: &usize| self.region.cols.iter().any(|wrong| wrong / dim == c / dim);
        let heads = mixed(&(0..self.expected.cols).filter(in_head).collect::<Vec<_>>());
        if self.error(&heads) < self.error(&only) { heads } else { only }
    }
}

/// The causes that the elements support, the best first.
pub(crate) fn find(candidate: &Candidate<'_>) -> Vec<Cause> {
    if let Some(cause) = result::not_finite(candidate) {
        return vec![cause];
    }
    let mut diagnosis = Diagnosis::new(candidate);
    result::plain(&mut diagnosis);
    operands::diagnose(&mut diagnosis);
    parameters::diagnose(&mut diagnosis);
    if candidate.call.op.is_positional() {
        positions::diagnose(&mut diagnosis);
    }
    result::diagnose(&mut diagnosis);
    let mut causes = diagnosis.finish();
    // Then no cause in this operation is likely.
    if let Some(cause) = input_differs(candidate) {
        causes.iter_mut().for_each(|cause| cause.likely = false);
        causes.insert(0, cause);
        causes.truncate(diagnosis::MOST);
    }
    causes
}

/// An input that the operation read otherwise than it was recorded: written over before, or wrong within its limit. Computed
/// again, it changes the result in the same direction as the error and by as much.
fn input_differs(s: &Candidate<'_>) -> Option<Cause> {
    s.ids().into_iter().enumerate().find_map(|(slot, id)| {
        let made = s.oracle.run(&s.call, &s.with_input(slot, (s.again)(slot)?)).ok()?;
        let less = |table: &Matrix, r, c| f64::from(table.at(r, c)) - f64::from(s.expected.at(r, c));
        let along = s.region.sum(|r, c| less(&s.found, r, c) * less(&made, r, c));
        let part = along / s.region.sum(|r, c| less(&s.found, r, c).powi(2));
        let name = s.name(id);
        (0.5..1.5).contains(&part).then(|| Cause {
            kind: "input-differs",
            text: format!(
                "its input `{name}` is recorded otherwise than this operation read it: computed again, \
                 `{name}` accounts for the error. Either it was written over before it was recorded, or it \
                 is itself wrong within its limit, or this operation is"
            ),
            nmse: ratio(s.region_error(&made), s.energy(&s.expected)),
            explained: part.min(1.0),
            likely: false,
        })
    })
}
