//! Multi-head latent attention (DeepSeek-AI 2024): the matrices of each head expand keys and values from one short vector.

use graph::{Mask, Pairing, Rope, Store, ValueId};

use super::{ATTN_OUTPUT, GraphContext, Growth, Linear, Mixer, Scaling, rope};
use crate::{Config, Error, Keys};

pub(crate) struct Latent {
    heads: usize,
    /// Columns of a query head without positions, with RoPE, and of a value head.
    widths: [usize; 3],
    /// Columns of the vector that keys and values of a row are made of, and of the one of queries, if any.
    rank: usize,
    query_rank: usize,
    /// The matrices of keys join the queries, those of values the result: heads share keys and values.
    is_absorbed: bool,
    rope: Rope,
    scale: f32,
    growth: Option<Growth>,
}

impl Latent {
    pub(crate) fn read(c: &Config, keys: &mut Keys<'_>) -> Result<Latent, Error> {
        let heads = keys.size("attention.head_count", "the number of query heads")?;
        let rank = keys.size("attention.kv_lora_rank", "the columns of a row's keys and values")?;
        let query_rank = keys.count("attention.q_lora_rank")?;
        let [key, value] = ["attention.key_length", "attention.value_length"]
            .map(|name| keys.size(name, "the columns of a head"));
        let is_absorbed = keys.has("attention.key_length_mla");
        let (mut key, mut value) = (key?, value?);
        if is_absorbed {
            key = keys.size("attention.key_length_mla", "the columns of a head")?;
            value = keys.size("attention.value_length_mla", "the columns of a head")?;
        }
        let pe = keys.size("rope.dimension_count", "the columns of a head with RoPE")?;
        let name = "rope.dimension_count";
        let nope = key.checked_sub(pe).filter(|&nope| nope > 0);
        let nope = nope.ok_or_else(|| keys.bad(name, pe, format!("less than a head's {key} columns")))?;
        let (mut rope, _) = rope::read(c, keys, pe, Pairing::Interleaved, &[Scaling::Linear, Scaling::Yarn])?;
        let multiplier = keys.float_or("rope.scaling.yarn_log_multiplier", 0.0)?;
        let stretch = (1.0 / rope.scale).ln().max(0.0);
        if rope.yarn.is_some() && multiplier > 0.0 {
            // The file has a tenth of the multiplier; queries and keys have the same, so that theirs cancel.
            rope.magnitude = keys.positive_or("rope.scaling.attn_factor", 1.0)?;
        }
        let sharpness = rope.magnitude * (1.0 + multiplier * stretch);
        let beta = keys.float_or("attention.temperature_scale", 0.0)?;
        let interval = keys.size_or("attention.temperature_length", c.context_length)?;
        Ok(Latent {
            heads,
            widths: [nope, pe, value],
            rank,
            query_rank,
            is_absorbed,
            rope,
            scale: sharpness * sharpness / (key as f32).sqrt(),
            growth: (beta != 0.0).then_some(Growth { beta, offset: 0.0, interval: interval as f32 }),
        })
    }

    fn queries(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let [nope, pe, _] = self.widths;
        let (hidden, cols) = (ctx.hidden(), self.heads * (nope + pe));
        let tensor = |name: &str| format!("blk.{il}.{name}.weight");
        if self.query_rank == 0 || ctx.in_layers("attn_q.weight") {
            let weight = ctx.g.weight(tensor("attn_q"), cols, hidden);
            return ctx.linear(("q", il), x, weight);
        }
        let weight = ctx.g.weight(tensor("attn_q_a"), self.query_rank, hidden);
        let q = ctx.linear(("q_a", il), x, weight); // [rows, query_rank]
        let q = ctx.head_norm(("q_a_normed", il), q, "attn_q_a_norm", self.query_rank);
        let weight = ctx.g.weight(tensor("attn_q_b"), cols, self.query_rank);
        ctx.linear(("q", il), q, weight)
    }
}

impl Mixer for Latent {
    fn output(&self, _: usize) -> (&'static Linear, usize) {
        (&ATTN_OUTPUT, self.heads * self.widths[2])
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let Latent { heads, rank, .. } = *self;
        let ([nope, pe, value], hidden) = (self.widths, ctx.hidden());
        let tensor = |name: &str| format!("blk.{il}.{name}.weight");
        let q = self.queries(ctx, il, x); // [rows, heads * (nope + pe)]
        let q_nope = ctx.g.slice(("q_nope", il), q, heads, 0..nope);
        let q_pe = ctx.g.slice(("q_pe_unroped", il), q, heads, nope..nope + pe);
        let q_pe = ctx.g.rope(("q_pe", il), q_pe, &self.rope);
        let [latent, k_pe] =
            [("kv_cmpr_pre", 0..rank), ("k_pe_unroped", rank..rank + pe)].map(|(name, range)| {
                let weight = ctx.g.weight_rows(tensor("attn_kv_a_mqa"), rank + pe, range, hidden);
                ctx.linear((name, il), x, weight)
            }); // [rows, rank], [rows, pe]
        let k_pe = ctx.g.rope(("k_pe", il), k_pe, &self.rope);
        let latent = ctx.head_norm(("kv_cmpr", il), latent, "attn_kv_a_norm", rank);
        let (q, kv, store) = if self.is_absorbed {
            let keys = ctx.g.weights(tensor("attn_k_b"), [heads, rank, nope]);
            let q = ctx.g.head_linear(("q_nope_absorbed", il), q_nope, keys); // [rows, heads * rank]
            let k = ctx.g.join(("Kcur", il), [latent, k_pe], 1, 1);
            (q, [k, latent], Store { heads: 1, k_dim: rank + pe, v_dim: rank, mask: Mask::Causal })
        } else {
            let expand = ctx.g.weight(tensor("attn_kv_b"), heads * (nope + value), rank);
            let kv = ctx.linear(("kv", il), latent, expand); // [rows, heads * (nope + value)]
            let k = ctx.g.slice(("k_nope", il), kv, heads, 0..nope);
            let v = ctx.g.slice(("Vcur", il), kv, heads, nope..nope + value);
            let k = ctx.g.join(("Kcur", il), [k, k_pe], heads, 1);
            (q_nope, [k, v], Store { heads, k_dim: nope + pe, v_dim: value, mask: Mask::Causal })
        };
        let mut q = ctx.g.join(("Qcur", il), [q, q_pe], heads, heads);
        if let Some(growth) = self.growth {
            q = growth.apply(ctx, il, q);
        }
        let store = ctx.g.store(store);
        let name = if self.is_absorbed { "kqv" } else { "kqv_out" };
        let y = ctx.g.attention((name, il), q, Some(kv), store, heads, self.scale);
        if !self.is_absorbed {
            return y;
        }
        let values = ctx.g.weights(tensor("attn_v_b"), [heads, value, rank]);
        ctx.g.head_linear(("kqv_out", il), y, values) // [rows, heads * value]
    }
}
