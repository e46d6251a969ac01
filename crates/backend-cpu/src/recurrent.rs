//! Recurrent operations: convolution and linear attention, with the state that they carry from row to row.
//!
//! A task computes some columns, or one head, for all rows of a sequence in order, so a result depends neither on how the
//! prompt was chunked nor on the rest of the batch. The state of these columns or of this head is contiguous in a slot.

use std::ops::Range;
use std::sync::Mutex;

use backend::{Sequence, Step, lock};
use graph::LinearHeads;

use crate::lanes::{LANES, Lanes, WithSimd};
use crate::memory::Scratch;
use crate::pool::{Cut, Pool, Tile};

pub(crate) const CONV_COLUMNS: usize = 4 * LANES;

/// The state of a task before the first row of its sequence.
enum Before<'a> {
    Zero,
    /// In a slot that the step does not write.
    At(&'a [f32]),
    /// In the slot that the task writes.
    InPlace,
}

pub(crate) struct State<'a> {
    before: Before<'a>,
    /// The state after the last row.
    after: &'a mut [f32],
    /// A number of rows, and the state after them.
    checkpoint: Option<(usize, &'a mut [f32])>,
}

impl State<'_> {
    /// The state before the first row; `None` if it is 0.
    fn before(&self) -> Option<&[f32]> {
        match self.before {
            Before::Zero => None,
            Before::At(state) => Some(state),
            Before::InPlace => Some(self.after),
        }
    }

    /// Where the state after `done` of `rows` rows is stored.
    fn stored(&mut self, done: usize, rows: usize) -> impl Iterator<Item = &mut [f32]> {
        let checkpoint = self.checkpoint.as_mut().filter(|(after, _)| *after == done);
        let last = (done == rows).then_some(&mut *self.after);
        checkpoint.into_iter().map(|(_, state)| &mut **state).chain(last)
    }
}

/// The slots of a recurrent operation, and the step that reads and writes them.
pub(crate) struct Slots<'a> {
    pub(crate) pool: &'a mut Pool,
    /// `[slots][values]`.
    pub(crate) states: &'a mut [f32],
    pub(crate) values: usize,
    pub(crate) step: &'a Step,
}

impl Slots<'_> {
    /// Calls `work` for all tiles of `tile_len` columns of `out`, `[rows, cols]`: with the rows of a sequence, its tile and
    /// the state of these columns.
    pub(crate) fn by_columns(
        &mut self,
        mut out: &mut [f32],
        cols: usize,
        tile_len: usize,
        work: impl Fn(Range<usize>, Tile<'_, f32>, &mut State<'_>) + Sync,
    ) {
        let (step, mut first) = (self.step, 0);
        let states =
            by_task(self.states, self.values, (cols.div_ceil(tile_len), self.values / cols * tile_len), step);
        let cut = |sequence: &Sequence| {
            let matrix = out.split_off_mut(..sequence.len * cols).unwrap_or_default();
            let rows = first..first + sequence.len;
            first = rows.end;
            (rows, Cut { matrix, cols, tile: (sequence.len, tile_len) })
        };
        let (rows, cuts): (Vec<_>, Vec<_>) = step.sequences().iter().map(cut).unzip();
        self.pool.tiles_of(cuts, |number, tile| {
            let task = tile.cols().start / tile_len;
            work(rows[number].clone(), tile, &mut lock(&states[number][task]));
        });
    }
}

/// Splits the slots of `states`, each of `values` values, by sequence and by task, of up to `task_index` values.
fn by_task<'a>(
    states: &'a mut [f32],
    values: usize,
    (tasks, task_index): (usize, usize),
    step: &Step,
) -> Vec<Vec<Mutex<State<'a>>>> {
    let mut slots: Vec<Option<&mut [f32]>> = states.chunks_exact_mut(values.max(1)).map(Some).collect();
    let mut take = |slot: u32| slots.get_mut(slot as usize).and_then(Option::take).unwrap_or_default();
    let taken = |sequence: &Sequence| {
        let checkpoint = sequence.slots.checkpoint.map(|(rows, slot)| (rows, take(slot)));
        (take(sequence.slots.write), checkpoint)
    };
    let written: Vec<_> = step.sequences().iter().map(taken).collect();
    // Several sequences may read a slot that none writes.
    let others: Vec<Option<&[f32]>> = slots.into_iter().map(|slot| slot.map(|slot| &*slot)).collect();
    let mut states = Vec::with_capacity(written.len());
    for (sequence, (mut after, mut checkpoint)) in step.sequences().iter().zip(written) {
        let before = others.get(sequence.slots.read as usize).copied().flatten();
        let sequence_tasks = (0..tasks).map(|task| {
            let range = task * task_index..values.min((task + 1) * task_index);
            let first = |state: &mut &'a mut [f32]| state.split_off_mut(..range.len()).unwrap_or_default();
            let before = match before {
                _ if sequence.n_past == 0 => Before::Zero,
                Some(state) => Before::At(&state[range.clone()]),
                None => Before::InPlace,
            };
            let checkpoint = checkpoint.as_mut().map(|(rows, state)| (*rows, first(state)));
            Mutex::new(State { before, after: first(&mut after), checkpoint })
        });
        states.push(sequence_tasks.collect());
    }
    states
}

/// A task of a convolution: see [`graph::Op::Conv`]. Its state is `[taps - 1][columns]`.
pub(crate) struct Convolve<'a, 't, 's> {
    /// The rows of the sequence, `[rows, cols]`.
    pub(crate) x: &'a [f32],
    pub(crate) cols: usize,
    /// `[cols, taps]`.
    pub(crate) weight: &'a [f32],
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) tile: Tile<'t, f32>,
    pub(crate) state: &'a mut State<'s>,
}

impl WithSimd for Convolve<'_, '_, '_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, _: L) {
        let Convolve { x, cols, weight, bias, mut tile, state } = self;
        let (columns, rows, taps) = (tile.cols(), tile.rows(), weight.len() / cols);
        let (width, before) = (columns.len(), (taps - 1) * columns.len());
        let mut scratch = Scratch::take();
        let scratch: &mut [f32] = bytemuck::cast_slice_mut(scratch.lines((2 * taps * width).div_ceil(LANES)));
        let (weights, history) = scratch.split_at_mut(taps * width);
        for (c, column_taps) in
            weight[columns.start * taps..columns.end * taps].chunks_exact(taps).enumerate()
        {
            for (j, &w) in column_taps.iter().enumerate() {
                weights[j * width + c] = w;
            }
        }
        match state.before() {
            Some(state) => history[..before].copy_from_slice(state),
            None => history[..before].fill(0.0),
        }
        let history = &history[..before];
        // Row `i` of the rows before and those of the step.
        let source = |i: usize| match i.checked_sub(taps - 1) {
            None => &history[i * width..][..width],
            Some(row) => &x[row * cols + columns.start..][..width],
        };
        for row in 0..rows.len() {
            let y = tile.row(rows.start + row);
            match bias {
                Some(bias) => y.copy_from_slice(&bias[columns.clone()]),
                None => y.fill(0.0),
            }
            for (j, weights) in weights.chunks_exact(width).enumerate() {
                for ((y, &w), &x) in y.iter_mut().zip(weights).zip(source(row + j)) {
                    *y += w * x;
                }
            }
            for stored in state.stored(row + 1, rows.len()) {
                for (i, stored) in stored.chunks_exact_mut(width).enumerate() {
                    stored.copy_from_slice(source(row + 1 + i));
                }
            }
        }
    }
}

/// A task of a linear attention, one head of one sequence: see [`graph::Op::LinearAttention`]. Its state is `[k_dim][v_dim]`.
pub(crate) struct LinearHead<'a, 't, 's> {
    /// `q`, `k`, `v`, `decay` and `beta` of the rows of the sequence.
    pub(crate) inputs: [&'a [f32]; 5],
    pub(crate) skip: f32,
    pub(crate) heads: LinearHeads,
    pub(crate) k_dim: usize,
    pub(crate) tile: Tile<'t, f32>,
    pub(crate) state: &'a mut State<'s>,
}

impl WithSimd for LinearHead<'_, '_, '_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(mut self, lanes: L) {
        let v_dim = self.tile.cols().len();
        let mut column = 0;
        while column + LANES < v_dim {
            self.columns::<L, 2>(lanes, column..v_dim.min(column + 2 * LANES));
            column += 2 * LANES;
        }
        if column < v_dim {
            self.columns::<L, 1>(lanes, column..v_dim);
        }
    }
}

/// One row of the state for `16 * R` columns.
type StateRow<const R: usize> = [[f32; LANES]; R];

impl LinearHead<'_, '_, '_> {
    /// Computes up to `16 * R` columns of the head for all rows.
    #[inline(always)]
    fn columns<L: Lanes, const R: usize>(&mut self, lanes: L, columns: Range<usize>) {
        let LinearHead { inputs: [q, k, v, decay, beta], skip, heads, k_dim, .. } = *self;
        let (tile, state) = (&mut self.tile, &mut *self.state);
        let (v_dim, rows) = (tile.cols().len(), tile.rows());
        let head = tile.cols().start / v_dim;
        let mut scratch = Scratch::take();
        let vectors: &mut [[f32; LANES]] = bytemuck::cast_slice_mut(scratch.lines(k_dim * R));
        let lines: &mut [StateRow<R>] = vectors.as_chunks_mut().0;
        for (i, line) in lines.iter_mut().enumerate() {
            *line = [[0.0; LANES]; R];
            if let Some(before) = state.before() {
                let before = &before[i * v_dim..][columns.clone()];
                line.as_flattened_mut()[..before.len()].copy_from_slice(before);
            }
        }
        for row in 0..rows.len() {
            let head_index = row * heads.heads + head;
            let k_start = (row * heads.k_heads + heads.k_head(head)) * k_dim;
            let (q, k) = (&q[k_start..][..k_dim], &k[k_start..][..k_dim]);
            let mut y = [[0.0; LANES]; R];
            y.as_flattened_mut()[..columns.len()].copy_from_slice(&v[head_index * v_dim..][columns.clone()]);
            let factors =
                Factors { decay: decay[head_index].exp(), beta: beta[head_index], skip, scale: heads.scale };
            if heads.is_delta {
                next_row::<L, R, true>(lanes, lines, (q, k), factors, &mut y);
            } else {
                next_row::<L, R, false>(lanes, lines, (q, k), factors, &mut y);
            }
            let y = &y.as_flattened()[..columns.len()];
            tile.row(rows.start + row)[columns.clone()].copy_from_slice(y);
            for stored in state.stored(row + 1, rows.len()) {
                for (stored, line) in stored.chunks_exact_mut(v_dim).zip(&*lines) {
                    stored[columns.clone()].copy_from_slice(&line.as_flattened()[..columns.len()]);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Factors {
    decay: f32,
    beta: f32,
    skip: f32,
    scale: f32,
}

/// Updates the state with a row, whose value is `y`, and replaces `y` by the row's result.
///
/// Two sums of each product, over even and odd elements of the key, hide the latency of additions.
#[inline(always)]
fn next_row<L: Lanes, const R: usize, const DELTA: bool>(
    lanes: L,
    state: &mut [StateRow<R>],
    (q, k): (&[f32], &[f32]),
    factors: Factors,
    y: &mut StateRow<R>,
) {
    let [decay, beta] = [factors.decay, factors.beta].map(|factor| lanes.splat(factor));
    let zeros = [[lanes.splat(0.0); R]; 2];
    let (even, odd) = (k.len() / 2 * 2, k.len());
    let mut known = zeros;
    if DELTA {
        for i in (0..even).step_by(2) {
            known[0] = decayed(lanes, &mut state[i], k[i], decay, known[0]);
            known[1] = decayed(lanes, &mut state[i + 1], k[i + 1], decay, known[1]);
        }
        for i in even..odd {
            known[0] = decayed(lanes, &mut state[i], k[i], decay, known[0]);
        }
    }
    // The state is already multiplied by its factor.
    let decay = if DELTA { lanes.splat(1.0) } else { decay };
    let mut added = [lanes.splat(0.0); R];
    for r in 0..R {
        let known = lanes.mul(lanes.add(known[0][r], known[1][r]), lanes.splat(-1.0));
        added[r] = lanes.mul(beta, lanes.add(lanes.load_f32(&y[r]), known));
    }
    let mut sums = zeros;
    for i in (0..even).step_by(2) {
        sums[0] = updated::<L, R, DELTA>(lanes, &mut state[i], (q[i], k[i]), (decay, added), sums[0]);
        sums[1] =
            updated::<L, R, DELTA>(lanes, &mut state[i + 1], (q[i + 1], k[i + 1]), (decay, added), sums[1]);
    }
    for i in even..odd {
        sums[0] = updated::<L, R, DELTA>(lanes, &mut state[i], (q[i], k[i]), (decay, added), sums[0]);
    }
    for r in 0..R {
        let skipped = lanes.mul(lanes.splat(factors.skip), lanes.load_f32(&y[r]));
        let sum = lanes.add(sums[0][r], sums[1][r]);
        lanes.store_f32(lanes.mul_add(lanes.splat(factors.scale), sum, skipped), &mut y[r]);
    }
}

/// Multiplies a row of the state by its factor; returns its product with an element of the key, added to `known`.
#[inline(always)]
fn decayed<L: Lanes, const R: usize>(
    lanes: L,
    state: &mut StateRow<R>,
    k: f32,
    decay: L::Floats,
    mut known: [L::Floats; R],
) -> [L::Floats; R] {
    for r in 0..R {
        let decayed = lanes.mul(decay, lanes.load_f32(&state[r]));
        lanes.store_f32(decayed, &mut state[r]);
        known[r] = lanes.mul_add(lanes.splat(k), decayed, known[r]);
    }
    known
}

/// Updates a row of the state; returns `sums` plus the new row times `q`.
#[inline(always)]
fn updated<L: Lanes, const R: usize, const DELTA: bool>(
    lanes: L,
    state: &mut StateRow<R>,
    (q, k): (f32, f32),
    (decay, added): (L::Floats, [L::Floats; R]),
    mut sums: [L::Floats; R],
) -> [L::Floats; R] {
    for r in 0..R {
        let before = lanes.load_f32(&state[r]);
        let before = if DELTA { before } else { lanes.mul(decay, before) };
        let after = lanes.mul_add(lanes.splat(k), added[r], before);
        lanes.store_f32(after, &mut state[r]);
        sums[r] = lanes.mul_add(lanes.splat(q), after, sums[r]);
    }
    sums
}
