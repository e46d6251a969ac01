//! Whether an operation read what was recorded of its inputs.
//!
//! A value may be written over after it was read, or recorded at another time than it was used; and one that
//! is wrong within its limit seems right. Then the operation that reads it seems wrong.
//! The input shows whether that is so: computed again from its own inputs, it moves the result the way in
//! which the result is wrong, and by as much.

use std::ops::Range;

use super::{Candidate, Cause};
use crate::Matrix;
use crate::metrics::ratio;

/// The most and the least that an input's change may be of the error, if it is the error.
const PART: Range<f64> = 0.5..1.5;

/// `causes`, behind the input that accounts for the error, if one does: then nothing that is said of this operation is
/// certain.
pub(super) fn first(s: &Candidate<'_>, mut causes: Vec<Cause>) -> Vec<Cause> {
    if let Some(cause) = input(s) {
        causes.iter_mut().for_each(|cause| cause.likely = false);
        causes.insert(0, cause);
        causes.truncate(super::diagnosis::MOST);
    }
    causes
}

fn input(s: &Candidate<'_>) -> Option<Cause> {
    s.ids().into_iter().enumerate().find_map(|(slot, id)| {
        let made = s.run(&s.call, &s.with_input(slot, (s.again)(slot)?)).ok()?;
        let less = |table: &Matrix, r, c| f64::from(table.at(r, c)) - f64::from(s.expected.at(r, c));
        let along = s.region.sum(|r, c| less(&s.found, r, c) * less(&made, r, c));
        let part = along / s.region.sum(|r, c| less(&s.found, r, c).powi(2));
        let name = s.name(id);
        PART.contains(&part).then(|| Cause {
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
