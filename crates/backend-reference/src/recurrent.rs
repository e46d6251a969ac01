//! Recurrent operations and the state that they carry from row to row.

use backend::{BoundModel, Error, Sequence, Step};
use graph::{LinearHeads, ValueId};

use crate::sums::f64s;

/// The state of one operation: `[slot][values]`.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) states: Vec<f32>,
    values: usize,
}

impl Slots {
    pub(crate) fn new(model: &BoundModel, id: ValueId) -> Result<Slots, Error> {
        Ok(Slots { states: model.zeroed_state(id)?, values: model.graph().state_len(id) })
    }

    /// The state before the first row of `sequence`.
    fn read(&self, sequence: &Sequence) -> Vec<f32> {
        let state = || self.states[sequence.slots.read as usize * self.values..][..self.values].to_vec();
        if sequence.n_past == 0 { vec![0.0; self.values] } else { state() }
    }

    /// Stores the state after the first `rows` rows of `sequence`, if its slots include that.
    fn write(&mut self, sequence: &Sequence, rows: usize, state: impl Fn() -> Vec<f32>) {
        let checkpoint = sequence.slots.checkpoint.filter(|(after, _)| *after == rows).map(|(_, slot)| slot);
        let last = (rows == sequence.len).then_some(sequence.slots.write);
        for slot in checkpoint.into_iter().chain(last) {
            self.states[slot as usize * self.values..][..self.values].copy_from_slice(&state());
        }
    }
}

/// Convolves the columns of `x`, `[rows, cols]`, with the rows of `weight`, `[cols, taps]`.
pub(crate) fn convolve(
    out: &mut [f32],
    x: &[f32],
    (weight, bias): (&[f32], Option<&[f32]>),
    cols: usize,
    step: &Step,
    slots: &mut Slots,
) {
    let (taps, mut first) = (weight.len() / cols, 0);
    for sequence in step.sequences() {
        let mut rows = slots.read(sequence);
        rows.extend_from_slice(&x[first * cols..(first + sequence.len) * cols]);
        for row in 0..sequence.len {
            for (c, y) in out[(first + row) * cols..][..cols].iter_mut().enumerate() {
                let products = (0..taps)
                    .map(|j| f64::from(weight[c * taps + j]) * f64::from(rows[(row + j) * cols + c]));
                *y = (bias.map_or(0.0, |bias| f64::from(bias[c])) + products.sum::<f64>()) as f32;
            }
            let after = (row + 1) * cols..(row + taps) * cols;
            slots.write(sequence, row + 1, || rows[after.clone()].to_vec());
        }
        first += sequence.len;
    }
}

/// The inputs of a linear attention: `q`, `k`, `v`, `decay` and `beta`, each `[rows, columns]`.
pub(crate) struct LinearAttention<'a> {
    pub(crate) inputs: [&'a [f32]; 5],
    pub(crate) skip: Option<Vec<f32>>,
    pub(crate) heads: LinearHeads,
    /// Columns of a head of `k` and of `v`.
    pub(crate) dims: [usize; 2],
}

impl LinearAttention<'_> {
    pub(crate) fn compute(&self, out: &mut [f32], step: &Step, slots: &mut Slots) {
        let LinearHeads { heads, .. } = self.heads;
        let ([k_dim, v_dim], mut row) = (self.dims, 0);
        for sequence in step.sequences() {
            let mut states = f64s(&slots.read(sequence));
            for done in 1..=sequence.len {
                for (head, state) in states.chunks_exact_mut(k_dim * v_dim).enumerate() {
                    self.update(state, row, head, &mut out[(row * heads + head) * v_dim..][..v_dim]);
                }
                slots.write(sequence, done, || states.iter().map(|&value| value as f32).collect());
                row += 1;
            }
        }
    }

    /// Updates the state of a head, `[k_dim, v_dim]`, with one row, and computes the row's result.
    fn update(&self, state: &mut [f64], row: usize, head: usize, out: &mut [f32]) {
        let LinearHeads { heads, k_heads, scale, is_delta, .. } = self.heads;
        let ([q, k, v, decay, beta], [k_dim, v_dim]) = (self.inputs, self.dims);
        let k_row = (row * k_heads + self.heads.k_head(head)) * k_dim;
        let [q, k] = [q, k].map(|x| f64s(&x[k_row..][..k_dim]));
        let v = f64s(&v[(row * heads + head) * v_dim..][..v_dim]);
        let [decay, beta] = [decay, beta].map(|x| f64::from(x[row * heads + head]));
        let product = |state: &[f64], x: &[f64], column: usize| -> f64 {
            state.iter().skip(column).step_by(v_dim).zip(x).map(|(s, x)| s * x).sum()
        };
        state.iter_mut().for_each(|s| *s *= decay.exp());
        for (column, v) in v.iter().enumerate() {
            let known = if is_delta { product(state, &k, column) } else { 0.0 };
            for (s, k) in state.iter_mut().skip(column).step_by(v_dim).zip(&k) {
                *s += k * beta * (v - known);
            }
            let skip = self.skip.as_ref().map_or(0.0, |skip| f64::from(skip[head]));
            out[column] = (f64::from(scale) * product(state, &q, column) + skip * v) as f32;
        }
    }
}
