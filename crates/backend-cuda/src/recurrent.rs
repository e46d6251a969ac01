//! Passes of recurrent operations: convolution and linear attention, with their state.

use backend::{Error, Remedy};
use gpu::{BufferId, Cost, Each, F32, Grid, out_of_memory};
use graph::{LinearHeads, Op, ValueId, WeightId};

use crate::arguments::{ConvArgs, LinearAttentionArgs};
use crate::compile::Compiler;
use crate::launch::LaunchPlan;

/// Columns of a block of `conv`, and of `linear_attention`.
const CONV_COLS: usize = 32;
const LINEAR_COLS: usize = 32;

const LINEAR_THREADS: u32 = 128;

/// Most taps of each kernel of a convolution.
const TAPS: [usize; 4] = [4, 8, 16, 512];

/// Elements of a column of the state of linear attention that each kernel's threads have: a quarter.
const QUARTERS: [usize; 4] = [16, 32, 64, 128];

impl Compiler<'_> {
    pub(crate) fn recurrent(&mut self, op: Op, y: ValueId) -> Result<(), Error> {
        let cost = self.recurrent_cost(&op, y);
        let launch = if let Op::Conv { x, weight, bias } = op {
            self.conv(x, weight, bias, y, cost)?
        } else {
            self.linear_attention(op, y, cost)?
        };
        self.dispatch_always(y, launch);
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
        let args = ConvArgs {
            y: self.slot(y).into(),
            x: self.slot(x).into(),
            state: BufferId::State(y).into(),
            weight: self.vector(weight).into(),
            bias: bias.map(|bias| self.vector(bias)).into(),
            x_at: self.at(x),
            y_at: self.at(y),
            cols: cols as u32,
            taps: taps as u32,
            sequences: self.inputs.sequences as u32,
        };
        let grid = Grid { groups: cols.div_ceil(CONV_COLS), each: Each::Sequence };
        Ok(self.launch(format!("recurrent/conv_{most}"), args, grid, cost))
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
        let args = LinearAttentionArgs {
            y: self.slot(y).into(),
            q: self.slot(q).into(),
            k: self.slot(k).into(),
            v: self.slot(v).into(),
            decay: self.slot(decay).into(),
            beta: self.slot(beta).into(),
            state: BufferId::State(y).into(),
            skip: skip.map(|skip| self.vector(skip)).into(),
            q_at: self.at(q),
            k_at: self.at(k),
            v_at: self.at(v),
            decay_at: self.at(decay),
            beta_at: self.at(beta),
            y_at: self.at(y),
            heads: heads as u32,
            k_heads: k_heads as u32,
            scale,
            sequences: self.inputs.sequences as u32,
            k_dim: k_dim as u32,
            v_dim: v_dim as u32,
            is_delta: u32::from(is_delta),
            is_tiled: u32::from(is_tiled),
        };
        let grid = Grid { groups: heads * v_dim.div_ceil(LINEAR_COLS), each: Each::Sequence };
        let launch = self.launch(format!("recurrent/linear_attention_{quarter}"), args, grid, cost);
        Ok(LaunchPlan { threads: LINEAR_THREADS, ..launch })
    }
}
