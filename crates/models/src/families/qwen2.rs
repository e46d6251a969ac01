//! Architectures `qwen2`: Qwen 1.5, 2 and 2.5, dense (Yang et al. 2024), whose queries, keys and values usually have biases;
//! and `ernie4_5`: ERNIE 4.5, dense (Baidu 2025), which pairs neighbouring columns.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, PRE_NORM, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "qwen2",
    harmless: &[],
    graph: |c, keys, tensors| graph(c, keys, tensors, Pairing::Halves),
};

pub(super) const ERNIE_4_5: Family = Family {
    name: "ernie4_5",
    harmless: &[],
    graph: |c, keys, tensors| graph(c, keys, tensors, Pairing::Interleaved),
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>, pairing: Pairing) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let attention = Attention::read(c, keys, pairing, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
