//! Compiles a plan to launches, without touching device memory.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use backend::{BoundProgram, Error, Remedy, Taps, Transfer};
use gpu::{
    BufferId, Compiler as Common, Cost, F32, Grid, Inputs, Lower, Pass, Plan, Purpose, RowWise, chosen_words,
    kernel_name, out_of_memory,
};
use graph::{Index, ValueId, WeightId};

use crate::arguments::{Arguments, EmbedArgs, Pointer};
use crate::decode;
use crate::driver::{Device, IN_FLIGHT, allocated_size};
use crate::launch::{Cluster, LaunchPlan};
use crate::model::ModelPlan;

/// Most blocks of a launch in its second dimension: rows of a step, and entries of lists of experts.
const MAX_BLOCKS: usize = 65535;

/// Threads per block, where a kernel says nothing else.
pub(crate) const THREADS: u32 = 256;

pub(crate) struct Blueprint {
    pub(crate) common: gpu::Blueprint<LaunchPlan>,
    /// Indices of the buffers of step inputs, and of those of chosen tokens or candidates, by step in flight.
    pub(crate) uploaded: [usize; IN_FLIGHT],
    pub(crate) chosen: [usize; IN_FLIGHT],
    /// Whether the graph's output is logits, so that steps may choose tokens or candidates.
    pub(crate) chooses: bool,
}

pub(crate) struct Compiler<'a> {
    common: Common<'a, LaunchPlan>,
    pub(crate) device: &'a Device,
    pub(crate) model: &'a ModelPlan,
}

impl<'a> Deref for Compiler<'a> {
    type Target = Common<'a, LaunchPlan>;

    fn deref(&self) -> &Common<'a, LaunchPlan> {
        &self.common
    }
}

impl<'a> DerefMut for Compiler<'a> {
    fn deref_mut(&mut self) -> &mut Common<'a, LaunchPlan> {
        &mut self.common
    }
}

impl Blueprint {
    pub(crate) fn new(
        device: &Device,
        model: &ModelPlan,
        bound: &BoundProgram,
        taps: Taps<'_>,
    ) -> Result<Blueprint, Error> {
        let plan = Plan::new(bound, 0);
        let most_used = plan.lists.iter().map(|list| list.used).fold(1, usize::max);
        let rows = bound.bucket().rows;
        if rows.saturating_mul(most_used) > MAX_BLOCKS {
            let what = "activations of more rows than a launch can have";
            return Err(out_of_memory(what, rows.saturating_mul(F32) as u64, Remedy::SmallerBatch));
        }
        let outputs = bound.bucket().outputs;
        let inputs = Inputs::new(bound, decode::splits(device, bound)?).with_draws(outputs);
        let mut compiler = Compiler { common: Common::new(bound, plan, 0, inputs), device, model };
        let bytes = compiler.inputs.words.len() * F32;
        let uploaded = [(); IN_FLIGHT].map(|()| compiler.buffer(Purpose::Inputs, bytes));
        let bytes = outputs * chosen_words(Transfer::Candidates) * F32;
        let chosen = [(); IN_FLIGHT].map(|()| compiler.buffer(Purpose::Activations, bytes));
        let readbacks = compiler.passes(taps, 0)?;
        let chooses = compiler.has_logits();
        Ok(Blueprint { common: compiler.common.finish(readbacks), uploaded, chosen, chooses })
    }

    /// Size of all buffers on the device in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.common.buffers.iter().map(|buffer| allocated_size(buffer.bytes)).sum()
    }
}

impl<'a> Lower<'a> for Compiler<'a> {
    type Launch = LaunchPlan;

    fn launches(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { .. } | Pass::Same { .. } => {}
            Pass::Embed { table, index, y } => self.embed(table, index, y),
            Pass::Linear { x, norm, ref parts, output, ref addend } => {
                self.linear(x, norm, parts, output, addend)
            }
            Pass::HeadLinear { x, weight, y } => self.head_linear(x, weight, y),
            Pass::Rows { ref op, y } => {
                let row = RowWise::new(self, op);
                let launch = self.row_wise(op.name(), &row, self.operand(y), self.cols(y));
                self.dispatch_always(y, launch);
            }
            Pass::Rope { x, ref rope, y } => self.rope(x, rope, y),
            Pass::Recurrent { op, y } => self.recurrent(op, y)?,
            Pass::Attend(ref attend) => self.attend(attend)?,
            Pass::Route { logits, bias, router, list, y } => self.route(logits, bias, router, list, y)?,
            Pass::Experts(ref experts) => self.experts(experts),
            Pass::AllReduce { y, .. } => self.sum_over_ranks(y),
        }
        Ok(())
    }

    fn choose(&mut self, output: ValueId) {
        self.choose_tokens(output);
    }
}

impl Compiler<'_> {
    pub(crate) fn launch(
        &self,
        kernel: impl Into<String>,
        args: impl Arguments + 'static,
        grid: Grid,
        cost: Cost,
    ) -> LaunchPlan {
        LaunchPlan {
            kernel: kernel.into(),
            args: Arc::new(args),
            grid,
            threads: THREADS,
            shared: 0,
            shared_per_warp: 0,
            cluster: Cluster { most: 1, grid: 1 },
            cost,
        }
    }

    fn embed(&mut self, table: WeightId, index: Index, y: ValueId) {
        // Tokens may be those that the step before has chosen.
        let (indices, inputs, before) = match index {
            Index::Token => (self.inputs.tokens, Pointer::Inputs, Pointer::ChosenBefore),
            Index::Position => (self.inputs.positions, Pointer::Null, Pointer::Null),
        };
        let matrix = self.model.matrix(table);
        let (y_at, cols) = (self.at(y), self.cols(y));
        let (pitch, is_paired) = matrix.pitch_and_pairs();
        let args = EmbedArgs {
            inputs,
            before,
            table: BufferId::Weight(table, 0).into(),
            y: self.slot(y).into(),
            indices: indices as u32,
            rows: self.row_count_word(y),
            y_at,
            cols: cols as u32,
            table_rows: self.bound.weight(table).rows as u32,
            pitch,
            is_paired: u32::from(is_paired),
        };
        let kernel = format!("{}/embed", kernel_name(matrix.layout.format));
        let cost = Cost::row("embed", y_at[1] as usize * F32 * 2);
        let launch = self.launch(kernel, args, Grid::rows(cols.div_ceil(4 * THREADS as usize)), cost);
        self.dispatch_always(y, launch);
    }
}
