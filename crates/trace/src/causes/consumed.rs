//! Whether an operation read what was recorded of its inputs.
//!
//! A value may be written over after it was read, or recorded at another time than it was used; and one that
//! is wrong within its limit seems right. Then the operation that reads it is blamed for the difference.
//! Whether that is so, the input tells: computed again from its own inputs, it moves the result the way in
//! which the result is wrong, and by as much.

use std::ops::Range;

use super::{Candidate, Cause};
use crate::Matrix;
use crate::metrics::ratio;

/// The most and the least that an input's change may be of the error, if it is the error.
const PART: Range<f64> = 0.5..1.5;

/// The input that accounts for the error, as the cause that then stands before all others.
pub(super) fn diagnose(s: &Candidate<'_>) -> Option<Cause> {
    s.call.op.inputs().enumerate().find_map(|(slot, id)| {
        let again = (s.again)(slot)?;
        let mut given: Vec<_> = s.inputs.iter().collect();
        given[slot] = &again;
        let made = s.on(&given).ok()?;
        let less = |table: &Matrix, r, c| f64::from(table.at(r, c)) - f64::from(s.expected.at(r, c));
        let along = s.in_region(|r, c| less(&s.found, r, c) * less(&made, r, c));
        let part = along / s.in_region(|r, c| less(&s.found, r, c).powi(2));
        let name = s.name(id);
        PART.contains(&part).then(|| Cause {
            kind: "input-differs",
            text: format!(
                "its input `{name}` is recorded otherwise than this operation read it: computed again, \
                 `{name}` accounts for the error. Either it was written over before it was recorded, or it \
                 is itself wrong within its limit, or this operation is"
            ),
            nmse: ratio(s.region_error(&made), s.in_region(|r, c| f64::from(s.expected.at(r, c)).powi(2))),
            explained: part.min(1.0),
            likely: false,
        })
    })
}
