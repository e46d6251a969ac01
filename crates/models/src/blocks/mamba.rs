//! Mamba 2 (Dao and Gu 2024): a selective state space, which is linear attention with a decay per row and head.

use graph::{Activation, LinearHeads, NormKind, Op, ValueId};

use super::{GraphContext, Linear, Mixer};
use crate::{Error, Keys};

static OUTPUT: Linear = Linear { tensor: "ssm_out", name: "ssm_out", biased: ["ssm_out_mm", "ssm_out"] };

#[derive(Clone, Debug)]
pub(crate) struct Mamba {
    inner: usize,
    heads: usize,
    /// Groups of heads, which share keys and queries (B and C) of `state` columns.
    groups: usize,
    state: usize,
    taps: usize,
    eps: f32,
}

impl Mamba {
    pub(crate) fn read(keys: &mut Keys<'_>, eps: f32) -> Result<Mamba, Error> {
        let inner = keys.size("ssm.inner_size", "the columns of all heads")?;
        let heads = keys.size("ssm.time_step_rank", "the number of heads")?;
        let groups = keys.size("ssm.group_count", "the number of groups of heads")?;
        let state = keys.size("ssm.state_size", "the columns of the state of a head's column")?;
        if !inner.is_multiple_of(heads) {
            let expected = format!("a divisor of the {inner} inner columns");
            return Err(keys.bad("ssm.time_step_rank", heads, expected));
        }
        if !heads.is_multiple_of(groups) {
            return Err(keys.bad("ssm.group_count", groups, format!("a divisor of the {heads} heads")));
        }
        let taps = keys.size("ssm.conv_kernel", "the rows that a convolution spans")?;
        Ok(Mamba { inner, heads, groups, state, taps, eps })
    }
}

impl Mixer for Mamba {
    fn output(&self, _: usize) -> (&'static Linear, usize) {
        (&OUTPUT, self.inner)
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let Mamba { inner, heads, groups, state, taps, eps } = *self;
        let (keys, hidden) = (groups * state, ctx.hidden());
        let mixed = inner + 2 * keys;
        let all = inner + mixed + heads;
        let [z, xbc, dt] = [("z", 0..inner), ("xBC", inner..inner + mixed), ("dt_raw", inner + mixed..all)]
            .map(|(name, rows)| {
                let weight = ctx.g.weight_rows(format!("blk.{il}.ssm_in.weight"), all, rows, hidden);
                ctx.linear((name, il), x, weight)
            });
        let kernel = ctx.g.weight(format!("blk.{il}.ssm_conv1d.weight"), mixed, taps);
        let bias = ctx.in_layers("ssm_conv1d.bias");
        let bias = bias.then(|| ctx.g.weight(format!("blk.{il}.ssm_conv1d.bias"), 1, mixed));
        let xbc = ctx.g.conv(("xBC_conv", il), xbc, kernel, bias);
        let xbc = ctx.g.act(("xBC_silu", il), xbc, Activation::Silu);
        let [v, k, q] = [("x", 0..inner), ("B", inner..inner + keys), ("C", inner + keys..mixed)]
            .map(|(name, cols)| ctx.g.slice((name, il), xbc, 1, cols));

        let bias = ctx.g.weight(format!("blk.{il}.ssm_dt.bias"), 1, heads);
        let dt = ctx.g.add_bias(("dt_biased", il), dt, bias);
        let beta = ctx.g.act(("dt", il), dt, Activation::Softplus);
        let [rate, skip] = ["ssm_a", "ssm_d"].map(|name| ctx.g.weight(format!("blk.{il}.{name}"), heads, 1));
        let decay = ctx.g.mul_weight(("decay", il), beta, rate);

        let heads = LinearHeads { heads, k_heads: groups, is_tiled: false, scale: 1.0, is_delta: false };
        let y = Op::LinearAttention { q, k, v, decay, beta, skip: Some(skip), heads };
        let y = ctx.g.op(("mamba2_y_add_d", il), y); // [rows, inner]
        let y = ctx.g.gate(("mamba2_y_gated", il), z, y, Activation::Silu);
        if !ctx.in_layers("ssm_norm.weight") {
            return y;
        }
        let width = inner / groups;
        let weight = ctx.g.weight(format!("blk.{il}.ssm_norm.weight"), groups, width);
        ctx.g.norm(("mamba2_y_normed", il), y, NormKind::Rms, width, Some(weight), eps)
    }
}
