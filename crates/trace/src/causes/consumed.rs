//! Whether an operation read its inputs as they were recorded.
//!
//! A value may be overwritten after it was read or before it was recorded, or be wrong within its limit. Then the operation
//! that reads it seems wrong; its input, computed again, changes the result in the same direction and by as much.

use std::ops::Range;

use super::{Candidate, Cause};
use crate::Matrix;
use crate::metrics::ratio;

/// The range of an input's effect relative to the error, if it causes the error.
const PART: Range<f64> = 0.5..1.5;

/// `causes`, after the input that explains the error, if one does: then no cause in this operation is likely.
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
        let made = s.oracle.run(&s.call, &s.with_input(slot, (s.again)(slot)?)).ok()?;
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
