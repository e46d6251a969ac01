//! Architecture `glm4moe`: GLM 4.5 and 4.6 (Zhipu 2025). The first layers have a dense network, the others experts and a shared
//! one; the router adds a bias for the choice.

use graph::{Activation, Gating, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Layer, Moe, PRE_NORM, QkNorm, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "glm4moe",
    // Coordinates of images, which are all equal for text.
    harmless: &["rope.dimension_sections"],
    graph,
};

const LAYER: Layer = Layer { ffn_norm: "post_attention_norm", ..PRE_NORM };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let dense = keys.count("leading_dense_block_count")?;
    let mut moe = Moe::required(keys)?;
    moe.read_gating(keys, Gating::Sigmoid)?;
    moe.read_norm(keys)?;
    moe.read_scale(keys)?;
    let expert = keys.size("expert_feed_forward_length", "the hidden size of an expert")?;
    moe.shared = expert * keys.count("expert_shared_count")?;
    let mut attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    if ctx.in_layers("attn_q_norm.weight") {
        attention.qk_norm = QkNorm::Head;
    }

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = LAYER.build(&mut ctx, il, x, &attention, |ctx, h| match il < dense {
            true => Ok(feed_forward(ctx, il, h, ffn, Activation::Silu)),
            false => moe.mix(ctx, il, h, expert),
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
