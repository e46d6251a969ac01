//! Architecture `hunyuan-moe`: Hunyuan A13B (Tencent 2025). Heads are normed after RoPE; a shared expert stands beside the
//! others.

use graph::{Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Moe, PRE_NORM, QkNorm};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "hunyuan-moe",
    // Experts have the size of the dense network.
    harmless: &["expert_feed_forward_length", "expert_shared_count"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    moe.read_scale(keys)?;
    let widths = keys.sizes("feed_forward_length", "the hidden size of an expert", c.block_count)?;
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let attention = Attention {
        qk_norm: QkNorm::HeadAfterRope,
        ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?
    };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        let moe = Moe { shared: if shared > 0 { shared } else { ffn }, ..moe };
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| moe.mix(ctx, il, h, ffn))?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
