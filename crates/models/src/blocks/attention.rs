//! Causal self-attention (Vaswani et al. 2017) with grouped query heads (Ainslie et al. 2023).

use graph::{Activation, Mask, Op, Pairing, Rope, Score, Store, ValueId, WeightId};

use super::{GraphContext, Linear, Mixer, Scaling, rope};
use crate::{Config, Error, Keys};

pub(crate) static ATTN_OUTPUT: Linear =
    Linear { tensor: "attn_output", name: "attn_out", biased: ["attn_out_mm", "attn_out"] };

const QUERIES: Linear = Linear { tensor: "attn_q", name: "Qcur_pre", biased: ["Qcur_mm", "Qcur_pre"] };
const GATED_QUERIES: Linear =
    Linear { tensor: "attn_q", name: "Qcur_full", biased: ["Qcur_full_mm", "Qcur_full"] };
const KEYS: Linear = Linear { tensor: "attn_k", name: "Kcur_pre", biased: ["Kcur_mm", "Kcur_pre"] };
const VALUES: Linear = Linear { tensor: "attn_v", name: "Vcur", biased: ["Vcur_mm", "Vcur"] };

#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) heads: Vec<usize>,
    pub(crate) kv_heads: Vec<usize>,
    pub(crate) key_length: usize,
    pub(crate) value_length: usize,
    pub(crate) rope: Option<Rope>,
    pub(crate) long_rope: Option<usize>,
    /// Score scale, by default `1 / sqrt(key_length)`.
    pub(crate) scale: f32,
    pub(crate) cap: Option<f32>,
    /// The largest bias of ALiBi.
    pub(crate) alibi: Option<f32>,
    pub(crate) mask: Mask,
    pub(crate) qk_norm: QkNorm,
    /// Queries grow with the position.
    pub(crate) growth: Option<Growth>,
    /// The matrix of queries also has a gate for each, whose sigmoid multiplies the result.
    pub(crate) is_gated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QkNorm {
    None,
    /// Each head is normed before RoPE; all heads share one weight.
    Head,
    /// A whole row is normed before RoPE.
    Row,
    /// Each head is normed after RoPE; all heads share one weight.
    HeadAfterRope,
    /// The same without a weight.
    HeadAfterRopeUnweighted,
}

/// The factor `1 + beta * ln(1 + floor((position + offset) / interval))` of queries (Meta 2025, Llama 4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) beta: f32,
    /// Added to the position.
    pub(crate) offset: f32,
    pub(crate) interval: f32,
}

impl Growth {
    /// The queries `x` of layer `il`: `[rows, cols]`.
    pub(crate) fn apply(self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let Growth { beta, offset, interval } = self;
        ctx.g.op(("Qcur_attn_temp_scaled", il), Op::ScaleByPosition { x, beta, offset, interval })
    }
}

impl Attention {
    /// Reads the common keys; the other parameters get their defaults. `supported` are the family's kinds of RoPE scaling.
    pub(crate) fn read(
        c: &Config,
        keys: &mut Keys<'_>,
        pairing: Pairing,
        supported: &[Scaling],
    ) -> Result<Attention, Error> {
        let heads = keys.sizes("attention.head_count", "the number of query heads")?;
        let kv_heads = keys.sizes_or("attention.head_count_kv", &heads)?;
        Attention::with_heads(c, keys, [heads, kv_heads], pairing, supported)
    }

    /// The same for a family in which layers with 0 KV heads have no attention.
    pub(crate) fn read_hybrid(
        c: &Config,
        keys: &mut Keys<'_>,
        pairing: Pairing,
        supported: &[Scaling],
    ) -> Result<Attention, Error> {
        let heads = keys.sizes("attention.head_count", "the number of query heads")?;
        let kv_heads = keys.counts_per_layer("attention.head_count_kv", heads[0])?;
        Attention::with_heads(c, keys, [heads, kv_heads], pairing, supported)
    }

    fn with_heads(
        c: &Config,
        keys: &mut Keys<'_>,
        [heads, kv_heads]: [Vec<usize>; 2],
        pairing: Pairing,
        supported: &[Scaling],
    ) -> Result<Attention, Error> {
        let hidden = c.embedding_length;
        check_kv_heads(keys, &heads, &kv_heads)?;
        let widths = ["attention.key_length", "attention.value_length"];
        if widths.iter().any(|key| !keys.has(key)) && !hidden.is_multiple_of(heads[0]) {
            let expected = format!(
                "a divisor of embedding_length {hidden}, or keys attention.key_length and attention.value_length"
            );
            return Err(keys.bad("attention.head_count", heads[0], expected));
        }
        let [key_length, value_length] = widths.map(|key| keys.size_or(key, hidden / heads[0]));
        let (key_length, value_length) = (key_length?, value_length?);
        let (rope, long_rope) = rope::read(c, keys, key_length, pairing, supported)?;
        Ok(Attention {
            heads,
            kv_heads,
            key_length,
            value_length,
            rope: Some(rope),
            long_rope,
            scale: 1.0 / (key_length as f32).sqrt(),
            cap: None,
            alibi: None,
            mask: Mask::Causal,
            qk_norm: QkNorm::None,
            growth: None,
            is_gated: false,
        })
    }
}

impl Mixer for Attention {
    fn output(&self, il: usize) -> (&'static Linear, usize) {
        (&ATTN_OUTPUT, self.heads[il] * self.value_length)
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let (heads, kv_heads) = (self.heads[il], self.kv_heads[il]);
        let (gate, [q, k, v]) = self.project(ctx, il, x);
        let (k_dim, v_dim) = (self.key_length, self.value_length);
        let mut q =
            self.norm_and_rope(ctx, il, q, ["Qcur_normed", "Qcur", "Qcur_normed_b"], "attn_q_norm", heads); // [rows, heads * k_dim]
        if let Some(growth) = self.growth {
            q = growth.apply(ctx, il, q);
        }
        let k =
            self.norm_and_rope(ctx, il, k, ["Kcur_normed", "Kcur", "Kcur_normed_b"], "attn_k_norm", kv_heads); // [rows, kv_heads * k_dim]
        let store = ctx.g.store(Store { heads: kv_heads, k_dim, v_dim, mask: self.mask });
        let sinks = "attn_sinks.weight";
        let sinks = ctx.in_layers(sinks).then(|| ctx.g.weight(format!("blk.{il}.{sinks}"), 1, heads));
        let score = Score { scale: self.scale, cap: self.cap, sinks, alibi: self.alibi };
        let Some(gate) = gate else {
            return ctx.g.attention(("kqv_out", il), q, Some([k, v]), store, heads, score);
        };
        let y = ctx.g.attention(("attn_pregate", il), q, Some([k, v]), store, heads, score);
        ctx.g.gate(("attn_gated", il), gate, y, Activation::Sigmoid)
    }
}

impl Attention {
    /// The gate if there is one, and queries, keys and values: each `[rows, heads * columns of a head]`.
    fn project(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> (Option<ValueId>, [ValueId; 3]) {
        let rows = [
            self.heads[il] * self.key_length,
            self.kv_heads[il] * self.key_length,
            self.kv_heads[il] * self.value_length,
        ];
        let linears = [QUERIES, KEYS, VALUES];
        if self.is_gated {
            let (heads, width) = (self.heads[il], self.key_length);
            let both = ctx.project(&GATED_QUERIES, il, x, [ctx.hidden(), 2 * rows[0]]);
            let q = ctx.g.slice(("Qcur_pre", il), both, heads, 0..width);
            let gate = ctx.g.slice(("gate", il), both, heads, width..2 * width);
            let [k, v] = [1, 2].map(|i| ctx.project(&linears[i], il, x, [ctx.hidden(), rows[i]]));
            return (Some(gate), [q, k, v]);
        }
        if ctx.in_layers("attn_qkv.bias") {
            return (None, fused_with_bias(ctx, il, x, rows));
        }
        let weights = if ctx.in_layers("attn_qkv.weight") {
            fused(ctx, il, rows)
        } else {
            let tensor = |i: usize| format!("blk.{il}.{}.weight", linears[i].tensor);
            [0, 1, 2].map(|i| ctx.g.weight(tensor(i), rows[i], ctx.hidden()))
        };
        (None, [0, 1, 2].map(|i| ctx.multiply(&linears[i], il, x, weights[i])))
    }

    fn norm_and_rope(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        mut x: ValueId,
        [normed, roped, biased]: [&'static str; 3],
        norm: &str,
        heads: usize,
    ) -> ValueId {
        match self.qk_norm {
            QkNorm::None | QkNorm::HeadAfterRope | QkNorm::HeadAfterRopeUnweighted => {}
            QkNorm::Head => x = ctx.head_norm((normed, il), x, norm, self.key_length),
            QkNorm::Row => {
                x = ctx.head_norm((normed, il), x, norm, heads * self.key_length);
                if ctx.in_layers(&format!("{norm}.bias")) {
                    let bias = format!("blk.{il}.{norm}.bias");
                    let bias = ctx.g.weight(bias, 1, heads * self.key_length);
                    x = ctx.g.add_bias((biased, il), x, bias);
                }
            }
        }
        if let Some(rope) = &self.rope {
            x = ctx.g.rope((roped, il), x, rope);
        }
        match self.qk_norm {
            QkNorm::HeadAfterRope => ctx.head_norm((normed, il), x, norm, self.key_length),
            QkNorm::HeadAfterRopeUnweighted => ctx.group_norm((normed, il), x, self.key_length, None),
            QkNorm::None | QkNorm::Head | QkNorm::Row => x,
        }
    }
}

/// Fails unless the KV heads of each layer, if any, divide its query heads.
pub(super) fn check_kv_heads(keys: &Keys<'_>, heads: &[usize], kv_heads: &[usize]) -> Result<(), Error> {
    let mut layers = heads.iter().zip(kv_heads);
    match layers.find(|&(heads, &kv_heads)| kv_heads > 0 && !heads.is_multiple_of(kv_heads)) {
        None => Ok(()),
        Some((heads, kv_heads)) => {
            let expected = format!("a divisor of the {heads} query heads");
            Err(keys.bad("attention.head_count_kv", kv_heads, expected))
        }
    }
}

fn fused_with_bias(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, rows: [usize; 3]) -> [ValueId; 3] {
    let (all, cols) = (rows.iter().sum(), ctx.hidden());
    let [weight, bias] = ["weight", "bias"].map(|part| format!("blk.{il}.attn_qkv.{part}"));
    let (weight, bias) = (ctx.g.weight(weight, all, cols), ctx.g.weight(bias, 1, all));
    let x = ctx.linear(("wqkv", il), x, weight);
    let x = ctx.g.add_bias(("bqkv", il), x, bias); // [rows, all]
    let mut first = 0;
    [("Qcur_pre", rows[0]), ("Kcur_pre", rows[1]), ("Vcur", rows[2])].map(|(name, cols)| {
        let range = first..first + cols;
        first = range.end;
        ctx.g.slice((name, il), x, 1, range)
    })
}

fn fused(ctx: &mut GraphContext<'_>, il: usize, rows: [usize; 3]) -> [WeightId; 3] {
    let (all, cols) = (rows.iter().sum(), ctx.hidden());
    let mut first = 0;
    rows.map(|rows| {
        let range = first..first + rows;
        first = range.end;
        ctx.g.weight_rows(format!("blk.{il}.attn_qkv.weight"), all, range, cols)
    })
}
