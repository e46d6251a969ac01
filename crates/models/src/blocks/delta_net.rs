//! The gated delta net (Yang et al. 2025): linear attention whose state forgets, and replaces what it has for a key.

use graph::{Activation, LinearHeads, NormKind, Op, ValueId};

use super::{GraphContext, Linear, Mixer};
use crate::{Error, Keys};

static OUTPUT: Linear =
    Linear { tensor: "ssm_out", name: "linear_attn_out", biased: ["linear_attn_out_mm", "linear_attn_out"] };

const QKV: Linear = Linear { tensor: "attn_qkv", name: "qkv_mixed", biased: ["qkv_mixed_mm", "qkv_mixed"] };
const GATE: Linear = Linear { tensor: "attn_gate", name: "z", biased: ["z_mm", "z"] };
const BETA: Linear = Linear { tensor: "ssm_beta", name: "beta", biased: ["beta_mm", "beta"] };
const ALPHA: Linear = Linear { tensor: "ssm_alpha", name: "alpha", biased: ["alpha_mm", "alpha"] };

#[derive(Clone, Debug)]
pub(crate) struct DeltaNet {
    /// Value heads and key heads; each head of both has `width` columns.
    heads: usize,
    k_heads: usize,
    width: usize,
    taps: usize,
    /// Value head `h` reads key head `h mod k_heads`, and beta and alpha have matrices of their own. Otherwise a key head's
    /// value heads are neighbours, as are their rows of `ssm_ba`.
    is_tiled: bool,
    eps: f32,
}

impl DeltaNet {
    pub(crate) fn read(keys: &mut Keys<'_>, is_tiled: bool) -> Result<DeltaNet, Error> {
        let heads = keys.size("ssm.time_step_rank", "the number of value heads")?;
        let k_heads = keys.size("ssm.group_count", "the number of key heads")?;
        let width = keys.size("ssm.state_size", "the columns of a head")?;
        let inner = keys.size("ssm.inner_size", "the columns of all value heads")?;
        if !heads.is_multiple_of(k_heads) {
            let expected = format!("a divisor of the {heads} value heads");
            return Err(keys.bad("ssm.group_count", k_heads, expected));
        }
        if inner != heads.saturating_mul(width) {
            let expected = format!("{heads} value heads of {width} columns");
            return Err(keys.bad("ssm.inner_size", inner, expected));
        }
        let taps = keys.size("ssm.conv_kernel", "the rows that a convolution spans")?;
        Ok(DeltaNet { heads, k_heads, width, taps, is_tiled, eps: keys.rms_epsilon()? })
    }

    fn cols(&self) -> [usize; 2] {
        [self.k_heads * self.width, self.heads * self.width]
    }

    /// Queries, keys and values before the convolution, side by side, and the gate of the result.
    fn inputs(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> [ValueId; 2] {
        let ([k_cols, v_cols], hidden) = (self.cols(), ctx.hidden());
        let fused = format!("blk.{il}.ssm_in.weight");
        if !ctx.has(&fused) {
            let mixed = ctx.project(&QKV, il, x, [hidden, 2 * k_cols + v_cols]);
            return [mixed, ctx.project(&GATE, il, x, [hidden, v_cols])];
        }
        // By key head: its query, its key, its value heads and their gates.
        let weight = ctx.g.weight(fused, 2 * (k_cols + v_cols), hidden);
        let all = ctx.linear(("mixed_qkvz", il), x, weight);
        let (width, values) = (self.width, v_cols / self.k_heads);
        let [q, k, v, z] = [
            ("query_mixed", 0, width),
            ("key_mixed", width, width),
            ("value_mixed", 2 * width, values),
            ("z", 2 * width + values, values),
        ]
        .map(|(name, first, len)| ctx.g.slice((name, il), all, self.k_heads, first..first + len));
        let qk = ctx.g.join(("query_key_mixed", il), [q, k], 1, 1);
        [ctx.g.join(("qkv_mixed", il), [qk, v], 1, 1), z]
    }

    /// How much of a row enters the state, and how fast the state decays, before their activations: `[rows, heads]` each.
    fn rates(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> [ValueId; 2] {
        let (heads, hidden) = (self.heads, ctx.hidden());
        if self.is_tiled {
            return [BETA, ALPHA].map(|linear| ctx.project(&linear, il, x, [hidden, heads]));
        }
        let weight = ctx.g.weight(format!("blk.{il}.ssm_ba.weight"), 2 * heads, hidden);
        let both = ctx.linear(("mixed_ba", il), x, weight);
        let share = heads / self.k_heads;
        [("beta", 0), ("alpha", share)]
            .map(|(name, first)| ctx.g.slice((name, il), both, self.k_heads, first..first + share))
    }
}

impl Mixer for DeltaNet {
    fn output(&self, _: usize) -> (&'static Linear, usize) {
        (&OUTPUT, self.cols()[1])
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let DeltaNet { heads, k_heads, width, taps, is_tiled, eps } = *self;
        let [k_cols, v_cols] = self.cols();
        let [mixed, z] = self.inputs(ctx, il, x); // [rows, 2 * k_cols + v_cols], [rows, v_cols]
        let [beta, alpha] = self.rates(ctx, il, x); // [rows, heads] each
        let kernel = ctx.g.weight(format!("blk.{il}.ssm_conv1d.weight"), 2 * k_cols + v_cols, taps);
        let mixed = ctx.g.conv(("conv_output_raw", il), mixed, kernel, None);
        let mixed = ctx.g.act(("conv_output_silu", il), mixed, Activation::Silu);
        let [q, k, v] = [("q_conv", 0, k_cols), ("k_conv", k_cols, k_cols), ("v_conv", 2 * k_cols, v_cols)]
            .map(|(name, first, len)| ctx.g.slice((name, il), mixed, 1, first..first + len));
        let [q, k] = [("q_conv_predelta", q), ("k_conv_predelta", k)]
            .map(|(name, x)| ctx.g.norm((name, il), x, NormKind::L2, width, None, eps));

        let beta = ctx.g.act(("beta_sigmoid", il), beta, Activation::Sigmoid);
        let bias = ctx.g.weight(format!("blk.{il}.ssm_dt.bias"), 1, heads);
        let alpha = ctx.g.add_bias(("alpha_biased", il), alpha, bias);
        let alpha = ctx.g.act(("a_softplus", il), alpha, Activation::Softplus);
        let rate = ctx.g.weight(format!("blk.{il}.ssm_a"), 1, heads);
        let decay = ctx.g.mul_weight(("decay", il), alpha, rate);

        let heads =
            LinearHeads { heads, k_heads, is_tiled, scale: (width as f32).powf(-0.5), is_delta: true };
        let y = Op::LinearAttention { q, k, v, decay, beta, skip: None, heads };
        let y = ctx.g.op(("attn_output", il), y); // [rows, v_cols]
        let y = ctx.head_norm(("attn_out_norm", il), y, "ssm_norm", width);
        ctx.g.gate(("final_output", il), z, y, Activation::Silu)
    }
}
