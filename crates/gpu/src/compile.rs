//! The compiler that backends share: walks the passes of a plan, and collects buffers, launches and readbacks.
//!
//! Nothing is allocated here, so that memory requirements are known before anything is. A backend wraps [`Compiler`] and
//! implements [`Lower`], which makes launches of passes.

use std::collections::HashMap;
use std::ops::DerefMut;

use backend::{BoundProgram, Error, StoreLayout, Taps, Weight};
use graph::{Op, Rope, Rows, StoreId, ValueId, WeightId};

use crate::{
    Addend, Attend, Cost, Experts, Inputs, Location, Part, Pass, Plan, Purpose, Readback, StepShape, Variant,
    max_groups,
};

/// Bytes of a value.
pub const F32: usize = size_of::<f32>();

/// Names a buffer before it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BufferId {
    /// A buffer of the program, by index.
    Own(usize),
    /// A shard of a weight.
    Weight(WeightId, usize),
    /// The keys (0) or values (1) of a store.
    Store(StoreId, usize),
    State(ValueId),
}

/// A buffer of the program.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BufferPlan {
    pub purpose: Purpose,
    pub bytes: u64,
    /// Initial contents; empty for zeros.
    pub words: Vec<u32>,
}

/// A buffer with the offset and stride of a value in it.
pub type Operand = (BufferId, [u32; 2]);

/// Buffers that passes share, each as large as the most demanding pass needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scratch {
    /// Partial results of split attention, and counters of finished splits.
    Parts,
    Counters,
    /// Queries for flash attention.
    Roped,
    /// Activation rows for matrix units, and a factor per row.
    F16Rows,
    F16Scales,
    /// Outputs of the experts' projections into hidden values and out of them.
    Hidden,
    Downs,
    /// Rows by experts.
    Groups,
    /// Gate and up of a gated linear unit whose weights have two formats.
    Gates,
}

impl Scratch {
    fn purpose(self) -> Purpose {
        let is_parts = matches!(self, Scratch::Parts | Scratch::Counters);
        if is_parts { Purpose::AttentionParts } else { Purpose::Activations }
    }
}

/// A unit of work of a step, in order; `L` is a launch, planned or built.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Work<L> {
    /// Launches the first variant that matches the step, for a pass of these rows; the last one matches every step.
    Dispatch { rows: Rows, variants: Vec<Variant<L>> },
    /// Uploads the input rows of a step, before everything else.
    Input(InputRows),
    /// Sums rows of the buffer with this index over the ranks, in place.
    AllReduce { rows: Rows, buffer: usize, cols: usize },
    /// Copies a value to the host, by the index of its [`Readback`].
    Readback(usize),
}

/// Where input rows are stored: index of the buffer, first column, columns, row stride in values.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see above")]
pub struct InputRows {
    pub buffer: usize,
    pub col: usize,
    pub cols: usize,
    pub stride: usize,
}

impl InputRows {
    /// Copies `given` rows to `values`, as they are stored.
    pub fn copy(&self, given: &[f32], values: &mut [f32]) {
        // The last row may have no margin to its right.
        for (row, given) in values.chunks_mut(self.stride).zip(given.chunks_exact(self.cols)) {
            row[self.col..][..self.cols].copy_from_slice(given);
        }
    }
}

impl<L> Work<L> {
    /// The same with each launch built by `build`.
    pub fn build<B, E>(self, mut build: impl FnMut(L) -> Result<B, E>) -> Result<Work<B>, E> {
        Ok(match self {
            Work::Dispatch { rows, variants } => {
                let variants = variants.into_iter().map(|variant| variant.build(&mut build));
                Work::Dispatch { rows, variants: variants.collect::<Result<_, E>>()? }
            }
            Work::Input(input) => Work::Input(input),
            Work::AllReduce { rows, buffer, cols } => Work::AllReduce { rows, buffer, cols },
            Work::Readback(index) => Work::Readback(index),
        })
    }
}

/// Thread blocks of a launch: `groups` for each unit.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see above")]
pub struct Grid {
    pub groups: usize,
    pub each: Each,
}

/// The unit of work that `groups` blocks compute.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Each {
    /// This many rows.
    Rows(usize),
    /// A row and a split of its positions, for this group of stores.
    Part(usize),
    /// A row, whose splits are the blocks of a cluster.
    Cluster(usize),
    /// Of attention.
    Tile,
    Sequence,
    /// An entry of a row's list of experts, of this many.
    Entry(usize),
    /// A tile of rows of one expert ([`max_groups`]).
    Group {
        experts: usize,
        used: usize,
    },
    Step,
}

impl Grid {
    /// One unit per row.
    pub fn rows(groups: usize) -> Grid {
        Grid { groups, each: Each::Rows(1) }
    }

    /// Units for `rows` rows of a step of this shape, and splits of each.
    pub fn units(&self, rows: usize, shape: &StepShape) -> [usize; 2] {
        match self.each {
            Each::Rows(tile) => [rows.div_ceil(tile), 1],
            Each::Part(group) => [rows, shape.splits[group]],
            Each::Cluster(_) => [rows, 1],
            Each::Tile => [shape.tiles, 1],
            Each::Sequence => [shape.sequences, 1],
            Each::Entry(used) => [rows * used, 1],
            Each::Group { experts, used } => [max_groups(rows, experts, used), 1],
            Each::Step => [1, 1],
        }
    }
}

/// A compiled graph. Nothing is allocated on the device yet.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Blueprint<L> {
    pub bound: BoundProgram,
    pub plan: Plan,
    /// The first ones are the plan's slots.
    pub buffers: Vec<BufferPlan>,
    /// Indices of the buffers that passes share.
    pub scratch: HashMap<Scratch, usize>,
    /// Indices of the lists of experts.
    pub lists: Vec<usize>,
    pub work: Vec<Work<L>>,
    pub inputs: Inputs,
    pub readbacks: Vec<Readback>,
    /// Values of the memory that readbacks are copied to.
    pub staged: usize,
}

impl<L> Blueprint<L> {
    /// All launches.
    pub fn launches(&self) -> impl Iterator<Item = &L> {
        let variants = self.work.iter().filter_map(|work| match work {
            Work::Dispatch { variants, .. } => Some(variants),
            Work::Input(_) | Work::AllReduce { .. } | Work::Readback(_) => None,
        });
        variants.flatten().flat_map(|variant| &variant.launches)
    }
}

/// A plan on its way to launches `L`.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Compiler<'a, L> {
    pub bound: &'a BoundProgram,
    pub plan: Plan,
    /// The first ones are the plan's slots.
    pub buffers: Vec<BufferPlan>,
    vectors: HashMap<WeightId, BufferId>,
    scratch: HashMap<Scratch, usize>,
    lists: Vec<usize>,
    pub inputs: Inputs,
    work: Vec<Work<L>>,
}

/// Makes launches of passes.
pub trait Lower<'a>: DerefMut<Target = Compiler<'a, Self::Launch>> {
    /// A planned launch.
    type Launch;

    /// Makes the launches of a pass, if the device has kernels for it.
    fn launches(&mut self, pass: &Pass) -> Result<(), Error>;

    /// Chooses tokens or candidates from the logits `output`, in steps that do not request all logits.
    fn choose(&mut self, output: ValueId);

    /// Compiles all passes, and the readbacks of values, the first one to value `staged` of the memory that they are copied to.
    /// Returns the readbacks and the end of the last one.
    fn passes(&mut self, taps: Taps<'_>, mut staged: usize) -> Result<(Vec<Readback>, usize), Error> {
        let (bound, mut readbacks) = (self.bound, Vec::new());
        let is_tapped = taps.contains(&bound.value(bound.output()).name);
        for pass in self.plan.passes.clone() {
            match pass {
                Pass::Input { y } => {
                    let Location { slot: buffer, col } = self.plan.location(y);
                    let (cols, stride) = (self.cols(y), self.plan.slots[buffer].cols);
                    self.work.push(Work::Input(InputRows { buffer, col, cols, stride }));
                }
                Pass::Same { .. } => {}
                ref pass => self.launches(pass)?,
            }
            for id in pass.makes().into_iter().filter(|&id| bound.is_readable(id)) {
                let readback = Readback::new(bound, &self.plan, id, staged, is_tapped);
                staged += bound.bucket().count(self.plan.slots[readback.slot].rows) * readback.stride;
                self.work.push(Work::Readback(readbacks.len()));
                readbacks.push(readback);
            }
        }
        if self.has_logits() {
            self.choose(bound.output());
        }
        Ok((readbacks, staged))
    }
}

#[expect(missing_docs, reason = "the names say it")]
impl<'a, L> Compiler<'a, L> {
    /// A compiler with buffers for the slots and the lists of experts of `plan`. Slots end without their last `margin` columns.
    pub fn new(bound: &'a BoundProgram, plan: Plan, margin: usize, inputs: Inputs) -> Compiler<'a, L> {
        let count = |rows: Rows| bound.bucket().count(rows).max(1);
        let slots = plan.slots.iter().map(|slot| count(slot.rows) * slot.cols - margin);
        let lists = plan.lists.iter().map(|list| count(list.rows) * list.words());
        let buffer = |words| BufferPlan {
            purpose: Purpose::Activations,
            bytes: (words * F32) as u64,
            words: Vec::new(),
        };
        let buffers: Vec<BufferPlan> = slots.chain(lists).map(buffer).collect();
        let (lists, work) = ((plan.slots.len()..buffers.len()).collect(), Vec::new());
        let (vectors, scratch) = (HashMap::new(), HashMap::new());
        Compiler { bound, plan, buffers, vectors, scratch, lists, inputs, work }
    }

    pub fn finish(self, (readbacks, staged): (Vec<Readback>, usize)) -> Blueprint<L> {
        let Compiler { bound, plan, buffers, scratch, lists, inputs, work, .. } = self;
        let bound = bound.clone();
        Blueprint { bound, plan, buffers, scratch, lists, work, inputs, readbacks, staged }
    }

    /// Whether the graph's output is logits of the output rows.
    pub fn has_logits(&self) -> bool {
        self.bound.value(self.bound.output()).rows == Rows::Output
    }

    /// Adds a buffer that kernels write; returns its index.
    pub fn buffer(&mut self, purpose: Purpose, bytes: usize) -> usize {
        self.buffers.push(BufferPlan { purpose, bytes: bytes as u64, words: Vec::new() });
        self.buffers.len() - 1
    }

    /// Adds a buffer with initial contents.
    pub fn constants(&mut self, words: Vec<u32>) -> BufferId {
        let bytes = (words.len() * F32) as u64;
        self.buffers.push(BufferPlan { purpose: Purpose::Constants, bytes, words });
        BufferId::Own(self.buffers.len() - 1)
    }

    /// A buffer that passes share, grown to at least `bytes`.
    pub fn scratch(&mut self, scratch: Scratch, bytes: usize) -> BufferId {
        let known = self.scratch.get(&scratch).copied();
        let index = known.unwrap_or_else(|| self.buffer(scratch.purpose(), bytes));
        self.buffers[index].bytes = self.buffers[index].bytes.max(bytes as u64);
        self.scratch.insert(scratch, index);
        BufferId::Own(index)
    }

    pub fn list(&self, index: usize) -> BufferId {
        BufferId::Own(self.lists[index])
    }

    pub fn slot(&self, id: ValueId) -> BufferId {
        BufferId::Own(self.plan.location(id).slot)
    }

    /// Offset and stride of a value in its buffer.
    pub fn at(&self, id: ValueId) -> [u32; 2] {
        let location = self.plan.location(id);
        [location.col as u32, self.plan.slots[location.slot].cols as u32]
    }

    pub fn operand(&self, id: ValueId) -> Operand {
        (self.slot(id), self.at(id))
    }

    pub fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A single-row weight, as f32.
    pub fn vector(&mut self, id: WeightId) -> BufferId {
        if let Some(&buffer) = self.vectors.get(&id) {
            return buffer;
        }
        let buffer = self.constants(bits(&self.bound.weight(id).vector()));
        self.vectors.insert(id, buffer);
        buffer
    }

    /// A vector as an operand that is the same for all rows, and its columns.
    pub fn vector_row(&mut self, weight: WeightId) -> (Operand, usize) {
        let Weight { rows, cols, .. } = *self.bound.weight(weight);
        ((self.vector(weight), [0, 0]), rows * cols)
    }

    /// Adds the variants of the pass that computes `y`.
    pub fn dispatch(&mut self, y: ValueId, variants: Vec<Variant<L>>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(y).rows, variants });
    }

    /// Adds the launch that computes `y` in every step.
    pub fn dispatch_always(&mut self, y: ValueId, launch: L) {
        self.dispatch(y, vec![Variant::always(vec![launch])]);
    }

    pub fn sum_over_ranks(&mut self, y: ValueId) {
        let (rows, slot) = (self.bound.value(y).rows, self.plan.location(y).slot);
        self.work.push(Work::AllReduce { rows, buffer: slot, cols: self.plan.slots[slot].cols });
    }

    /// Rows of a value in the largest step of the bucket.
    pub fn max_rows(&self, id: ValueId) -> usize {
        self.bound.bucket().count(self.bound.value(id).rows)
    }

    /// Index of the word in the step inputs that holds the number of rows.
    pub fn row_count_word(&self, id: ValueId) -> u32 {
        if self.bound.value(id).rows == Rows::Step { 0 } else { 1 }
    }

    /// What a matmul pass of `parts` adds, and the offset of each part in it.
    pub fn addend(&mut self, parts: &[Part], addend: &Addend) -> Option<(Operand, Vec<u32>)> {
        let col = |part: &Part| self.plan.location(part.y).col;
        let offsets: Vec<u32> = parts.iter().map(|part| (col(part) - col(&parts[0])) as u32).collect();
        let operand = match addend {
            Addend::None => return None,
            Addend::Residual(id) => self.operand(*id),
            Addend::Biases(biases) => {
                let mut words = Vec::new();
                for ((part, bias), &offset) in parts.iter().zip(biases).zip(&offsets) {
                    words.resize(offset as usize, 0);
                    let zeros = || vec![0.0; self.cols(part.y)];
                    words.extend(bits(&bias.map_or_else(zeros, |bias| self.bound.weight(bias).vector())));
                }
                (self.constants(words), [0, 0])
            }
        };
        Some((operand, offsets))
    }

    /// Biases of the experts' hidden values, one weight after another, then a factor per expert of each product and of the outputs;
    /// and the offset of these factors, if there are any.
    pub fn expert_vectors(&mut self, experts: &Experts) -> (Option<BufferId>, Option<usize>) {
        let vector = |id: WeightId| self.bound.weight(id).vector();
        let mut values: Vec<f32> = experts.hidden.biases().iter().flat_map(|&id| vector(id)).collect();
        let scales = || experts.hidden.scales().iter().copied().chain([experts.scale]);
        let factors = scales().any(|scale| scale.is_some()).then_some(values.len());
        if factors.is_some() {
            let ones = || vec![1.0; self.bound.weight(experts.down).count];
            values.extend(scales().flat_map(|id| id.map_or_else(ones, vector)));
        }
        ((!values.is_empty()).then(|| self.constants(bits(&values))), factors)
    }

    /// Offset, stride, number of heads and head dimension of a value.
    pub fn heads(&self, id: ValueId, heads: usize) -> [u32; 4] {
        let [at, stride] = self.at(id);
        [at, stride, heads as u32, (self.cols(id) / heads) as u32]
    }

    /// Roped columns per head, and the offset of the cos/sin table in the step inputs.
    pub fn rope_table(&self, rope: Option<&Rope>) -> [u32; 2] {
        let table = rope.and_then(|rope| self.inputs.rope_tables.iter().find(|table| table.rope == *rope));
        [rope.map_or(0, |rope| rope.dims as u32), table.map_or(0, |table| table.at as u32)]
    }

    pub fn store(&self, store: StoreId) -> StoreLayout {
        self.bound.model().stores()[store.index()]
    }

    /// Offsets of positions, block tables and blocks in the step inputs.
    pub fn table_offsets(&self, store: StoreId) -> [u32; 3] {
        self.inputs.table_offsets(self.bound.graph().store_group(store))
    }

    /// Cost of attention by the kernel `what`.
    pub fn attention_cost(&self, what: &str, attend: &Attend) -> Cost {
        let layout = self.store(attend.store);
        let graph::Store { heads: kv_heads, k_dim, v_dim, mask } = layout.store;
        let (heads, row_values) = (attend.heads, attend.heads * (k_dim + v_dim));
        Cost {
            what: format!("{what} {heads} heads of {k_dim}, {kv_heads} of K/V"),
            row_bytes: (row_values * F32) as u64,
            position_bytes: (kv_heads * layout.format.row_bytes(&layout.store)) as u64,
            pair_multiply_adds: row_values as u64,
            mask,
            ..Cost::default()
        }
    }

    /// Cost of a convolution or a linear attention. Each sequence reads and writes its state; there is at least one.
    pub fn recurrent_cost(&self, op: &Op, y: ValueId) -> Cost {
        let values = self.bound.graph().state_len(y);
        let cols: usize = op.inputs().chain([y]).map(|x| self.cols(x)).sum();
        Cost {
            what: op.name().to_owned(),
            bytes: (2 * values * F32) as u64,
            row_bytes: (cols * F32) as u64,
            row_multiply_adds: (3 * values) as u64,
            ..Cost::default()
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_follow_the_step() {
        let shape = StepShape { sequences: 3, splits: vec![1, 4], tiles: 5, ..StepShape::default() };
        let units = |each| Grid { groups: 7, each }.units(33, &shape);
        assert_eq!(units(Each::Rows(32)), [2, 1]);
        assert_eq!(units(Each::Part(1)), [33, 4]);
        assert_eq!(units(Each::Cluster(1)), [33, 1]);
        assert_eq!(units(Each::Tile), [5, 1]);
        assert_eq!(units(Each::Sequence), [3, 1]);
        assert_eq!(units(Each::Entry(2)), [66, 1]);
        assert_eq!(units(Each::Step), [1, 1]);
    }
}
