//! Values that are copied to the host after a step, and the outputs made of them.

use backend::{BoundProgram, Error, Output, Outputs, Transfer};
use graph::{Rows, ValueId};

use crate::{Location, Plan, StepShape};

/// A value that is copied to the host after a step.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Readback {
    pub id: ValueId,
    /// The slot that holds it once computed.
    pub slot: usize,
    /// Values per row of the slot.
    pub stride: usize,
    /// Column of the value in the slot.
    col: usize,
    /// Offset in the staging memory, in values.
    pub at: usize,
    /// Whether it is the output and not tapped, so that only steps that request logits read it back.
    is_logits: bool,
    values: Vec<f32>,
}

impl Readback {
    /// The readback of value `id` to offset `at` of the staging memory.
    pub fn new(bound: &BoundProgram, plan: &Plan, id: ValueId, at: usize, is_tapped: bool) -> Readback {
        let Location { slot, col } = plan.location(id);
        let is_logits = id == bound.output() && bound.value(id).rows == Rows::Output && !is_tapped;
        Readback { id, slot, stride: plan.slots[slot].cols, col, at, is_logits, values: Vec::new() }
    }

    /// Rows to read back after a step of this shape.
    pub fn rows(&self, bound: &BoundProgram, shape: &StepShape) -> usize {
        if self.is_logits && shape.transfer != Transfer::Logits {
            return 0;
        }
        shape.rows(bound.value(self.id).rows)
    }

    /// Takes its rows after a step of this shape out of the staging memory.
    pub fn take(&mut self, bound: &BoundProgram, shape: &StepShape, staged: &[f32]) {
        let rows = self.rows(bound, shape);
        self.values.clear();
        if rows == 0 {
            return;
        }
        let cols = bound.value(self.id).cols;
        let rows = staged[self.at..].chunks_exact(self.stride).take(rows);
        rows.for_each(|row| self.values.extend_from_slice(&row[self.col..][..cols]));
    }
}

/// The outputs of a step of this shape: what the device has `chosen`, or the rows that have been taken.
pub fn outputs<'a>(
    readbacks: &'a [Readback],
    bound: &BoundProgram,
    shape: &StepShape,
    output_rows: &'a [Output],
    chosen: &'a [u32],
) -> Outputs<'a> {
    let values = |id: ValueId| {
        let readback = readbacks.iter().find(|readback: &&Readback| readback.id == id);
        &*readback.expect("results are read back").values
    };
    let hidden = bound.graph().heads().first();
    let (hidden, cols) = hidden.map_or((&[][..], 0), |&id| (values(id), bound.value(id).cols));
    match shape.transfer {
        Transfer::Tokens | Transfer::Drawn => Outputs::from_tokens(chosen).with_hidden(hidden, cols),
        Transfer::Candidates => Outputs::from_candidates(output_rows, chosen).with_hidden(hidden, cols),
        Transfer::Logits => bound.outputs(output_rows, values),
    }
}

/// Value `name` after a step of this shape ([`backend::Program::read`]).
pub fn read<'a>(
    readbacks: &'a [Readback],
    bound: &BoundProgram,
    shape: &StepShape,
    name: &str,
) -> Result<&'a [f32], Error> {
    let id = bound.readable(name)?;
    let readback = readbacks.iter().find(|readback| readback.id == id);
    let readback = readback.expect("tapped values are read back");
    if readback.is_logits && shape.transfer != Transfer::Logits {
        let why = "was not read back in a step that did not ask for logits; tap it";
        return Err(Error::Value { name: name.to_owned(), why });
    }
    Ok(&readback.values)
}
