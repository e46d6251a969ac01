//! Compiles a plan to launches and buffers, without touching device memory.
//!
//! [`Blueprint`] holds everything but the buffers themselves, so that memory requirements are known before anything
//! is allocated.

use std::collections::HashMap;

use backend::{BoundProgram, Error, Remedy, Taps, Transfer};
use graph::{Index, Rows, ValueId, WeightId};
use passes::{
    Cost, Inputs, Pass, Plan, Purpose, Readback, Variant, chosen_words, kernel_name, out_of_memory,
};

use crate::decode;
use crate::driver::{Device, PLACES, allocated_size};
use crate::launch::{BufferId, BufferPlan, Cluster, Each, F32, Grid, LaunchPlan, Work};
use crate::model::ModelPlan;

/// Most blocks of a launch in its second dimension: rows of a step, and entries of lists of experts.
const MAX_BLOCKS: usize = 65535;

/// Threads per block, where a kernel says nothing else.
pub(crate) const THREADS: u32 = 256;

/// A buffer with the offset and stride of a value in it.
pub(crate) type Operand = (BufferId, [u32; 2]);

/// A compiled graph. Nothing is allocated on the device yet.
pub(crate) struct Blueprint {
    pub(crate) bound: BoundProgram,
    /// The first ones are the plan's slots.
    pub(crate) buffers: Vec<BufferPlan>,
    pub(crate) work: Vec<Work<LaunchPlan>>,
    pub(crate) inputs: Inputs,
    /// Indices of the buffers of step inputs, and of those of chosen tokens or candidates, by place.
    pub(crate) uploaded: [usize; PLACES],
    pub(crate) chosen: [usize; PLACES],
    pub(crate) readbacks: Vec<Readback>,
    /// Words of the staging memory.
    pub(crate) staged: usize,
    /// Whether steps may choose tokens or candidates: whether the graph's output is logits.
    pub(crate) chooses: bool,
}

/// Buffers shared by all passes, each as large as the most demanding pass needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Partial results of split attention, and counters of finished splits.
    pub(crate) parts: Option<usize>,
    pub(crate) counters: Option<usize>,
    /// Roped queries for flash attention.
    pub(crate) roped: Option<usize>,
    /// f16 activation rows for tensor cores, and a factor per row.
    pub(crate) f16_rows: Option<usize>,
    pub(crate) f16_scales: Option<usize>,
    /// Outputs of the experts' gate and up projections, and of their down projections.
    pub(crate) hidden: Option<usize>,
    pub(crate) downs: Option<usize>,
    /// Rows grouped by experts.
    pub(crate) groups: Option<usize>,
    /// Gate and up of a linear unit whose weights have two formats.
    pub(crate) gates: Option<usize>,
    /// Lists of the experts that each row uses.
    pub(crate) lists: Vec<usize>,
}

pub(crate) struct Compiler<'a> {
    pub(crate) device: &'a Device,
    pub(crate) model: &'a ModelPlan,
    pub(crate) bound: &'a BoundProgram,
    pub(crate) plan: Plan,
    pub(crate) buffers: Vec<BufferPlan>,
    vectors: HashMap<WeightId, BufferId>,
    pub(crate) inputs: Inputs,
    pub(crate) scratch: Scratch,
    pub(crate) work: Vec<Work<LaunchPlan>>,
}

impl Blueprint {
    /// Compiles `bound` for the weight and cache layouts of `model`.
    pub(crate) fn new(
        device: &Device,
        model: &ModelPlan,
        bound: BoundProgram,
        taps: Taps<'_>,
    ) -> Result<Blueprint, Error> {
        let plan = Plan::new(&bound, 0);
        let most_used = plan.lists.iter().map(|list| list.used).fold(1, usize::max);
        let rows = bound.bucket().rows;
        if rows.saturating_mul(most_used) > MAX_BLOCKS {
            let what = "activations of more rows than a launch can have";
            return Err(out_of_memory(what, rows.saturating_mul(F32) as u64, Remedy::SmallerBatch));
        }
        let inputs = Inputs::new(&bound, decode::splits(device, &bound)?).with_draws(bound.bucket().outputs);
        let mut compiler = Compiler {
            device,
            model,
            bound: &bound,
            plan,
            buffers: Vec::new(),
            vectors: HashMap::new(),
            inputs,
            scratch: Scratch::default(),
            work: Vec::new(),
        };
        for slot in compiler.plan.slots.clone() {
            let rows = bound.bucket().count(slot.rows).max(1);
            compiler.buffer(Purpose::Activations, rows * slot.cols * F32);
        }
        for list in compiler.plan.lists.clone() {
            let bytes = bound.bucket().count(list.rows).max(1) * list.words() * F32;
            let list = compiler.buffer(Purpose::Activations, bytes);
            compiler.scratch.lists.push(list);
        }
        let output = bound.output();
        let is_tapped = taps.contains(&bound.value(output).name);
        let bytes = compiler.inputs.words.len() * F32;
        let uploaded = [(); PLACES].map(|()| compiler.buffer(Purpose::Inputs, bytes));
        let chooses = bound.value(output).rows == Rows::Output;
        let bytes = bound.bucket().outputs * chosen_words(Transfer::Candidates) * F32;
        let chosen = [(); PLACES].map(|()| compiler.buffer(Purpose::Activations, bytes));
        let (mut readbacks, mut staged) = (Vec::new(), 0);
        for pass in compiler.plan.passes.clone() {
            compiler.pass(&pass)?;
            for id in pass.makes().into_iter().filter(|&id| bound.is_readable(id)) {
                let readback = Readback::new(&bound, &compiler.plan, id, staged, is_tapped);
                let words = bound.bucket().count(compiler.plan.slots[readback.slot].rows) * readback.stride;
                compiler.work.push(Work::Readback(readbacks.len()));
                readbacks.push(readback);
                staged += words;
            }
        }
        if chooses {
            compiler.choose(output);
        }
        let Compiler { buffers, work, inputs, .. } = compiler;
        Ok(Blueprint { bound, buffers, work, inputs, uploaded, chosen, readbacks, staged, chooses })
    }

    /// Size of all buffers on the device in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| allocated_size(buffer.bytes)).sum()
    }
}

impl Compiler<'_> {
    fn pass(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { y } => {
                let location = self.plan.location(y);
                let stride = self.plan.slots[location.slot].cols;
                let (col, cols) = (location.col, self.cols(y));
                self.work.push(Work::Input { buffer: location.slot, col, cols, stride });
            }
            Pass::Embed { table, index, y } => self.embed(table, index, y),
            Pass::Linear { x, norm, ref parts, output, ref addend } => {
                self.linear(x, norm, parts, output, addend)?
            }
            Pass::HeadLinear { x, weight, y } => self.head_linear(x, weight, y),
            Pass::Rows { ref op, y } => self.row_wise(op, y)?,
            Pass::Same { .. } => {}
            Pass::Rope { x, ref rope, y } => {
                let launch = self.rope(x, rope, self.slot(y), self.at(y));
                self.dispatch(y, vec![Variant::always(vec![launch])]);
            }
            Pass::Recurrent { op, y } => self.recurrent(op, y)?,
            Pass::Attend(ref attend) => self.attend(attend)?,
            Pass::Route { logits, bias, router, list, y } => self.route(logits, bias, router, list, y)?,
            Pass::Experts(ref experts) => self.experts(experts),
            Pass::AllReduce { y, .. } => {
                let (rows, slot) = (self.bound.value(y).rows, self.plan.location(y).slot);
                let cols = self.plan.slots[slot].cols;
                self.work.push(Work::AllReduce { rows, buffer: slot, cols });
            }
        }
        Ok(())
    }

    /// Adds a buffer that kernels write.
    pub(crate) fn buffer(&mut self, purpose: Purpose, bytes: usize) -> usize {
        self.buffers.push(BufferPlan { purpose, bytes: bytes as u64, words: Vec::new() });
        self.buffers.len() - 1
    }

    /// Adds a buffer with initial contents.
    pub(crate) fn constants(&mut self, words: Vec<u32>) -> BufferId {
        let bytes = (words.len() * F32) as u64;
        self.buffers.push(BufferPlan { purpose: Purpose::Constants, bytes, words });
        BufferId::Own(self.buffers.len() - 1)
    }

    /// A scratch buffer shared by passes, grown to at least `bytes`.
    pub(crate) fn scratch_buffer(
        &mut self,
        of: fn(&mut Scratch) -> &mut Option<usize>,
        purpose: Purpose,
        bytes: usize,
    ) -> BufferId {
        let index = match *of(&mut self.scratch) {
            Some(index) => {
                self.buffers[index].bytes = self.buffers[index].bytes.max(bytes as u64);
                index
            }
            None => self.buffer(purpose, bytes),
        };
        *of(&mut self.scratch) = Some(index);
        BufferId::Own(index)
    }

    pub(crate) fn slot(&self, id: ValueId) -> BufferId {
        BufferId::Own(self.plan.location(id).slot)
    }

    /// Offset and stride of a value in its buffer.
    pub(crate) fn at(&self, id: ValueId) -> [u32; 2] {
        let location = self.plan.location(id);
        [location.col as u32, self.plan.slots[location.slot].cols as u32]
    }

    pub(crate) fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A single-row weight, as f32.
    pub(crate) fn vector(&mut self, id: WeightId) -> BufferId {
        if let Some(&buffer) = self.vectors.get(&id) {
            return buffer;
        }
        let buffer = self.constants(self.bound.weight(id).vector().iter().map(|x| x.to_bits()).collect());
        self.vectors.insert(id, buffer);
        buffer
    }

    pub(crate) fn launch(
        &self,
        kernel: impl Into<String>,
        buffers: Vec<Option<BufferId>>,
        words: Vec<u32>,
        grid: Grid,
        cost: Cost,
    ) -> LaunchPlan {
        let kernel = kernel.into();
        let (shared, shared_of_warp) = (0, 0);
        LaunchPlan {
            kernel,
            buffers,
            words,
            grid,
            threads: THREADS,
            shared,
            shared_of_warp,
            cluster: Cluster { most: 1, grid: 1 },
            cost,
        }
    }

    pub(crate) fn dispatch(&mut self, y: ValueId, variants: Vec<Variant<LaunchPlan>>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(y).rows, variants });
    }

    /// Rows of a value in the largest step of the bucket.
    pub(crate) fn max_rows_of(&self, id: ValueId) -> usize {
        self.bound.bucket().count(self.bound.value(id).rows)
    }

    /// Index of the word in the step inputs that holds the number of rows.
    pub(crate) fn row_count_word(&self, id: ValueId) -> u32 {
        match self.bound.value(id).rows {
            Rows::Step => 0,
            Rows::Output => 1,
        }
    }

    fn embed(&mut self, table: WeightId, index: Index, y: ValueId) {
        // Tokens may be those that the step before has chosen.
        let (rows, before) = match index {
            Index::Token => (self.inputs.tokens, Some(BufferId::ChosenBefore)),
            Index::Position => (self.inputs.positions, None),
        };
        let matrix = self.model.matrix(table);
        let [at, stride] = self.at(y);
        let cols = self.cols(y);
        let mut words = vec![rows as u32, self.row_count_word(y), at, stride, cols as u32];
        words.push(self.bound.weight(table).rows as u32);
        let (pitch, is_paired) = matrix.pitch_and_pairs();
        words.extend([pitch, u32::from(is_paired)]);
        let kernel = format!("{}/embed", kernel_name(matrix.layout.format));
        let cost = Cost::row("embed", stride as usize * F32 * 2);
        let grid = Grid::rows(cols.div_ceil(4 * THREADS as usize));
        let inputs = before.map(|_| BufferId::Inputs);
        let buffers = vec![inputs, before, Some(BufferId::Weight(table)), Some(self.slot(y))];
        let launch = self.launch(kernel, buffers, words, grid, cost);
        self.dispatch(y, vec![Variant::always(vec![launch])]);
    }
}

/// A grid of one block for everything.
pub(crate) const ONE_BLOCK: Grid = Grid { groups: 1, each: Each::Step };
