//! A graph as a flat list of phases over a few buffers that values take turns in.

use std::sync::{Arc, Mutex};

use backend::{Bound, Error, Program, Step};
use graph::{Op, Rope, Rows, Value, ValueId, WeightId};

use crate::attention::{Attend, Heads};
use crate::kernels::Kernels;
use crate::kv::Layer;
use crate::packed::activations::{Activations, Form};
use crate::packed::product::DIRECT;
use crate::pool::Tile;
use crate::{Matrix, State, lock};

/// Outputs of a linear layer that one task computes, at least: two strips.
const TILE_COLS: usize = 32;

/// Outputs that one task computes for many rows, at most: the rows are read again for every two strips.
const SLABS: usize = 64;

/// Tasks of a thread, so that one that was late can be helped.
const TASKS: usize = 4;

/// Products that one task of a linear layer computes, at least: fewer are not worth a second thread.
const TILE_PRODUCTS: usize = 1 << 15;

/// Rows that one task of attention computes: as many queries as there are heads to a K/V head for each.
const ATTENTION_ROWS: usize = 8;

/// Rows that one task of the other operations computes.
const TILE_ROWS: usize = 4;

/// A compiled graph.
pub(crate) struct CpuProgram {
    bound: Bound,
    kernels: Kernels,
    state: Arc<Mutex<State>>,
    phases: Vec<Phase>,
    /// For each value of the graph, the buffer it is computed into.
    places: Vec<usize>,
    buffers: Vec<Vec<f32>>,
    /// What linear layers multiply with, by weight.
    matrices: Vec<Option<Arc<Matrix>>>,
    /// The activations that linear layers read, one value's at a time in each form.
    packed: Vec<(Form, Vec<u32>)>,
    /// Norm weights and rope factors as f32, by weight.
    vectors: Vec<Vec<f32>>,
    angles: Vec<Angles>,
}

/// What all threads do together before the next barrier.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Computes a value of the graph.
    Compute(ValueId),
    /// Packs a value in a form, by its place in `packed`, for the linear layers that follow.
    Pack(ValueId, usize),
}

/// Sines and cosines of one kind of rotation, made once a step for all layers.
#[derive(Debug)]
struct Angles {
    rope: Rope,
    /// Angle of each pair at position 1.
    frequencies: Vec<f64>,
    /// `[rows][pairs]` of (cosine, sine).
    turns: Vec<[f32; 2]>,
}

impl CpuProgram {
    /// Compiles `bound`; `matrices` are those of its linear layers, by weight.
    pub(crate) fn new(
        bound: Bound,
        matrices: Vec<Option<Arc<Matrix>>>,
        kernels: Kernels,
        state: Arc<Mutex<State>>,
    ) -> CpuProgram {
        let values = bound.values();
        let mut program = CpuProgram {
            places: Vec::with_capacity(values.len()),
            phases: Vec::new(),
            buffers: Vec::new(),
            packed: Vec::new(),
            matrices,
            vectors: Vec::new(),
            angles: Vec::new(),
            kernels,
            state,
            bound,
        };
        program.plan();
        lock(&program.state).activation_bytes += program.activation_bytes();
        program
    }

    /// Lists the phases and gives every value a buffer: one that a dead value of the same shape leaves,
    /// or a new one.
    fn plan(&mut self) {
        let values = self.bound.values();
        let mut free: Vec<(Rows, usize, usize)> = Vec::new();
        let mut packed: Vec<Option<ValueId>> = Vec::new();
        for (now, value) in values.iter().enumerate() {
            match &value.op {
                Op::Linear { x, weight } => {
                    let form = self.kernels.linear(self.bound.weight(*weight).format).form;
                    let place = self.packed.iter().position(|(other, _)| *other == form);
                    let place = place.unwrap_or_else(|| {
                        self.packed.push((form, Vec::new()));
                        packed.push(None);
                        self.packed.len() - 1
                    });
                    if packed[place] != Some(*x) {
                        self.phases.push(Phase::Pack(*x, place));
                        packed[place] = Some(*x);
                    }
                }
                Op::RmsNorm { weight, .. } => keep_vector(&mut self.vectors, &self.bound, *weight),
                Op::Rope { rope, .. } => {
                    if let Some(factors) = rope.factors {
                        keep_vector(&mut self.vectors, &self.bound, factors);
                    }
                    if !self.angles.iter().any(|angles| angles.rope == *rope) {
                        let factors = rope.factors.map(|id| self.vectors[id.index()].as_slice());
                        self.angles.push(Angles::new(rope.clone(), factors));
                    }
                }
                _ => {}
            }
            self.phases.push(Phase::Compute(ValueId::from_index(now)));
            let shape = (value.rows, value.cols);
            let place = match free.iter().position(|&(rows, cols, _)| (rows, cols) == shape) {
                Some(i) => free.swap_remove(i).2,
                None => {
                    self.buffers.push(Vec::new());
                    self.buffers.len() - 1
                }
            };
            self.places.push(place);
            for &dead in self.bound.dying_at(now) {
                let value = &values[dead];
                free.push((value.rows, value.cols, self.places[dead]));
            }
        }
    }

    /// Bytes the buffers take when the bucket is full.
    fn activation_bytes(&self) -> u64 {
        let bucket = self.bound.bucket();
        let values = |value: &Value| match value.rows {
            Rows::Step => bucket.rows.saturating_mul(value.cols) as u64,
            Rows::Wanted => bucket.wanted.saturating_mul(value.cols) as u64,
        };
        let mut buffers = vec![0; self.buffers.len()];
        for (value, &place) in self.bound.values().iter().zip(&self.places) {
            buffers[place] = values(value);
        }
        let mut packed = vec![0; self.packed.len()];
        for phase in &self.phases {
            if let &Phase::Pack(x, place) = phase {
                let cols = self.bound.value(x).cols;
                let words =
                    values(self.bound.value(x)) / cols as u64 * self.packed[place].0.words(cols) as u64;
                packed[place] = words.max(packed[place]);
            }
        }
        let words = buffers.into_iter().chain(packed).fold(0u64, u64::saturating_add);
        words.saturating_mul(size_of::<f32>() as u64)
    }

    fn result(&self, id: ValueId) -> &[f32] {
        &self.buffers[self.places[id.index()]]
    }
}

/// Keeps a weight of one row as f32.
fn keep_vector(vectors: &mut Vec<Vec<f32>>, bound: &Bound, id: WeightId) {
    if vectors.len() <= id.index() {
        vectors.resize(id.index() + 1, Vec::new());
    }
    let weight = bound.weight(id);
    vectors[id.index()] = vec![0.0; weight.cols];
    weight.format.dequantize(&weight.bytes, &mut vectors[id.index()]);
}

impl Drop for CpuProgram {
    fn drop(&mut self) {
        lock(&self.state).activation_bytes -= self.activation_bytes();
    }
}

impl Program for CpuProgram {
    fn run(&mut self, step: &Step) -> Result<(), Error> {
        let state = self.state.clone();
        let state = &mut *lock(&state);
        self.bound.check(step, state.layout())?;
        for matrix in self.matrices.iter().flatten() {
            matrix.pack(&mut state.pool)?;
        }
        for angles in &mut self.angles {
            angles.turn(step);
        }
        for i in 0..self.phases.len() {
            match self.phases[i] {
                Phase::Pack(x, place) => self.pack(x, place, state),
                Phase::Compute(id) => self.compute(id, step, state),
            }
        }
        Ok(())
    }

    fn output(&self) -> &[f32] {
        self.result(self.bound.output())
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(self.result(self.bound.readable(name)?))
    }
}

impl CpuProgram {
    fn pack(&mut self, x: ValueId, place: usize, state: &mut State) {
        let cols = self.bound.value(x).cols;
        let form = self.packed[place].0;
        let mut words = std::mem::take(&mut self.packed[place].1);
        let x = self.result(x);
        let (rows, of_row) = (x.len() / cols, form.words(cols));
        words.resize(rows * of_row, 0);
        let tile = self.kernels.tile;
        state.pool.tiles(&mut words, of_row, (tile, of_row), |mut tile_of| {
            let rows = tile_of.rows();
            let x = &x[rows.start * cols..rows.end * cols];
            (self.kernels.pack)(x, rows.len(), tile, form, tile_of.whole_rows());
        });
        self.packed[place] = (form, words);
    }

    fn compute(&mut self, id: ValueId, step: &Step, state: &mut State) {
        let place = self.places[id.index()];
        // The buffer leaves its place while it is written; no other value of this phase lies in it.
        let mut out = std::mem::take(&mut self.buffers[place]);
        let value = self.bound.value(id);
        let cols = value.cols;
        let rows = match value.rows {
            Rows::Step => step.tokens().len(),
            Rows::Wanted => step.wanted().len(),
        };
        out.resize(rows * cols, 0.0);
        match &value.op {
            Op::Embed { table } => {
                let table = self.bound.weight(*table);
                by_rows(state, &mut out, cols, |row, y| {
                    table.format.dequantize(table.row(step.tokens()[row] as usize), y);
                });
            }
            Op::Linear { weight, .. } => self.linear(&mut out, *weight, state),
            Op::RmsNorm { x, weight, eps } => {
                let (x, weight) = (self.result(*x), &self.vectors[weight.index()]);
                by_rows(state, &mut out, cols, |row, y| {
                    (self.kernels.rms_norm)(y, &x[row * cols..][..cols], weight, *eps);
                });
            }
            Op::Rope { x, rope } => {
                let x = self.result(*x);
                let angles = self.angles.iter().find(|angles| angles.rope == *rope);
                let angles = angles.expect("the plan has made the angles of every rope");
                by_rows(state, &mut out, cols, |row, y| {
                    let (turns, pairing) = (angles.turns_of(row), angles.rope.pairing);
                    let x = &x[row * cols..][..cols];
                    (self.kernels.rotate)(y, x, angles.rope.head_dim, pairing, turns);
                });
            }
            Op::Attention { q, k, v, layer, heads, kv_heads, scale } => {
                let store = state.kv.as_mut().expect("compiling has checked that there is a store");
                let layer = &mut store.layers[*layer];
                (self.kernels.write_kv)(layer, self.result(*k), self.result(*v), step);
                let q = self.result(*q);
                let at: Vec<_> = step.rows().collect();
                let (rows, heads, kv_heads, scale) = (&at[..], *heads, *kv_heads, *scale);
                let share = cols / kv_heads;
                state.pool.tiles(&mut out, cols, (ATTENTION_ROWS, share), |tile| match &*layer {
                    Layer::F16(store) => {
                        let heads = Heads { store, rows, q, heads, kv_heads, scale };
                        (self.kernels.attend_f16)(Attend { heads, tile });
                    }
                    Layer::F32(store) => {
                        let heads = Heads { store, rows, q, heads, kv_heads, scale };
                        (self.kernels.attend_f32)(Attend { heads, tile });
                    }
                });
            }
            Op::SwiGlu { gate, up } => {
                let (gate, up) = (self.result(*gate), self.result(*up));
                by_rows(state, &mut out, cols, |row, y| {
                    let at = row * cols..(row + 1) * cols;
                    (self.kernels.swiglu)(y, &gate[at.clone()], &up[at]);
                });
            }
            Op::Add { a, b } => {
                let (a, b) = (self.result(*a), self.result(*b));
                by_rows(state, &mut out, cols, |row, y| {
                    for ((y, &a), &b) in y.iter_mut().zip(&a[row * cols..]).zip(&b[row * cols..]) {
                        *y = a + b;
                    }
                });
            }
            Op::TakeRows { x } => {
                let x = self.result(*x);
                for (y, &row) in out.chunks_exact_mut(cols).zip(step.wanted()) {
                    y.copy_from_slice(&x[row as usize * cols..][..cols]);
                }
            }
        }
        self.buffers[place] = out;
    }

    fn linear(&self, out: &mut [f32], weight: WeightId, state: &mut State) {
        if out.is_empty() {
            return;
        }
        let matrix = self.matrices[weight.index()].as_ref().expect("compiling has made it");
        let (linear, weight) = (&matrix.linear, matrix.packed.get().expect("the step has packed it"));
        let (n, cols) = (weight.rows(), weight.cols());
        let rows = out.len() / n;
        let (_, words) = self.packed.iter().find(|(form, _)| *form == linear.form).expect("packed before");
        let x = Activations { words, rows, cols, tile: self.kernels.tile };
        // Whole strips, and enough of them for a task to be worth a second thread.
        let share = n.div_ceil(state.pool.threads() * TASKS).max(TILE_PRODUCTS / (rows * cols));
        let tile =
            (rows, share.next_multiple_of(TILE_COLS).min(if rows > DIRECT { SLABS } else { usize::MAX }));
        state.pool.tiles(out, n, tile, |mut tile: Tile<'_, f32>| (linear.multiply)(weight, x, &mut tile));
    }
}

/// Gives each row of `out` to `work`, a few rows a task.
fn by_rows(state: &mut State, out: &mut [f32], cols: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    state.pool.tiles(out, cols, (TILE_ROWS, cols), |mut tile| {
        for row in tile.rows() {
            work(row, tile.row(row));
        }
    });
}

impl Angles {
    fn new(rope: Rope, factors: Option<&[f32]>) -> Angles {
        let frequency = |i: usize| {
            let factor = factors.map_or(1.0, |factors| f64::from(factors[i]));
            f64::from(rope.scale) * f64::from(rope.theta).powf(-2.0 * i as f64 / rope.dims as f64) / factor
        };
        Angles { frequencies: (0..rope.dims / 2).map(frequency).collect(), turns: Vec::new(), rope }
    }

    /// Makes the turns of the step's rows.
    fn turn(&mut self, step: &Step) {
        self.turns.clear();
        for (_, position) in step.rows() {
            let angles = self.frequencies.iter().map(|frequency| position as f64 * frequency);
            self.turns.extend(angles.map(|angle| [angle.cos() as f32, angle.sin() as f32]));
        }
    }

    /// The turns of row `row` of the step.
    fn turns_of(&self, row: usize) -> &[[f32; 2]] {
        let pairs = self.frequencies.len();
        &self.turns[row * pairs..][..pairs]
    }
}
