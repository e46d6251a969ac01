//! Architecture `qwen3moe`: Qwen 3 with experts in every layer (Yang et al. 2025).

use graph::{Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Moe, PRE_NORM, QkNorm};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "qwen3moe",
    // The size of a dense feed-forward network, which no layer has.
    harmless: &["feed_forward_length"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let moe = Moe::required(keys)?;
    let widths = moe.widths(keys, c.block_count)?;
    let attention =
        Attention { qk_norm: QkNorm::Head, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| moe.mix(ctx, il, h, ffn))?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
