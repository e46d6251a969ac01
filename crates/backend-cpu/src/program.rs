//! A graph as a flat list of phases over a few buffers that values take turns in.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use backend::{Bound, Error, Program, Step};
use bytemuck::Zeroable;
use graph::{Op, Rope, Rows, ValueId, WeightId};

use crate::attention::{Attend, Heads, TOGETHER};
use crate::kernels::Kernels;
use crate::kv::Layer;
use crate::lanes::LANES;
use crate::memory::{Buffer, Line};
use crate::packed::Packed;
use crate::packed::activations::Activations;
use crate::packed::product::DIRECT;
use crate::plan::{Item, Kind, Plan, words_of};
use crate::pool::{Cut, Tile};
use crate::{Matrix, State, lock};

/// Outputs of a linear layer that one task computes, at least: two strips.
const TILE_COLS: usize = 32;

/// Outputs that one task computes for many rows, at most: what is unpacked of them fills a part of the second-level
/// cache.
const MOST_COLS: usize = 64;

/// Tasks of a thread, so that one that was late can be helped.
const TASKS: usize = 4;

/// Products that one task of a linear layer computes, at least: fewer are not worth a second thread.
const TILE_PRODUCTS: usize = 1 << 15;

thread_local! {
    /// Rows that only their own phase reads, kept from task to task.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// A compiled graph.
pub(crate) struct CpuProgram {
    bound: Bound,
    kernels: Kernels,
    state: Arc<Mutex<State>>,
    plan: Plan,
    /// Those of the plan.
    buffers: Vec<Buffer>,
    /// What linear layers multiply with, by weight.
    matrices: Vec<Option<Arc<Matrix>>>,
    /// Norm weights, biases and rope factors as f32, by weight.
    vectors: Vec<Vec<f32>>,
    angles: Vec<Angles>,
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
        let matrix = |weight: WeightId| matrices[weight.index()].as_ref().expect("compiling has made it");
        let plan = Plan::new(&bound, |weight| matrix(weight).linear.form);
        let (mut vectors, mut angles) = (Vec::new(), Vec::<Angles>::new());
        for value in bound.values() {
            match &value.op {
                Op::RmsNorm { weight, .. } | Op::AddBias { weight, .. } => {
                    keep_vector(&mut vectors, &bound, *weight)
                }
                Op::Rope { rope, .. } => {
                    if let Some(factors) = rope.factors {
                        keep_vector(&mut vectors, &bound, factors);
                    }
                    if !angles.iter().any(|angles| angles.rope == *rope) {
                        let factors = rope.factors.map(|id| vectors[id.index()].as_slice());
                        angles.push(Angles::new(rope.clone(), factors));
                    }
                }
                _ => {}
            }
        }
        let mut buffers = Vec::new();
        buffers.resize_with(plan.buffers.len(), Buffer::default);
        let program = CpuProgram { buffers, plan, matrices, vectors, angles, kernels, state, bound };
        lock(&program.state).activation_bytes += program.activation_bytes();
        program
    }

    /// Bytes the buffers take when the bucket is full.
    fn activation_bytes(&self) -> u64 {
        let bucket = self.bound.bucket();
        let words = self.plan.buffers.iter().map(|shape| match shape.rows {
            Rows::Step => bucket.rows.saturating_mul(shape.words) as u64,
            Rows::Wanted => bucket.wanted.saturating_mul(shape.words) as u64,
        });
        words.fold(0, u64::saturating_add).saturating_mul(size_of::<f32>() as u64)
    }

    fn result(&self, id: ValueId) -> &[f32] {
        self.numbers(Item::Value(id))
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
        for phase in 0..self.plan.phases.len() {
            // The buffers of what is computed leave their places; nothing else that is read lies in them.
            let mut out = self.take(phase, step)?;
            match self.plan.phases[phase].kind {
                Kind::Rows(_) => self.compute_rows(phase, step, state, &mut out),
                Kind::Linear => self.multiply(phase, state, &mut out),
                Kind::Attention => self.attend(phase, step, state, &mut out),
            }
            for (place, buffer) in out {
                self.buffers[place] = buffer;
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

/// Rows of some items of a phase: which rows, and the numbers of each item.
struct Part<'a, 'm> {
    rows: Range<usize>,
    items: &'a [Item],
    numbers: &'a [&'m mut [f32]],
}

impl CpuProgram {
    /// The buffers of the items of a phase, where there are any, for as many rows as the step has.
    ///
    /// # Errors
    /// When the system has no room.
    fn take(&mut self, phase: usize, step: &Step) -> Result<Vec<(usize, Buffer)>, Error> {
        let take = |place: usize| {
            let (shape, mut buffer) = (self.plan.buffers[place], std::mem::take(&mut self.buffers[place]));
            let rows = match shape.rows {
                Rows::Step => step.tokens().len(),
                Rows::Wanted => step.wanted().len(),
            };
            let made = buffer.resize(rows * shape.words).map(|()| (place, buffer));
            made.map_err(|_| Error::OutOfMemory {
                what: "activations",
                bytes: (rows * shape.words * size_of::<f32>()) as u64,
                hint: "use smaller batches",
            })
        };
        let items = &self.plan.phases[phase].items;
        items.iter().filter_map(|&item| self.plan.buffer_of(item)).map(take).collect()
    }

    /// What has been computed of an item that has a buffer.
    fn numbers(&self, item: Item) -> &[f32] {
        let place = self.plan.buffer_of(item).expect("a later phase reads it");
        self.buffers[place].numbers()
    }

    fn compute_rows(&self, phase: usize, step: &Step, state: &mut State, out: &mut [(usize, Buffer)]) {
        let items = &self.plan.phases[phase].items;
        let matrices =
            out.iter_mut().map(|(place, out)| (out.numbers_mut(), self.plan.buffers[*place].words));
        state.pool.rows(matrices.collect(), self.kernels.tile, |rows, stored| {
            let mut scratch = SCRATCH.take();
            let words = |item: Item| rows.len() * words_of(&self.bound, item);
            let passing = items.iter().filter(|&&item| self.plan.buffer_of(item).is_none());
            let lines = |item: Item| words(item).div_ceil(LANES);
            let needed = passing.map(|&item| lines(item)).sum::<usize>();
            scratch.resize(needed.max(scratch.len()), Line::zeroed());
            let (mut stored, mut left) = (stored.iter_mut(), &mut scratch[..]);
            let mut numbers: Vec<&mut [f32]> = Vec::with_capacity(items.len());
            for &item in items {
                numbers.push(match self.plan.buffer_of(item) {
                    Some(_) => stored.next().expect("an item with a buffer"),
                    None => {
                        let here = left.split_off_mut(..lines(item)).expect("as many as needed");
                        &mut bytemuck::cast_slice_mut(here)[..words(item)]
                    }
                });
            }
            for (i, &item) in items.iter().enumerate() {
                let (before, rest) = numbers.split_at_mut(i);
                let part = Part { rows: rows.clone(), items: &items[..i], numbers: before };
                match item {
                    Item::Value(id) => self.compute(id, &part, step, rest[0]),
                    Item::Packed(id, form) => {
                        let (x, words) = (self.rows_of(id, &part), bytemuck::cast_slice_mut(rest[0]));
                        (self.kernels.pack)(x, rows.len(), self.kernels.tile, form, words);
                    }
                }
            }
            SCRATCH.set(scratch);
        });
    }

    /// The rows of a value that are at hand: they have been computed in this phase or an earlier one.
    fn rows_of<'a>(&'a self, id: ValueId, part: &Part<'a, '_>) -> &'a [f32] {
        if let Some(here) = part.items.iter().position(|&item| item == Item::Value(id)) {
            return part.numbers[here];
        }
        let cols = self.bound.value(id).cols;
        &self.result(id)[part.rows.start * cols..part.rows.end * cols]
    }

    /// Computes some rows of a value.
    fn compute(&self, id: ValueId, part: &Part<'_, '_>, step: &Step, out: &mut [f32]) {
        let value = self.bound.value(id);
        let cols = value.cols;
        match &value.op {
            Op::Input => out.copy_from_slice(&step.input()[part.rows.start * cols..part.rows.end * cols]),
            Op::Embed { table } => {
                let (table, tokens) = (self.bound.weight(*table), &step.tokens()[part.rows.clone()]);
                by_rows(out, cols, |row, y| {
                    table.format.dequantize(table.row(tokens[row] as usize), y);
                });
            }
            Op::RmsNorm { x, weight, eps } => {
                let (x, weight) = (self.rows_of(*x, part), &self.vectors[weight.index()]);
                by_rows(out, cols, |row, y| {
                    (self.kernels.rms_norm)(y, &x[row * cols..][..cols], weight, *eps);
                });
            }
            Op::Rope { x, rope } => {
                let x = self.rows_of(*x, part);
                let angles = self.angles.iter().find(|angles| angles.rope == *rope);
                let angles = angles.expect("the angles of every rope have been made");
                by_rows(out, cols, |row, y| {
                    let (turns, pairing) = (angles.turns_of(part.rows.start + row), angles.rope.pairing);
                    let x = &x[row * cols..][..cols];
                    (self.kernels.rotate)(y, x, angles.rope.head_dim, pairing, turns);
                });
            }
            Op::SwiGlu { gate, up } => {
                let (gate, up) = (self.rows_of(*gate, part), self.rows_of(*up, part));
                by_rows(out, cols, |row, y| {
                    let at = row * cols..(row + 1) * cols;
                    (self.kernels.swiglu)(y, &gate[at.clone()], &up[at]);
                });
            }
            Op::Add { a, b } => {
                let (a, b) = (self.rows_of(*a, part), self.rows_of(*b, part));
                by_rows(out, cols, |row, y| {
                    for ((y, &a), &b) in y.iter_mut().zip(&a[row * cols..]).zip(&b[row * cols..]) {
                        *y = a + b;
                    }
                });
            }
            Op::AddBias { x, weight } => {
                let (x, weight) = (self.rows_of(*x, part), &self.vectors[weight.index()]);
                by_rows(out, cols, |row, y| {
                    for ((y, &x), &w) in y.iter_mut().zip(&x[row * cols..]).zip(weight) {
                        *y = x + w;
                    }
                });
            }
            Op::TakeRows { x } => {
                let (x, wanted) = (self.result(*x), &step.wanted()[part.rows.clone()]);
                by_rows(out, cols, |row, y| y.copy_from_slice(&x[wanted[row] as usize * cols..][..cols]));
            }
            Op::Linear { .. } | Op::Attention { .. } => unreachable!("not computed row by row"),
        }
    }

    fn attend(&self, phase: usize, step: &Step, state: &mut State, out: &mut [(usize, Buffer)]) {
        let [Item::Value(id)] = self.plan.phases[phase].items[..] else { unreachable!("one attention") };
        let value = self.bound.value(id);
        let Op::Attention { q, k, v, layer, heads, kv_heads, scale } = &value.op else {
            unreachable!("one attention")
        };
        let (cols, out) = (value.cols, out[0].1.numbers_mut());
        let store = state.kv.as_mut().expect("compiling has checked that there is a store");
        let layer = &mut store.layers[*layer];
        (self.kernels.write_kv)(layer, self.result(*k), self.result(*v), step);
        let q = self.result(*q);
        let at: Vec<_> = step.rows().collect();
        let (rows, heads, kv_heads, scale) = (&at[..], *heads, *kv_heads, *scale);
        // As many queries as pages are widened for, or fewer where there would be too few tasks.
        let fair = rows.len() * kv_heads / (state.pool.threads() * TASKS);
        let tile = (fair.min(TOGETHER * kv_heads / heads).max(1), cols / kv_heads);
        state.pool.tiles(out, cols, tile, |tile| match &*layer {
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

    fn multiply(&self, phase: usize, state: &mut State, out: &mut [(usize, Buffer)]) {
        let items = &self.plan.phases[phase].items;
        let layers: Vec<_> = items.iter().map(|&item| self.linear(item)).collect();
        let all: usize = layers.iter().map(|(_, weight, _)| weight.rows()).sum();
        let cuts = layers.iter().zip(out).map(|((_, weight, x), (_, out))| {
            // Whole strips, and enough of them for a task to be worth a second thread.
            let share =
                all.div_ceil(state.pool.threads() * TASKS).max(TILE_PRODUCTS / (x.rows * x.cols).max(1));
            let most = if x.rows > DIRECT { MOST_COLS } else { usize::MAX };
            let tile = (x.rows.max(1), share.next_multiple_of(TILE_COLS).min(most));
            Cut { matrix: out.numbers_mut(), cols: weight.rows(), tile }
        });
        let cuts: Vec<_> = cuts.collect();
        state.pool.tiles_of(cuts, |number, mut tile: Tile<'_, f32>| {
            let (matrix, weight, x) = &layers[number];
            (matrix.linear.multiply)(weight, *x, &mut tile);
        });
    }

    /// The matrix of a linear layer, the same as kernels read it, and its activations.
    fn linear(&self, item: Item) -> (&Matrix, &Packed, Activations<'_>) {
        let Item::Value(id) = item else { unreachable!("a linear layer") };
        let Op::Linear { x, weight } = self.bound.value(id).op else { unreachable!("a linear layer") };
        let matrix = self.matrices[weight.index()].as_ref().expect("compiling has made it");
        let packed = Item::Packed(x, matrix.linear.form);
        let words = bytemuck::cast_slice(self.numbers(packed));
        let (rows, cols) = (words.len() / words_of(&self.bound, packed), self.bound.value(x).cols);
        let weight = matrix.packed.get().expect("the step has packed it");
        (matrix, weight, Activations { words, rows, cols, tile: self.kernels.tile })
    }
}

/// Gives each row of `out` to `work`.
fn by_rows(out: &mut [f32], cols: usize, mut work: impl FnMut(usize, &mut [f32])) {
    out.chunks_exact_mut(cols).enumerate().for_each(|(row, y)| work(row, y));
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
