//! Architectures `qwen3`: Qwen 3, dense (Yang et al. 2025), and `qwen3vl`: the text part of Qwen 3 VL. Each query and key
//! head is normed before RoPE.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, PRE_NORM, QkNorm, feed_forward, labels};
use crate::{Config, Error, Keys, Tensors};

pub(super) const QWEN3: Family = Family {
    name: "qwen3",
    // The pooling of embedding models, which comes after everything else.
    harmless: &["pooling_type"],
    graph,
};

pub(super) const QWEN3VL: Family = Family {
    name: "qwen3vl",
    // The share of RoPE's pairs per coordinate of an image, which are all equal for text; layers that add image features.
    harmless: &["rope.dimension_sections", "n_deepstack_layers"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let attention =
        Attention { qk_norm: QkNorm::Head, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let labels = labels(keys)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    ctx.labels = labels;

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
