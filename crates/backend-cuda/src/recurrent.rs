//! Passes of recurrent operations: convolution and linear attention, with their state.

use backend::{Error, Remedy};
use graph::{LinearHeads, Op, ValueId, WeightId};
use passes::{Cost, Variant, out_of_memory};

use crate::compile::Compiler;
use crate::launch::{BufferId, Each, F32, Grid, LaunchPlan};

/// Columns of a block of `conv`, and of `linear_attention`.
const CONV_COLS: usize = 32;
const LINEAR_COLS: usize = 32;

/// Threads of `linear_attention`.
const LINEAR_THREADS: u32 = 128;

/// Most taps of each kernel of a convolution.
const TAPS: [usize; 4] = [4, 8, 16, 512];

/// Elements of a column of the state of linear attention that each kernel's threads have: a quarter.
const QUARTERS: [usize; 4] = [16, 32, 64, 128];

impl Compiler<'_> {
    /// A convolution or a linear attention with result `y`.
    pub(crate) fn recurrent(&mut self, op: Op, y: ValueId) -> Result<(), Error> {
        // Each sequence reads and writes its state; there is at least one.
        let values = self.bound.graph().state_len(y);
        let cols: usize = op.inputs().chain([y]).map(|x| self.cols(x)).sum();
        let cost = Cost {
            what: op.name().to_owned(),
            bytes: (2 * values * F32) as u64,
            row_bytes: (cols * F32) as u64,
            row_multiply_adds: (3 * values) as u64,
            ..Cost::default()
        };
        let launch = if let Op::Conv { x, weight, bias } = op {
            self.conv(x, weight, bias, y, cost)?
        } else {
            self.linear_attention(op, y, cost)?
        };
        self.dispatch(y, vec![Variant::always(vec![launch])]);
        Ok(())
    }

    fn conv(
        &mut self,
        x: ValueId,
        weight: WeightId,
        bias: Option<WeightId>,
        y: ValueId,
        cost: Cost,
    ) -> Result<LaunchPlan, Error> {
        let (taps, cols) = (self.bound.weight(weight).cols, self.cols(y));
        let Some(most) = TAPS.into_iter().find(|&most| taps <= most) else {
            let what = "the taps of a convolution, which must fit in the memory of a thread";
            return Err(out_of_memory(what, (taps * F32) as u64, Remedy::UseCpu));
        };
        let buffers = vec![
            Some(self.slot(y)),
            Some(self.slot(x)),
            Some(BufferId::State(y)),
            Some(self.vector(weight)),
            bias.map(|bias| self.vector(bias)),
        ];
        let mut words = [self.at(x), self.at(y)].as_flattened().to_vec();
        words.extend([cols as u32, taps as u32, self.inputs.sequences as u32]);
        let grid = Grid { groups: cols.div_ceil(CONV_COLS), each: Each::Sequence };
        Ok(self.launch(format!("recurrent/conv_{most}"), buffers, words, grid, cost))
    }

    fn linear_attention(&mut self, op: Op, y: ValueId, cost: Cost) -> Result<LaunchPlan, Error> {
        let Op::LinearAttention { q, k, v, decay, beta, skip, heads } = op else {
            unreachable!("a recurrent operation")
        };
        let LinearHeads { heads, k_heads, is_tiled, scale, is_delta } = heads;
        let (k_dim, v_dim) = (self.cols(k) / k_heads, self.cols(y) / heads);
        let Some(quarter) = QUARTERS.into_iter().find(|&quarter| k_dim <= 4 * quarter) else {
            let what = "a column of the state of linear attention, which must fit in registers";
            return Err(out_of_memory(what, (k_dim * F32) as u64, Remedy::UseCpu));
        };
        let inputs = [q, k, v, decay, beta];
        let mut buffers = vec![Some(self.slot(y))];
        buffers.extend(inputs.map(|x| Some(self.slot(x))));
        buffers.extend([Some(BufferId::State(y)), skip.map(|skip| self.vector(skip))]);
        let mut words: Vec<u32> = inputs.iter().chain([&y]).flat_map(|&x| self.at(x)).collect();
        words.extend([heads as u32, k_heads as u32, scale.to_bits(), self.inputs.sequences as u32]);
        words.extend([k_dim as u32, v_dim as u32, u32::from(is_delta), u32::from(is_tiled)]);
        let grid = Grid { groups: heads * v_dim.div_ceil(LINEAR_COLS), each: Each::Sequence };
        let launch = self.launch(format!("recurrent/linear_attention_{quarter}"), buffers, words, grid, cost);
        Ok(LaunchPlan { threads: LINEAR_THREADS, ..launch })
    }
}
