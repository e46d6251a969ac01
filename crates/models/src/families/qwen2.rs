//! Architecture `qwen2`: Qwen 1.5, 2 and 2.5, dense (Yang et al. 2024). Queries, keys and values usually have biases.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, PRE_NORM, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "qwen2", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
