//! Passes of recurrent operations: convolution and linear attention, with their state.

use backend::{Error, Remedy};
use gpu::{BufferId, Each, F32, Grid, out_of_memory};
use graph::{LinearHeads, Op, ValueId, WeightId};

use crate::compile::Compiler;
use crate::kernels::{self, Kernel};

/// Columns of a workgroup of `conv.wgsl` and of `linear_attention.wgsl`.
const CONV_COLS: usize = 64;
const LINEAR_COLS: usize = 32;

/// Most elements per column of the state that a workgroup holds: four threads have up to 128 each.
const MAX_STATE: usize = 512;

/// A kernel with its parameters and buffers, and workgroups per sequence.
type KernelCall = (Kernel, Vec<u32>, Vec<BufferId>, usize);

impl Compiler<'_> {
    pub(crate) fn recurrent(&mut self, op: Op, y: ValueId) -> Result<(), Error> {
        let (kernel, params, buffers, groups) = if let Op::Conv { x, weight, bias } = op {
            self.conv(x, weight, bias, y)?
        } else {
            self.linear_attention(op, y)?
        };
        let cost = self.recurrent_cost(&op, y);
        let launch = self.launch(kernel, params, buffers, Grid { groups, each: Each::Sequence }, cost);
        self.dispatch_always(y, launch);
        Ok(())
    }

    fn conv(
        &mut self,
        x: ValueId,
        weight: WeightId,
        bias: Option<WeightId>,
        y: ValueId,
    ) -> Result<KernelCall, Error> {
        let (taps, cols) = (self.bound.weight(weight).cols, self.cols(y));
        if taps > MAX_STATE {
            let what = "the taps of a convolution, which must fit in registers";
            return Err(out_of_memory(what, (taps * F32) as u64, Remedy::UseCpu));
        }
        let mut buffers = vec![self.slot(y), self.slot(x), BufferId::State(y), self.vector(weight)];
        buffers.extend(bias.map(|bias| self.vector(bias)));
        let mut params = [self.at(x), self.at(y)].as_flattened().to_vec();
        params.extend([cols as u32, self.inputs.sequences as u32, 0, 0]);
        let kernel = Kernel::Conv { taps, biased: bias.is_some() };
        Ok((kernel, params, buffers, cols.div_ceil(CONV_COLS)))
    }

    fn linear_attention(&mut self, op: Op, y: ValueId) -> Result<KernelCall, Error> {
        let Op::LinearAttention { q, k, v, decay, beta, skip, heads } = op else {
            unreachable!("a recurrent operation")
        };
        let LinearHeads { heads, k_heads, is_tiled, scale, is_delta } = heads;
        let (k_dim, v_dim) = (self.cols(k) / k_heads, self.cols(y) / heads);
        if k_dim > MAX_STATE {
            let what = "a column of the state of linear attention, which must fit in registers";
            return Err(out_of_memory(what, (k_dim * F32) as u64, Remedy::UseCpu));
        }
        let inputs = [q, k, v, decay, beta];
        let mut params: Vec<u32> = inputs.iter().chain([&y]).flat_map(|&x| self.at(x)).collect();
        params.extend([heads as u32, k_heads as u32, scale.to_bits(), self.inputs.sequences as u32]);
        let skip = skip.map_or_else(Vec::new, |skip| self.bound.weight(skip).vector());
        params.extend(skip.iter().map(|factor| factor.to_bits()));
        params.resize(params.len().next_multiple_of(4), 0);
        let mut buffers = vec![self.slot(y)];
        buffers.extend(inputs.map(|x| self.slot(x)));
        buffers.push(BufferId::State(y));
        let skips = skip.len().div_ceil(4);
        let kernel = kernels::LinearAttention { k_dim, v_dim, delta: is_delta, tiled: is_tiled, skips };
        Ok((Kernel::LinearAttention(kernel), params, buffers, heads * v_dim.div_ceil(LINEAR_COLS)))
    }
}
